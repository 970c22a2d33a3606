// Package sample says how a row of logits becomes a token: from the same row and history, always the same token.
//
// A Draw changes some logits (penalties, biases, banned tokens), filters the row (temperature, top-n-sigma, top-k, typical, top-p,
// min-p, XTC: docs/sampling.md), adds Gumbel noise, and takes the largest. A History knows the tokens so far and makes the draws:
//
//	h, err := sample.NewHistory(sample.Params{Temperature: 0.7, TopP: 0.95, RepeatPenalty: 1.1, Seed: 42}, vocab)
//	h.Append(prompt...)
//	var s sample.Sampler
//	pick := s.Draw(row, h.Draw()) // row: the logits of the prompt's last token
//	h.Append(pick.Token)
//
// The zero Params is greedy: the largest logit, the smallest token where several are equal.
//
// An engine keeps one History for each sequence. It asks h.Draw() for every row that is to give a token, sets LogProb, Top or Filtered as
// the request wants, and appends the token. For rows of drafts it appends each draft before it asks for that row's draw, and afterwards cuts
// the history back to what was accepted. Sequences that part take a Clone, whose draws may be given another Seed.
//
// The noise of a token is a function of (seed, position, token), and so is XTC's chance of (seed, position). There is no generator state,
// so a row gives the same token in any batch and after any resume (R4), and a draft is accepted exactly when it equals what a Draw gives.
// Penalties count tokens given and generated alike, for the same reason.
//
// LogProbs states how log-probabilities are made: of the raw row, before penalties, temperature and filters, or where Draw.Filtered
// asks for it of what is drawn from. Greedy decoding that does not ask for them pays for one scan of the row only. A Stopper finds
// stop strings in the text that follows.
//
// What always holds: the logarithm and the exponential are this package's own, made of float64 additions, products,
// divisions and bit operations in a stated order that Go may not fuse, so results are equal on every machine; no filter
// empties a row; a row with a NaN or a +Inf in it is refused, never sampled from. -Inf is a banned token.
//
// The package is the reference that devices answer to (compute.Device.Sample): the CPU calls it, CUDA gives its tokens and the
// bits of its log-probabilities. Sequences belong to their callers.
package sample
