package memra

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync"
	"testing"

	"memra/chat"
	"memra/sample"
)

// goOn generates in a session and returns the tokens.
func goOn(t testing.TB, s *Session, r Request) (tokens []Token) {
	t.Helper()
	for c, err := range s.Generate(t.Context(), r) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Token != nil {
			tokens = append(tokens, *c.Token)
		}
	}
	return tokens
}

func sameTokens(a, b []Token) bool {
	return slices.EqualFunc(a, b, func(a, b Token) bool {
		return a.ID == b.ID && math.Float32bits(a.LogProb) == math.Float32bits(b.LogProb) && slices.Equal(a.Top, b.Top)
	})
}

func TestASessionSaysWhatOneRequestWithItsTokensSays(t *testing.T) {
	m := openTiny(t, "llama-plain", Options{})
	r := Request{MaxTokens: 12, LogProbs: true, TopLogProbs: 2, Sampling: sample.Params{Temperature: 1, Seed: 3}}
	s := m.Session()
	first := r
	first.Prompt = "Then the thin rain"
	goOn(t, s, first)
	before := s.Tokens()
	if n := len(m.Tokenize(first.Prompt)) + 12; len(before) != n {
		t.Fatalf("the session has %d tokens, want %d", len(before), n)
	}

	second := r
	second.Prompt = " ended."
	got := goOn(t, s, second)
	alone := r
	alone.Tokens = slices.Concat(before, m.TokenizePlain(" ended."))
	if _, want, _ := collect(t, m, alone); !sameTokens(got, want) {
		t.Errorf("the session goes on with %v, a request with %v", got, want)
	}

	if err := s.Rewind(len(before)); err != nil {
		t.Fatal(err)
	}
	if again := goOn(t, s, second); !sameTokens(again, got) {
		t.Errorf("after a rewind %v, before it %v", again, got)
	}
	if got := goOn(t, s, r); len(got) != 12 {
		t.Errorf("%d tokens go on without a prompt, want 12", len(got))
	}
}

// What a session has said is computed once, hybrids included: all but its last token, which nothing has followed yet.
func TestATurnOfASessionComputesWhatIsNew(t *testing.T) {
	for _, name := range []string{"llama-plain", "qwen35-plain", "gemma3-plain"} {
		m := openTiny(t, name, Options{Context: 512})
		s := m.Session()
		goOn(t, s, Request{Tokens: slices.Repeat([]int32{5, 6, 7, 8}, 50), MaxTokens: 60})
		for _, session := range []*Session{s.Fork(), s} {
			before := len(session.Tokens())
			for c, err := range session.Generate(t.Context(), Request{Tokens: []int32{9, 10}, MaxTokens: 3}) {
				if err != nil {
					t.Fatal(err)
				}
				if d := c.Done; d != nil && (d.Reused < before-1 || d.Prompt != before+2) {
					t.Errorf("%s: %d of %d tokens are reused, want %d or more (%s)", name, d.Reused, d.Prompt, before-1, d.Missed)
				}
			}
		}
	}
}

func TestForksGoTheirOwnWayAtTheSameTime(t *testing.T) {
	m := openTiny(t, "qwen35-plain", Options{})
	s := m.Session()
	r := Request{MaxTokens: 10, LogProbs: true, Sampling: sample.Params{Temperature: 1}}
	first := r
	first.Prompt = "Then the thin rain"
	goOn(t, s, first)
	var wait sync.WaitGroup
	got, want := make([][]Token, 8), make([][]Token, 8)
	forks := make([]*Session, 8)
	for i := range forks {
		forks[i] = s.Fork()
		wait.Go(func() {
			r := r
			r.Sampling.Seed = uint64(i)
			got[i] = goOn(t, forks[i], r)
		})
	}
	wait.Wait()
	for i := range want {
		r := r
		r.Tokens, r.Sampling.Seed = s.Tokens(), uint64(i)
		if _, want, _ := collect(t, m, r); !sameTokens(got[i], want) {
			t.Errorf("fork %d says %v, alone %v", i, got[i], want)
		}
		if n := len(forks[i].Tokens()); n != len(s.Tokens())+len(got[i]) {
			t.Errorf("fork %d has %d tokens", i, n)
		}
	}
}

func TestASessionThatGeneratesIsBusy(t *testing.T) {
	m := openTiny(t, "llama-plain", Options{})
	s := m.Session()
	for range s.Generate(t.Context(), Request{Prompt: "Then", MaxTokens: 3}) {
		if err := s.Rewind(0); !errors.Is(err, ErrBusy) {
			t.Errorf("rewound while it generates: %v", err)
		}
		for _, err := range s.Generate(t.Context(), Request{Prompt: "and"}) {
			if !errors.Is(err, ErrBusy) {
				t.Errorf("generates twice at a time: %v", err)
			}
		}
		if n := len(s.Fork().Tokens()); n != 0 {
			t.Errorf("a fork has %d tokens of a generation that runs", n)
		}
	}
}

func TestASessionKeepsWhatCameBeforeItWasBrokenOffAndNothingOfAFailure(t *testing.T) {
	m := openTiny(t, "llama-plain", Options{Context: 64})
	s := m.Session()
	for range s.Generate(t.Context(), Request{Prompt: "Then"}) {
		break
	}
	prompt := len(m.Tokenize("Then"))
	if n := len(s.Tokens()); n != prompt+1 {
		t.Errorf("broken off after a token the session has %d tokens, want %d", n, prompt+1)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range s.Generate(ctx, Request{Prompt: " the"}) {
		cancel()
	}
	before := s.Tokens()
	if len(before) < prompt+2 {
		t.Errorf("cancelled the session has %d tokens", len(before))
	}
	for _, c := range []struct {
		name string
		r    Request
	}{
		{"a prompt longer than the context", Request{Tokens: make([]int32, 64)}},
		{"a token beyond the vocabulary", Request{Tokens: []int32{99999}}},
		{"a conversation", Request{Messages: []chat.Message{{Role: "user", Content: "hi"}}}},
		{"a gap", Request{Gap: &Gap{}}},
		{"two prompts", Request{Prompt: "a", Tokens: []int32{1}}},
		{"several answers", Request{Prompt: "a", N: 2}},
		{"a healed prompt", Request{Prompt: "a", Heal: true}},
	} {
		var got error
		for _, err := range s.Generate(t.Context(), c.r) {
			got = err
		}
		var told *RequestError
		if !errors.As(got, &told) || !slices.Equal(s.Tokens(), before) {
			t.Errorf("%s: error %v, want a RequestError, and the session as it was", c.name, got)
		}
	}
	for _, n := range []int{-1, len(before) + 1} {
		if err := s.Rewind(n); err == nil {
			t.Errorf("rewound %d tokens to %d", len(before), n)
		}
	}
}
