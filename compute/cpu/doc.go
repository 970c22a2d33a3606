// Package cpu computes on this machine's processor: one program for every CPU.
//
// Plain Go states each operation's exact sequence of roundings, in the files named below; assembly, where a CPU has it, must
// equal the Go bit for bit, so a model gives the same bytes on every machine and on any number of threads. Nothing here
// fuses a multiplication with an addition: products that are added to something are converted to float32 first, which
// forbids the compiler to fuse them.
//
// The class, operation by operation:
//
//	MatMul      quantised weights: activations quantised per 32 to int8 (panel.go), exact int32 sums per block, float32
//	            over blocks, ascending; float weights: float32, four partial sums (dot.go)
//	Logits      a matmul with about 16 bits of each activation (logits.go)
//	Norms       sixteen partial sums (norm.go)
//	Attention   pages ascending, splits of 1024 positions (attend.go)
//	GatedDelta  pages of 64 rows from the state that each begins with, one product after another (gateddelta.go)
//	CausalConv  taps ascending (conv.go)
//	Rope        tables in float64, rounded once (compute.Rope), products rounded, then the sum (rotate.go)
//	SwiGLU, GeGLU, softmax   one exponential, a stated polynomial (exp.go)
//	draws       package sample, a thread a row
//
// Weights are packed at load in groups of 16 outputs (pack.go), so that the lanes of a register are outputs and no sum crosses
// lanes.
package cpu
