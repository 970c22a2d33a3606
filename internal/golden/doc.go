// Package golden reads what the oracle scripts in tools/oracle recorded, and says how far our logits are from it.
//
// Load reads the logits of a real model in float32 transformers: at each of 2,048 positions the log-probabilities of the
// 128 likeliest tokens and of all others together. A test gives the model the tokens of a window and compares each row:
//
//	g, err := golden.Load("testdata/SmolLM2-135M-Instruct.Q4_1.golden.gz")
//	kl, same := g.Compare(window, position, logits) // logits after g.Tokens[window][:position+1]
//
// LoadTiny reads a tiny random model, as a GGUF file in memory, with float64 transformers' logits for three prompts.
//
// Both formats are stated in tools/oracle/README.md. For tests only.
package golden
