// Package state keeps what sequences remember: a paged KV cache.
//
// A [Layout] says what each layer of a model stores. A [Pool] holds the pages of all sequences on a device; a [Sequence] is a
// list of pages per kind of layer, and grows as tokens come:
//
//	pool, err := state.NewPool(device, family.State(), state.Config{Positions: 4096, Sequences: 1, Step: 256})
//	s := pool.NewSequence()
//	err = s.Extend(len(tokens)) // room for the rows of the next step
//	view := pool.View(s)        // what Forward gets; s is slot 0
//
// A page holds 64 positions (compute.Page) of all layers of one kind. Layers with a window are a kind of their own: their pages
// are freed as soon as no later row can see them. Pages are shared by reference count: a fork costs one page at most, copied
// when one of the two writes to it.
//
// The arithmetic is exact: what a pool takes is known before it is made (Layout.Bytes), and an Extend that does not fit
// changes nothing and says how many pages it lacks.
package state
