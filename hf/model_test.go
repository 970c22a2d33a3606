package hf

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"memra/compute"
	"memra/compute/cpu"
	"memra/gguf"
	"memra/internal/golden"
	"memra/model"
	"memra/state"
	"memra/tokenizer"
)

// openZip opens a folder that tools/oracle/hf.py packed, after a change to its files.
func openZip(t *testing.T, path string, change func(folder string)) (*Folder, error) {
	t.Helper()
	dir := t.TempDir()
	if err := golden.Folder(path, dir); err != nil {
		t.Fatal(err)
	}
	if change != nil {
		change(dir)
	}
	f, err := Open(dir)
	if err == nil {
		t.Cleanup(func() { f.Close() })
	}
	return f, err
}

// logits computes a sequence in one step, with keys and values in float32.
func logits(t *testing.T, src model.Source, tokens []int32) [][]float32 {
	t.Helper()
	d, err := cpu.Open(2)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	m, err := model.Open(src, d)
	if err != nil {
		t.Fatal(err)
	}
	pool, err := state.NewPool(d, m.State(), state.Config{Format: compute.KVF32, Positions: 128, Sequences: 1, Step: 128})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { pool.Close() })
	s := pool.NewSequence()
	var b compute.Batch
	for i, token := range tokens {
		b.Add(token, i, 0, true)
	}
	if err := s.Extend(len(tokens)); err != nil {
		t.Fatal(err)
	}
	view := pool.View(s)
	rows, err := d.Run(func(ops compute.Ops) compute.Tensor { return m.Forward(ops, &b, view) })
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// Each folder was saved by transformers; its GGUF twin was written by llama.cpp's converter, from the same folder.
func TestFoldersSayWhatTheirGGUFTwinsDo(t *testing.T) {
	zips, err := filepath.Glob("../model/testdata/tiny/*.zip")
	if err != nil || len(zips) < 10 {
		t.Fatalf("%d folders, %v", len(zips), err)
	}
	for _, path := range zips {
		name := strings.TrimSuffix(filepath.Base(path), ".zip")
		t.Run(name, func(t *testing.T) {
			tiny, err := golden.LoadTiny(strings.TrimSuffix(path, ".zip"))
			if err != nil {
				t.Fatal(err)
			}
			folder, err := openZip(t, path, nil)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join(t.TempDir(), "twin.gguf")
			if err := os.WriteFile(file, tiny.GGUF, 0o644); err != nil {
				t.Fatal(err)
			}
			twin, err := gguf.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer twin.Close()
			sameTensors(t, folder.Tensors(), twin)
			sameKeys(t, folder.Metadata(), twin.Meta, tiny)
			tok, err := tokenizer.FromGGUF(folder.Metadata())
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range tiny.Prompts {
				if got := tok.Encode(p.Text, tokenizer.Options{AddSpecial: true}); !slices.Equal(got, p.Tokens) {
					t.Errorf("%q: tokens %v, want %v", p.Text, got, p.Tokens)
				}
			}
		})
	}
}

// sameTensors compares names, shapes and bits.
func sameTensors(t *testing.T, got []gguf.Tensor, want *gguf.File) {
	t.Helper()
	if len(got) != len(want.Tensors) {
		t.Errorf("%d tensors, want %d", len(got), len(want.Tensors))
	}
	for i := range got {
		w, ok := want.Tensor(got[i].Name)
		if !ok || got[i].Type != w.Type || !slices.Equal(got[i].Shape, w.Shape) {
			t.Errorf("tensor %s %s %v, want %v", got[i].Name, got[i].Type, got[i].Shape, w)
			continue
		}
		if data, err := got[i].Bytes(); err != nil {
			t.Error(err)
		} else if !bytes.Equal(data, w.Data) {
			t.Errorf("tensor %s: the bits differ", w.Name)
		}
	}
}

// sameKeys compares what is said of the model and of its tokenizer, but for the keys that say more than the converter does.
func sameKeys(t *testing.T, got, want *gguf.Metadata, tiny *golden.Tiny) {
	t.Helper()
	compared := func(key string) bool {
		if own, ok := strings.CutPrefix(key, tiny.Family+"."); ok {
			return !slices.Contains(tiny.Keys, own)
		}
		switch key {
		case "general.architecture":
			return true
		case "tokenizer.chat_template", // the oracle takes it out
			"tokenizer.ggml.add_space_prefix",                    // here also where it is the default
			"tokenizer.ggml.scores", "tokenizer.ggml.token_type": // of control tokens and <unk>: the converter does as each family's author did
			return false
		}
		return strings.HasPrefix(key, "tokenizer.")
	}
	for key, w := range want.All() {
		if g, ok := got.Get(key); compared(key) && (!ok || !reflect.DeepEqual(g, w)) {
			t.Errorf("metadata %s: %v (%T), want %v (%T)", key, g, g, w, w)
		}
	}
	for key, g := range got.All() {
		if _, said := want.Get(key); compared(key) && !said {
			t.Errorf("metadata %s: %v, which llama.cpp's converter does not write", key, g)
		}
	}
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}
