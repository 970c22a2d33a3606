package main

import (
	"strings"
	"testing"
)

func TestFlagsOfTheSamplerShapeTheAnswer(t *testing.T) {
	model := baseModel(t)
	run := func(flags string) string {
		return succeed(t, "", append([]string{"run", "--raw", "-m", model, "-n", "24", "Then the"}, strings.Fields(flags)...)...)
	}
	plain, warm := run(""), run("--temp 1.5")
	for _, c := range []struct {
		flags string
		from  string // without them
		same  bool
	}{
		{"--repeat-penalty 1 --frequency-penalty 0 --presence-penalty 0", plain, true},
		{"--repeat-penalty 1.5", plain, false},
		{"--frequency-penalty 2", plain, false},
		{"--presence-penalty 3", plain, false},
		{"--dry-multiplier 8 --dry-allowed-length 1", plain, false},
		{"--logit-bias 65+100", plain, false},
		{"-l 65+100 -l 65-inf", run("-l 65-inf"), true},
		{"--temp 1.5", warm, true},
		{"--temp 1.5 --seed 2", warm, false},
		{"--temp 1.5 --top-k 1", plain, true},
		{"--temp 1.5 --top-nsigma 0.001", plain, true},
		{"--temp 1.5 --typical 0.1", warm, false},
		{"--temp 1.5 --xtc-probability 1 --xtc-threshold 0.01", warm, false},
		{"--temp 1.5 --samplers top_k;temperature", warm, true},
		{"--temp 9 --top-p 0.9 --samplers top_p;temperature", run("--temp 9 --top-p 0.9"), false},
	} {
		if got := run(c.flags); (got == c.from) != c.same {
			t.Errorf("%s: %q, compared with %q", c.flags, got, c.from)
		}
	}
}
