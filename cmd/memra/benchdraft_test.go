package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"memra"
)

func TestBenchMeasuresWhatDraftsBring(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text.go")
	if err := os.WriteFile(path, []byte("package list\n\n// Len returns the number of elements.\nfunc (l *List) Len() int { return l.length }\n\n// Cap returns"), 0o600); err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[string]string{"auto": "mtp+lookup", "mtp": "mtp", "lookup": "lookup", memra.Builtin: "draft"} {
		var rows []draftRow
		decode(t, succeed(t, "", "bench", "-m", memra.Builtin, "--device", "cpu", "--text", path, "--draft", kind, "--draft-max", "3", "-t", "1", "-n", "12", "-b", "1,3", "-r", "2", "-o", "json"), &rows)
		if len(rows) != 2 {
			t.Fatalf("%s: %d rows, want 2", kind, len(rows))
		}
		for i, r := range rows {
			if r.Draft != want || r.NGen != 12 || r.NStreams != []int{1, 3}[i] || len(r.PlainTS) != 2 || len(r.DraftTS) != 2 || r.Ratio <= 0 || len(r.NDrafted) != 3 || r.NAccepted[0] > r.NDrafted[0] {
				t.Errorf("%s: %+v", kind, r)
			}
		}
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--text", path, "--requests", "3"}, "give it without --requests"},
		{[]string{"--text", "nowhere"}, "the text: "},
		{[]string{"--text", path, "-b", "40"}, "a prompt of"},
		{[]string{"--text", path, "--draft", "nowhere"}, "the draft model: "},
	} {
		if o := invoke(t, "", append([]string{"bench", "-m", memra.Builtin, "--device", "cpu", "-n", "4"}, c.args...)...); o.status == 0 || !strings.Contains(o.err, c.want) {
			t.Errorf("%v: status %d, %q, want one with %q", c.args, o.status, o.err, c.want)
		}
	}
}
