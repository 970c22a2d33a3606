package nearest

import "testing"

func TestTheNearestNameTakesTheFewestLetters(t *testing.T) {
	names := []string{"gemma3", "llama", "qwen2", "qwen2moe", "qwen3", "qwen35"}
	for _, c := range []struct{ name, want string }{
		{"qwen3moe", "qwen2moe"}, {"qwen3", "qwen3"}, {"lama", "llama"}, {"qwen4", "qwen2"}, {"gemma3n", "gemma3"},
		{"mamba9", ""}, {"", ""}, {"x", ""}, {"falcon", ""},
	} {
		if got := To(c.name, names); got != c.want {
			t.Errorf("%q is nearest to %q, want %q", c.name, got, c.want)
		}
	}
}
