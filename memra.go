// Package memra runs open-weight language models: same request, same bytes.
//
// Open a model file, and generate:
//
//	m, err := memra.Open("model.gguf", memra.Options{})
//	if err != nil {
//		return err
//	}
//	defer m.Close()
//	for chunk, err := range m.Generate(ctx, memra.Request{Prompt: "The capital of France is", MaxTokens: 16}) {
//		if err != nil {
//			return err
//		}
//		fmt.Print(chunk.Text)
//	}
//
// The probabilities of a token, and the token that is drawn, depend on the model file, the kind of device, the tokens before it
// and the request alone: not on threads, on other requests, on how a prompt was cut into steps, or on whether a token was
// given or generated. Score returns the very log-probabilities that Generate gave.
package memra

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"memra/chat"
	"memra/compute"
	"memra/compute/cpu"
	"memra/gguf"
	"memra/model"
	"memra/state"
)

// Options say how a model is opened. The zero value is right for most uses.
type Options struct {
	Threads   int    // that compute; 0: one a processor. The output does not depend on it
	Context   int    // the most tokens of one sequence; 0: what the model was made for
	Sequences int    // how many may be alive at once; more wait. 0: 4
	KVFormat  string // of the KV cache: "f16", the default, or "f32", for comparison with references
}

// Model is an open model. Its methods are safe for concurrent use.
type Model struct {
	*Tokenizer
	file        *gguf.File
	model       *model.Model
	template    *chat.Template // nil: the file has none, or templateErr says what is wrong with it
	templateErr error
	context     int
	step        int           // the most rows of a step
	slots       chan struct{} // holds an element for each living sequence

	mu     sync.Mutex // guards what follows: one step at a time
	device *cpu.Device
	pool   *state.Pool
	closed bool
}

// stepRows is the most rows of a step: enough to amortise reading the weights, few enough for activations to stay small.
const stepRows = 256

// Open opens a model file: a GGUF file, or any member of a split set. Everything that is wrong with the file comes back as
// one error.
func Open(path string, o Options) (_ *Model, err error) {
	m := &Model{step: stepRows}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	format, err := kvFormat(o.KVFormat)
	if err != nil {
		return nil, err
	}
	if o.Context < 0 || o.Sequences < 0 {
		return nil, fmt.Errorf("memra: context of %d tokens and %d sequences, want none negative", o.Context, o.Sequences)
	}
	if m.file, err = gguf.Open(path); err != nil {
		return nil, err
	}
	if m.Tokenizer, err = newTokenizer(m.file); err != nil {
		return nil, err
	}
	if source, err := m.file.Meta.String(chatTemplate); err == nil && source != "" {
		m.template, m.templateErr = chat.Parse(source)
	}
	if m.device, err = cpu.Open(o.Threads); err != nil {
		return nil, err
	}
	if m.model, err = model.Open(model.GGUF(m.file), m.device); err != nil {
		return nil, err
	}
	if n := m.tokenizer.Vocab(); n > m.model.Vocab {
		return nil, fmt.Errorf("memra: %s: the tokenizer has %d tokens, the output matrix %d rows; convert the model again", path, n, m.model.Vocab)
	}
	if m.context = o.Context; m.context == 0 {
		m.context = max(m.model.Context, compute.Page)
	}
	sequences := o.Sequences
	if sequences == 0 {
		sequences = 4
	}
	m.slots = make(chan struct{}, sequences)
	m.pool, err = state.NewPool(m.device, m.model.State(), state.Config{
		Format: format, Positions: m.context * sequences, Sequences: sequences, Step: m.step})
	return m, err
}

// chatTemplate is the metadata key of the model's own template.
const chatTemplate = "tokenizer.chat_template"

func kvFormat(name string) (compute.KVFormat, error) {
	switch name {
	case "", compute.KVF16.String():
		return compute.KVF16, nil
	case compute.KVF32.String():
		return compute.KVF32, nil
	}
	return 0, fmt.Errorf("memra: KV format %q, want f16 or f32", name)
}

// Close frees the model. Generations that run end with an error.
func (m *Model) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	var errs []error
	if m.pool != nil {
		errs = append(errs, m.pool.Close())
	}
	if m.device != nil {
		errs = append(errs, m.device.Close())
	}
	if m.file != nil {
		errs = append(errs, m.file.Close())
	}
	return errors.Join(errs...)
}

// ErrClosed is what calls on a closed model return.
var ErrClosed = errors.New("memra: the model is closed")

// Family is the model's family, such as "llama".
func (m *Model) Family() string { return m.model.Name }

// Context is the most tokens that a sequence can hold.
func (m *Model) Context() int { return m.context }

// Device says what computes, for people: "cpu (AVX-512 VNNI, 2 threads)".
func (m *Model) Device() string { return m.device.Name() }

// HasTemplate reports whether the model comes with a chat template: whether it is made to hold a conversation.
func (m *Model) HasTemplate() bool { return m.template != nil || m.templateErr != nil }

// acquire waits for a sequence.
func (m *Model) acquire(ctx context.Context) (*sequence, error) {
	select {
	case m.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		<-m.slots
		return nil, ErrClosed
	}
	return &sequence{m: m, state: m.pool.NewSequence()}, nil
}
