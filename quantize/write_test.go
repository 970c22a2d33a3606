package quantize

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"memra/gguf"
	"memra/model"
	"memra/quant"
)

// small writes and opens a model of one layer with normal weights; change may alter its values.
func small(t *testing.T, name string, change func(tensor string, x []float32)) *gguf.File {
	t.Helper()
	meta := new(gguf.Metadata)
	meta.Set("general.architecture", "llama")
	meta.Set("llama.block_count", uint32(1))
	meta.Set("llama.attention.head_count", uint32(4))
	meta.Set("general.name", "small")
	meta.Set("split.count", uint16(0))
	rng := rand.New(rand.NewPCG(1, 2))
	var tensors []gguf.Tensor
	for _, c := range []struct {
		name  string
		shape []int
	}{
		{"token_embd.weight", []int{300, 256}}, {"blk.0.attn_v.weight", []int{257, 256}}, {"blk.0.ffn_down_exps.weight", []int{2, 5, 512}},
		{"blk.0.attn_norm.weight", []int{256}}, {"empty.weight", []int{0, 256}},
	} {
		tensor := gguf.Tensor{Name: c.name, Type: gguf.F32, Shape: c.shape}
		x := make([]float32, tensor.Values())
		for i := range x {
			x[i] = float32(rng.NormFloat64())
		}
		if change != nil {
			change(c.name, x)
		}
		tensor.Data = floats32(x...)
		tensors = append(tensors, tensor)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := gguf.Write(path, meta, tensors); err != nil {
		t.Fatal(err)
	}
	return open(t, path)
}

func open(t *testing.T, path string) *gguf.File {
	t.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestTheFileHoldsWhatItsEncodersMakeOfTheSource(t *testing.T) {
	f := small(t, "model.gguf", nil)
	dst := filepath.Join(t.TempDir(), "out.gguf")
	var done atomic.Int64
	if err := Write(t.Context(), model.GGUF(f), dst, Options{Mix: "q4_k", Progress: func(n int) { done.Add(int64(n)) }}); err != nil {
		t.Fatal(err)
	}
	out := open(t, dst)
	want := map[string]gguf.Type{"token_embd.weight": gguf.Q6_K, "blk.0.attn_v.weight": gguf.Q6_K, "blk.0.ffn_down_exps.weight": gguf.Q6_K,
		"blk.0.attn_norm.weight": gguf.F32, "empty.weight": gguf.Q4_K}
	values := 0
	for i, tensor := range out.Tensors {
		source := f.Tensors[i]
		if tensor.Name != source.Name || tensor.Type != want[tensor.Name] {
			t.Errorf("tensor %d: found %s of %v, want %s of %v", i, tensor.Name, tensor.Type, source.Name, want[source.Name])
			continue
		}
		x, data := make([]float32, source.Values()), make([]byte, len(tensor.Data))
		from, _ := quant.For(gguf.F32)
		to, _ := quant.For(tensor.Type)
		from.Dequantize(x, source.Data)
		to.Quantize(data, x, nil)
		if !bytes.Equal(data, tensor.Data) {
			t.Errorf("%s: found other bytes than its encoder makes", tensor.Name)
		}
		values += source.Values()
	}
	if int(done.Load()) != values {
		t.Errorf("progress told of %d values, want %d", done.Load(), values)
	}
	for key, want := range map[string]any{"general.file_type": uint32(15), "general.quantization_version": uint32(2), "general.name": "small"} {
		if v, _ := out.Meta.Get(key); v != want {
			t.Errorf("%s: found %v, want %v", key, v, want)
		}
	}
	if _, ok := out.Meta.Get("split.count"); ok {
		t.Error("found split.count in a file that stands alone")
	}
}

func TestTheBytesDoNotDependOnThreads(t *testing.T) {
	f := small(t, "model.gguf", nil)
	var first []byte
	for _, threads := range []int{1, 2, 7} {
		dst := filepath.Join(t.TempDir(), "out.gguf")
		if err := Write(t.Context(), model.GGUF(f), dst, Options{Mix: "Q3_K_M", Threads: threads}); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(dst)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = data
		} else if !bytes.Equal(data, first) {
			t.Errorf("%d threads: found other bytes than one thread makes", threads)
		}
	}
}

// A stack's matrices have columns of their own: the first one's importance must not reach the second.
func TestImportanceIsThatOfTheMatrixInTheStack(t *testing.T) {
	f := small(t, "model.gguf", nil)
	const name = "blk.0.ffn_down_exps.weight"
	columns := make([]float32, 2*512)
	for i := range columns {
		columns[i] = 1
		if i >= 512 && i%4 != 0 {
			columns[i] = 1e-4
		}
	}
	dst := filepath.Join(t.TempDir(), "out.gguf")
	o := Options{Mix: "Q2_K", Pure: true, Importance: &Importance{path: "a/i.gguf", matrix: map[string][]float32{name: columns}}}
	if err := Write(t.Context(), model.GGUF(f), dst, o); err != nil {
		t.Fatal(err)
	}
	out := open(t, dst)
	tensor, _ := out.Tensor(name)
	source, _ := f.Tensor(name)
	x, y := make([]float32, source.Values()), make([]float32, source.Values())
	from, _ := quant.For(gguf.F32)
	to, _ := quant.For(tensor.Type)
	from.Dequantize(x, source.Data)
	to.Dequantize(y, tensor.Data)
	var miss [2][2]float64 // matrix, important or not
	for i := range x {
		matrix, column := i/(5*512), i%512
		miss[matrix][min(1, column%4)] += math.Pow(float64(x[i]-y[i]), 2) / map[bool]float64{true: 1, false: 3}[column%4 == 0]
	}
	if r := miss[0][0] / miss[0][1]; r < 0.7 || r > 1.4 {
		t.Errorf("the first matrix: errors of the two kinds of columns are as %.2f to 1, want alike", r)
	}
	if r := miss[1][0] / miss[1][1]; r > 0.3 {
		t.Errorf("the second matrix: errors of important columns are %.2f of the others', want less than 0.3", r)
	}
	if v, _ := out.Meta.Get("quantize.imatrix.file"); v != "i.gguf" {
		t.Errorf("quantize.imatrix.file: found %v, want i.gguf", v)
	}
	o.Importance.matrix[name] = columns[:512]
	if err := Write(t.Context(), model.GGUF(f), dst, o); err == nil || !strings.Contains(err.Error(), "512 columns, want 1024") {
		t.Errorf("found the error %v, want one about 512 columns instead of 1024", err)
	}
}

func TestWhatCannotBeWrittenIsRefused(t *testing.T) {
	infinite := func(tensor string, x []float32) {
		if tensor == "blk.0.attn_v.weight" {
			x[256*200+3] = float32(math.Inf(1))
		}
	}
	huge := func(_ string, x []float32) {
		if len(x) > 0 {
			x[0] = 1e6
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	fine := small(t, "model.gguf", nil)
	quantised := filepath.Join(t.TempDir(), "q8.gguf")
	if err := Write(t.Context(), model.GGUF(fine), quantised, Options{Mix: "Q8_0"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		ctx  context.Context
		file *gguf.File
		dst  string // empty: a new file
		o    Options
		want string
	}{
		{"a type that is none", t.Context(), fine, "", Options{Mix: "Q4_X"}, `no type is called "Q4_X", want one of F32, BF16`},
		{"an infinity", t.Context(), small(t, "model.gguf", infinite), "", Options{Mix: "Q4_0"}, `"blk.0.attn_v.weight": value 3 of row 200 is +Inf`},
		{"a value beyond F16", t.Context(), small(t, "model.gguf", huge), "", Options{Mix: "F16"}, "beyond the largest F16"},
		{"a folder that is not there", t.Context(), fine, filepath.Join(t.TempDir(), "no", "out.gguf"), Options{Mix: "Q4_0"}, "no such file"},
		{"quantised already", t.Context(), open(t, quantised), "", Options{Mix: "Q4_0"}, "4 tensors are quantised already (empty.weight is Q8_0, token_embd.weight is Q8_0"},
		{"interrupted", ended, fine, "", Options{Mix: "Q4_0"}, context.Canceled.Error()},
	} {
		dst := c.dst
		if dst == "" {
			dst = filepath.Join(t.TempDir(), "out.gguf")
		}
		before, _ := os.ReadFile(dst)
		err := Write(c.ctx, model.GGUF(c.file), dst, c.o)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: found the error %v, want one with %q", c.name, err, c.want)
		}
		if after, _ := os.ReadFile(dst); !bytes.Equal(before, after) {
			t.Errorf("%s: found %s changed", c.name, dst)
		}
		if left, _ := filepath.Glob(filepath.Join(filepath.Dir(dst), ".*")); len(left) > 0 {
			t.Errorf("%s: found %v left behind", c.name, left)
		}
	}
}

func TestAnOverrideNamesAPartOfATensorAndAFormat(t *testing.T) {
	f := small(t, "model.gguf", nil)
	var o Options
	for _, text := range []string{"ATTN_V=q8_0", "attn_v=f16", "^token_embd=Q4_1"} {
		over, err := ParseOverride(text)
		if err != nil {
			t.Fatal(err)
		}
		o.Overrides = append(o.Overrides, over)
	}
	o.Mix = "Q4_K_M"
	plan, err := Plan(model.GGUF(f), o)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []gguf.Type{gguf.Q4_1, gguf.Q8_0, gguf.Q6_K, gguf.F32, gguf.Q4_K} {
		if plan[i].Type != want {
			t.Errorf("%s: found %v, want %v", plan[i].Tensor.Name, plan[i].Type, want)
		}
	}
	for text, want := range map[string]string{
		"attn_v": "want NAME=TYPE", "=q8_0": "want NAME=TYPE", "attn_v=q9": `called "q9", want one of F32, F16`, "a(=q8_0": "missing closing )",
		"attn_v=iq2_xs": "that can be written",
	} {
		if _, err := ParseOverride(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: found the error %v, want one with %q", text, err, want)
		}
	}
}

func TestAWriteErrorIsReportedOnce(t *testing.T) {
	o := Options{Threads: 4}
	boom := errors.New("boom")
	err := o.parallel(100, 1, func() func(int) error {
		return func(first int) error {
			if first%10 == 3 {
				return boom
			}
			return nil
		}
	})
	if !errors.Is(err, boom) {
		t.Errorf("found the error %v, want boom", err)
	}
}
