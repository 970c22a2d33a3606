package check

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memra/compute"
	"memra/compute/cpu"
	"memra/compute/cuda"
	"memra/internal/overlap"
	"memra/sample"
)

func open(t *testing.T) *cpu.Device {
	t.Helper()
	d, err := cpu.Open(0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func plain() (compute.Device, error) { return cpu.OpenPlain(0) }

func run(t *testing.T, d compute.Device, o Options) (results []Result) {
	t.Helper()
	if err := Run(t.Context(), d, o, func(r Result) { results = append(results, r) }); err != nil {
		t.Fatal(err)
	}
	return results
}

func TestTheCPUPasses(t *testing.T) {
	for _, r := range run(t, open(t), Options{Seed: 5, Quick: true, Plain: plain}) {
		t.Logf("%-7s %-50s %s (%.2f s)", r.Status, r.Name, r.Detail, r.Seconds)
		if r.Status == Failed || r.Status == Skipped && !strings.Contains(r.Detail, "no graphs") && !strings.Contains(r.Detail, "a step at a time") && !strings.Contains(r.Detail, "no cache in") {
			t.Errorf("%s: %s: %s", r.Name, r.Status, r.Detail)
		}
	}
}

func TestTheGPUPasses(t *testing.T) {
	d, err := cuda.Open(0)
	if err != nil {
		t.Skip(err)
	}
	defer d.Close()
	for _, r := range run(t, d, Options{Seed: 5, Quick: true}) {
		t.Logf("%-7s %-50s %s (%.2f s)", r.Status, r.Name, r.Detail, r.Seconds)
		if r.Status == Failed {
			t.Errorf("%s: %s", r.Name, r.Detail)
		}
	}
}

// faulty is a device whose operations have a fault.
type faulty struct {
	*cpu.Device
	spoil func(compute.Ops) compute.Ops
}

func (f faulty) Run(forward func(compute.Ops) compute.Tensor) ([][]float32, error) {
	return f.Device.Run(func(ops compute.Ops) compute.Tensor { return forward(f.spoil(ops)) })
}

// The faults, each an operation that is a little wrong.
type (
	smallerEmbed  struct{ compute.Ops }
	ownEps        struct{ compute.Ops }
	epsByRows     struct{ compute.Ops }
	lostResidual  struct{ compute.Ops }
	swappedGate   struct{ compute.Ops }
	otherGate     struct{ compute.Ops }
	turnedByOne   struct{ compute.Ops }
	otherPairing  struct{ compute.Ops }
	widerWindow   struct{ compute.Ops }
	firstLogits   struct{ compute.Ops }
	wholeNorm     struct{ compute.Ops }
	unscaledSum   struct{ compute.Ops }
	otherColumns  struct{ compute.Ops }
	lastKeysLost  struct{ compute.Ops }
	twiceMultiply struct{ compute.Ops }
)

func (o smallerEmbed) Embed(b *compute.Batch, w compute.Weight, scale float32) compute.Tensor {
	return o.Ops.Embed(b, w, scale*(1-1.0/4096))
}

func (o ownEps) Norm(x compute.Tensor, g compute.Vector, _ float32) compute.Tensor {
	return o.Ops.Norm(x, g, 1e-3)
}

func (o epsByRows) AddNorm(x, y compute.Tensor, g compute.Vector, e float32) (s, n compute.Tensor) {
	return o.Ops.AddNorm(x, y, g, e*(1+float32(x.Rows)))
}

func (o lostResidual) AddNorm(x, _ compute.Tensor, g compute.Vector, e float32) (s, n compute.Tensor) {
	return o.Ops.AddNorm(x, compute.Tensor{}, g, e)
}

func (o swappedGate) SwiGLU(g, u compute.Tensor) compute.Tensor { return o.Ops.SwiGLU(u, g) }
func (o otherGate) GeGLU(g, u compute.Tensor) compute.Tensor    { return o.Ops.SwiGLU(g, u) }

func (o turnedByOne) QKNormRope(b *compute.Batch, q, k compute.Tensor, qk compute.QK) (compute.Tensor, compute.Tensor) {
	later := *b
	later.Positions = nil
	for _, p := range b.Positions {
		later.Positions = append(later.Positions, p+1)
	}
	return o.Ops.QKNormRope(&later, q, k, qk)
}

func (o otherPairing) QKNormRope(b *compute.Batch, q, k compute.Tensor, qk compute.QK) (compute.Tensor, compute.Tensor) {
	r := *qk.Rope
	r.Neighbour = !r.Neighbour
	qk.Rope = &r
	return o.Ops.QKNormRope(b, q, k, qk)
}

func (o widerWindow) Attention(b *compute.Batch, q compute.Tensor, kv compute.KV, a compute.Attn) compute.Tensor {
	if a.Window > 0 {
		a.Window++
	}
	return o.Ops.Attention(b, q, kv, a)
}

func (o firstLogits) Logits(b *compute.Batch, x compute.Tensor, w compute.Weight) compute.Tensor {
	first := *b
	first.Logits = nil
	for i := range b.Logits {
		first.Logits = append(first.Logits, int32(i))
	}
	return o.Ops.Logits(&first, x, w)
}

func (o wholeNorm) Norm(x compute.Tensor, g compute.Vector, e float32) compute.Tensor {
	gain := make([]float32, 0, x.Width)
	for len(gain) < x.Width {
		gain = append(gain, g.Mem.([]float32)...)
	}
	return o.Ops.Norm(x, compute.Vector{Width: x.Width, Mem: gain}, e)
}

func (o unscaledSum) Add(x, y compute.Tensor, _ float32) compute.Tensor { return o.Ops.Add(x, y, 1) }

func (o otherColumns) Columns(x compute.Tensor, from, width int) compute.Tensor {
	return o.Ops.Columns(x, from-8, width)
}

// A step of many rows forgets the keys of its last row.
func (o lastKeysLost) AppendKV(b *compute.Batch, kv compute.KV, k, v compute.Tensor) {
	if n := b.Rows(); n > 40 {
		fewer := *b
		fewer.Slots = append([]int32(nil), b.Slots...)
		fewer.Slots[n-1] = -1
		b = &fewer
	}
	o.Ops.AppendKV(b, kv, k, v)
}

// Many rows are rounded as few are not.
func (o twiceMultiply) MatMul(x compute.Tensor, w compute.Weight) compute.Tensor {
	y := o.Ops.MatMul(x, w)
	if x.Rows > 64 {
		_, y = o.Ops.AddNorm(y, compute.Tensor{}, compute.Vector{Width: y.Width, Mem: constant(y.Width, 1)}, 1e-6)
	}
	return y
}

func constant(n int, v float32) []float32 {
	c := make([]float32, n)
	for i := range c {
		c[i] = v
	}
	return c
}

func TestPlantedFaultsAreSeen(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(compute.Ops) compute.Ops
		red   []string // checks that must fail
	}{
		"an embedding that is smaller by 2^-12":      {func(o compute.Ops) compute.Ops { return smallerEmbed{o} }, []string{"embed F32", "embed Q4_K"}},
		"a norm with an eps of its own":              {func(o compute.Ops) compute.Ops { return ownEps{o} }, []string{"norm"}},
		"a norm that depends on the number of rows":  {func(o compute.Ops) compute.Ops { return epsByRows{o} }, []string{"a row in any company: norms", "a schedule is invisible: llama"}},
		"a sum that forgets what is added":           {func(o compute.Ops) compute.Ops { return lostResidual{o} }, []string{"add and norm"}},
		"a gate with its operands swapped":           {func(o compute.Ops) compute.Ops { return swappedGate{o} }, []string{"swiglu"}},
		"a gate of another kind":                     {func(o compute.Ops) compute.Ops { return otherGate{o} }, []string{"geglu"}},
		"a rotation by the next position":            {func(o compute.Ops) compute.Ops { return turnedByOne{o} }, []string{"norm and rotation of heads"}},
		"a rotation of other pairs":                  {func(o compute.Ops) compute.Ops { return otherPairing{o} }, []string{"norm and rotation of heads"}},
		"a window that is wider by one":              {func(o compute.Ops) compute.Ops { return widerWindow{o} }, []string{"attention"}},
		"a norm of whole rows where heads are asked": {func(o compute.Ops) compute.Ops { return wholeNorm{o} }, []string{"norm of heads"}},
		"a sum that is not scaled":                   {func(o compute.Ops) compute.Ops { return unscaledSum{o} }, []string{"sum"}},
		"columns from another place":                 {func(o compute.Ops) compute.Ops { return otherColumns{o} }, []string{"columns"}},
		"logits of the first rows":                   {func(o compute.Ops) compute.Ops { return firstLogits{o} }, []string{"logits"}},
		"keys that a step of many rows forgets":      {func(o compute.Ops) compute.Ops { return lastKeysLost{o} }, []string{"attention", "a row in any company: attention", "a schedule is invisible: gemma3"}},
		"a product that many rows compute otherwise": {func(o compute.Ops) compute.Ops { return twiceMultiply{o} }, []string{"a row in any company: matmul Q8_0", "few rows and many are multiplied alike"}},
	} {
		t.Run(name, func(t *testing.T) {
			failed := map[string]bool{}
			c2 := checkerOf(t, faulty{open(t), c.spoil})
			for _, check := range c2.list() {
				for _, want := range c.red {
					if check.name != want {
						continue
					}
					if err := c2.again(check); err != nil && !errors.Is(err, errSkip) {
						failed[want] = true
					}
				}
			}
			for _, want := range c.red {
				if !failed[want] {
					t.Errorf("%q does not fail", want)
				}
			}
		})
	}
}

// checkerOf is the checks on a device, to be run one by one.
func checkerOf(t *testing.T, d compute.Device) *checker {
	t.Helper()
	return &checker{Options: Options{Seed: 3, Quick: true}, device: d, limit: classes[d.Class()]}
}

func (c *checker) again(check one) error {
	c.rng = newRand(c.Seed, check.name)
	_, err := check.run(c)
	return err
}

// crossed is a device whose steps have the tokens of other draws.
type crossed struct{ *overlap.Device }

func (d crossed) Start(forward func(compute.Ops) compute.Tensor, draws []sample.Draw) (func() ([]sample.Pick, error), error) {
	return d.Device.Start(func(ops compute.Ops) compute.Tensor { return forward(crossing{ops, len(draws)}) }, draws)
}

type crossing struct {
	compute.Ops
	draws int
}

func (o crossing) Embed(b *compute.Batch, w compute.Weight, scale float32) compute.Tensor {
	for i, t := range b.Tokens {
		if t < 0 {
			b.Tokens[i] = compute.Drawn((int(-1-t) + 1) % o.draws)
		}
	}
	return o.Ops.Embed(b, w, scale)
}

func TestStepsBegunAheadAreThoseInTurn(t *testing.T) {
	for _, f := range families {
		begun := &overlap.Device{Device: open(t)}
		for _, c := range []struct {
			name   string
			device compute.Device
			fails  bool
		}{{"as they should", begun, false}, {"with tokens of other rows", crossed{&overlap.Device{Device: open(t)}}, true}} {
			checks := checkerOf(t, c.device)
			err := checks.again(one{c.name, func(c *checker) (string, error) { return c.ahead(f) }})
			if (err != nil) != c.fails {
				t.Errorf("%s, %s: %v", f.name, c.name, err)
			}
		}
		if begun.Ahead == 0 || begun.Disorder > 0 || begun.Begun != begun.Waited {
			t.Errorf("%s: %d steps were begun, %d ahead, %d out of turn; %d waited for", f.name, begun.Begun, begun.Ahead, begun.Disorder, begun.Waited)
		}
	}
}

// other is a device of a class that nobody knows.
type other struct{ *cpu.Device }

func (other) Class() string { return "abacus" }

func TestRunEndsWithItsContextAndRefusesUnknownClasses(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	n := 0
	err := Run(ctx, open(t), Options{Quick: true}, func(Result) { n++; cancel() })
	if !errors.Is(err, context.Canceled) || n != 1 {
		t.Errorf("%v after %d checks, want context.Canceled after 1", err, n)
	}
	if err := Run(t.Context(), other{open(t)}, Options{}, nil); err == nil || !strings.Contains(err.Error(), `"abacus"`) {
		t.Errorf("%v", err)
	}
}

func TestRealModelsPass(t *testing.T) {
	folder := os.Getenv("MEMRA_MODELS")
	if folder == "" {
		t.Skip("set MEMRA_MODELS to the folder that tools/models fills")
	}
	const name = "SmolLM2-135M-Instruct.Q4_1.gguf"
	c := checkerOf(t, open(t))
	c.Goldens = "../../model/testdata"
	for _, check := range c.real(filepath.Join(folder, name)) {
		if err := c.again(check); err != nil {
			t.Errorf("%s: %v", check.name, err)
		}
	}
	c.Goldens = t.TempDir()
	if err := c.again(c.real(filepath.Join(folder, name))[0]); !errors.Is(err, errSkip) {
		t.Errorf("without a golden: %v, want it skipped", err)
	}
}

// later draws as if rows were one position further.
type later struct{ compute.Device }

func (l later) Sample(forward func(compute.Ops) compute.Tensor, draws []sample.Draw) ([]sample.Pick, error) {
	moved := slices.Clone(draws)
	for i := range moved {
		moved[i].Position++
	}
	return l.Device.Sample(forward, moved)
}

func TestDrawsOfAnotherPositionAreSeen(t *testing.T) {
	c := checkerOf(t, later{open(t)})
	if err := c.again(one{"draws", (*checker).draws}); err == nil {
		t.Error("no error")
	}
}
