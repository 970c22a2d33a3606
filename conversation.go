package memra

import (
	"context"
	"iter"
	"slices"
	"strings"

	"memra/chat"
)

// Chat is a conversation. It keeps the model's state between turns, so that a turn computes only what is new; the answers are
// the same without. A Chat is for one goroutine at a time, and holds one of the model's sequences until it is closed.
type Chat struct {
	Messages []chat.Message // so far; change it as you like between turns
	model    *Model
	sequence *sequence
}

// Chat begins a conversation. It waits for a sequence.
func (m *Model) Chat(ctx context.Context) (*Chat, error) {
	if err := m.converses(); err != nil {
		return nil, err
	}
	s, err := m.acquire(ctx)
	if err != nil {
		return nil, err
	}
	return &Chat{model: m, sequence: s}, nil
}

// Close gives the conversation's memory back.
func (c *Chat) Close() { c.sequence.release() }

// Send adds a user's message and streams the answer, which joins the conversation when it is done, or as far as it came if the
// caller breaks off or ctx ends. On any other error the message is taken back. The request's prompt is the conversation's.
func (c *Chat) Send(ctx context.Context, text string, r Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		before := len(c.Messages)
		c.Messages = append(c.Messages, chat.Message{Role: "user", Content: text})
		r.Messages, r.Prompt, r.Tokens, r.Gap = slices.Clone(c.Messages), "", nil, nil
		var answer strings.Builder
		var failed error
		c.model.generate(ctx, c.sequence, r, func(chunk Chunk, err error) bool {
			failed = err
			answer.WriteString(chunk.Text)
			return yield(chunk, err)
		})
		if failed != nil && ctx.Err() == nil {
			c.Messages = c.Messages[:before]
			return
		}
		c.Messages = append(c.Messages, chat.Message{Role: "assistant", Content: answer.String()})
	}
}
