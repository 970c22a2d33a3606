package openai

import (
	"bytes"
	"encoding/json"
	"math"
	"strings"
	"unicode/utf8"

	"memra"
	"memra/sample"
)

// Completion is an answer to a request.
type Completion struct {
	ID          string   `json:"id"`
	Object      string   `json:"object"`
	Created     int64    `json:"created"` // seconds since 1970
	Model       string   `json:"model"`   // that answered
	Choices     []Choice `json:"choices"`
	Usage       Usage    `json:"usage"`
	Fingerprint string   `json:"system_fingerprint"` // the numeric class: what the bits of an answer depend on, beside model and request
}

// Choice is one of the answers: a message to a chat, a text to a text.
type Choice struct {
	Index    int      `json:"index"`
	Message  *Message `json:"message,omitzero"`
	Text     *string  `json:"text,omitzero"`
	LogProbs any      `json:"logprobs"` // null, *ChatLogProbs or *TextLogProbs
	Finish   string   `json:"finish_reason"`
}

// Message is what the model says.
type Message struct {
	Role    string  `json:"role"`
	Content string  `json:"content"`
	Refusal *string `json:"refusal"` // always null
}

// Usage counts tokens: of each prompt once, of answers all that were generated, end tokens and those of answers not chosen included.
type Usage struct {
	Prompt     int           `json:"prompt_tokens"`
	Completion int           `json:"completion_tokens"`
	Total      int           `json:"total_tokens"`
	Details    PromptDetails `json:"prompt_tokens_details"`
}

// PromptDetails says how many tokens of a prompt were not computed, because a cache held them.
type PromptDetails struct {
	Cached int `json:"cached_tokens"`
}

// ChatLogProbs has an entry for each token of an answer, an end token included.
type ChatLogProbs struct {
	Content []ChatToken `json:"content"`
	Refusal []ChatToken `json:"refusal"` // always null
}

// ChatToken is a token and what else was likely in its place.
type ChatToken struct {
	ChatTop
	Top []ChatTop `json:"top_logprobs"`
}

// ChatTop is a token with its log-probability. Where the token is a part of a character, its text has U+FFFD, its bytes have all.
type ChatTop struct {
	Token   string  `json:"token"`
	LogProb logProb `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

// TextLogProbs has an entry for each token of an answer, an end token included; with echo, of the prompt before.
type TextLogProbs struct {
	Tokens   []string   `json:"tokens"`
	LogProbs []*logProb `json:"token_logprobs"` // null for a prompt's first token, which follows nothing
	Top      []topTexts `json:"top_logprobs"`   // null where none were asked for
	Offsets  []int      `json:"text_offset"`    // in characters, of the text
}

// topTexts are texts of tokens with their log-probabilities, likeliest first: an object, or null for a prompt's first token. Of tokens with the same
// text the likeliest stays.
type topTexts []topText

type topText struct {
	text string
	p    logProb
}

func (t topTexts) MarshalJSON() ([]byte, error) {
	if t == nil {
		return []byte("null"), nil
	}
	var b bytes.Buffer
	seen := map[string]bool{}
	b.WriteByte('{')
	for _, e := range t {
		if seen[e.text] {
			continue
		}
		if len(seen) > 0 {
			b.WriteByte(',')
		}
		seen[e.text] = true
		name, err := json.Marshal(e.text)
		if err != nil {
			return nil, err
		}
		number, err := e.p.MarshalJSON()
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(number)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// logProb is written with all digits of a float64: read as one or as a float32, it is exact. Of what is impossible the logarithm is -9999, as
// OpenAI has it.
type logProb float32

func (p logProb) MarshalJSON() ([]byte, error) {
	if math.IsInf(float64(p), -1) {
		return []byte("-9999"), nil
	}
	return json.Marshal(float64(p))
}

func chatLogProbs(m *memra.Model, tokens []memra.Token) *ChatLogProbs {
	entry := func(id int32, p float32) ChatTop {
		piece := m.Piece(id)
		e := ChatTop{Token: readable(piece), LogProb: logProb(p), Bytes: make([]int, len(piece))}
		for i, b := range piece {
			e.Bytes[i] = int(b)
		}
		return e
	}
	l := &ChatLogProbs{Content: make([]ChatToken, len(tokens))}
	for i, t := range tokens {
		top := make([]ChatTop, len(t.Top))
		for j, o := range t.Top {
			top[j] = entry(o.Token, o.LogProb)
		}
		l.Content[i] = ChatToken{entry(t.ID, t.LogProb), top}
	}
	return l
}

func textLogProbs(m *memra.Model, tokens []memra.Token, top int) *TextLogProbs {
	l := &TextLogProbs{Tokens: []string{}, LogProbs: []*logProb{}, Offsets: []int{}}
	characters := 0
	for _, t := range tokens {
		piece := m.Piece(t.ID)
		l.Tokens = append(l.Tokens, readable(piece))
		l.Offsets = append(l.Offsets, characters)
		characters += begun(piece)
		if t.LogProb != t.LogProb { // a prompt's first
			l.LogProbs = append(l.LogProbs, nil)
		} else {
			p := logProb(t.LogProb)
			l.LogProbs = append(l.LogProbs, &p)
		}
		if top > 0 {
			l.Top = append(l.Top, texts(m, t.Top))
		}
	}
	return l
}

func texts(m *memra.Model, top []sample.TokenLogProb) (all topTexts) {
	for _, o := range top {
		all = append(all, topText{readable(m.Piece(o.Token)), logProb(o.LogProb)})
	}
	return all
}

// readable is a piece as text.
func readable(piece []byte) string { return strings.ToValidUTF8(string(piece), "\uFFFD") }

// begun counts the characters that begin in a piece.
func begun(piece []byte) (n int) {
	for _, b := range piece {
		if utf8.RuneStart(b) {
			n++
		}
	}
	return n
}
