package hf

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
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

// Each folder was saved by transformers; its GGUF twin was written by the gguf package, the logits computed in float64.
func TestFoldersComputeWhatTransformersAndTheirGGUFTwinsDo(t *testing.T) {
	zips, err := filepath.Glob("testdata/tiny/*.zip")
	if err != nil || len(zips) < 10 {
		t.Fatalf("%d folders, %v", len(zips), err)
	}
	for _, path := range zips {
		name := strings.TrimSuffix(filepath.Base(path), ".zip")
		t.Run(name, func(t *testing.T) {
			tiny, err := golden.LoadTiny(filepath.Join("../model/testdata/tiny", name))
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
			same := sameTensors(t, folder.Tensors(), twin)
			tok, err := tokenizer.FromGGUF(folder.Metadata())
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range tiny.Prompts {
				if got := tok.Encode(p.Text, tokenizer.Options{AddSpecial: true}); !slices.Equal(got, p.Tokens) {
					t.Errorf("%q: tokens %v, want %v", p.Text, got, p.Tokens)
				}
				got := logits(t, folder, p.Tokens)
				for i, at := range p.Positions {
					within(t, got[at], p.Logits[i])
				}
				if !same {
					continue
				}
				want := logits(t, model.GGUF(twin), p.Tokens)
				for at := range want {
					if !sameBits(got[at], want[at]) {
						t.Fatalf("%q: position %d: the logits' bits differ from the GGUF file's", p.Text, at)
					}
				}
			}
		})
	}
}

// sameTensors compares names, shapes and bits. Divisors of rotary frequencies may differ in the last bits, for this twin's were
// computed in float64: then it returns false.
func sameTensors(t *testing.T, got []gguf.Tensor, want *gguf.File) (same bool) {
	t.Helper()
	if len(got) != len(want.Tensors) {
		t.Fatalf("%d tensors, want %d", len(got), len(want.Tensors))
	}
	same = true
	for i := range got {
		w, ok := want.Tensor(got[i].Name)
		if !ok || got[i].Type != w.Type || !slices.Equal(got[i].Shape, w.Shape) {
			t.Fatalf("tensor %s %s %v, want %v", got[i].Name, got[i].Type, got[i].Shape, w)
		}
		data, err := got[i].Bytes()
		if err != nil {
			t.Fatal(err)
		}
		if bytes.Equal(data, w.Data) {
			continue
		}
		if same = false; w.Name != "rope_freqs.weight" {
			t.Errorf("tensor %s: the bits differ", w.Name)
			continue
		}
		a, errA := vector(weight{Tensor: got[i]})
		b, errB := vector(weight{Tensor: *w})
		for j := range a {
			if errA != nil || errB != nil || math.Abs(float64(a[j]/b[j]-1)) > 3e-7 {
				t.Errorf("divisor %d is %v, want %v", j, a[j], b[j])
			}
		}
	}
	return same
}

func sameBits(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Float32bits(x) == math.Float32bits(y) })
}

// within compares logits as package model's tests do: 2e-5 of the row's largest.
func within(t *testing.T, got, want []float32) {
	t.Helper()
	var scale float64
	for _, v := range want {
		scale = max(scale, math.Abs(float64(v)))
	}
	for i := range want {
		if d := math.Abs(float64(got[i] - want[i])); !(d <= 2e-5*scale) {
			t.Fatalf("logit %d: %v, want %v (largest %v)", i, got[i], want[i], scale)
		}
	}
}
