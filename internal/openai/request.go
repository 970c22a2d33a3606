package openai

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"

	"memra"
	"memra/chat"
	"memra/internal/nearest"
	"memra/sample"
)

// Endpoint is the path of a request.
type Endpoint string

// The endpoints that generate.
const (
	Chat Endpoint = "/v1/chat/completions"
	Text Endpoint = "/v1/completions"
)

// Request is a body, decoded.
type Request struct {
	Endpoint Endpoint
	Model    string          // that the body names; "" for none
	Asks     []memra.Request // one for each prompt
	N        int             // answers for each prompt
	BestOf   int             // answers to choose those from: N or more
	Echo     bool            // answers begin with the prompt
	Nothing  bool            // max_tokens is 0: nothing is generated, the prompt is echoed
	Stream   bool            // the answer is wanted as it comes
	Usage    bool            // and its usage at the end

	ask      memra.Request // all of Asks but the prompts
	messages []chat.Message
	prompts  []memra.Request // with nothing but Prompt or Tokens
	suffix   string
	top      int // top_logprobs
	limits   int // fields that say how long an answer may be
}

// Defaults is what a body means that says nothing but its prompt: OpenAI's temperature of 1, and for texts OpenAI's 16 tokens. Where XTC or DRY are
// turned on, they are as llama.cpp has them.
func Defaults(e Endpoint) memra.Request {
	r := memra.Request{Sampling: sample.Params{Temperature: 1, XTC: sample.XTC{Threshold: 0.1}, DRY: sample.DRY{Base: 1.75, AllowedLength: 2}}}
	if e == Text {
		r.MaxTokens = 16
	}
	return r
}

// Decode reads the body of a request; what it leaves out is as in defaults. An error is an *Error.
func Decode(e Endpoint, body []byte, defaults memra.Request) (*Request, error) {
	v, err := parse(body)
	if err != nil {
		return nil, err
	}
	fields, err := v.fields()
	if err != nil {
		return nil, err
	}
	return decode(e, fields, defaults)
}

func decode(e Endpoint, fields []value, defaults memra.Request) (*Request, error) {
	r := &Request{Endpoint: e, N: 1, ask: defaults}
	known := parameters(e)
	for _, f := range fields {
		read, ok := known[f.path]
		if !ok {
			return nil, unknown(e, f.path, known)
		}
		if err := read(r, f); err != nil {
			return nil, err
		}
	}
	if err := r.finish(); err != nil {
		return nil, err
	}
	return r, nil
}

// unknown is the error of a field that an endpoint does not have.
func unknown(e Endpoint, name string, known map[string]reader) error {
	names := make([]string, 0, len(known))
	for n := range known {
		names = append(names, n)
	}
	slices.Sort(names)
	if near := nearest.To(name[:min(len(name), 40)], names); near != "" {
		return refuse(name, unknownParameter, "%s has no such parameter; is %s meant?", e, near)
	}
	return refuse(name, unknownParameter, "%s has no such parameter; leave it out", e)
}

// finish checks what several fields say together.
func (r *Request) finish() error {
	switch {
	case r.limits > 1:
		return refuse("max_completion_tokens", invalidValue, "max_tokens is given as well, want one of the two")
	case r.top > 0 && !r.ask.LogProbs:
		return refuse("top_logprobs", invalidValue, "found %d without logprobs; set logprobs to true", r.top)
	case r.BestOf > 0 && r.BestOf < r.N:
		return refuse("best_of", invalidValue, "found %d, want n, which is %d, or more", r.BestOf, r.N)
	case r.Nothing && !r.Echo:
		return refuse("max_tokens", invalidValue, "found 0 without echo: nothing is asked for; want 1 or more")
	case r.Echo && r.suffix != "":
		return refuse("suffix", invalidValue, "echo is true as well, want one of the two")
	}
	if r.Endpoint == Chat {
		r.ask.TopLogProbs = r.top
		if r.messages == nil {
			return refuse("messages", missingParameter, "want the messages of the conversation")
		}
		r.prompts = []memra.Request{{Messages: r.messages}}
	} else if r.prompts == nil {
		return refuse("prompt", missingParameter, "want a text, or tokens, to continue")
	}
	r.BestOf = max(r.BestOf, r.N)
	for _, p := range r.prompts {
		ask := r.ask
		ask.Prompt, ask.Tokens, ask.Messages = p.Prompt, p.Tokens, p.Messages
		if r.suffix != "" {
			if p.Tokens != nil {
				return refuse("suffix", invalidValue, "the prompt is given as tokens, want a text before a suffix")
			}
			ask.Prompt, ask.Gap = "", &memra.Gap{Before: p.Prompt, After: r.suffix}
		}
		r.Asks = append(r.Asks, ask)
	}
	return nil
}

const (
	mostAnswers  = 128     // n and best_of, as OpenAI has it
	mostPrompts  = 2048    // of one body, as OpenAI has it
	mostTokens   = 1 << 24 // of one prompt
	mostMessages = 1 << 16 // of a conversation; parts of one, and calls
	mostStops    = 64      // OpenAI has 4
	mostBreakers = 32
	mostStages   = 16 // of sampling
)

// readPrompts reads a text, texts, tokens, or lists of tokens.
func readPrompts(r *Request, v value) error {
	if v.raw[0] == '"' {
		text, err := v.text()
		r.prompts = []memra.Request{{Prompt: text}}
		return err
	}
	if v.raw[0] != '[' {
		return v.want("a string, an array of strings, an array of tokens, or an array of those")
	}
	switch first := bytes.TrimSpace(v.raw[1:])[0]; {
	case first == ']':
		return refuse(v.path, invalidValue, "found an empty array, want a prompt")
	case first != '"' && first != '[':
		tokens, err := readTokens(v)
		r.prompts = []memra.Request{{Tokens: tokens}}
		return err
	default:
		return v.each("prompts", mostPrompts, func(i int, raw json.RawMessage) (err error) {
			var p memra.Request
			if item := v.at(i, raw); first == '"' {
				p.Prompt, err = item.text()
			} else {
				p.Tokens, err = readTokens(item)
			}
			r.prompts = append(r.prompts, p)
			return err
		})
	}
}

func readTokens(v value) ([]int32, error) {
	tokens := []int32{} // not nil: a prompt of no token is one
	err := v.each("tokens", mostTokens, func(i int, raw json.RawMessage) error {
		n, err := strconv.ParseUint(string(raw), 10, 31)
		if err != nil {
			_, err = v.at(i, raw).whole(0, math.MaxInt32) // which says what is wrong
			return err
		}
		tokens = append(tokens, int32(n))
		return nil
	})
	return tokens, err
}

// readStop reads a text or several.
func readStop(r *Request, v value) (err error) {
	r.ask.Stop, err = v.texts(mostStops)
	return err
}

// texts are a text that is not empty, or an array of at most so many.
func (v value) texts(most int) (list []string, err error) {
	items := []value{v}
	if v.raw[0] == '[' {
		if items, err = v.items("texts", most); err != nil {
			return nil, err
		}
		list = []string{}
	} else if v.raw[0] != '"' {
		return nil, v.want("a string or an array of strings")
	}
	for _, s := range items {
		text, err := s.text()
		if err != nil {
			return nil, err
		}
		if text == "" {
			return nil, refuse(s.path, invalidValue, "found an empty text, want at least one character; leave it out")
		}
		list = append(list, text)
	}
	return list, nil
}
