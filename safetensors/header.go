package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/bits"
	"slices"
	"strconv"
)

// MaxHeader is the longest header that the format allows.
const MaxHeader = 100_000_000

// maxDims bounds dimensions: no tensor of a model has as many.
const maxDims = 8

// maxShown bounds a name in a message.
const maxShown = 100

// metadataKey is the header's entry that is no tensor: texts by name.
const metadataKey = "__metadata__"

// entry is a tensor of a header.
type entry struct {
	Tensor
	from, to uint64 // its bytes, counted from the end of the header
}

// budget is how much memory a reader may still take. Real headers take less than their file has; one of many empty tensors takes
// several times its size.
type budget int

// spare is how much memory a reader may take in any case.
const spare = 48 << 20

// What reading takes in memory, about, for each tensor and each text.
const (
	bytesOfTensor = 512
	bytesOfText   = 96
)

func (b *budget) spend(n int) error {
	if *b -= budget(n); *b < 0 {
		return errors.New("takes more memory than a model's would; download it again")
	}
	return nil
}

// maxText bounds a text in JSON, in bytes. The longest are metadata.
const maxText = 1 << 20

// refuseLong is an error if JSON has a text that is too long: a decoder would keep all of it in memory, several times.
func refuseLong(data []byte) error {
	start := -1 // of the text; none
	for i := 0; i < len(data); i++ {
		switch {
		case data[i] == '"' && start < 0:
			start = i
		case data[i] == '"':
			start = -1
		case data[i] == '\\' && start >= 0:
			i++
		}
		if start >= 0 && i-start > maxText {
			return fmt.Errorf("the text at byte %d is longer than %d bytes", start, maxText)
		}
	}
	return nil
}

// header reads a file's bytes; file names it in messages.
//
//	┌─────┬──────────────────────────────────────────────────────────────────────────┬──────────────┐
//	│  n  │ {"a":{"dtype":"F16","shape":[2,3],"data_offsets":[0,12]}, ...}, spaces   │ tensor data  │
//	│ u64 │ n bytes of JSON                                                          │ ...          │
//	└─────┴──────────────────────────────────────────────────────────────────────────┴──────────────┘
//	                                                                                 ↑ offsets count from here
type header struct {
	file     string
	metadata map[string]string
	entries  []entry
	start    int // of the tensor data in the file
}

func readHeader(file string, data []byte) (*header, error) {
	h := &header{file: file}
	if len(data) < 8 {
		return nil, h.fault("has %d bytes, want 8 for the header's length; it is truncated, download it again", len(data))
	}
	n := binary.LittleEndian.Uint64(data)
	if left := uint64(len(data) - 8); n > MaxHeader {
		return nil, h.fault("its first 8 bytes say that the header has %d bytes, want at most %d; this is not a safetensors file", n, MaxHeader)
	} else if n > left {
		return nil, h.fault("the header of %d bytes goes beyond the file, which has %d left; it is truncated, download it again", n, left)
	}
	h.start = 8 + int(n)
	memory := budget(len(data) + spare)
	if err := h.parse(data[8:h.start], &memory); err != nil {
		return nil, err
	}
	if err := h.place(data[h.start:]); err != nil {
		return nil, err
	}
	return h, nil
}

func (h *header) fault(format string, args ...any) error {
	return fmt.Errorf("safetensors: %s: "+format, append([]any{h.file}, args...)...)
}

func (h *header) tensorFault(name, format string, args ...any) error {
	if len(name) > maxShown {
		name = name[:maxShown] + "..."
	}
	return h.fault("tensor %q: %w", name, fmt.Errorf(format, args...))
}

// parse reads the JSON, token by token, such that nothing is allocated that the text does not spell out.
func (h *header) parse(text []byte, memory *budget) error {
	if err := refuseLong(text); err != nil {
		return h.fault("the header: %w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := expect(d, json.Delim('{')); err != nil {
		return h.fault("the header: %w", err)
	}
	seen := map[string]bool{}
	for d.More() {
		name, err := next[string](d, "a tensor's name")
		if err != nil {
			return h.fault("the header: %w", err)
		}
		if seen[name] {
			return h.tensorFault(name, "the header names it twice")
		}
		seen[name] = true
		if err := memory.spend(bytesOfTensor + len(name)); err != nil {
			return h.fault("the header %w", err)
		}
		if name == metadataKey {
			if h.metadata, err = texts(d, memory); err != nil {
				return h.fault("%s: %w", metadataKey, err)
			}
			continue
		}
		e, err := readEntry(d)
		if err != nil {
			return h.tensorFault(name, "%w", err)
		}
		e.Name = name
		h.entries = append(h.entries, e)
	}
	if err := expect(d, json.Delim('}')); err != nil {
		return h.fault("the header: %w", err)
	}
	if rest := bytes.TrimRight(text[d.InputOffset():], " \t\r\n\x00"); len(rest) > 0 {
		return h.fault("the header: %d bytes after the JSON object, want spaces alone", len(rest))
	}
	return nil
}

// readEntry reads a tensor's object.
func readEntry(d *json.Decoder) (e entry, err error) {
	if err = expect(d, json.Delim('{')); err != nil {
		return e, err
	}
	var offsets []uint64
	seen := map[string]bool{}
	for d.More() {
		key, err := next[string](d, "a field")
		if err != nil {
			return e, err
		}
		if seen[key] {
			return e, fmt.Errorf("the field %q is there twice", key)
		}
		seen[key] = true
		switch key {
		case "dtype":
			var name string
			if name, err = next[string](d, "a type's name"); err == nil {
				e.DType = DType(name)
			}
		case "shape":
			var shape []uint64
			if shape, err = numbers(d, maxDims); err == nil {
				e.Shape, err = ints(shape)
			}
		case "data_offsets":
			offsets, err = numbers(d, 2)
		default:
			err = errors.New("want dtype, shape and data_offsets alone")
		}
		if err != nil {
			return e, fmt.Errorf("%s: %w", clip(key), err)
		}
	}
	if err = expect(d, json.Delim('}')); err != nil {
		return e, err
	}
	for _, key := range []string{"dtype", "shape", "data_offsets"} {
		if !seen[key] {
			return e, fmt.Errorf("%s is missing", key)
		}
	}
	if len(offsets) != 2 {
		return e, fmt.Errorf("data_offsets: found %d numbers, want 2", len(offsets))
	}
	e.from, e.to = offsets[0], offsets[1]
	return e, nil
}

// place checks every tensor's type, size and place, and makes the windows into data.
func (h *header) place(data []byte) error {
	for i := range h.entries {
		e := &h.entries[i]
		size, err := byteSize(e.DType, e.Shape)
		switch {
		case err != nil:
			return h.tensorFault(e.Name, "%w", err)
		case e.from > e.to:
			return h.tensorFault(e.Name, "data_offsets [%d %d] end before they begin", e.from, e.to)
		case e.to-e.from != size:
			return h.tensorFault(e.Name, "data_offsets [%d %d] hold %d bytes, want %d for %s %v", e.from, e.to, e.to-e.from, size, e.DType, e.Shape)
		case e.to > uint64(len(data)):
			return h.tensorFault(e.Name, "its data ends at byte %d of the tensor data, but the file has %d of them; it is truncated, download it again", e.to, len(data))
		}
		e.Data = data[e.from:e.to:e.to]
	}
	order := make([]*entry, len(h.entries))
	for i := range order {
		order[i] = &h.entries[i]
	}
	slices.SortStableFunc(order, func(a, b *entry) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	var end uint64
	before := "the header"
	for _, e := range order {
		switch {
		case e.from < end:
			return h.tensorFault(e.Name, "its data starts at byte %d of the tensor data, inside that of %s, which ends at byte %d", e.from, clip(before), end)
		case e.from > end:
			return h.tensorFault(e.Name, "its data starts at byte %d of the tensor data, want %d, right after %s: no tensor has the bytes between", e.from, end, clip(before))
		}
		end, before = e.to, e.Name
	}
	if end != uint64(len(data)) {
		return h.fault("the file has %d bytes of tensor data, its tensors %d; download it again", len(data), end)
	}
	return nil
}

// byteSize returns how many bytes a tensor takes.
func byteSize(t DType, shape []int) (uint64, error) {
	width := uint64(t.Bits())
	if width == 0 {
		return 0, fmt.Errorf("dtype: found %q, want one of %s", clip(string(t)), known())
	}
	if slices.Contains(shape, 0) {
		return 0, nil // before the product, which could overflow on its way to zero
	}
	total := width
	for _, n := range shape {
		hi, lo := bits.Mul64(total, uint64(n))
		if n < 0 || hi != 0 || lo > math.MaxInt {
			return 0, fmt.Errorf("shape %v of %s has more than 2^63 bits, or a dimension below zero", shape, t)
		}
		total = lo
	}
	if total%8 != 0 {
		return 0, fmt.Errorf("shape %v of %s has %d bits, want whole bytes", shape, t, total)
	}
	return total / 8, nil
}

// texts reads an object of strings.
func texts(d *json.Decoder, memory *budget) (map[string]string, error) {
	if err := expect(d, json.Delim('{')); err != nil {
		return nil, err
	}
	out := map[string]string{}
	for d.More() {
		key, err := next[string](d, "a name")
		if err != nil {
			return nil, err
		}
		if _, double := out[key]; double {
			return nil, fmt.Errorf("%q is there twice", clip(key))
		}
		if out[key], err = next[string](d, "a text"); err != nil {
			return nil, fmt.Errorf("%q: %w", clip(key), err)
		}
		if err := memory.spend(bytesOfText + len(key) + len(out[key])); err != nil {
			return nil, err
		}
	}
	return out, expect(d, json.Delim('}'))
}

// numbers reads an array of at most most unsigned integers.
func numbers(d *json.Decoder, most int) ([]uint64, error) {
	if err := expect(d, json.Delim('[')); err != nil {
		return nil, err
	}
	out := []uint64{}
	for d.More() {
		n, err := next[json.Number](d, "a number")
		if err != nil {
			return nil, err
		}
		v, err := strconv.ParseUint(n.String(), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("found %s, want an integer of 0 to 2^64-1", clip(n.String()))
		}
		if len(out) == most {
			return nil, fmt.Errorf("found more than %d numbers", most)
		}
		out = append(out, v)
	}
	return out, expect(d, json.Delim(']'))
}

func ints(v []uint64) ([]int, error) {
	out := make([]int, len(v))
	for i, n := range v {
		if n > math.MaxInt {
			return nil, fmt.Errorf("dimension %d is %d, beyond the largest integer %d", i, n, math.MaxInt)
		}
		out[i] = int(n)
	}
	return out, nil
}

// next reads a token of type T.
func next[T any](d *json.Decoder, want string) (T, error) {
	token, err := d.Token()
	v, ok := token.(T)
	switch {
	case err == io.EOF:
		err = fmt.Errorf("the JSON ends where %s should be", want)
	case err == nil && !ok:
		err = fmt.Errorf("found %v, want %s, before byte %d of the header", clip(fmt.Sprint(token)), want, d.InputOffset())
	}
	return v, err
}

func expect(d *json.Decoder, want json.Delim) error {
	got, err := next[json.Delim](d, strconv.Quote(want.String()))
	if err == nil && got != want {
		err = fmt.Errorf("found %q, want %q, before byte %d of the header", got, want, d.InputOffset())
	}
	return err
}

// clip shortens what a file says, for a message.
func clip(s string) string {
	if len(s) > maxShown {
		return s[:maxShown] + "..."
	}
	return s
}
