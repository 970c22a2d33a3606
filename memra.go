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
	"errors"
	"log/slog"

	"memra/chat"
	"memra/compute"
	"memra/internal/devices"
)

// Options say how a model is opened. The zero value is right for most uses.
type Options struct {
	Device    string // "auto", the default: the first GPU where one works, the CPU elsewhere; "cpu", "cuda", "cuda:N"
	Threads   int    // of the CPU, that compute; 0: one a processor. The output does not depend on them
	Context   int    // the most tokens of one sequence; 0: what the model was made for, or what fits the device if that is less
	Sequences int    // how many are computed at once; more wait. 0: 4
	KVMemory  int    // bytes of the KV cache, which all sequences share; 0: a context for each, or as much of that as the device has room for
	KVFormat  string // of the KV cache: "f16", the default; "q8_0" and "fp8" take half as much, on a GPU; "f32" is for comparison, on the CPU

	// A prompt is computed from where it goes on otherwise than earlier prompts and answers, whose state is kept as long as there is room. The
	// output is the same without.
	NoPrefixCache bool   // compute every prompt from its first token on
	CacheDir      string // a folder where what is computed outlives memory and the process; "": none. It tells as much as the prompts do
	CacheDisk     int    // the most bytes that it takes there; 0: 10 GB

	// Draft says what guesses tokens ahead, so that several are computed at once where that pays: DraftAuto, the default, DraftMTP,
	// DraftLookup, DraftOff, or the path of a smaller model of the same vocabulary. The output is the same.
	Draft    string
	DraftMax int // the most tokens guessed ahead of a sequence; 0: DefaultDraftMax

	Log *slog.Logger // hears what was chosen and why; nil: slog.Default()

	open func(name string, o devices.Options) (compute.Device, error) // instead of devices.Open, for tests
}

// Model is an open model. Its methods are safe for concurrent use.
type Model struct {
	machine
	*Tokenizer
	ends, marks []int32        // tokens that end an answer, or a gap's
	template    *chat.Template // nil: the file has none, or templateErr says what is wrong with it
	templateErr error
}

// Open opens a model: a GGUF file, any member of a split set, a Hugging Face folder, or the built-in model (Builtin). Everything that is
// wrong with it comes back as one error.
func Open(path string, o Options) (_ *Model, err error) {
	m := new(Model)
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	file, err := openFile(path)
	if err != nil {
		return nil, err
	}
	m.file = file
	if m.Tokenizer, err = newTokenizer(file); err != nil {
		return nil, err
	}
	if text, err := file.Metadata().String(chatTemplate); err == nil && text != "" {
		m.template, m.templateErr = chat.Parse(text)
	}
	small, err := m.draftModel(o)
	if err != nil {
		return nil, err
	}
	if err := m.open(fileSource{file}, o, small); err != nil {
		return nil, err
	}
	if err := m.Tokenizer.fits(path, m.model.Vocab); err != nil {
		return nil, err
	}
	m.ends, m.marks = m.endings()
	return m, nil
}

// chatTemplate is the metadata key of the model's own template.
const chatTemplate = "tokenizer.chat_template"

// ErrClosed is what calls on a closed model return.
var ErrClosed = errors.New("memra: the model is closed")

// HasTemplate reports whether the model comes with a chat template: whether it is made to hold a conversation.
func (m *Model) HasTemplate() bool { return m.template != nil || m.templateErr != nil }
