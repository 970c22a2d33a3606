package check

import (
	"errors"
	"fmt"

	"memra/compute"
	"memra/gguf"
	"memra/internal/tiny"
	"memra/model"
)

// family makes a tiny model with random weights.
type family struct {
	name string
	make func(seed uint64, format gguf.Type) *tiny.Model
}

var families = []family{{"llama", tiny.Llama}, {"gemma3", tiny.Gemma3}, {"gemma4", tiny.Gemma4}, {"qwen35", tiny.Qwen35}, {"qwen3moe", tiny.Qwen3MoE}, {"gpt-oss", tiny.GPTOSS}}

// wholes are the checks of whole models, random ones.
func (c *checker) wholes() []one {
	var list []one
	for _, f := range families {
		list = append(list, one{"a schedule is invisible: " + f.name, func(c *checker) (string, error) { return c.schedules(f) }})
	}
	for _, f := range families {
		list = append(list, one{"a graph equals its launches: " + f.name, func(c *checker) (string, error) { return c.graphs(f) }})
	}
	for _, f := range families {
		list = append(list, one{"a step begun ahead equals one in its turn: " + f.name, func(c *checker) (string, error) { return c.ahead(f) }})
	}
	for _, f := range families {
		list = append(list, one{"assembly equals plain Go: " + f.name, func(c *checker) (string, error) { return c.plain(f) }})
	}
	return list
}

func (c *checker) schedules(f family) (detail string, err error) {
	for _, t := range pick(c, 1, gguf.Q4_1, gguf.Q8_0, gguf.Q5_0, gguf.Q4_K, gguf.Q6_K, gguf.F16, gguf.BF16) {
		b, err := Bind(c.device, f.make(c.Seed, t), 2000, 4)
		if err != nil {
			return "", err
		}
		if c.Quick {
			detail, err = c.invisible(b, 1, 90, 3, 20)
		} else {
			detail, err = c.invisible(b, 3, 150, 3, 67, 64)
		}
		if err = errors.Join(err, b.Close()); err != nil {
			return "", fmt.Errorf("%v: %w", t, err)
		}
	}
	return detail, nil
}

// graphs compares steps that are launched kernel by kernel with the same as graphs.
func (c *checker) graphs(f family) (string, error) {
	d, ok := c.device.(interface {
		SetEager(bool)
		Graphs() int
	})
	if !ok {
		return "", skip("%s has no graphs", c.device.Name())
	}
	b, err := Bind(c.device, f.make(c.Seed, gguf.Q8_0), 2000, 4)
	if err != nil {
		return "", err
	}
	defer b.Close()
	tokens := RandomTokens(c.rng, b.Model.Vocab, pick(c, 2, 80, 75, 140, 90)...)
	d.SetEager(true)
	want, err := b.OneByOne(tokens)
	d.SetEager(false)
	if err != nil {
		return "", err
	}
	before := d.Graphs()
	got, err := b.OneByOne(tokens)
	if err != nil {
		return "", err
	}
	if d.Graphs() == before {
		return "", errors.New("no step became a graph")
	}
	if diff := Difference(got, want); diff != "" {
		return "", errors.New(diff)
	}
	return fmt.Sprintf("equal bits; %d graphs of up to %d kernels", d.Graphs()-before, c.device.Kernels()), nil
}

// plain compares the device with the same class in plain Go.
func (c *checker) plain(f family) (detail string, err error) {
	if c.Plain == nil {
		return "", skip("%s has no plain twin", c.device.Name())
	}
	for _, t := range pick(c, 1, gguf.Q4_K, gguf.Q8_0, gguf.Q5_1, gguf.Q6_K, gguf.BF16) {
		if detail, err = c.twin(f.make(c.Seed, t)); err != nil {
			return "", fmt.Errorf("%v: %w", t, err)
		}
	}
	return detail, nil
}

func (c *checker) twin(src model.Source) (_ string, err error) {
	twin, err := c.Plain()
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, twin.Close()) }()
	var both [2]Logits
	tokens := RandomTokens(c.rng, tiny.Vocab, 80)
	for i, d := range []compute.Device{c.device, twin} {
		b, err := Bind(d, src, 200, 1)
		if err != nil {
			return "", err
		}
		both[i], err = b.Alone(tokens)
		if err = errors.Join(err, b.Close()); err != nil {
			return "", err
		}
	}
	if d := Difference(both[0], both[1]); d != "" {
		return "", errors.New(d)
	}
	return fmt.Sprintf("equal bits: %s and %s", c.device.Name(), twin.Name()), nil
}
