package tokenizer

// Fill are the tokens by which a model is asked for the middle of a text: Prefix, what stands before, Suffix, what stands after,
// Middle. The model goes on with what belongs between.
type Fill struct{ Prefix, Suffix, Middle int32 }

// fillTexts are the texts of such tokens, of the families that have them: those that llama.cpp knows.
var fillTexts = [...][3]string{
	{"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"}, // Qwen, CodeGemma, the built-in model
	{"<fim_prefix>", "<fim_suffix>", "<fim_middle>"},       // StarCoder, Granite
	{"<fim-prefix>", "<fim-suffix>", "<fim-middle>"},
	{"<｜fim▁begin｜>", "<｜fim▁hole｜>", "<｜fim▁end｜>"},
	{"<PRE>", "<SUF>", "<MID>"},
	{"▁<PRE>", "▁<SUF>", "▁<MID>"},                            // CodeLlama
	{"<|code_prefix|>", "<|code_suffix|>", "<|code_middle|>"}, // GLM
	{"<|prefix|>", "<|suffix|>", "<|middle|>"},
}

// named are the tokens that the file names.
func (c *Config) named() Fill {
	if c.Fill == nil {
		return Fill{None, None, None}
	}
	return *c.Fill
}

// fillTokens returns the tokens that the file names (Config.Fill), and for those that it does not the ones known by their texts, of
// the first family all of whose texts are there. Tokens without which nothing can be filled are None.
func fillTokens(c *Config) Fill {
	named := c.named()
	if named.Prefix != None && named.Suffix != None && named.Middle != None {
		return named
	}
	at := map[string]int32{} // of the texts above; the first token of a text counts
	for _, texts := range fillTexts {
		for _, s := range texts {
			at[s] = None
		}
	}
	for id, s := range c.Tokens {
		if old, known := at[s]; known && old == None {
			at[s] = int32(id)
		}
	}
	for _, texts := range fillTexts {
		if p, s, m := at[texts[0]], at[texts[1]], at[texts[2]]; p != None && s != None && m != None {
			return Fill{or(named.Prefix, p), or(named.Suffix, s), or(named.Middle, m)}
		}
	}
	return named
}

// Fill returns the tokens that ask for the middle of a text; ok is false if the vocabulary lacks one.
func (t *Tokenizer) Fill() (f Fill, ok bool) {
	f = t.fill
	return f, f.Prefix != None && f.Suffix != None && f.Middle != None
}
