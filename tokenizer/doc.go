// Package tokenizer turns text into the tokens that a model was trained on, and back.
//
// Start with FromGGUF, or New where the vocabulary comes from elsewhere:
//
//	t, err := tokenizer.FromGGUF(file.Meta)
//	ids := t.Encode(prompt, tokenizer.Options{AddSpecial: true, ParseSpecial: true})
//	out := t.Detokenizer(tokenizer.DecodeOptions{Continues: true})
//	for id := range generated {
//		if t.IsEnd(id) {
//			break
//		}
//		fmt.Print(out.Next(id))
//	}
//	fmt.Print(out.Flush())
//
// Two kinds of vocabulary are known. Byte-level BPE (GPT-2, Llama 3, Qwen, SmolLM) first cuts the text into words; how is
// not in the file, only the name of the pre-tokeniser is, and a name that is not known here is refused. The patterns are
// hand-written scanners that mean what each model's tokenizer.json says. SentencePiece BPE (Llama 2, Gemma) merges
// characters by score and spells what it lacks in bytes.
//
// What always holds:
//
//   - Encode takes any string (below 2 GB), in time that grows as n log n with its length, and never fails.
//   - Encoding without ParseSpecial never makes a special token: text from strangers stays text. Added tokens that are
//     text (UserDefined: runs of spaces, HTML tags) are found either way.
//   - Decode(Encode(s)) is s for valid UTF-8, with two exceptions. Byte-level vocabularies may lack bytes that training
//     never saw (SmolLM2: six control characters and planes 4 to 11 of Unicode); they vanish, as in Hugging Face's
//     implementation. SentencePiece writes a space as U+2581, so that a U+2581 in the text comes back as a space.
//   - A Detokenizer emits whole code points only, and in sum exactly what Decode returns.
//   - A Tokenizer never changes: use it from any number of goroutines.
//
// Where implementations differ, this package does the following. Added tokens are found leftmost first, of several that
// start together the longest, as in Hugging Face's; llama.cpp looks for the longest token anywhere first, which differs
// when two overlap. Bytes that the vocabulary lacks are skipped before merging, so that their neighbours may merge, as
// in Hugging Face's; llama.cpp does not merge across. Invalid UTF-8 is encoded as the bytes that it is; llama.cpp
// replaces it by U+FFFD first. SentencePiece text after a special token gets its space in front, as in llama.cpp and in
// Hugging Face's legacy mode. The text "</s>" is a token that ends generation only where the file says so; llama.cpp
// takes Gemma's closing tag of HTML for one.
//
// Which prompt to encode is package chat's affair. A template often writes the start token itself: encode its output
// without AddSpecial.
package tokenizer
