package quantize

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"memra/gguf"
	"memra/model"
)

var update = flag.Bool("update", false, "write what llama-quantize chooses to testdata/choices.txt; MEMRA_PEER names its folder")

// sample is a model in outline: matrices of one row of blocks or two, which is all that choices depend on.
type sample struct {
	name                          string
	family                        string
	layers, heads, kv, experts    int
	width                         int
	untied, fusedQKV, importance_ bool
}

var samples = []sample{
	{name: "every head its own keys", family: "llama", layers: 17, heads: 8, kv: 8, width: 256},
	{name: "four heads a key, output of its own", family: "llama", layers: 32, heads: 32, kv: 8, width: 256, untied: true},
	{name: "importance", family: "llama", layers: 32, heads: 32, kv: 16, width: 256, importance_: true},
	{name: "80 layers", family: "llama", layers: 80, heads: 64, kv: 8, width: 256, untied: true},
	{name: "80 layers of qwen2", family: "qwen2", layers: 80, heads: 64, kv: 8, width: 256},
	{name: "8 experts", family: "llama", layers: 32, heads: 32, kv: 8, experts: 8, width: 256, untied: true},
	{name: "64 experts", family: "qwen3moe", layers: 24, heads: 32, kv: 4, experts: 64, width: 256, untied: true},
	{name: "falcon", family: "falcon", layers: 32, heads: 8, kv: 8, width: 256, fusedQKV: true, untied: true},
	{name: "rows of 288", family: "llama", layers: 8, heads: 8, kv: 8, width: 288},
	{name: "rows of 200", family: "llama", layers: 8, heads: 4, kv: 4, width: 200},
}

// file is the outline as a GGUF file has it.
func (s sample) file() (*gguf.Metadata, []gguf.Tensor) {
	meta := new(gguf.Metadata)
	meta.Set("general.architecture", s.family)
	for key, n := range map[string]int{
		"block_count": s.layers, "context_length": 128, "embedding_length": s.width, "feed_forward_length": s.width,
		"attention.head_count": s.heads, "attention.head_count_kv": s.kv, "expert_count": s.experts, "expert_used_count": min(s.experts, 2),
		"expert_feed_forward_length": s.width, "vocab_size": 2,
	} {
		meta.Set(s.family+"."+key, uint32(n))
	}
	meta.Set(s.family+".attention.layer_norm_rms_epsilon", float32(1e-5))
	meta.Set(s.family+".attention.layer_norm_epsilon", float32(1e-5))
	var tensors []gguf.Tensor
	add := func(name string, shape ...int) {
		t := gguf.Tensor{Name: name, Type: gguf.F32, Shape: shape}
		t.Data = make([]byte, t.Size())
		tensors = append(tensors, t)
	}
	add("token_embd.weight", 2, s.width)
	add("output_norm.weight", s.width)
	if s.untied {
		add("output.weight", 2, s.width)
	}
	for i := range s.layers {
		matrix := func(name string) { add(fmt.Sprintf("blk.%d.%s.weight", i, name), 2, s.width) }
		add(fmt.Sprintf("blk.%d.attn_norm.weight", i), s.width)
		if s.fusedQKV {
			matrix("attn_qkv")
		} else {
			matrix("attn_q")
			matrix("attn_k")
			matrix("attn_v")
		}
		matrix("attn_output")
		if s.experts == 0 {
			matrix("ffn_up")
			matrix("ffn_gate")
			matrix("ffn_down")
			continue
		}
		matrix("ffn_gate_inp")
		for _, name := range []string{"up", "gate", "down"} {
			add(fmt.Sprintf("blk.%d.ffn_%s_exps.weight", i, name), s.experts, 2, s.width)
		}
	}
	return meta, tensors
}

// importance knows one matrix, which is enough to count as importance.
func (s sample) importance() *Importance {
	if !s.importance_ {
		return nil
	}
	return &Importance{matrix: map[string][]float32{"blk.0.attn_q.weight": make([]float32, s.width)}}
}

// choices is what becomes of every kind of matrix: for each, the runs of layers that become the same.
func choices(types map[string]string) string {
	runs := map[string][]string{}
	for _, name := range slices.SortedFunc(mapKeys(types), byLayer) {
		kind := regexp.MustCompile(`^blk\.\d+\.`).ReplaceAllString(name, "")
		kind = strings.TrimSuffix(kind, ".weight")
		if r := runs[kind]; len(r) > 0 && strings.HasSuffix(r[len(r)-1], " "+types[name]) {
			var n int
			var t string
			fmt.Sscan(r[len(r)-1], &n, &t)
			r[len(r)-1] = fmt.Sprint(n+1, " ", t)
			continue
		}
		runs[kind] = append(runs[kind], "1 "+types[name])
	}
	var b strings.Builder
	for _, kind := range slices.Sorted(mapKeys(runs)) {
		if strings.Contains(kind, "norm") {
			continue // stays as it is, in every mix
		}
		fmt.Fprintf(&b, "  %s: %s\n", kind, strings.Join(runs[kind], ", "))
	}
	return b.String()
}

func mapKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// ours is what Plan says.
func ours(t *testing.T, s sample, m mix, pure bool) map[string]string {
	t.Helper()
	meta, tensors := s.file()
	plan, err := Plan(model.GGUF(&gguf.File{Meta: meta, Tensors: tensors}), Options{Mix: m.name, Pure: pure, Importance: s.importance()})
	if err != nil {
		t.Fatal(err)
	}
	types := map[string]string{}
	for _, c := range plan {
		types[c.Tensor.Name] = c.Type.String()
	}
	return types
}

// theirs is what llama-quantize says.
func theirs(t *testing.T, peer string, s sample, m mix, pure bool) map[string]string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "model.gguf")
	meta, tensors := s.file()
	if err := gguf.Write(path, meta, tensors); err != nil {
		t.Fatal(err)
	}
	args := []string{"--dry-run"}
	if pure {
		args = append(args, "--pure")
	}
	if s.importance_ {
		args = append(args, "--imatrix", writeImportance(t, dir, "blk.0.attn_q.weight", make([]float32, s.width), 1))
	}
	out, err := exec.Command(filepath.Join(peer, "llama-quantize"), append(args, path, m.name)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", s.name, m.name, err, out)
	}
	types := map[string]string{}
	line := regexp.MustCompile(`\] (\S+) +- \[.*type = +(\w+), (?:.*\n)*?.*size = .*MiB(?: \((\w+)\))?`)
	for _, entry := range regexp.MustCompile(`(?m)^\[ *\d+/ *\d+`).Split(string(bytes.ReplaceAll(out, []byte("\r"), nil)), -1)[1:] {
		f := line.FindStringSubmatch(entry)
		if f == nil {
			t.Fatalf("cannot read %q", entry)
		}
		types[f[1]] = strings.ToUpper(f[2])
		if f[3] != "" {
			types[f[1]] = strings.ToUpper(f[3])
		}
	}
	return types
}

// everyChoice is the text of all models and mixes.
func everyChoice(t *testing.T, choose func(s sample, m mix, pure bool) map[string]string) string {
	var b strings.Builder
	for _, s := range samples {
		for _, m := range mixes {
			for _, pure := range []bool{false, true} {
				if pure && s.width%256 == 0 {
					continue // one format, which always fits
				}
				fmt.Fprintf(&b, "%s: %s, pure %v\n%s", s.name, m.name, pure, choices(choose(s, m, pure)))
			}
		}
	}
	return b.String()
}

func TestEveryMatrixGetsTheFormatThatLlamaQuantizeGivesIt(t *testing.T) {
	const golden = "testdata/choices.txt"
	peer := os.Getenv("MEMRA_PEER")
	if *update && peer == "" {
		t.Fatal("-update needs MEMRA_PEER")
	}
	got := everyChoice(t, func(s sample, m mix, pure bool) map[string]string { return ours(t, s, m, pure) })
	want, err := os.ReadFile(golden)
	if peer != "" {
		want = []byte(everyChoice(t, func(s sample, m mix, pure bool) map[string]string { return theirs(t, peer, s, m, pure) }))
		if *update {
			err = os.WriteFile(golden, want, 0o644)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	mine, peers := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	section, wrong := "", 0
	for i := range min(len(mine), len(peers)) {
		if !strings.HasPrefix(mine[i], " ") {
			section = mine[i]
		}
		if mine[i] != peers[i] {
			if wrong++; wrong < 20 {
				t.Errorf("%s: found %q, want %q", section, mine[i], peers[i])
			}
		}
	}
	if len(mine) != len(peers) {
		t.Errorf("found %d lines, want %d", len(mine), len(peers))
	}
}
