package main

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"

	"memra"
)

func TestTheBuiltInModelEndsWithTheDeclaration(t *testing.T) {
	for _, c := range []struct {
		name   string
		flags  []string
		prompt string
		ends   bool // after a brace alone, and somewhere
		next   bool // before the next declaration
	}{
		{"a function", nil, "func F() {", true, true},
		{"within a function", nil, "func F() {\n\tif x {\n\t}\n\ty := ", true, true},
		{"a file", nil, "package main", true, false},
		{"behind a function", nil, "func F() {\n}\n\n// G", true, false},
		{"a number of tokens", []string{"-n", "9"}, "func F() {", false, false},
		{"another end", []string{"--stop", "x"}, "func F() {", false, false},
		{"another end that stays", []string{"--stop-after", "x"}, "func F() {", false, false},
		{"flags of another kind", []string{"--seed", "3"}, "func F() {", true, true},
	} {
		cmd, f := new(cobra.Command), new(requestFlags)
		f.add(cmd, -1)
		if err := cmd.ParseFlags(c.flags); err != nil {
			t.Fatal(err)
		}
		var r memra.Request
		endWithDeclaration(cmd, &r, c.prompt)
		if slices.Contains(r.StopAfter, braceAlone) != c.ends || (r.MaxTokens == mostDeclaration) != c.ends || slices.Contains(r.Stop, "\n\nfunc ") != c.next {
			t.Errorf("%s: found %q, %q, %d", c.name, r.Stop, r.StopAfter, r.MaxTokens)
		}
	}
}
