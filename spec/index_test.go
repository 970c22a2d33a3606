package spec

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// findSlowly is find by its definition: all places, the latest first, each compared token by token.
func findSlowly(tokens []int32) (place, length int) {
	end, seen := len(tokens), 0
	for p := end - 1; p >= shortest && seen < candidates; p-- {
		n := 0
		for n < min(longest, p) && tokens[p-1-n] == tokens[end-1-n] {
			n++
		}
		if n < shortest {
			continue
		}
		seen++
		if n > length {
			place, length = p, n
		}
	}
	return place, length
}

// Texts of few tokens (many matches) and of many, with long copies of themselves.
func TestAnIndexFindsWhatALookAtEveryPlaceFinds(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var x index
		vocab := []int32{2, 5, 50}[seed%3]
		for step := range 400 {
			if from := rng.IntN(len(x.tokens) + 1); rng.IntN(20) == 0 {
				for _, v := range slices.Clone(x.tokens[from:min(len(x.tokens), from+40)]) {
					x.append(v)
				}
			} else {
				x.append(rng.Int32N(vocab))
			}
			place, length := x.find()
			wantPlace, wantLength := findSlowly(x.tokens)
			if place != wantPlace || length != wantLength {
				t.Fatalf("seed %d, step %d: found %d tokens before place %d, want %d before %d", seed, step, length, place, wantLength, wantPlace)
			}
		}
	}
}

func TestALookupCopiesWhatFollowedTheLongestMatch(t *testing.T) {
	for _, c := range []struct {
		name   string
		tokens []int32
		sight  int
		want   []int32
	}{
		{"nothing came twice", []int32{1, 2, 3, 4}, None, nil},
		{"one token alone is no match", []int32{1, 9, 2, 9}, None, nil},
		{"of equal matches the latest", []int32{1, 2, 7, 1, 2, 8, 8, 8, 1, 2}, 0, []int32{8, 8, 8, 1, 2}},
		{"a longer match before a later one", []int32{5, 1, 2, 7, 6, 6, 1, 2, 8, 8, 5, 1, 2}, 1, []int32{7, 6, 6, 1, 2}},
		{"a period goes on beyond the end", []int32{1, 2, 3, 1, 2, 3, 1, 2, 3}, 2, []int32{1, 2, 3, 1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := new(Lookup)
			a := &Ask{Sequence: &Sequence{memory: l.Begin()}, Tokens: c.tokens}
			for n := 1; n <= len(c.tokens); n++ { // as they come
				_, a.Sequence.sight = a.memory().Sight(c.tokens[:n])
			}
			if a.Sequence.sight != c.sight {
				t.Errorf("sight %d, want %d", a.Sequence.sight, c.sight)
			}
			if c.sight == None {
				return
			}
			a.Depth = 5
			if err := l.Draft([]*Ask{a}); err != nil || !slices.Equal(a.Drafts, c.want) {
				t.Errorf("drafts %v, error %v, want %v", a.Drafts, err, c.want)
			}
		})
	}
}

func BenchmarkFind(b *testing.B) {
	rng := rand.New(rand.NewPCG(1, 1))
	var x index
	for range 32768 {
		x.append(rng.Int32N(20))
	}
	for b.Loop() {
		x.append(rng.Int32N(20))
		x.find()
	}
}
