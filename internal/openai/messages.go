package openai

import (
	"encoding/json"
	"errors"
	"strings"

	"memra/chat"
)

// readMessages reads a conversation. What its template makes of it is the model's affair; here it is only seen to that each message
// has a role, and a content that is text.
func readMessages(r *Request, v value) error {
	items, err := v.items("messages", mostMessages)
	if err != nil {
		return err
	}
	if len(items) == 0 {
		return refuse(v.path, invalidValue, "found an empty array, want at least one message")
	}
	r.messages = make([]chat.Message, len(items))
	for i, item := range items {
		if err := readMessage(&r.messages[i], item); err != nil {
			return err
		}
	}
	return nil
}

func readMessage(m *chat.Message, v value) error {
	fields, err := v.fields()
	if err != nil {
		return err
	}
	if err := json.Unmarshal(v.raw, m); err != nil {
		var told *json.UnmarshalTypeError
		if errors.As(err, &told) {
			return refuse(v.path, invalidType, "%v", err)
		}
		return refuse(v.path, invalidValue, "%v", err)
	}
	if m.Role == "" {
		return refuse(v.path+".role", missingParameter, `want "system", "user", "assistant" or what else the model's template knows`)
	}
	for _, f := range fields {
		switch strings.TrimPrefix(f.path, v.path+".") {
		case "content":
			if m.Content, err = readContent(f); err != nil {
				return err
			}
		case "tool_calls":
			if m.ToolCalls, err = readCalls(f); err != nil {
				return err
			}
		}
	}
	return nil
}

// readContent reads a text, or parts of one, which line ends join.
func readContent(v value) (any, error) {
	if v.raw[0] == '"' {
		return v.text()
	}
	if v.raw[0] != '[' {
		return nil, v.want("a string or an array of parts")
	}
	parts, err := v.items("parts", mostMessages)
	if err != nil {
		return nil, err
	}
	var texts []string
	for _, part := range parts {
		var kind, text string
		err := object(part, map[string]func(value) error{
			"type": func(v value) error {
				if kind, err = v.text(); err == nil && kind != "text" {
					err = refuse(v.path, unsupportedParameter, "found %s, which is not supported; want \"text\"", v.found())
				}
				return err
			},
			"text": func(v value) error { text, err = v.text(); return err },
		})
		if err != nil {
			return nil, err
		}
		if kind == "" {
			return nil, refuse(part.path+".type", missingParameter, `want "text"`)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "\n"), nil
}

// readCalls gives templates a call's arguments as the object that they want, where the API has its text.
func readCalls(v value) ([]chat.RawJSON, error) {
	items, err := v.items("calls", mostMessages)
	if err != nil {
		return nil, err
	}
	calls := make([]chat.RawJSON, len(items))
	for i, item := range items {
		if item.raw[0] != '{' {
			return nil, item.want("an object")
		}
		calls[i] = item.raw
		var call struct {
			Function struct {
				Arguments string `json:"arguments"`
			} `json:"function"`
		}
		if json.Unmarshal(item.raw, &call) != nil || !strings.HasPrefix(strings.TrimSpace(call.Function.Arguments), "{") || !json.Valid([]byte(call.Function.Arguments)) {
			continue // an object as it is, or a text that is none: the template has to make do with it
		}
		if calls[i], err = replaceArguments(item, call.Function.Arguments); err != nil {
			return nil, err
		}
	}
	return calls, nil
}

// replaceArguments keeps the order of all keys.
func replaceArguments(call value, arguments string) (chat.RawJSON, error) {
	return rewrite(call, "function", func(function value) (chat.RawJSON, error) {
		return rewrite(function, "arguments", func(value) (chat.RawJSON, error) { return chat.RawJSON(arguments), nil })
	})
}

// rewrite is an object with another value for one of its keys.
func rewrite(v value, key string, change func(value) (chat.RawJSON, error)) (chat.RawJSON, error) {
	fields, err := v.fields()
	if err != nil {
		return nil, err
	}
	var members []string
	for _, f := range fields {
		name := strings.TrimPrefix(f.path, v.path+".")
		if name == key {
			if f.raw, err = change(f); err != nil {
				return nil, err
			}
		}
		quoted, err := json.Marshal(name)
		if err != nil {
			return nil, err
		}
		members = append(members, string(quoted)+":"+string(f.raw))
	}
	return chat.RawJSON("{" + strings.Join(members, ",") + "}"), nil
}
