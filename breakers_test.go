package memra

import (
	"reflect"
	"strings"
	"testing"

	"memra/sample"
)

// Tokens: "{" 1, "{\n" 2, "{x" 3, "}" 4.
func TestATextBreaksRepetitionsHoweverTokensCutIt(t *testing.T) {
	m := healModel(t)
	for _, c := range []struct {
		texts []string
		want  [][]int32
	}{
		{nil, nil},
		{[]string{"\n"}, [][]int32{{2}}},
		{[]string{"{"}, [][]int32{{1}, {2}, {3}}},
		{[]string{"{x"}, [][]int32{{3}}}, // there is no token for the rest, "x"
		{[]string{"x{}"}, [][]int32{{3, 1, 4}}},
		{[]string{"}{"}, [][]int32{{4, 1}}},
		{[]string{"\n", "}"}, [][]int32{{2}, {4}}},
	} {
		for range 2 { // found anew, and kept
			got, err := m.Breakers(c.texts...)
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("%q: %v, want %v", c.texts, got, c.want)
			}
		}
	}
}

func TestTextsThatCannotBreakRepetitionsAreRefused(t *testing.T) {
	m := healModel(t)
	for _, c := range []struct {
		texts []string
		want  string
	}{
		{[]string{"a", ""}, "text 2 of 2 that breaks repetitions has 0 bytes, want 1 to 40"},
		{[]string{strings.Repeat("-", 41)}, "has 41 bytes"},
		{make([]string, 33), "33 texts that break repetitions, want at most 32"},
	} {
		if _, err := m.Breakers(c.texts...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %q", c.texts, err, c.want)
		}
	}
}

func TestBreakersAreFoundWhereDRYIsOnAndHasNone(t *testing.T) {
	m := healModel(t)
	own := [][]int32{{4}}
	for _, c := range []struct {
		r    Request
		want [][]int32
	}{
		{Request{}, nil},
		{Request{Breakers: []string{"}"}}, nil},
		{Request{Sampling: sample.Params{DRY: sample.DRY{Multiplier: 1}}}, [][]int32{{2}}}, // the newline of DefaultBreakers
		{Request{Sampling: sample.Params{DRY: sample.DRY{Multiplier: 1}}, Breakers: []string{"}"}}, own},
		{Request{Sampling: sample.Params{DRY: sample.DRY{Multiplier: 1, Breakers: own}}, Breakers: []string{"{"}}, own},
		{Request{Sampling: sample.Params{DRY: sample.DRY{Multiplier: 1}}, Breakers: []string{}}, nil},
	} {
		if err := m.breakRepetitions(&c.r); err != nil || !reflect.DeepEqual(c.r.Sampling.DRY.Breakers, c.want) {
			t.Errorf("%+v: %v, want %v", c.r, err, c.want)
		}
	}
}
