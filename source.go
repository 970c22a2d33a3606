package memra

import (
	"fmt"
	"io"
	"os"

	"memra/hf"
	"memra/internal/builtin"
	"memra/model"
	"memra/tokenizer"
)

// Builtin names, where a path is wanted, the model that is in the program itself: it completes Go code. A file or folder of that name is
// ./builtin.
const Builtin = builtin.Name

// BuiltinCard says what the built-in model is, what it learned from, how good it is and what it is not, with the licences. Markdown.
func BuiltinCard() string { return builtin.Card() }

// file is an open model file: a GGUF file, a split set of them, or a Hugging Face folder, which all say the same things in the same
// words.
type file interface {
	model.Source
	io.Closer
	Tokenizer() (*tokenizer.Tokenizer, error)
}

func openFile(path string) (file, error) {
	if info, err := os.Stat(path); err == nil && info.IsDir() && path != Builtin {
		return hf.Open(path)
	}
	f, err := builtin.GGUF(path)
	if err != nil {
		return nil, err
	}
	return ggufFile{model.GGUF(f), f}, nil
}

type ggufFile struct {
	model.Source
	io.Closer
}

func (f ggufFile) Tokenizer() (*tokenizer.Tokenizer, error) {
	t, err := tokenizer.FromGGUF(f.Metadata())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return t, nil
}

// fileSource is a file with its sizes.
type fileSource struct{ file }

func (s fileSource) Parameters() (n int) {
	for _, t := range s.Tensors() {
		n += t.Values()
	}
	return n
}

func (s fileSource) Bytes() (n int) {
	for _, t := range s.Tensors() {
		n += t.Size()
	}
	return n
}

// Host is nothing: the system can drop the file's pages.
func (s fileSource) Host() int { return 0 }

func newTokenizer(f file) (*Tokenizer, error) {
	t, err := f.Tokenizer()
	if err != nil {
		return nil, err
	}
	return &Tokenizer{tokenizer: t}, nil
}
