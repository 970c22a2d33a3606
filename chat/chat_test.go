package chat

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func parse(t *testing.T, source string) *Template {
	t.Helper()
	parsed, err := Parse(source)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

func TestAMissingTemplateIsItsOwnError(t *testing.T) {
	if _, err := Parse(""); !errors.Is(err, ErrNoTemplate) {
		t.Errorf("error %v, want ErrNoTemplate", err)
	}
}

func TestSyntaxErrorsNameTheTemplatesLine(t *testing.T) {
	_, err := Parse("{{ a }}\n{% for %}")
	var failure *TemplateError
	if !errors.As(err, &failure) || failure.Line != 2 || err.Error() != "chat: template: line 2: expected a name, found '%}'" {
		t.Errorf("error %v", err)
	}
}

func TestInputsThatCannotBeRenderedAreRefused(t *testing.T) {
	plain := parse(t, "{{ messages[0].content }}")
	blind := parse(t, "no messages here")
	hi := []Message{{Role: "user", Content: "Hi"}}
	for _, c := range []struct {
		name     string
		template *Template
		in       Input
		want     string
	}{
		{"no messages", plain, Input{}, "the conversation is empty"},
		{"two ends at once", plain, Input{Messages: hi, AddGenerationPrompt: true, ContinueFinalMessage: true}, "exclude each other"},
		{"nothing to go on with", plain, Input{Messages: []Message{{Role: "user"}}, ContinueFinalMessage: true}, "message 0 has no text"},
		{"a template that reads no content", blind, Input{Messages: hi, ContinueFinalMessage: true}, "does not read a message's content"},
		{"a template that drops the message", parse(t, "{# content #}"), Input{Messages: hi, ContinueFinalMessage: true}, "does not write the last message"},
		{"a tool that is no JSON", plain, Input{Messages: hi, Tools: []RawJSON{RawJSON("{}"), RawJSON("{")}}, "tool 1"},
		{"content that is no JSON", plain, Input{Messages: []Message{{Role: "user", Content: RawJSON("[")}}}, "message 0: content"},
		{"a variable that is no JSON", plain, Input{Messages: hi, Vars: map[string]any{"f": func() {}}}, "template variable f"},
		{"a template that fails", parse(t, "\n{{ messages.x.y }}"), Input{Messages: hi}, "chat: template: line 2: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := c.template.Render(c.in); err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "chat: ") {
				t.Errorf("error %v, want one about %q", err, c.want)
			}
		})
	}
}

func TestVariablesAreThoseOfTransformers(t *testing.T) {
	names := parse(t, "{{ bos_token is defined }} {{ eos_token }} {{ tools is none }} {{ documents is none }} {{ add_generation_prompt }} {{ level }} {{ strftime_now('%H') }}")
	got, err := names.Render(Input{
		Messages: []Message{{Role: "user", Content: "Hi"}}, EOS: "</s>", Vars: map[string]any{"level": []string{"a", "b"}},
		Now: time.Date(2025, 1, 2, 3, 4, 5, 0, time.UTC),
	})
	if want := "False </s> True True False ['a', 'b'] 03"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}

func TestMessagesKeepUnknownFieldsAndOrder(t *testing.T) {
	const text = `{"content":[{"type":"text","text":"a"},{"b":1,"a":2}],"weight":{"z":1.0,"a":2},"role":"user","name":"Ann"}`
	var m Message
	if err := json.Unmarshal([]byte(strings.Replace(text, `"role"`, `"nothing":null,"role"`, 1)), &m); err != nil {
		t.Fatal(err)
	}
	if back, err := json.Marshal(m); err != nil || string(back) != text {
		t.Errorf("got %s, %v, want %s", back, err, text)
	}
	got, err := parse(t, "{{ messages[0]|tojson(separators=(',', ':')) }}").Render(Input{Messages: []Message{m}})
	if err != nil || got != text {
		t.Errorf("got %s, %v, want %s", got, err, text)
	}
	for _, bad := range []string{`[]`, `{"role":1}`, `{"role":"a","role":"b"}`, `{"tool_calls":"x"}`} {
		if err := json.Unmarshal([]byte(bad), &m); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

func TestMessagesMadeInGoHaveTheFieldsThatAreSet(t *testing.T) {
	m := Message{
		Role: "assistant", Content: "", ReasoningContent: "hm", ToolCalls: []RawJSON{RawJSON(`{"id":"1"}`)},
		Extra: []Field{{"weight", 2}, {"gone", nil}},
	}
	const want = `{"role":"assistant","content":"","reasoning_content":"hm","tool_calls":[{"id":"1"}],"weight":2}`
	if got, err := json.Marshal(m); err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	got, err := parse(t, "{{ messages[0].thinking }}").Render(Input{Messages: []Message{m}})
	if err != nil || got != "hm" {
		t.Errorf("reasoning under the name thinking: %q, %v", got, err)
	}
}

func TestAContinuedListOfPartsEndsInItsLastText(t *testing.T) {
	parts := parse(t, "{% for p in messages[-1].content %}[{{ p.text or p.type }}]{% endfor %}")
	content := []map[string]string{{"type": "text", "text": "a"}, {"type": "text", "text": "b "}, {"type": "image"}}
	got, err := parts.Render(Input{Messages: []Message{{Role: "assistant", Content: content}}, ContinueFinalMessage: true})
	if err != nil || got != "[a][b " {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestInvalidUTF8IsReplaced(t *testing.T) {
	got, err := parse(t, "\xff{{ messages[0].content|tojson }}").Render(Input{Messages: []Message{{Role: "user", Content: "a\xffb"}}})
	if err != nil || got != "\uFFFD\"a\uFFFDb\"" {
		t.Errorf("got %q, %v", got, err)
	}
}
