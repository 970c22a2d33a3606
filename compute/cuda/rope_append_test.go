package cuda

import (
	"bytes"
	"fmt"
	"testing"

	"memra/compute"
)

// turner turns and stores rows of two sequences, whose keys are stored by the kernel that turns them, or by one of their own.
type turner struct {
	kv   compute.KV
	rope *compute.Rope
	gain compute.Vector
	q, k int // heads
	dim  int
}

func newTurner(t testing.TB, d *Device, format compute.KVFormat, dim int) *turner {
	t.Helper()
	m := &turner{q: 5, k: 2, dim: dim, gain: d.Vector(random(dim, 5)), kv: compute.KV{Tables: [][]int32{{0, 3}, {2, 1}}}}
	var err error
	if m.rope, err = compute.NewRope(compute.RopeParams{Base: 10000, Dims: dim / 2}); err != nil {
		t.Fatal(err)
	}
	if m.kv.Memory, err = d.NewKV(compute.KVShape{Layers: 1, Heads: m.k, HeadDim: dim, Format: format}, 4); err != nil {
		t.Fatal(err)
	}
	return m
}

// run gives the turned queries; something is recorded between the two operations if they are to be apart.
func (m *turner) run(t testing.TB, d *Device, rows int, apart bool) []float32 {
	t.Helper()
	var b compute.Batch
	for r := range rows {
		b.Add(0, 60+r/3, r%3-1, false) // rows of no sequence, too
	}
	values := func(heads, seed int) []float32 { return random(rows*heads*m.dim, uint64(seed)) }
	q, k, v := values(m.q, 1), values(m.k, 2), values(m.k, 3)
	k[1] = 1e6 // beyond f16
	return d.compute(t, func(s *step) compute.Tensor {
		values := s.tensor(v, m.k*m.dim)
		turned, keys := s.QKNormRope(&b, s.tensor(q, m.q*m.dim), s.tensor(k, m.k*m.dim), compute.QK{HeadDim: m.dim, Rope: m.rope, QNorm: m.gain, KNorm: m.gain, Eps: 1e-5})
		if apart {
			values = s.Columns(values, 0, values.Width)
		}
		s.AppendKV(&b, m.kv, keys, values)
		return turned
	})
}

func TestKeysAreStoredAsTheyAreTurned(t *testing.T) {
	d := gpu(t)
	for format, name := range kvFormats {
		for _, dim := range []int{64, 128, 512} {
			t.Run(fmt.Sprint(name, dim), func(t *testing.T) {
				apart, together := newTurner(t, d, format, dim), newTurner(t, d, format, dim)
				bitsEqual(t, "queries", together.run(t, d, 40, false), apart.run(t, d, 40, true))
				want, got := make([]byte, apart.kv.Memory.Shape().PageBytes()), make([]byte, apart.kv.Memory.Shape().PageBytes())
				stored := false
				for page := range apart.kv.Memory.Pages() {
					if err := apart.kv.Memory.Read(page, want); err != nil {
						t.Fatal(err)
					}
					if err := together.kv.Memory.Read(page, got); err != nil {
						t.Fatal(err)
					}
					if !bytes.Equal(got, want) {
						t.Errorf("page %d differs", page)
					}
					stored = stored || bytes.ContainsFunc(want, func(r rune) bool { return r != 0 })
				}
				if !stored {
					t.Error("nothing is stored")
				}
			})
		}
	}
}

func TestTurningAndStoringIsOneLaunch(t *testing.T) {
	f := newFake()
	d := openFake(t, f)
	m := newTurner(t, d, compute.KVF16, 64)
	m.run(t, d, 4, false)
	if f.launched["rope_append_f16"] != 1 || f.launched["append_kv_f16"] != 0 {
		t.Errorf("launched %v, want rope_append_f16 once", f.launched)
	}
	m.run(t, d, 4, true)
	if f.launched["append_kv_f16"] != 1 {
		t.Errorf("launched %v, want append_kv_f16 where something lies between", f.launched)
	}
}
