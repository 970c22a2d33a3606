package jinja

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// FromJSON reads one JSON value. The order of keys is kept, integers stay integers, and invalid UTF-8 becomes U+FFFD.
func FromJSON(data []byte) (Value, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := fromJSON(d, 0)
	if err != nil {
		return nil, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("more text after the JSON value, at byte %d", d.InputOffset())
	}
	return v, nil
}

func fromJSON(d *json.Decoder, depth int) (Value, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("JSON is nested more than %d deep", maxNesting)
	}
	t, err := d.Token()
	if err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	}
	switch t := t.(type) {
	case json.Delim:
		if t == '[' {
			l := &List{}
			for d.More() {
				v, err := fromJSON(d, depth+1)
				if err != nil {
					return nil, err
				}
				l.Items = append(l.Items, v)
			}
			_, err := d.Token()
			return l, err
		}
		o := NewDict()
		for d.More() {
			key, err := d.Token()
			if err != nil {
				return nil, err
			}
			v, err := fromJSON(d, depth+1)
			if err != nil {
				return nil, err
			}
			o.Set(key, v)
		}
		_, err := d.Token()
		return o, err
	case json.Number:
		return fromNumber(string(t))
	}
	return t, nil
}

func fromNumber(s string) (Value, error) {
	if strings.ContainsAny(s, ".eE") {
		f, err := strconv.ParseFloat(s, 64)
		if err != nil && !errors.Is(err, strconv.ErrRange) { // out of range is infinite, as in Python
			return nil, err
		}
		return f, nil
	}
	if i, err := strconv.ParseInt(s, 10, 64); err == nil {
		return i, nil
	}
	const digits = 4300 // Python's limit too
	if i, ok := new(big.Int).SetString(s, 10); ok && len(s) <= digits {
		return i, nil
	}
	return nil, fmt.Errorf("integer of %d digits, want at most %d", len(s), digits)
}

// jsonStyle holds the options of json.dumps that the tojson filter takes.
type jsonStyle struct {
	ascii      bool
	indent     string
	lines      bool // an indent was given, if only an empty one
	item, pair string
	sorted     bool
}

// tojson is json.dumps as transformers calls it: ensure_ascii is off.
func tojson(r *run, v Value, a *args) Value {
	b := a.take(r, 0, "ensure_ascii", "indent", "separators", "sort_keys")
	style := jsonStyle{ascii: truth(or(b[0], false)), item: ", ", pair: ": ", sorted: truth(or(b[3], false))}
	switch indent := or(b[1], nil).(type) {
	case nil:
	case string:
		style.indent, style.lines, style.item = indent, true, ","
	default:
		style.lines, style.item = true, ","
		style.indent = r.pad(" ", a.size(r, indent))
	}
	if separators := or(b[2], nil); separators != nil {
		two := r.items(separators)
		if len(two) != 2 {
			r.fail("tojson(): separators must be two strings")
		}
		style.item, style.pair = a.text(r, two[0]), a.text(r, two[1])
	}
	var out strings.Builder
	r.json(&out, v, style, 0)
	r.charge(out.Len())
	return out.String()
}

func (r *run) json(b *strings.Builder, v Value, style jsonStyle, depth int) {
	r.step()
	if depth > maxDepth {
		r.fail("a value is nested more than %d deep", maxDepth)
	}
	if b.Len() > r.limits.bytes {
		r.charge(b.Len())
	}
	line := func(depth int) {
		if style.lines {
			b.WriteByte('\n')
			b.WriteString(r.pad(style.indent, depth))
		}
	}
	switch v := v.(type) {
	case nil:
		b.WriteString("null")
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case *big.Int:
		b.WriteString(v.String())
	case float64:
		b.WriteString(reprFloat(v, "Infinity", "NaN"))
	case string:
		jsonString(b, v, style.ascii)
	case *List:
		if v.view != "" {
			r.fail("Object of type %s is not JSON serializable", v.view)
		}
		if len(v.Items) == 0 {
			b.WriteString("[]")
			return
		}
		b.WriteByte('[')
		for i, x := range v.Items {
			if i > 0 {
				b.WriteString(style.item)
			}
			line(depth + 1)
			r.json(b, x, style, depth+1)
		}
		line(depth)
		b.WriteByte(']')
	case *Dict:
		if v.Len() == 0 {
			b.WriteString("{}")
			return
		}
		order := make([]int, v.Len())
		for i := range order {
			order[i] = i
		}
		if style.sorted {
			slices.SortStableFunc(order, func(i, j int) int { return r.compare(v.keys[i], v.keys[j], "<", 0) })
		}
		b.WriteByte('{')
		for n, i := range order {
			if n > 0 {
				b.WriteString(style.item)
			}
			line(depth + 1)
			if key, ok := v.keys[i].(string); ok {
				jsonString(b, key, style.ascii)
			} else { // None, booleans and numbers
				b.WriteByte('"')
				r.json(b, v.keys[i], style, depth+1)
				b.WriteByte('"')
			}
			b.WriteString(style.pair)
			r.json(b, v.values[i], style, depth+1)
		}
		line(depth)
		b.WriteByte('}')
	default:
		r.fail("Object of type %s is not JSON serializable", typeName(v))
	}
}

func jsonString(b *strings.Builder, s string, ascii bool) {
	b.WriteByte('"')
	for _, c := range s {
		switch {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == '\b':
			b.WriteString(`\b`)
		case c == '\f':
			b.WriteString(`\f`)
		case c < 0x20 || ascii && c >= 0x7f && c < 0x10000:
			fmt.Fprintf(b, `\u%04x`, c)
		case ascii && c >= utf8.RuneSelf:
			c -= 0x10000
			fmt.Fprintf(b, `\u%04x\u%04x`, 0xd800+c>>10, 0xdc00+c&0x3ff)
		default:
			b.WriteRune(c)
		}
	}
	b.WriteByte('"')
}
