// Package state keeps what sequences remember: a paged KV cache, and the states of delta nets.
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
// A delta net's layer remembers no position by itself, but a state that every row changes. Its page holds the state as the page's 64
// positions began, and what they put into it; so a sequence needs the page that it is in, and for a page's first row the one before. A
// step keeps the pages of its first row and of its last, and not those between: at most two pages a sequence, whatever its length.
// Rows of the last step, up to 64, can be dropped again (Truncate), which is how a rejected draft ends. To keep the state at a page's
// end, end a step there and Fork: the full page is shared, and never changes.
//
// A [Tree] remembers what sequences have computed, for others that begin with the same tokens: their pages stay until an Extend wants
// them, and on disk for longer (Tree.Spill).
//
// The arithmetic is exact: what a pool takes is known before it is made (Layout.Bytes), and an Extend that does not fit
// changes nothing and says how many pages it lacks.
package state
