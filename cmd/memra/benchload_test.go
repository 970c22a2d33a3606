package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestBenchMeasuresTheEngineUnderALoad(t *testing.T) {
	var rows []loadRow
	decode(t, succeed(t, "", "bench", "-m", baseModel(t), "--requests", "5", "-p", "8", "-n", "2,4", "-b", "1,3", "-o", "json"), &rows)
	if len(rows) != 4 {
		t.Fatalf("%d rows, want 4", len(rows))
	}
	for i, r := range rows {
		generate := []int{2, 2, 4, 4}[i]
		if r.NPrompt != 8 || r.NGen != generate || r.NParallel != []int{1, 3, 1, 3}[i] || r.NRequests != 5 || r.PromptTokens != 40 || r.GenTokens != 5*generate || r.ModelNParams == 0 {
			t.Errorf("%+v", r)
		}
		if r.FirstP50 <= 0 || r.FirstP50 > r.FirstP90 || r.FirstP90 > r.FirstP99 || r.TokenP50 > r.TokenP99 || r.StepTS <= 0 || r.GenTS <= 0 || r.RequestsS <= 0 {
			t.Errorf("%+v", r)
		}
	}
	table := succeed(t, "", "bench", "--synthetic", "SmolLM2-135M", "--format", "Q4_0", "--device", "cpu", "--requests", "2", "-p", "4", "-n", "2", "-b", "2")
	if lines := strings.Split(table, "\n"); !strings.Contains(lines[2], "2 x pp4+tg2, 2 at a time") || len(cells(lines[0])) != len(cells(lines[2])) {
		t.Errorf("%s", table)
	}
}

func TestBenchServesTheRequestsOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "in.jsonl")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"prompt":"Then","max_tokens":3,"n":2}` + "\n" + `{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":["a","b"],"max_tokens":2}}` + "\n")
	model := baseModel(t)
	var rows []loadRow
	decode(t, succeed(t, "", "bench", "-m", model, "--requests", path, "-b", "2", "-o", "json"), &rows)
	if len(rows) != 1 || rows[0].NRequests != 3 || rows[0].GenTokens == 0 || rows[0].GenTokens > 10 {
		t.Errorf("%+v, want a row of three prompts", rows)
	}
	for _, c := range []struct{ text, want string }{
		{`{"prompt":"a"}` + "\n" + `{"prompt":"a","seed":-1}`, "line 2: seed: found -1"},
		{"\n", "no requests"},
		{`{"prompt":[999]}`, "token 999"},
	} {
		write(c.text)
		if o := invoke(t, "", "bench", "-m", model, "--requests", path); o.status != 1 || !strings.Contains(o.err, c.want) {
			t.Errorf("%s: status %d, %q, want one with %q", c.text, o.status, o.err, c.want)
		}
	}
}

func TestQuantilesAreTimesThatWereMeasured(t *testing.T) {
	times := []time.Duration{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for share, want := range map[float64]int64{0.5: 5, 0.9: 9, 0.99: 10, 0: 1, 1: 10} {
		if got := quantile(times, share); got != want {
			t.Errorf("%v of ten: %d, want %d", share, got, want)
		}
	}
	if quantile(nil, 0.5) != 0 || quantile(times[:1], 0.99) != 1 {
		t.Error("of none 0, of one the one")
	}
}
