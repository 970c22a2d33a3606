package jinja

import (
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
)

// printf is Python's format % values, for the conversions s, r, d, i, u, x, X, o, f, F, e, E, g, G, c and %.
func (r *run) printf(format string, v Value) string {
	values := []Value{v}
	named, isDict := v.(*Dict)
	l, isList := v.(*List)
	_, undefined := v.(*Undefined)
	mapping := isDict || undefined || isList && !l.Tuple // what can be indexed by name need not be used up
	if isList && l.Tuple {
		values = l.Items
	}
	used := 0
	next := func() Value {
		if used >= len(values) {
			r.fail("not enough arguments for format string")
		}
		used++
		return values[used-1]
	}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' {
			b.WriteByte(format[i])
			continue
		}
		i++
		var value Value = absent{}
		if isDict && i < len(format) && format[i] == '(' {
			end := strings.IndexByte(format[i:], ')')
			if end < 0 {
				r.fail("incomplete format key")
			}
			key := format[i+1 : i+end]
			found, ok := named.Get(key)
			if !ok {
				r.fail("format key '%s' is missing", key)
			}
			value, i = found, i+end+1
			used = len(values)
		}
		start := i
		for i < len(format) && strings.IndexByte("-+ #0123456789.", format[i]) >= 0 {
			i++
		}
		if i == len(format) {
			r.fail("incomplete format")
		}
		spec := format[start:i]
		if format[i] == '%' {
			b.WriteByte('%')
			continue
		}
		for _, n := range strings.FieldsFunc(spec, func(c rune) bool { return c < '0' || c > '9' }) {
			if width, err := strconv.Atoi(n); err != nil || width > 10_000 {
				r.fail("the width or precision %s in a format is too large", n)
			}
		}
		if !given(value) {
			value = next()
		}
		s := r.conversion(spec, format[i], value)
		r.charge(len(s) + 16)
		b.WriteString(s)
	}
	if used < len(values) && !mapping {
		r.fail("not all arguments converted during string formatting")
	}
	r.charge(b.Len())
	return b.String()
}

func (r *run) conversion(spec string, verb byte, v Value) string {
	switch verb {
	case 's':
		return fmt.Sprintf("%"+spec+"s", r.str(v))
	case 'r':
		var b strings.Builder
		r.repr(&b, v, 0)
		return fmt.Sprintf("%"+spec+"s", b.String())
	}
	r.refuseUndefined(v)
	if n, ok := v.(*big.Int); ok && strings.IndexByte("diu", verb) >= 0 {
		return fmt.Sprintf("%"+spec+"d", n)
	}
	i, f, kind := number(v)
	if s, ok := v.(string); ok && verb == 'c' {
		return fmt.Sprintf("%"+spec+"s", s)
	}
	if kind == 0 {
		r.fail("%%%c format: a number is required, not %s", verb, typeName(v))
	}
	switch verb {
	case 'd', 'i', 'u':
		if kind == 'f' {
			i = r.truncated(f)
		}
		return fmt.Sprintf("%"+spec+"d", i)
	case 'x', 'X', 'o', 'c':
		if kind != 'i' {
			r.fail("%%%c format: an integer is required, not %s", verb, typeName(v))
		}
		return fmt.Sprintf("%"+spec+string(verb), i)
	case 'f', 'F', 'e', 'E', 'g', 'G':
		if verb == 'g' || verb == 'G' {
			if !strings.Contains(spec, ".") {
				spec += ".6"
			}
		}
		return fmt.Sprintf("%"+spec+string(verb), f)
	}
	r.fail("unsupported format character '%c'", verb)
	return ""
}

// truncated is Python's int(f).
func (r *run) truncated(f float64) int64 {
	if math.IsNaN(f) || math.Abs(f) >= 1<<63 {
		r.fail("cannot convert float %s to a 64-bit integer", reprFloat(f, "inf", "nan"))
	}
	return int64(f)
}

// format is str.format for fields without a conversion or a format: {}, {0}, {name}.
func (r *run) format(s string, a *args) Value {
	var b strings.Builder
	auto := 0
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '{' && c != '}' {
			b.WriteByte(c)
			continue
		}
		if i+1 < len(s) && s[i+1] == c {
			b.WriteByte(c)
			i++
			continue
		}
		end := strings.IndexByte(s[i:], '}')
		if c == '}' || end < 0 {
			r.fail("single '%c' encountered in format string", c)
		}
		field := s[i+1 : i+end]
		i += end
		if field == "" {
			field = strconv.Itoa(auto)
			auto++
		}
		if strings.ContainsAny(field, ":!.[{") {
			r.fail("format field '{%s}' is not supported, only names and numbers are", field)
		}
		var v Value = absent{}
		if n, err := strconv.Atoi(field); err == nil && n >= 0 && n < len(a.pos) {
			v = a.pos[n]
		}
		for k, name := range a.names {
			if name == field {
				v = a.values[k]
			}
		}
		if !given(v) {
			r.fail("format field '{%s}' has no argument", field)
		}
		text := r.str(v)
		r.charge(len(text))
		b.WriteString(text)
	}
	r.charge(len(s))
	return b.String()
}
