// Package hf reads Hugging Face model folders as if they were GGUF files.
//
//	f, err := hf.Open("SmolLM2-135M-Instruct")
//	m, err := model.Open(f, device) // a Folder is a model.Source
//
// Metadata has GGUF's keys, Tensors GGUF's names, types, shapes and orders of rows, so that whatever reads a GGUF file reads a
// folder. What is translated:
//
//   - config.json, with text_config laid over it: sizes, rotary embedding (linear, llama3, yarn, partial), windows. A setting
//     that changes what a model computes, and that the family does not know, is refused by name.
//   - Tensor names. Rows of a llama's queries and keys move so that a rotary pair is two neighbours; Gemma's gains become what
//     multiplies (1 + w); vectors become F32. Towers for pictures and sound are left out.
//   - Quantised weights. MXFP4 and NVFP4 become GGUF's blocks of the same name, bit for bit (NVFP4's factor of a whole matrix
//     is the tensor NAME.scale, that of its inputs NAME.input_scale, as llama.cpp writes them). FP8 and INT8 with scales become BF16 where every scale is a power of
//     two, which loses nothing, else F32: each value is code times scale, rounded once, as the checkpoint's own reader
//     does it. Scales of activations and of the KV cache are not used: activations are not quantised that way here.
//   - tokenizer.json, tokenizer.model, tokenizer_config.json, special_tokens_map.json, generation_config.json, and the chat
//     template: chat_template.jinja, else chat_template.json, else the one in tokenizer_config.json.
//
// Weights stay in the file until they are asked for; those that are computed are computed with each call (gguf.Tensor.Make).
//
// A new family is an entry in the table of families.go.
package hf
