// Package sample turns a row of logits into a token: from the same row, always the same token.
//
// A Sampler filters the row (temperature, top-k, top-p, min-p), adds Gumbel noise, and takes the largest:
//
//	s, err := sample.New(sample.Params{Temperature: 0.7, TopP: 0.95, Seed: 42})
//	token, err := s.Pick(row, position)
//
// The zero Params is greedy: the largest logit, the smallest token where several are equal.
//
// The noise of a token is a function of (seed, position, token). There is no generator state, so a row gives the same
// token in any batch and after any resume (R4), and a draft is accepted exactly when it equals what Pick returns.
//
// LogProbs is the one source of log-probabilities: of the raw row, before temperature and filters. Greedy decoding that
// does not ask for them pays for one scan of the row only. A Stopper finds stop strings in the text that follows.
//
// What always holds: the logarithm and the exponential are this package's own, made of float64 additions, products,
// divisions and bit operations in a stated order that Go may not fuse, so results are equal on every machine; no filter
// empties a row; a row with a NaN or a +Inf in it is refused, never sampled from. -Inf is a banned token.
//
// Sequences belong to package engine, masks to package grammar. compute/cuda is tested against this package.
package sample
