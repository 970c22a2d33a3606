package hf

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strconv"
)

// maxJSON bounds the small files of a folder: config.json, tokenizer_config.json, chat templates.
const maxJSON = 8 << 20

// maxDepth bounds arrays and objects in each other, maxValues how many values and keys there are: each takes memory, whatever its text.
const (
	maxDepth  = 32
	maxValues = 300_000
)

// readFile reads a file of at most limit bytes. A file that is not there is an error that wraps fs.ErrNotExist.
func readFile(path string, limit int64) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("hf: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("hf: %w", err)
	}
	if !info.Mode().IsRegular() || info.Size() > limit {
		return nil, fmt.Errorf("hf: %s: found a %s of %d bytes, want a regular file of at most %d", path, info.Mode().Type(), info.Size(), limit)
	}
	data, err := io.ReadAll(io.LimitReader(file, limit))
	if err != nil {
		return nil, fmt.Errorf("hf: %s: %w", path, err)
	}
	return data, nil
}

// object is a JSON object of a folder's file. Its getters note what is wrong, all of it, in faults.
type object struct {
	path   string // of the file, and of the object in it, for messages
	value  map[string]any
	faults *[]error
}

// readObject reads a file that is one JSON object.
func readObject(path string, faults *[]error) (object, error) {
	data, err := readFile(path, maxJSON)
	if err != nil {
		return object{}, err
	}
	value, err := parseJSON(data)
	if err != nil {
		return object{}, fmt.Errorf("hf: %s: %w", path, err)
	}
	o, ok := value.(map[string]any)
	if !ok {
		return object{}, fmt.Errorf("hf: %s: found %s, want an object", path, kindOf(value))
	}
	return object{path, o, faults}, nil
}

// maybeObject reads a file that need not be there; then the object is empty.
func maybeObject(folder, name string, faults *[]error) (object, error) {
	o, err := readObject(filepath.Join(folder, name), faults)
	if errors.Is(err, fs.ErrNotExist) {
		return object{filepath.Join(folder, name), nil, faults}, nil
	}
	return o, err
}

func (o object) fail(key, format string, args ...any) {
	*o.faults = append(*o.faults, fmt.Errorf("hf: %s: %s: %w", o.path, key, fmt.Errorf(format, args...)))
}

// get returns a value that is there and not null.
func (o object) get(key string) (any, bool) {
	v := o.value[key]
	return v, v != nil
}

// over lays the object in key over o: its values hide o's.
func (o object) over(key string) object {
	inner := o.object(key)
	if inner.value == nil {
		return o
	}
	merged := map[string]any{}
	for k, v := range o.value {
		merged[k] = v
	}
	for k, v := range inner.value {
		merged[k] = v
	}
	return object{o.path, merged, o.faults}
}

// object returns the object in key, an empty one if there is none.
func (o object) object(key string) object {
	inner := object{o.path + ": " + key, nil, o.faults}
	if v, ok := o.get(key); ok {
		if inner.value, ok = v.(map[string]any); !ok {
			o.fail(key, "found %s, want an object", kindOf(v))
		}
	}
	return inner
}

func (o object) text(key, fallback string) string {
	v, ok := o.get(key)
	if !ok {
		return fallback
	}
	s, ok := v.(string)
	if !ok {
		o.fail(key, "found %s, want a text", kindOf(v))
	}
	return s
}

func (o object) bool(key string, fallback bool) bool {
	v, ok := o.get(key)
	if !ok {
		return fallback
	}
	b, ok := v.(bool)
	if !ok {
		o.fail(key, "found %s, want true or false", kindOf(v))
	}
	return b
}

// int returns an integer of 0 to 2^31-1, and fallback where there is none; a negative fallback says that there must be one.
func (o object) int(key string, fallback int) int {
	v, ok := o.get(key)
	if !ok {
		if fallback < 0 {
			o.fail(key, "is missing")
		}
		return max(fallback, 0)
	}
	n, ok := toInt(v)
	if !ok {
		o.fail(key, "found %s, want an integer of 0 to %d", kindOf(v), math.MaxInt32)
	}
	return n
}

// float returns a finite number, and fallback where there is none.
func (o object) float(key string, fallback float64) float64 {
	v, ok := o.get(key)
	if !ok {
		return fallback
	}
	n, ok := v.(json.Number)
	f, err := n.Float64()
	if !ok || err != nil {
		o.fail(key, "found %s, want a number", kindOf(v))
	}
	return f
}

// texts returns an array of texts, nil where there is none.
func (o object) texts(key string) []string {
	v, ok := o.get(key)
	if !ok {
		return nil
	}
	list, _ := v.([]any)
	out := make([]string, 0, len(list))
	for _, item := range list {
		if s, ok := item.(string); ok {
			out = append(out, s)
		}
	}
	if list == nil || len(out) != len(list) {
		o.fail(key, "found %s, want an array of texts", kindOf(v))
	}
	return out
}

// floats returns an array of finite numbers, nil where there is none.
func (o object) floats(key string) []float64 {
	v, ok := o.get(key)
	if !ok {
		return nil
	}
	list, _ := v.([]any)
	out := make([]float64, 0, len(list))
	for _, item := range list {
		n, _ := item.(json.Number)
		if f, err := n.Float64(); err == nil {
			out = append(out, f)
		}
	}
	if list == nil || len(out) != len(list) {
		o.fail(key, "found %s, want an array of numbers", kindOf(v))
	}
	return out
}

// ints returns an array of integers, or one that stands alone; nil where there is none.
func (o object) ints(key string) []int {
	v, ok := o.get(key)
	if !ok {
		return nil
	}
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	var out []int
	for _, item := range list {
		n, ok := toInt(item)
		if !ok {
			o.fail(key, "found %s, want an integer or an array of them", kindOf(item))
			return nil
		}
		out = append(out, n)
	}
	return out
}

// toInt converts a number that is an integer of 0 to 2^31-1, if it was written as 1e4 or 64.0 as well.
func toInt(v any) (int, bool) {
	n, _ := v.(json.Number)
	f, err := n.Float64()
	if err != nil || f != math.Trunc(f) || f < 0 || f > math.MaxInt32 {
		return 0, false
	}
	return int(f), true
}

// kindOf describes a JSON value, for messages.
func kindOf(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case bool:
		return strconv.FormatBool(v)
	case json.Number:
		return clip(v.String())
	case string:
		return strconv.Quote(clip(v))
	case []any:
		return fmt.Sprintf("an array of %d", len(v))
	case map[string]any:
		return fmt.Sprintf("an object of %d", len(v))
	}
	return fmt.Sprintf("%T", v)
}

// clip shortens what a file says, for a message.
func clip(s string) string {
	if len(s) > 100 {
		return s[:100] + "..."
	}
	return s
}

// parseJSON reads one JSON value: nil, bool, json.Number, string, []any, map[string]any. A key that an object has twice is an
// error: readers differ in which they take.
func parseJSON(data []byte) (any, error) {
	p := &parser{Decoder: json.NewDecoder(bytes.NewReader(data))}
	p.UseNumber()
	v, err := p.value(0)
	if err == io.EOF {
		err = errors.New("the JSON ends too early")
	}
	if err == nil && len(bytes.TrimSpace(data[p.InputOffset():])) > 0 {
		err = fmt.Errorf("found more after the JSON value, at byte %d", p.InputOffset())
	}
	return v, err
}

// parser reads JSON values, and counts them.
type parser struct {
	*json.Decoder
	values int
}

// token reads the next value or key, or where one begins or ends.
func (p *parser) token() (json.Token, error) {
	if p.values++; p.values > maxValues {
		return nil, fmt.Errorf("more than %d values, at byte %d", maxValues, p.InputOffset())
	}
	return p.Token()
}

func (p *parser) value(depth int) (any, error) {
	token, err := p.token()
	if err != nil {
		return nil, err
	}
	open, ok := token.(json.Delim)
	if !ok {
		return token, nil
	}
	if depth == maxDepth {
		return nil, fmt.Errorf("objects and arrays lie more than %d deep in each other, at byte %d", maxDepth, p.InputOffset())
	}
	if open == '[' {
		list := []any{}
		for p.More() {
			v, err := p.value(depth + 1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		_, err = p.Token()
		return list, err
	}
	object := map[string]any{}
	for p.More() {
		token, err := p.token()
		if err != nil {
			return nil, err
		}
		key := token.(string) // the decoder takes nothing else for a key
		if _, double := object[key]; double {
			return nil, fmt.Errorf("the key %q is there twice, the second before byte %d", clip(key), p.InputOffset())
		}
		if object[key], err = p.value(depth + 1); err != nil {
			return nil, err
		}
	}
	_, err = p.Token()
	return object, err
}
