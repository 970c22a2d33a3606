package memra

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"memra/sample"
)

func TestSeveralAnswersAreThoseOfSeedsThatCountUp(t *testing.T) {
	for _, name := range []string{"llama-plain", "qwen35-plain", "gemma3-plain"} {
		m := openTiny(t, name, Options{})
		r := Request{Prompt: "Then the thin rain", MaxTokens: 20, LogProbs: true, TopLogProbs: 2, Sampling: sample.Params{Temperature: 1.5, Seed: 30}}
		alone := make([]Answer, 5)
		for i := range alone {
			one := r
			one.Sampling.Seed += uint64(i)
			text, tokens, done := collect(t, m, one)
			alone[i] = Answer{text, tokens, *done}
		}
		stop := middle(alone[2].Text)
		for _, stops := range [][]string{nil, {stop}} {
			many := r
			many.N, many.Stop = 5, stops
			answers, err := m.Answers(t.Context(), many)
			if err != nil {
				t.Fatal(err)
			}
			for i, a := range answers {
				want := alone[i]
				if at := strings.Index(want.Text, stop); stops != nil && at >= 0 {
					want.Text, want.Tokens = want.Text[:at], want.Tokens[:len(a.Tokens)]
					if a.Done.Reason != "stop" {
						t.Errorf("%s: answer %d ends with %q", name, i, a.Done.Reason)
					}
				}
				if a.Text != want.Text || !sameTokens(a.Tokens, want.Tokens) || a.Done.Tokens != len(a.Tokens) || a.Done.Prompt != want.Done.Prompt {
					t.Errorf("%s: answer %d, to stop at %q, is %q, want %q", name, i, stops, a.Text, want.Text)
				}
			}
			BestFirst(answers)
			if !slices.IsSortedFunc(answers, func(a, b Answer) int { return int(math.Copysign(1, meanOf(b)-meanOf(a))) }) {
				t.Errorf("%s: not the best first", name)
			}
		}
	}
}

// meanOf is the mean log-probability of an answer's tokens.
func meanOf(a Answer) (mean float64) {
	for _, token := range a.Tokens {
		mean += float64(token.LogProb) / float64(len(a.Tokens))
	}
	return mean
}

// middle is some whole characters from the middle of a text.
func middle(text string) string {
	characters := []rune(text)
	return string(characters[len(characters)/2 : len(characters)/2+2])
}

func TestAnAnswerThatBreaksOffLeavesNothingBehind(t *testing.T) {
	m := openTiny(t, "llama-plain", Options{Sequences: 2})
	r := Request{Prompt: "Then", N: 4}
	for range m.Generate(t.Context(), r) {
		break
	}
	r.MaxTokens = 5
	if answers, err := m.Answers(t.Context(), r); err != nil || len(answers) != 4 || fmt.Sprint(answers[3].Done.Tokens) != "5" {
		t.Errorf("%v, %v, want four answers", answers, err)
	}
}
