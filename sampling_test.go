package memra

import (
	"math"
	"slices"
	"testing"

	"memra/sample"
)

func TestFilteredLogProbabilitiesAreOfWhatTokensAreDrawnFrom(t *testing.T) {
	m := fillModel(t, Options{})
	r := Request{Prompt: "Then the", MaxTokens: 20, Sampling: sample.Params{Temperature: 1, TopK: 3, PresencePenalty: 2, Seed: 1}, LogProbs: true, TopLogProbs: 5}
	text, raw, _ := collect(t, m, r)
	r.Filtered = true
	same, filtered, _ := collect(t, m, r)
	if text != same {
		t.Fatalf("%q, without filtered log-probabilities %q", same, text)
	}
	for i, token := range filtered {
		sum := 0.0
		for _, top := range token.Top {
			sum += math.Exp(float64(top.LogProb))
		}
		if len(token.Top) != 3 || math.Abs(sum-1) > 1e-6 {
			t.Errorf("token %d: %v adds up to %v, want three that add up to 1", i, token.Top, sum)
		}
		if !slices.Contains(token.Top, sample.TokenLogProb{Token: token.ID, LogProb: token.LogProb}) {
			t.Errorf("token %d with %v is not among %v", token.ID, token.LogProb, token.Top)
		}
		if len(raw[i].Top) != 5 {
			t.Errorf("token %d: %d of the likeliest of the raw row, want 5", i, len(raw[i].Top))
		}
	}
}

// What was said is not said again: by a penalty for what the history has, given and generated alike.
func TestPenaltiesLookAtThePromptAndTheAnswer(t *testing.T) {
	m := fillModel(t, Options{})
	prompt := m.Tokenize("Then the thin rain ended.")
	_, tokens, _ := collect(t, m, Request{Tokens: prompt, MaxTokens: 40, Sampling: sample.Params{PresencePenalty: 1e4}})
	seen := slices.Clone(prompt)
	for _, token := range tokens {
		if slices.Contains(seen, token.ID) {
			t.Errorf("token %d comes again", token.ID)
		}
		seen = append(seen, token.ID)
	}
}
