package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"memra/gguf"
)

// fillModel is the tiny model with marks for a gap.
func fillModel(t *testing.T) string {
	t.Helper()
	return change(t, func(m *gguf.Metadata) {
		for i, key := range []string{"pre", "suf", "mid"} {
			m.Set("tokenizer.ggml.fim_"+key+"_token_id", uint32(200+i))
		}
	})
}

func TestAPlaceIsWhereCompilersSayItIs(t *testing.T) {
	const text = "package p\n\nfunc é() {\r\n}\n"
	for _, c := range []struct {
		place string
		file  string
		at    int
	}{
		{"a.go:1", "a.go", 9},
		{"a.go:1:1", "a.go", 0},
		{"a.go:1:9", "a.go", 8},
		{"a.go:1:10", "a.go", 9},
		{"a.go:2", "a.go", 10},
		{"a.go:2:1", "a.go", 10},
		{"a.go:3", "a.go", 22},
		{"a.go:3:8", "a.go", 18},
		{"a.go:4", "a.go", 25},
		{"a.go:5", "a.go", 26},
		{"C:a.go:2:1", "C:a.go", 10},
		{"odd:7:2:1", "odd:7", 10},
	} {
		p, err := parsePlace(c.place)
		if err != nil || p.file != c.file {
			t.Errorf("%s: file %q, %v, want %q", c.place, p.file, err, c.file)
			continue
		}
		if at, err := p.find(text); err != nil || at != c.at {
			t.Errorf("%s: byte %d, %v, want %d", c.place, at, err, c.at)
		}
	}
}

func TestCompleteFillsTheGapAndLeavesTheRest(t *testing.T) {
	model := fillModel(t)
	middle := succeed(t, "one\ntwo\nthree\n", "complete", "-m", model, "-n", "8", "--temp", "1", "--seed", "4", "--stdin", "a.go:2:4")
	if middle == "" {
		t.Fatal("nothing is filled in")
	}
	var got struct {
		File                 string
		Line, Column, Tokens int
		Middle, End          string
	}
	out := succeed(t, "one\ntwo\nthree\n", "complete", "-m", model, "-n", "8", "--temp", "1", "--seed", "4", "-o", "json", "--stdin", "a.go:2:4")
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	if got.File != "a.go" || got.Line != 2 || got.Column != 4 || got.Middle != middle || got.Tokens != 8 || got.End != "length" {
		t.Errorf("JSON is %+v, the text was %q", got, middle)
	}
	if other := succeed(t, "one\ntwo\nthree\n", "complete", "-m", model, "-n", "8", "--temp", "1", "--seed", "4", "--stdin", "a.go:1"); other == middle {
		t.Errorf("another place gives %q too", other)
	}
}

func TestCompleteSaysWhatTheContextHasNoRoomFor(t *testing.T) {
	o := invoke(t, strings.Repeat("a line\n", 50), "complete", "-m", fillModel(t), "-c", "64", "-n", "4", "--stats", "--stdin", "a.go:25")
	if o.status != 0 || !strings.Contains(o.err, "tokens of a.go, those farthest from the place, are left out: the context has 64") || !strings.Contains(o.err, "tokens/s") {
		t.Errorf("status %d, %q", o.status, o.err)
	}
}

func TestAnAnswerDoesNotRepeatWhatComesNext(t *testing.T) {
	for _, c := range []struct {
		name, after string
		want        []string
	}{
		{"the end of the file", "", nil},
		{"blank lines to the end", "\n\n  \n", nil},
		{"a brace", "\n}\n", []string{"\n}"}},
		{"a brace behind blank lines", "  \n\n\t}\n}\n", []string{"\n\t}", "\n}"}},
		{"a statement", "\n\treturn x\n}\n", []string{"\n\treturn x\n", "\n}"}},
		{"a statement, lines of another system", "\r\n\treturn x\r\n}\r\n", []string{"\n\treturn x\n", "\n}"}},
		{"the rest of the line", "string) error {\n}", []string{"\n", "string) error {"}},
		{"a rest that may come at any time", ")\n}", []string{"\n"}},
	} {
		if got := repeats(c.after); !slices.Equal(got, c.want) {
			t.Errorf("%s: found %q, want %q", c.name, got, c.want)
		}
	}
}
