//go:build !race

package tokenizer

const thin = 1
