package memra

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"memra/sample"
)

const someGo = `package list

// List is a list of numbers.
type List struct {
	first *node
	length int
}

type node struct {
	value int
	next  *node
}

// Len returns the number of elements.
func (l *List) Len() int { return l.length }

// Push adds a value to the front of the list.
func (l *List) Push(v int) {
`

func TestWhatGuessesTokensAheadDoesNotShow(t *testing.T) {
	for _, p := range []sample.Params{{}, {Temperature: 0.8, TopP: 0.95, Seed: 4, RepeatPenalty: 1.1}} {
		var want []Token
		for _, kind := range []string{DraftOff, DraftAuto, DraftMTP, DraftLookup, Builtin} {
			m, err := Open(Builtin, Options{Draft: kind, DraftMax: 4, Device: "cpu", NoPrefixCache: true})
			if err != nil {
				t.Fatal(err)
			}
			r := Request{Prompt: someGo, MaxTokens: 80, Sampling: p, LogProbs: true, TopLogProbs: 2}
			_, tokens, done := collect(t, m, r)
			if kind == DraftOff {
				want = tokens
			}
			if !slices.EqualFunc(tokens, want, func(a, b Token) bool { return a.ID == b.ID && a.LogProb == b.LogProb && slices.Equal(a.Top, b.Top) }) {
				t.Errorf("%s, %+v: %v, want %v", kind, p, tokens, want)
			}
			d := m.Drafts()
			if kind == DraftOff && d.Rounds > 0 || kind == Builtin && done.Accepted != done.Drafted {
				t.Errorf("%s: %+v, %d of %d accepted; want none without drafts, and all where a model drafts for itself", kind, d, done.Accepted, done.Drafted)
			}
			before := d.Rounds
			r.Drafts = -1
			if collect(t, m, r); m.Drafts().Rounds != before {
				t.Errorf("%s: a request that wants no drafts had some", kind)
			}
			if err := m.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestDraftsThatCannotBeAreRefusedByName(t *testing.T) {
	llama := tinyModel(t, "llama-biases")
	for _, c := range []struct {
		name string
		o    Options
		is   error
		want string
	}{
		{"no such layer", Options{Draft: DraftMTP}, nil, "has no layer that guesses"},
		{"no such file", Options{Draft: "nowhere.gguf"}, nil, "the draft model: "},
		{"another vocabulary", Options{Draft: Builtin}, ErrVocabulary, "take a model of the same family"},
		{"too deep", Options{DraftMax: 64}, nil, "want 1 to 63"},
		{"below none", Options{DraftMax: -1}, nil, "want 1 to 63"},
	} {
		c.o.Device = "cpu"
		m, err := Open(llama, c.o)
		if err == nil {
			m.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
}
