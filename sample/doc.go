// Package sample says how a row of logits becomes a token: from the same row, always the same token.
//
// A Draw filters the row (temperature, top-k, top-p, min-p), adds Gumbel noise, and takes the largest:
//
//	var s sample.Sampler
//	pick := s.Draw(row, sample.Draw{Params: sample.Params{Temperature: 0.7, TopP: 0.95, Seed: 42}, Position: position})
//
// The zero Params is greedy: the largest logit, the smallest token where several are equal.
//
// The noise of a token is a function of (seed, position, token). There is no generator state, so a row gives the same
// token in any batch and after any resume (R4), and a draft is accepted exactly when it equals what a Draw gives.
//
// LogProbs states how log-probabilities are made: of the raw row, before temperature and filters. Greedy decoding that
// does not ask for them pays for one scan of the row only. A Stopper finds stop strings in the text that follows.
//
// What always holds: the logarithm and the exponential are this package's own, made of float64 additions, products,
// divisions and bit operations in a stated order that Go may not fuse, so results are equal on every machine; no filter
// empties a row; a row with a NaN or a +Inf in it is refused, never sampled from. -Inf is a banned token.
//
// The package is the reference that devices answer to (compute.Device.Sample): the CPU calls it, CUDA gives its tokens and the
// bits of its log-probabilities. Sequences belong to their callers.
package sample
