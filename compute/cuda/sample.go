package cuda

import (
	"fmt"
	"unsafe"

	"memra/compute"
	"memra/sample"
)

// kernels/sample.cuh has the same constants and structures, and asserts their sizes.
const (
	sampleSegment = 4096
	sampleVocab   = 256 * sampleSegment // the most
	sampleRow     = 31752               // bytes of a Row
	drawBytes     = 48
	answerBytes   = 16
	likelyBytes   = 8
	selectShared  = 74296
)

var (
	_ = [1]int{}[unsafe.Sizeof(drawInput{})-drawBytes]
	_ = [1]int{}[unsafe.Sizeof(answer{})-answerBytes]
	_ = [1]int{}[unsafe.Sizeof(likely{})-likelyBytes]
)

// drawInput is a draw on the device.
type drawInput struct {
	seed                    uint64
	position                int64
	temperature, topP, minP float32
	topK, given, top        int32
	logProb                 int32
	_                       int32
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

// input says what kernels must do; filters that would keep all of a vocabulary, or that nothing is drawn from, are off.
func input(d sample.Draw, vocab int) drawInput {
	in := drawInput{given: -1, top: int32(d.Top), logProb: int32(flag(d.LogProb).bits)}
	if d.Given {
		in.given = d.Token
		return in
	}
	if d.Greedy() {
		return in
	}
	in.seed, in.position, in.temperature, in.minP = d.Seed, int64(d.Position), d.Temperature, d.MinP
	if d.TopK < vocab {
		in.topK = int32(d.TopK)
	}
	if d.TopP < 1 {
		in.topP = d.TopP
	}
	return in
}

// Sample computes one step and draws from its rows. See compute.Device; forward runs on the owner's thread.
func (d *Device) Sample(forward func(compute.Ops) compute.Tensor, draws []sample.Draw) (picks []sample.Pick, err error) {
	err = d.owner.do(func() error {
		var t compute.Tensor
		var stride int
		host, err := d.run(func(s *step) (at pointer, bytes int) {
			t = forward(s)
			if err := compute.CheckDraws(draws, t); err != nil {
				s.fail(err)
			}
			if s.err != nil || len(draws) == 0 {
				return 0, 0
			}
			at, stride = s.sample(t, draws)
			return at, len(draws) * (answerBytes + stride*likelyBytes)
		})
		if err != nil || len(draws) == 0 {
			return err
		}
		answers := unsafe.Slice((*answer)(unsafe.Pointer(&host[0])), len(draws))
		top := unsafe.Slice((*likely)(unsafe.Add(unsafe.Pointer(&host[0]), len(draws)*answerBytes)), len(draws)*stride)
		picks = make([]sample.Pick, len(draws))
		for i, a := range answers {
			if a.fault != sample.Sound {
				picks[i] = draws[i].Refuse(&sample.RowError{Fault: a.fault, Token: a.token, Vocab: t.Width})
				continue
			}
			picks[i] = sample.Pick{Token: a.token, LogProb: a.logProb}
			if draws[i].Top > 0 {
				for _, l := range top[i*stride:][:a.top] {
					picks[i].Top = append(picks[i].Top, sample.TokenLogProb{Token: l.token, LogProb: l.logProb})
				}
			}
		}
		return nil
	})
	return picks, err
}

// sample records the draws from rows of logits. It returns where the answers come to lie, [rows] of answer and then
// [rows][stride] of likely. Which stages are launched depends on what the draws ask for together, a row's answer on its own draw.
func (s *step) sample(logits compute.Tensor, draws []sample.Draw) (at pointer, stride int) {
	vocab := logits.Width
	if vocab > sampleVocab {
		s.fail(fmt.Errorf("cuda: logits of %d tokens, want at most %d", vocab, sampleVocab))
		return 0, 0
	}
	host, from, err := s.inputs.take(s.Device, len(draws)*drawBytes)
	if err != nil {
		s.fail(err)
		return 0, 0
	}
	var weigh, choose, draw bool
	inputs := unsafe.Slice((*drawInput)(unsafe.Pointer(&host[0])), len(draws))
	for i, d := range draws {
		if len(d.Adjust) > 0 || d.Order != nil || d.Filtered || d.TopNSigma > 0 || d.Typical > 0 || d.XTC.Probability > 0 {
			s.fail(fmt.Errorf("cuda: draw %d: penalties, top-n-sigma, typical, XTC, an order and filtered log-probabilities are not computed here; take the CPU", i))
		}
		in := input(d, vocab)
		inputs[i] = in
		filters := in.topK > 0 || in.topP > 0
		weigh = weigh || filters || in.top > 0 || in.logProb != 0
		choose = choose || filters || in.top > 0
		draw = draw || in.temperature > 0
		for stride < int(in.top) { // a power of two: few shapes
			stride = max(1, 2*stride)
		}
	}
	x, rows := s.asRows(logits), s.take(s.at, len(draws)*sampleRow)
	at = s.take(s.at, len(draws)*(answerBytes+stride*likelyBytes))
	top := at + pointer(len(draws)*answerBytes)
	segments := ceilDiv(vocab, sampleSegment)
	every := shape{grid: grid(segments, len(draws)), block: 256}
	s.launch("sample_scan", every, rows.arg(), x.arg(), from.arg(), i32(vocab))
	if weigh {
		s.launch("sample_weigh", every, rows.arg(), x.arg(), from.arg(), i32(vocab))
	}
	if choose {
		s.launch("sample_select", shape{grid: grid(len(draws), 1), block: 1024, shared: selectShared},
			at.arg(), top.arg(), rows.arg(), x.arg(), from.arg(), i32(vocab), i32(segments), i32(stride))
	}
	if draw {
		s.launch("sample_draw", every, rows.arg(), x.arg(), from.arg(), i32(vocab))
	}
	s.launch("sample_finish", shape{grid: grid(len(draws), 1), block: 32}, at.arg(), rows.arg(), x.arg(), from.arg(), i32(vocab), i32(segments))
	return at, stride
}
