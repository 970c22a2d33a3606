package sample

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestPhiloxGivesTheKnownAnswers(t *testing.T) {
	for _, c := range []struct {
		name string
		seed uint64
		ctr  [4]uint32
		want [4]uint32
	}{
		{"all zero", 0, [4]uint32{}, [4]uint32{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
		{"seed 42, event 7", 42, [4]uint32{0, 7}, [4]uint32{0xc590608c, 0x67e7daa9, 0xc0040026, 0xa1d5db6b}},
		{"a large lane", 1234, [4]uint32{0xFFFFFFFE}, [4]uint32{0xfd545acc, 0x4812d80b, 0x5e21ae3c, 0xb0307d8d}},
		{"all ones (Random123's kat_vectors)", math.MaxUint64, [4]uint32{math.MaxUint32, math.MaxUint32, math.MaxUint32, math.MaxUint32},
			[4]uint32{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
		{"digits of pi (Random123's kat_vectors)", 0x299f31d0a4093822, [4]uint32{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
			[4]uint32{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := philox(c.ctr, uint32(c.seed), uint32(c.seed>>32)); got != c.want {
				t.Errorf("got %08x, want %08x", got, c.want)
			}
		})
	}
}

func TestNoiseIsTheWordOfItsToken(t *testing.T) {
	const seed, position = 42, 7<<32 | 9
	for token := range int32(8) {
		v := philox([4]uint32{uint32(token) / 4, 9, 7, 0}, seed, 0)[token%4]
		if got, want := Noise(seed, position, token), gumbel(v); got != want {
			t.Errorf("token %d: got %v, want %v", token, got, want)
		}
	}
}

func TestGumbelIsFiniteAndBounded(t *testing.T) {
	check := func(v uint32) {
		g := gumbel(v)
		if math.IsInf(g, 0) || math.IsNaN(g) || g >= gumbelMax || g >= gumbelBound(v) {
			t.Fatalf("gumbel(%#x) = %v, want below %v and %v", v, g, gumbelMax, gumbelBound(v))
		}
		w := (float64(v) + 0.5) * 0x1p-32
		if want := -math.Log(-math.Log1p(-w)); math.Abs(g-want) > 1e-14 {
			t.Fatalf("gumbel(%#x) = %v, want %v", v, g, want)
		}
	}
	r := rand.New(rand.NewPCG(7, 8))
	for range 200_000 {
		check(r.Uint32() >> (r.Uint32() % 32))
	}
	for v := range uint32(1000) {
		check(v)
		check(math.MaxUint32 - v)
	}
	for b := range 32 {
		check(1 << b)
		check(1<<b - 1)
	}
}
