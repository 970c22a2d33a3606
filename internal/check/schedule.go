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
	pool, err := state.NewPool(d, m.State(), state.Config{Delta: d.DeltaFormat(), Positions: positions, Sequences: sequences + forks, Step: mostRows})
	if err != nil {
		return nil, err
	}
	return &Bound{d, m, pool}, nil
}

// mostRows is the most rows that a step has of one sequence.
const mostRows = 512

// forks is the most forks that a step has.
const forks = 2

// Close frees the sequences' memory.
func (b *Bound) Close() error { return b.pool.Close() }

// Logits are rows by sequence and position.
type Logits [][][]float32

// Alone computes each sequence by itself, whole: [sequence][position] rows of logits.
func (b *Bound) Alone(tokens [][]int32) (Logits, error) {
	var s schedule
	for i := range tokens {
		var step step
		for p := range tokens[i] {
			step.rows = append(step.rows, place{sequence: i, position: p})
		}
		s = append(s, step)
	}
	return b.follow(tokens, s)
}

// Drawn computes the sequences by a random schedule: rows merged in one step or alone, in any order, beside padding, in chunks cut
// anywhere, with drafts that are dropped again, and beside forks that go other ways and end.
func (b *Bound) Drawn(rng *rand.Rand, tokens [][]int32) (Logits, error) {
	return b.follow(tokens, draw(rng, tokens))
}

// OneByOne computes a token of each sequence a step, as answers are given.
func (b *Bound) OneByOne(tokens [][]int32) (Logits, error) {
	var s schedule
	for p := 0; ; p++ {
		var step step
		for i := range tokens {
			if p < len(tokens[i]) {
				step.rows = append(step.rows, place{sequence: i, position: p})
			}
		}
		if step.rows == nil {
			return b.follow(tokens, s)
		}
		s = append(s, step)
	}
}

// schedule is steps, one after another.
type schedule []step

// step is rows. First some sequences are forked, and the forks end with the step.
type step struct {
	rows  []place
	forks []int // sequences; fork i is sequence len(tokens)+i of the step
}

// place is a token of a sequence; sequence -1 pads.
type place struct {
	sequence, position int
	draft              bool  // another token than the sequence's, which is dropped after the step
	token              int32 // of a draft
}

func draw(rng *rand.Rand, tokens [][]int32) (s schedule) {
	at := make([]int, len(tokens))
	for left := true; left; {
		left = false
		var step step
		drafts := func(sequence, position, n int) {
			for d := range n {
				step.rows = append(step.rows, place{sequence, position + d, true, rng.Int32N(50)})
			}
		}
		for i := range tokens {
			n := len(tokens[i])
			if rng.IntN(8) == 0 && len(step.forks) < forks {
				step.forks = append(step.forks, i)
				drafts(len(tokens)+len(step.forks)-1, at[i], 1+rng.IntN(70))
			}
			chunk := min(n-at[i], []int{0, 1, 1, 2, 7, 16, 64, 100}[rng.IntN(8)])
			for range chunk {
				step.rows = append(step.rows, place{sequence: i, position: at[i]})
				at[i]++
			}
			if rng.IntN(3) == 0 && chunk < 16 {
				drafts(i, at[i], 1+rng.IntN(8))
			}
			left = left || at[i] < n
		}
		for range rng.IntN(3) {
			step.rows = append(step.rows, place{sequence: -1, position: rng.IntN(50)})
		}
		if rng.IntN(2) == 0 {
			rng.Shuffle(len(step.rows), func(i, j int) { step.rows[i], step.rows[j] = step.rows[j], step.rows[i] })
		}
		if len(step.rows) > 0 {
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
		if err := b.advance(tokens, step, sequences, logits); err != nil {
			return nil, err
		}
	}
	return logits, nil
}

// advance computes one step of a schedule.
func (b *Bound) advance(tokens [][]int32, s step, sequences []*state.Sequence, logits Logits) error {
	for _, i := range s.forks {
		fork := sequences[i].Fork()
		defer fork.Free()
		sequences = append(sequences, fork)
	}
	var batch compute.Batch
	grow, drafts := make([]int, len(sequences)), make([]int, len(sequences))
	for _, p := range s.rows {
		switch {
		case p.sequence < 0:
			batch.Add(int32(p.position), p.position, -1, false)
			continue
		case p.draft:
			batch.Add(p.token, p.position, p.sequence, false)
			drafts[p.sequence]++
		default:
			batch.Add(tokens[p.sequence][p.position], p.position, p.sequence, true)
		}
		grow[p.sequence]++
	}
	for i, n := range grow {
		if err := sequences[i].Extend(n); err != nil {
			return err
		}
	}
	rows, err := b.run(&batch, sequences...)
	if err != nil {
		return err
	}
	for _, p := range s.rows {
		if p.sequence >= 0 && !p.draft {
			logits[p.sequence][p.position] = slices.Clone(rows[0])
			rows = rows[1:]
		}
	}
	for i, n := range drafts {
		if err := sequences[i].Truncate(sequences[i].Len() - n); err != nil {
			return err
		}
	}
	return nil
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
