package memra

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"memra/tokenizer"
)

// Tokenizer turns text into tokens and back. A Model has its own; OpenTokenizer reads one without the weights. It is safe for
// concurrent use.
type Tokenizer struct {
	tokenizer *tokenizer.Tokenizer
	breakers  sync.Map // text of DefaultBreakers: its [][]int32
}

// OpenTokenizer reads the tokenizer of a model, which no family here need be able to run: of a GGUF file, which may hold nothing
// else, or of a folder with tokenizer.json, likewise.
func OpenTokenizer(path string) (*Tokenizer, error) {
	if _, err := os.Stat(filepath.Join(path, "tokenizer.json")); err == nil && path != Builtin {
		t, err := tokenizer.OpenHF(path)
		if err != nil {
			return nil, err
		}
		return &Tokenizer{tokenizer: t}, nil
	}
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return newTokenizer(f)
}

// fits is an error if a model has no logits for some of the tokens.
func (t *Tokenizer) fits(path string, rows int) error {
	if n := t.tokenizer.Vocab(); n > rows {
		return fmt.Errorf("memra: %s: the tokenizer has %d tokens, the output matrix %d rows; convert the model again", path, n, rows)
	}
	return nil
}

// Tokenize is the tokens of a text as Generate reads a prompt: with the model's start token, and with texts of special tokens
// read as those tokens.
func (t *Tokenizer) Tokenize(text string) []int32 {
	return t.tokenizer.Encode(text, tokenizer.Options{AddSpecial: true, ParseSpecial: true})
}

// TokenizePlain is the tokens of a text that is nothing but text.
func (t *Tokenizer) TokenizePlain(text string) []int32 {
	return t.tokenizer.Encode(text, tokenizer.Options{})
}

// Piece is the text of a token, byte for byte; it need not be whole code points.
func (t *Tokenizer) Piece(id int32) []byte { return t.tokenizer.Piece(id) }
