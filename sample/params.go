package sample

import (
	"fmt"
	"math"
	"slices"
)

// Params says how a token is drawn. The zero value is greedy: the largest logit.
//
// Penalties, biases and bans come first and change the model's own logits; a History turns them into Adjustments. Then the
// temperature and the filters follow in the order of the fields, or of Order, each on what the one before left.
type Params struct {
	// RepeatPenalty makes tokens of the history less likely: it divides positive logits and multiplies the others. 0 and 1 are off.
	RepeatPenalty float32
	// FrequencyPenalty is taken from a token's logit for each time that the history has it, PresencePenalty once. 0 is off.
	FrequencyPenalty, PresencePenalty float32
	// PenaltyLastN is how many of the last tokens, given and generated alike, these three penalties look at. 0: all.
	PenaltyLastN int
	// DRY makes tokens less likely that would go on with a repetition.
	DRY DRY
	// Bias is added to the logits of tokens; -Inf bans one.
	Bias map[int32]float32
	// Banned tokens are never drawn.
	Banned []int32

	// Temperature divides the logits. 0 is greedy, 1 leaves the model's own distribution.
	Temperature float32
	// TopNSigma keeps logits at most so many standard deviations below the largest: of all that are above -Inf. 0 keeps all.
	TopNSigma float32
	// TopK keeps the k largest logits; of equal ones the smaller tokens. 0 keeps all.
	TopK int
	// Typical keeps the tokens whose information is nearest to what is expected, fewest first, that hold at least this share of the
	// probability. 0 and 1 keep all.
	Typical float32
	// TopP keeps the fewest of the most likely tokens that hold at least this share of the probability TopK left.
	// 0 and 1 keep all.
	TopP float32
	// MinP keeps tokens at least this many times as likely as the likeliest. 0 keeps all.
	MinP float32
	// XTC drops likely tokens, at some positions.
	XTC XTC

	// Order is another order of Temperature and the filters. nil is that of the fields. One that is on must be in it.
	Order []Filter

	// Seed selects the noise. Equal seeds give equal tokens for equal rows and positions.
	Seed uint64
}

// XTC ("exclude top choices") drops, of the tokens that are at least as likely as Threshold, all but the least likely one.
type XTC struct {
	Probability float32 // of a position to be one where it does so. 0 is off
	Threshold   float32 // 0 to 1; above 0.5 nothing is ever dropped
}

// DRY ("don't repeat yourself") takes Multiplier·Base^(n-AllowedLength) from the logit of a token before which the last n tokens
// stand in the history as they stand at its end, where n is at least AllowedLength; the longest n counts.
type DRY struct {
	Multiplier    float32   // 0 is off
	Base          float32   // at least 1; llama.cpp has 1.75
	AllowedLength int       // at least 1; llama.cpp has 2
	LastN         int       // how many of the last tokens it looks at. 0: all
	Breakers      [][]int32 // sequences of tokens over which no repetition is counted; a single token of these is not penalised
}

// Limits of penalties and biases: what is beyond is a mistake, and logits stay finite.
const (
	maxBias   = 1e6
	minRepeat = 1e-3
	maxRepeat = 1e3
)

// Validate reports the first field that is out of its range. Which tokens there are, Fits asks.
func (p Params) Validate() error {
	if err := p.check(); err != nil {
		return err
	}
	for token, b := range p.Bias {
		if !(b <= maxBias) || b < -maxBias && !math.IsInf(float64(b), -1) {
			return fmt.Errorf("sample: logit bias of token %d: found %v, want -1e6 to 1e6, or -Inf to ban it", token, b)
		}
	}
	for i, b := range p.DRY.Breakers {
		if len(b) == 0 {
			return fmt.Errorf("sample: DRY: sequence breaker %d of %d is empty, want at least one token; leave it out", i+1, len(p.DRY.Breakers))
		}
	}
	return nil
}

// Fits reports the first token that a vocabulary of so many does not have.
func (p Params) Fits(vocab int) error {
	check := func(what string, token int32) error {
		if token < 0 || int(token) >= vocab {
			return fmt.Errorf("sample: %s: found token %d, want 0 to %d, the tokens of the vocabulary", what, token, vocab-1)
		}
		return nil
	}
	for token := range p.Bias {
		if err := check("logit bias", token); err != nil {
			return err
		}
	}
	for _, token := range p.Banned {
		if err := check("banned tokens", token); err != nil {
			return err
		}
	}
	for _, b := range p.DRY.Breakers {
		for _, token := range b {
			if err := check("DRY: sequence breakers", token); err != nil {
				return err
			}
		}
	}
	return nil
}

// check is Validate without what grows with a request.
func (p Params) check() error {
	finite := func(x float32) bool { return math.Abs(float64(x)) <= math.MaxFloat32 }
	switch {
	case p.RepeatPenalty != 0 && !(p.RepeatPenalty >= minRepeat && p.RepeatPenalty <= maxRepeat):
		return fmt.Errorf("sample: repeat penalty: found %v, want 0.001 to 1000 (0 and 1 are off)", p.RepeatPenalty)
	case !(math.Abs(float64(p.FrequencyPenalty)) <= maxBias):
		return fmt.Errorf("sample: frequency penalty: found %v, want -1e6 to 1e6 (0 is off)", p.FrequencyPenalty)
	case !(math.Abs(float64(p.PresencePenalty)) <= maxBias):
		return fmt.Errorf("sample: presence penalty: found %v, want -1e6 to 1e6 (0 is off)", p.PresencePenalty)
	case p.PenaltyLastN < 0:
		return fmt.Errorf("sample: last tokens that penalties look at: found %d, want >= 0 (0 is all)", p.PenaltyLastN)
	case !(p.DRY.Multiplier >= 0 && p.DRY.Multiplier <= maxBias):
		return fmt.Errorf("sample: DRY multiplier: found %v, want 0 to 1e6 (0 is off)", p.DRY.Multiplier)
	case p.DRY.on() && !(p.DRY.Base >= 1 && finite(p.DRY.Base)):
		return fmt.Errorf("sample: DRY base: found %v, want a finite number >= 1 (1.75 is usual)", p.DRY.Base)
	case p.DRY.on() && p.DRY.AllowedLength < 1:
		return fmt.Errorf("sample: DRY allowed length: found %d, want >= 1 (2 is usual)", p.DRY.AllowedLength)
	case p.DRY.LastN < 0:
		return fmt.Errorf("sample: last tokens that DRY looks at: found %d, want >= 0 (0 is all)", p.DRY.LastN)
	case !(p.Temperature >= 0 && finite(p.Temperature)):
		return fmt.Errorf("sample: temperature: found %v, want a finite number >= 0 (0 is greedy)", p.Temperature)
	case !(p.TopNSigma >= 0 && finite(p.TopNSigma)):
		return fmt.Errorf("sample: top-n-sigma: found %v, want a finite number >= 0 (0 is off)", p.TopNSigma)
	case p.TopK < 0:
		return fmt.Errorf("sample: top-k: found %d, want >= 0 (0 is off)", p.TopK)
	case !(p.Typical >= 0 && p.Typical <= 1):
		return fmt.Errorf("sample: typical: found %v, want 0 to 1 (0 and 1 are off)", p.Typical)
	case !(p.TopP >= 0 && p.TopP <= 1):
		return fmt.Errorf("sample: top-p: found %v, want 0 to 1 (0 and 1 are off)", p.TopP)
	case !(p.MinP >= 0 && p.MinP <= 1):
		return fmt.Errorf("sample: min-p: found %v, want 0 to 1 (0 is off)", p.MinP)
	case !(p.XTC.Probability >= 0 && p.XTC.Probability <= 1):
		return fmt.Errorf("sample: XTC probability: found %v, want 0 to 1 (0 is off)", p.XTC.Probability)
	case !(p.XTC.Threshold >= 0 && p.XTC.Threshold <= 1):
		return fmt.Errorf("sample: XTC threshold: found %v, want 0 to 1 (above 0.5 is off)", p.XTC.Threshold)
	case p.XTC.Probability > 0 && p.XTC.Threshold == 0:
		return fmt.Errorf("sample: XTC threshold: found 0 with a probability of %v, want above 0 (0.1 is usual)", p.XTC.Probability)
	}
	return p.checkOrder()
}

// Greedy reports whether tokens are picked without noise.
func (p Params) Greedy() bool { return p.Temperature == 0 }

// Bans reports whether a token is never drawn, whatever the history.
func (p Params) Bans(token int32) bool {
	return math.IsInf(float64(p.Bias[token]), -1) || slices.Contains(p.Banned, token)
}

// LooksBack reports whether a draw depends on the tokens before it, other than through the logits.
func (p Params) LooksBack() bool { return p.penalises() || p.DRY.on() }

// penalises reports whether the tokens of the history have penalties.
func (p Params) penalises() bool {
	return p.RepeatPenalty != 0 && p.RepeatPenalty != 1 || p.FrequencyPenalty != 0 || p.PresencePenalty != 0
}

func (d DRY) on() bool { return d.Multiplier > 0 }

// adjusts reports whether logits are changed at all.
func (p Params) adjusts() bool { return p.LooksBack() || len(p.Bias) > 0 || len(p.Banned) > 0 }
