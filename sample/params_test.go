package sample

import (
	"math"
	"slices"
	"strings"
	"testing"
)

func TestParamsOutOfRangeAreRefused(t *testing.T) {
	nan := float32(math.NaN())
	dry := DRY{Multiplier: 1, Base: 1.75, AllowedLength: 2}
	with := func(change func(*DRY)) Params {
		d := dry
		change(&d)
		return Params{DRY: d}
	}
	for _, c := range []struct {
		p    Params
		want string // "" for none
	}{
		{Params{}, ""},
		{Params{Temperature: 2, TopK: 40, TopP: 1, MinP: 1, Typical: 1, TopNSigma: 3, XTC: XTC{1, 1}}, ""},
		{Params{RepeatPenalty: 1.1, FrequencyPenalty: -2, PresencePenalty: 2, PenaltyLastN: 64, DRY: dry}, ""},
		{Params{Bias: map[int32]float32{0: -inf, 1: 100, 9: -1e6}, Banned: []int32{0, 9}}, ""},
		{Params{Temperature: nan}, "temperature: found NaN, want a finite number >= 0 (0 is greedy)"},
		{Params{Temperature: -1}, "temperature"},
		{Params{Temperature: inf}, "temperature"},
		{Params{TopNSigma: nan}, "top-n-sigma: found NaN"},
		{Params{TopNSigma: -1}, "top-n-sigma"},
		{Params{TopNSigma: inf}, "top-n-sigma"},
		{Params{TopK: -1}, "top-k: found -1, want >= 0 (0 is off)"},
		{Params{Typical: nan}, "typical"},
		{Params{Typical: 1.1}, "typical: found 1.1, want 0 to 1 (0 and 1 are off)"},
		{Params{TopP: nan}, "top-p"},
		{Params{TopP: 1.01}, "top-p"},
		{Params{TopP: -0.1}, "top-p"},
		{Params{MinP: nan}, "min-p"},
		{Params{MinP: 1.5}, "min-p"},
		{Params{XTC: XTC{nan, 0.1}}, "XTC probability"},
		{Params{XTC: XTC{2, 0.1}}, "XTC probability: found 2, want 0 to 1"},
		{Params{XTC: XTC{1, nan}}, "XTC threshold"},
		{Params{XTC: XTC{1, -1}}, "XTC threshold: found -1, want 0 to 1"},
		{Params{XTC: XTC{Probability: 0.5}}, "XTC threshold: found 0 with a probability of 0.5"},
		{Params{RepeatPenalty: nan}, "repeat penalty"},
		{Params{RepeatPenalty: -1.1}, "repeat penalty: found -1.1, want 0.001 to 1000 (0 and 1 are off)"},
		{Params{RepeatPenalty: 1e-9}, "repeat penalty"},
		{Params{FrequencyPenalty: nan}, "frequency penalty"},
		{Params{FrequencyPenalty: inf}, "frequency penalty"},
		{Params{PresencePenalty: -inf}, "presence penalty"},
		{Params{PenaltyLastN: -1}, "penalties look at: found -1, want >= 0 (0 is all)"},
		{with(func(d *DRY) { d.Multiplier = -1 }), "DRY multiplier"},
		{with(func(d *DRY) { d.Multiplier = nan }), "DRY multiplier"},
		{with(func(d *DRY) { d.Base = 0.5 }), "DRY base: found 0.5, want a finite number >= 1"},
		{with(func(d *DRY) { d.Base = nan }), "DRY base"},
		{with(func(d *DRY) { d.AllowedLength = 0 }), "DRY allowed length: found 0, want >= 1"},
		{with(func(d *DRY) { d.LastN = -1 }), "DRY looks at"},
		{with(func(d *DRY) { d.Breakers = [][]int32{{1}, {}} }), "sequence breaker 2 of 2 is empty"},
		{with(func(d *DRY) { d.Breakers = [][]int32{{1, 10}} }), "DRY: sequence breakers: found token 10, want 0 to 9"},
		{Params{Bias: map[int32]float32{3: nan}}, "logit bias of token 3: found NaN"},
		{Params{Bias: map[int32]float32{3: inf}}, "logit bias of token 3: found +Inf, want -1e6 to 1e6, or -Inf to ban it"},
		{Params{Bias: map[int32]float32{3: -2e6}}, "logit bias of token 3"},
		{Params{Bias: map[int32]float32{10: 1}}, "logit bias: found token 10, want 0 to 9"},
		{Params{Banned: []int32{-1}}, "banned tokens: found token -1"},
		{Params{Order: []Filter{0}}, "order: found Filter(0), want temperature, "},
		{Params{Order: []Filter{ByTopK, ByTopK}}, "order: top_k stands twice"},
		{Params{TopP: 0.5, Order: []Filter{ByTopK}}, "order: top_p is on and not in it; add it, or turn it off"},
		{Params{Temperature: 0.7, Order: []Filter{ByTopK}}, "order: temperature is on and not in it"},
		{Params{Temperature: 1, Order: []Filter{ByTopK}}, ""},
		{Params{TopK: 3, Order: []Filter{ByTopK, ByXTC}}, ""},
	} {
		_, err := NewHistory(c.p, 10)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: error %v, want %q", c.p, err, c.want)
		}
	}
}

// A row's draw is checked once a step: what grows with a request is not.
func TestDrawsAreCheckedForTheirRanges(t *testing.T) {
	if err := (Draw{Params: Params{TopP: 2}}).Check(10); err == nil || !strings.Contains(err.Error(), "top-p") {
		t.Errorf("error %v", err)
	}
}

func TestOrdersAreReadAsLlamaCppWritesThem(t *testing.T) {
	for _, c := range []struct {
		text string
		want []Filter
		err  string
	}{
		{"penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature", []Filter{ByTopNSigma, ByTopK, ByTypical, ByTopP, ByMinP, ByXTC, ByTemperature}, ""},
		{"top-k; temp", []Filter{ByTopK, ByTemperature}, ""},
		{"logit_bias,typical,top_nsigma", []Filter{ByTypical, ByTopNSigma}, ""},
		{"", []Filter{}, ""},
		{"top_k;mirostat", nil, `found "mirostat", want penalties, dry, or temperature, top_n_sigma, top_k, typ_p, top_p, min_p, xtc`},
		{"top_k;top_k", nil, "top_k stands twice"},
		{"top_k;penalties", nil, "penalties after top_k, want it before"},
	} {
		got, err := ParseOrder(c.text)
		if !slices.Equal(got, c.want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %v, %v, want %v, %q", c.text, got, err, c.want, c.err)
		}
	}
	for _, f := range defaultOrder {
		if got, err := ParseOrder(f.String()); err != nil || !slices.Equal(got, []Filter{f}) {
			t.Errorf("%v is read as %v, %v", f, got, err)
		}
	}
}
