package memra

import (
	"errors"
	"fmt"
	"slices"

	"memra/tokenizer"
)

// Gap is a text with a gap in it, for a model that has learned to fill it in.
type Gap struct{ Before, After string }

// ErrNoFill is the reason why a model whose vocabulary has no tokens to mark a gap fills none.
var ErrNoFill = errors.New("the vocabulary has no tokens for filling in the middle of a text (tokenizer.ggml.fim_pre_token_id, fim_suf_token_id, fim_mid_token_id, " +
	"or <|fim_prefix|> and its like); take one that learned it: builtin, Qwen2.5-Coder, Granite, CodeLlama")

// gap is the prompt that asks for what belongs into a gap: the start token, then what stands before and after it, each behind its mark.
// Where the context has no room for all of it, a quarter being kept for the answer unless MaxTokens is lower, what lies farthest
// from the gap is left out.
func (m *Model) gap(r Request) (p prompted, err error) {
	mark, ok := m.tokenizer.Fill()
	if !ok {
		return p, fmt.Errorf("memra: %s: %w", m.facts.File, ErrNoFill)
	}
	if m.tokenizer.AddsBOS() {
		p.tokens = append(p.tokens, m.tokenizer.BOS())
	}
	answer := max(1, m.context/4)
	if r.MaxTokens > 0 {
		answer = min(answer, r.MaxTokens)
	}
	before, after := m.TokenizePlain(r.Gap.Before), m.TokenizePlain(r.Gap.After)
	start, end := around(len(before), len(after), m.context-answer-len(p.tokens)-3)
	p.left, p.healed = start+len(after)-end, tokenizer.None
	if before = before[start:]; r.Heal {
		before, p.healed = m.takeBack(before)
	}
	p.tokens = slices.Concat(p.tokens, []int32{mark.Prefix}, before, []int32{mark.Suffix}, after[:end], []int32{mark.Middle})
	return p, nil
}

// around chooses what stays of so many tokens before a gap and after it: those before from start on, those after up to end. A quarter of
// the room is for those after; what one side does not need, the other has.
func around(before, after, room int) (start, end int) {
	room = max(0, room)
	end = min(after, max(room/4, room-before))
	return max(0, before-(room-end)), end
}

// endings are the tokens that end an answer, and those that end what is filled into a gap: there every mark does, for a text has none.
func (m *Model) endings() (ends, marks []int32) {
	mark, ok := m.tokenizer.Fill()
	for id := range int32(m.tokenizer.Vocab()) {
		if m.tokenizer.IsEnd(id) {
			ends = append(ends, id)
		}
		if m.tokenizer.IsEnd(id) || ok && (m.tokenizer.IsSpecial(id) || slices.Contains([]int32{mark.Prefix, mark.Suffix, mark.Middle}, id)) {
			marks = append(marks, id)
		}
	}
	return ends, marks
}
