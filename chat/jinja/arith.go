package jinja

import (
	"math"
	"math/bits"
	"strings"
)

// What + - * / // % ** mean for Python's numbers, strings and lists.

// addMarkup adds strings of which one is markup; the other is escaped.
func (r *run) addMarkup(a, b Value) (Value, bool) {
	safe := func(v Value) (string, bool) {
		switch v := v.(type) {
		case markup:
			return string(v), true
		case string:
			return escapes.Replace(v), true
		}
		return "", false
	}
	_, left := a.(markup)
	_, right := b.(markup)
	x, isText := safe(a)
	y, too := safe(b)
	if !left && !right || !isText || !too {
		return nil, false
	}
	return markup(r.join(x, y)), true
}

func (r *run) join(a, b string) string {
	r.charge(len(a) + len(b))
	return a + b
}

// sequence does what +, * and % mean for strings and lists.
func (r *run) sequence(op string, a, b Value) (Value, bool) {
	switch op {
	case "+":
		switch x := a.(type) {
		case string:
			if y, ok := b.(string); ok {
				return r.join(x, y), true
			}
		case *List:
			if y, ok := b.(*List); ok && x.Tuple == y.Tuple && x.view == y.view && x.view == "" {
				r.charge(16 * (len(x.Items) + len(y.Items)))
				return &List{Items: append(append([]Value(nil), x.Items...), y.Items...), Tuple: x.Tuple}, true
			}
		}
	case "*":
		if n, _, kind := number(a); kind == 'i' {
			if _, _, other := number(b); other == 0 {
				return r.repeat(b, n)
			}
		}
		if n, _, kind := number(b); kind == 'i' {
			return r.repeat(a, n)
		}
	case "%":
		if x, ok := a.(string); ok {
			return r.printf(x, b), true
		}
	}
	return nil, false
}

func (r *run) repeat(v Value, n int64) (Value, bool) {
	n = max(n, 0)
	size := int64(0)
	switch v := v.(type) {
	case string:
		size = int64(len(v))
	case *List:
		size = 16 * int64(len(v.Items))
	default:
		return nil, false
	}
	if size > 0 && n > int64(r.limits.bytes)/size {
		r.charge(r.limits.bytes + 1)
	}
	r.charge(int(n * size))
	switch v := v.(type) {
	case string:
		if size == 0 {
			return "", true
		}
		return strings.Repeat(v, int(n)), true
	case *List:
		l := &List{Tuple: v.Tuple}
		for i := int64(0); i < n && size > 0; i++ {
			l.Items = append(l.Items, v.Items...)
		}
		return l, true
	}
	return nil, false
}

func (r *run) integer(op string, i, j int64) Value {
	switch op {
	case "+":
		if s := i + j; (s > i) == (j > 0) {
			return s
		}
	case "-":
		if s := i - j; (s < i) == (j > 0) {
			return s
		}
	case "*":
		if p, ok := product(i, j); ok {
			return p
		}
	case "//", "%":
		if j == 0 {
			r.fail("integer division or modulo by zero")
		}
		if i == math.MinInt64 && j == -1 {
			break
		}
		q, m := i/j, i%j
		if m != 0 && (m < 0) != (j < 0) { // Python rounds down
			q, m = q-1, m+j
		}
		if op == "//" {
			return q
		}
		return m
	case "**":
		result, ok := int64(1), true
		for ; j > 0 && ok; j-- {
			if i == 0 || i == 1 || i == -1 {
				if i == -1 && j%2 == 0 {
					return int64(1)
				}
				return i
			}
			result, ok = product(result, i)
		}
		if ok {
			return result
		}
	}
	r.fail("integer overflow: %d %s %d does not fit in 64 bits", i, op, j)
	return nil
}

func product(i, j int64) (int64, bool) {
	abs := func(x int64) uint64 {
		if x < 0 {
			return -uint64(x)
		}
		return uint64(x)
	}
	high, low := bits.Mul64(abs(i), abs(j))
	if high != 0 || low > math.MaxInt64 {
		return 0, false
	}
	return i * j, true
}

func (r *run) float(op string, f, g float64) Value {
	switch op {
	case "+":
		return f + g
	case "-":
		return f - g
	case "*":
		return f * g
	case "**":
		return math.Pow(f, g)
	}
	if g == 0 {
		r.fail("division by zero")
	}
	switch op {
	case "/":
		return f / g
	case "//":
		return math.Floor(f / g)
	}
	m := math.Mod(f, g)
	if m != 0 && (m < 0) != (g < 0) {
		m += g
	}
	return m
}
