package cuda

import (
	"fmt"
	"slices"
	"unsafe"

	"memra/compute"
	"memra/sample"
)

// kernels/sample.cuh has the same constants and structures, and asserts their sizes.
const (
	sampleSegment   = 4096
	sampleVocab     = 256 * sampleSegment // the most
	sampleRow       = 36880               // bytes of a Row
	drawBytes       = 80
	adjustmentBytes = 8
	answerBytes     = 16
	likelyBytes     = 8
	selectShared    = 74544
)

var (
	_ = [1]int{}[unsafe.Sizeof(drawInput{})-drawBytes]
	_ = [1]int{}[unsafe.Sizeof(adjustment{})-adjustmentBytes]
	_ = [1]int{}[unsafe.Sizeof(answer{})-answerBytes]
	_ = [1]int{}[unsafe.Sizeof(likely{})-likelyBytes]
)

// drawInput is a draw on the device.
type drawInput struct {
	seed                                 uint64
	position                             int64
	temperature, repeat                  float32
	topNSigma, typical, topP, minP, xtc  float32
	topK, adjustments, adjustment, token int32
	top                                  int32
	asked, logProb, filtered, weigh      uint8
	binned                               float32
	filters, cold                        uint8
	filter                               [6]sample.Filter
}

// What a drawInput's token may be other than given, and what its weigh may have.
const (
	greedy = -1 - iota
	drawn
	chosen
)

const (
	weighSums = 1 << iota
	weighCounts
	weighMasses
	weighDeviations
)

// adjustment is a sample.Adjustment on the device.
type adjustment struct {
	token uint32 // the first bit: Repeat
	add   float32
}

// answer is what a row's draw brings back, likely one of the likeliest tokens.
type (
	answer struct {
		token   int32
		logProb float32
		fault   sample.Fault
		top     int32
	}
	likely struct {
		token   int32
		logProb float32
	}
)

// input says what kernels must do for a draw, and report whether log-probabilities are part of it.
func input(d *sample.Draw, vocab int, report bool) drawInput {
	in := drawInput{asked: 1, token: greedy}
	if report && (d.LogProb || d.Top > 0) {
		in.top, in.logProb = int32(d.Top), bit(d.LogProb)
		if d.Filtered {
			in.filtered = 1
		} else {
			in.weigh = weighSums
			if d.Top > 0 {
				in.weigh |= weighCounts
			}
		}
	}
	switch {
	case d.Given:
		in.token = d.Token
	case !d.Greedy():
		in.token = drawn
	}
	if d.Given && in.filtered == 0 {
		return in
	}
	in.seed, in.position = d.Seed, int64(d.Position)
	in.temperature, in.repeat, in.topNSigma, in.typical, in.topP, in.minP, in.xtc = d.Temperature, d.RepeatPenalty, d.TopNSigma, d.Typical, d.TopP, d.MinP, d.XTC.Threshold
	plan := d.Plan(vocab)
	in.filters, in.cold = uint8(copy(in.filter[:], plan.Filters())), uint8(plan.Cold())
	if in.filters > 0 {
		in.topK = int32(d.TopK)
	}
	in.bins()
	return in
}

// bins adds to weigh what the filters will look at: deviations; counts for top-k; masses for the first filter that adds them up, unless by then
// it is not known of what.
func (in *drawInput) bins() {
	filters := in.filter[:in.filters]
	if slices.Contains(filters, sample.ByTopNSigma) {
		in.weigh |= weighDeviations
	}
	known := true
	for i, f := range filters {
		switch f {
		case sample.ByTopNSigma, sample.ByMinP:
			known = false
		case sample.ByTopK:
			in.weigh |= weighCounts
			known = true
		case sample.ByTypical:
			return
		case sample.ByTopP, sample.ByXTC:
			if known {
				in.weigh |= weighMasses
				in.binned = in.temperature
				if i < int(in.cold) {
					in.binned = 1
				}
			}
			return
		}
	}
}

func bit(b bool) uint8 {
	if b {
		return 1
	}
	return 0
}

// Sample computes one step and draws from its rows. See compute.Device; forward runs by the owner: it must not call the device's methods.
func (d *Device) Sample(forward func(compute.Ops) compute.Tensor, draws []sample.Draw) (picks []sample.Pick, err error) {
	err = d.owner.do(func() error {
		u, a, err := d.beginDraws(forward, draws)
		if err != nil {
			return err
		}
		picks, err = d.awaitDraws(u, a)
		return err
	})
	return picks, err
}

// asked is draws that a step answers, from rows of so many logits, and how many of the likeliest tokens of each come back.
type asked struct {
	draws         []sample.Draw
	vocab, stride int
}

// beginDraws begins a step that draws.
func (d *Device) beginDraws(forward func(compute.Ops) compute.Tensor, draws []sample.Draw) (*under, asked, error) {
	a := asked{draws: draws}
	u, err := d.begin(func(s *step) []piece {
		t := forward(s)
		if err := compute.CheckDraws(draws, t); err != nil {
			s.fail(err)
		}
		if s.err != nil || len(draws) == 0 {
			return nil
		}
		var answers, likely pointer
		answers, likely, a.stride = s.sample(t, draws)
		a.vocab = t.Width
		return []piece{{answers, len(draws) * answerBytes}, {likely, len(draws) * a.stride * likelyBytes}}
	})
	return u, a, err
}

// awaitDraws waits for it, and reads the answers.
func (d *Device) awaitDraws(u *under, a asked) ([]sample.Pick, error) {
	host, err := d.await(u)
	if err != nil || len(a.draws) == 0 {
		return nil, err
	}
	answers := unsafe.Slice((*answer)(unsafe.Pointer(&host[0])), len(a.draws))
	top := unsafe.Slice((*likely)(unsafe.Add(unsafe.Pointer(&host[0]), len(a.draws)*answerBytes)), len(a.draws)*a.stride)
	picks := make([]sample.Pick, len(a.draws))
	for i, got := range answers {
		d := &a.draws[i]
		if got.fault != sample.Sound {
			picks[i] = d.Refuse(&sample.RowError{Fault: got.fault, Token: got.token, Vocab: a.vocab})
			continue
		}
		picks[i] = sample.Pick{Token: got.token, LogProb: got.logProb}
		if d.Top > 0 {
			for _, l := range top[i*a.stride:][:got.top] {
				picks[i].Top = append(picks[i].Top, sample.TokenLogProb{Token: l.token, LogProb: l.logProb})
			}
		}
	}
	return picks, nil
}

// mostDrawn is the most answers that have a place of their own, where the next step finds them (compute.Drawn).
const mostDrawn = 1 << 14

// answers is that place.
func (s *step) answers() pointer {
	if s.drawn == 0 {
		var err error
		if s.drawn, err = s.alloc(mostDrawn*answerBytes, "the answers of a step"); err != nil {
			s.fail(err)
		}
	}
	return s.drawn
}

// sample records the draws from rows of logits. It returns where the answers come to lie, [rows] of answer and
// [rows][stride] of likely. Which stages are launched depends on what the draws ask for together, a row's answer on its own draw.
//
// Rows are asked once, or a second time where the token comes of adjusted logits and its log-probability of raw ones.
func (s *step) sample(logits compute.Tensor, draws []sample.Draw) (answers, likely pointer, stride int) {
	if logits.Width > sampleVocab {
		s.fail(fmt.Errorf("cuda: logits of %d tokens, want at most %d", logits.Width, sampleVocab))
		return 0, 0, 0
	}
	if len(draws) > mostDrawn {
		s.fail(fmt.Errorf("cuda: %d draws in a step, want at most %d", len(draws), mostDrawn))
		return 0, 0, 0
	}
	first, second := make([]drawInput, len(draws)), make([]drawInput, len(draws))
	adjusts, again := 0, false
	for i := range draws {
		d := &draws[i]
		changed := len(d.Adjust) > 0 && (!d.Given || d.Filtered)
		raw := changed && !d.Filtered && (d.LogProb || d.Top > 0)
		first[i] = input(d, logits.Width, !raw)
		if changed {
			first[i].adjustment, first[i].adjustments = int32(adjusts), int32(len(d.Adjust))
			adjusts += len(d.Adjust)
		}
		if raw {
			second[i] = input(&sample.Draw{Given: true, Token: chosen, LogProb: d.LogProb, Top: d.Top}, logits.Width, true)
			second[i].adjustment, second[i].adjustments = first[i].adjustment, first[i].adjustments
			again = true
		}
		for stride < d.Top { // a power of two: few shapes
			stride = max(1, 2*stride)
		}
	}
	t := drawTask{step: s, vocab: logits.Width, rows: len(draws), stride: stride}
	asked := s.drawInputs(first)
	x := s.asRows(logits)
	t.logits = x.arg()
	t.row = s.take(s.at, len(draws)*sampleRow).arg()
	answers, likely = s.answers(), s.take(s.at, len(draws)*stride*likelyBytes)
	t.answers, t.likely = answers.arg(), likely.arg()
	if adjusts == 0 {
		t.answer(first, asked)
		return answers, likely, stride
	}
	entries, room := s.adjustments(draws, first, adjusts)
	were := s.take(s.at, 4*room).arg()
	each := shape{grid: grid(4, len(draws)), block: 256}
	s.launch("sample_adjust", each, t.logits, were, asked.arg(), entries.arg(), i32(t.vocab))
	t.answer(first, asked)
	if again {
		asked := s.drawInputs(second)
		s.launch("sample_restore", each, t.logits, were, asked.arg(), entries.arg(), i32(t.vocab))
		t.answer(second, asked)
	}
	return answers, likely, stride
}

// drawInputs sends what is asked of rows.
func (s *step) drawInputs(asked []drawInput) pointer {
	host, at, err := s.inputs.take(s.Device, len(asked)*drawBytes)
	if err != nil {
		s.fail(err)
		return 0
	}
	copy(unsafe.Slice((*drawInput)(unsafe.Pointer(&host[0])), len(asked)), asked)
	return at
}

// adjustments sends what changes the logits of rows, and returns how many there is room for: a power of two, so that a step keeps its shape
// while histories grow.
func (s *step) adjustments(draws []sample.Draw, asked []drawInput, n int) (at pointer, room int) {
	room = 256
	for room < n {
		room *= 2
	}
	host, at, err := s.inputs.take(s.Device, room*adjustmentBytes)
	if err != nil {
		s.fail(err)
		return 0, 0
	}
	all := unsafe.Slice((*adjustment)(unsafe.Pointer(&host[0])), room)
	for i := range draws {
		to := all[asked[i].adjustment:][:asked[i].adjustments]
		for j := range to {
			a := &draws[i].Adjust[j]
			to[j] = adjustment{uint32(a.Token)&(1<<31-1) | uint32(bit(a.Repeat))<<31, a.Add}
		}
	}
	return at, room
}

// drawTask is rows of logits and where kernels leave what they make of them.
type drawTask struct {
	*step
	vocab, rows, stride          int
	logits, row, answers, likely arg
}

// answer records the kernels that answer what is asked of rows, sent to `at`.
func (t *drawTask) answer(asked []drawInput, at pointer) {
	var weigh, choose, total, draw bool
	for _, in := range asked {
		weigh = weigh || in.weigh != 0
		choose = choose || in.filters > 0 || in.top > 0
		total = total || in.filtered != 0 && in.temperature > 0
		draw = draw || in.token == drawn
	}
	segments := ceilDiv(t.vocab, sampleSegment)
	every, one := shape{grid: grid(segments, t.rows), block: 256}, shape{grid: grid(t.rows, 1), block: 256}
	each := []arg{t.row, t.logits, at.arg(), i32(t.vocab)}
	t.launch("sample_scan", every, each...)
	if weigh {
		t.launch("sample_weigh", every, each...)
	}
	if choose {
		t.launch("sample_select", shape{grid: one.grid, block: 1024, shared: selectShared}, slices.Concat([]arg{t.answers, t.likely}, each, []arg{i32(segments), i32(t.stride)})...)
	}
	if total {
		t.launch("sample_total", every, each...)
	}
	if draw {
		t.launch("sample_draw", every, each...)
	}
	t.launch("sample_finish", one, slices.Concat([]arg{t.answers, t.likely}, each, []arg{i32(segments), i32(t.stride)})...)
}
