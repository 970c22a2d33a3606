package cuda

import (
	"fmt"
	"math"

	"memra/compute"
)

// AppendKV rounds to the cache's format. Keys that the last launch has turned it stores in turning them.
func (s *step) AppendKV(b *compute.Batch, kv compute.KV, k, v compute.Tensor) {
	m, in, t := kv.Memory.(*kvMemory), s.batch(b), s.tables(kv)
	s.appends(b, kv)
	format, keys := kvFormats[m.shape.Format], s.asRows(k)
	rope, turned := s.turning(keys, in.positions, m.shape.Heads)
	values := s.asRows(v) // may take launches of its own
	slots, stride, layers, layer := in.slots.arg(), i32(t.stride), i32(m.shape.Layers), i32(kv.Layer)
	if turned {
		args := [19]arg{12: m.at.arg(), values.arg(), slots, t.at.arg(), stride, layers, layer}
		for i, bits := range rope.args[:rope.count] {
			args[i] = arg{bits, rope.kernel.params[i]}
		}
		s.launch("rope_append_"+format, shape{grid: [3]int{int(rope.grid[0]), int(rope.grid[1])}, block: int(rope.block[0])}, args[:]...)
		return
	}
	s.launch("append_kv_"+format, shape{grid: grid(k.Rows, m.shape.Heads), block: 32},
		m.at.arg(), keys.arg(), values.arg(), in.positions.arg(), slots, t.at.arg(), stride, layers, layer, i32(m.shape.HeadDim))
}

// turning takes the last launch back, if it turns these keys.
func (s *step) turning(keys, positions pointer, heads int) (rope launch, turned bool) {
	s.fillIn()
	last := len(s.launches) - 1
	if last < 0 {
		return rope, false
	}
	rope = s.launches[last]
	if rope.kernel.name != "qk_norm_rope" || pointer(rope.args[ropeKeys]) != keys || pointer(rope.args[ropePositions]) != positions || rope.args[ropeKVHeads] != uint64(heads) {
		return rope, false
	}
	s.launches = s.launches[:last]
	return rope, true
}

// Attention gives an operand. Where the fast kernels exist, the batch is cut into their work (attention_plan.go); otherwise each row
// and KV head is a block of the plain one. They all keep kernels/attend.cu's order.
func (s *step) Attention(b *compute.Batch, q compute.Tensor, kv compute.KV, a compute.Attn) compute.Tensor {
	if gate := a.Gate; !gate.IsZero() {
		a.Gate = compute.Tensor{}
		out := s.Attention(b, q, kv, a)
		s.openGates(out, gate, kv.Memory.Shape().HeadDim)
		return out
	}
	m, t := kv.Memory.(*kvMemory), s.tables(kv)
	out, o := s.newOperand(q.Rows, q.Width, 1)
	heads, dim := m.shape.Heads, m.shape.HeadDim
	group := q.Width / dim / heads
	scale := float64(a.Scale)
	if a.Scale == 0 {
		scale = 1 / math.Sqrt(float64(dim))
	}
	in := s.asRows(q)
	rest := [10]arg{i32(t.stride), i32(m.shape.Layers), i32(kv.Layer), i32(heads), i32(group), i32(o.tile), f32(float32(scale * math.Log2E)), i32(a.Window),
		f32(float32(float64(a.Cap) / scale)), addressOf(a.Sinks).arg()}
	if m.plain {
		batch := s.batch(b)
		s.launch(fmt.Sprintf("attend_%d_%s", dim, kvFormats[m.shape.Format]), shape{grid: grid(heads*ceilDiv(group, 16), q.Rows), block: 128},
			append([]arg{o.operand.arg(), in.arg(), m.at.arg(), batch.positions.arg(), batch.slots.arg(), t.at.arg()}, rest[:]...)...)
		return out
	}
	p := s.attentionPlan(b, kv, group, a.Window)
	for i := range p.parts {
		part := &p.parts[i]
		if part.works == 0 {
			continue
		}
		args := [18]arg{o.operand.arg(), in.arg(), m.at.arg(), p.order.arg(), t.at.arg(), part.at.arg(), s.meeting(part, dim).arg(), m.arrivals.arg()}
		copy(args[8:], rest[:])
		s.launch(part.kernel, shape{grid: grid(part.blocks, part.works), block: part.block, shared: part.shared}, args[:]...)
	}
	return out
}

// meeting is the memory of a launch's partial results. If those are few, they lie where launches of any depth find them, and the step knows how much
// there is: attention in a program may have a place like that of its own (joinRope).
func (s *step) meeting(part *attendPart, dim int) pointer {
	const few, place = 128, 32 << 20 // entries: what kernels/attend_turned.cuh merges; and bytes
	entry := 4 * part.blocks * part.pairs * (dim + 2)
	memory, bytes := &s.attendedFew, few*entry
	noted := part.entries <= few && bytes <= place
	if !noted {
		memory, bytes = &s.attended, part.entries*entry
	}
	at, err := memory.room(s.Device, bytes, "partial results of attention")
	if err != nil {
		s.fail(err)
	}
	if noted {
		s.taken = append(s.taken, span{at: uint64(at), end: uint64(at) + uint64(bytes)})
	}
	return at
}
