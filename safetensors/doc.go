// Package safetensors reads and writes safetensors files: named arrays under a JSON header, mapped from disk.
//
// Open reads one file, OpenFolder all shards of a model folder:
//
//	f, err := safetensors.OpenFolder("SmolLM2-135M") // model.safetensors, or the shards that model.safetensors.index.json lists
//	t, ok := f.Tensor("model.embed_tokens.weight")   // t.Data is a window into the file
//
// What always holds after they return without an error:
//
//   - every tensor's type is known, its shape multiplies without overflow, and its Data has exactly the bytes of its
//     shape, inside the file;
//   - tensors share no byte, and no byte of the data belongs to no tensor (the format's own rule);
//   - no two tensors have the same name, in all shards together, and the index and its shards agree.
//
// A file that breaks one of these is refused by an error that names file, tensor, what was found and what was expected. The
// header's length is checked against the file, and against 100 MB as everywhere, before anything is read.
//
// What the bytes mean for a model, and how quantised weights are spread over several tensors, is package hf's affair.
package safetensors
