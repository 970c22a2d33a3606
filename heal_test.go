package memra

import (
	"math"
	"slices"
	"testing"

	"memra/sample"
	"memra/tokenizer"
)

// healModel is a tokenizer whose tokens are text that others continue.
func healModel(t *testing.T) *Model {
	t.Helper()
	tokens := []string{"<s>", "{", "{Ċ", "{x", "}", "é", "Ã", ""}
	c := tokenizer.Config{Model: "gpt2", Pre: "qwen2", Tokens: tokens, Types: make([]tokenizer.Type, len(tokens)), BOS: 0, EOS: 0,
		EOT: tokenizer.None, EOM: tokenizer.None, UNK: tokenizer.None}
	for i := range c.Types {
		c.Types[i] = tokenizer.Normal
	}
	c.Types[0] = tokenizer.Control
	tok, err := tokenizer.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return &Model{Tokenizer: &Tokenizer{tokenizer: tok}}
}

func TestTheLastTokenOfATextIsTakenBackIfItIsText(t *testing.T) {
	m := healModel(t)
	for _, c := range []struct {
		name   string
		tokens []int32
		left   int
		healed int32
	}{
		{"nothing", nil, 0, tokenizer.None},
		{"text", []int32{0, 4, 1}, 2, 1},
		{"a special token", []int32{1, 0}, 2, tokenizer.None},
		{"half a character", []int32{1, 6}, 2, tokenizer.None},
	} {
		if left, healed := m.takeBack(c.tokens); len(left) != c.left || healed != c.healed {
			t.Errorf("%s: found %v, %d, want %d tokens, %d", c.name, left, healed, c.left, c.healed)
		}
	}
}

func TestTheLikeliestTokenWithTheTextIsChosen(t *testing.T) {
	m := healModel(t)
	top := func(ids ...int32) (list []sample.TokenLogProb) {
		for i, id := range ids {
			list = append(list, sample.TokenLogProb{Token: id, LogProb: -float32(i) - 1})
		}
		return list
	}
	for _, c := range []struct {
		name string
		top  []sample.TokenLogProb
		want int32
	}{
		{"a longer one", top(4, 2, 1, 3), 2},
		{"the one that was taken back", top(4, 1, 2), 1},
		{"none", top(4, 0), 1},
	} {
		if got := m.healing(1, sample.Draw{Top: 1}).Choose(sample.Pick{Token: 1, Top: c.top}); got.Token != c.want || got.LogProb != 0 || len(got.Top) != 1 {
			t.Errorf("%s: found %+v, want token %d", c.name, got, c.want)
		}
	}
	d := sample.Draw{Params: sample.Params{Banned: []int32{2}, Bias: map[int32]float32{3: float32(math.Inf(-1))}}, Top: 1}
	if got := m.healing(1, d).Choose(sample.Pick{Token: 1, Top: top(2, 3, 1)}); got.Token != 1 {
		t.Errorf("found token %d, which is banned", got.Token)
	}
}

// A vocabulary of bytes has no longer tokens: the one that was taken back comes again, and the rest as if it had been given.
func TestWhereNoTokenIsLongerHealingGivesTheSameOneBack(t *testing.T) {
	m := fillModel(t, Options{})
	for _, r := range []Request{
		{Prompt: "Then the thin rain ended."},
		{Prompt: "Then", Sampling: sample.Params{Temperature: 1, Seed: 3}},
		{Gap: &Gap{"Then", " ended."}, Sampling: sample.Params{Temperature: 1, Seed: 4}},
	} {
		r.MaxTokens, r.LogProbs, r.Heal = 13, true, true
		p, err := m.prompt(r)
		if err != nil || p.healed == tokenizer.None {
			t.Fatalf("%+v: %+v, %v: no token was taken back", r, p, err)
		}
		text, got, _ := collect(t, m, r)
		whole, want, _ := collect(t, m, Request{Tokens: append(slices.Clone(p.tokens), p.healed), MaxTokens: 12, LogProbs: true, Sampling: r.Sampling})
		if got[0].ID != p.healed {
			t.Errorf("%+v: the answer begins with token %d, want %d", r, got[0].ID, p.healed)
		}
		if n := len(got) - 1; !slices.EqualFunc(got[1:], want[:n], func(a, b Token) bool { return a.ID == b.ID && a.LogProb == b.LogProb }) || n == len(want) && text != whole {
			t.Errorf("%+v: %q, want %q", r, text, whole)
		}
	}
}
