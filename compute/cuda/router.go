package cuda

import (
	"fmt"

	"memra/compute"
)

// maxExperts is how many kernels/router.cu sorts by.
const maxExperts = 1024

// routes are rows' experts, by falling key, and their weights: [rows][chosen], int32 and float32.
type routes struct {
	experts, weights pointer
	late             func() // makes them, when somebody reads them: matmuls of what the router multiplies stay neighbours; nil: they are there
}

// routes are a step's routes.
func (s *step) routes(r compute.Routes) *routes {
	m := r.Mem.(*routes)
	if m.late != nil {
		m.late()
		m.late = nil
	}
	return m
}

// Router: a matmul, then route; kernels/router.cu states the order.
func (s *step) Router(x compute.Tensor, w compute.Weight, o compute.Routing) compute.Routes {
	products, n := mem(s.MatMul(x, w)), x.Rows*o.Chosen
	r := &routes{experts: s.take(s.at, 4*n), weights: s.take(s.at, 4*n)}
	if w.Rows > maxExperts || o.Chosen > w.Rows {
		s.fail(fmt.Errorf("cuda: %d of %d experts, want at most all of %d", o.Chosen, w.Rows, maxExperts))
	}
	r.late = func() {
		s.launch("route", shape{grid: grid(ceilDiv(x.Rows, 4), 1), block: 128, shared: 4 * 3 * 4 * w.Rows},
			r.experts.arg(), r.weights.arg(), products.rows.arg(), products.bias.arg(), addressOf(o.ChoiceBias).arg(), addressOf(o.Scales).arg(), i32(w.Rows), i32(o.Chosen), i32(x.Rows),
			flag(o.Score == compute.Sigmoid), flag(o.Normalise), f32(o.Scale), i32(o.Groups), i32(o.KeptGroups))
	}
	return compute.Routes{Rows: x.Rows, Chosen: o.Chosen, Mem: r}
}
