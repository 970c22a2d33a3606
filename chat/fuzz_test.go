package chat

import (
	"encoding/json"
	"testing"
	"unicode/utf8"

	"memra/internal/bounded"
)

// FuzzTemplate looks for templates and conversations that panic, that take more time or memory than they may, or that make text
// which is not UTF-8.
func FuzzTemplate(f *testing.F) {
	g := readGoldens(f)
	for template := range g.Goldens {
		source := readTemplate(f, template).Source()
		for _, name := range []string{"turns", "two calls"} {
			messages, err := json.Marshal(g.Cases[name].Messages)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(source, string(messages), true)
		}
	}
	f.Fuzz(func(t *testing.T, source, messages string, prompt bool) {
		in := Input{AddGenerationPrompt: prompt, ContinueFinalMessage: !prompt, BOS: "<s>", Now: g.Now}
		if json.Unmarshal([]byte(messages), &in.Messages) != nil {
			in.Messages = []Message{{Role: "user", Content: messages}}
		}
		in.Tools = g.Cases["odd tools"].Tools
		var text string
		var err error
		bounded.Read(t, len(source)+len(messages), func() {
			var parsed *Template
			if parsed, err = Parse(source); err == nil {
				text, err = parsed.Render(in)
			}
		})
		if err == nil && !utf8.ValidString(text) {
			t.Errorf("%q is not UTF-8", text)
		}
	})
}
