package sample

import (
	"math/rand/v2"
	"strings"
	"testing"
)

// plainStop is the definition: the match that ends first, of those the one that starts first.
func plainStop(text string, stops []string) (before string, found bool) {
	for end := range len(text) + 1 {
		longest := -1
		for _, s := range stops {
			if strings.HasSuffix(text[:end], s) {
				longest = max(longest, len(s))
			}
		}
		if longest >= 0 {
			return text[:end-longest], true
		}
	}
	return text, false
}

func feed(t *testing.T, s *Stopper, pieces ...string) (out string, stopped bool) {
	t.Helper()
	for _, p := range pieces {
		text, now := s.Feed(p)
		if stopped && (text != "" || !now) {
			t.Fatalf("Feed after the stop returned %q, %v", text, now)
		}
		out += text
		stopped = now
	}
	return out + s.Flush(), stopped
}

func TestStopStringsAreFoundHoweverTheTextIsCut(t *testing.T) {
	for _, c := range []struct {
		name, text string
		stops      []string
		want       string
		found      string
	}{
		{"none", "hello", nil, "hello", ""},
		{"one", "hello world", []string{"wor"}, "hello ", "wor"},
		{"at the very start", "###", []string{"#"}, "", "#"},
		{"only its beginning comes", "ab<|im_", []string{"<|im_end|>"}, "ab<|im_", ""},
		{"a false start inside a true one", "aaab", []string{"aab"}, "a", "aab"},
		{"the earlier end wins", "xabcdx", []string{"abcd", "bc"}, "xa", "bc"},
		{"at one end the longer wins", "xabcx", []string{"bc", "abc", "c"}, "x", "abc"},
		{"a prefix of another wins first", "xabc", []string{"abc", "a"}, "x", "a"},
		{"a suffix found through a failed longer one", "abcx bd", []string{"abcy", "bcx"}, "a", "bcx"},
		{"code points", "größer als", []string{"ßer"}, "grö", "ßer"},
		{"bytes shared between code points", "è é", []string{"é"}, "è ", "é"},
		{"newlines", "a\n\nb", []string{"\n\n"}, "a", "\n\n"},
		{"the same twice", "abc", []string{"b", "b"}, "a", "b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if want, _ := plainStop(c.text, c.stops); want != c.want {
				t.Fatalf("the definition gives %q, the case says %q", want, c.want)
			}
			s, err := NewStopper(c.stops...)
			if err != nil {
				t.Fatal(err)
			}
			for i := range len(c.text) + 1 {
				for j := i; j <= len(c.text); j++ {
					s.Reset()
					got, stopped := feed(t, s, c.text[:i], c.text[i:j], c.text[j:])
					if got != c.want || stopped != (c.found != "") {
						t.Fatalf("cut at %d and %d: %q, %v, want %q, %v", i, j, got, stopped, c.want, c.found != "")
					}
					if m, ok := s.Matched(); m != c.found || ok != stopped {
						t.Fatalf("cut at %d and %d: matched %q, want %q", i, j, m, c.found)
					}
				}
			}
		})
	}
}

func TestOnlyTheBeginningOfAStopStringIsHeldBack(t *testing.T) {
	s, err := NewStopper("<|end|>", "abab")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ piece, want string }{
		{"hello <", "hello "}, {"|e", ""}, {"x", "<|ex"}, {"aba", ""}, {"c", "abac"}, {"ab", ""}, {"aab", "aba"[:3]}, {"z", "abz"},
	} {
		if text, _ := s.Feed(c.piece); text != c.want {
			t.Fatalf("after %q: %q, want %q", c.piece, text, c.want)
		}
	}
}

func TestStopperAgreesWithItsDefinition(t *testing.T) {
	r := rand.New(rand.NewPCG(31, 32))
	word := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = "ab\xff"[r.IntN(3)]
		}
		return string(b)
	}
	for range 3000 {
		var stops []string
		for range 1 + r.IntN(4) {
			stops = append(stops, word(1+r.IntN(6)))
		}
		s, err := NewStopper(stops...)
		if err != nil {
			t.Fatal(err)
		}
		text := word(r.IntN(30))
		var pieces []string
		for rest := text; rest != ""; {
			n := 1 + r.IntN(len(rest))
			pieces, rest = append(pieces, rest[:n]), rest[n:]
		}
		want, found := plainStop(text, stops)
		if got, stopped := feed(t, s, pieces...); got != want || stopped != found {
			t.Fatalf("stops %q, pieces %q: %q, %v, want %q, %v", stops, pieces, got, stopped, want, found)
		}
	}
}

func TestEmptyStopStringsAreRefused(t *testing.T) {
	if _, err := NewStopper("a", ""); err == nil || !strings.Contains(err.Error(), "stop string 2 of 2 is empty") {
		t.Errorf("error %v", err)
	}
}
