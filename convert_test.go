package memra

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memra/gguf"
	"memra/internal/golden"
)

// tinyFolder is one of the oracle's tiny models as transformers saved it.
func tinyFolder(t testing.TB, name string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := golden.Folder(filepath.Join("model/testdata/tiny", name+".zip"), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestAFolderAnswersAsItsGGUFFileDoes(t *testing.T) {
	for _, name := range []string{"llama-grouped", "gemma3-local"} {
		folder := tinyFolder(t, name)
		file := filepath.Join(t.TempDir(), "converted.gguf")
		var heard []int
		if err := Convert(t.Context(), folder, file, ConvertOptions{Progress: func(done, total int) { heard = append(heard, done, total) }}); err != nil {
			t.Fatal(err)
		}
		if n := len(heard); n < 4 || heard[n-2] != heard[n-1] || !slices.IsSorted(evens(heard)) {
			t.Errorf("%s: progress %v, want it to rise to the total", name, heard)
		}
		var texts [3]string
		var tokens [3][]Token
		for i, path := range []string{folder, file, tinyModel(t, name)} {
			m, err := Open(path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			texts[i], tokens[i], _ = collect(t, m, Request{Prompt: "Then the thin rain", MaxTokens: 12})
		}
		for i := range texts[1:] {
			if texts[i] != texts[i+1] || !slices.EqualFunc(tokens[i], tokens[i+1], func(a, b Token) bool { return a.ID == b.ID && a.LogProb == b.LogProb }) {
				t.Errorf("%s: route %d gives %q, route %d %q", name, i, texts[i], i+1, texts[i+1])
			}
		}
	}
}

func evens(v []int) (out []int) {
	for i := 0; i < len(v); i += 2 {
		out = append(out, v[i])
	}
	return out
}

func TestAFolderConversesByItsOwnTemplate(t *testing.T) {
	folder := tinyFolder(t, "llama-plain")
	info, err := Inspect(folder)
	if err != nil {
		t.Fatal(err)
	}
	if info.Family != "llama" || !strings.Contains(info.Template, "<|start|>") || info.Parameters == 0 || info.Bytes != 4*info.Parameters {
		t.Errorf("family %q, template %q, %d parameters, %d bytes", info.Family, info.Template, info.Parameters, info.Bytes)
	}
	config := filepath.Join(folder, "tokenizer_config.json")
	data, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := json.Unmarshal(data, &values); err != nil {
		t.Fatal(err)
	}
	values["chat_template"] = "of the config"
	write := func(path string, v any) {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write(config, values)
	write(filepath.Join(folder, "chat_template.json"), map[string]any{"chat_template": "of the JSON"})
	for _, want := range []string{"<|start|>", "of the JSON", "of the config", "of two", ""} {
		info, err := Inspect(folder)
		if err != nil || !strings.Contains(info.Template, want) || want == "" && info.Template != "" {
			t.Errorf("template %q, %v, want %q", info.Template, err, want)
		}
		switch want { // the next in rank
		case "<|start|>":
			err = os.Remove(filepath.Join(folder, "chat_template.jinja"))
		case "of the JSON":
			err = os.Remove(filepath.Join(folder, "chat_template.json"))
		case "of the config":
			values["chat_template"] = []any{map[string]any{"name": "tools", "template": "t"}, map[string]any{"name": "default", "template": "of two"}}
			write(config, values)
		case "of two":
			delete(values, "chat_template")
			write(config, values)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestConvertWritesTheFormatThatIsAskedFor(t *testing.T) {
	folder := tinyFolder(t, "llama-llama3")
	for _, c := range []struct {
		to       string
		matrices gguf.Type
		fileType int
	}{{"", gguf.F32, 0}, {"auto", gguf.F32, 0}, {"f32", gguf.F32, 0}, {"f16", gguf.F16, 1}, {"bf16", gguf.BF16, 32}} {
		path := filepath.Join(t.TempDir(), "m.gguf")
		if err := Convert(t.Context(), folder, path, ConvertOptions{Type: c.to}); err != nil {
			t.Fatal(err)
		}
		f, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if n, err := f.Meta.Int("general.file_type"); err != nil || n != c.fileType {
			t.Errorf("%q: file type %d, %v, want %d", c.to, n, err, c.fileType)
		}
		for _, tensor := range f.Tensors {
			want := c.matrices
			if len(tensor.Shape) == 1 {
				want = gguf.F32
			}
			if tensor.Type != want {
				t.Errorf("%q: tensor %s is %s, want %s", c.to, tensor.Name, tensor.Type, want)
			}
		}
	}
}

func TestConvertWritesAllOrNothing(t *testing.T) {
	folder := tinyFolder(t, "llama-plain")
	dir := t.TempDir()
	path := filepath.Join(dir, "m.gguf")
	if err := os.WriteFile(path, []byte("was here"), 0o644); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	calls := 0
	stop := func(done, total int) {
		if calls++; calls == 3 {
			cancel()
		}
	}
	if err := Convert(ctx, folder, path, ConvertOptions{Progress: stop}); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want context.Canceled", err)
	}
	for _, c := range []struct{ name, from, to, typ, want string }{
		{"no folder", filepath.Join(dir, "none"), path, "", "no such file"},
		{"a file for a folder", path, path, "", "is a file, want a Hugging Face model folder"},
		{"an empty folder", t.TempDir(), path, "", "is a folder without config.json"},
		{"a folder for a file", folder, dir, "", "is a folder, want the name of the file to write"},
		{"a file of the folder", folder, filepath.Join(folder, "model.safetensors"), "", "whose files are not to be replaced"},
		{"a type for which there is quantize", folder, path, "q8_0", `type "q8_0", want auto, f32, f16 or bf16`},
		{"a place that is not there", folder, filepath.Join(dir, "a", "b.gguf"), "", "no such file"},
	} {
		if err := Convert(t.Context(), c.from, c.to, ConvertOptions{Type: c.typ}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want one with %q", c.name, err, c.want)
		}
	}
	list, err := os.ReadDir(dir)
	if data, _ := os.ReadFile(path); err != nil || len(list) != 1 || string(data) != "was here" {
		t.Errorf("the folder has %v, the file %q", list, data)
	}
}
