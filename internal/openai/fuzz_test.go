package openai

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"memra/internal/bounded"
)

// FuzzLine looks for lines of a batch that panic, that take more time or memory than they may, whose errors are no *Error, or longer than
// anybody reads.
func FuzzLine(f *testing.F) {
	for _, line := range []string{
		`{"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":["a","b"],"max_tokens":0,"echo":true,"logprobs":5,"stop":["x"]}}`,
		`{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"messages":[{"role":"user","content":[{"type":"text","text":"a"}]},
			{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":"{\"a\":1}"}}]}],"logit_bias":{"5":-1.5},"n":2,"stream_options":{"include_usage":true}}}`,
		`{"prompt":[[1,2],[3]],"seed":18446744073709551615,"temperature":1e-3,"user":null}`,
		`{"prompt":"a","suffix":"b","samplers":["top_k","temperature"],"dry_sequence_breakers":["\n"],"response_format":{"type":"text"}}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var l line
		var err error
		bounded.Read(t, len(text), func() { l, err = decodeLine(text, Defaults) })
		if err == nil {
			if l.request == nil || len(l.request.Asks) == 0 || l.request.BestOf < l.request.N || l.request.N < 1 {
				t.Errorf("%+v", l.request)
			}
			return
		}
		var told *Error
		if !errors.As(err, &told) || !utf8.ValidString(told.Message) || len(told.Message) > 2000 {
			t.Errorf("error %T %v", err, err)
		}
		if _, err := json.Marshal(ErrorBody{told}); err != nil {
			t.Error(err)
		}
	})
}

// A line that is nothing but one kind of crumb.
func TestLinesOfCrumbsTakeNoMoreThanTheirSize(t *testing.T) {
	const n = 1 << 20
	for _, text := range []string{
		`{"prompt":[` + strings.Repeat("1,", n) + "1]}",
		`{"prompt":[` + strings.Repeat("[],", n) + "[]]}",
		`{"prompt":"a","stop":[` + strings.Repeat(`"",`, n) + `""]}`,
		`{"messages":[` + strings.Repeat("{},", n) + "{}]}",
		`{"messages":[{"role":"user","content":[` + strings.Repeat(`{"type":"text"},`, n/4) + "{}]}]}",
		"{" + strings.Repeat(`"a":1,`, n) + `"a":1}`,
		strings.Repeat("[", n),
		`{"prompt":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + "}",
		`{"` + strings.Repeat("x", n) + `":1,"prompt":"a"}`,
	} {
		bounded.Read(t, len(text), func() { decodeLine([]byte(text), Defaults) })
	}
}
