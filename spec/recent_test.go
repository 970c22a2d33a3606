package spec

import (
	"math/rand/v2"
	"testing"
)

// A twin of what the layer multiplies by learns of changes alone, and is always what recent says.
func TestTokensThatWereSeenLastHavePlaces(t *testing.T) {
	const vocab, n = 500, 64
	rng := rand.New(rand.NewPCG(1, 2))
	r, twin := newRecent(vocab, n), map[int32]int32{} // token by place
	for round := range 2000 {
		var tokens []int32
		for range rng.IntN(6) {
			tokens = append(tokens, int32(rng.IntN(vocab)*rng.IntN(2)+rng.IntN(20))%vocab) // some are much commoner
		}
		r.see(tokens)
		for _, token := range tokens {
			if p := r.places[token]; p < 0 || r.tokens[p] != token {
				t.Fatalf("round %d: token %d was just seen, and its place is %d", round, token, p)
			}
		}
		if rng.IntN(3) > 0 {
			continue
		}
		places, news := r.changed()
		said := map[int32]bool{}
		for i, p := range places {
			if said[p] {
				t.Fatalf("round %d: place %d twice", round, p)
			}
			said[p], twin[p] = true, news[i]
		}
		placed := 0
		for token, p := range r.places {
			if p >= 0 {
				placed++
				if twin[p] != int32(token) {
					t.Fatalf("round %d: place %d has token %d, and is said to have %d", round, p, twin[p], token)
				}
			}
		}
		if placed != n {
			t.Fatalf("round %d: %d tokens have places, want %d", round, placed, n)
		}
	}
}

func TestATokenKeepsItsPlaceWhileItIsSeen(t *testing.T) {
	r := newRecent(1000, 64)
	for i := range int32(900) {
		r.see([]int32{999, 100 + i%800})
		if r.places[999] < 0 {
			t.Fatalf("after %d tokens, one that was seen each time has no place", i)
		}
	}
	before := r.places[999]
	for i := range int32(900) {
		r.see([]int32{100 + i%800, 999})
	}
	if r.places[999] != before {
		t.Errorf("a token that was seen each time moved from place %d to %d", before, r.places[999])
	}
}

func TestSmallVocabulariesAreGuessedWhole(t *testing.T) {
	for vocab, want := range map[int]int{256: 0, 2047: 0, 2048: 1024, 8192: 1024, 151936: 19008, 248320: 31040} {
		if got := chosen(vocab); got != want {
			t.Errorf("%d of %d tokens, want %d", got, vocab, want)
		}
	}
}
