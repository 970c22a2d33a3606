package memra

import (
	"slices"
	"strings"

	"memra/engine"
	"memra/sample"
	"memra/tokenizer"
)

// reply is one answer to a request in the making: it turns tokens into text and finds stop strings.
type reply struct {
	*admitted
	index     int
	stopper   *sample.Stopper
	text      *tokenizer.Detokenizer
	generated int
	stopped   bool // by a stop string, perhaps before the engine knows
	over      bool // its last chunk has been made
}

func (m *Model) newReply(a *admitted, index int) (*reply, error) {
	stopper, err := sample.NewStopper(slices.Concat(a.request.Stop, a.request.StopAfter)...)
	return &reply{admitted: a, index: index, stopper: stopper, text: m.tokenizer.Detokenizer(tokenizer.DecodeOptions{Continues: true})}, err
}

// chunk is what an event of the engine's adds to the answer.
func (r *reply) chunk(m *Model, answer *engine.Answer, e engine.Event) (c Chunk) {
	if e.Done != nil {
		text, stopped := r.feed(r.text.Flush())
		if !stopped {
			text += r.stopper.Flush()
		}
		return Chunk{Index: r.index, Text: text, Done: r.done(answer, e.Done.Reason)}
	}
	r.generated++
	c = Chunk{Index: r.index, Token: &Token{ID: e.Token, LogProb: e.LogProb, Top: e.Top}}
	if slices.Contains(r.ends, e.Token) {
		return c
	}
	piece := r.text.Next(e.Token)
	if r.generated == 1 && r.healed != tokenizer.None {
		piece = strings.TrimPrefix(piece, string(m.Piece(r.healed)))
	}
	c.Text, r.stopped = r.feed(piece)
	return c
}

// feed takes the next piece of the text and returns what may be emitted now, with a text that ends the answer and is part of it.
func (r *reply) feed(piece string) (text string, stopped bool) {
	if text, stopped = r.stopper.Feed(piece); stopped {
		if found, _ := r.stopper.Matched(); slices.Contains(r.request.StopAfter, found) {
			text += found
		}
	}
	return text, stopped
}

// done says how the answer ended.
func (r *reply) done(answer *engine.Answer, reason string) *Done {
	r.over = true
	u := answer.Usage(r.index)
	return &Done{Reason: reason, Prompt: len(r.tokens), Reused: u.Cached, Missed: u.Miss, LeftOut: r.left, Tokens: r.generated,
		Queued: u.Queued, Prefill: u.Prefill, Decode: u.Decode, Preempted: u.Preempted, Drafted: u.Drafted, Accepted: u.Accepted}
}
