//go:build race

package tokenizer

// thin is how thin large tests are spread: one text of so many. The race detector makes sync.Pool forget, and all slow.
const thin = 20
