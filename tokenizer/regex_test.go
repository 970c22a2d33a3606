package tokenizer

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestScannersMeanTheirPatterns runs the regular expressions of the families we know beside their scanners.
func TestScannersMeanTheirPatterns(t *testing.T) {
	texts := slices.Concat(golden[[]string](t, "texts.json.gz"), hfTexts()[:1500/thin])
	for pattern, known := range knownPatterns {
		r, err := compileRegex(pattern)
		if err != nil {
			t.Fatal(err)
		}
		scan := known.scanner()
		for _, text := range texts {
			var want, got []int
			for _, s := range matcher(r.matches).spans(text, false).all {
				if known.whole && !s.match {
					t.Errorf("%s does not match all of %q", pattern, text)
				}
				want = append(want, s.end-s.start)
			}
			split(text, []scanner{scan}, func(piece string) { got = append(got, len(piece)) })
			if !slices.Equal(got, want) {
				t.Errorf("%s\ncuts %q\nas  %q, its scanner\nas  %q", pattern, text, cutAt(text, want), cutAt(text, got))
				break
			}
		}
	}
}

// TestRegexAgreesWithGo compares with Go's engine, where that has the syntax: it prefers the same match.
func TestRegexAgreesWithGo(t *testing.T) {
	texts := slices.Concat(golden[[]string](t, "texts.json.gz"), []string{"aaab", "abab", "aabbaabb", "xyxyz", "a\nb\n", "\n\na", "ab12ab34", "ſS'S k\u212a", "a-b]c^d"})
	for _, pattern := range []string{
		`a+b`, `a+?b?`, `(a|ab)(c|bcd)?`, `(?:ab)+`, `(?:a|b)+?b`, `[a-c]{2}`, `[a-c]{2,}`, `[a-c]{0,2}x|y`, `\d+|[^\d\s]+`, `\w\w`, `(?i:k)`, `(?i)s`, `(?i:'s|'t)`,
		`\p{Lu}\p{Ll}*`, `\P{L}+`, `\p{^L}`, `[^\p{L}\p{N}]`, `.+`, `.`, `\x{1F600}|é`, `[\]\-^a]`, `[a^]`, `[-a]+`, `[\x41-\x43]`, `\.\.\.`, `a(?:b(?:c|d)|e)*`, `\p{Han}+|\p{Greek}`,
		`(?:a+b?)+c?`, `x*y+`, `\S+`, `\W+`, `\D`, `[^\S]+`,
	} {
		r, err := compileRegex(pattern)
		if strings.Contains(pattern, "&&") || strings.ContainsAny(pattern, "wWdDsS") && !strings.HasPrefix(pattern, "(") {
			if err != nil { // Go's \w, \d and \s are of ASCII, and it has no &&: that they load must do
				t.Errorf("%s: %v", pattern, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", pattern, err)
			continue
		}
		g := regexp.MustCompile(strings.NewReplacer(`\p{^L}`, `\P{L}`).Replace(pattern))
		for _, text := range texts {
			want := g.FindAllStringIndex(text, -1)
			var got [][]int
			r.matches(text, func(start, end int) { got = append(got, []int{start, end}) })
			if !slices.EqualFunc(got, want, slices.Equal) {
				t.Errorf("%s in %q matches %v, want %v", pattern, text, got, want)
			}
		}
	}
}

func TestRegexHasOnigurumasWays(t *testing.T) {
	for _, c := range []struct{ pattern, text, want string }{
		{`a++b`, "aab ab", "aab|ab"},
		{`a++a`, "aaa", ""},
		{`x?+x`, "x", ""},
		{`^a`, "a\na\nb\n", "a|a"},
		{`a$`, "a\naa", "a|a"},
		{`\Aa`, "a\na", "a"},
		{`a\z`, "a\na", "a"},
		{`\s+(?!\S)|\s+`, "a   b ", "  | | "},
		{`a(?=b|cd)`, "abacad", "a"},
		{`a(?=b{2})`, "abab b abb", "a"},
		{`a(?!$)`, "aba", "a"},
		{`[\p{L}&&[^\p{Han}]]+`, "ab漢c", "ab|c"},
		{`[\w&&[^\d_]&&[^x]]+`, "ab1x_c", "ab|c"},
		{`\w+`, "é٣_ a\u0301-Ⅷ½", "é٣_|a\u0301|Ⅷ½"},
		{`\d`, "1٣½", "1|٣"},
		{`(?i:ſ)`, "sSſx", "s|S|ſ"},
		{`(?i:[a-k])`, "K\u212az", "K|\u212a"},
		{`[^a]`, "a\xffb", "\xff|b"},
		{`\s{3}(?!\S)|\s{1,2}(?!\S)|\s`, "a    b", "   | "},
	} {
		r, err := compileRegex(c.pattern)
		if err != nil {
			t.Errorf("%s: %v", c.pattern, err)
			continue
		}
		var got []string
		r.matches(c.text, func(start, end int) { got = append(got, c.text[start:end]) })
		if strings.Join(got, "|") != c.want {
			t.Errorf("%s in %q matches %q, want %q", c.pattern, c.text, got, c.want)
		}
	}
}

func TestRegexTakesTimeInProportionToTheText(t *testing.T) {
	text := strings.Repeat("a", 200_000)
	for _, pattern := range []string{`(?:a+)+b`, `(?:a|aa)+$|b`, `a+b|a+c|a+d`, `(?:a?){20}a{20}b|x`, `a+(?!a)b`, `[^b]+b`, `a{1,50}b`} {
		r, err := compileRegex(pattern)
		if err != nil {
			t.Logf("%s: %v", pattern, err)
			continue
		}
		start := time.Now()
		r.matches(text, func(int, int) {})
		if d := time.Since(start); d > 3*time.Second*thin {
			t.Errorf("%s takes %v", pattern, d)
		}
	}
}
