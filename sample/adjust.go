package sample

import "math"

// An Adjustment changes the logit x of a token before anything else looks at it:
//
//	y = x > 0 ? x/r : x·r    where Repeat, r being Params.RepeatPenalty; otherwise y = x
//	x' = y + Add
//
// in float64, each operation rounded, the result held within the finite float32s and rounded to one. An Add of -Inf bans the token.
// A logit that is not finite stays what it is: what is broken stays broken.
type Adjustment struct {
	Token  int32
	Add    float32
	Repeat bool
}

// of is the adjusted logit; repeat is the penalty.
func (a Adjustment) of(x float32, repeat float64) float32 {
	y := float64(x)
	if !(math.Abs(y) <= math.MaxFloat32) {
		return x
	}
	if math.IsInf(float64(a.Add), -1) {
		return a.Add
	}
	if a.Repeat {
		if y > 0 {
			y /= repeat
		} else {
			y *= repeat
		}
	}
	y += float64(a.Add)
	return float32(min(max(y, -math.MaxFloat32), math.MaxFloat32))
}

// adjust changes logits as a draw says, and keeps what they were. Tokens that the row does not have are passed over.
func (s *scratch) adjust(logits []float32, d *Draw) {
	s.were = s.were[:0]
	repeat := float64(d.RepeatPenalty)
	for _, a := range d.Adjust {
		if uint(a.Token) < uint(len(logits)) {
			s.were = append(s.were, logits[a.Token])
			logits[a.Token] = a.of(logits[a.Token], repeat)
		}
	}
}

// restore puts back what adjust kept; a token may have been adjusted twice, so the last comes first.
func (s *scratch) restore(logits []float32, d *Draw) {
	n := len(s.were)
	for i := len(d.Adjust) - 1; i >= 0; i-- {
		if t := d.Adjust[i].Token; uint(t) < uint(len(logits)) {
			n--
			logits[t] = s.were[n]
		}
	}
}
