package state

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"memra/compute"
)

// windowed is a delta net, a layer that sees everything and one with a window.
var windowed = append(slices.Clone(hybrid), Layer{Heads: 1, HeadDim: 16, Window: 90})

func TestASequenceNeverHoldsMoreThanItTakes(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 3))
		p, err := NewPool(deltaDevice{}, windowed, Config{Positions: 3000, Sequences: 3, Step: 200})
		if err != nil {
			t.Fatal(err)
		}
		all := p.Total()
		s := p.NewSequence()
		for s.Len() < 1500 {
			n := 1 + rng.IntN(200)
			if err := s.Extend(n); err != nil {
				t.Fatal(err)
			}
			holds, free := s.Holds(), p.Free()
			if takes := p.Takes(s.Len()); !holds.Within(takes) {
				t.Fatalf("seed %d: %d positions hold %v pages, at most %v were promised", seed, s.Len(), holds, takes)
			}
			if holds.Add(free); !holds.Within(all) || !all.Within(holds) {
				t.Fatalf("seed %d: pages held and free are %v, of %v", seed, holds, all)
			}
		}
		if s.Free(); !all.Within(p.Free()) {
			t.Fatalf("seed %d: a sequence that ended holds pages", seed)
		}
	}
}

func TestWhatNeverFitsIsRefusedWithBothNumbers(t *testing.T) {
	p := newPool(t, KV(2, 2, 16), Config{Positions: 640, Sequences: 1, Step: 64})
	if err := p.Fits(11 * compute.Page); err != nil {
		t.Error(err)
	}
	err := p.Fits(11*compute.Page + 1)
	if !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "705 tokens need 12 pages of 64 tokens, the pool has 11: 704 tokens would fit") {
		t.Errorf("got %v", err)
	}
}
