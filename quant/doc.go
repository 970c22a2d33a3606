// Package quant holds the block formats of weights: their layout, how a block becomes numbers and numbers a block.
//
// It is plain Go, one file per format, and the truth that every backend's fast kernels are tested against:
//
//	f, err := quant.For(gguf.Q4_K)             // the error lists what is supported
//	bytes, err := f.RowBytes(width)            // width must be whole blocks
//	f.Dequantize(row, tensor.Data[r*bytes:][:bytes])
//
// Dequantize gives the same bits on every machine (no fused multiply-add) and the same bits as the gguf package of
// llama.cpp's authors; testdata, written by tools/oracle/quant.py, proves it for random and for odd blocks and for every
// pattern of bits that a scale can have. Quantize of the one-level formats (Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, MXFP4) equals
// that package byte for byte as well; the K formats, IQ4_NL and IQ4_XS search for a good fit of their own, with error bounds
// in the tests.
//
// To add a format, write one file that registers it: docs/quantisation.md.
package quant
