package memra

import (
	"fmt"
	"slices"
	"strings"
)

// DefaultBreakers are the texts over which DRY counts no repetition unless a request has others: llama.cpp's.
var DefaultBreakers = []string{"\n", ":", "\"", "*"}

// Limits of texts that break repetitions: longer ones are no marks between parts of a text, and each costs a look at every token.
const (
	mostBreakers   = 32
	longestBreaker = 40 // bytes
)

// Breakers are the sequences of tokens with which texts may come to stand in an answer, for sample.DRY: a token that has all of a
// text, or one that ends with its beginning and then the tokens of its rest.
func (t *Tokenizer) Breakers(texts ...string) ([][]int32, error) {
	if len(texts) > mostBreakers {
		return nil, fmt.Errorf("memra: %d texts that break repetitions, want at most %d; leave some out", len(texts), mostBreakers)
	}
	var all [][]int32
	for i, text := range texts {
		if text == "" || len(text) > longestBreaker {
			return nil, fmt.Errorf("memra: text %d of %d that breaks repetitions has %d bytes, want 1 to %d; leave it out, or shorten it", i+1, len(texts), len(text), longestBreaker)
		}
		if !slices.Contains(DefaultBreakers, text) {
			all = append(all, t.breakersOf(text)...)
			continue
		}
		found, ok := t.breakers.Load(text) // a look at every token takes milliseconds
		if !ok {
			found, _ = t.breakers.LoadOrStore(text, t.breakersOf(text))
		}
		all = append(all, found.([][]int32)...)
	}
	return all, nil
}

func (t *Tokenizer) breakersOf(text string) (all [][]int32) {
	rests := make([][]int32, len(text)) // the tokens of what comes after so many bytes
	for token := range int32(t.tokenizer.Vocab()) {
		piece := string(t.tokenizer.Piece(token))
		if strings.Contains(piece, text) {
			all = append(all, []int32{token})
			continue
		}
		for n := min(len(text)-1, len(piece)); n > 0; n-- {
			if !strings.HasSuffix(piece, text[:n]) {
				continue
			}
			if rests[n] == nil {
				rests[n] = t.TokenizePlain(text[n:])
			}
			if len(rests[n]) > 0 { // a vocabulary need not have every text
				all = append(all, slices.Concat([]int32{token}, rests[n]))
			}
		}
	}
	return all
}

// breakRepetitions gives a request the breakers that its texts stand for, where it has DRY and none of tokens.
func (m *Model) breakRepetitions(r *Request) (err error) {
	dry := &r.Sampling.DRY
	if dry.Multiplier == 0 || dry.Breakers != nil {
		return nil
	}
	texts := r.Breakers
	if texts == nil {
		texts = DefaultBreakers
	}
	dry.Breakers, err = m.Breakers(texts...)
	return err
}
