package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"memra/chat/jinja"
)

// RawJSON is a JSON value as it came: the order of its keys is part of the prompt.
type RawJSON = json.RawMessage

// Message is one message of a conversation. Decoded from JSON it keeps every field, known or not, in its place; a field
// that is null is as good as absent.
type Message struct {
	Role string
	// Content is a string, nil, or a list of parts: RawJSON, or what encoding/json can marshal.
	Content any
	// ReasoningContent is what the model thought before the answer. Templates see it as "thinking" too.
	ReasoningContent string
	// ToolCalls are JSON objects as the chat completions API has them. Templates mostly want function.arguments as an
	// object, where that API has its text: the caller decides.
	ToolCalls  []RawJSON
	ToolCallID string
	Name       string
	// Extra are other fields.
	Extra []Field

	order []string // of the fields, as decoded
}

// Field is a field of a message that this package does not know.
type Field struct {
	Name  string
	Value any
}

// The known fields, in the order that a message made in Go has.
var known = []string{"role", "content", "reasoning_content", "tool_calls", "tool_call_id", "name"}

// UnmarshalJSON reads a JSON object. Content is a string, nil, or RawJSON.
func (m *Message) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("chat: a message must be a JSON object")
	}
	*m = Message{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		name, _ := key.(string)
		var raw RawJSON
		if err := d.Decode(&raw); err != nil {
			return err
		}
		if string(raw) == "null" {
			continue
		}
		if slices.Contains(m.order, name) {
			return fmt.Errorf("chat: message field %q comes twice", name)
		}
		m.order = append(m.order, name)
		switch name {
		case "role":
			err = json.Unmarshal(raw, &m.Role)
		case "content":
			m.Content = raw
			if raw[0] == '"' {
				var s string
				err = json.Unmarshal(raw, &s)
				m.Content = s
			}
		case "reasoning_content":
			err = json.Unmarshal(raw, &m.ReasoningContent)
		case "tool_calls":
			err = json.Unmarshal(raw, &m.ToolCalls)
		case "tool_call_id":
			err = json.Unmarshal(raw, &m.ToolCallID)
		case "name":
			err = json.Unmarshal(raw, &m.Name)
		default:
			m.Extra = append(m.Extra, Field{name, raw})
		}
		if err != nil {
			return fmt.Errorf("chat: message field %q: %w", name, err)
		}
	}
	_, err := d.Token()
	return err
}

// MarshalJSON writes the object that UnmarshalJSON reads.
func (m Message) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, name := range m.names() {
		value, err := json.Marshal(m.field(name))
		if err != nil {
			return nil, err
		}
		if i > 0 {
			b.WriteByte(',')
		}
		key, _ := json.Marshal(name)
		b.Write(key)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// names lists the fields that are there, in their order.
func (m Message) names() []string {
	names := slices.DeleteFunc(slices.Clone(m.order), func(name string) bool { return m.field(name) == nil })
	add := func(name string, there bool) {
		if there && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range known {
		switch name {
		case "role":
			add(name, true)
		case "content":
			add(name, m.Content != nil)
		case "tool_calls":
			add(name, m.ToolCalls != nil)
		default:
			add(name, m.field(name) != "")
		}
	}
	for _, f := range m.Extra {
		add(f.Name, f.Value != nil)
	}
	return names
}

func (m Message) field(name string) any {
	switch name {
	case "role":
		return m.Role
	case "content":
		return m.Content
	case "reasoning_content":
		return m.ReasoningContent
	case "tool_calls":
		return m.ToolCalls
	case "tool_call_id":
		return m.ToolCallID
	case "name":
		return m.Name
	}
	for _, f := range m.Extra {
		if f.Name == name {
			return f.Value
		}
	}
	return nil
}

// value makes what the template sees. As transformers has it, reasoning is copied under the names that templates read.
func (m Message) value() (jinja.Value, error) {
	fields := jinja.NewDict()
	for _, name := range m.names() {
		v, err := toValue(m.field(name))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		fields.Set(name, v)
	}
	for _, name := range []string{"reasoning_content", "thinking", "reasoning"} {
		reasoning, ok := fields.Get(name)
		if !ok {
			continue
		}
		aliased := jinja.NewDict()
		aliased.Set("thinking", reasoning)
		for _, key := range fields.Keys() {
			v, _ := fields.Get(key)
			aliased.Set(key, v)
		}
		aliased.Set("reasoning_content", reasoning)
		return aliased, nil
	}
	return fields, nil
}

// text returns the content, or the text of its last part that has one.
func (m Message) text() string {
	if s, ok := m.Content.(string); ok {
		return s
	}
	_, s, _ := m.lastText()
	return s
}

// lastText finds the last part with a text among parts.
func (m Message) lastText() (parts []map[string]RawJSON, text string, at int) {
	raw, err := json.Marshal(m.Content)
	if err != nil || json.Unmarshal(raw, &parts) != nil {
		return nil, "", -1
	}
	for at = len(parts) - 1; at >= 0; at-- {
		if t, ok := parts[at]["text"]; ok && json.Unmarshal(t, &text) == nil {
			break
		}
	}
	return parts, text, at
}

// withMark returns the message with continueMark behind its text; ok is false if it has none.
func (m Message) withMark() (marked Message, ok bool) {
	if s, isText := m.Content.(string); isText {
		m.Content = s + continueMark
		return m, true
	}
	parts, text, at := m.lastText()
	if at < 0 {
		return m, false
	}
	// Only the part with the text is rewritten; the others keep the order of their keys.
	raw, err := json.Marshal(m.Content)
	var all []RawJSON
	if err != nil || json.Unmarshal(raw, &all) != nil {
		return m, false
	}
	parts[at]["text"], _ = json.Marshal(text + continueMark)
	all[at], err = json.Marshal(parts[at])
	m.Content = all
	return m, err == nil
}

// toValue converts what a caller has to what a template sees.
func toValue(v any) (jinja.Value, error) {
	switch v := v.(type) {
	case nil:
		return nil, nil
	case string:
		return strings.ToValidUTF8(v, "\uFFFD"), nil
	case bool:
		return v, nil
	case RawJSON:
		return jinja.FromJSON(v)
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return jinja.FromJSON(raw)
}
