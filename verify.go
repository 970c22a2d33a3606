package memra

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"memra/chat"
	"memra/gguf"
	"memra/model"
	"memra/quant"
)

// Verified is what Verify found.
type Verified struct {
	// Faults says, a line each, what is wrong with the model. Empty: nothing that can be seen without computing.
	Faults []string `json:"faults"`

	// Template is how the chat template took to some conversations; empty where there is none.
	Template []TemplateTrial `json:"template"`

	// SHA256 is of the weights alone: of each tensor's name, type, shape and data, in the order of the names. A model keeps it when
	// it is split, merged or converted without loss, or gets other metadata. Empty where a tensor cannot be read.
	SHA256 string `json:"sha256"`
}

// TemplateTrial is a conversation that a chat template was given.
type TemplateTrial struct {
	Conversation string `json:"conversation"`
	Refused      string `json:"refused,omitempty"` // why; empty: it was rendered. Only the first, a question, has to be
}

// Verify reads all of a model file: whether all weights are finite numbers, the tensors those that the family wants, the tokenizer and
// the chat template in order. progress hears how many bytes of tensors of how many are read, from any goroutine; nil: nobody asks. Its
// error is that of a file that cannot be opened.
func Verify(ctx context.Context, path string, progress func(done, total int)) (_ *Verified, err error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	v := &Verified{Faults: []string{}, Template: []TemplateTrial{}}
	vocab, err := model.Check(f)
	v.fault(err)
	tokens, err := newTokenizer(f)
	v.fault(err)
	if tokens != nil && vocab > 0 {
		v.fault(tokens.fits(path, vocab))
	}
	v.try(f, tokens)
	return v, v.weights(ctx, f.Tensors(), progress)
}

func (v *Verified) fault(err error) {
	if err != nil {
		v.Faults = append(v.Faults, err.Error())
	}
}

// trials are conversations such as models meet.
var trials = []struct {
	name     string
	messages []chat.Message
	tools    []chat.RawJSON
}{
	{"a question", []chat.Message{{Role: "user", Content: "Hi"}}, nil},
	{"a system message", []chat.Message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: "Hi"}}, nil},
	{"several turns", []chat.Message{{Role: "user", Content: "Hi"}, {Role: "assistant", Content: "Hello."}, {Role: "user", Content: "Bye"}}, nil},
	{"tools", []chat.Message{
		{Role: "user", Content: "What is the time?"},
		{Role: "assistant", ToolCalls: []chat.RawJSON{chat.RawJSON(`{"id":"call_0001","type":"function","function":{"name":"time","arguments":{}}}`)}},
		{Role: "tool", ToolCallID: "call_0001", Name: "time", Content: "noon"},
	}, []chat.RawJSON{chat.RawJSON(`{"type":"function","function":{"name":"time","description":"The time.","parameters":{"type":"object","properties":{}}}}`)}},
}

// try renders the trials, with the start and end tokens' texts where there is a tokenizer.
func (v *Verified) try(f file, t *Tokenizer) {
	source, err := f.Metadata().String(chatTemplate)
	if errors.Is(err, gguf.ErrNoKey) || err == nil && source == "" {
		return // a base model
	}
	v.fault(err)
	parsed, err := ParseTemplate(source)
	if err != nil {
		v.fault(fmt.Errorf("%s: %w", f.Name(), err))
		return
	}
	if t != nil {
		parsed.bos, parsed.eos = special(t.tokenizer, t.tokenizer.BOS()), special(t.tokenizer, t.tokenizer.EOS())
	}
	for i, c := range trials {
		trial := TemplateTrial{Conversation: c.name}
		if _, err := parsed.Render(chat.Input{Messages: c.messages, Tools: c.tools, AddGenerationPrompt: true}); err != nil {
			trial.Refused = err.Error()
			if i == 0 {
				v.fault(fmt.Errorf("%s: %s: %w", f.Name(), c.name, err))
			}
		}
		v.Template = append(v.Template, trial)
	}
}

// weights reads all tensors, on all processors.
func (v *Verified) weights(ctx context.Context, tensors []gguf.Tensor, progress func(done, total int)) error {
	tensors = slices.Clone(tensors)
	slices.SortFunc(tensors, func(a, b gguf.Tensor) int { return cmp.Compare(a.Name, b.Name) })
	total := 0
	for i := range tensors {
		total += tensors[i].Size()
	}
	sums, faults := make([][]byte, len(tensors)), make([]error, len(tensors))
	var next, done atomic.Int64
	var workers sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(tensors)) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(tensors) && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				t := &tensors[i]
				sums[i], faults[i] = readTensor(t)
				if n := done.Add(int64(t.Size())); progress != nil {
					progress(int(n), total)
				}
			}
		})
	}
	workers.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	whole := sha256.New()
	for i := range tensors {
		v.fault(faults[i])
		if sums[i] == nil {
			return nil // a tensor that cannot be read has no hash, and so the whole has none
		}
		whole.Write(sums[i])
	}
	v.SHA256 = hex.EncodeToString(whole.Sum(nil))
	return nil
}

// readTensor hashes a tensor and looks for values that are no finite numbers.
func readTensor(t *gguf.Tensor) (sum []byte, err error) {
	format, err := quant.For(t.Type)
	if err != nil {
		return nil, err
	}
	data, err := t.Bytes()
	if err != nil {
		return nil, err
	}
	hash := sha256.New()
	fmt.Fprintf(hash, "%q %s %v %d\n", t.Name, t.Type, t.Shape, len(data))
	blocks := max(1, 4096/format.Block) // that are read at a time
	values := make([]float32, blocks*format.Block)
	bad, first := 0, 0
	for at := 0; at < len(data); at += blocks * format.Bytes {
		piece := data[at:min(len(data), at+blocks*format.Bytes)]
		hash.Write(piece)
		x := values[:len(piece)/format.Bytes*format.Block]
		format.Dequantize(x, piece)
		for i, v := range x {
			if v-v != 0 {
				if bad++; bad == 1 {
					first = at/format.Bytes*format.Block + i
				}
			}
		}
	}
	t.Release(0, len(t.Data))
	if bad > 0 {
		err = fmt.Errorf("tensor %s: %d of %d values are NaN or infinite, the first is value %d; download or convert the model again", t.Name, bad, t.Values(), first)
	}
	return hash.Sum(nil), err
}
