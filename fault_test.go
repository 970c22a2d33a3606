package memra_test

import (
	"errors"
	"strings"
	"testing"

	"memra"
	"memra/compute"
	"memra/compute/cpu"
	"memra/internal/openai"
	"memra/sample"
)

// faulty is a device whose steps fail from some point on, or those that are asked for so many of the likeliest tokens.
type faulty struct {
	*cpu.Device
	dead   bool
	poison int
}

var errGone = errors.New("the device is gone")

func (f *faulty) Sample(forward func(compute.Ops) compute.Tensor, draws []sample.Draw) ([]sample.Pick, error) {
	for _, d := range draws {
		if f.dead || f.poison > 0 && d.Top == f.poison {
			return nil, errGone
		}
	}
	return f.Device.Sample(forward, draws)
}

// A batch writes an error for a request that fails by itself. Where the device is gone it writes none: the lines that are left are for the next run.
func TestABatchTellsARequestsFaultFromTheDevices(t *testing.T) {
	d, err := cpu.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	f := &faulty{Device: d, poison: 7}
	m, err := memra.OpenWith(memra.Builtin, memra.Options{}, f)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	b := openai.Batch{Model: m, Defaults: openai.Defaults}
	const poisoned, sound = `{"prompt":"a","max_tokens":3,"logprobs":7}`, `{"prompt":"a","max_tokens":3,"logprobs":2}`

	a, err := b.Answer(t.Context(), "1", []byte(poisoned))
	if err != nil || a.Response.Status != 500 || !strings.Contains(a.Response.Body.(openai.ErrorBody).Error.Message, errGone.Error()) {
		t.Errorf("%+v, %v, want a response with status 500", a, err)
	}
	if a, err = b.Answer(t.Context(), "2", []byte(sound)); err != nil || a.Completion() == nil {
		t.Errorf("%+v, %v, want an answer", a, err)
	}
	f.dead = true
	for _, line := range []string{poisoned, sound} {
		if a, err = b.Answer(t.Context(), "3", []byte(line)); !errors.Is(err, errGone) {
			t.Errorf("%+v, %v, want the device's error", a, err)
		}
	}
	if a, err = b.Answer(t.Context(), "4", []byte(`{"prompt":"a","seed":-1}`)); err != nil || a.Response.Status != 400 {
		t.Errorf("%+v, %v, want a refusal: it needs no device", a, err)
	}
}
