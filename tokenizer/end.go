package tokenizer

// endTexts are the texts of tokens that end an answer, by themselves or with the turn. Files often name only one of
// them, so the others are known by their text, as in llama.cpp.
var endTexts = map[string]bool{
	"<|eot_id|>": true, "<|eom_id|>": true, "<|im_end|>": true, "<|end|>": true, "<|return|>": true, "<|call|>": true,
	"<|flush|>": true, "<|calls|>": true, "<end_of_turn>": true, "<|endoftext|>": true, "<|end_of_text|>": true,
	"<end_of_utterance>": true, "<turn|>": true, "<|tool_response>": true, "<｜end▁of▁sentence｜>": true, "[e~[": true,
	"_<EOT>": true,
	// of models that fill in the middle: padding, and where another file or repository would begin
	"<|fim_pad|>": true, "<fim-pad>": true, "<fim_pad>": true, "<|fim_repo|>": true, "<|repo_name|>": true,
	"<fim-repo>": true, "<reponame>": true, "<|file_sep|>": true,
}

// plainEndTexts end an answer only where the file says that they are control tokens: elsewhere they are ordinary text,
// such as the closing tag of HTML's <s>.
var plainEndTexts = map[string]bool{
	"</s>": true, "<eos>": true, "<EOT>": true, "[EOT]": true, "[EOS]": true, "<PAD>": true, "<REPO>": true,
}

// endTokens returns the tokens that end generation.
func endTokens(c *Config) map[int32]bool {
	ends := map[int32]bool{}
	text := map[string]int32{}
	for id, s := range c.Tokens {
		if s == "" || s[0] != '<' && s[0] != '[' && s[0] != '_' { // no text above begins otherwise
			continue
		}
		if endTexts[s] || plainEndTexts[s] && c.typeOf(id) == Control {
			ends[int32(id)] = true
			text[s] = int32(id)
		}
	}
	// Harmony and Solar end a message with <|end|> and go on; only these end the answer.
	_, ret := text["<|return|>"]
	_, call := text["<|call|>"]
	_, calls := text["<|calls|>"]
	_, flush := text["<|flush|>"]
	if end, ok := text["<|end|>"]; ok && (ret || flush) && (call || calls) {
		delete(ends, end)
	}
	for _, id := range []int32{c.EOS, c.EOT, c.EOM} {
		if id != None {
			ends[id] = true
		}
	}
	return ends
}
