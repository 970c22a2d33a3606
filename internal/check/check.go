package check

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"
	"time"

	"memra/compute"
	"memra/gguf"
)

// Options say what is checked.
type Options struct {
	Seed    uint64                         // of all inputs
	Quick   bool                           // fewer and smaller shapes: seconds where the whole takes minutes
	Plain   func() (compute.Device, error) // opens the same class without assembly; nil: there is none
	Models  []string                       // real model files
	Goldens string                         // the folder of their goldens
}

// Status is how a check ended.
type Status string

const (
	OK      Status = "ok"
	Failed  Status = "failed"
	Skipped Status = "skipped" // it does not apply: Detail says why
)

// Result is one check's outcome.
type Result struct {
	Name    string  `json:"name"`
	Status  Status  `json:"status"`
	Detail  string  `json:"detail"` // figures and limits, or what differs
	Seconds float64 `json:"seconds"`
}

// checker is a run of the checks.
type checker struct {
	Options
	device compute.Device
	limit  tolerances
	known  []gguf.Type // see formats
	rng    *rand.Rand
}

// errSkip is wrapped by reasons why a check does not apply.
var errSkip = errors.New("skipped")

func skip(format string, args ...any) error { return fmt.Errorf(format+"%w", append(args, errSkip)...) }

// one is a check: it says what it found, or what is wrong.
type one struct {
	name string
	run  func(*checker) (detail string, err error)
}

// Run runs the checks in order and reports each as it ends. Checks that fail are no error of Run: ctx's end is, and a class that
// has no tolerances.
func Run(ctx context.Context, d compute.Device, o Options, report func(Result)) error {
	limit, ok := classes[d.Class()]
	if !ok {
		return fmt.Errorf("check: class %q of %s has no tolerances", d.Class(), d.Name())
	}
	c := &checker{Options: o, device: d, limit: limit}
	for _, check := range c.list() {
		if err := ctx.Err(); err != nil {
			return err
		}
		c.rng = newRand(o.Seed, check.name)
		began := time.Now()
		detail, err := check.run(c)
		r := Result{Name: check.name, Status: OK, Detail: detail, Seconds: time.Since(began).Seconds()}
		if errors.Is(err, errSkip) {
			r.Status, r.Detail = Skipped, strings.TrimSuffix(err.Error(), errSkip.Error())
		} else if err != nil {
			r.Status, r.Detail = Failed, err.Error()
		}
		report(r)
	}
	return nil
}

// list is every check.
func (c *checker) list() (list []one) {
	list = append(list, c.operations()...)
	list = append(list, c.company()...)
	list = append(list, c.wholes()...)
	for _, path := range c.Models {
		list = append(list, c.real(path)...)
	}
	return list
}

// newRand is the random numbers of one check, so that any can be repeated alone.
func newRand(seed uint64, name string) *rand.Rand {
	h := fnv.New64a()
	h.Write([]byte(name))
	return rand.New(rand.NewPCG(seed, h.Sum64()))
}

// matrix is rows of float32 values.
type matrix struct {
	width  int
	values []float32
}

func (m matrix) rows() int           { return len(m.values) / m.width }
func (m matrix) row(r int) []float32 { return m.values[r*m.width:][:m.width] }

// of is some rows of a matrix, in an order.
func (m matrix) of(rows []int) matrix {
	n := matrix{width: m.width}
	for _, r := range rows {
		n.values = append(n.values, m.row(r)...)
	}
	return n
}

// normal is rows of random values of a deviation.
func (c *checker) normal(rows, width int, deviation float64) matrix {
	m := matrix{width, make([]float32, rows*width)}
	for i := range m.values {
		m.values[i] = float32(deviation * c.rng.NormFloat64())
	}
	return m
}

// run computes operations on inputs, all in one step, and returns a copy of the rows that come back.
func (c *checker) run(f func(ops compute.Ops, in []compute.Tensor) compute.Tensor, inputs ...matrix) (matrix, error) {
	weights, batches := make([]compute.Weight, len(inputs)), make([]*compute.Batch, len(inputs))
	for i, in := range inputs {
		var err error
		if weights[i], err = c.device.Pack(f32, in.rows(), in.width, encode(f32, in.values), nil); err != nil {
			return matrix{}, err
		}
		batches[i] = new(compute.Batch)
		for r := range in.rows() {
			batches[i].Add(int32(r), r, -1, false)
		}
	}
	width := 0
	rows, err := c.device.Run(func(ops compute.Ops) compute.Tensor {
		tensors := make([]compute.Tensor, len(inputs))
		for i := range inputs {
			tensors[i] = ops.Embed(batches[i], weights[i], 1)
		}
		t := f(ops, tensors)
		width = t.Width
		return t
	})
	out := matrix{width: width}
	for _, r := range rows {
		out.values = append(out.values, r...)
	}
	return out, err
}
