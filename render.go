package memra

import (
	"fmt"

	"memra/chat"
	"memra/tokenizer"
)

// Template is a chat template, to see what a model is given. A Model applies its own; OpenTemplate reads one without the weights.
type Template struct {
	template *chat.Template
	bos, eos string
}

// OpenTemplate reads the chat template of a model, and the texts of its start and end token.
func OpenTemplate(path string) (*Template, error) { return openTemplate(path, "") }

// OpenTemplateFor is the template of a text as a model would have it: with the texts of that model's start and end token.
func OpenTemplateFor(path, source string) (*Template, error) { return openTemplate(path, source) }

// ParseTemplate reads a template that belongs to no model: it sees no start and no end token.
func ParseTemplate(source string) (*Template, error) {
	t, err := chat.Parse(source)
	if err != nil {
		return nil, err
	}
	return &Template{template: t}, nil
}

func openTemplate(path, source string) (*Template, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if source == "" {
		source, _ = f.Metadata().String(chatTemplate) // Parse says that there is none
	}
	t, err := ParseTemplate(source)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	tokens, err := f.Tokenizer()
	if err != nil {
		return nil, err
	}
	t.bos, t.eos = special(tokens, tokens.BOS()), special(tokens, tokens.EOS())
	return t, nil
}

// Render writes a conversation as the template has it. It sets the input's BOS and EOS.
func (t *Template) Render(in chat.Input) (string, error) {
	in.BOS, in.EOS = t.bos, t.eos
	return t.template.Render(in)
}

// special is the text of a special token, "" for none.
func special(t *tokenizer.Tokenizer, id int32) string {
	if id == tokenizer.None {
		return ""
	}
	return string(t.Piece(id))
}
