package compute

import (
	"fmt"
	"math"

	"memra/internal/exact"
)

// Rope is a rotary position embedding (arXiv:2104.09864), ready to turn heads: pair j of a row at position p turns by
// p*Freq[j] and is multiplied by Scale.
type Rope struct {
	Dims      int       // values of a head that turn, from its first; the rest stay
	Neighbour bool      // pairs are (2j, 2j+1); otherwise (j, j+Dims/2)
	Freq      []float64 // radians per position, [Dims/2]
	Scale     float32   // of cosine and sine: 1, but for YaRN
}

// RopeParams are what model files say of a rotary embedding.
type RopeParams struct {
	Base      float64
	Dims      int
	Neighbour bool
	Scaling   RopeScaling
	Divisors  []float32 // per pair, [Dims/2]; nil: none (GGUF's rope_freqs)
}

// RopeScaling stretches a rotary embedding beyond the context that a model was trained on.
type RopeScaling struct {
	Type       string  // "" or "none", "linear", "llama3", "yarn", "longrope" (Divisors stretch, Attention sharpens)
	Factor     float64 // by which the context grows
	Original   int     // context of the training (llama3, yarn)
	LowFreq    float64 // llama3: low_freq_factor
	HighFreq   float64 // llama3: high_freq_factor
	BetaFast   float64 // yarn; 0 means 32
	BetaSlow   float64 // yarn; 0 means 1
	AttnFactor float64 // yarn: multiplies cosine and sine, over 1 + 0.1*ln(Factor); 0 means 1
	Within     bool    // yarn: the ramp begins and ends within pairs, not at whole ones (gpt-oss)
	Attention  float64 // yarn, longrope: the whole of what multiplies them; 0: AttnFactor says
}

// NewRope computes the frequencies, once, in float64.
func NewRope(p RopeParams) (*Rope, error) {
	if p.Dims <= 0 || p.Dims%2 != 0 {
		return nil, fmt.Errorf("compute: rotary width %d, want a positive even number", p.Dims)
	}
	if !(p.Base > 0) || math.IsInf(p.Base, 0) {
		return nil, fmt.Errorf("compute: rotary base %v, want a positive number", p.Base)
	}
	if p.Divisors != nil && len(p.Divisors) != p.Dims/2 {
		return nil, fmt.Errorf("compute: %d rotary divisors, want %d (half the rotary width %d)", len(p.Divisors), p.Dims/2, p.Dims)
	}
	r := &Rope{Dims: p.Dims, Neighbour: p.Neighbour, Freq: make([]float64, p.Dims/2), Scale: 1}
	for j := range r.Freq {
		r.Freq[j] = exact.Pow(p.Base, -2*float64(j)/float64(p.Dims))
		if p.Divisors != nil {
			r.Freq[j] /= float64(p.Divisors[j])
		}
	}
	s := p.Scaling
	switch s.Type {
	case "", "none":
		return r, nil
	case "longrope":
		if p.Divisors == nil || !(s.Attention > 0) {
			return nil, fmt.Errorf("compute: longrope with divisors %v and attention factor %v, want some and a positive number", p.Divisors, s.Attention)
		}
		r.Scale = float32(s.Attention)
		return r, nil
	}
	if !(s.Factor > 0) || math.IsInf(s.Factor, 0) {
		return nil, fmt.Errorf("compute: rotary scaling %q by factor %v, want a positive number", s.Type, s.Factor)
	}
	switch s.Type {
	case "linear":
		for j := range r.Freq {
			r.Freq[j] /= s.Factor
		}
		return r, nil
	case "llama3":
		return r, r.llama3(s)
	case "yarn":
		return r, r.yarn(p.Base, s)
	}
	return nil, fmt.Errorf("compute: unknown rotary scaling %q, want none, linear, llama3, longrope or yarn", s.Type)
}

// llama3 divides the slow pairs by the factor, leaves the fast ones, and blends between (Llama 3.1's model card).
func (r *Rope) llama3(s RopeScaling) error {
	if s.Original <= 0 || !(s.LowFreq > 0) || !(s.HighFreq > s.LowFreq) {
		return fmt.Errorf("compute: llama3 rotary scaling with original context %d, low %v and high %v, want all positive and low below high", s.Original, s.LowFreq, s.HighFreq)
	}
	for j, f := range r.Freq {
		turns := float64(s.Original) * f / (2 * math.Pi)
		switch {
		case turns < s.LowFreq:
			r.Freq[j] = f / s.Factor
		case turns <= s.HighFreq:
			keep := (turns - s.LowFreq) / (s.HighFreq - s.LowFreq)
			r.Freq[j] = float64(keep*f) + float64((1-keep)*(f/s.Factor))
		}
	}
	return nil
}

// yarn interpolates pairs that turn seldom, keeps those that turn often, ramps between, and sharpens attention
// (arXiv:2309.00071).
func (r *Rope) yarn(base float64, s RopeScaling) error {
	if s.Original <= 0 {
		return fmt.Errorf("compute: yarn rotary scaling with original context %d, want a positive number", s.Original)
	}
	orDefault := func(v, d float64) float64 {
		if v == 0 {
			return d
		}
		return v
	}
	// The pair that makes `turns` turns over the original context.
	pair := func(turns float64) float64 {
		return float64(r.Dims) * exact.Log(float64(s.Original)/(turns*2*math.Pi)) / (2 * exact.Log(base))
	}
	low, high := pair(orDefault(s.BetaFast, 32)), pair(orDefault(s.BetaSlow, 1))
	if !s.Within {
		low, high = math.Floor(low), math.Ceil(high)
	}
	low, high = max(0, low), min(float64(r.Dims-1), high)
	for j, f := range r.Freq {
		ramp := min(1, max(0, (float64(j)-low)/max(0.001, high-low))) // 0: keep, 1: interpolate
		r.Freq[j] = float64(f*(1-ramp)) + float64(f/s.Factor*ramp)
	}
	mscale := 1.0
	if s.Factor > 1 {
		mscale += float64(0.1 * exact.Log(s.Factor))
	}
	r.Scale = float32(orDefault(s.Attention, orDefault(s.AttnFactor, 1)*mscale))
	return nil
}

// Table is the cosine and sine of every pair at every position, [len(positions), Dims/2], each float64 rounded once.
func (r *Rope) Table(positions []int32) (cos, sin []float32) {
	half := len(r.Freq)
	cos, sin = make([]float32, len(positions)*half), make([]float32, len(positions)*half)
	for i, p := range positions {
		for j, f := range r.Freq {
			s, c := exact.SinCos(float64(p) * f)
			cos[i*half+j], sin[i*half+j] = float32(c)*r.Scale, float32(s)*r.Scale
		}
	}
	return cos, sin
}
