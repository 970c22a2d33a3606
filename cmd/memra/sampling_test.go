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
		{"-n 200 --dry-multiplier 8 --dry-sequence-breaker n", run("-n 200 --dry-multiplier 8 --dry-sequence-breaker none"), false},
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

func TestWhatGuessesTokensAheadDoesNotShapeTheAnswer(t *testing.T) {
	for _, flags := range []string{"", "--temp 0.9 --seed 5 --repeat-penalty 1.1"} {
		run := func(draft ...string) string {
			args := append([]string{"run", "-m", "builtin", "-n", "120", "--stats"}, draft...)
			o := invoke(t, "", append(append(args, strings.Fields(flags)...), "func Reverse(s []int) []int {\n\tfor i, j := 0,")...)
			if o.status != 0 || strings.Contains(o.err, "drafts") != (draft[1] != "off") {
				t.Fatalf("%q: status %d, %s", draft, o.status, o.err)
			}
			return o.out
		}
		want := run("--draft", "off")
		for _, draft := range [][]string{{"--draft", "auto"}, {"--draft", "mtp", "--draft-max", "2"}, {"-md", "builtin"}} {
			if got := run(draft...); got != want {
				t.Errorf("%q: %q, want %q", draft, got, want)
			}
		}
	}
}
