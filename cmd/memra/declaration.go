package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"memra"
)

// mostDeclaration is -n for the built-in model unless given: small models repeat themselves where they know no end.
const mostDeclaration = 256

// braceAlone ends a declaration in Go, formatted as it is everywhere.
const braceAlone = "\n}"

// endWithDeclaration lets an answer of the built-in model end with the declaration that the prompt begins, unless the flags say where:
// after a closing brace at the start of a line. If the prompt leaves a brace open it may be closed in the same line: then the answer
// ends before the next declaration, or a comment on it.
func endWithDeclaration(cmd *cobra.Command, r *memra.Request, prompt string) {
	if slices.ContainsFunc([]string{"predict", "stop", "stop-after"}, cmd.Flags().Changed) {
		return
	}
	r.MaxTokens = mostDeclaration
	r.StopAfter = []string{braceAlone}
	if strings.LastIndexByte(prompt, '{') > strings.LastIndex(prompt, braceAlone) {
		for _, begin := range []string{"func ", "type ", "var ", "const ", "//"} {
			r.Stop = append(r.Stop, "\n"+begin, "\n\n"+begin)
		}
	}
}
