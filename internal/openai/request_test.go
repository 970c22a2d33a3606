package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"memra"
	"memra/chat"
	"memra/sample"
)

func TestBodiesSayWhatIsAsked(t *testing.T) {
	one := Defaults(Text).Sampling
	everything := one
	everything.Temperature, everything.TopP, everything.TopK, everything.MinP, everything.Seed = 0.5, 0.9, 40, 0.05, 1<<64-1
	everything.PresencePenalty, everything.FrequencyPenalty, everything.Bias = -2, 0.5, map[int32]float32{7: 1.5, 9: -100}
	ordered := one
	ordered.Order = []sample.Filter{sample.ByTopK, sample.ByTemperature}
	ours := one
	ours.RepeatPenalty, ours.PenaltyLastN, ours.Typical, ours.TopNSigma = 1.1, 64, 0.5, 2
	ours.XTC = sample.XTC{Probability: 0.5, Threshold: 0.2}
	ours.DRY = sample.DRY{Multiplier: 0.8, Base: 2, AllowedLength: 3, LastN: 100}
	for _, c := range []struct {
		name string
		e    Endpoint
		body string
		want Request // of which only what follows is compared
	}{
		{"a text", Text, `{"prompt":"Hi"}`, Request{N: 1, BestOf: 1, Asks: []memra.Request{{Prompt: "Hi", MaxTokens: 16, Sampling: one}}}},
		{"an empty text", Text, `{"prompt":""}`, Request{N: 1, BestOf: 1, Asks: []memra.Request{{MaxTokens: 16, Sampling: one}}}},
		{"two texts", Text, `{"prompt":["a","b"],"max_tokens":3,"stop":"x"}`, Request{N: 1, BestOf: 1, Asks: []memra.Request{
			{Prompt: "a", MaxTokens: 3, Sampling: one, Stop: []string{"x"}}, {Prompt: "b", MaxTokens: 3, Sampling: one, Stop: []string{"x"}}}}},
		{"tokens", Text, `{"prompt":[5,6]}`, Request{N: 1, BestOf: 1, Asks: []memra.Request{{Tokens: []int32{5, 6}, MaxTokens: 16, Sampling: one}}}},
		{"two lists of tokens", Text, `{"prompt":[[5],[6,7]]}`, Request{N: 1, BestOf: 1, Asks: []memra.Request{
			{Tokens: []int32{5}, MaxTokens: 16, Sampling: one}, {Tokens: []int32{6, 7}, MaxTokens: 16, Sampling: one}}}},
		{"a gap", Text, `{"prompt":"a","suffix":"c"}`, Request{N: 1, BestOf: 1, Asks: []memra.Request{
			{Gap: &memra.Gap{Before: "a", After: "c"}, MaxTokens: 16, Sampling: one}}}},
		{"a text that is scored", Text, `{"prompt":"a","echo":true,"max_tokens":0,"logprobs":5}`, Request{N: 1, BestOf: 1, Echo: true, Nothing: true,
			Asks: []memra.Request{{Prompt: "a", Sampling: one, LogProbs: true, TopLogProbs: 5}}}},
		{"the best of five", Text, `{"prompt":"a","n":2,"best_of":5}`, Request{N: 2, BestOf: 5, Asks: []memra.Request{{Prompt: "a", MaxTokens: 16, Sampling: one}}}},
		{"a chat", Chat, `{"model":"m","messages":[{"role":"user","content":"Hi"}]}`, Request{Model: "m", N: 1, BestOf: 1, Asks: []memra.Request{
			{Messages: []chat.Message{{Role: "user", Content: "Hi"}}, Sampling: one}}}},
		{"a chat with everything", Chat, `{"messages":[{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}],
			"max_completion_tokens":7,"temperature":0.5,"top_p":0.9,"top_k":40,"min_p":0.05,"seed":18446744073709551615,"stop":["x","y"],"n":3,
			"logprobs":true,"top_logprobs":2,"stream":true,"stream_options":{"include_usage":true},"presence_penalty":-2,"frequency_penalty":0.5,"logit_bias":{"7":1.5,"9":-100},
			"response_format":{"type": "text"},"tools":[],"tool_choice":"auto","user":"me","metadata":{"a":"b"},"store":false}`,
			Request{N: 3, BestOf: 3, Stream: true, Usage: true, Asks: []memra.Request{{Messages: []chat.Message{{Role: "user", Content: "a\nb"}}, MaxTokens: 7,
				Sampling: everything, Stop: []string{"x", "y"}, LogProbs: true, TopLogProbs: 2}}}},
		{"what is not OpenAI's", Text, `{"prompt":"a","repetition_penalty":1.1,"repeat_last_n":64,"typical_p":0.5,"top_n_sigma":2,"xtc_probability":0.5,"xtc_threshold":0.2,
			"dry_multiplier":0.8,"dry_base":2,"dry_allowed_length":3,"dry_penalty_last_n":100}`, Request{N: 1, BestOf: 1, Asks: []memra.Request{{Prompt: "a", MaxTokens: 16, Sampling: ours}}}},
		{"what llama.cpp's server has", Text, `{"prompt":"a","dry_sequence_breakers":["\n","--"],"samplers":["penalties","top_k","temperature"],"post_sampling_probs":true}`,
			Request{N: 1, BestOf: 1, Asks: []memra.Request{{Prompt: "a", MaxTokens: 16, Sampling: ordered, Breakers: []string{"\n", "--"}, Filtered: true}}}},
		{"what is null is as good as absent", Chat, `{"messages":[{"role":"user","content":"Hi"}],"temperature":null,"stop":null,"tools":null,"reasoning_effort":null}`,
			Request{N: 1, BestOf: 1, Asks: []memra.Request{{Messages: []chat.Message{{Role: "user", Content: "Hi"}}, Sampling: one}}}},
		{"top_k of vLLM for all", Text, `{"prompt":"a","top_k":-1}`, Request{N: 1, BestOf: 1, Asks: []memra.Request{{Prompt: "a", MaxTokens: 16, Sampling: one}}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Decode(c.e, []byte(c.body), Defaults(c.e))
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprintf("%+v", asked(got)) != fmt.Sprintf("%+v", asked(&c.want)) {
				t.Errorf("got  %+v\nwant %+v", asked(got), asked(&c.want))
			}
		})
	}
}

// asked is what a request says, pointers followed.
func asked(r *Request) any {
	type ask struct {
		memra.Request
		Roles    []string
		Contents []any
		Gap      memra.Gap
	}
	var asks []ask
	for _, a := range r.Asks {
		var flat ask
		for _, m := range a.Messages {
			flat.Roles, flat.Contents = append(flat.Roles, m.Role), append(flat.Contents, m.Content)
		}
		if a.Gap != nil {
			flat.Gap = *a.Gap
		}
		a.Messages, a.Gap = nil, nil
		flat.Request = a
		asks = append(asks, flat)
	}
	return []any{r.Model, r.N, r.BestOf, r.Echo, r.Nothing, r.Stream, r.Usage, asks}
}

func TestWhatIsWrongWithABodyIsNamed(t *testing.T) {
	const hi = `"messages":[{"role":"user","content":"Hi"}]`
	for _, c := range []struct {
		name  string
		e     Endpoint
		body  string
		param string
		code  string
		want  string // words of the message, in order
	}{
		{"no JSON", Text, `{"prompt":"a"`, "", invalidValue, "no JSON byte 13"},
		{"more than JSON", Text, `{"prompt":"a"} x`, "", invalidValue, "no JSON"},
		{"no UTF-8", Text, "{\"prompt\":\"\xff\"}", "", invalidValue, "UTF-8"},
		{"no object", Text, `[1]`, "", invalidType, "array object"},
		{"no prompt", Text, `{}`, "prompt", missingParameter, "prompt text"},
		{"no messages", Chat, `{}`, "messages", missingParameter, "messages conversation"},
		{"an unknown parameter", Text, `{"prompt":"a","temprature":1}`, "temprature", unknownParameter, "temprature: /v1/completions temperature meant?"},
		{"another unknown parameter", Text, `{"prompt":"a","frobnicate":1}`, "frobnicate", unknownParameter, "frobnicate: no such parameter leave it out"},
		{"a parameter in capitals", Text, `{"prompt":"a","Temperature":1}`, "Temperature", unknownParameter, "temperature meant?"},
		{"a parameter of the other endpoint", Text, `{"prompt":"a","messages":[]}`, "messages", unknownParameter, "no such parameter"},
		{"a parameter twice", Text, `{"prompt":"a","n":1,"n":2}`, "n", invalidValue, "twice"},
		{"a temperature below zero", Text, `{"prompt":"a","temperature":-0.1}`, "temperature", invalidValue, "found -0.1 0 or more"},
		{"a temperature that is no number", Text, `{"prompt":"a","temperature":"hot"}`, "temperature", invalidType, `found "hot" number`},
		{"an endless temperature", Text, `{"prompt":"a","temperature":1e99}`, "temperature", invalidValue, "1e99"},
		{"top_p above one", Text, `{"prompt":"a","top_p":1.5}`, "top_p", invalidValue, "1.5 0 to 1"},
		{"a top_k that is no whole number", Text, `{"prompt":"a","top_k":1.5}`, "top_k", invalidValue, "1.5 whole"},
		{"a seed below zero", Text, `{"prompt":"a","seed":-1}`, "seed", invalidValue, "-1 0 to 18446744073709551615"},
		{"a seed of more than 64 bits", Text, `{"prompt":"a","seed":18446744073709551616}`, "seed", invalidValue, "18446744073709551616 to 18446744073709551615"},
		{"a seed that is no number", Text, `{"prompt":"a","seed":"1"}`, "seed", invalidType, "whole number"},
		{"a stop string of no length", Text, `{"prompt":"a","stop":["x",""]}`, "stop[1]", invalidValue, "empty"},
		{"a stage of sampling that there is not", Text, `{"prompt":"a","samplers":["top_k","mirostat"]}`, "samplers", invalidValue, "mirostat top_p"},
		{"a breaker of no length", Text, `{"prompt":"a","dry_sequence_breakers":[""]}`, "dry_sequence_breakers[0]", invalidValue, "empty"},
		{"a stop string that is none", Text, `{"prompt":"a","stop":[1]}`, "stop[0]", invalidType, "found 1 string"},
		{"stop strings that are none", Text, `{"prompt":"a","stop":7}`, "stop", invalidType, "found 7 string array"},
		{"too many stop strings", Text, `{"prompt":"a","stop":[` + strings.Repeat(`"x",`, 64) + `"x"]}`, "stop", invalidValue, "more than 64 texts"},
		{"a penalty beyond the API's", Text, `{"prompt":"a","presence_penalty":2.5}`, "presence_penalty", invalidValue, "2.5 -2 to 2"},
		{"a penalty that divides by nothing", Text, `{"prompt":"a","repetition_penalty":0}`, "repetition_penalty", invalidValue, "found 0 0.001"},
		{"a bias of no token", Text, `{"prompt":"a","logit_bias":{"x":1}}`, "logit_bias", invalidValue, `"x" number`},
		{"a bias beyond the API's", Text, `{"prompt":"a","logit_bias":{"5":101}}`, "logit_bias.5", invalidValue, "101 -100 to 100"},
		{"biases that are none", Text, `{"prompt":"a","logit_bias":[]}`, "logit_bias", invalidType, "object"},
		{"no answer", Text, `{"prompt":"a","n":0}`, "n", invalidValue, "found 0 1 to 128"},
		{"fewer best than answers", Text, `{"prompt":"a","n":3,"best_of":2}`, "best_of", invalidValue, "found 2 3"},
		{"no token and no echo", Text, `{"prompt":"a","max_tokens":0}`, "max_tokens", invalidValue, "found 0 echo"},
		{"no token of a chat", Chat, `{` + hi + `,"max_tokens":0}`, "max_tokens", invalidValue, "found 0 1 or more"},
		{"two limits", Chat, `{` + hi + `,"max_tokens":1,"max_completion_tokens":1}`, "max_completion_tokens", invalidValue, "one of the two"},
		{"likeliest tokens without log-probabilities", Chat, `{` + hi + `,"top_logprobs":3}`, "top_logprobs", invalidValue, "3 logprobs true"},
		{"too many likeliest tokens", Chat, `{` + hi + `,"logprobs":true,"top_logprobs":1025}`, "top_logprobs", invalidValue, "1025 1024"},
		{"log-probabilities of the other endpoint", Chat, `{` + hi + `,"logprobs":5}`, "logprobs", invalidType, "found 5 true or false"},
		{"an empty conversation", Chat, `{"messages":[]}`, "messages", invalidValue, "at least one"},
		{"a message without a role", Chat, `{"messages":[{"content":"a"}]}`, "messages[0].role", missingParameter, "user"},
		{"a message that is none", Chat, `{"messages":["a"]}`, "messages[0]", invalidType, "object"},
		{"a content that is none", Chat, `{"messages":[{"role":"user","content":7}]}`, "messages[0].content", invalidType, "7 string array"},
		{"an image", Chat, `{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{}}]}]}`, "messages[0].content[0].type", unsupportedParameter, `image_url "text"`},
		{"a part of no type", Chat, `{"messages":[{"role":"user","content":[{"text":"a"}]}]}`, "messages[0].content[0].type", missingParameter, "text"},
		{"tools", Chat, `{` + hi + `,"tools":[{"type":"function"}]}`, "tools", unsupportedParameter, "tools: not supported leave it out"},
		{"a format of the answer", Chat, `{` + hi + `,"response_format":{"type":"json_object"}}`, "response_format", unsupportedParameter, `not supported {"type":"text"}`},
		{"an effort", Chat, `{` + hi + `,"reasoning_effort":"high"}`, "reasoning_effort", unsupportedParameter, "not supported"},
		{"a prompt that is none", Text, `{"prompt":7}`, "prompt", invalidType, "7 string"},
		{"no prompt at all", Text, `{"prompt":[]}`, "prompt", invalidValue, "empty"},
		{"prompts of two kinds", Text, `{"prompt":["a",5]}`, "prompt[1]", invalidType, "5 string"},
		{"more prompts than there may be", Text, `{"prompt":[` + strings.Repeat(`"a",`, 2048) + `"a"]}`, "prompt", invalidValue, "more than 2048 prompts"},
		{"a parameter with a name of a megabyte", Text, `{"` + strings.Repeat("é", 1<<19) + `":1}`, strings.Repeat("é", 50) + "...", unknownParameter, "no such parameter"},
		{"a token that is no whole number", Text, `{"prompt":[5,1.5]}`, "prompt[1]", invalidValue, "1.5 whole"},
		{"a token that is a list", Text, `{"prompt":[5,[1]]}`, "prompt[1]", invalidType, "array whole"},
		{"a token below zero", Text, `{"prompt":[5,-1]}`, "prompt[1]", invalidValue, "-1"},
		{"a suffix after tokens", Text, `{"prompt":[5],"suffix":"a"}`, "suffix", invalidValue, "tokens"},
		{"an echo with a suffix", Text, `{"prompt":"a","suffix":"a","echo":true}`, "suffix", invalidValue, "echo"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Decode(c.e, []byte(c.body), Defaults(c.e))
			var told *Error
			if !errors.As(err, &told) {
				t.Fatalf("error %v, want an *Error", err)
			}
			if told.Status != 400 || told.Type != "invalid_request_error" || string(told.Param) != c.param || string(told.Code) != c.code {
				t.Errorf("error %+v, want one of %q with code %q", told, c.param, c.code)
			}
			rest := told.Message
			for word := range strings.FieldsSeq(c.want) {
				_, after, found := strings.Cut(rest, word)
				if !found {
					t.Fatalf("%q does not say %q in its place", told.Message, word)
				}
				rest = after
			}
		})
	}
}

// A client sends arguments of calls as a text; templates want the object, and the order of its keys is part of the prompt.
func TestArgumentsOfCallsBecomeObjects(t *testing.T) {
	r, err := Decode(Chat, []byte(`{"messages":[{"role":"assistant","content":null,"tool_calls":[
		{"id":"c1","type":"function","function":{"name":"f","arguments":"{\"b\": 1, \"a\": \"é\"}"}},
		{"id":"c2","type":"function","function":{"name":"g","arguments":"no object"}},
		{"id":"c3","type":"function","function":{"name":"h","arguments":{"z":1}}}]},
		{"role":"tool","tool_call_id":"c1","content":"7"}]}`), Defaults(Chat))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, call := range r.Asks[0].Messages[0].ToolCalls {
		got = append(got, string(call))
	}
	want := []string{
		`{"id":"c1","type":"function","function":{"name":"f","arguments":{"b": 1, "a": "é"}}}`,
		`{"id":"c2","type":"function","function":{"name":"g","arguments":"no object"}}`,
		`{"id":"c3","type":"function","function":{"name":"h","arguments":{"z":1}}}`,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestErrorsHaveTheShapeThatClientsRead(t *testing.T) {
	_, err := Decode(Text, []byte(`{"prompt":"a","seed":-1}`), Defaults(Text))
	got, _ := json.Marshal(ErrorBody{tell(err)})
	want := `{"error":{"message":"seed: found -1, want a whole number from 0 to 18446744073709551615","type":"invalid_request_error","param":"seed","code":"invalid_value"}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	got, _ = json.Marshal(ErrorBody{tell(errors.New("the device is gone"))})
	want = `{"error":{"message":"the device is gone","type":"server_error","param":null,"code":null}}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
