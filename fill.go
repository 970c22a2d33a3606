package memra

import (
	"errors"
	"fmt"
	"slices"
)

// Gap is a text with a gap in it, for a model that has learned to fill it in.
type Gap struct{ Before, After string }

// ErrNoFill is the reason why a model whose vocabulary has no tokens to mark a gap fills none.
var ErrNoFill = errors.New("the vocabulary has no tokens for filling in the middle of a text (tokenizer.ggml.fim_pre_token_id, fim_suf_token_id, fim_mid_token_id, " +
	"or <|fim_prefix|> and its like); take one that learned it: builtin, Qwen2.5-Coder, Granite, CodeLlama")

// gap is the prompt that asks for what belongs into a gap, by at most so many tokens (0: no limit): the start token, then what stands
// before and after it, each behind its mark. Where the context has no room for all of it, a quarter being kept for the answer
// unless the limit is lower, what lies farthest from the gap is left out: so many tokens.
func (m *Model) gap(g Gap, limit int) (tokens []int32, left int, err error) {
	mark, ok := m.tokenizer.Fill()
	if !ok {
		return nil, 0, fmt.Errorf("memra: %s: %w", m.facts.File, ErrNoFill)
	}
	if m.tokenizer.AddsBOS() {
		tokens = append(tokens, m.tokenizer.BOS())
	}
	answer := max(1, m.context/4)
	if limit > 0 {
		answer = min(answer, limit)
	}
	before, after := m.TokenizePlain(g.Before), m.TokenizePlain(g.After)
	start, end := around(len(before), len(after), m.context-answer-len(tokens)-3)
	left = start + len(after) - end
	return slices.Concat(tokens, []int32{mark.Prefix}, before[start:], []int32{mark.Suffix}, after[:end], []int32{mark.Middle}), left, nil
}

// around chooses what stays of so many tokens before a gap and after it: those before from start on, those after up to end. A quarter of
// the room is for those after; what one side does not need, the other has.
func around(before, after, room int) (start, end int) {
	room = max(0, room)
	end = min(after, max(room/4, room-before))
	return max(0, before-(room-end)), end
}

// ends reports whether a token ends the answer to a request: an end token, and in a gap every mark, for a text has none.
func (m *Model) ends(r Request, id int32) bool {
	if m.tokenizer.IsEnd(id) || r.Gap == nil {
		return m.tokenizer.IsEnd(id)
	}
	mark, _ := m.tokenizer.Fill()
	return m.tokenizer.IsSpecial(id) || slices.Contains([]int32{mark.Prefix, mark.Suffix, mark.Middle}, id)
}
