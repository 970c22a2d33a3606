package memra

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"memra/sample"
)

// turns is a conversation of 2,000 tokens, as its tokens, and a message that follows.
func turns(m *Model) (conversation, message []int32) {
	for i := 0; len(conversation) < 2000; i++ {
		conversation = append(conversation, m.TokenizePlain(fmt.Sprintf("%d: then the thin rain ended, and what came after it was %d.\n", i, i*i))...)
	}
	return conversation[:2000], m.TokenizePlain(strings.Repeat("and then? ", 10))
}

// The second turn of a conversation of 2,000 tokens computes what is new: the last token of the first answer, which has not been computed yet,
// and the message. It says what a model says that has never seen the first.
func TestASecondTurnComputesOnlyItsMessage(t *testing.T) {
	for _, name := range []string{"llama-plain", "gemma3-plain", "qwen35-plain", "gptoss-plain"} {
		t.Run(name, func(t *testing.T) {
			m, cold := openTiny(t, name, Options{Context: 4096}), openTiny(t, name, Options{Context: 4096, NoPrefixCache: true})
			first, message := turns(m)
			r := Request{Tokens: first, MaxTokens: 100, LogProbs: true, TopLogProbs: 3, Sampling: sample.Params{Temperature: 1, Seed: 4}}
			_, answer, done := collect(t, m, r)
			if done.Reused != 0 || done.Missed != "nothing is cached" {
				t.Errorf("the first turn: %d tokens reused, %q", done.Reused, done.Missed)
			}
			for range 2 {
				r.Tokens = slices.Clone(first)
				for _, token := range answer {
					r.Tokens = append(r.Tokens, token.ID)
				}
				r.Tokens = append(r.Tokens, message...)
				text, tokens, done := collect(t, m, r)
				if want := len(r.Tokens) - len(message) - 1; done.Reused != want {
					t.Errorf("%d of %d tokens are reused (%s), want %d", done.Reused, done.Prompt, done.Missed, want)
				}
				coldText, coldTokens, done := collect(t, cold, r)
				if done.Reused != 0 || done.Missed != "the prefix cache is off" {
					t.Errorf("the cold one: %d tokens reused, %q", done.Reused, done.Missed)
				}
				if text != coldText || !sameTokens(tokens, coldTokens) {
					t.Error("a warm answer is not what a cold one is")
				}
				first, answer = r.Tokens, tokens
			}
		})
	}
}
