package jinja

import (
	"testing"
	"unicode/utf8"

	"memra/internal/bounded"
)

// FuzzRender looks for a template that panics, or takes more time or memory than it may.
func FuzzRender(f *testing.F) {
	sources, _, vars := readSnippets(f)
	for _, source := range sources {
		f.Add(source)
	}
	f.Fuzz(func(t *testing.T, source string) {
		if !utf8.ValidString(source) {
			t.Skip() // chat.Parse replaces what is not
		}
		var text string
		var err error
		bounded.Read(t, len(source), func() { text, err = render(source, vars) })
		if err == nil && !utf8.ValidString(text) {
			t.Errorf("%q is not UTF-8", text)
		}
	})
}
