package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A Value is what Python would hold at its place: nil (None), bool, int64, *big.Int (only an integer of a request that
// int64 cannot hold), float64, string, *List, *Dict, or one of this package's own: markup, *generator, *Undefined,
// *Namespace, *Func, *macro, *loop.
type Value any

// List is a Python list, or a tuple.
type List struct {
	Items []Value
	Tuple bool
	names []string // of the places, for the named tuples of groupby
	view  string   // "dict_items" and the like: what a dict's method gives, which has no places
}

// Dict is a Python dict: it keeps the order in which keys came.
type Dict struct {
	keys   []Value
	values []Value
	index  map[Value]int
}

// NewDict returns an empty Dict.
func NewDict() *Dict { return &Dict{index: map[Value]int{}} }

// Set adds key or replaces its value. It reports false for a key that is not None, undefined, a bool, a number or a
// string.
func (d *Dict) Set(key, value Value) bool {
	k, ok := hashable(key)
	if !ok {
		return false
	}
	if i, found := d.index[k]; found {
		d.values[i] = value
		return true
	}
	d.index[k] = len(d.keys)
	d.keys, d.values = append(d.keys, key), append(d.values, value)
	return true
}

// Get returns the value of key.
func (d *Dict) Get(key Value) (Value, bool) {
	if k, ok := hashable(key); ok {
		if i, found := d.index[k]; found {
			return d.values[i], true
		}
	}
	return nil, false
}

// Len returns the number of keys.
func (d *Dict) Len() int { return len(d.keys) }

// Keys returns the keys in their order. The caller must not change them.
func (d *Dict) Keys() []Value { return d.keys }

type (
	noneKey      struct{}
	undefinedKey struct{}
	bigKey       string
)

// hashable maps a key to one that compares as Python's does: True is 1 is 1.0.
func hashable(key Value) (Value, bool) {
	switch k := key.(type) {
	case nil:
		return noneKey{}, true
	case bool:
		if k {
			return int64(1), true
		}
		return int64(0), true
	case int64, string:
		return k, true
	case *Undefined:
		return undefinedKey{}, true
	case *big.Int:
		return bigKey(k.String()), true
	case float64:
		if i := int64(k); float64(i) == k && math.Abs(k) < 1<<53 {
			return i, true
		}
		return k, !math.IsNaN(k)
	}
	return nil, false
}

// generator is what Python computes while it is read: true whatever it holds, without length or places, and empty once
// it has been read.
type generator struct{ items []Value }

// markup is a string that |safe or |escape has made. Adding a plain string to it escapes that string, even though
// templates run without autoescape. Elsewhere it is a plain string.
type markup string

func plain(v Value) Value {
	if m, ok := v.(markup); ok {
		return string(m)
	}
	return v
}

// Undefined is what a missing name or attribute gives. It prints as nothing, is false and empty, and refuses all else.
type Undefined struct{ why string }

// Namespace is the one value that {% set ns.name = ... %} may change.
type Namespace struct{ attrs *Dict }

// Func is a function or a bound method.
type Func struct {
	name string
	call func(r *run, a *args) Value
}

// loop is the variable of that name inside a for loop.
type loop struct {
	items   []Value
	at      int
	depth   int
	last    Value // what changed() saw last
	changed bool
	recurse func(r *run, v Value) Value
}

// typeName names a value's type as Python does.
func typeName(v Value) string {
	switch v := v.(type) {
	case nil:
		return "NoneType"
	case bool:
		return "bool"
	case int64, *big.Int:
		return "int"
	case float64:
		return "float"
	case string, markup:
		return "str"
	case *generator:
		return "generator"
	case *List:
		switch {
		case v.view != "":
			return v.view
		case v.Tuple:
			return "tuple"
		}
		return "list"
	case *Dict:
		return "dict"
	case *Undefined:
		return "Undefined"
	case *Namespace:
		return "Namespace"
	case *macro:
		return "Macro"
	case *loop:
		return "LoopContext"
	}
	return "function"
}

// truth is Python's bool(v).
func truth(v Value) bool {
	switch v := v.(type) {
	case nil, *Undefined:
		return false
	case bool:
		return v
	case int64:
		return v != 0
	case float64:
		return v != 0
	case string:
		return v != ""
	case markup:
		return v != ""
	case *List:
		return len(v.Items) > 0
	case *Dict:
		return v.Len() > 0
	case *loop:
		return len(v.items) > 0
	}
	return true
}

// str is Python's str(v).
func (r *run) str(v Value) string {
	switch v := v.(type) {
	case string:
		return v
	case markup:
		return string(v)
	case *Undefined:
		return ""
	}
	var b strings.Builder
	r.repr(&b, v, 0)
	return b.String()
}

// repr writes Python's repr(v).
func (r *run) repr(b *strings.Builder, v Value, depth int) {
	r.step()
	if depth > maxDepth {
		r.fail("a value is nested more than %d deep", maxDepth)
	}
	start := b.Len()
	switch v := v.(type) {
	case nil:
		b.WriteString("None")
	case bool:
		if v {
			b.WriteString("True")
		} else {
			b.WriteString("False")
		}
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case *big.Int:
		b.WriteString(v.String())
	case float64:
		b.WriteString(reprFloat(v, "inf", "nan"))
	case string:
		reprString(b, v)
	case *List:
		open, end := "[", "]"
		if v.Tuple {
			open, end = "(", ")"
			if len(v.Items) == 1 {
				end = ",)"
			}
		}
		if v.view != "" {
			open, end = v.view+"([", "])"
		}
		b.WriteString(open)
		for i, x := range v.Items {
			if i > 0 {
				b.WriteString(", ")
			}
			r.repr(b, x, depth+1)
		}
		b.WriteString(end)
	case *Dict:
		b.WriteByte('{')
		for i, k := range v.keys {
			if i > 0 {
				b.WriteString(", ")
			}
			r.repr(b, k, depth+1)
			b.WriteString(": ")
			r.repr(b, v.values[i], depth+1)
		}
		b.WriteByte('}')
	case *Undefined:
		b.WriteString("Undefined")
	case *Namespace:
		b.WriteString("<Namespace ")
		r.repr(b, v.attrs, depth+1)
		b.WriteByte('>')
	case *macro:
		fmt.Fprintf(b, "<Macro '%s'>", v.name)
	case *Func:
		fmt.Fprintf(b, "<function %s>", v.name)
	case *generator:
		b.WriteString("<generator object>")
	case *loop:
		fmt.Fprintf(b, "<LoopContext %d/%d>", v.at+1, len(v.items))
	}
	if depth == 0 {
		r.charge(b.Len() - start)
	} else if b.Len() > r.limits.bytes {
		r.charge(b.Len())
	}
}

// reprFloat writes the shortest digits that read back as f, with an exponent below 1e-4 and from 1e16.
func reprFloat(f float64, inf, nan string) string {
	switch {
	case math.IsNaN(f):
		return nan
	case math.IsInf(f, 1):
		return inf
	case math.IsInf(f, -1):
		return "-" + inf
	}
	if a := math.Abs(f); a != 0 && (a < 1e-4 || a >= 1e16) {
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

func reprString(b *strings.Builder, s string) {
	quote := byte('\'')
	if strings.Contains(s, "'") && !strings.Contains(s, `"`) {
		quote = '"'
	}
	b.WriteByte(quote)
	for _, c := range s {
		switch {
		case c == rune(quote) || c == '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\r':
			b.WriteString(`\r`)
		case c == '\t':
			b.WriteString(`\t`)
		case c == ' ' || unicode.IsPrint(c):
			b.WriteRune(c)
		case c < 0x100:
			fmt.Fprintf(b, `\x%02x`, c)
		case c < 0x10000:
			fmt.Fprintf(b, `\u%04x`, c)
		default:
			fmt.Fprintf(b, `\U%08x`, c)
		}
	}
	b.WriteByte(quote)
}

// number returns v as an integer or a float; bools are integers. kind is 'i', 'f' or 0.
func number(v Value) (i int64, f float64, kind byte) {
	switch v := v.(type) {
	case bool:
		if v {
			return 1, 1, 'i'
		}
		return 0, 0, 'i'
	case int64:
		return v, float64(v), 'i'
	case *big.Int:
		f, _ := new(big.Float).SetInt(v).Float64()
		return 0, f, 'f'
	case float64:
		return 0, v, 'f'
	}
	return 0, 0, 0
}

func isBig(v Value) bool { _, ok := v.(*big.Int); return ok }

// equal is Python's a == b.
func (r *run) equal(a, b Value, depth int) bool {
	r.step()
	if depth > maxDepth {
		r.fail("a value is nested more than %d deep", maxDepth)
	}
	if i, f, kind := number(a); kind != 0 {
		j, g, other := number(b)
		switch {
		case kind == 'i' && other == 'i':
			return i == j
		case isBig(a) && isBig(b):
			return a.(*big.Int).Cmp(b.(*big.Int)) == 0
		}
		return other != 0 && f == g
	}
	switch a := a.(type) {
	case nil:
		return b == nil
	case string:
		s, ok := b.(string)
		r.scan(min(len(s), len(a)))
		return ok && s == a
	case *Undefined:
		_, ok := b.(*Undefined)
		return ok
	case *List:
		l, ok := b.(*List)
		if !ok || l.Tuple != a.Tuple || len(l.Items) != len(a.Items) {
			return false
		}
		for i, x := range a.Items {
			if !r.equal(x, l.Items[i], depth+1) {
				return false
			}
		}
		return true
	case *Dict:
		d, ok := b.(*Dict)
		if !ok || d.Len() != a.Len() {
			return false
		}
		for i, k := range a.keys {
			if x, found := d.Get(k); !found || !r.equal(a.values[i], x, depth+1) {
				return false
			}
		}
		return true
	}
	return a == b // identity of namespaces, functions, macros, loops
}

// compare orders numbers, strings and lists as Python does; op is for the message only.
func (r *run) compare(a, b Value, op string, depth int) int {
	r.step()
	if depth > maxDepth {
		r.fail("a value is nested more than %d deep", maxDepth)
	}
	i, f, kind := number(a)
	j, g, other := number(b)
	switch {
	case isBig(a) && isBig(b):
		return a.(*big.Int).Cmp(b.(*big.Int))
	case kind == 'i' && other == 'i':
		switch {
		case i < j:
			return -1
		case i > j:
			return 1
		}
		return 0
	case kind != 0 && other != 0:
		switch {
		case f < g:
			return -1
		case f > g:
			return 1
		}
		return 0
	}
	switch x := a.(type) {
	case string:
		if y, ok := b.(string); ok {
			r.scan(min(len(x), len(y)))
			return strings.Compare(x, y) // bytes of UTF-8 sort as code points do
		}
	case *List:
		if y, ok := b.(*List); ok && x.Tuple == y.Tuple {
			for k := range min(len(x.Items), len(y.Items)) {
				if !r.equal(x.Items[k], y.Items[k], depth+1) {
					return r.compare(x.Items[k], y.Items[k], op, depth+1)
				}
			}
			return len(x.Items) - len(y.Items)
		}
	}
	r.refuseUndefined(a)
	r.refuseUndefined(b)
	r.fail("'%s' not supported between instances of '%s' and '%s'", op, typeName(a), typeName(b))
	return 0
}

// items lists what iterating over v gives.
func (r *run) items(v Value) []Value {
	switch v := v.(type) {
	case *List:
		return v.Items
	case *Dict:
		return v.keys
	case *generator:
		items := v.items
		v.items = nil
		return items
	case string:
		r.charge(16 * len(v))
		chars := make([]Value, 0, len(v))
		for _, c := range v {
			chars = append(chars, string(c))
		}
		return chars
	case *Undefined:
		return nil
	}
	r.fail("'%s' object is not iterable", typeName(v))
	return nil
}

// length is Python's len(v).
func (r *run) length(v Value) int {
	switch v := v.(type) {
	case string:
		r.scan(len(v))
		return utf8.RuneCountInString(v)
	case *List:
		return len(v.Items)
	case *Dict:
		return v.Len()
	case *Undefined:
		return 0
	case *loop:
		return len(v.items)
	}
	r.fail("object of type '%s' has no len()", typeName(v))
	return 0
}

// contains is Python's x in v.
func (r *run) contains(v, x Value) bool {
	switch v := v.(type) {
	case string:
		s, ok := x.(string)
		if !ok {
			r.refuseUndefined(x)
			r.fail("'in <string>' requires string as left operand, not %s", typeName(x))
		}
		r.scan(len(v))
		return strings.Contains(v, s)
	case *Dict:
		if _, ok := hashable(x); !ok {
			r.fail("unhashable type: '%s'", typeName(x))
		}
		_, found := v.Get(x)
		return found
	case *List, *generator, *Undefined:
		for _, y := range r.items(v) {
			if r.equal(x, y, 0) {
				return true
			}
		}
		return false
	}
	r.fail("argument of type '%s' is not iterable", typeName(v))
	return false
}

// isSpace is Python's str.isspace for one character.
func isSpace(c rune) bool { return unicode.IsSpace(c) || c >= 0x1c && c <= 0x1f }
