package memra

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"memra/sample"
)

// longAgo is a time that no file has by chance.
var longAgo = time.Unix(1e9, 0)

// turns is a conversation of 2,000 tokens, as its tokens, and a message that follows.
func turns(m *Model) (conversation, message []int32) {
	for i := 0; len(conversation) < 2000; i++ {
		conversation = append(conversation, m.TokenizePlain(fmt.Sprintf("%d: then the thin rain ended, and what came after it was %d.\n", i, i*i))...)
	}
	return conversation[:2000], m.TokenizePlain(strings.Repeat("and then? ", 10))
}

// The second turn of a conversation of 2,000 tokens computes what is new: the last token of the first answer, which has not been computed yet,
// and the message. It says what a model says that has never seen the first.
func TestASecondTurnComputesOnlyItsMessage(t *testing.T) {
	for _, name := range []string{"llama-plain", "gemma3-plain", "qwen35-plain", "gptoss-plain"} {
		t.Run(name, func(t *testing.T) {
			m, cold := openTiny(t, name, Options{Context: 4096}), openTiny(t, name, Options{Context: 4096, NoPrefixCache: true})
			first, message := turns(m)
			r := Request{Tokens: first, MaxTokens: 100, LogProbs: true, TopLogProbs: 3, Sampling: sample.Params{Temperature: 1, Seed: 4}}
			_, answer, done := collect(t, m, r)
			if done.Reused != 0 || done.Missed != "nothing is cached" {
				t.Errorf("the first turn: %d tokens reused, %q", done.Reused, done.Missed)
			}
			for range 2 {
				r.Tokens = slices.Clone(first)
				for _, token := range answer {
					r.Tokens = append(r.Tokens, token.ID)
				}
				r.Tokens = append(r.Tokens, message...)
				text, tokens, done := collect(t, m, r)
				if want := len(r.Tokens) - len(message) - 1; done.Reused != want {
					t.Errorf("%d of %d tokens are reused (%s), want %d", done.Reused, done.Prompt, done.Missed, want)
				}
				coldText, coldTokens, done := collect(t, cold, r)
				if done.Reused != 0 || done.Missed != "the prefix cache is off" {
					t.Errorf("the cold one: %d tokens reused, %q", done.Reused, done.Missed)
				}
				if text != coldText || !sameTokens(tokens, coldTokens) {
					t.Error("a warm answer is not what a cold one is")
				}
				first, answer = r.Tokens, tokens
			}
		})
	}
}

// The same in another process: what the first left in a folder is found there.
func TestAConversationGoesOnInAnotherProcess(t *testing.T) {
	for _, name := range []string{"llama-plain", "gemma3-plain", "qwen35-plain"} {
		t.Run(name, func(t *testing.T) {
			path, o := tinyModel(t, name), Options{Context: 4096, CacheDir: filepath.Join(t.TempDir(), "prefixes")}
			open := func(o Options) *Model {
				m, err := Open(path, o)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { m.Close() })
				return m
			}
			m := open(o)
			first, message := turns(m)
			r := Request{Tokens: first, MaxTokens: 100, LogProbs: true, TopLogProbs: 3, Sampling: sample.Params{Temperature: 1, Seed: 4}}
			_, answer, _ := collect(t, m, r)
			if err := m.Close(); err != nil {
				t.Fatal(err)
			}
			r.Tokens = slices.Clone(first)
			for _, token := range answer {
				r.Tokens = append(r.Tokens, token.ID)
			}
			r.Tokens = append(r.Tokens, message...)
			_, tokens, done := collect(t, open(o), r)
			if want := len(r.Tokens) - len(message) - 1; done.Reused != want {
				t.Errorf("%d of %d tokens are reused (%s), want %d", done.Reused, done.Prompt, done.Missed, want)
			}
			if _, cold, _ := collect(t, open(Options{Context: 4096, NoPrefixCache: true}), r); !sameTokens(tokens, cold) {
				t.Error("a warm answer is not what a cold one is")
			}
			if err := os.Chtimes(path, longAgo, longAgo); err != nil {
				t.Fatal(err)
			}
			if _, _, done := collect(t, open(o), r); done.Reused != 0 {
				t.Errorf("%d tokens are reused of a model whose file has changed since, want none", done.Reused)
			}
		})
	}
}

func TestTenantsDoNotSeeEachOthersPrefixes(t *testing.T) {
	m := openTiny(t, "llama-plain", Options{})
	for i, c := range []struct {
		tenant string
		reused int
		missed string
	}{{"", 0, "nothing is cached"}, {"b", 0, "nothing of this tenant is cached"}, {"b", 99, ""}, {"", 99, ""}} {
		first, _ := turns(m)
		if _, _, done := collect(t, m, Request{Tokens: first[:100], MaxTokens: 2, Tenant: c.tenant}); done.Reused != c.reused || done.Missed != c.missed {
			t.Errorf("request %d, of %q: %d tokens are reused (%s), want %d (%s)", i, c.tenant, done.Reused, done.Missed, c.reused, c.missed)
		}
	}
}

func TestModelsAreToldApart(t *testing.T) {
	path := tinyModel(t, "llama-plain")
	hash := func() string {
		f, err := openFile(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		return modelHash(fileSource{f})
	}
	seen := map[string]string{hash(): "itself"}
	again := func(what string) {
		t.Helper()
		if before, ok := seen[hash()]; ok {
			t.Errorf("%s has the hash of %s", what, before)
		}
		seen[hash()] = what
	}
	if seen[hash()] != "itself" {
		t.Error("a file has two hashes")
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] ^= 1
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, longAgo, longAgo); err != nil {
		t.Fatal(err)
	}
	again("a file with another last byte")
	if err := os.Chtimes(path, longAgo, longAgo.Add(1)); err != nil {
		t.Fatal(err)
	}
	again("a file of another time")
}

func TestAPrefixFolderThatCannotBeUsedIsALineInTheLog(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	m := openTiny(t, "llama-plain", Options{CacheDir: filepath.Join(file, "below"), Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	collect(t, m, Request{Prompt: "Hi", MaxTokens: 3})
	if n := strings.Count(log.String(), "\n"); n != 1 || !strings.Contains(log.String(), "no prefixes are kept on disk") || !strings.Contains(log.String(), file) {
		t.Errorf("the log says %q, want one line that names the folder", log.String())
	}
	for _, o := range []Options{{CacheDir: file, NoPrefixCache: true}, {CacheDisk: 1}, {CacheDir: file, CacheDisk: -1}} {
		if m, err := Open(tinyModel(t, "llama-plain"), o); err == nil {
			m.Close()
			t.Errorf("%+v is no error", o)
		}
	}
}
