package golden

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestCommittedTinyModelsAreWhole(t *testing.T) {
	paths, err := filepath.Glob("../../model/testdata/tiny/*.gguf.gz")
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d models, %v", len(paths), err)
	}
	for _, path := range paths {
		path = strings.TrimSuffix(path, ".gguf.gz")
		t.Run(filepath.Base(path), func(t *testing.T) {
			m, err := LoadTiny(path)
			if err != nil {
				t.Fatal(err)
			}
			if string(m.GGUF[:4]) != "GGUF" || m.Note == "" || len(m.Prompts) != 3 {
				t.Fatalf("%q, %d prompts, note %q", m.GGUF[:4], len(m.Prompts), m.Note)
			}
			for _, p := range m.Prompts {
				if len(p.Greedy) != 16 || p.Margin < 0.02 || p.Positions[len(p.Positions)-1] != len(p.Tokens)-1 {
					t.Errorf("%q: %d greedy tokens, margin %g, positions %v of %d", p.Text, len(p.Greedy), p.Margin, p.Positions, len(p.Tokens))
				}
				for i, at := range p.Positions { // the two records of a position agree
					row := p.Logits[i]
					if at+1 == len(p.Tokens) {
						if best := slices.Index(row, slices.Max(row)); int32(best) != p.Greedy[0] {
							t.Errorf("%q: the best last token is %d, the continuation begins with %d", p.Text, best, p.Greedy[0])
						}
						continue
					}
					if got := logSoftmax(row)[p.Tokens[at+1]]; math.Abs(got-p.LogProbs[at]) > 1e-5 {
						t.Errorf("%q: position %d: %g by its logits, %g recorded", p.Text, at, got, p.LogProbs[at])
					}
				}
			}
		})
	}
}

func TestLoadTinyNamesAnAbsentModel(t *testing.T) {
	if _, err := LoadTiny("testdata/absent"); err == nil || !strings.Contains(err.Error(), "absent.gguf.gz") {
		t.Errorf("error %v", err)
	}
}
