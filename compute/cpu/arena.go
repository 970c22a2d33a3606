package cpu

// arena hands out buffers that all end together. It keeps its chunks, so a step in steady state allocates nothing.
type arena[T any] struct {
	chunks [][]T
	chunk  int // the one in use
	used   int // of it
}

// take returns n values of any content. A new chunk holds at least `chunk` values.
func (a *arena[T]) take(n, chunk int) []T {
	for ; a.chunk < len(a.chunks); a.chunk, a.used = a.chunk+1, 0 {
		if c := a.chunks[a.chunk]; a.used+n <= len(c) {
			a.used += n
			return c[a.used-n : a.used : a.used]
		}
	}
	a.chunks = append(a.chunks, make([]T, max(n, chunk)))
	a.used = n
	return a.chunks[a.chunk][:n:n]
}

// reset ends every buffer handed out.
func (a *arena[T]) reset() { a.chunk, a.used = 0, 0 }
