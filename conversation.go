package memra

import (
	"context"
	"iter"
	"slices"
	"strings"

	"memra/chat"
)

// Chat is a conversation. What the model has computed of it is kept as long as there is room, so that a turn computes only what is new;
// the answers are the same without. A Chat is for one goroutine at a time, and holds nothing between turns but its messages.
type Chat struct {
	Messages []chat.Message // so far; change it as you like between turns
	model    *Model
}

// Chat begins a conversation.
func (m *Model) Chat() (*Chat, error) {
	if err := m.converses(); err != nil {
		return nil, err
	}
	return &Chat{model: m}, nil
}

// Fork begins a conversation with the same messages, which then goes its own way. To rewind one, shorten Messages.
func (c *Chat) Fork() *Chat { return &Chat{Messages: slices.Clone(c.Messages), model: c.model} }

// Send adds a user's message and streams the answer, which joins the conversation when it is done, or as far as it came if the
// caller breaks off or ctx ends. On any other error the message is taken back. The request's prompt is the conversation's,
// and N is 1.
func (c *Chat) Send(ctx context.Context, text string, r Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		before := len(c.Messages)
		c.Messages = append(c.Messages, chat.Message{Role: "user", Content: text})
		r.Messages, r.Prompt, r.Tokens, r.Gap, r.N = slices.Clone(c.Messages), "", nil, nil, 1
		var answer strings.Builder
		var failed error
		for chunk, err := range c.model.Generate(ctx, r) {
			failed = err
			answer.WriteString(chunk.Text)
			if !yield(chunk, err) {
				break
			}
		}
		if failed != nil && ctx.Err() == nil {
			c.Messages = c.Messages[:before]
			return
		}
		c.Messages = append(c.Messages, chat.Message{Role: "assistant", Content: answer.String()})
	}
}
