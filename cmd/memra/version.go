package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

// build is what the binary knows of its making.
type build struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"` // "unknown" for builds outside a checkout
	Go       string `json:"go"`
	Platform string `json:"platform"`
}

func readBuild() build {
	b := build{Version: "(devel)", Commit: "unknown", Go: runtime.Version(), Platform: runtime.GOOS + "/" + runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if info.Main.Version != "" {
		b.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			b.Commit = s.Value
		}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.modified" && s.Value == "true" {
			b.Commit += "+changes"
		}
	}
	return b
}

func newVersion(a *app) *cobra.Command {
	output := choices("text", "json")
	cmd := &cobra.Command{
		Use:     "version",
		Short:   "Say what this binary is",
		Example: "  memra version\n  memra version -o json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			b := readBuild()
			if output.value == "json" {
				return writeJSON(a.out, b)
			}
			_, err := fmt.Fprintf(a.out, "memra %s, commit %s, %s, %s\n", b.Version, b.Commit, b.Go, b.Platform)
			return err
		},
	}
	output.addOutput(cmd)
	return cmd
}
