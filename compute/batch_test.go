package compute

import (
	"slices"
	"testing"
)

func TestRoundedRowsAreFewAndNotMuchMore(t *testing.T) {
	sizes := map[int]bool{}
	for n := range 1 << 12 {
		r := RoundedRows(n)
		if r < n || n <= 8 && r != n || 4*(r-n) >= n && n > 0 {
			t.Fatalf("%d rows are rounded to %d, want up to 8 as they are, and else less than a quarter more", n, r)
		}
		if RoundedRows(r) != r {
			t.Fatalf("%d rows are rounded to %d, and those to %d", n, r, RoundedRows(r))
		}
		if n <= 256 {
			sizes[r] = true
		}
	}
	if len(sizes) > 32 {
		t.Errorf("up to 256 rows have %d sizes, want at most 32", len(sizes))
	}
}

func TestPaddingIsRowsOfNoSequenceAndAsksTheLastAgain(t *testing.T) {
	for _, c := range []struct {
		name       string
		asks       []bool
		rows, want int
		logits     []int32
	}{
		{"nothing to do", []bool{true, true}, 2, 2, []int32{0, 1}},
		{"rows and logits", []bool{true, false, true}, 4, 4, []int32{0, 2, 2, 2}},
		{"a step that asks for nothing still does not", []bool{false, false, false}, 4, 4, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var b Batch
			for i, asks := range c.asks {
				b.Add(5, i, 0, asks)
			}
			b.Pad(c.rows, c.want)
			if b.Rows() != c.rows || !slices.Equal(b.Logits, c.logits) {
				t.Errorf("%d rows that ask %v, want %d that ask %v", b.Rows(), b.Logits, c.rows, c.logits)
			}
			for i, slot := range b.Slots {
				if (slot < 0) != (i >= len(c.asks)) {
					t.Errorf("row %d is of sequence %d", i, slot)
				}
			}
			if err := b.Check(6, 1); err != nil {
				t.Error(err)
			}
		})
	}
}
