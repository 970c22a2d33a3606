package tokenizer

import (
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// naive merges text by its definition: as long as a pair can merge, the one of lowest rank does, the leftmost of equals.
func naive(text string, symbols []symbol, j joiner) []symbol {
	for {
		best, bestID, bestRank := -1, None, uint32(never)
		for i := 0; i+1 < len(symbols); i++ {
			if id, rank := j.pair(text, &symbols[i], &symbols[i+1]); rank < bestRank {
				best, bestID, bestRank = i, id, rank
			}
		}
		if best < 0 {
			return symbols
		}
		symbols[best].end, symbols[best].id = symbols[best+1].end, bestID
		symbols = slices.Delete(symbols, best+1, best+2)
	}
}

func TestMergingEqualsItsDefinition(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	b, s := tinyBPE(t, "gpt-2").model.(*bpe), tinySPM(t, false).model.(*spm)
	for range 3000 {
		var text strings.Builder
		for range rng.IntN(40) {
			text.WriteString([]string{"a", "a", "h", "e", "l", "l", "o", "▁", "é", ">", "<", "x", "-", "hello"}[rng.IntN(14)])
		}
		word := text.String()

		var bytes []symbol
		for i := range len(word) {
			bytes = append(bytes, symbol{start: int32(i), end: int32(i + 1), id: b.byteID[word[i]]})
		}
		var want []int32
		for _, y := range naive(word, bytes, b) {
			want = append(want, y.id)
		}
		x := new(scratch)
		m := &x.merger
		if got := b.word(nil, word, x); !slices.Equal(got, want) {
			t.Fatalf("byte-level: %q merges to %v, want %v", word, got, want)
		}

		// SentencePiece merges word by word; the definition takes all of the text at once.
		var chars []symbol
		for i := 0; i < len(word); {
			_, n := utf8.DecodeRuneInString(word[i:])
			chars = append(chars, symbol{start: int32(i), end: int32(i + n), id: None})
			i += n
		}
		var pieces, wantPieces []string
		for _, y := range naive(word, chars, s) {
			wantPieces = append(wantPieces, word[y.start:y.end])
		}
		unglued(word, s.glued, func(word string) {
			m.reset(len(word))
			for i := 0; i < len(word); {
				_, n := utf8.DecodeRuneInString(word[i:])
				m.add(i, i+n, None)
				i += n
			}
			m.merge(word, s)
			for y := range m.all() {
				pieces = append(pieces, word[y.start:y.end])
			}
		})
		if !slices.Equal(pieces, wantPieces) {
			t.Fatalf("SentencePiece: %q merges to %q, want %q", word, pieces, wantPieces)
		}
	}
}

// TestLongRunsTakeLittleTime catches quadratic time, of which 30,000 characters would take many seconds.
func TestLongRunsTakeLittleTime(t *testing.T) {
	toks := tinies(t)
	maps.Copy(toks, hfTokenizers(t))
	for name, tok := range toks {
		for _, unit := range []string{"a", " ", "\n", "1", "-", "<", "'", "é", "日", " a", "a1", " \n", "\u0301", "A", "\x00", "<t", "<|im_end|", "\xff", "\u3000"} {
			text := strings.Repeat(unit, 30_000/thin/len(unit))
			start := time.Now()
			tok.Encode(text, Options{ParseSpecial: true})
			if d := time.Since(start); d > 2*time.Second {
				t.Errorf("%s: %d times %q takes %v", name, 30_000/thin/len(unit), unit, d)
			}
		}
	}
}
