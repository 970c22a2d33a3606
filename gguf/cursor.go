package gguf

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
)

// maxNesting bounds arrays of arrays: no known writer nests at all.
const maxNesting = 4

// maxShown bounds a name in a message: a broken length field can make one of gigabytes.
const maxShown = 100

// maxString bounds a string, in bytes: the longest known is a whole tokenizer.json of 35 MB.
const maxString = 256 << 20

// spare is how much memory a header may take beyond the file's size. Real headers take less than their file has; one of
// millions of empty strings, arrays or tensors takes several times its size.
const spare = 32 << 20

// What reading takes in memory, at least, for each of the small things that a header can be made of.
const (
	bytesOfKey    = 256
	bytesOfTensor = 512
	bytesOfArray  = 64
	bytesOfString = 16
)

// cursor reads a header's fields one after the other and never past the end. The first fault is kept in err; after it
// every read yields zero, so a caller may read several fields and look at err once.
type cursor struct {
	file  string
	data  []byte
	at    int
	spent int // bytes of memory that what was read takes
	place place
	err   error
}

// place is what the cursor is reading, for messages: key 3 "general.name", tensor 17 "blk.1.attn_q.weight".
type place struct {
	kind  string
	index int
	name  string
}

func (p place) String() string {
	switch {
	case p.index < 0:
		return p.kind
	case p.name == "":
		return fmt.Sprintf("%s %d", p.kind, p.index)
	}
	name := p.name
	if len(name) > maxShown {
		name = name[:maxShown] + "..."
	}
	return fmt.Sprintf("%s %d %q", p.kind, p.index, name)
}

// fault records what is wrong at byte at, unless something already is.
func (c *cursor) fault(at int, format string, args ...any) {
	if c.err == nil {
		c.err = fmt.Errorf("gguf: %s: %s, at byte %d: %w", c.file, c.place, at, fmt.Errorf(format, args...))
	}
}

// spend accounts for the memory that n things of so many bytes take, before it is asked for.
func (c *cursor) spend(n, bytes int) {
	c.spent += n * bytes
	if most := len(c.data) + spare; c.err == nil && c.spent > most {
		c.fault(c.at, "the header takes more than %d bytes of memory, want at most %d beyond the size of the file; it is not a model's", most, spare)
	}
}

// take returns the next n bytes and moves on; what names them in messages.
func (c *cursor) take(n uint64, what string) []byte {
	if c.err != nil {
		return nil
	}
	if left := uint64(len(c.data) - c.at); n > left {
		c.fault(c.at, "%s takes %d bytes, but the file of %d bytes has %d left; it is truncated or its length field is wrong",
			what, n, len(c.data), left)
		return nil
	}
	b := c.data[c.at : c.at+int(n)]
	c.at += int(n)
	return b
}

func (c *cursor) uint32(what string) uint32 {
	if b := c.take(4, what); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (c *cursor) uint64(what string) uint64 {
	if b := c.take(8, what); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

// bytes reads a length, and as many bytes.
func (c *cursor) bytes(what string) []byte {
	at := c.at
	n := c.uint64("the length of " + what)
	b := c.take(n, what)
	if len(b) > maxString {
		c.fault(at, "%s has %d bytes, want at most %d", what, n, maxString)
		return nil
	}
	return b
}

func (c *cursor) string(what string) string {
	b := c.bytes(what)
	if c.spend(len(b), 1); c.err != nil {
		return ""
	}
	return string(b)
}

// count reads the number of things of at least size bytes each, and refuses more than the rest of the file could hold.
func (c *cursor) count(what string, size int) int {
	at := c.at
	n := c.uint64("the number of " + what)
	if left := uint64(len(c.data) - c.at); c.err == nil && n > left/uint64(size) {
		c.fault(at, "found %d %s, but the %d bytes left in the file hold at most %d of them; it is truncated or the count is wrong",
			n, what, left, left/uint64(size))
		return 0
	}
	return int(n)
}

// value reads a value of the kind k; depth counts the arrays around it.
func (c *cursor) value(k kind, depth int) any {
	if k == kindArray {
		return c.array(depth + 1)
	}
	at := c.at
	if int64(k) >= int64(len(kinds)) {
		c.fault(at, "found %s, want a value type of 0 to %d", k, len(kinds)-1)
		return nil
	}
	if k == kindString {
		return c.string("the string")
	}
	b := c.take(uint64(kinds[k].bytes), k.String())
	if b == nil {
		return nil
	}
	switch k {
	case kindUint8:
		return b[0]
	case kindInt8:
		return int8(b[0])
	case kindUint16:
		return binary.LittleEndian.Uint16(b)
	case kindInt16:
		return int16(binary.LittleEndian.Uint16(b))
	case kindUint32:
		return binary.LittleEndian.Uint32(b)
	case kindInt32:
		return int32(binary.LittleEndian.Uint32(b))
	case kindFloat32:
		return float32At(b)
	case kindBool:
		return c.bools(b, at)[0]
	case kindUint64:
		return binary.LittleEndian.Uint64(b)
	case kindInt64:
		return int64(binary.LittleEndian.Uint64(b))
	default: // kindFloat64
		return float64At(b)
	}
}

// array reads an element type, a count and the elements.
func (c *cursor) array(depth int) any {
	at := c.at
	k := kind(c.uint32("the array's element type"))
	if c.err != nil {
		return nil
	}
	if int64(k) >= int64(len(kinds)) {
		c.fault(at, "found an array of %s, want a value type of 0 to %d", k, len(kinds)-1)
		return nil
	}
	if depth > maxNesting {
		c.fault(at, "found arrays nested more than %d deep", maxNesting)
		return nil
	}
	n := c.count(k.String()+"s in the array", kinds[k].bytes)
	if c.err != nil {
		return nil
	}
	switch k {
	case kindArray:
		if c.spend(n, bytesOfArray); c.err != nil {
			return nil
		}
		out := make([]any, 0, n)
		for i := 0; i < n && c.err == nil; i++ {
			out = append(out, c.array(depth+1))
		}
		return out
	case kindString:
		return c.strings(n)
	}
	at = c.at
	b := c.take(uint64(n)*uint64(kinds[k].bytes), "the array") // count has checked the product
	if c.spend(len(b), 1); c.err != nil {
		return nil
	}
	switch k {
	case kindUint8:
		return append([]uint8{}, b...)
	case kindInt8:
		return numbers(b, 1, func(b []byte) int8 { return int8(b[0]) })
	case kindUint16:
		return numbers(b, 2, binary.LittleEndian.Uint16)
	case kindInt16:
		return numbers(b, 2, func(b []byte) int16 { return int16(binary.LittleEndian.Uint16(b)) })
	case kindUint32:
		return numbers(b, 4, binary.LittleEndian.Uint32)
	case kindInt32:
		return numbers(b, 4, func(b []byte) int32 { return int32(binary.LittleEndian.Uint32(b)) })
	case kindFloat32:
		return numbers(b, 4, float32At)
	case kindBool:
		return c.bools(b, at)
	case kindUint64:
		return numbers(b, 8, binary.LittleEndian.Uint64)
	case kindInt64:
		return numbers(b, 8, func(b []byte) int64 { return int64(binary.LittleEndian.Uint64(b)) })
	default: // kindFloat64
		return numbers(b, 8, float64At)
	}
}

// strings reads n strings into one allocation: first their lengths are walked and checked, then all are copied at once.
func (c *cursor) strings(n int) []string {
	start, total := c.at, 0
	for i := range n {
		b := c.bytes("a string of the array")
		if c.err != nil {
			c.err = fmt.Errorf("%w (element %d of %d)", c.err, i, n)
			return nil
		}
		total += len(b)
	}
	c.spend(n, bytesOfString)
	if c.spend(total, 1); c.err != nil {
		return nil
	}
	var text strings.Builder
	text.Grow(total) // never moves again, so parts of it can be handed out while it fills
	out := make([]string, n)
	for i, at := 0, start; i < n; i++ {
		length := int(binary.LittleEndian.Uint64(c.data[at:]))
		from := text.Len()
		text.Write(c.data[at+8 : at+8+length])
		out[i] = text.String()[from:]
		at += 8 + length
	}
	return out
}

// bools decodes one byte per value; at is where b starts in the file.
func (c *cursor) bools(b []byte, at int) []bool {
	out := make([]bool, len(b))
	for i, v := range b {
		if v > 1 {
			c.fault(at+i, "found the byte %d, want a bool: 0 or 1", v)
			return out
		}
		out[i] = v == 1
	}
	return out
}

func numbers[T any](b []byte, size int, get func([]byte) T) []T {
	out := make([]T, len(b)/size)
	for i := range out {
		out[i] = get(b[i*size:])
	}
	return out
}

func float32At(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) }

func float64At(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) }
