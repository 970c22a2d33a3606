package openai

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"memra/sample"
)

// reader puts a field into a request.
type reader func(r *Request, v value) error

// parameters are the fields of an endpoint's body.
func parameters(e Endpoint) map[string]reader {
	if e == Chat {
		return chatParameters
	}
	return textParameters
}

var common = map[string]reader{
	"model": func(r *Request, v value) (err error) {
		r.Model, err = v.text()
		return err
	},
	"temperature": number(0, float32(math.Inf(1)), func(r *Request) *float32 { return &r.ask.Sampling.Temperature }),
	"top_p":       number(0, 1, func(r *Request) *float32 { return &r.ask.Sampling.TopP }),
	"min_p":       number(0, 1, func(r *Request) *float32 { return &r.ask.Sampling.MinP }),
	"top_k":       last(func(r *Request) *int { return &r.ask.Sampling.TopK }),
	"seed":        readSeed,
	"stop":        readStop,
	"n":           whole(1, mostAnswers, func(r *Request) *int { return &r.N }),
	"stream":      flag(func(r *Request) *bool { return &r.Stream }),
	"stream_options": func(r *Request, v value) error {
		return object(v, map[string]func(value) error{
			"include_usage":       func(v value) (err error) { r.Usage, err = v.boolean(); return err },
			"include_obfuscation": only("false"),
		})
	},

	"logit_bias":         readBias,
	"presence_penalty":   number(-2, 2, func(r *Request) *float32 { return &r.ask.Sampling.PresencePenalty }),
	"frequency_penalty":  number(-2, 2, func(r *Request) *float32 { return &r.ask.Sampling.FrequencyPenalty }),
	"repetition_penalty": number(0.001, 1000, func(r *Request) *float32 { return &r.ask.Sampling.RepeatPenalty }),
	"repeat_last_n":      last(func(r *Request) *int { return &r.ask.Sampling.PenaltyLastN }),
	"typical_p":          number(0, 1, func(r *Request) *float32 { return &r.ask.Sampling.Typical }),
	"top_n_sigma":        number(0, 100, func(r *Request) *float32 { return &r.ask.Sampling.TopNSigma }),
	"xtc_probability":    number(0, 1, func(r *Request) *float32 { return &r.ask.Sampling.XTC.Probability }),
	"xtc_threshold":      number(0.001, 1, func(r *Request) *float32 { return &r.ask.Sampling.XTC.Threshold }),
	"dry_multiplier":     number(0, 100, func(r *Request) *float32 { return &r.ask.Sampling.DRY.Multiplier }),
	"dry_base":           number(1, 100, func(r *Request) *float32 { return &r.ask.Sampling.DRY.Base }),
	"dry_allowed_length": whole(1, math.MaxInt32, func(r *Request) *int { return &r.ask.Sampling.DRY.AllowedLength }),
	"dry_penalty_last_n": last(func(r *Request) *int { return &r.ask.Sampling.DRY.LastN }),
	"dry_sequence_breakers": func(r *Request, v value) (err error) {
		r.ask.Breakers, err = v.texts(mostBreakers)
		return err
	},
	"samplers":            readOrder,
	"post_sampling_probs": flag(func(r *Request) *bool { return &r.ask.Filtered }),

	// Who asks and what for: no answer depends on it.
	"user":                   ignored,
	"metadata":               ignored,
	"safety_identifier":      ignored,
	"prompt_cache_key":       ignored,
	"prompt_cache_retention": ignored,
	"service_tier":           neutral(`"auto"`, `"default"`),
	"store":                  neutral("false"),
}

var chatParameters = merge(common, map[string]reader{
	"messages": readMessages,
	"max_tokens": func(r *Request, v value) error {
		return r.limit(v, 1)
	},
	"max_completion_tokens": func(r *Request, v value) error {
		return r.limit(v, 1)
	},
	"logprobs":            flag(func(r *Request) *bool { return &r.ask.LogProbs }),
	"top_logprobs":        whole(0, sample.MaxTop, func(r *Request) *int { return &r.top }),
	"response_format":     neutral(`{"type":"text"}`),
	"tools":               neutral("[]"),
	"tool_choice":         neutral(`"none"`, `"auto"`),
	"functions":           neutral("[]"),
	"function_call":       neutral(`"none"`, `"auto"`),
	"modalities":          neutral(`["text"]`),
	"parallel_tool_calls": neutral("true", "false"), // there are no tools
	"reasoning_effort":    neutral(),
	"verbosity":           neutral(),
	"audio":               neutral(),
	"prediction":          neutral(),
	"web_search_options":  neutral(),
})

var textParameters = merge(common, map[string]reader{
	"prompt": readPrompts,
	"max_tokens": func(r *Request, v value) error {
		return r.limit(v, 0)
	},
	"logprobs": func(r *Request, v value) (err error) {
		r.ask.LogProbs = true
		r.ask.TopLogProbs, err = v.whole(0, sample.MaxTop)
		return err
	},
	"suffix": func(r *Request, v value) (err error) {
		r.suffix, err = v.text()
		return err
	},
	"echo":    flag(func(r *Request) *bool { return &r.Echo }),
	"best_of": whole(1, mostAnswers, func(r *Request) *int { return &r.BestOf }),
})

func merge(tables ...map[string]reader) map[string]reader {
	all := map[string]reader{}
	for _, table := range tables {
		for name, read := range table {
			all[name] = read
		}
	}
	return all
}

func number(least, most float32, to func(*Request) *float32) reader {
	return func(r *Request, v value) (err error) {
		*to(r), err = v.number(least, most)
		return err
	}
}

func whole(least, most int, to func(*Request) *int) reader {
	return func(r *Request, v value) (err error) {
		*to(r), err = v.whole(least, most)
		return err
	}
}

func flag(to func(*Request) *bool) reader {
	return func(r *Request, v value) (err error) {
		*to(r), err = v.boolean()
		return err
	}
}

// ignored is a field of any value that shapes no answer.
func ignored(*Request, value) error { return nil }

// neutral is a field that the module does not have: it may only say what is so without it.
func neutral(values ...string) reader {
	check := only(values...)
	return func(_ *Request, v value) error { return check(v) }
}

func only(values ...string) func(value) error {
	return func(v value) error {
		if len(values) > 0 && v.kind() == "a number" {
			if x, err := strconv.ParseFloat(string(v.raw), 64); err == nil && slices.Contains(values, strconv.FormatFloat(x, 'g', -1, 64)) {
				return nil
			}
		}
		var compact bytes.Buffer
		if err := json.Compact(&compact, v.raw); err != nil {
			return err
		}
		switch {
		case slices.Contains(values, compact.String()):
			return nil
		case len(values) == 0:
			return refuse(v.path, unsupportedParameter, "not supported; leave it out")
		}
		return refuse(v.path, unsupportedParameter, "found %s, which is not supported; want %s, or leave it out", v.found(), strings.Join(values, " or "))
	}
}

// object reads the fields of an object that has no others.
func object(v value, known map[string]func(value) error) error {
	fields, err := v.fields()
	if err != nil {
		return err
	}
	for _, f := range fields {
		read, ok := known[strings.TrimPrefix(f.path, v.path+".")]
		if !ok {
			return refuse(f.path, unknownParameter, "no such field; leave it out")
		}
		if err := read(f); err != nil {
			return err
		}
	}
	return nil
}

// limit reads the most tokens of an answer.
func (r *Request) limit(v value, least int) (err error) {
	r.ask.MaxTokens, err = v.whole(least, math.MaxInt)
	r.limits++
	r.Nothing = r.ask.MaxTokens == 0
	return err
}

// last is how many of the last tokens are looked at, where -1 is all, as llama.cpp has it; so is vLLM's top_k.
func last(to func(*Request) *int) reader {
	return func(r *Request, v value) error {
		n, err := v.whole(-1, math.MaxInt32)
		*to(r) = max(0, n)
		return err
	}
}

// readBias reads an object of tokens.
func readBias(r *Request, v value) error {
	fields, err := v.fields()
	if err != nil {
		return err
	}
	r.ask.Sampling.Bias = map[int32]float32{}
	for _, f := range fields {
		name := strings.TrimPrefix(f.path, v.path+".")
		token, err := strconv.ParseUint(name, 10, 31)
		if err != nil {
			return refuse(v.path, invalidValue, "found the key %q, want a token's number", name)
		}
		if r.ask.Sampling.Bias[int32(token)], err = f.number(-100, 100); err != nil {
			return err
		}
	}
	return nil
}

// readOrder reads names of the stages of sampling.
func readOrder(r *Request, v value) error {
	names, err := v.texts(mostStages)
	if err != nil {
		return err
	}
	if r.ask.Sampling.Order, err = sample.ParseOrder(strings.Join(names, ";")); err != nil {
		return refuse(v.path, invalidValue, "%v", err)
	}
	return nil
}

// readSeed reads any number of 64 bits without a sign.
func readSeed(r *Request, v value) error {
	if v.kind() != "a number" {
		return v.want("a whole number")
	}
	seed, err := strconv.ParseUint(string(v.raw), 10, 64)
	if err != nil {
		return refuse(v.path, invalidValue, "found %s, want a whole number from 0 to %d", v.found(), uint64(math.MaxUint64))
	}
	r.ask.Sampling.Seed = seed
	return nil
}
