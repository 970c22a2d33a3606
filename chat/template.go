package chat

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"

	"memra/chat/jinja"
)

// ErrNoTemplate is what Parse returns for an empty source: the file brings no template.
var ErrNoTemplate = errors.New("chat: the model has no chat template; give one in a file of its own, " +
	"or prompt the model with plain text (memra run --raw)")

// TemplateError is a fault of a template, or its refusal of a conversation (Raised), with the template's line. Errors of
// Parse and Render wrap one where the template is the cause.
type TemplateError = jinja.Error

// Template is a model's chat template. It is safe for concurrent use.
type Template struct {
	source string
	parsed *jinja.Template
}

// Parse reads a Jinja template. A syntax error, or a tag, filter or test that does not exist, wraps a *TemplateError.
func Parse(source string) (*Template, error) {
	if source == "" {
		return nil, ErrNoTemplate
	}
	source = strings.ToValidUTF8(source, "\uFFFD")
	parsed, err := jinja.Parse(source)
	if err != nil {
		return nil, fmt.Errorf("chat: template: %w", err)
	}
	return &Template{source, parsed}, nil
}

// Source returns the template's text.
func (t *Template) Source() string { return t.source }

// Input is what a template is given.
type Input struct {
	Messages []Message // at least one
	// Tools are JSON objects as the chat completions API has them; nil says that there are none to speak of.
	Tools []RawJSON
	// AddGenerationPrompt ends the text where the answer begins.
	AddGenerationPrompt bool
	// ContinueFinalMessage ends the text inside the last message, which the model goes on with.
	ContinueFinalMessage bool
	// BOS and EOS are the texts of the model's start and end token. Empty: the template sees none.
	BOS, EOS string
	// Vars are further variables, like enable_thinking. Values are what encoding/json can marshal.
	Vars map[string]any
	// Now is what strftime_now formats, in its own zone. Zero: the time of the call.
	Now time.Time
}

// The mark that shows, in the rendered text, where the last message ended. transformers has the same.
const continueMark = "CONTINUE_FINAL_MESSAGE_TAG "

// Render writes a conversation as the model wants it. An error wraps a *TemplateError if it is the template's; others
// name the message or variable at fault.
func (t *Template) Render(in Input) (string, error) {
	switch {
	case len(in.Messages) == 0:
		return "", errors.New("chat: the conversation is empty, want at least one message")
	case in.AddGenerationPrompt && in.ContinueFinalMessage:
		return "", errors.New("chat: add_generation_prompt and continue_final_message exclude each other: " +
			"the first begins an answer, the second goes on with one")
	}
	vars, err := t.vars(in)
	if err != nil {
		return "", err
	}
	now := in.Now
	if now.IsZero() {
		now = time.Now()
	}
	text, err := t.parsed.Render(vars, now)
	var failure *TemplateError
	switch {
	case errors.As(err, &failure) && failure.Raised:
		return "", fmt.Errorf("chat: the template refuses the conversation: %w", err)
	case err != nil:
		return "", fmt.Errorf("chat: template: %w", err)
	case in.ContinueFinalMessage:
		return cutContinued(text, in.Messages[len(in.Messages)-1])
	}
	return text, nil
}

// vars makes the variables that transformers makes.
func (t *Template) vars(in Input) (map[string]jinja.Value, error) {
	vars := map[string]jinja.Value{"documents": nil}
	if in.BOS != "" {
		vars["bos_token"] = in.BOS
	}
	if in.EOS != "" {
		vars["eos_token"] = in.EOS
	}
	for name, v := range in.Vars {
		value, err := toValue(v)
		if err != nil {
			return nil, fmt.Errorf("chat: template variable %s: %w", name, err)
		}
		vars[name] = value
	}
	messages := &jinja.List{}
	for i, m := range in.Messages {
		if in.ContinueFinalMessage && i == len(in.Messages)-1 {
			if !strings.Contains(t.source, "content") {
				return nil, errors.New("chat: continue_final_message: the template does not read a message's content")
			}
			marked, ok := m.withMark()
			if !ok {
				return nil, fmt.Errorf("chat: continue_final_message: message %d has no text to go on with", i)
			}
			m = marked
		}
		v, err := m.value()
		if err != nil {
			return nil, fmt.Errorf("chat: message %d: %w", i, err)
		}
		messages.Items = append(messages.Items, v)
	}
	vars["messages"] = messages
	vars["tools"] = nil
	if in.Tools != nil {
		tools := &jinja.List{}
		for i, tool := range in.Tools {
			v, err := toValue(tool)
			if err != nil {
				return nil, fmt.Errorf("chat: tool %d: %w", i, err)
			}
			tools.Items = append(tools.Items, v)
		}
		vars["tools"] = tools
	}
	vars["add_generation_prompt"] = in.AddGenerationPrompt
	return vars, nil
}

// cutContinued ends text at the mark. Where the template trimmed the message, and the mark's own space with it, space
// before the mark goes too: the model would not have seen it.
func cutContinued(text string, last Message) (string, error) {
	mark := strings.TrimSpace(continueMark)
	at := strings.LastIndex(text, mark)
	if at < 0 || !strings.Contains(text, strings.TrimFunc(last.text(), isSpace)) {
		return "", errors.New("chat: continue_final_message: the template does not write the last message as it is, " +
			"so the place to go on cannot be found")
	}
	if strings.HasPrefix(text[at:], continueMark) {
		return text[:at], nil
	}
	return strings.TrimRightFunc(text[:at], isSpace), nil
}

// isSpace is Python's str.isspace for one character.
func isSpace(c rune) bool { return unicode.IsSpace(c) || c >= 0x1c && c <= 0x1f }
