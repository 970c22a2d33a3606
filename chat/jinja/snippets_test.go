package jinja

import (
	"encoding/json"
	"os"
	"testing"
	"time"
)

var frozen = time.Date(2025, 3, 4, 5, 6, 7, 0, time.UTC)

// snippets is testdata/snippets.json, written by tools/oracle/chat.py: [source, text or {"fails": kind}].
type snippets struct {
	Vars     map[string]json.RawMessage
	Snippets [][2]json.RawMessage
}

func readSnippets(t testing.TB) (sources []string, want []json.RawMessage, vars map[string]Value) {
	t.Helper()
	data, err := os.ReadFile("testdata/snippets.json")
	if err != nil {
		t.Fatal(err)
	}
	var s snippets
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	vars = map[string]Value{}
	for name, raw := range s.Vars {
		if vars[name], err = FromJSON(raw); err != nil {
			t.Fatal(err)
		}
	}
	for _, pair := range s.Snippets {
		var source string
		if err := json.Unmarshal(pair[0], &source); err != nil {
			t.Fatal(err)
		}
		sources, want = append(sources, source), append(want, pair[1])
	}
	return sources, want, vars
}

func render(source string, vars map[string]Value) (string, error) {
	t, err := Parse(source)
	if err != nil {
		return "", err
	}
	return t.Render(vars, frozen)
}

func TestSnippetsEqualJinja2(t *testing.T) {
	sources, wants, vars := readSnippets(t)
	for i, source := range sources {
		got, err := render(source, vars)
		if wants[i][0] == '{' {
			if err == nil {
				t.Errorf("%s\n gives %q, want an error: Jinja2's is %s", source, got, wants[i])
			}
			continue
		}
		var want string
		if err := json.Unmarshal(wants[i], &want); err != nil {
			t.Fatal(err)
		}
		if err != nil || got != want {
			t.Errorf("%s\n got %q %v\nwant %q", source, got, err, want)
		}
	}
}
