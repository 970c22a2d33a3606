package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"memra"
	"memra/sample"
)

// Error is what a client is told of a request that gets no answer.
type Error struct {
	Status  int    `json:"-"` // of HTTP
	Message string `json:"message"`
	Type    string `json:"type"`
	Param   orNull `json:"param"` // the field at fault
	Code    orNull `json:"code"`
}

// orNull is a text that is null where there is none.
type orNull string

func (s orNull) MarshalJSON() ([]byte, error) {
	if s == "" {
		return []byte("null"), nil
	}
	return json.Marshal(string(s))
}

func (e *Error) Error() string { return e.Message }

// Codes of errors about a body.
const (
	unknownParameter     = "unknown_parameter"
	unsupportedParameter = "unsupported_parameter"
	missingParameter     = "missing_required_parameter"
	invalidType          = "invalid_type"
	invalidValue         = "invalid_value"
	tooLong              = "context_length_exceeded"
)

// mostPath is the longest name of a field that an error shows.
const mostPath = 100

// refuse is the error of a field.
func refuse(field, code, format string, args ...any) *Error {
	if len(field) > mostPath {
		field = strings.ToValidUTF8(field[:mostPath], "") + "..."
	}
	message := fmt.Sprintf(format, args...)
	if field != "" {
		message = field + ": " + message
	}
	return &Error{Status: http.StatusBadRequest, Message: message, Type: "invalid_request_error", Param: orNull(field), Code: orNull(code)}
}

// tell is what a client is told of an error: a request's own fault as such, all others as the server's.
func tell(err error) *Error {
	var told *Error
	var wrong *memra.RequestError
	switch {
	case errors.As(err, &told):
		return told
	case errors.As(err, &wrong) && wrong.TooLong:
		return refuse("", tooLong, "%v", err)
	case errors.As(err, &wrong):
		return refuse("", invalidValue, "%v", err)
	}
	return &Error{Status: http.StatusInternalServerError, Message: err.Error(), Type: "server_error"}
}

// everybodys reports whether an error concerns every request: ctx has ended, the model is closed, or the device is gone, which shows in that
// not even a token follows another.
func everybodys(ctx context.Context, m *memra.Model, err error) bool {
	var own *memra.RequestError
	var row *sample.RowError
	switch {
	case ctx.Err() != nil || errors.Is(err, memra.ErrClosed):
		return true
	case errors.As(err, &own) || errors.As(err, &row):
		return false
	}
	_, probe := m.Answers(ctx, memra.Request{Tokens: []int32{0}, MaxTokens: 1})
	return probe != nil && !errors.As(probe, &row)
}
