package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"memra/sample"
)

// samplingFlags say how tokens are drawn, under llama.cpp's names.
type samplingFlags struct {
	params         sample.Params
	lastN, dryLast int // -1: all
	breakers       []string
	biases         []string
	order          string
}

// add adds the flags; a temperature that is set by then is the default.
func (f *samplingFlags) add(cmd *cobra.Command) {
	p, flags := &f.params, cmd.Flags()
	flags.Float32Var(&p.Temperature, "temperature", p.Temperature, "0 takes the likeliest token each time, 1 draws from the model's own distribution; also --temp")
	flags.IntVar(&p.TopK, "top-k", 0, "draw among the k likeliest tokens only; 0: all")
	flags.Float32Var(&p.TopP, "top-p", 0, "draw among the likeliest tokens that hold this share of the probability; 0: all")
	flags.Float32Var(&p.MinP, "min-p", 0, "draw among tokens at least this many times as likely as the likeliest; 0: all")
	flags.Float32Var(&p.Typical, "typical", 0, "draw among the most typical tokens that hold this share of the probability; 0: all")
	flags.Float32Var(&p.TopNSigma, "top-nsigma", 0, "draw among tokens at most so many standard deviations below the likeliest; 0: all")
	flags.Float32Var(&p.XTC.Probability, "xtc-probability", 0, "chance that all but the last of the likely tokens are left out; 0: off")
	flags.Float32Var(&p.XTC.Threshold, "xtc-threshold", 0.1, "how likely those are at least")
	flags.Float32Var(&p.RepeatPenalty, "repeat-penalty", 1, "divides the logits of tokens that were there before; 1: off")
	flags.Float32Var(&p.FrequencyPenalty, "frequency-penalty", 0, "taken from a token's logit for each time that it was there before; 0: off")
	flags.Float32Var(&p.PresencePenalty, "presence-penalty", 0, "taken from the logit of a token that was there before; 0: off")
	flags.IntVar(&f.lastN, "repeat-last-n", -1, "how many of the last tokens these three look at, given and generated; -1: all")
	flags.Float32Var(&p.DRY.Multiplier, "dry-multiplier", 0, "how much tokens are penalised that would go on with a repetition (DRY); 0: off")
	flags.Float32Var(&p.DRY.Base, "dry-base", 1.75, "how much more for each token that the repetition is longer")
	flags.IntVar(&p.DRY.AllowedLength, "dry-allowed-length", 2, "longest repetition that costs no more than the multiplier")
	flags.IntVar(&f.dryLast, "dry-penalty-last-n", -1, "how many of the last tokens are searched for it; -1: all")
	flags.StringArrayVar(&f.breakers, "dry-sequence-breaker", nil, `text over which no repetition is counted, in place of a newline, ":", '"' and "*"; none: there is none; may be repeated`)
	flags.StringArrayVarP(&f.biases, "logit-bias", "l", nil, "TOKEN+BIAS or TOKEN-BIAS, added to a token's logit, as in 15043+1; TOKEN-inf bans it; may be repeated")
	flags.StringVar(&f.order, "samplers", "", "order of temperature and filters, with semicolons between: temperature;top_n_sigma;top_k;typ_p;top_p;min_p;xtc unless given")
	flags.Uint64VarP(&p.Seed, "seed", "s", 0, "of the draw: the same seed gives the same answer")
}

// texts are those over which DRY counts no repetition; nil: the usual ones.
func (f *samplingFlags) texts() []string {
	if slices.Equal(f.breakers, []string{"none"}) {
		return []string{}
	}
	return f.breakers
}

// sampling is the flags as parameters.
func (f *samplingFlags) sampling() (p sample.Params, err error) {
	p = f.params
	for _, n := range []struct {
		flag string
		from int
		to   *int
	}{{"--repeat-last-n", f.lastN, &p.PenaltyLastN}, {"--dry-penalty-last-n", f.dryLast, &p.DRY.LastN}} {
		if n.from == 0 || n.from < -1 {
			return p, fmt.Errorf("%s is %d, want 1 or more, or -1 for all", n.flag, n.from)
		}
		*n.to = max(0, n.from)
	}
	for _, text := range f.biases {
		at := strings.IndexAny(text, "+-")
		token, err := strconv.ParseUint(text[:max(0, at)], 10, 31)
		if err != nil {
			return p, fmt.Errorf("--logit-bias is %q, want a token's number and what is added, as in 15043+1 or 15043-inf", text)
		}
		bias, err := strconv.ParseFloat(text[at:], 32)
		if err != nil {
			return p, fmt.Errorf("--logit-bias is %q: %q is no number", text, text[at:])
		}
		if p.Bias == nil {
			p.Bias = map[int32]float32{}
		}
		p.Bias[int32(token)] = float32(bias)
	}
	if f.order != "" {
		if p.Order, err = sample.ParseOrder(f.order); err != nil {
			return p, err
		}
	}
	return p, p.Validate()
}
