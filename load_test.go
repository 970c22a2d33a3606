package memra

import (
	"errors"
	"strings"
	"testing"

	"memra/sample"
)

func TestALoadIsServedToItsLastToken(t *testing.T) {
	m := openTiny(t, "llama-plain", Options{Context: 64})
	for _, parallel := range []int{1, 3, 20} {
		s, err := m.Serve(t.Context(), Load{Requests: 7, Prompt: 10, Generate: 6, Parallel: parallel})
		if err != nil {
			t.Fatal(err)
		}
		if s.Requests != 7 || s.Prompt != 70 || s.Generated != 42 || len(s.First) != 7 || len(s.Next) != 35 || s.Elapsed <= 0 {
			t.Errorf("%d at a time: %+v, want 7 requests of 10 and 6 tokens", parallel, s)
		}
	}
	r := Request{Prompt: "Then", MaxTokens: 4, N: 2, Sampling: sample.Params{Temperature: 1}}
	s, err := m.ServeRequests(t.Context(), []Request{r, r, r}, 2)
	if err != nil || s.Prompt != 3*len(m.Tokenize("Then")) || s.Generated > 24 || len(s.First) != 6 || len(s.Next) != s.Generated-6 {
		t.Errorf("%+v, %v, want three requests of two answers", s, err)
	}
}

func TestALoadThatCannotBeServedIsAnError(t *testing.T) {
	m := openTiny(t, "llama-plain", Options{Context: 64})
	for _, l := range []Load{{}, {Requests: 1, Prompt: 1, Generate: 1}, {Requests: 1, Parallel: 1, Generate: 1}} {
		if _, err := m.Serve(t.Context(), l); err == nil || !strings.Contains(err.Error(), "positive") {
			t.Errorf("%+v: error %v", l, err)
		}
	}
	var told *RequestError
	if _, err := m.Serve(t.Context(), Load{Requests: 2, Prompt: 60, Generate: 60, Parallel: 2}); !errors.As(err, &told) {
		t.Errorf("error %v, want that of requests longer than the context", err)
	}
	if _, err := m.ServeRequests(t.Context(), []Request{{Prompt: "a"}, {Prompt: "a", MaxTokens: -1}}, 2); !errors.As(err, &told) {
		t.Errorf("error %v, want that of the second request", err)
	}
}
