// Package tokenizer turns text into the tokens that a model was trained on, and back.
//
// Start with FromGGUF for a model file, OpenHF for a Hugging Face folder, or New where the vocabulary comes from elsewhere:
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
// GGUF names the kind of vocabulary. Byte-level BPE (GPT-2, Llama 3, Qwen, SmolLM) first cuts the text into words; how is
// not in the file, only the name of the pre-tokeniser is, and a name that is not known here is refused. The patterns are
// hand-written scanners that mean what each model's tokenizer.json says. SentencePiece BPE (Llama 2, Gemma) merges
// characters by score and spells what it lacks in bytes; Gemma 4 merges them by a list. Unigram (T5) and WordPiece (BERT)
// are there for the models that embed text.
//
// tokenizer.json describes the whole way: a normaliser, a pre-tokeniser, a model, a post-processor that adds start and end
// tokens, a decoder, and tokens that are found before all that. FromHF builds it of the same parts, and has Hugging Face's
// regular expressions (regex.go says which part of Oniguruma's). Truncation and padding are for whoever fills batches.
//
// What always holds:
//
//   - Encode takes any string (below 2 GB), in time that grows as n log n with its length, and never fails.
//   - Encoding without ParseSpecial never makes a special token, but for the unknown one: text from strangers stays text.
//     Added tokens that are text (UserDefined: runs of spaces, HTML tags) are found either way.
//   - Decode(Encode(s)) is s for valid UTF-8 where the kind promises that: byte-level BPE, and BPE over characters with bytes
//     for what it lacks, without a normaliser that loses something. With two exceptions: byte-level vocabularies may lack
//     bytes that training never saw (SmolLM2: six control characters and planes 4 to 11 of Unicode); they vanish, as in
//     Hugging Face's implementation. SentencePiece writes a space as U+2581, so that a U+2581 in the text comes back as a
//     space.
//   - A Detokenizer emits whole code points only, and in sum exactly what Decode returns.
//   - What is not known is refused by name: a kind, a pre-tokeniser, a component, a parameter, a regular expression.
//   - A Tokenizer never changes: use it from any number of goroutines.
//
// A byte-level GGUF file that names no pre-tokeniser (tokenizer.ggml.pre absent or "default": converted before 2024, such as
// llama.cpp's own vocabulary of GPT-NeoX) is refused too. llama.cpp warns that quality will be degraded, and cuts by a
// pattern that no model was trained with. Convert the model again, or set the key to the right name ("olmo" for GPT-NeoX).
//
// Where implementations differ, this package does the following. Added tokens are found leftmost first, of several that
// start together the longest, as in Hugging Face's; llama.cpp looks for the longest token anywhere first, which differs
// when two overlap. Bytes that the vocabulary lacks are skipped before merging, so that their neighbours may merge, as
// in Hugging Face's; llama.cpp does not merge across. Invalid UTF-8 is encoded as the bytes that it is; llama.cpp
// replaces it by U+FFFD first. SentencePiece text after a special token gets its space in front, as in llama.cpp and in
// Hugging Face's legacy mode. The text "</s>" is a token that ends generation only where the file says so; llama.cpp
// takes Gemma's closing tag of HTML for one. BERT's normaliser is Hugging Face's, for GGUF files too. Scores of unigram
// models add up in float64, as there and in llama.cpp; sentencepiece adds float32, which decides between equally good ways.
// Whether a start token is added is the post-processor's word where tokenizer.json has one, as in transformers;
// add_bos_token of tokenizer_config.json counts where it has none. An added token in GPT-2's alphabet ("É") decodes to
// itself; Hugging Face reads it as a byte. Unicode's properties are those of Go's version; Hugging Face's punctuation
// and accents are of Unicode 8.
//
// Which prompt to encode is package chat's affair. A template often writes the start token itself: encode its output
// without AddSpecial.
package tokenizer
