package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"memra/gguf"
)

// write writes a file and returns its path.
func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestRenderShowsWhatATemplateMakes(t *testing.T) {
	messages := write(t, "messages.json", `[{"role":"system","content":"Be brief."},{"role":"user","content":"<Hi> & ü"}]`)
	file := write(t, "t.jinja", "{{ bos_token }}{{ tools | tojson if tools }}{% for m in messages %}[{{ m.content }}]{% endfor %}{{ '>' if add_generation_prompt }}")
	tools := write(t, "tools.json", `[{"b":1,"a":2}]`)
	model := chatModel(t)
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"the model's own", []string{"-m", model}, "system:Be brief.;user:<Hi> & ü;>"},
		{"without the beginning of an answer", []string{"-m", model, "--no-generation-prompt"}, "system:Be brief.;user:<Hi> & ü;"},
		{"a file's, which belongs to no model", []string{"--template", file}, "[Be brief.][<Hi> & ü]>"},
		{"a file's, for a model", []string{"--template", file, "-m", model}, "<|start|>[Be brief.][<Hi> & ü]>"},
		{"with tools, in their order", []string{"--template", file, "--tools", tools}, `[{"b": 1, "a": 2}][Be brief.][<Hi> & ü]>`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := succeed(t, "", append([]string{"render", messages}, c.args...)...); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			var j struct{ Prompt string }
			decode(t, succeed(t, `[{"role":"user","content":"x"}]`, append([]string{"render", "-o", "json", "-"}, c.args...)...), &j)
			if !strings.Contains(j.Prompt, "x") {
				t.Errorf("JSON has the prompt %q", j.Prompt)
			}
		})
	}
}

func TestRenderSaysWhatIsWrong(t *testing.T) {
	good := write(t, "messages.json", `[{"role":"user","content":"x"}]`)
	for _, c := range []struct {
		name   string
		status int
		args   []string
		want   string
	}{
		{"no template", 2, []string{good}, "--template"},
		{"no messages", 2, []string{"-m", "x.gguf"}, "messages"},
		{"a model without a template", 1, []string{"-m", baseModel(t), good}, "no chat template"},
		{"messages that are no array", 1, []string{"-m", chatModel(t), write(t, "m.json", `{"role":"user"}`)}, "JSON array"},
		{"messages cut off", 1, []string{"-m", chatModel(t), write(t, "m.json", `[{"role":`)}, "byte 9"},
		{"a conversation that the template refuses", 1, []string{"--template", write(t, "t.jinja", "\n{{ raise_exception('no') }}"), good}, "refuses"},
		{"a template that is none", 1, []string{"--template", write(t, "t.jinja", "{% for %}"), good}, "line 1"},
		{"an empty template", 1, []string{"--template", write(t, "t.jinja", ""), good}, "is empty"},
		{"tools that are none", 1, []string{"-m", chatModel(t), "--tools", good + ".missing", good}, "tools"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := invoke(t, "", append([]string{"render"}, c.args...)...)
			if o.status != c.status || !strings.Contains(o.err, c.want) || o.out != "" {
				t.Errorf("status %d, output %q, error %q; want status %d and %q", o.status, o.out, o.err, c.status, c.want)
			}
		})
	}
}

func TestTokenizeTakesVocabulariesAlone(t *testing.T) {
	const text = "hello"
	model := baseModel(t)
	f, err := gguf.Open(model)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	alone := filepath.Join(t.TempDir(), "vocab.gguf")
	if err := gguf.Write(alone, f.Meta, nil); err != nil {
		t.Fatal(err)
	}
	if got, want := succeed(t, "", "tokenize", "-m", alone, text), succeed(t, "", "tokenize", "-m", model, text); got != want {
		t.Errorf("a vocabulary gives %q, the model %q", got, want)
	}
	folder := t.TempDir()
	json := `{"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false},"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]}}`
	if err := os.WriteFile(filepath.Join(folder, "tokenizer.json"), []byte(json), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := succeed(t, "", "tokenize", "-m", folder, "-o", "json", "abba"), `{"ids":[2,1,0],"pieces":["ab","b","a"]}`+"\n"; got != want {
		t.Errorf("a folder gives %q, want %q", got, want)
	}
}
