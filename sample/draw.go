package sample

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// MaxTop is how many of the likeliest tokens a Draw may ask for at most.
const MaxTop = 1024

// A Draw is what is asked of a row of logits: a token by Params, or what the row says of a given one. Where Params have penalties,
// biases or banned tokens, a History makes it.
type Draw struct {
	Params
	Adjust   []Adjustment // of tokens' logits, before all else; each token once, in any order
	Position int          // of the row, absolute (not of the token that it predicts): what the noise depends on
	Given    bool         // draw nothing: the token is Token
	Token    int32        // where Given
	LogProb  bool         // the token's log-probability is wanted
	Top      int          // and so many of the likeliest tokens with theirs, at most MaxTop
	Filtered bool         // of what is drawn from, after adjustments, temperature and filters; otherwise of the raw logits

	adjusted bool // a History made it: Adjust is what Params ask for
}

// Check reports the first field that no row of a vocabulary could answer.
func (d Draw) Check(vocab int) error {
	switch {
	case d.Top < 0 || d.Top > MaxTop:
		return fmt.Errorf("sample: %d of the likeliest tokens asked for, want 0 to %d", d.Top, MaxTop)
	case d.Given && (d.Token < 0 || int(d.Token) >= vocab):
		return fmt.Errorf("sample: given token %d, want 0 to %d", d.Token, vocab-1)
	case !d.adjusted && d.Params.adjusts():
		return errors.New("sample: a draw has penalties, biases or banned tokens, and no history; let History.Draw make it")
	}
	return d.Params.check()
}

// A Pick is the answer to a Draw.
type Pick struct {
	Token   int32
	LogProb float32        // of Token; where asked for
	Top     []TokenLogProb // likeliest first, smaller token first among equals; fewer where fewer are above -Inf
	Err     error          // a *RowError: the row gives no token
}

// A RowError says why a row gives no token: a logit is NaN or +Inf, or all are -Inf.
type RowError struct {
	Fault Fault
	Token int32 // the first that is NaN, or else +Inf
	Vocab int
}

// Fault is what is wrong with a row.
type Fault int32

const (
	Sound  Fault = iota // nothing
	NaN                 // a logit is NaN
	Inf                 // none is NaN, one is +Inf
	Banned              // all are -Inf
)

func (e *RowError) Error() string {
	if e.Fault == Banned {
		return fmt.Sprintf("no token can be picked: all %d logits are -Inf, want one that is not banned", e.Vocab)
	}
	return fmt.Sprintf("the logit of token %d is %s, want finite numbers or -Inf; a weight or a kernel is broken", e.Token, map[Fault]string{NaN: "NaN", Inf: "+Inf"}[e.Fault])
}

// Refuse is the answer for a row that gives no token.
func (d Draw) Refuse(e *RowError) Pick {
	return Pick{Err: fmt.Errorf("sample: position %d: %w", d.Position, e)}
}

// argmax returns the largest logit's token, the smallest of equal ones. It looks for the piece that has it, and then there; largest is the
// largest of a piece, NaN where one is.
func argmax(logits []float32, largest func([]float32) float32) (int32, *RowError) {
	const piece = 256
	best, top := -1, float32(math.Inf(-1))
	for from := 0; from < len(logits); from += piece {
		x := logits[from:min(from+piece, len(logits))]
		switch v := largest(x); {
		case v != v:
			return 0, &RowError{Fault: NaN, Token: int32(from + slices.IndexFunc(x, func(v float32) bool { return v != v })), Vocab: len(logits)}
		case v > top:
			best, top = from, v
		}
	}
	if best < 0 {
		return 0, &RowError{Fault: Banned, Vocab: len(logits)}
	}
	best += slices.Index(logits[best:], top)
	if math.IsInf(float64(top), 1) {
		return 0, &RowError{Fault: Inf, Token: int32(best), Vocab: len(logits)}
	}
	return int32(best), nil
}

// Largest is the largest of some logits, NaN where one is. Nearly all come eight at a time and none of them larger than those before, which
// takes half as long as one by one.
func Largest(logits []float32) float32 {
	largest := float32(math.Inf(-1))
	for i := 0; i < len(logits); {
		if rest := logits[i:]; len(rest) >= 8 {
			x := (*[8]float32)(rest)
			if x[0] <= largest && x[1] <= largest && x[2] <= largest && x[3] <= largest &&
				x[4] <= largest && x[5] <= largest && x[6] <= largest && x[7] <= largest {
				i += 8
				continue
			}
		}
		for end := min(i+8, len(logits)); i < end; i++ {
			switch x := logits[i]; {
			case x != x:
				return x
			case x > largest:
				largest = x
			}
		}
	}
	return largest
}
