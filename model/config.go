package model

import (
	"errors"
	"reflect"
	"strconv"
	"strings"

	"memra/compute"
	"memra/gguf"
)

// config fills the configuration: the fields with a meta or rope tag, of embedded structs as well, in order.
func (b *binder) config(v reflect.Value) {
	for i := range v.NumField() {
		field, f := v.Field(i), v.Type().Field(i)
		if f.Anonymous {
			b.config(field)
		} else if key, ok := f.Tag.Lookup("meta"); ok {
			fallback, optional := f.Tag.Lookup("default")
			b.meta(field, f.Name, key, fallback, optional)
		} else if kind, ok := f.Tag.Lookup("rope"); ok {
			if r := b.rope(kind, f.Tag.Get("of")); r != nil {
				field.Set(reflect.ValueOf(r))
			}
		}
	}
}

// meta fills one field.
func (b *binder) meta(field reflect.Value, name, key, fallback string, optional bool) {
	m, key := b.src.Metadata(), b.family+"."+key
	switch field.Kind() {
	case reflect.Int:
		n, err := m.Int(key)
		if errors.Is(err, gguf.ErrNoKey) && optional {
			n, err = b.eval(fallback), nil
		}
		if err != nil {
			b.fail("%w", err)
			return
		}
		least := 1
		if fallback == "0" { // a thing that a model may lack
			least = 0
		}
		if n < least || n > maxDim {
			b.fail("metadata %s: %d, want %d to %d", key, n, least, maxDim)
			return
		}
		b.dims[name] = n
		field.SetInt(int64(n))
	case reflect.Float32:
		x, err := m.Float(key)
		if errors.Is(err, gguf.ErrNoKey) && optional {
			x, err = strconv.ParseFloat(fallback, 32)
		}
		if err != nil {
			b.fail("%w", err)
			return
		}
		field.SetFloat(x)
	case reflect.Bool:
		x, err := m.Bool(key)
		if errors.Is(err, gguf.ErrNoKey) && optional {
			x, err = strconv.ParseBool(fallback)
		}
		if err != nil {
			b.fail("%w", err)
			return
		}
		field.SetBool(x)
	case reflect.Slice:
		if field.Type().Elem().Kind() == reflect.Int {
			field.Set(reflect.ValueOf(b.ints(key, fallback, optional)))
			return
		}
		field.Set(reflect.ValueOf(b.pattern(key, fallback)))
	default:
		panic("model: a field with a meta tag is no int, float32, bool, []int or []bool: " + name)
	}
}

// pattern reads which layers are windowed: a bool for each, or a period, every so manieth layer being the exception.
func (b *binder) pattern(key, fallback string) []bool {
	windowed := make([]bool, b.dims["Layers"])
	value, ok := b.src.Metadata().Get(key)
	if list, isList := value.([]bool); isList {
		if len(list) < len(windowed) {
			b.fail("metadata %s: %d values, want one for each of %d layers", key, len(list), len(windowed))
			return nil
		}
		return list[:len(windowed)]
	}
	period := b.eval(fallback)
	if ok {
		var err error
		if period, err = b.src.Metadata().Int(key); err != nil {
			b.fail("%w", err)
			return nil
		}
	}
	if period <= 0 {
		b.fail("metadata %s: %d, want a positive period", key, period)
		return nil
	}
	for i := range windowed {
		windowed[i] = (i+1)%period != 0
	}
	return windowed
}

// maxDim bounds every integer of a configuration, so that products of three of them do not overflow.
const maxDim = 1 << 20

// eval computes sums, differences, products and quotients of numbers, fields, and rows(tensor), from left to right. A division by zero, or a
// name that could not be read (which has been reported), gives 0.
func (b *binder) eval(expr string) int {
	value, op := 1, byte('*')
	for expr != "" {
		end := strings.IndexAny(expr, "*/+-")
		term, rest := expr, ""
		next := byte('*')
		if end >= 0 {
			term, next, rest = expr[:end], expr[end], expr[end+1:]
		}
		n := b.term(term)
		switch {
		case op == '*':
			value *= n
		case op == '+':
			value += n
		case op == '-':
			value -= n
		case n == 0:
			return 0
		default:
			value /= n
		}
		op, expr = next, rest
	}
	return value
}

func (b *binder) term(s string) int {
	if n, err := strconv.Atoi(s); err == nil {
		return n
	}
	if name, ok := strings.CutPrefix(s, "rows("); ok {
		if t, ok := b.tensors[tensorName("", strings.TrimSuffix(name, ")"))]; ok && len(t.Shape) > 0 {
			return t.Shape[0]
		}
		return 0
	}
	if list, ok := b.lists[s]; ok && b.layer < len(list) {
		return list[b.layer]
	}
	return b.dims[s]
}

// rope reads a rotary embedding: "neighbours" or "halves" says how GGUF files of the family pair a head's values;
// ",windowed" is the one of windowed layers, with a base of its own (rope.freq_base_swa, 10000) and no scaling; ",divided" one
// that must have divisors, ",within" one of which yarn's ramp begins and ends within pairs. `of` names the width of the heads that it turns, where layers differ; "": HeadDim.
func (b *binder) rope(kind, of string) *compute.Rope {
	pairing, windowed := strings.CutSuffix(kind, ",windowed")
	pairing, divided := strings.CutSuffix(pairing, ",divided")
	pairing, within := strings.CutSuffix(pairing, ",within")
	width, count := b.dims["HeadDim"], "rope.dimension_count"
	if of != "" {
		width = b.dims[of]
		if windowed {
			count += "_swa"
		}
	}
	p := compute.RopeParams{Neighbour: pairing == "neighbours"}
	if windowed {
		p.Base = b.float("rope.freq_base_swa", 10000)
	} else {
		p.Base = b.float("rope.freq_base", 10000)
		p.Scaling = compute.RopeScaling{
			Type:       b.text("rope.scaling.type"),
			Factor:     b.float("rope.scaling.factor", 1),
			Original:   int(b.float("rope.scaling.original_context_length", b.float("context_length", 0))),
			AttnFactor: b.float("rope.scaling.attn_factor", 1),
			Attention:  b.float("rope.scaling.yarn_attn_factor", 0),
			BetaFast:   b.float("rope.scaling.yarn_beta_fast", 32),
			BetaSlow:   b.float("rope.scaling.yarn_beta_slow", 1),
			Within:     within,
		}
		if !b.divisors(&p, divided) {
			return nil
		}
	}
	dims := b.float(count, float64(width))
	if !(dims <= float64(width)) {
		b.fail("metadata %s.%s: %v, want at most the head's width %d", b.family, count, dims, width)
		return nil
	}
	p.Dims = int(dims)
	r, err := compute.NewRope(p)
	if err != nil {
		b.fail("metadata %s.rope: %w", b.family, err)
		return nil
	}
	return r
}

// divisors reads what divides the pairs' frequencies: rope_freqs, or of LongRoPE, one of two tensors. A model that is made for more
// positions than it was trained on has the long ones, also for a short text: what a row computes may not depend on how many follow.
func (b *binder) divisors(p *compute.RopeParams, must bool) bool {
	name := "rope_freqs.weight"
	if _, ok := b.tensors["rope_factors_long.weight"]; ok {
		name = "rope_factors_short.weight"
		if int(b.float("context_length", 0)) > p.Scaling.Original {
			name = "rope_factors_long.weight"
		}
		b.taken["rope_factors_long.weight"], b.taken["rope_factors_short.weight"] = true, true
		p.Scaling.Type, p.Scaling.Attention, must = "longrope", p.Scaling.AttnFactor, true
	}
	t, ok := b.tensors[name]
	if !ok {
		if must {
			b.fail("tensor %s: missing, want a divisor for each rotary pair; convert again", name)
		}
		return !must
	}
	b.taken[name] = true
	var err error
	if p.Divisors, err = floats(t); err != nil {
		b.fail("tensor %s: %w", name, err)
	}
	return err == nil
}

// float is optional metadata.
func (b *binder) float(key string, fallback float64) float64 {
	x, err := b.src.Metadata().Float(b.family + "." + key)
	if errors.Is(err, gguf.ErrNoKey) {
		return fallback
	}
	if err != nil {
		b.fail("%w", err)
	}
	return x
}

// text is optional metadata, "" by default.
func (b *binder) text(key string) string {
	s, err := b.src.Metadata().String(b.family + "." + key)
	if err != nil && !errors.Is(err, gguf.ErrNoKey) {
		b.fail("%w", err)
	}
	return s
}
