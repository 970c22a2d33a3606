// Package spec guesses the tokens that follow a sequence, so that a step can compute several of its rows at once.
//
// A [Drafter] guesses: [Lookup] from what the sequence itself says, [Head] by a layer that came with the model for that, [Small] by
// another model. A [Speculator] decides how far ahead each sequence is guessed, and learns from what becomes of it:
//
//	sp := spec.New(drafter, 8, device.Padded)
//	q := sp.Begin()                                     // of one sequence
//	err := sp.Draft(decoding, []*spec.Ask{{Sequence: q, Tokens: tokens, Most: 8, Draw: draw}})
//	...                                                 // a step computes the last token and the ask's Drafts, each row with its draw
//	waited, err := sp.Await()                           // once it has been begun: the last guesses are known
//	sp.Verified(q, drafted, accepted)                   // those that came out as drawn
//	sp.Took(rows, duration)                             // without what was waited
//
// A draft is right if it is the token that is drawn from the row before it (R4). Nothing else is asked of it, so guesses need no
// exactness, nor does what a drafter remembers: it may forget, begin in the middle of a text, or have no room. What the model
// answers cannot tell. Guesses are drawn with the noise that the model's own draws will have, which makes them agree more often.
//
// How deep pays is arithmetic on what was measured ([Speculator]): how long steps of so many rows take, how long guessing takes, and how
// often guesses came true at each depth. Where none pays, nothing is guessed, and tried again now and then.
package spec
