// Package quantize writes a model file, of whatever kind, as a GGUF file in smaller formats: for each matrix the one that llama.cpp's mix of that name takes.
//
//	err := quantize.Write(ctx, source, "small.gguf", quantize.Options{Mix: "Q4_K_M"})
//
// A mix is a format and rules by which some matrices get more bits: those that the output is most sensitive to. Start with Plan,
// which says what each tensor becomes; Write does it, a tensor at a time, on all processors. Importance of columns, as
// llama.cpp's llama-imatrix measures it, comes from ReadImportance.
//
// What always holds: the metadata is the source's, but for general.file_type and general.quantization_version (and split.*, for
// what is written is one file); the file appears whole or not at all; a tensor that stays as it is keeps its bytes; the same
// source and options give the same bytes, whatever the number of threads.
//
// How blocks are encoded is package quant's affair.
package quantize
