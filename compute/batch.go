package compute

import (
	"fmt"
	"math/bits"
)

// Batch is the rows of one step: tokens of any number of sequences, in any order. There is no prefill or decode: a row is
// a row.
//
// A row sees the keys of its own sequence at positions up to its own, stored before this step or by this step's rows. So
// rows of one sequence may come in any order, as long as no position below the last is missing.
type Batch struct {
	Tokens    []int32 // the token of each row, or Drawn
	Positions []int32 // its absolute position in its sequence
	Slots     []int32 // its sequence: an index into the KV tables of this step; -1: a padding row, which stores nothing
	Logits    []int32 // the rows whose logits are wanted, in the order in which they come back
}

// Drawn stands for a token that the host does not know yet: what draw i of the step that was begun before gives. See Overlapping.
func Drawn(i int) int32 { return int32(-1 - i) }

// Rows is the number of rows.
func (b *Batch) Rows() int { return len(b.Tokens) }

// Add appends a row; logits asks for its logits.
func (b *Batch) Add(token int32, position, slot int, logits bool) {
	if logits {
		b.Logits = append(b.Logits, int32(len(b.Tokens)))
	}
	b.Tokens = append(b.Tokens, token)
	b.Positions = append(b.Positions, int32(position))
	b.Slots = append(b.Slots, int32(slot))
}

// Pad adds rows of no sequence until there are so many, and asks again for the last logits until so many are asked for. What comes of either
// is nobody's.
func (b *Batch) Pad(rows, asks int) {
	for b.Rows() < rows {
		b.Add(0, 0, -1, false)
	}
	b.Logits = Repeated(b.Logits, asks)
}

// Repeated is a list with its last element again and again until it has n; an empty list stays so.
func Repeated[T any](list []T, n int) []T {
	for len(list) > 0 && len(list) < n {
		list = append(list, list[len(list)-1])
	}
	return list
}

// RoundedRows rounds a number of rows up, so that there are few: up to 8 each is its own, then they are an eighth to a quarter of a power of
// two apart.
func RoundedRows(n int) int {
	if n <= 8 {
		return n
	}
	unit := 1 << (bits.Len(uint(n-1)) - 3)
	return (n + unit - 1) / unit * unit
}

// Check reports the first row that no step over `slots` sequences and a vocabulary of `vocab` tokens can compute.
func (b *Batch) Check(vocab, slots int) error {
	if len(b.Positions) != len(b.Tokens) || len(b.Slots) != len(b.Tokens) {
		return fmt.Errorf("compute: batch of %d tokens has %d positions and %d slots, want as many of each", len(b.Tokens), len(b.Positions), len(b.Slots))
	}
	for r, t := range b.Tokens {
		switch {
		case t < 0 || int(t) >= vocab:
			return fmt.Errorf("compute: row %d: token %d, want 0 to %d", r, t, vocab-1)
		case b.Positions[r] < 0:
			return fmt.Errorf("compute: row %d: position %d is negative", r, b.Positions[r])
		case b.Slots[r] < -1 || int(b.Slots[r]) >= slots:
			return fmt.Errorf("compute: row %d: slot %d, want -1 to %d", r, b.Slots[r], slots-1)
		}
	}
	for _, r := range b.Logits {
		if r < 0 || int(r) >= len(b.Tokens) {
			return fmt.Errorf("compute: logits of row %d asked of a batch of %d rows", r, len(b.Tokens))
		}
	}
	return nil
}
