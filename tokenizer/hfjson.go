package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
)

// jsonReader reads the two large parts of tokenizer.json, hundreds of thousands of strings, without an allocation for each.
// What it reads is valid JSON: encoding/json has seen it. The first thing that is not as expected is an error.
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

// id reads an integer of 32 bits.
func (r *jsonReader) id() int32 {
	r.space()
	n := 0
	for n < len(r.rest) && bytes.IndexByte([]byte("+-.0123456789eE"), r.rest[n]) >= 0 {
		n++
	}
	v, err := strconv.ParseInt(string(r.rest[:n]), 10, 32)
	if err != nil {
		r.fail("an id")
		return 0
	}
	r.rest = r.rest[n:]
	return int32(v)
}

// readVocab reads an object of texts and ids.
func readVocab(raw json.RawMessage) (map[string]int32, error) {
	r := &jsonReader{rest: raw}
	ids := make(map[string]int32, len(raw)/16)
	r.object(func(key []byte) { ids[string(key)] = r.id() })
	return ids, r.err
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
	var merges [][2]string
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
