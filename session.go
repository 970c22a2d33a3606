package memra

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"

	"memra/tokenizer"
)

// Session is tokens that go on: each generation continues what was given and generated before it. It can fork and rewind. What a session says is
// what one request with all its tokens would say; that it is computed only once is the prefix cache's work, so a session holds nothing but its
// tokens, and need not be closed. It is safe for concurrent use; Chat is the same for conversations.
type Session struct {
	model *Model

	mu     sync.Mutex
	tokens []int32
	busy   bool // a generation runs
}

// ErrBusy is what a session returns while a generation of it runs: fork it to do two things at a time.
var ErrBusy = errors.New("memra: the session is generating; wait until that has ended, or fork the session")

// Session begins an empty one.
func (m *Model) Session() *Session { return &Session{model: m} }

// Generate adds the request's Prompt or Tokens, if it has any, and streams what follows, which joins the session, an end token and the tokens of a stop
// string included. If the caller breaks off or ctx ends, what came by then stays; after any other error the session is as it was before. A
// Prompt is encoded by itself; only the first gets the model's start token.
func (s *Session) Generate(ctx context.Context, r Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		tokens, err := s.begin(r)
		if err != nil {
			yield(Chunk{}, err)
			return
		}
		failed := false
		defer func() { s.end(tokens, failed) }()
		r.Prompt, r.Tokens = "", tokens
		for c, err := range s.model.Generate(ctx, r) {
			failed = err != nil && ctx.Err() == nil
			if c.Token != nil {
				tokens = append(tokens, c.Token.ID)
			}
			if !yield(c, err) {
				return
			}
		}
	}
}

// begin is the tokens that a request is to continue.
func (s *Session) begin(r Request) ([]int32, error) {
	if r.Messages != nil || r.Gap != nil || r.Heal || r.Prompt != "" && r.Tokens != nil {
		return nil, &RequestError{Err: errors.New("memra: a session goes on with one of Prompt and Tokens, and not with Messages (see Chat), a Gap or Heal")}
	}
	if r.N > 1 {
		return nil, &RequestError{Err: fmt.Errorf("memra: a session goes on in one way and not in %d; fork it", r.N)}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy {
		return nil, ErrBusy
	}
	s.busy = true
	added := r.Tokens
	if added == nil {
		added = s.model.tokenizer.Encode(r.Prompt, tokenizer.Options{AddSpecial: len(s.tokens) == 0, ParseSpecial: true})
	}
	return slices.Concat(s.tokens, added), nil
}

func (s *Session) end(tokens []int32, failed bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy = false
	if !failed {
		s.tokens = tokens
	}
}

// Tokens are the session's so far: all that was given and generated, without a generation that runs.
func (s *Session) Tokens() []int32 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.tokens)
}

// Fork begins a session with the same tokens, which then goes its own way.
func (s *Session) Fork() *Session { return &Session{model: s.model, tokens: s.Tokens()} }

// Rewind forgets all tokens but the first n.
func (s *Session) Rewind(n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.busy:
		return ErrBusy
	case n < 0 || n > len(s.tokens):
		return fmt.Errorf("memra: rewind a session of %d tokens to %d, want 0 to %d", len(s.tokens), n, len(s.tokens))
	}
	s.tokens = s.tokens[:n:n]
	return nil
}
