package hf

import (
	"encoding/json"
	"fmt"
	"strings"

	"memra/tokenizer"
)

// characters is BPE over characters with bytes for what it lacks, and merges whose order no scores give: GGUF's kind gemma4.
func characters(path string, file *tokenizerJSON) (*vocab, error) {
	m, no := &file.Model, false
	fail := func(format string, args ...any) (*vocab, error) {
		return nil, fmt.Errorf("hf: %s: model: "+format, append([]any{path}, args...)...)
	}
	texts := map[string]int{}
	if err := json.Unmarshal(m.Vocab, &texts); err != nil {
		return fail("vocab: %w", err)
	}
	v := &vocab{kind: "gemma4", prefix: &no}
	var err error
	if v.tokens, err = byID(texts); err != nil {
		return fail("vocab: %w", err)
	}
	pairs, err := merges(m.Merges)
	if err != nil {
		return fail("merges: %w", err)
	}
	for i, p := range pairs {
		if strings.Contains(p[0]+p[1], " ") {
			return fail("merge %d is of %q and %q, want none with a space, which stands between them in GGUF", i, clip(p[0]), clip(p[1]))
		}
		v.merges = append(v.merges, p[0]+" "+p[1])
	}
	v.types, v.scores = make([]tokenizer.Type, len(v.tokens)), make([]float32, len(v.tokens))
	for id, text := range v.tokens {
		v.types[id], v.scores[id] = tokenizer.Normal, -1000 // no score counts
		if len(text) == 6 && strings.HasPrefix(text, "<0x") && text[5] == '>' {
			v.types[id] = tokenizer.Byte
		}
	}
	return v, nil
}

// visible are marks that readers of answers want to see: thoughts, calls of tools, quotes.
var visible = []string{"<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>", `<|"|>`}

// show makes marks part of what a model says.
func (v *vocab) show(marks []string) {
	for id, text := range v.tokens {
		for _, mark := range marks {
			if text == mark {
				v.types[id] = tokenizer.UserDefined
			}
		}
	}
}
