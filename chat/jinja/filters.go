package jinja

import (
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

type filter func(r *run, v Value, a *args) Value

// filterTable holds Jinja2's filters. It is filled by init because map and select look filters and tests up in turn.
var filterTable map[string]filter

func init() {
	onText := func(f func(string) string) filter {
		return func(r *run, v Value, a *args) Value {
			a.none(r)
			s := f(r.str(v))
			r.charge(len(s))
			return s
		}
	}
	byDefault := func(r *run, v Value, a *args) Value {
		b := a.take(r, 0, "default_value", "boolean")
		if _, undefined := v.(*Undefined); undefined || truth(or(b[1], false)) && !truth(v) {
			return or(b[0], "")
		}
		return v
	}
	length := func(r *run, v Value, a *args) Value {
		a.none(r)
		return int64(r.length(v))
	}
	asMarkup := func(f func(string) string) filter {
		return func(r *run, v Value, a *args) Value {
			a.none(r)
			s := f(r.str(v))
			r.charge(len(s))
			return markup(s)
		}
	}
	escape := asMarkup(escapes.Replace)
	filterTable = map[string]filter{
		"abs": abs,
		"attr": func(r *run, v Value, a *args) Value { // attributes only, where v.name takes keys too
			name := a.text(r, a.take(r, 1, "name")[0])
			r.refuseUndefined(v)
			if m, ok := r.method(v, name); ok {
				return m
			}
			return missing(v, name)
		},
		"batch":       batch,
		"capitalize":  onText(capitalize),
		"center":      func(r *run, v Value, a *args) Value { return center(r, r.str(v), a) },
		"count":       length,
		"d":           byDefault,
		"default":     byDefault,
		"dictsort":    dictsort,
		"e":           escape,
		"escape":      escape,
		"first":       first,
		"float":       toFloat,
		"forceescape": escape,
		"format": func(r *run, v Value, a *args) Value {
			if len(a.names) > 0 {
				d := NewDict()
				for i, name := range a.names {
					d.Set(name, a.values[i])
				}
				return r.printf(r.str(v), d)
			}
			return r.printf(r.str(v), &List{Items: a.pos, Tuple: true})
		},
		"groupby":    groupby,
		"indent":     indent,
		"int":        toInt,
		"items":      itemsOf,
		"join":       join,
		"last":       last,
		"length":     length,
		"list":       func(r *run, v Value, a *args) Value { a.none(r); return r.list(r.items(v)) },
		"lower":      onText(strings.ToLower),
		"map":        mapped,
		"max":        func(r *run, v Value, a *args) Value { return extreme(r, v, a, 1) },
		"min":        func(r *run, v Value, a *args) Value { return extreme(r, v, a, -1) },
		"reject":     func(r *run, v Value, a *args) Value { return selected(r, v, a, false, false) },
		"rejectattr": func(r *run, v Value, a *args) Value { return selected(r, v, a, true, false) },
		"replace": func(r *run, v Value, a *args) Value {
			b := a.take(r, 2, "old", "new", "count")
			n := or(b[2], nil)
			if n == nil {
				n = int64(-1)
			}
			return r.replace(r.str(v), r.str(b[0]), r.str(b[1]), int(max(a.integer(r, n), -1)))
		},
		"reverse":    reverse,
		"round":      round,
		"safe":       asMarkup(func(s string) string { return s }),
		"select":     func(r *run, v Value, a *args) Value { return selected(r, v, a, false, true) },
		"selectattr": func(r *run, v Value, a *args) Value { return selected(r, v, a, true, true) },
		"slice":      sliced,
		"sort":       sorted,
		"string":     onText(func(s string) string { return s }),
		"sum":        sum,
		"title":      onText(titleWords),
		"tojson":     tojson,
		"trim": func(r *run, v Value, a *args) Value {
			chars := or(a.take(r, 0, "chars")[0], nil)
			return stripper(strings.TrimFunc)(r, r.str(v), &args{fn: a.fn, pos: []Value{chars}})
		},
		"truncate": truncate,
		"unique":   unique,
		"upper":    onText(upper),
		"wordcount": func(r *run, v Value, a *args) Value {
			a.none(r)
			s := r.str(v)
			r.charge(16 * len(s))
			return int64(len(words.FindAllString(s, -1)))
		},
	}
}

// escapes are what HTML needs.
var escapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;")

var words = regexp.MustCompile(`[\pL\pN_]+`)

// list copies items, which may belong to another value.
func (r *run) list(items []Value) *List {
	r.charge(16 * len(items))
	return &List{Items: slices.Clone(items)}
}

// attribute is v.name or v[name] for a path like "function.name"; numbers are places.
func attribute(r *run, v Value, path Value) Value {
	if i, _, kind := number(path); kind == 'i' {
		return r.item(v, i)
	}
	s, ok := path.(string)
	if !ok {
		r.fail("an attribute must be a name or a number, not '%s'", typeName(path))
	}
	r.charge(16 * (strings.Count(s, ".") + 1))
	for _, part := range strings.Split(s, ".") {
		if i, err := strconv.ParseInt(part, 10, 64); err == nil {
			v = r.item(v, i)
		} else {
			v = r.item(v, part)
		}
	}
	return v
}

// key returns what to compare: an attribute if one is named, strings in lower case unless case counts.
func key(r *run, v Value, caseSensitive bool, path Value) Value {
	if path != nil {
		v = attribute(r, v, path)
	}
	if s, ok := v.(string); ok && !caseSensitive {
		r.charge(len(s))
		return strings.ToLower(s)
	}
	return v
}

func abs(r *run, v Value, a *args) Value {
	a.none(r)
	if i, f, kind := number(v); kind == 'i' && i != math.MinInt64 {
		return max(i, -i)
	} else if n, ok := v.(*big.Int); ok {
		return new(big.Int).Abs(n)
	} else if kind == 'f' {
		return math.Abs(f)
	}
	r.refuseUndefined(v)
	r.fail("bad operand type for abs(): '%s'", typeName(v))
	return nil
}

func center(r *run, s string, a *args) Value {
	width := or(a.take(r, 0, "width")[0], int64(80))
	return stringMethods["center"](r, s, &args{fn: a.fn, pos: []Value{width}})
}

func first(r *run, v Value, a *args) Value {
	a.none(r)
	if s, ok := v.(string); ok && s != "" {
		_, size := utf8.DecodeRuneInString(s)
		return s[:size]
	}
	if g, ok := v.(*generator); ok && len(g.items) > 0 {
		item := g.items[0]
		g.items = g.items[1:]
		return item
	}
	if items := r.items(v); len(items) > 0 {
		return items[0]
	}
	return &Undefined{why: "no first item, sequence was empty"}
}

func last(r *run, v Value, a *args) Value {
	a.none(r)
	if s, ok := v.(string); ok && s != "" {
		_, size := utf8.DecodeLastRuneInString(s)
		return s[len(s)-size:]
	}
	if _, ok := v.(*generator); ok {
		r.fail("'generator' object is not reversible")
	}
	if items := r.items(v); len(items) > 0 {
		return items[len(items)-1]
	}
	return &Undefined{why: "no last item, sequence was empty"}
}

func toFloat(r *run, v Value, a *args) Value {
	b := a.take(r, 0, "default")
	r.refuseUndefined(v)
	if _, f, kind := number(v); kind != 0 {
		return f
	}
	if s, ok := v.(string); ok {
		if f, ok := parseFloat(s); ok {
			return f
		}
	}
	return or(b[0], 0.0)
}

func parseFloat(s string) (float64, bool) {
	s = strings.TrimFunc(s, isSpace)
	if strings.ContainsAny(s, "xXpP") {
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil || math.IsInf(f, 0)
}

func toInt(r *run, v Value, a *args) Value {
	b := a.take(r, 0, "default", "base")
	byDefault, base := or(b[0], int64(0)), a.integer(r, or(b[1], int64(10)))
	r.refuseUndefined(v)
	if n, ok := v.(*big.Int); ok {
		return n
	}
	i, f, kind := number(v)
	if s, ok := v.(string); ok {
		r.scan(len(s))
		s = strings.TrimFunc(s, isSpace)
		if base != 10 {
			s = strings.TrimPrefix(strings.ToLower(s), map[int64]string{2: "0b", 8: "0o", 16: "0x"}[base])
		}
		if base >= 2 && base <= 36 {
			if i, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), int(base), 64); err == nil {
				return i
			}
		}
		if f, ok = parseFloat(s); ok {
			kind = 'f'
		}
	}
	switch {
	case kind == 'i':
		return i
	case kind == 'f' && math.Abs(f) < 1<<63: // false for NaN
		return int64(f)
	case kind == 'f' && !math.IsNaN(f) && !math.IsInf(f, 0):
		n, _ := new(big.Float).SetFloat64(f).Int(nil)
		return n
	}
	return byDefault
}

func indent(r *run, v Value, a *args) Value {
	b := a.take(r, 0, "width", "first", "blank")
	s, width := a.text(r, v), or(b[0], int64(4))
	by, ok := width.(string)
	if !ok {
		by = r.pad(" ", a.size(r, width))
	}
	lines := r.splitLines(s+"\n", false) // so that a last empty line counts
	r.charge(len(s) + len(lines)*(len(by)+16))
	for i, line := range lines {
		if i == 0 && truth(or(b[1], false)) || i > 0 && (line != "" || truth(or(b[2], false))) {
			lines[i] = by + line
		}
	}
	return strings.Join(lines, "\n")
}

func itemsOf(r *run, v Value, a *args) Value {
	a.none(r)
	switch v := v.(type) {
	case *Dict:
		return &generator{r.dictItems(v).Items}
	case *Undefined:
		return &generator{}
	}
	r.fail("items: can only get item pairs from a mapping, not '%s'", typeName(v))
	return nil
}

func join(r *run, v Value, a *args) Value {
	b := a.take(r, 0, "d", "attribute")
	sep, path := r.str(or(b[0], "")), or(b[1], nil)
	items := r.items(v)
	parts := make([]string, len(items))
	for i, x := range items {
		if path != nil {
			x = attribute(r, x, path)
		}
		parts[i] = r.str(x)
		r.charge(len(parts[i]) + len(sep) + 16)
	}
	return strings.Join(parts, sep)
}

// round rounds the exact binary value half to even, as Python does.
func round(r *run, v Value, a *args) Value {
	b := a.take(r, 0, "precision", "method")
	precision := a.integer(r, or(b[0], int64(0)))
	r.refuseUndefined(v)
	i, f, kind := number(v)
	if kind == 0 {
		r.fail("round: type %s doesn't define __round__ method", typeName(v))
	}
	if precision < 0 || precision > 300 {
		r.fail("round: precision %d is not supported, want 0 to 300", precision)
	}
	scale := math.Pow(10, float64(precision))
	switch method := or(b[1], "common"); method {
	case "common":
		if kind == 'i' {
			return i
		} else if isBig(v) {
			return v
		}
		rounded, err := strconv.ParseFloat(strconv.FormatFloat(f, 'f', int(precision), 64), 64)
		if err != nil {
			return f // infinite or NaN
		}
		return rounded
	case "ceil":
		return math.Ceil(f*scale) / scale
	case "floor":
		return math.Floor(f*scale) / scale
	default:
		r.fail("round: method must be common, ceil or floor")
	}
	return nil
}

func sum(r *run, v Value, a *args) Value {
	b := a.take(r, 0, "attribute", "start")
	path, total := or(b[0], nil), or(b[1], int64(0))
	for _, x := range r.items(v) {
		if path != nil {
			x = attribute(r, x, path)
		}
		total = r.eval(&binaryExpr{r.line, "+", &constExpr{total}, &constExpr{x}}, nil)
	}
	return total
}

var wordStart = regexp.MustCompile(`[-\s({\[<]+`)

// titleWords is the title filter: words start after space, a hyphen or an opening bracket.
func titleWords(s string) string {
	var b strings.Builder
	for s != "" {
		end := len(s)
		if at := wordStart.FindStringIndex(s); at != nil && at[0] == 0 {
			b.WriteString(s[:at[1]])
			s = s[at[1]:]
			continue
		} else if at != nil {
			end = at[0]
		}
		b.WriteString(capitalize(s[:end]))
		s = s[end:]
	}
	return b.String()
}

func truncate(r *run, v Value, a *args) Value {
	b := a.take(r, 0, "length", "killwords", "end", "leeway")
	length, end := a.size(r, or(b[0], int64(255))), r.str(or(b[2], "..."))
	leeway := a.size(r, or(b[3], int64(5)))
	tail := utf8.RuneCountInString(end)
	if length < tail {
		r.fail("truncate: expected length >= %d, got %d", tail, length)
	}
	if r.length(v) <= length+leeway {
		return v
	}
	s := a.text(r, v)
	r.charge(5 * len(s))
	chars := []rune(s)
	head := string(chars[:length-tail])
	if !truth(or(b[1], false)) {
		if i := strings.LastIndexByte(head, ' '); i >= 0 {
			head = head[:i]
		}
	}
	return head + end
}
