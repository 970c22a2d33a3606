package main

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"

	"memra"
)

func TestWithoutAModelTheBuiltInOneCompletesAFunction(t *testing.T) {
	o := invoke(t, "", "run", tourPrompt)
	if o.status != 0 || !strings.HasSuffix(o.out, braceAlone) || strings.Count(o.out, braceAlone) != 1 {
		t.Fatalf("status %d, %q, want text to the first brace alone", o.status, o.out)
	}
	if !strings.Contains(o.err, "built-in model") || !strings.Contains(o.err, "-m FILE") || strings.Count(o.err, "\n") != 1 {
		t.Errorf("standard error %q, want a line that names the model and how to take another", o.err)
	}
	if _, err := parser.ParseFile(token.NewFileSet(), "", "package p\n\n"+tourPrompt+o.out, 0); err != nil {
		t.Errorf("%s%s\nis no Go: %v", tourPrompt, o.out, err)
	}
	named := invoke(t, "", "run", "-m", memra.Builtin, tourPrompt)
	if named.out != o.out || named.err != "" {
		t.Errorf("named, it gives %q and says %q", named.out, named.err)
	}
	if long := succeed(t, "", "run", "-n", "200", tourPrompt); !strings.HasPrefix(long, o.out+"\n") {
		t.Errorf("with -n it ends like this all the same: %q", long)
	}
}

func TestWithoutAPromptTheTourRuns(t *testing.T) {
	out, answer := succeed(t, "", "run"), succeed(t, "", "run", tourPrompt)
	for _, want := range []string{tourPrompt + answer, "tokens/s", "memra complete", "memra inspect -m builtin", "-m model.gguf"} {
		if !strings.Contains(out, want) {
			t.Errorf("the tour does not have %q:\n%s", want, out)
		}
	}
}

func TestTheBuiltInModelIsAModelLikeAnyOther(t *testing.T) {
	const file = "package p\n\nimport \"os\"\n\nfunc open(path string) (*os.File, error) {\n\tf, err := os.Open(path)\n\tif err != nil {\n\n\t}\n\treturn f, nil\n}\n"
	for _, c := range []struct {
		name string
		args []string
		want string // in the output
	}{
		{"tokenize", []string{"tokenize", "func a"}, `"func"`},
		{"inspect", []string{"inspect", "--no-tensors"}, "The Go Authors"},
		{"inspect by name", []string{"inspect", "-o", "json", "-m", "builtin"}, `"card": "`},
		{"check of its file", []string{"inspect", "--check", "-o", "json", "builtin"}, `"faults":[]`},
		{"score", []string{"score", "func a"}, `"sum":`},
		{"bench", []string{"bench", "-p", "4", "-n", "2", "-r", "1"}, "qwen35"},
		{"complete", []string{"complete", "--stdin", "a.go:8"}, "return nil, err"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if out := succeed(t, file, c.args...); !strings.Contains(out, c.want) {
				t.Errorf("found %q, want %q in it", out, c.want)
			}
		})
	}
}
