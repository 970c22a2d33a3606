package sample

import (
	"fmt"
	"slices"
	"strings"
)

// A Filter is a stage that a row of logits passes.
type Filter uint8

const (
	ByTemperature Filter = iota + 1
	ByTopNSigma
	ByTopK
	ByTypical
	ByTopP
	ByMinP
	ByXTC
)

// Filters is how many stages there are.
const Filters = 7

// defaultOrder is that of Params' fields.
var defaultOrder = []Filter{ByTemperature, ByTopNSigma, ByTopK, ByTypical, ByTopP, ByMinP, ByXTC}

var filterNames = [...]string{ByTemperature: "temperature", ByTopNSigma: "top_n_sigma", ByTopK: "top_k", ByTypical: "typ_p", ByTopP: "top_p", ByMinP: "min_p", ByXTC: "xtc"}

// String is llama.cpp's name.
func (f Filter) String() string {
	if f < 1 || int(f) >= len(filterNames) {
		return fmt.Sprintf("Filter(%d)", uint8(f))
	}
	return filterNames[f]
}

// ParseOrder reads an order as llama.cpp writes it: names separated by semicolons, "top_k;top_p;temperature". The stages that change
// the model's own logits, "penalties" and "dry", may stand before all others and are left out: they come first in any case.
func ParseOrder(s string) ([]Filter, error) {
	order := []Filter{}
	for _, name := range strings.FieldsFunc(s, func(r rune) bool { return r == ';' || r == ',' }) {
		switch name = strings.ReplaceAll(strings.TrimSpace(name), "-", "_"); name {
		case "penalties", "dry", "logit_bias":
			if len(order) > 0 {
				return nil, fmt.Errorf("sample: order %q: %s after %v, want it before: penalties and biases change the model's own logits", s, name, order[len(order)-1])
			}
			continue
		case "typical", "typical_p":
			name = ByTypical.String()
		case "temp":
			name = ByTemperature.String()
		case "top_nsigma":
			name = ByTopNSigma.String()
		}
		f := slices.Index(filterNames[:], name)
		if f < 1 {
			return nil, fmt.Errorf("sample: order %q: found %q, want penalties, dry, or %s", s, name, strings.Join(filterNames[1:], ", "))
		}
		if slices.Contains(order, Filter(f)) {
			return nil, fmt.Errorf("sample: order %q: %s stands twice, want it once", s, name)
		}
		order = append(order, Filter(f))
	}
	return order, nil
}

// checkOrder reports what is wrong with Order.
func (p Params) checkOrder() error {
	if p.Order == nil {
		return nil
	}
	for i, f := range p.Order {
		if f < 1 || f > Filters {
			return fmt.Errorf("sample: order: found %v, want %s", f, strings.Join(filterNames[1:], ", "))
		}
		if slices.Contains(p.Order[:i], f) {
			return fmt.Errorf("sample: order: %v stands twice, want it once", f)
		}
	}
	for _, f := range defaultOrder {
		if p.on(f) && !slices.Contains(p.Order, f) {
			return fmt.Errorf("sample: order: %v is on and not in it; add it, or turn it off", f)
		}
	}
	return nil
}

// on reports whether a stage does anything, in some vocabulary and at some position. A temperature of 0 is at the end of an order that
// leaves it out; one of 1 changes nothing.
func (p Params) on(f Filter) bool {
	switch f {
	case ByTemperature:
		return p.Temperature != 0 && p.Temperature != 1
	case ByTopNSigma:
		return p.TopNSigma > 0
	case ByTopK:
		return p.TopK > 0
	case ByTypical:
		return p.Typical > 0 && p.Typical < 1
	case ByTopP:
		return p.TopP > 0 && p.TopP < 1
	case ByMinP:
		return p.MinP > 0
	default:
		return p.XTC.Probability > 0 && p.XTC.Threshold <= 0.5
	}
}

// A Plan is the filters that a draw passes, in their order: those that can change what is drawn from this vocabulary at this position.
type Plan struct {
	list [Filters]Filter
	n    int
	cold int
}

// Filters are the filters.
func (p *Plan) Filters() []Filter { return p.list[:p.n] }

// Cold is how many of them come before the temperature: they see probabilities at a temperature of 1.
func (p *Plan) Cold() int { return p.cold }

// Plan says which filters are left to do.
//
// A greedy draw takes the first candidate, which only typical and XTC may drop: without one of these before the temperature, it passes
// nothing; what comes after a temperature of 0 finds one candidate left. XTC is left out where its chance does not come true.
func (d *Draw) Plan(vocab int) (p Plan) {
	order := d.Order
	if order == nil {
		order = defaultOrder
	}
	tempered, drops := false, false
	for _, f := range order {
		if f == ByTemperature {
			if d.Greedy() {
				break
			}
			tempered = true
			continue
		}
		if !d.on(f) || f == ByTopK && d.TopK >= vocab || f == ByXTC && !d.chance() {
			continue
		}
		p.list[p.n] = f
		p.n++
		if !tempered {
			p.cold = p.n
		}
		drops = drops || f == ByTypical || f == ByXTC
	}
	if d.Greedy() && !drops {
		return Plan{}
	}
	return p
}

// chance reports whether XTC drops tokens at this position: word 0 of Philox4x32-10 with the counter (0, low and high 32 bits of
// position, 1), as a fraction of 2^32, is below its probability. Noise has 0 for 1, so the two have nothing in common.
func (d *Draw) chance() bool {
	p := uint64(d.Position)
	words := philox([4]uint32{0, uint32(p), uint32(p >> 32), 1}, uint32(d.Seed), uint32(d.Seed>>32))
	return float64(words[0])*0x1p-32 < float64(d.XTC.Probability)
}
