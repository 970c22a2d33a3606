package memra

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"memra/chat"
	"memra/engine"
	"memra/sample"
	"memra/tokenizer"
)

// Request says what to generate. Of Prompt, Tokens, Messages and Gap, one is given.
type Request struct {
	Prompt   string         // a text to continue as it stands; a special token's text stands for the token
	Tokens   []int32        // the same as tokens, nothing added
	Messages []chat.Message // a conversation to answer, through the model's chat template
	Gap      *Gap           // a text to fill in

	// Heal lets the answer begin inside the last token of Prompt, or of what stands before Gap: with the likeliest token that begins
	// with its text. A text that stops at any character is then continued as if it had been cut between tokens.
	Heal bool

	MaxTokens int           // the most tokens to generate; 0: as many as the context has room for
	Sampling  sample.Params // zero: greedy
	Breakers  []string      // texts over which Sampling.DRY counts no repetition, unless it has some of tokens; nil: DefaultBreakers
	Stop      []string      // texts that end the answer; they are not part of it
	StopAfter []string      // texts that end the answer and are the last of it

	// N answers are generated, by forks of one prompt: answer i is what a request with Seed+i gets. 0 is 1. Chunks of different answers come
	// mixed; Answers collects them.
	N int

	Drafts int // the most tokens guessed ahead; 0: as many as Options.DraftMax says, and as pay; below 0: none. The output does not depend on it

	// Patient says that nobody waits for the tokens one by one, as in offline work: others' prompts need not mind it, so that many answers are
	// soon generated side by side.
	Patient bool

	// Tenant is on whose behalf it is: tenants take turns, and what was computed for one is not there for another, nor told.
	Tenant string

	LogProbs    bool // report the log-probability of each token
	TopLogProbs int  // and of so many likeliest tokens at its place; needs LogProbs
	Filtered    bool // of what tokens are drawn from, after penalties, temperature and filters; otherwise what the model itself said
}

// Chunk is a part of an answer: what one token brought.
type Chunk struct {
	Index int    // of the answer, from 0
	Text  string // whole code points, "" while a token's text is incomplete or may begin a stop string
	Token *Token // nil in an answer's last chunk, which brings no token
	Done  *Done  // in an answer's last chunk only
}

// Token is a generated or scored token.
type Token struct {
	ID      int32
	LogProb float32               // given the tokens before it; where asked for
	Top     []sample.TokenLogProb // the likeliest at its place, likeliest first; where asked for
}

// Done says how an answer ended, and what it took.
type Done struct {
	Reason  string // "stop": an end token or a stop string; "length": MaxTokens or the context
	Prompt  int    // tokens given
	Reused  int    // of which had been computed before
	Missed  string // why not more; "": the whole prompt but its last token
	LeftOut int    // tokens around a gap that the context had no room for
	Tokens  int    // tokens generated, the end token included

	Queued    time.Duration // until it was begun
	Prefill   time.Duration // from then to the first token
	Decode    time.Duration // from then to the last
	Drafted   int           // tokens that were guessed ahead
	Accepted  int           // of which so many were right
	Preempted int           // times that it gave up its memory for others, and was computed again
}

// Generate streams the answers to a request. Each ends with a chunk that has Done; the sequence ends after the last of them, or with an
// error: ctx's, if ctx ends first. Breaking off the loop stops the computation.
func (m *Model) Generate(ctx context.Context, r Request) iter.Seq2[Chunk, error] {
	return func(yield func(Chunk, error) bool) {
		if err := m.generate(ctx, r, func(c Chunk) bool { return yield(c, nil) }); err != nil {
			yield(Chunk{}, err)
		}
	}
}

// generate emits the chunks of all answers, as they come, until emit has enough.
func (m *Model) generate(ctx context.Context, r Request, emit func(Chunk) bool) error {
	a, err := m.admit(r)
	if err != nil {
		return err
	}
	answer, err := m.submit(ctx, engine.Request{Tokens: a.tokens, Tenant: r.Tenant, Limit: a.limit, N: len(a.replies), Draw: a.draw, First: a.first, Ends: a.ends, Drafts: a.request.Drafts, Patient: r.Patient})
	if err != nil {
		return err
	}
	defer answer.Cancel()
	for left := len(a.replies); left > 0; {
		e, err := answer.Next(ctx)
		if err != nil {
			return named(err)
		}
		reply := a.replies[e.Index]
		if reply.over { // tokens drawn beyond a stop string
			continue
		}
		if !emit(reply.chunk(m, answer, e)) {
			return nil
		}
		if reply.stopped && !reply.over {
			answer.End(e.Index)
			if !emit(Chunk{Index: e.Index, Done: reply.done(answer, "stop")}) {
				return nil
			}
		}
		if reply.over {
			left--
		}
	}
	return nil
}

// admitted is a request that can be served.
type admitted struct {
	prompted
	request Request
	limit   int // the most tokens to generate
	draw    sample.Draw
	first   *engine.First
	ends    []int32 // tokens that end an answer
	replies []*reply
}

// admit finds out whether a request can be served. An error is a *RequestError.
func (m *Model) admit(r Request) (a *admitted, err error) {
	a = new(admitted)
	defer func() {
		var told *RequestError
		if err != nil && !errors.As(err, &told) {
			err = &RequestError{Err: err}
		}
	}()
	if a.prompted, err = m.prompt(r); err != nil {
		return a, err
	}
	if len(a.tokens) >= m.context {
		return a, &RequestError{TooLong: true, Err: fmt.Errorf("memra: the prompt has %d tokens and the context %d: no room for an answer; shorten the prompt or open the model with a larger context", len(a.tokens), m.context)}
	}
	if err = m.inVocabulary(a.tokens); err != nil {
		return a, err
	}
	if err = m.breakRepetitions(&r); err != nil {
		return a, err
	}
	a.request, a.draw = r, sample.Draw{Params: r.Sampling, LogProb: r.LogProbs, Filtered: r.Filtered}
	if r.LogProbs {
		a.draw.Top = r.TopLogProbs
	}
	if a.healed != tokenizer.None {
		a.first = m.healing(a.healed, a.draw)
	}
	if a.ends = m.ends; r.Gap != nil {
		a.ends = m.marks
	}
	if r.N < 0 || r.N > MostAnswers {
		return a, fmt.Errorf("memra: N is %d answers, want 1 to %d (0 is 1)", r.N, MostAnswers)
	}
	for i := range max(1, r.N) {
		reply, err := m.newReply(a, i)
		if err != nil {
			return a, err
		}
		a.replies = append(a.replies, reply)
	}
	a.limit = m.context - len(a.tokens)
	if r.MaxTokens < 0 {
		return a, fmt.Errorf("memra: MaxTokens %d, want 0 for no limit, or more", r.MaxTokens)
	}
	if r.MaxTokens > 0 {
		a.limit = min(a.limit, r.MaxTokens)
	}
	return a, nil
}

// prompt is the tokens of a request.
func (m *Model) prompt(r Request) (p prompted, err error) {
	given := 0
	for _, is := range []bool{r.Prompt != "", r.Tokens != nil, r.Messages != nil, r.Gap != nil} {
		if is {
			given++
		}
	}
	switch {
	case given > 1:
		err = errors.New("memra: more than one of Prompt, Tokens, Messages and Gap is given")
	case r.Messages != nil:
		p.tokens, err = m.conversation(r.Messages)
	case r.Gap != nil:
		return m.gap(r)
	case r.Tokens != nil:
		p.tokens = r.Tokens
	default:
		p.tokens = m.Tokenize(r.Prompt)
	}
	if err == nil && len(p.tokens) == 0 {
		err = errors.New("memra: the prompt is empty, and the model adds no start token; give it something to continue")
	}
	p.healed = tokenizer.None
	if r.Heal && r.Prompt != "" && len(p.tokens) > 1 { // something has to stand before the answer
		p.tokens, p.healed = m.takeBack(p.tokens)
	}
	return p, err
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
