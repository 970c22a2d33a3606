package sample

import (
	"maps"
	"slices"
)

// dryIndex finds, in a history, what its end repeats. Positions with the same token form a chain, last first: appending puts one in front,
// and removing takes it away again. How far back the end may repeat something is kept by position too, since breakers are
// sequences of tokens that may end at each.
type dryIndex struct {
	DRY
	longest int             // more repeated tokens than so many make no difference
	head    map[int32]int32 // a token's last position
	before  []int32         // by position: that of its token before it, -1: none
	since   []int32         // by position: tokens since the last breaker, this one included; 0: this is the last of one

	single  map[int32]bool      // tokens that are breakers
	endings map[int32][][]int32 // longer breakers, by their last token
}

func newDryIndex(p DRY) *dryIndex {
	d := &dryIndex{DRY: p, longest: p.AllowedLength, head: map[int32]int32{}, single: map[int32]bool{}, endings: map[int32][][]int32{}}
	if p.Base > 1.000001 {
		d.longest += int(88.7228391 / log(float64(p.Base))) // the penalty is near the largest float32 then
	} else {
		d.longest += 1 << 30
	}
	for _, b := range p.Breakers {
		if last := b[len(b)-1]; len(b) == 1 {
			d.single[last] = true
		} else {
			d.endings[last] = append(d.endings[last], b)
		}
	}
	return d
}

func (d *dryIndex) clone() *dryIndex {
	c := *d // breakers never change
	c.head, c.before, c.since = maps.Clone(d.head), slices.Clone(d.before), slices.Clone(d.since)
	return &c
}

// append takes the last of tokens in.
func (d *dryIndex) append(tokens []int32) {
	at := len(tokens) - 1
	t := tokens[at]
	before, ok := d.head[t]
	if !ok {
		before = -1
	}
	since := int32(1)
	if at > 0 {
		since += d.since[at-1]
	}
	if d.breaks(tokens) {
		since = 0
	}
	d.head[t] = int32(at)
	d.before, d.since = append(d.before, before), append(d.since, since)
}

// remove forgets the last position, whose token was t.
func (d *dryIndex) remove(t int32) {
	at := len(d.before) - 1
	if d.before[at] < 0 {
		delete(d.head, t)
	} else {
		d.head[t] = d.before[at]
	}
	d.before, d.since = d.before[:at], d.since[:at]
}

// breaks reports whether tokens end with a breaker.
func (d *dryIndex) breaks(tokens []int32) bool {
	last := tokens[len(tokens)-1]
	if d.single[last] {
		return true
	}
	for _, b := range d.endings[last] {
		if len(b) <= len(tokens) && slices.Equal(b, tokens[len(tokens)-len(b):]) {
			return true
		}
	}
	return false
}

// penalties are what tokens lose that would go on with a repetition.
func (d *dryIndex) penalties(tokens []int32) map[int32]float64 {
	end := len(tokens) - 1
	window := len(tokens)
	if d.LastN > 0 {
		window = min(window, d.LastN)
	}
	if window <= d.AllowedLength || int(d.since[end]) < d.AllowedLength {
		return nil
	}
	first := len(tokens) - window
	most := min(window, int(d.since[end]), d.longest)
	repeats := map[int32]int{} // how long the repetition is that a token would go on with
	for at := int(d.before[end]); at >= first; at = int(d.before[at]) {
		next := tokens[at+1]
		n, limit := 1, min(most, at-first+1)
		if repeats[next] >= limit || d.single[next] {
			continue // no longer than what was found
		}
		for n < limit && tokens[at-n] == tokens[end-n] {
			n++
		}
		if n >= d.AllowedLength {
			repeats[next] = max(repeats[next], n)
		}
	}
	penalties := make(map[int32]float64, len(repeats))
	for token, n := range repeats {
		penalties[token] = float64(float64(d.Multiplier) * power(float64(d.Base), n-d.AllowedLength))
	}
	return penalties
}

// power is base^n, by squares, lowest bit of n first, each product rounded.
func power(base float64, n int) float64 {
	y := 1.0
	for ; n > 0; n >>= 1 {
		if n&1 != 0 {
			y *= base
		}
		base *= base
	}
	return y
}
