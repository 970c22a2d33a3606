package sample

import (
	"fmt"
	"math"
)

// Params says how a token is drawn. The zero value is greedy. The filters apply in the order of the fields, each to what
// the one before left; a greedy draw needs none of them.
type Params struct {
	// Temperature divides the logits. 0 is greedy, 1 leaves the model's own distribution.
	Temperature float32
	// TopK keeps the k largest logits; of equal ones the smaller tokens. 0 keeps all.
	TopK int
	// TopP keeps the fewest of the most likely tokens that hold at least this share of the probability TopK left.
	// 0 and 1 keep all.
	TopP float32
	// MinP keeps tokens at least this many times as likely as the likeliest. 0 keeps all.
	MinP float32
	// Seed selects the noise. Equal seeds give equal tokens for equal rows and positions.
	Seed uint64
}

// Validate reports the first field that is out of its range.
func (p Params) Validate() error {
	switch {
	case !(p.Temperature >= 0) || math.IsInf(float64(p.Temperature), 1):
		return fmt.Errorf("sample: temperature: found %v, want a finite number >= 0 (0 is greedy)", p.Temperature)
	case p.TopK < 0:
		return fmt.Errorf("sample: top-k: found %d, want >= 0 (0 is off)", p.TopK)
	case !(p.TopP >= 0 && p.TopP <= 1):
		return fmt.Errorf("sample: top-p: found %v, want 0 to 1 (0 and 1 are off)", p.TopP)
	case !(p.MinP >= 0 && p.MinP <= 1):
		return fmt.Errorf("sample: min-p: found %v, want 0 to 1 (0 is off)", p.MinP)
	}
	return nil
}

// Greedy reports whether tokens are picked without noise.
func (p Params) Greedy() bool { return p.Temperature == 0 }
