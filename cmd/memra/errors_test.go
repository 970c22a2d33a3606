package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"memra/gguf"
)

func TestWhatCannotWorkIsOneClearError(t *testing.T) {
	model, chatty := baseModel(t), chatModel(t)
	dir := t.TempDir()
	file := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	whole := tinyGolden(t).GGUF
	notModel := file("not.gguf", []byte("this is no model file, whatever its name"))
	truncated := file("truncated.gguf", whole[:len(whole)/2])
	martian := change(t, func(m *gguf.Metadata) { m.Set("general.architecture", "martian") })
	strange := change(t, func(m *gguf.Metadata) { m.Set("tokenizer.ggml.pre", "martian") })
	faulty := change(t, func(m *gguf.Metadata) {
		m.Set("tokenizer.chat_template", "line one\n{{ raise_exception('no such talk') }}")
	})
	unclosed := change(t, func(m *gguf.Metadata) { m.Set("tokenizer.chat_template", "{% for x in y %}") })

	for _, c := range []struct {
		name   string
		args   string // words
		input  string
		status int
		want   string // words that the message must have, in this order
	}{
		{"no such command", "rum", "", 2, `"rum" run? --help`},
		{"no such flag", "run -m x --bogus hi", "", 2, "run: --bogus run --help"},
		{"a conversation without a model", "chat", "", 2, "no model -m built-in"},
		{"no prompt", "run -m x", "", 2, "no prompt - to read"},
		{"a prompt without quotes", "run -m x what is this", "", 2, "3 arguments quotes"},
		{"a prompt from two places", "run -m x -f y hi", "", 2, "prompt -f"},
		{"a number that is none", "run -m x -n many hi", "", 2, `--predict "many" number`},
		{"no tokens to generate", "run -m x -n 0 hi", "", 2, "-n 0 -1 no limit"},
		{"a negative temperature", "run -m x --temp -1 hi", "", 2, "temperature -1 >= 0"},
		{"a penalty that divides by nothing", "run -m x --repeat-penalty 0.0001 hi", "", 2, "repeat penalty 0.0001 0.001"},
		{"no last tokens", "run -m x --repeat-last-n 0 hi", "", 2, "--repeat-last-n 0 1 or more -1"},
		{"a bias of no token", "run -m x --logit-bias x+1 hi", "", 2, `--logit-bias "x+1" 15043+1`},
		{"a bias that is no number", "run -m x --logit-bias 5+x hi", "", 2, `--logit-bias "5+x" "+x" number`},
		{"a filter that does not exist", "run -m x --samplers top_k;top_q hi", "", 2, `"top_q" top_k`},
		{"a filter that is on and left out", "run -m x --samplers top_k --min-p 0.1 hi", "", 2, "min_p is on"},
		{"a format of the KV cache that does not exist", "run -m x -ctk q9 hi", "", 2, `--cache-type "q9" f16 or f32`},
		{"a folder for prefixes, and none wanted", "run --raw -m " + model + " --cache-dir d --no-prefix-cache hi", "", 1, "no prefix cache"},
		{"room on disk without a folder", "run --raw -m " + model + " --cache-disk 1G hi", "", 1, "1000000000 bytes of disk"},
		{"a format of the KV cache by another name", "run -m x --kv-type q9 hi", "", 2, `--cache-type "q9"`},
		{"a system message without a template", "run -m x --raw --system y hi", "", 2, "--system --raw"},
		{"an output that does not exist", "score -m x -o xml hi", "", 2, `--output "xml" json or text`},
		{"a token that is no number", "score -m x --tokens 1,b", "", 2, `--tokens "1,b" whole numbers`},
		{"a negative token", "score -m x --tokens -1", "", 2, `--tokens "-1" from 0`},
		{"tokens and a text", "score -m x --tokens 1 hi", "", 2, "text --tokens"},
		{"a benchmark of nothing", "bench -m x -p 0 -n 0", "", 2, "no test"},
		{"a benchmark on no thread", "bench -m x -t 0", "", 2, `--threads "0" from 1`},
		{"a benchmark without repetitions", "bench -m x -r 0", "", 2, "-r 0 1 or more"},
		{"a benchmark of no stream", "bench -m x -b 0", "", 2, `--streams "0" from 1`},
		{"a benchmark of a file and of none", "bench -m x --synthetic Gemma-3-12B", "", 2, "-m --synthetic one"},
		{"a benchmark of an unknown shape", "bench --synthetic GPT-5", "", 2, `--synthetic "GPT-5" Llama-3.1-8B Gemma-3-27B`},
		{"a benchmark of a file in a format", "bench -m x --format Q8_0", "", 2, "--format --synthetic"},
		{"a load of no request", "bench -m x --requests 0", "", 2, `--requests "0" from 1`},
		{"a load of no token", "bench -m x --requests 3 -n 0", "", 2, "--requests -p -n from 1"},
		{"a load of texts for random weights", "bench --synthetic Gemma-3-12B --requests y", "", 2, "--requests synthetic number"},
		{"a device that does not exist", "run -m x --device tpu hi", "", 2, `--device "tpu" auto, cpu, cuda or cuda:N`},
		{"a device to check that does not exist", "check --device cuda:x", "", 2, `--device "cuda:x" cuda:N`},
		{"perplexity of nothing", "perplexity -m x", "", 2, "-f"},
		{"windows too small", "perplexity -m x -c 2 -f " + notModel, "", 2, "2 tokens 4"},
		{"a batch without requests", "batch -m x -o y", "", 2, "batch: -i"},
		{"a batch without a file for answers", "batch -m x -i y", "", 2, "batch: -o"},
		{"a batch of nothing at a time", "batch -m x -i y -o z --parallel 0", "", 2, "--parallel 0 1 or more"},
		{"inspect of two files", "inspect x y", "", 2, "2 models one"},
		{"inspect of a file twice", "inspect -m x y", "", 2, "2 models one"},
		{"a completion nowhere", "complete -m x", "", 2, "0 arguments FILE:LINE"},
		{"a completion of no line", "complete -m x f.go", "", 2, `"f.go" FILE:LINE`},
		{"a completion of line 0", "complete -m x f.go:0", "", 2, `"f.go:0" count from 1`},

		{"a missing model", "run -m nosuch.gguf hi", "", 1, "nosuch.gguf no such file"},
		{"a folder", "run -m " + dir + " hi", "", 1, dir + " folder .gguf"},
		{"a wrong magic", "run -m " + notModel + " hi", "", 1, notModel + ` "this" "GGUF"`},
		{"a truncated file", "run -m " + truncated + " hi", "", 1, truncated + " truncated"},
		{"an unknown family", "run -m " + martian + " hi", "", 1, "martian gemma3 llama"},
		{"an unknown pre-tokeniser", "tokenize -m " + strange + " hi", "", 1, "martian"},
		{"a template that does not parse", "run -m " + unclosed + " hi", "", 1, "template line 1"},
		{"a template that refuses", "run -m " + faulty + " hi", "", 1, "line 2 no such talk"},
		{"a missing prompt file", "run -m x -f nosuch.txt", "", 1, "prompt: nosuch.txt"},
		{"a prompt file that is a folder", "run -m x -f " + dir, "", 1, "prompt: " + dir + " directory"},
		{"a completion of a file that is not there", "complete -m x nosuch.go:1", "", 1, "file nosuch.go no such file"},
		{"a completion of a line beyond the end", "complete -m x --stdin a.go:3", "a\n", 1, "a.go: line 3 1 to 2"},
		{"a completion of a column beyond the end", "complete -m x --stdin a.go:1:4", "ab\n", 1, "a.go:1: column 4, 1 to 3"},
		{"a completion inside a character", "complete -m x --stdin a.go:1:2", "é\n", 1, "a.go:1: column 2 inside a character"},
		{"a completion by a model that cannot", "complete -m " + model + " --stdin a.go:1", "a", 1, model + " no tokens fim_pre_token_id take"},
		{"an empty prompt", "run -m " + chatty + " -", "\n", 1, "prompt is empty --raw"},
		{"an empty prompt and no start token", "run --raw -m " + model + " -", "", 1, "prompt is empty no start token"},
		{"a prompt that is not UTF-8", "run -m " + model + " -", "ab\xff", 1, "not UTF-8 byte 2 0xff"},
		{"a prompt longer than the context", "run --raw -m " + model + " -c 64 -", strings.Repeat("x", 100), 1, "100 tokens context 64"},
		{"a token beyond the vocabulary", "score -m " + model + " --tokens 5,999", "", 1, "token 999 262"},
		{"a draft model that is not there", "run --raw -m " + model + " --draft nosuch.gguf hi", "", 1, "draft model nosuch.gguf"},
		{"a draft model with another vocabulary", "run --raw -m " + model + " -md builtin hi", "", 1, "builtin another vocabulary"},
		{"a model without a layer that guesses", "run --raw -m " + model + " --draft mtp hi", "", 1, "no layer auto"},
		{"more guesses than are computed at once", "run --raw -m " + model + " --draft-max 1000 hi", "", 1, "1000 tokens"},
		{"a bias of a token beyond the vocabulary", "run --raw -m " + model + " --logit-bias 999+1 hi", "", 1, "logit bias 999 262"},
		{"nothing to score", "score -m " + model + " -", "", 1, "empty"},
		{"a text shorter than a window", "perplexity -m " + model + " -c 64 -f -", "short", 1, "5 tokens 64"},
		{"a conversation with a base model", "chat -m " + model, "", 1, "no chat template"},
		{"an unknown chat command", "chat -m " + chatty, "/dance\n", 1, "/dance /help"},
		{"a message that does not end", "chat -m " + chatty, "\"\"\"\nhi", 1, `inside a message """`},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := invoke(t, c.input, strings.Fields(c.args)...)
			if o.status != c.status {
				t.Errorf("status %d, want %d", o.status, c.status)
			}
			if o.out != "" {
				t.Errorf("standard output has %q", o.out)
			}
			if !strings.HasPrefix(o.err, "memra: ") || strings.Count(o.err, "\n") != 1 || strings.Contains(o.err, "strconv") {
				t.Errorf("not one line of plain words: %q", o.err)
			}
			rest := o.err
			for word := range strings.FieldsSeq(c.want) {
				_, after, found := strings.Cut(rest, word)
				if !found {
					t.Fatalf("%q does not say %q in its place", o.err, word)
				}
				rest = after
			}
		})
	}
}
