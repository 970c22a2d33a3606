package memra

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"memra/chat"
	"memra/sample"
	"memra/tokenizer"
)

// Request says what to generate. Of Prompt, Tokens and Messages, one is given.
type Request struct {
	Prompt   string         // a text to continue as it stands; a special token's text stands for the token
	Tokens   []int32        // the same as tokens, nothing added
	Messages []chat.Message // a conversation to answer, through the model's chat template

	MaxTokens int           // the most tokens to generate; 0: as many as the context has room for
	Sampling  sample.Params // zero: greedy
	Stop      []string      // texts that end the answer; they are not part of it

	LogProbs    bool // report the log-probability of each token
	TopLogProbs int  // and of so many likeliest tokens at its place; needs LogProbs
}

// Chunk is a part of an answer: what one token brought.
type Chunk struct {
	Text  string // whole code points, "" while a token's text is incomplete or may begin a stop string
	Token *Token // nil in the last chunk, which brings no token
	Done  *Done  // in the last chunk only
}

// Token is a generated or scored token.
type Token struct {
	ID      int32
	LogProb float32               // given the tokens before it, from the raw logits; where asked for
	Top     []sample.TokenLogProb // the likeliest at its place, likeliest first; where asked for
}

// Done says how an answer ended, and what it took.
type Done struct {
	Reason  string // "stop": an end token or a stop string; "length": MaxTokens or the context
	Prompt  int    // tokens given
	Reused  int    // of which a conversation's cache held
	Tokens  int    // tokens generated, the end token included
	Prefill time.Duration
	Decode  time.Duration
}

// Generate streams the answer to a request. The sequence ends with a chunk that has Done, or with an error: ctx's, if ctx ends
// first. Breaking off the loop stops the computation.
func (m *Model) Generate(ctx context.Context, r Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		s, err := m.acquire(ctx)
		if err != nil {
			yield(Chunk{}, err)
			return
		}
		defer s.release()
		m.generate(ctx, s, r, yield)
	}
}

// errBroken tells a consumer that breaks off from errors.
var errBroken = errors.New("the consumer broke off")

// generate answers a request, on top of whatever prefix of its prompt the sequence holds.
func (m *Model) generate(ctx context.Context, s *sequence, r Request, yield func(Chunk, error) bool) {
	err := m.answer(ctx, s, r, func(c Chunk) error {
		if !yield(c, nil) {
			return errBroken
		}
		return nil
	})
	if err != nil && !errors.Is(err, errBroken) {
		yield(Chunk{}, err)
	}
}

func (m *Model) answer(ctx context.Context, s *sequence, r Request, emit func(Chunk) error) error {
	prompt, err := m.prompt(r)
	if err != nil {
		return err
	}
	if len(prompt) >= m.context {
		return fmt.Errorf("memra: the prompt has %d tokens and the context %d: no room for an answer; shorten the prompt or open the model with a larger context", len(prompt), m.context)
	}
	draw := sample.Draw{Params: r.Sampling, LogProb: r.LogProbs}
	if r.LogProbs {
		draw.Top = r.TopLogProbs
	}
	if err := draw.Check(m.model.Vocab); err != nil {
		return err
	}
	stopper, err := sample.NewStopper(r.Stop...)
	if err != nil {
		return err
	}
	limit := m.context - len(prompt)
	if r.MaxTokens < 0 {
		return fmt.Errorf("memra: MaxTokens %d, want 0 for no limit, or more", r.MaxTokens)
	}
	if r.MaxTokens > 0 {
		limit = min(limit, r.MaxTokens)
	}
	text := m.tokenizer.Detokenizer(tokenizer.DecodeOptions{Continues: true})
	next := s.rewind(prompt)
	done := &Done{Reason: "length", Prompt: len(prompt), Reused: len(prompt) - len(next)}
	for began := time.Now(); ; {
		var t Token
		err := s.feed(ctx, next, len(next)-1, func(int) sample.Draw { return draw }, func(_ int, p sample.Pick) error {
			t = Token{ID: p.Token, LogProb: p.LogProb, Top: p.Top}
			return p.Err
		})
		if err != nil {
			return err
		}
		now := time.Now()
		if done.Tokens == 0 {
			done.Prefill, began = now.Sub(began), now
		}
		done.Tokens++
		done.Decode = now.Sub(began)
		if m.tokenizer.IsEnd(t.ID) {
			done.Reason = "stop"
			if err := emit(Chunk{Token: &t}); err != nil {
				return err
			}
			break
		}
		piece, stopped := stopper.Feed(text.Next(t.ID))
		if err := emit(Chunk{Text: piece, Token: &t}); err != nil {
			return err
		}
		if stopped {
			done.Reason = "stop"
			return emit(Chunk{Done: done})
		}
		if done.Tokens == limit {
			break
		}
		next = []int32{t.ID}
	}
	rest, stopped := stopper.Feed(text.Flush())
	if !stopped {
		rest += stopper.Flush()
	}
	return emit(Chunk{Text: rest, Done: done})
}

// prompt is the tokens of a request.
func (m *Model) prompt(r Request) ([]int32, error) {
	var tokens []int32
	switch {
	case r.Messages != nil && r.Prompt == "" && r.Tokens == nil:
		var err error
		if tokens, err = m.conversation(r.Messages); err != nil {
			return nil, err
		}
	case r.Tokens != nil && r.Prompt == "" && r.Messages == nil:
		tokens = r.Tokens
	case r.Tokens == nil && r.Messages == nil:
		tokens = m.Tokenize(r.Prompt)
	default:
		return nil, errors.New("memra: more than one of Prompt, Tokens and Messages is given")
	}
	if len(tokens) == 0 {
		return nil, errors.New("memra: the prompt is empty, and the model adds no start token; give it something to continue")
	}
	return tokens, nil
}

// ErrNoTemplate is returned for conversations with a model whose file has no chat template.
var ErrNoTemplate = errors.New("memra: the model file has no chat template (a base model continues text and does not converse); give a plain prompt instead")

// converses says why the model cannot hold a conversation, if it cannot.
func (m *Model) converses() error {
	switch {
	case m.templateErr != nil:
		return fmt.Errorf("memra: %s: the chat template: %w; give a plain prompt instead", m.facts.File, m.templateErr)
	case m.template == nil:
		return ErrNoTemplate
	}
	return nil
}

// conversation renders messages and encodes the text.
func (m *Model) conversation(messages []chat.Message) ([]int32, error) {
	if err := m.converses(); err != nil {
		return nil, err
	}
	text, err := m.template.Render(chat.Input{Messages: messages, AddGenerationPrompt: true,
		BOS: special(m.tokenizer, m.tokenizer.BOS()), EOS: special(m.tokenizer, m.tokenizer.EOS())})
	if err != nil {
		return nil, err
	}
	tokens := m.tokenizer.Encode(text, tokenizer.Options{ParseSpecial: true})
	if bos := m.tokenizer.BOS(); m.tokenizer.AddsBOS() && (len(tokens) == 0 || tokens[0] != bos) {
		tokens = append([]int32{bos}, tokens...) // the template did not write it
	}
	return tokens, nil
}
