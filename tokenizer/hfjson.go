package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// jsonReader reads the two large parts of tokenizer.json, hundreds of thousands of strings, without an allocation for each.
// What it reads is valid JSON: json.Valid has seen it. The first thing that is not as expected is an error.
type jsonReader struct {
	rest []byte
	err  error
}

func (r *jsonReader) fail(want string) {
	if r.err == nil {
		r.err = fmt.Errorf("%.60q, want %s", r.rest, want)
	}
}

func (r *jsonReader) space() { r.rest = bytes.TrimLeft(r.rest, " \t\r\n") }

// eat skips white space, and the byte c if it comes next.
func (r *jsonReader) eat(c byte) bool {
	r.space()
	if r.err != nil || len(r.rest) == 0 || r.rest[0] != c {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

// text reads a string. Its bytes are the input's where nothing is escaped.
func (r *jsonReader) text() []byte {
	if !r.eat('"') {
		r.fail("a text")
		return nil
	}
	escaped := false
	for i := 0; i < len(r.rest); i++ {
		switch r.rest[i] {
		case '\\':
			escaped = true
			i++
		case '"':
			raw := r.rest[:i]
			if escaped || !valid(raw) {
				var s string
				if err := json.Unmarshal(append(append([]byte{'"'}, raw...), '"'), &s); err != nil {
					r.fail("a text")
				}
				raw = []byte(s)
			}
			r.rest = r.rest[i+1:]
			return raw
		}
	}
	r.fail("the end of a text")
	return nil
}

// valid tells whether bytes may stand as they are: encoding/json replaces what is not UTF-8.
func valid(b []byte) bool { return bytes.IndexFunc(b, func(c rune) bool { return c == '\uFFFD' }) < 0 }

// object calls field with each key of an object; field reads the value.
func (r *jsonReader) object(field func(key []byte)) {
	if !r.eat('{') {
		r.fail("an object")
		return
	}
	for !r.eat('}') && r.err == nil {
		key := r.text()
		if !r.eat(':') {
			r.fail("a value")
			return
		}
		field(key)
		r.eat(',')
	}
}

// array calls item for each item of an array, which it reads.
func (r *jsonReader) array(item func()) {
	if !r.eat('[') {
		r.fail("an array")
		return
	}
	for !r.eat(']') && r.err == nil {
		item()
		r.eat(',')
	}
}

// numeral reads a number that parse understands.
func numeral[T any](r *jsonReader, want string, parse func(text string) (T, error)) (v T) {
	r.space()
	n := 0
	for n < len(r.rest) && bytes.IndexByte([]byte("+-.0123456789eE"), r.rest[n]) >= 0 {
		n++
	}
	v, err := parse(string(r.rest[:n]))
	if err != nil {
		r.fail(want)
		return v
	}
	r.rest = r.rest[n:]
	return v
}

// id reads an integer of 32 bits.
func (r *jsonReader) id() int32 {
	return int32(numeral(r, "an id", func(text string) (int64, error) { return strconv.ParseInt(text, 10, 32) }))
}

// score reads a number.
func (r *jsonReader) score() float64 {
	return numeral(r, "a score", func(text string) (float64, error) { return strconv.ParseFloat(text, 64) })
}

// raw reads a value of any kind, which it returns as a window into the input.
func (r *jsonReader) raw() json.RawMessage {
	r.space()
	depth, text := 0, false
	for i := 0; i < len(r.rest); i++ {
		switch c := r.rest[i]; {
		case text && c == '\\':
			i++
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			depth++
		case depth > 0 && (c == '}' || c == ']'):
			depth--
		case depth == 0 && (c == ',' || c == '}' || c == ']'): // of what the value stands in
			value := r.rest[:i]
			r.rest = r.rest[i:]
			return json.RawMessage(bytes.TrimRight(value, " \t\r\n"))
		}
	}
	r.fail("the end of a value")
	return nil
}

// windows reads an object into parts of the input: the vocabulary is most of it, and need not be in memory twice.
func windows(object []byte) (map[string]json.RawMessage, error) {
	r := &jsonReader{rest: object}
	fields := map[string]json.RawMessage{}
	r.object(func(key []byte) {
		if _, double := fields[string(key)]; double && r.err == nil {
			r.err = fmt.Errorf("%q is there twice", key)
		}
		fields[string(key)] = r.raw()
	})
	return fields, r.err
}

// readVocab reads an object of texts and ids.
func readVocab(raw json.RawMessage) (map[string]int32, error) {
	r := &jsonReader{rest: raw}
	ids := make(map[string]int32, bytes.Count(raw, []byte{'"'})/2)
	r.object(func(key []byte) { ids[string(key)] = r.id() })
	return ids, r.err
}

// readScored reads an array of pieces, each a text and a score: ids by text, scores by id.
func readScored(raw json.RawMessage) (ids map[string]int32, scores []float64, err error) {
	r := &jsonReader{rest: raw}
	n := bytes.Count(raw, []byte{'"'}) / 2
	ids, scores = make(map[string]int32, n), make([]float64, 0, n)
	r.array(func() {
		if !r.eat('[') {
			r.fail("a piece, which is a text and a score")
			return
		}
		ids[string(r.text())] = int32(len(scores))
		if !r.eat(',') {
			r.fail("a score of the piece")
			return
		}
		scores = append(scores, r.score())
		if !r.eat(']') {
			r.fail("the end of a piece, which is a text and a score")
		}
	})
	return ids, scores, r.err
}

// What is made of a vocabulary takes memory for each token and merge, whatever their texts: about so many bytes, of which a file may
// ask for spare more than its own size. Known files stay below: the largest have 515,000 merges, or 500,000 words.
const (
	bytesOfToken = 140
	bytesOfMerge = 66
	spare        = 64 << 20

	mostMerges = 1_000_000 // for the table of which there is room
)

// affordable is an error for a vocabulary of too many tokens or merges.
func affordable(vocab, merges json.RawMessage) error {
	tokens, joins := bytes.Count(vocab, []byte{'"'})/2, countMerges(merges)
	if need, most := tokens*bytesOfToken+joins*bytesOfMerge, len(vocab)+len(merges)+spare; need > most || joins > mostMerges {
		return fmt.Errorf("%d tokens and %d merges would take %d bytes of memory, want at most %d, %d more than their text; no model has as many",
			tokens, joins, need, most, spare)
	}
	return nil
}

// countMerges returns how many merges there are, or a few more: each is a text, or two in brackets.
func countMerges(raw json.RawMessage) int {
	quotes := 2
	if head, _, _ := bytes.Cut(raw, []byte{'"'}); bytes.Count(head, []byte{'['}) > 1 {
		quotes = 4
	}
	return bytes.Count(raw, []byte{'"'}) / quotes
}

// readMerges reads an array of merges, each two tokens: an array of them, or a text with a space between them. Where a token is
// one of tokens, found by ids, its text is shared.
func readMerges(raw json.RawMessage, ids map[string]int32, tokens []string) ([][2]string, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	shared := func(b []byte) string {
		if id, ok := ids[string(b)]; ok {
			return tokens[id]
		}
		return string(b)
	}
	r := &jsonReader{rest: raw}
	merges := make([][2]string, 0, countMerges(raw))
	r.array(func() {
		var m [2]string
		if r.eat('[') {
			m[0] = shared(r.text())
			if r.eat(',') {
				m[1] = shared(r.text())
			}
			if !r.eat(']') {
				r.fail("the end of a merge, which is two tokens")
			}
		} else {
			text := r.text()
			cut := 0
			if len(text) > 0 {
				cut = 1 + bytes.IndexByte(text[1:], ' ')
			}
			if cut == 0 {
				r.fail(fmt.Sprintf("two tokens with a space between them before it, not %q", text))
				return
			}
			m = [2]string{shared(text[:cut]), shared(text[cut+1:])}
		}
		merges = append(merges, m)
	})
	return merges, r.err
}
