package openai

import (
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"memra"
	"memra/gguf"
	"memra/internal/golden"
)

// tinyChat is a tiny model with a template that writes each message as "role:content;".
func tinyChat(t *testing.T, o memra.Options) *memra.Model {
	t.Helper()
	g, err := golden.LoadTiny("../../model/testdata/tiny/llama-plain")
	if err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse("tiny.gguf", g.GGUF)
	if err != nil {
		t.Fatal(err)
	}
	f.Meta.Set("tokenizer.chat_template", "{% for m in messages %}{{ m.role }}:{{ m.content }};{% endfor %}>")
	path := filepath.Join(t.TempDir(), "tiny.gguf")
	if err := gguf.Write(path, f.Meta, f.Tensors); err != nil {
		t.Fatal(err)
	}
	o.Device = "cpu"
	m, err := memra.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// complete answers a body, as JSON that was written and read again.
func complete(t *testing.T, m *memra.Model, e Endpoint, body string) map[string]any {
	t.Helper()
	r, err := Decode(e, []byte(body), Defaults(e))
	if err != nil {
		t.Fatal(err)
	}
	c, err := r.Answer(t.Context(), m, "7")
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	return got
}

// at follows a path of keys and indices.
func at(v any, path ...any) any {
	for _, p := range path {
		switch p := p.(type) {
		case string:
			v = v.(map[string]any)[p]
		case int:
			v = v.([]any)[p]
		}
	}
	return v
}

// generated is the answer to a request without this package.
func generated(t *testing.T, m *memra.Model, r memra.Request) (text string, tokens []memra.Token) {
	t.Helper()
	for c, err := range m.Generate(t.Context(), r) {
		if err != nil {
			t.Fatal(err)
		}
		text += c.Text
		if c.Token != nil {
			tokens = append(tokens, *c.Token)
		}
	}
	return text, tokens
}

func TestAChatsAnswerIsWhatTheModelGenerates(t *testing.T) {
	m := tinyChat(t, memra.Options{})
	got := complete(t, m, Chat, `{"messages":[{"role":"user","content":"Then the rain"}],"max_tokens":9,"seed":4,"logprobs":true,"top_logprobs":3}`)
	ask := Defaults(Chat)
	ask.Prompt, ask.MaxTokens, ask.LogProbs, ask.TopLogProbs, ask.Sampling.Seed = "user:Then the rain;>", 9, true, 3, 4
	text, tokens := generated(t, m, ask)
	if at(got, "choices", 0, "message", "content") != text || at(got, "choices", 0, "message", "role") != "assistant" {
		t.Errorf("the message is %v, want %q", at(got, "choices", 0, "message"), text)
	}
	content := at(got, "choices", 0, "logprobs", "content").([]any)
	if len(content) != len(tokens) {
		t.Fatalf("%d tokens, want %d", len(content), len(tokens))
	}
	for i, token := range tokens {
		if p := at(content[i], "logprob").(float64); math.Float32bits(float32(p)) != math.Float32bits(token.LogProb) {
			t.Errorf("token %d has %v, want %v", i, p, token.LogProb)
		}
		var bytes []byte
		for _, b := range at(content[i], "bytes").([]any) {
			bytes = append(bytes, byte(b.(float64)))
		}
		if string(bytes) != string(m.Piece(token.ID)) {
			t.Errorf("token %d has bytes %q, want %q", i, bytes, m.Piece(token.ID))
		}
		for j, o := range token.Top {
			if p := at(content[i], "top_logprobs", j, "logprob").(float64); float32(p) != o.LogProb {
				t.Errorf("token %d, place %d: %v, want %v", i, j, p, o.LogProb)
			}
		}
	}
	prompt := len(m.Tokenize("user:Then the rain;>"))
	if u := at(got, "usage"); fmt.Sprint(u) != fmt.Sprintf("map[completion_tokens:%d prompt_tokens:%d prompt_tokens_details:map[cached_tokens:0] total_tokens:%d]", len(tokens), prompt, prompt+len(tokens)) {
		t.Errorf("usage %v of a prompt of %d tokens and an answer of %d", u, prompt, len(tokens))
	}
	if got["id"] != "chatcmpl-7" || got["object"] != "chat.completion" || got["model"] != "tiny.gguf" || got["system_fingerprint"] != "memra-cpu" {
		t.Errorf("got %v", got)
	}
}

// Answer i to a prompt is what a request with seed+i gets.
func TestSeveralAnswersAreThoseOfSeedsThatCountUp(t *testing.T) {
	m := tinyChat(t, memra.Options{})
	got := complete(t, m, Text, `{"prompt":["Then","The sea"],"max_tokens":6,"seed":40,"n":3,"temperature":1.5}`)
	ask := Defaults(Text)
	ask.MaxTokens, ask.Sampling.Temperature = 6, 1.5
	for i := range 6 {
		ask.Prompt, ask.Sampling.Seed = []string{"Then", "The sea"}[i/3], 40+uint64(i%3)
		want, _ := generated(t, m, ask)
		if at(got, "choices", i, "text") != want || at(got, "choices", i, "index") != float64(i) {
			t.Errorf("choice %d is %v, want %q", i, at(got, "choices", i), want)
		}
	}
}

func TestTheBestAnswersComeFirst(t *testing.T) {
	m := tinyChat(t, memra.Options{})
	got := complete(t, m, Text, `{"prompt":"Then","max_tokens":6,"n":2,"best_of":5,"temperature":1.5}`)
	type scored struct {
		text string
		mean float64
	}
	var all []scored
	ask := Defaults(Text)
	ask.Prompt, ask.MaxTokens, ask.Sampling.Temperature, ask.LogProbs = "Then", 6, 1.5, true
	for i := range 5 {
		ask.Sampling.Seed = uint64(i)
		text, tokens := generated(t, m, ask)
		sum := 0.0
		for _, token := range tokens {
			sum += float64(token.LogProb)
		}
		all = append(all, scored{text, sum / float64(len(tokens))})
	}
	slices.SortStableFunc(all, func(a, b scored) int { return int(math.Copysign(1, b.mean-a.mean)) })
	choices := at(got, "choices").([]any)
	if len(choices) != 2 || at(choices, 0, "text") != all[0].text || at(choices, 1, "text") != all[1].text || at(choices, 0, "logprobs") != nil {
		t.Errorf("got %v, want the first two of %v, without log-probabilities", choices, all)
	}
	if n := at(got, "usage", "completion_tokens").(float64); n < 5 {
		t.Errorf("%v tokens were generated, want those of all five answers", n)
	}
}

// An evaluation harness asks for a text's own log-probabilities, and perhaps for a token more.
func TestAnEchoScoresThePrompt(t *testing.T) {
	m := tinyChat(t, memra.Options{})
	for _, limit := range []int{0, 2} {
		got := complete(t, m, Text, fmt.Sprintf(`{"prompt":"Then the räin","max_tokens":%d,"echo":true,"logprobs":2,"temperature":0}`, limit))
		scored, err := m.Score(t.Context(), m.Tokenize("Then the räin"), 2)
		if err != nil {
			t.Fatal(err)
		}
		l := at(got, "choices", 0, "logprobs")
		if n := len(at(l, "tokens").([]any)); n != len(scored)+limit {
			t.Fatalf("%d tokens, want %d", n, len(scored)+limit)
		}
		for i, token := range scored {
			p := at(l, "token_logprobs", i)
			if i == 0 {
				if p != nil || at(l, "top_logprobs", 0) != nil {
					t.Errorf("the first token, which follows nothing, has %v and %v", p, at(l, "top_logprobs", 0))
				}
				continue
			}
			if float32(p.(float64)) != token.LogProb || len(at(l, "top_logprobs", i).(map[string]any)) == 0 {
				t.Errorf("token %d has %v, want %v", i, p, token.LogProb)
			}
		}
		text := at(got, "choices", 0, "text").(string)
		if !strings.HasPrefix(text, "Then the räin") {
			t.Errorf("the text is %q", text)
		}
		// Offsets count characters.
		characters := []rune(text)
		for i, offset := range at(l, "text_offset").([]any) {
			if token := at(l, "tokens", i).(string); !strings.Contains(token, "\uFFFD") && !strings.HasPrefix(string(characters[int(offset.(float64)):]), token) {
				t.Errorf("token %d, %q, is not at character %v of %q", i, token, offset, text)
			}
		}
		if n := at(got, "usage", "completion_tokens"); n != float64(limit) {
			t.Errorf("%v tokens generated, want %d", n, limit)
		}
	}
}

func TestLinesOfABatchGetAnswersOrErrors(t *testing.T) {
	b := &Batch{Model: tinyChat(t, memra.Options{Context: 64}), Defaults: Defaults}
	for _, c := range []struct {
		name, line string
		want       string // words of the answer, in order
	}{
		{"a text", `{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"Hi","max_tokens":2}}`, `"custom_id":"a" "status_code":200 "request_id":"req_7" "text_completion" "error":null`},
		{"a chat", `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":"Hi"}],"max_tokens":2}}`, `"status_code":200 "assistant" "error":null`},
		{"a text alone", `{"prompt":"Hi","max_tokens":2}`, `"custom_id":null "status_code":200 "text_completion"`},
		{"a text alone with a name", `{"prompt":"Hi","custom_id":"b","max_tokens":2}`, `"custom_id":"b" "status_code":200`},
		{"messages alone", `{"messages":[{"role":"user","content":"Hi"}],"max_tokens":2}`, `"status_code":200 "chat.completion"`},

		{"no JSON", `{"prompt"`, `"custom_id":null,"response":null,"error":{"code":"invalid_line" no JSON`},
		{"no object", `7`, `"response":null "invalid_line" object`},
		{"nothing asked for", `{"custom_id":"a"}`, `"custom_id":"a" "invalid_line" no request prompt`},
		{"no name", `{"method":"POST","url":"/v1/completions","body":{"prompt":"Hi"}}`, `"invalid_line" custom_id`},
		{"a name that is none", `{"custom_id":7,"prompt":"Hi"}`, `"invalid_line" custom_id found 7`},
		{"no url", `{"custom_id":"a","method":"POST","body":{"prompt":"Hi"}}`, `"custom_id":"a" "invalid_line" url`},
		{"another url", `{"custom_id":"a","method":"POST","url":"/v1/embeddings","body":{}}`, `"invalid_line" /v1/embeddings /v1/chat/completions`},
		{"another method", `{"custom_id":"a","method":"GET","url":"/v1/completions","body":{}}`, `"invalid_line" method GET POST`},
		{"no body", `{"custom_id":"a","method":"POST","url":"/v1/completions"}`, `"invalid_line" body`},
		{"an unknown field", `{"custom_id":"a","method":"POST","url":"/v1/completions","body":{},"x":1}`, `"invalid_line" x`},

		{"a wrong body", `{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"Hi","seed":-1}}`, `"custom_id":"a" "status_code":400 "invalid_request_error","param":"seed" "error":null`},
		{"a body that streams", `{"prompt":"Hi","stream":true}`, `"status_code":400 "param":"stream"`},
		{"a prompt longer than the context", `{"prompt":"` + strings.Repeat("x", 100) + `"}`, `"status_code":400 100 64 "code":"context_length_exceeded"`},
		{"a prompt of no token", `{"prompt":[]}`, `"status_code":400 "param":"prompt"`},
		{"a token beyond the vocabulary", `{"prompt":[5,99999]}`, `"status_code":400 token 99999 at place 1 `},
		{"a gap for a model that fills none", `{"prompt":"a","suffix":"b"}`, `"status_code":400 filling in the middle`},
		{"a text to score longer than the context", `{"prompt":"` + strings.Repeat("x", 100) + `","echo":true,"max_tokens":0,"logprobs":1}`, `"status_code":400 100 64`},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, err := b.Answer(t.Context(), "7", []byte(c.line))
			if err != nil {
				t.Fatal(err)
			}
			got, err := json.Marshal(a)
			if err != nil || !strings.HasPrefix(string(got), `{"id":"batch_req_7",`) {
				t.Fatalf("%s, %v", got, err)
			}
			rest := string(got)
			for word := range strings.FieldsSeq(c.want) {
				_, after, found := strings.Cut(rest, word)
				if !found {
					t.Fatalf("%s does not say %s in its place", got, word)
				}
				rest = after
			}
		})
	}
}

func TestWhatConcernsEveryLineIsAnError(t *testing.T) {
	m := tinyChat(t, memra.Options{})
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	b := &Batch{Model: m, Defaults: Defaults}
	if a, err := b.Answer(t.Context(), "7", []byte(`{"prompt":"Hi"}`)); err == nil {
		t.Errorf("a closed model answered %v", a)
	}
}
