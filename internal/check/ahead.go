package check

import (
	"errors"
	"fmt"

	"memra/compute"
	"memra/gguf"
	"memra/sample"
	"memra/state"
)

// ahead compares texts whose steps are begun while the ones before run, with tokens that only the device knows, with the same step after step.
func (c *checker) ahead(f family) (string, error) {
	d, ok := c.device.(compute.Overlapping)
	if !ok {
		return "", skip("%s computes a step at a time", c.device.Name())
	}
	b, err := Bind(c.device, f.make(c.Seed, gguf.Q8_0), 2000, 4)
	if err != nil {
		return "", err
	}
	defer b.Close()
	prompts, n := RandomTokens(c.rng, b.Model.Vocab, 5, 61, 64, 30), pick(c, 1, 40, 300)[0]
	seed := c.rng.Uint64()
	draw := func(sequence, position int) sample.Draw {
		p := sample.Params{Seed: seed + uint64(sequence), Temperature: float32(sequence) / 2} // the first is greedy
		return sample.Draw{Params: p, Position: position, LogProb: true, Top: sequence}
	}
	want, err := b.inTurn(prompts, n, draw)
	if err != nil {
		return "", err
	}
	got, err := b.begunAhead(d, prompts, n, draw)
	if err != nil {
		return "", err
	}
	for step := range want {
		for i := range prompts {
			if fmt.Sprint(got[step][i]) != fmt.Sprint(want[step][i]) {
				return "", fmt.Errorf("sequence %d, token %d: %+v, want %+v", i, step, got[step][i], want[step][i])
			}
		}
	}
	return fmt.Sprintf("0 of %d draws differ", n*len(prompts)), nil
}

// drawing is how a row of a sequence is drawn from.
type drawing func(sequence, position int) sample.Draw

// inTurn draws n tokens after each prompt: [step][sequence].
func (b *Bound) inTurn(prompts [][]int32, n int, draw drawing) (picks [][]sample.Pick, err error) {
	r := b.begin(prompts)
	defer r.end()
	tokens := prompts
	for range n {
		forward, draws, err := r.step(tokens, draw)
		if err != nil {
			return nil, err
		}
		p, err := b.device.Sample(forward, draws)
		if err != nil {
			return nil, err
		}
		picks, tokens = append(picks, p), make([][]int32, len(prompts))
		for i := range tokens {
			tokens[i] = []int32{p[i].Token}
		}
	}
	return picks, nil
}

// begunAhead does so with two steps under way.
func (b *Bound) begunAhead(d compute.Overlapping, prompts [][]int32, n int, draw drawing) (picks [][]sample.Pick, err error) {
	r := b.begin(prompts)
	defer r.end()
	drawn := make([][]int32, len(prompts))
	for i := range drawn {
		drawn[i] = []int32{compute.Drawn(i)}
	}
	tokens := prompts
	var under func() ([]sample.Pick, error)
	land := func() error {
		if under == nil {
			return nil
		}
		p, err := under()
		picks = append(picks, p)
		return err
	}
	for range n {
		forward, draws, err := r.step(tokens, draw)
		if err != nil {
			return nil, errors.Join(err, land())
		}
		next, err := d.Start(forward, draws)
		if err := errors.Join(err, land()); err != nil {
			return nil, err
		}
		under, tokens = next, drawn
	}
	return picks, land()
}

// running is sequences that go on.
type running struct {
	*Bound
	sequences []*state.Sequence
}

func (b *Bound) begin(prompts [][]int32) *running {
	r := &running{Bound: b}
	for range prompts {
		r.sequences = append(r.sequences, b.pool.NewSequence())
	}
	return r
}

func (r *running) end() {
	for _, s := range r.sequences {
		s.Free()
	}
}

// step is tokens more of each sequence, of which the last asks.
func (r *running) step(tokens [][]int32, draw drawing) (forward func(compute.Ops) compute.Tensor, draws []sample.Draw, err error) {
	var b compute.Batch
	for i, s := range r.sequences {
		for j, t := range tokens[i] {
			b.Add(t, s.Len()+j, i, j == len(tokens[i])-1)
		}
		if err := s.Extend(len(tokens[i])); err != nil {
			return nil, nil, err
		}
		draws = append(draws, draw(i, s.Len()-1))
	}
	view := r.pool.View(r.sequences...)
	return func(ops compute.Ops) compute.Tensor { return r.Model.Forward(ops, &b, view) }, draws, nil
}
