// Package builtin is the model that is in the program itself: it completes Go code, and there is nothing to download. Its folder
// model has the file (model.gguf), what it is (card.md) and the licences of the text it learned from (LICENSE.txt).
package builtin

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"memra/gguf"
)

// Name stands for the built-in model where a path is wanted. A file or folder of that name is ./builtin.
const Name = "builtin"

//go:embed model
var folder embed.FS

// GGUF opens the file that a path names, or the built-in model for its Name.
func GGUF(path string) (*gguf.File, error) {
	if path == Name {
		return open(folder)
	}
	return gguf.Open(path)
}

// open reads the model of a folder. It copies the file (milliseconds): embedded bytes begin at no particular address, and tensors
// are promised to lie at multiples of the file's alignment.
func open(from fs.FS) (*gguf.File, error) {
	data, err := fs.ReadFile(from, "model/model.gguf")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errors.New("builtin: this build has no built-in model: internal/builtin/model/model.gguf was not there; name a model file with -m, or build with it")
	}
	if err != nil {
		return nil, fmt.Errorf("builtin: %w", err)
	}
	return gguf.Parse(Name, data)
}

// Card says what the model is, what it learned from, how good it is and what it is not, with the licences. Markdown.
func Card() string { return text("model/card.md") + "\n" + text("model/LICENSE.txt") }

// text is an embedded text, "" for none.
func text(name string) string {
	b, _ := folder.ReadFile(name)
	return string(b)
}
