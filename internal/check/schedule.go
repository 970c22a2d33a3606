package check

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"memra/compute"
	"memra/model"
	"memra/state"
)

// Bound is a model on a device with room for some sequences.
type Bound struct {
	device compute.Device
	Model  *model.Model
	pool   *state.Pool
}

// Bind opens a model on a device, for so many sequences that hold so many positions together.
func Bind(d compute.Device, src model.Source, positions, sequences int) (*Bound, error) {
	m, err := model.Open(src, d)
	if err != nil {
		return nil, err
	}
	pool, err := state.NewPool(d, m.State(), state.Config{Delta: d.DeltaFormat(), Positions: positions, Sequences: sequences, Step: mostRows})
	if err != nil {
		return nil, err
	}
	return &Bound{d, m, pool}, nil
}

// mostRows is the most rows that a step has of one sequence.
const mostRows = 512

// Close frees the sequences' memory.
func (b *Bound) Close() error { return b.pool.Close() }

// Logits are rows by sequence and position.
type Logits [][][]float32

// Alone computes each sequence by itself, whole: [sequence][position] rows of logits.
func (b *Bound) Alone(tokens [][]int32) (Logits, error) {
	var s schedule
	for i := range tokens {
		var step []place
		for p := range tokens[i] {
			step = append(step, place{i, p})
		}
		s = append(s, step)
	}
	return b.follow(tokens, s)
}

// Drawn computes the sequences by a random schedule: rows merged in one step or alone, in any order, beside padding, in chunks cut
// anywhere.
func (b *Bound) Drawn(rng *rand.Rand, tokens [][]int32) (Logits, error) {
	return b.follow(tokens, draw(rng, tokens))
}

// OneByOne computes a token of each sequence a step, as answers are given.
func (b *Bound) OneByOne(tokens [][]int32) (Logits, error) {
	var s schedule
	for p := 0; ; p++ {
		var step []place
		for i := range tokens {
			if p < len(tokens[i]) {
				step = append(step, place{i, p})
			}
		}
		if step == nil {
			return b.follow(tokens, s)
		}
		s = append(s, step)
	}
}

// schedule is steps of rows.
type schedule [][]place

// place is a token of a sequence; sequence -1 pads.
type place struct{ sequence, position int }

func draw(rng *rand.Rand, tokens [][]int32) (s schedule) {
	at := make([]int, len(tokens))
	for left := true; left; {
		left = false
		var step []place
		for i := range tokens {
			n := len(tokens[i])
			for range min(n-at[i], []int{0, 1, 1, 2, 7, 16, 64, 100}[rng.IntN(8)]) {
				step = append(step, place{i, at[i]})
				at[i]++
			}
			left = left || at[i] < n
		}
		for range rng.IntN(3) {
			step = append(step, place{-1, rng.IntN(50)})
		}
		if rng.IntN(2) == 0 {
			rng.Shuffle(len(step), func(i, j int) { step[i], step[j] = step[j], step[i] })
		}
		if len(step) > 0 {
			s = append(s, step)
		}
	}
	return s
}

// follow computes a schedule.
func (b *Bound) follow(tokens [][]int32, s schedule) (Logits, error) {
	sequences, logits := make([]*state.Sequence, len(tokens)), make(Logits, len(tokens))
	for i := range tokens {
		sequences[i], logits[i] = b.pool.NewSequence(), make([][]float32, len(tokens[i]))
		defer sequences[i].Free()
	}
	for _, step := range s {
		var batch compute.Batch
		grow := make([]int, len(tokens))
		for _, p := range step {
			if p.sequence < 0 {
				batch.Add(int32(p.position), p.position, -1, false)
				continue
			}
			batch.Add(tokens[p.sequence][p.position], p.position, p.sequence, true)
			grow[p.sequence]++
		}
		for i, n := range grow {
			if err := sequences[i].Extend(n); err != nil {
				return nil, err
			}
		}
		rows, err := b.run(&batch, sequences...)
		if err != nil {
			return nil, err
		}
		for _, p := range step {
			if p.sequence >= 0 {
				logits[p.sequence][p.position] = slices.Clone(rows[0])
				rows = rows[1:]
			}
		}
	}
	return logits, nil
}

// run computes one step; the rows are valid until the next.
func (b *Bound) run(batch *compute.Batch, sequences ...*state.Sequence) ([][]float32, error) {
	if err := batch.Check(b.Model.Vocab, len(sequences)); err != nil {
		return nil, err
	}
	view := b.pool.View(sequences...)
	return b.device.Run(func(ops compute.Ops) compute.Tensor { return b.Model.Forward(ops, batch, view) })
}

// Difference names the first logit whose bits differ, "" if none does.
func Difference(got, want Logits) string {
	for i := range want {
		for p := range want[i] {
			if d := differ(got[i][p], want[i][p]); d != "" {
				return fmt.Sprintf("sequence %d, position %d: %s", i, p, d)
			}
		}
	}
	return ""
}

// RandomTokens are sequences of such lengths.
func RandomTokens(rng *rand.Rand, vocab int, lengths ...int) [][]int32 {
	tokens := make([][]int32, len(lengths))
	for i, n := range lengths {
		for range n {
			tokens[i] = append(tokens[i], rng.Int32N(int32(vocab)))
		}
	}
	return tokens
}

// invisible compares sequences by random schedules with each computed alone.
func (c *checker) invisible(b *Bound, schedules int, lengths ...int) (string, error) {
	tokens := RandomTokens(c.rng, b.Model.Vocab, lengths...)
	want, err := b.Alone(tokens)
	if err != nil {
		return "", err
	}
	for i := range schedules {
		got, err := b.Drawn(c.rng, tokens)
		if err != nil {
			return "", err
		}
		if d := Difference(got, want); d != "" {
			return "", fmt.Errorf("schedule %d: %s", i, d)
		}
	}
	got, err := b.OneByOne(tokens)
	if err != nil {
		return "", err
	}
	if d := Difference(got, want); d != "" {
		return "", errors.New("one by one: " + d)
	}
	rows := 0
	for _, n := range lengths {
		rows += n
	}
	return fmt.Sprintf("equal bits: %d sequences, %d rows, alone, by %d schedules, one by one", len(lengths), rows, schedules), nil
}

func sorted(names map[string]bool) []string { return slices.Sorted(maps.Keys(names)) }
