package chat

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// goldens is testdata/goldens.json, written by tools/oracle/chat.py.
type goldens struct {
	Now   time.Time
	Cases map[string]struct {
		Messages  []Message
		Tools     []RawJSON
		Prompt    bool           `json:"add_generation_prompt"`
		Continued bool           `json:"continue_final_message"`
		Vars      map[string]any `json:"vars"`
	}
	Goldens map[string]map[string]RawJSON
}

func readGoldens(t testing.TB) goldens {
	t.Helper()
	data, err := os.ReadFile("testdata/goldens.json")
	if err != nil {
		t.Fatal(err)
	}
	var g goldens
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g goldens) input(name string) Input {
	c := g.Cases[name]
	return Input{
		Messages: c.Messages, Tools: c.Tools, AddGenerationPrompt: c.Prompt, ContinueFinalMessage: c.Continued,
		BOS: "<BOS>", EOS: "<EOS>", Vars: c.Vars, Now: g.Now,
	}
}

// outcome is what the oracle got: a text, the template's own refusal, or a failure of Python's.
type outcome struct {
	text  string
	Raise string
	Fails string
	As    string
}

func (g goldens) outcome(t testing.TB, template, name string) outcome {
	raw := g.Goldens[template][name]
	var o outcome
	var err error
	if raw[0] == '"' {
		err = json.Unmarshal(raw, &o.text)
	} else {
		err = json.Unmarshal(raw, &o)
	}
	if err != nil {
		t.Fatal(err)
	}
	if o.As != "" {
		return g.outcome(t, template, o.As)
	}
	return o
}

func readTemplate(t testing.TB, name string) *Template {
	t.Helper()
	source, err := os.ReadFile(filepath.Join("testdata/templates", name+".jinja"))
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := Parse(string(source))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return parsed
}

// expectedFailures lists "template / case" with the reason. It is empty, and a case in it that passes fails the test.
var expectedFailures = map[string]string{}

func TestRenderingsEqualTransformers(t *testing.T) {
	g := readGoldens(t)
	var unexpected []string
	for template, cases := range g.Goldens {
		parsed := readTemplate(t, template)
		for name := range cases {
			want := g.outcome(t, template, name)
			got, err := parsed.Render(g.input(name))
			id := template + " / " + name
			wrong := ""
			var failure *TemplateError
			switch {
			case want.Raise != "":
				if !errors.As(err, &failure) || !failure.Raised || failure.Message != want.Raise {
					wrong = "error " + errorText(err) + ", want the template to raise " + want.Raise
				}
			case want.Fails != "":
				if err == nil {
					wrong = "no error, want what Python calls " + want.Fails
				}
			case err != nil:
				wrong = errorText(err)
			case got != want.text:
				wrong = difference(got, want.text)
			}
			reason, expected := expectedFailures[id]
			switch {
			case wrong != "" && !expected:
				unexpected = append(unexpected, id+": "+wrong)
			case wrong == "" && expected:
				unexpected = append(unexpected, id+" passes now, but is expected to fail: "+reason)
			}
		}
	}
	slices.Sort(unexpected)
	for _, u := range unexpected {
		t.Error(u)
	}
}

func errorText(err error) string {
	if err == nil {
		return "(none)"
	}
	return err.Error()
}

// difference shows where two texts part.
func difference(got, want string) string {
	at := 0
	for at < min(len(got), len(want)) && got[at] == want[at] {
		at++
	}
	around := func(s string) string { return s[max(0, min(len(s), at)-30):min(len(s), at+40)] }
	quote := func(s string) string { b, _ := json.Marshal(s); return string(b) }
	return strings.Join([]string{"got ..." + quote(around(got)), "want ..." + quote(around(want))}, ", ")
}
