// Package gguf reads and writes GGUF model files: ordered metadata and named tensors, the tensors mapped from disk.
//
// Start with Open. Any member of a split set opens the whole set, and tensors of all its files appear in one list:
//
//	f, err := gguf.Open("model-00001-of-00003.gguf")
//	layers, err := f.Meta.Int("llama.block_count") // the error names file, key, found and wanted type
//	q, ok := f.Tensor("blk.0.attn_q.weight")       // q.Data is a window into the file
//
// What always holds after Open returns without an error:
//
//   - every tensor's type is known, its shape multiplies without overflow, and its Data has exactly the bytes of its
//     shape, inside the file, shared with no other tensor;
//   - no two tensors, and no two metadata keys of one file, have the same name;
//   - strings and arrays are copies: metadata outlives Close, tensor data does not.
//
// A file that breaks one of these is refused by an error that names the file, the thing (key 3 "general.name", tensor
// "output.weight"), the byte where it was met, what was found and what was expected. Lengths are checked against what
// the file can hold before anything is allocated.
//
// Data may start at any address and blocks are not padded, so read it as bytes (encoding/binary). What the bytes mean is
// package quant's affair; which keys and tensors a model needs is package model's.
package gguf
