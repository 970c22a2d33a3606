package cpu

import "memra/compute"

// turns are the cosines and sines of a batch's rows.
type turns struct{ cos, sin []float32 }

// turned is the turns of a step's batch by a rope.
type turned struct {
	rope  *compute.Rope
	batch *compute.Batch
	turns
}

// turnsOf is the same for all layers of a step.
func (s *step) turnsOf(b *compute.Batch, r *compute.Rope) turns {
	for i := range s.turned {
		if t := &s.turned[i]; t.rope == r && t.batch == b {
			return t.turns
		}
	}
	t := turned{rope: r, batch: b}
	if b.Rows() > panelRows {
		t.cos, t.sin = r.Table(b.Positions)
	} else {
		t.turns = s.ropeCache(r).of(&s.arenas[0].rows, b.Positions)
	}
	s.turned = append(s.turned, t)
	return t.turns
}

// ropeCache keeps the turns of positions that a rope was asked for lately: those of a few rows come again, in the guesses from one place and in steps
// that follow them.
type ropeCache struct {
	rope      *compute.Rope
	positions [64]int32 // by position modulo 64; none: -1
	cos, sin  []float32 // [64, Dims/2]
}

// ropeCache is that of a rope. Few are in use at a time.
func (s *step) ropeCache(r *compute.Rope) *ropeCache {
	const most = 8
	for _, c := range s.ropes {
		if c.rope == r {
			return c
		}
	}
	c := &ropeCache{rope: r}
	for i := range c.positions {
		c.positions[i] = -1
	}
	n := len(c.positions) * r.Dims / 2
	c.cos, c.sin = make([]float32, n), make([]float32, n)
	if len(s.ropes) == most {
		s.ropes = s.ropes[:0]
	}
	s.ropes = append(s.ropes, c)
	return c
}

// of is the turns at positions, in memory that lasts as long as the arena.
func (c *ropeCache) of(a *arena[float32], positions []int32) turns {
	half := c.rope.Dims / 2
	t := turns{a.take(len(positions)*half, 1<<16), a.take(len(positions)*half, 1<<16)}
	for i, p := range positions {
		at := int(p) % len(c.positions)
		cos, sin := c.cos[at*half:][:half], c.sin[at*half:][:half]
		if c.positions[at] != p {
			c.positions[at] = p
			newCos, newSin := c.rope.Table([]int32{p})
			copy(cos, newCos)
			copy(sin, newSin)
		}
		copy(t.cos[i*half:], cos)
		copy(t.sin[i*half:], sin)
	}
	return t
}
