package engine

// Aside runs f between two steps, as Between does, with room in the pool for a sequence of f's own of so many positions. Sequences that run give up
// their pages for it if need be, the youngest first, and are computed again. f frees what it takes.
func (e *Engine) Aside(positions int, f func() error) error {
	return e.Between(func() error {
		s := e.scheduler
		for need := s.pool.Takes(positions); !need.Within(s.pool.Free()) && len(s.running) > 0; {
			s.preempt(s.running[len(s.running)-1])
		}
		return f()
	})
}
