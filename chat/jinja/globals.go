package jinja

import (
	"fmt"
	"strings"
	"time"
)

// globalTable holds the functions that every template sees: Jinja2's, and the two that transformers adds.
var globalTable = map[string]Value{
	"range": &Func{"range", func(r *run, a *args) Value {
		b := a.take(r, 1, "start", "stop", "step")
		start, stop, step := int64(0), a.integer(r, b[0]), a.integer(r, or(b[2], int64(1)))
		if given(b[1]) {
			start, stop = stop, a.integer(r, b[1])
		}
		if step == 0 {
			r.fail("range() arg 3 must not be zero")
		}
		l := &List{}
		for i := start; step > 0 && i < stop || step < 0 && i > stop; i += step {
			if len(l.Items) == maxRange {
				r.fail("range too big: a template may ask for %d items", maxRange)
			}
			l.Items = append(l.Items, i)
			if next := i + step; (next > i) != (step > 0) {
				break
			}
		}
		r.charge(16 * len(l.Items))
		return l
	}},
	"dict": &Func{"dict", func(r *run, a *args) Value { return r.dict(a) }},
	"namespace": &Func{"namespace", func(r *run, a *args) Value {
		return &Namespace{r.dict(a)}
	}},
	"joiner": &Func{"joiner", func(r *run, a *args) Value {
		sep, used := r.str(or(a.take(r, 0, "sep")[0], ", ")), false
		return &Func{"joiner", func(r *run, a *args) Value {
			if !used {
				used = true
				return ""
			}
			return sep
		}}
	}},
	"raise_exception": &Func{"raise_exception", func(r *run, a *args) Value {
		panic(&Error{Line: r.line, Message: r.str(a.take(r, 1, "message")[0]), Raised: true})
	}},
	"strftime_now": &Func{"strftime_now", func(r *run, a *args) Value {
		s := strftime(r.now, a.text(r, a.take(r, 1, "format")[0]))
		r.charge(len(s))
		return s
	}},
}

// dict makes a dict as Python's dict(mapping or pairs, **names) does.
func (r *run) dict(a *args) *Dict {
	d := NewDict()
	if len(a.pos) > 1 {
		r.fail("%s expected at most 1 argument, got %d", a.fn, len(a.pos))
	}
	for _, v := range a.pos {
		if from, ok := v.(*Dict); ok {
			r.charge(64 * from.Len())
			for i, k := range from.keys {
				d.Set(k, from.values[i])
			}
			continue
		}
		for _, pair := range r.items(v) {
			kv := r.items(pair)
			if len(kv) != 2 || !d.Set(kv[0], kv[1]) {
				r.fail("%s: expected pairs of a key and a value", a.fn)
			}
			r.charge(64)
		}
	}
	for i, name := range a.names {
		d.Set(name, a.values[i])
	}
	return d
}

// strftime formats t as Python's datetime.strftime does in the C locale. A minus sign after the percent sign takes
// leading zeros away; what is not known stays as it is.
func strftime(t time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		start := i
		i++
		plain := format[i] == '-' && i+1 < len(format)
		if plain {
			i++
		}
		number := func(n, width int) {
			if plain {
				width = 1
			}
			fmt.Fprintf(&b, "%0*d", width, n)
		}
		hour12 := (t.Hour()+11)%12 + 1
		switch format[i] {
		case 'a':
			b.WriteString(t.Format("Mon"))
		case 'A':
			b.WriteString(t.Format("Monday"))
		case 'b', 'h':
			b.WriteString(t.Format("Jan"))
		case 'B':
			b.WriteString(t.Format("January"))
		case 'c':
			b.WriteString(t.Format("Mon Jan _2 15:04:05 2006"))
		case 'd':
			number(t.Day(), 2)
		case 'D', 'x':
			b.WriteString(t.Format("01/02/06"))
		case 'e':
			b.WriteString(t.Format("_2"))
		case 'f':
			number(t.Nanosecond()/1000, 6)
		case 'F':
			b.WriteString(t.Format("2006-01-02"))
		case 'H':
			number(t.Hour(), 2)
		case 'I':
			number(hour12, 2)
		case 'j':
			number(t.YearDay(), 3)
		case 'm':
			number(int(t.Month()), 2)
		case 'M':
			number(t.Minute(), 2)
		case 'p':
			b.WriteString(t.Format("PM"))
		case 'S':
			number(t.Second(), 2)
		case 'T', 'X':
			b.WriteString(t.Format("15:04:05"))
		case 'u':
			number((int(t.Weekday())+6)%7+1, 1)
		case 'w':
			number(int(t.Weekday()), 1)
		case 'y':
			number(t.Year()%100, 2)
		case 'Y':
			number(t.Year(), 1)
		case 'z', 'Z': // datetime.now() knows no zone
		case '%':
			b.WriteByte('%')
		default:
			b.WriteString(format[start : i+1])
		}
	}
	return b.String()
}
