package memra

import (
	"errors"
	"math"
	"strings"
	"testing"

	"memra/chat"
	"memra/sample"
)

// What no answer can be given to is known before anything is computed: the error says what was found and what is wanted. The request that runs
// beside is not touched.
func TestARequestThatCannotBeServedSaysWhyAndTouchesNobodyElse(t *testing.T) {
	m := openTiny(t, "llama-plain", Options{Context: 256, Sequences: 4})
	nan := float32(math.NaN())
	params := func(p sample.Params) Request { return Request{Prompt: "a", Sampling: p} }
	victim := Request{Prompt: "Then the thin rain", MaxTokens: 150, LogProbs: true, TopLogProbs: 2, Sampling: sample.Params{Temperature: 1, Seed: 8}}
	_, want, _ := collect(t, m, victim)

	running := make(chan struct{})
	ended := make(chan []Token)
	go func() {
		var tokens []Token
		for c, err := range m.Generate(t.Context(), victim) {
			if err != nil {
				t.Error(err)
			}
			if c.Token != nil {
				tokens = append(tokens, *c.Token)
			}
			if len(tokens) == 1 && c.Token != nil {
				close(running)
			}
		}
		ended <- tokens
	}()
	<-running
	for _, c := range []struct {
		name string
		r    Request
		want string // words, in order
	}{
		{"nothing", Request{}, "the prompt is empty"},
		{"two prompts", Request{Prompt: "a", Tokens: []int32{1}}, "more than one of"},
		{"a prompt of no token", Request{Tokens: []int32{}}, "the prompt is empty"},
		{"a prompt longer than the context", Request{Tokens: make([]int32, 300)}, "300 tokens context 256 shorten"},
		{"a token that does not exist", Request{Tokens: []int32{1, 99999}}, "token 99999 at place 1 262"},
		{"a token below zero", Request{Tokens: []int32{-1}}, "token -1 0 to"},
		{"a conversation without a template", Request{Messages: []chat.Message{{Role: "user", Content: "hi"}}}, "no chat template"},
		{"a gap for a model that fills none", Request{Gap: &Gap{Before: "a"}}, "filling in the middle"},
		{"fewer tokens than none", Request{Prompt: "a", MaxTokens: -1}, "MaxTokens -1"},
		{"fewer answers than none", Request{Prompt: "a", N: -1}, "N is -1"},
		{"more answers than anybody needs", Request{Prompt: "a", N: MostAnswers + 1}, "129 answers 128"},
		{"an empty stop string", Request{Prompt: "a", Stop: []string{"x", ""}}, "stop string 2 of 2 is empty"},
		{"an empty stop string that stays", Request{Prompt: "a", StopAfter: []string{""}}, "stop string 1 of 1 is empty"},
		{"more likeliest tokens than are sorted", Request{Prompt: "a", LogProbs: true, TopLogProbs: sample.MaxTop + 1}, "1025 1024"},
		{"fewer likeliest tokens than none", Request{Prompt: "a", LogProbs: true, TopLogProbs: -1}, "-1"},
		{"a temperature below zero", params(sample.Params{Temperature: -1}), "temperature -1 >= 0"},
		{"a temperature that is no number", params(sample.Params{Temperature: nan}), "temperature NaN"},
		{"a negative top-k", params(sample.Params{TopK: -1}), "top-k -1"},
		{"a top-p above one", params(sample.Params{TopP: 1.5}), "top-p 1.5 0 to 1"},
		{"a min-p below zero", params(sample.Params{MinP: -1}), "min-p -1"},
		{"a typical above one", params(sample.Params{Typical: 2}), "typical 2"},
		{"a negative top-n-sigma", params(sample.Params{TopNSigma: -1}), "top-n-sigma -1"},
		{"an XTC without a threshold", params(sample.Params{XTC: sample.XTC{Probability: 1}}), "XTC threshold 0"},
		{"a DRY without a base", params(sample.Params{DRY: sample.DRY{Multiplier: 1}}), "DRY base 0"},
		{"a penalty that is no number", params(sample.Params{RepeatPenalty: nan}), "repeat penalty NaN"},
		{"a bias that is no number", params(sample.Params{Bias: map[int32]float32{1: nan}}), "logit bias of token 1 NaN"},
		{"a bias of a token that does not exist", params(sample.Params{Bias: map[int32]float32{999: 1}}), "logit bias token 999 262"},
		{"a ban of a token that does not exist", params(sample.Params{Banned: []int32{999}}), "banned token 999 262"},
		{"an order that leaves out what is on", params(sample.Params{TopK: 3, Order: []sample.Filter{}}), "order top_k is on"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := m.Answers(t.Context(), c.r)
			var told *RequestError
			if !errors.As(err, &told) || told.TooLong != (len(c.r.Tokens) > 256) {
				t.Fatalf("error %T %v, want a RequestError", err, err)
			}
			rest := err.Error()
			for word := range strings.FieldsSeq(c.want) {
				_, after, found := strings.Cut(rest, word)
				if !found {
					t.Fatalf("%q does not say %q in its place", err, word)
				}
				rest = after
			}
		})
	}
	for _, tokens := range [][]int32{{}, make([]int32, 300), {1, 99999}} {
		var told *RequestError
		if _, err := m.Score(t.Context(), tokens, 0); !errors.As(err, &told) {
			t.Errorf("scores of %d tokens: error %v, want a RequestError", len(tokens), err)
		}
	}
	var told *RequestError
	if _, err := m.Score(t.Context(), []int32{1, 2}, sample.MaxTop+1); !errors.As(err, &told) {
		t.Errorf("more likeliest tokens than are sorted: error %v, want a RequestError", err)
	}
	if got := <-ended; !sameTokens(got, want) {
		t.Error("the request that ran beside says something else")
	}
}
