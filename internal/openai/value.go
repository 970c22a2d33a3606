package openai

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"unicode/utf8"
)

// value is a JSON value with the path that names it in errors: "messages[2].content".
type value struct {
	path string
	raw  json.RawMessage // valid, without spaces around
}

// parse is a whole JSON text.
func parse(text []byte) (value, error) {
	if !utf8.Valid(text) {
		return value{}, refuse("", invalidValue, "the JSON is not UTF-8; convert it first")
	}
	v := value{raw: bytes.TrimSpace(text)}
	if err := json.Unmarshal(text, new(json.RawMessage)); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return v, refuse("", invalidValue, "this is no JSON: byte %d: %v", syntax.Offset, err)
		}
		return v, refuse("", invalidValue, "this is no JSON: %v", err)
	}
	return v, nil
}

// kind names what kind of value it is.
func (v value) kind() string {
	switch v.raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

func (v value) isNull() bool { return v.raw[0] == 'n' }

// found shows a value in an error, if it is short.
func (v value) found() string {
	if len(v.raw) <= 40 && v.raw[0] != '{' && v.raw[0] != '[' {
		return string(v.raw)
	}
	return v.kind()
}

// want is the error of a value of another kind.
func (v value) want(what string) error {
	return refuse(v.path, invalidType, "found %s, want %s", v.found(), what)
}

// fields are the members of an object that are not null, in their order.
func (v value) fields() ([]value, error) {
	if v.raw[0] != '{' {
		return nil, v.want("an object")
	}
	prefix := v.path
	if prefix != "" {
		prefix += "."
	}
	d := json.NewDecoder(bytes.NewReader(v.raw))
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	var fields []value
	seen := map[string]bool{}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		f := value{path: prefix + key.(string)}
		if err := d.Decode(&f.raw); err != nil {
			return nil, err
		}
		if seen[f.path] {
			return nil, refuse(f.path, invalidValue, "comes twice, want one")
		}
		seen[f.path] = true
		if !f.isNull() {
			fields = append(fields, f)
		}
	}
	return fields, nil
}

// each hands out the elements of an array of at most so many, one after the other: a long line makes no long list of them.
func (v value) each(what string, most int, f func(i int, raw json.RawMessage) error) error {
	if v.raw[0] != '[' {
		return v.want("an array")
	}
	d := json.NewDecoder(bytes.NewReader(v.raw))
	if _, err := d.Token(); err != nil {
		return err
	}
	for i := 0; d.More(); i++ {
		if i == most {
			return refuse(v.path, invalidValue, "found more than %d %s, want %d or fewer", most, what, most)
		}
		var raw json.RawMessage
		if err := d.Decode(&raw); err != nil {
			return err
		}
		if err := f(i, raw); err != nil {
			return err
		}
	}
	return nil
}

// at is element i of an array.
func (v value) at(i int, raw json.RawMessage) value {
	return value{fmt.Sprintf("%s[%d]", v.path, i), raw}
}

// items are the elements of an array of at most so many.
func (v value) items(what string, most int) (items []value, err error) {
	err = v.each(what, most, func(i int, raw json.RawMessage) error {
		items = append(items, v.at(i, raw))
		return nil
	})
	return items, err
}

func (v value) text() (string, error) {
	var s string
	if v.raw[0] != '"' || json.Unmarshal(v.raw, &s) != nil {
		return "", v.want("a string")
	}
	return s, nil
}

func (v value) boolean() (bool, error) {
	if v.kind() != "a boolean" {
		return false, v.want("true or false")
	}
	return v.raw[0] == 't', nil
}

// whole is a whole number in a range.
func (v value) whole(least, most int) (int, error) {
	if v.kind() != "a number" {
		return 0, v.want("a whole number")
	}
	n, err := strconv.Atoi(string(v.raw))
	if err != nil || n < least || n > most {
		return 0, v.outside("a whole number", strconv.Itoa(least), strconv.Itoa(most), most == math.MaxInt)
	}
	return n, nil
}

// number is a number in a range; most may be infinite.
func (v value) number(least, most float32) (float32, error) {
	if v.kind() != "a number" {
		return 0, v.want("a number")
	}
	x, err := strconv.ParseFloat(string(v.raw), 32)
	if err != nil || float32(x) < least || float32(x) > most {
		return 0, v.outside("a number", fmt.Sprint(least), fmt.Sprint(most), math.IsInf(float64(most), 1))
	}
	return float32(x), nil
}

// outside is the error of a number that is out of its range.
func (v value) outside(what, least, most string, endless bool) error {
	if endless {
		return refuse(v.path, invalidValue, "found %s, want %s of %s or more", v.found(), what, least)
	}
	return refuse(v.path, invalidValue, "found %s, want %s from %s to %s", v.found(), what, least, most)
}
