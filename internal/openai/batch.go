package openai

import (
	"context"
	"net/http"
	"slices"

	"memra"
)

// BatchAnswer is a line of a batch's output. Where an endpoint answered or refused, it has the response; where a line is no request, or
// the model failed, the error.
type BatchAnswer struct {
	ID       string         `json:"id"`
	CustomID orNull         `json:"custom_id"`
	Response *BatchResponse `json:"response"`
	Error    *BatchError    `json:"error"`
}

// BatchResponse is what HTTP would have answered.
type BatchResponse struct {
	Status    int    `json:"status_code"`
	RequestID string `json:"request_id"`
	Body      any    `json:"body"` // *Completion or ErrorBody
}

// ErrorBody is the body of a response that refuses.
type ErrorBody struct {
	Error *Error `json:"error"`
}

// BatchError says why there is no response.
type BatchError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Batch answers lines of a batch file.
type Batch struct {
	Model    *memra.Model
	Defaults func(Endpoint) memra.Request // what bodies leave out
}

// Answer answers a line: a batch request as the API has it, {"custom_id":..,"method":"POST","url":..,"body":{..}}, or a plain body, beside whose
// fields there may be a custom_id, {"prompt":..} or {"messages":..}. id tells the answer from others. What is wrong with the line is part of the
// answer; an error is one that concerns every line: ctx's, or the device's.
func (b *Batch) Answer(ctx context.Context, id string, line []byte) (BatchAnswer, error) {
	a := BatchAnswer{ID: "batch_req_" + id}
	l, err := decodeLine(line, b.Defaults)
	a.CustomID = l.customID
	if err != nil {
		a.refuse(id, l.endpoint, err)
		return a, nil
	}
	completion, err := l.request.Answer(ctx, b.Model, id)
	switch {
	case err == nil:
		a.Response = &BatchResponse{http.StatusOK, "req_" + id, completion}
	case everybodys(ctx, b.Model, err):
		return a, err
	default:
		a.refuse(id, l.endpoint, err)
	}
	return a, nil
}

// Completion is the answer proper; nil where there is none.
func (a *BatchAnswer) Completion() *Completion {
	if a.Response == nil {
		return nil
	}
	c, _ := a.Response.Body.(*Completion)
	return c
}

// Refuse is the answer to a line that cannot even be read.
func (b *Batch) Refuse(id string, err error) BatchAnswer {
	a := BatchAnswer{ID: "batch_req_" + id}
	a.refuse(id, "", err)
	return a
}

func (a *BatchAnswer) refuse(id string, e Endpoint, err error) {
	told := tell(err)
	if e == "" {
		a.Error = &BatchError{"invalid_line", told.Message}
		return
	}
	a.Response = &BatchResponse{told.Status, "req_" + id, ErrorBody{told}}
}

// DecodeLine reads a line as Batch.Answer does.
func DecodeLine(text []byte, defaults func(Endpoint) memra.Request) (*Request, error) {
	l, err := decodeLine(text, defaults)
	return l.request, err
}

// line is a line of a batch file, decoded as far as it could be.
type line struct {
	customID orNull
	endpoint Endpoint // "" where the line names none
	request  *Request
}

func decodeLine(text []byte, defaults func(Endpoint) memra.Request) (l line, err error) {
	v, err := parse(text)
	if err != nil {
		return l, err
	}
	fields, err := v.fields()
	if err != nil {
		return l, err
	}
	own := map[string]value{} // fields of the line
	var rest []value          // fields of a plain body
	for _, f := range fields {
		switch f.path {
		case "custom_id", "method", "url", "body":
			own[f.path] = f
		default:
			rest = append(rest, f)
		}
	}
	if id, ok := own["custom_id"]; ok {
		text, err := id.text()
		if err != nil {
			return l, err
		}
		l.customID = orNull(text)
		delete(own, "custom_id")
	}
	body := rest
	if len(own) == 0 {
		l.endpoint = plain(rest)
	} else if l.endpoint, body, err = enveloped(l.customID, own, rest); err != nil {
		return l, err
	}
	if l.endpoint == "" {
		return l, refuse("", missingParameter, "no request: want custom_id, method, url and body, or a prompt, or messages")
	}
	if l.request, err = decode(l.endpoint, body, defaults(l.endpoint)); err == nil && l.request.Stream {
		err = refuse("stream", unsupportedParameter, "found true, which is not supported in a batch; leave it out")
	}
	return l, err
}

// plain is the endpoint that a body is for which stands alone; "" if it is for none.
func plain(fields []value) Endpoint {
	has := func(name string) bool {
		return slices.ContainsFunc(fields, func(f value) bool { return f.path == name })
	}
	switch {
	case has("messages"):
		return Chat
	case has("prompt"):
		return Text
	}
	return ""
}

// enveloped is the endpoint and the body of a batch request.
func enveloped(id orNull, own map[string]value, rest []value) (Endpoint, []value, error) {
	if len(rest) > 0 {
		return "", nil, refuse(rest[0].path, unknownParameter, "a batch request has custom_id, method, url and body, and no such field")
	}
	if id == "" {
		return "", nil, refuse("custom_id", missingParameter, "want a text that tells this request from others")
	}
	for _, name := range []string{"method", "url", "body"} {
		if _, ok := own[name]; !ok {
			return "", nil, refuse(name, missingParameter, "a batch request has one")
		}
	}
	if m := own["method"]; string(m.raw) != `"POST"` {
		return "", nil, refuse("method", invalidValue, "found %s, want \"POST\"", m.found())
	}
	url, err := own["url"].text()
	if err != nil {
		return "", nil, err
	}
	e := Endpoint(url)
	if e != Chat && e != Text {
		return "", nil, refuse("url", invalidValue, "found %q, want %q or %q", url, Chat, Text)
	}
	body := own["body"]
	body.path = "" // its fields are named as those of any body
	fields, err := body.fields()
	return e, fields, err
}
