package memra

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memra/gguf"
)

// The tokens that filling models of the tests have for marks.
const markBefore, markAfter, markMiddle = 200, 201, 202

// fillModel is a tiny model that has marks for a gap.
func fillModel(t *testing.T, o Options) *Model {
	t.Helper()
	f, err := gguf.Open(tinyModel(t, "llama-plain"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for key, id := range map[string]uint32{"pre": markBefore, "suf": markAfter, "mid": markMiddle} {
		f.Meta.Set("tokenizer.ggml.fim_"+key+"_token_id", id)
	}
	path := filepath.Join(t.TempDir(), "fill.gguf")
	if err := gguf.Write(path, f.Meta, f.Tensors); err != nil {
		t.Fatal(err)
	}
	m, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func TestAGapIsAskedForByMarksAroundItsSides(t *testing.T) {
	m := fillModel(t, Options{Context: 64})
	before, after := m.TokenizePlain(strings.Repeat("Then the rain. ", 10)), m.TokenizePlain(strings.Repeat("It ended.", 10))
	text := func(tokens []int32) (s string) {
		for _, id := range tokens {
			s += string(m.Piece(id))
		}
		return s
	}
	for _, c := range []struct {
		name          string
		before, after []int32
		answer        int
		from, to      int // what stays: of those before from there on, of those after up to there
	}{
		{"nothing around it", nil, nil, 5, 0, 0},
		{"both sides", before[:9], after[:7], 5, 0, 7},
		{"as much as there is room for", before[:45], after[:11], 5, 0, 11},
		{"more than there is room for", before, after, 4, len(before) - 43, 14},
		{"much before", before, after[:3], 4, len(before) - 54, 3},
		{"much after", before[:3], after, 4, 0, 54},
		{"a quarter of the context stays free at most", before, after, 60, len(before) - 34, 11},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := []int32{}
			if m.tokenizer.AddsBOS() {
				want = append(want, m.tokenizer.BOS())
			}
			want = slices.Concat(want, []int32{markBefore}, c.before[c.from:], []int32{markAfter}, c.after[:c.to], []int32{markMiddle})
			got, err := m.prompt(Request{Gap: &Gap{text(c.before), text(c.after)}, MaxTokens: c.answer})
			if out := c.from + len(c.after) - c.to; err != nil || got.left != out || !slices.Equal(got.tokens, want) {
				t.Fatalf("found %+v, %v, want %v, %d left out", got, err, want, out)
			}
			answer, _, done := collect(t, m, Request{Gap: &Gap{text(c.before), text(c.after)}, MaxTokens: c.answer})
			same, _, _ := collect(t, m, Request{Tokens: want, MaxTokens: c.answer})
			if done.Reason != "stop" && answer != same || !strings.HasPrefix(same, answer) || done.LeftOut != got.left {
				t.Errorf("the answer is %q, %+v, want %q as to the same tokens", answer, done, same)
			}
		})
	}
}

func TestAMarkEndsWhatFillsAGap(t *testing.T) {
	m := fillModel(t, Options{})
	end := m.tokenizer.EOS()
	for _, c := range []struct {
		name string
		id   int32
		text bool // ends text that is continued
		gap  bool // ends what fills a gap
	}{
		{"a letter", m.TokenizePlain("a")[0], false, false},
		{"the end token", end, true, true},
		{"the mark of a prefix", markBefore, false, true},
		{"the mark of a middle", markMiddle, false, true},
		{"the start token", m.tokenizer.BOS(), m.tokenizer.IsEnd(m.tokenizer.BOS()), true},
	} {
		if got := slices.Contains(m.ends, c.id); got != c.text {
			t.Errorf("%s: ends a text: %v", c.name, got)
		}
		if got := slices.Contains(m.marks, c.id); got != c.gap {
			t.Errorf("%s: ends a middle: %v", c.name, got)
		}
	}
}

func TestAGapNeedsAModelWithMarks(t *testing.T) {
	m := openTiny(t, "llama-plain", Options{})
	for _, err := range m.Generate(t.Context(), Request{Gap: &Gap{"a", "b"}}) {
		if !errors.Is(err, ErrNoFill) {
			t.Errorf("error %v, want ErrNoFill", err)
		}
	}
	for _, err := range m.Generate(t.Context(), Request{Gap: &Gap{"a", "b"}, Prompt: "c"}) {
		if err == nil || !strings.Contains(err.Error(), "more than one") {
			t.Errorf("a gap and a prompt: error %v", err)
		}
	}
}

func TestAStopThatIsPartOfTheAnswerIsTheLastOfIt(t *testing.T) {
	m := openTiny(t, "llama-plain", Options{})
	r := Request{Prompt: "Then the thin rain ended.", MaxTokens: 40}
	whole, _, _ := collect(t, m, r)
	stop := whole[10:13]
	at := strings.Index(whole, stop)
	for _, c := range []struct {
		name        string
		stop, after []string
		want        string
	}{
		{"a stop", []string{stop}, nil, whole[:at]},
		{"one that stays", nil, []string{stop}, whole[:at+len(stop)]},
		{"the earlier of both", []string{whole[at+1:][:4]}, []string{stop}, whole[:at+len(stop)]},
		{"none that comes", nil, []string{"\x00 nothing"}, whole},
	} {
		r.Stop, r.StopAfter = c.stop, c.after
		if got, _, _ := collect(t, m, r); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}
