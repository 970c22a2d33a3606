package hf

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"

	"memra/gguf"
)

// number is a JSON number.
func number[T int | float64 | string](v T) json.Number { return json.Number(fmt.Sprint(v)) }

// plus is o with one more value.
func (o object) plus(key string, value float64) object {
	v := maps.Clone(o.value)
	if v == nil {
		v = map[string]any{}
	}
	v[key] = number(value)
	return object{o.path, v, o.faults}
}

// ropeParameters returns rope_parameters, or rope_scaling as it was called, with what may stand outside of it.
func (t *translation) ropeParameters() object {
	p := t.object.object("rope_parameters")
	if p.value == nil {
		p = t.object.object("rope_scaling")
	}
	for _, key := range []string{"rope_theta", "partial_rotary_factor", "original_max_position_embeddings"} {
		if _, inside := p.get(key); inside && key != "original_max_position_embeddings" {
			continue
		}
		if _, ok := t.get(key); ok {
			p = p.plus(key, t.float(key, 0))
		}
	}
	return p
}

func ropeType(p object) string { return p.text("rope_type", p.text("type", "default")) }

// rope translates a rotary embedding. whole says that rope.dimension_count is written even if heads turn whole.
func (t *translation) rope(prefix string, p object, whole bool) {
	base := p.float("rope_theta", 10000)
	t.set(prefix+".freq_base", float32(base))
	partial := p.float("partial_rotary_factor", 1)
	if !(partial > 0 && partial <= 1) {
		p.fail("partial_rotary_factor", "found %v, want more than 0 and at most 1", partial)
		return
	}
	t.rotated = int(float64(t.headDim) * partial)
	if whole || t.rotated != t.headDim {
		t.set(prefix+".dimension_count", uint32(t.rotated))
	}
	kind := ropeType(p)
	factor := p.float("factor", 0)
	original := p.int("original_max_position_embeddings", t.int("max_position_embeddings", 2048))
	if kind == "yarn" && factor == 0 && original > 0 { // the ratio of the contexts
		factor = float64(t.int("max_position_embeddings", 2048)) / float64(original)
	}
	if kind != "default" && !(factor > 0) {
		p.fail("factor", "found %v, want more than 0 for %s", factor, kind)
		return
	}
	switch kind {
	case "default":
	case "linear":
		t.set(prefix+".scaling.type", kind)
		t.set(prefix+".scaling.factor", float32(factor))
	case "yarn":
		t.set(prefix+".scaling.type", kind)
		t.set(prefix+".scaling.factor", float32(factor))
		t.set(prefix+".scaling.original_context_length", uint32(original))
		t.yarn(prefix, p, factor)
	case "llama3":
		t.extra = append(t.extra, llama3Divisors(p, base, t.rotated, factor, original))
	default:
		p.fail("rope_type", "found %q, want default, linear, llama3 or yarn", clip(kind))
	}
}

// yarn writes what differs from the paper's values. GGUF has two keys for what multiplies cosine and sine: the whole, which llama.cpp's
// converter writes, and a multiplier on top of 1 + ln(factor)/10, which llama.cpp reads.
func (t *translation) yarn(prefix string, p object, factor float64) {
	if truncate := p.bool("truncate", !t.family.ramp); truncate == t.family.ramp {
		p.fail("truncate", "found %v, want %v: the family %s computes nothing else here", truncate, !truncate, t.family.name)
	}
	for _, key := range []string{"beta_fast", "beta_slow"} {
		if v := p.float(key, 0); v != 0 {
			t.set(prefix+".scaling.yarn_"+key, float32(v))
		}
	}
	mscale := func(m float64) float64 {
		if factor <= 1 {
			return 1
		}
		return 1 + float64(0.1*m)*math.Log(factor)
	}
	whole := p.float("attention_factor", 0)
	if m, all := p.float("mscale", 0), p.float("mscale_all_dim", 0); whole == 0 && m != 0 && all != 0 {
		whole = mscale(m) / mscale(all)
	}
	if whole != 0 {
		t.set(prefix+".scaling.yarn_attn_factor", float32(whole))
		t.set(prefix+".scaling.attn_factor", float32(whole/mscale(1)))
	}
}

// llama3Divisors is rope_freqs.weight: what Llama 3's scaling divides each pair's frequency by. It is computed in float32, step by
// step as converters do it, for the same bits.
func llama3Divisors(p object, base float64, dims int, factor float64, original int) gguf.Tensor {
	low, high := p.float("low_freq_factor", 1), p.float("high_freq_factor", 4)
	if !(low > 0 && high > low) || original == 0 {
		p.fail("high_freq_factor", "found %v with low_freq_factor %v and original_max_position_embeddings %d, want low below high and all positive", high, low, original)
	}
	longest, shortest := float64(original)/low, float64(original)/high
	data := make([]byte, 0, 2*dims)
	for i := range dims / 2 {
		exponent := float32(2*i) / float32(dims)
		freq := 1 / float32(math.Pow(base, float64(exponent)))
		wave := float32(2*math.Pi) / freq
		divisor := float32(1)
		switch {
		case float64(wave) < shortest:
		case float64(wave) > longest:
			divisor = float32(factor)
		default:
			smooth := float32(float32(float32(original)/wave)-float32(low)) / float32(high-low)
			divisor = 1 / float32(float32(float32(1-smooth)/float32(factor))+smooth)
		}
		data = binary.LittleEndian.AppendUint32(data, math.Float32bits(divisor))
	}
	return gguf.Tensor{Name: "rope_freqs.weight", Type: gguf.F32, Shape: []int{dims / 2}, Data: data}
}
