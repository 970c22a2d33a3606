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
		"upper":    onText(strings.ToUpper),
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
	} else if _, isBig := v.(*big.Int); kind == 'f' && !isBig {
		return math.Abs(f)
	}
	r.refuseUndefined(v)
	r.fail("bad operand type for abs(): '%s'", typeName(v))
	return nil
}

func batch(r *run, v Value, a *args) Value {
	b := a.take(r, 1, "linecount", "fill_with")
	n, fill := a.size(r, b[0]), or(b[1], nil)
	if n < 1 {
		r.fail("batch(): linecount must be at least 1")
	}
	out := &List{}
	for rest := r.items(v); len(rest) > 0; rest = rest[min(n, len(rest)):] {
		l := r.list(rest[:min(n, len(rest))])
		if fill != nil {
			r.charge(16 * n)
			for len(l.Items) < n {
				l.Items = append(l.Items, fill)
			}
		}
		out.Items = append(out.Items, l)
	}
	return &generator{out.Items}
}

// sliced divides items into columns; the first ones take what is left over.
func sliced(r *run, v Value, a *args) Value {
	b := a.take(r, 1, "slices", "fill_with")
	items, n, fill := r.items(v), a.size(r, b[0]), or(b[1], nil)
	if n < 1 {
		r.fail("slice(): slices must be at least 1")
	}
	r.charge(40*n + 16*len(items))
	out := &List{}
	per, extra := len(items)/n, len(items)%n
	for i := range n {
		size := per
		if i < extra {
			size++
		}
		l := r.list(items[:size])
		items = items[size:]
		if fill != nil && extra > 0 && i >= extra {
			l.Items = append(l.Items, fill)
		}
		out.Items = append(out.Items, l)
	}
	return &generator{out.Items}
}

func center(r *run, s string, a *args) Value {
	width := or(a.take(r, 0, "width")[0], int64(80))
	return stringMethods["center"](r, s, &args{fn: a.fn, pos: []Value{width}})
}

func dictsort(r *run, v Value, a *args) Value {
	b := a.take(r, 0, "case_sensitive", "by", "reverse")
	d, ok := v.(*Dict)
	if !ok {
		r.refuseUndefined(v)
		r.fail("dictsort: '%s' object has no attribute 'items'", typeName(v))
	}
	place := int64(0)
	switch by := or(b[1], "key"); by {
	case "key":
	case "value":
		place = 1
	default:
		r.fail(`dictsort: you can only sort by either "key" or "value"`)
	}
	items := r.dictItems(d)
	r.sort(items.Items, truth(or(b[0], false)), place, truth(or(b[2], false)))
	return items
}

// sort sorts items in place, stably.
func (r *run) sort(items []Value, caseSensitive bool, path Value, descending bool) {
	r.charge(48 * len(items))
	type keyed struct{ key, item Value }
	all := make([]keyed, len(items))
	for i, v := range items {
		all[i] = keyed{key(r, v, caseSensitive, path), v}
	}
	slices.SortStableFunc(all, func(x, y keyed) int {
		if c := r.compare(x.key, y.key, "<", 0); !descending {
			return c
		} else {
			return -c
		}
	})
	for i, k := range all {
		items[i] = k.item
	}
}

func sorted(r *run, v Value, a *args) Value {
	b := a.take(r, 0, "reverse", "case_sensitive", "attribute")
	l := r.list(r.items(v))
	r.sort(l.Items, truth(or(b[1], false)), or(b[2], nil), truth(or(b[0], false)))
	return l
}

func groupby(r *run, v Value, a *args) Value {
	b := a.take(r, 1, "attribute", "default", "case_sensitive")
	l := r.list(r.items(v))
	sensitive := truth(or(b[2], false))
	grouper := func(v Value) Value {
		k := attribute(r, v, b[0])
		if _, undefined := k.(*Undefined); undefined {
			return or(b[1], k)
		}
		return k
	}
	fold := func(v Value) Value { return key(r, v, sensitive, nil) }
	slices.SortStableFunc(l.Items, func(x, y Value) int { return r.compare(fold(grouper(x)), fold(grouper(y)), "<", 0) })
	out := &List{}
	var group *List
	for i, x := range l.Items {
		if i == 0 || !r.equal(fold(grouper(x)), fold(grouper(l.Items[i-1])), 0) {
			group = &List{}
			r.charge(120)
			out.Items = append(out.Items, &List{Items: []Value{grouper(x), group}, Tuple: true, names: []string{"grouper", "list"}})
		}
		group.Items = append(group.Items, x)
	}
	return out
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
	}
	return byDefault
}

func indent(r *run, v Value, a *args) Value {
	b := a.take(r, 0, "width", "first", "blank")
	s, width := r.str(v), or(b[0], int64(4))
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

// mapped is map("filter", ...) or map(attribute=..., default=...).
func mapped(r *run, v Value, a *args) Value {
	var each func(v Value) Value
	if len(a.pos) == 0 {
		b := a.take(r, 1, "attribute", "default")
		each = func(v Value) Value {
			x := attribute(r, v, b[0])
			if _, undefined := x.(*Undefined); undefined {
				if fallback := or(b[1], nil); fallback != nil {
					return fallback
				}
			}
			return x
		}
	} else {
		name := a.text(r, a.pos[0])
		f := filterTable[name]
		if f == nil {
			r.fail("no filter named '%s'", name)
		}
		each = func(v Value) Value { return f(r, v, &args{name, a.pos[1:], a.names, a.values}) }
	}
	defer r.enter()()
	l := &List{}
	if truth(v) {
		for _, x := range r.items(v) {
			r.step()
			l.Items = append(l.Items, each(x))
		}
	}
	return &generator{l.Items}
}

// selected keeps the items whose test gives want. byAttr tests an attribute, named by the first argument.
func selected(r *run, v Value, a *args, byAttr, want bool) Value {
	rest := a.pos
	var path Value
	if byAttr {
		if len(rest) == 0 {
			r.fail("%s: missing parameter for attribute name", a.fn)
		}
		path, rest = rest[0], rest[1:]
	}
	holds := func(v Value) bool { return truth(v) }
	if len(rest) > 0 {
		name := a.text(r, rest[0])
		t := testTable[name]
		if t == nil {
			r.fail("no test named '%s'", name)
		}
		holds = func(v Value) bool { return t(r, v, &args{name, rest[1:], a.names, a.values}) }
	}
	l := &List{}
	if truth(v) {
		for _, x := range r.items(v) {
			r.step()
			y := x
			if byAttr {
				y = attribute(r, x, path)
			}
			if holds(y) == want {
				l.Items = append(l.Items, x)
			}
		}
	}
	return &generator{l.Items}
}

func extreme(r *run, v Value, a *args, sign int) Value {
	b := a.take(r, 0, "case_sensitive", "attribute")
	sensitive, path := truth(or(b[0], false)), or(b[1], nil)
	items := r.items(v)
	if len(items) == 0 {
		return &Undefined{why: "no aggregated item, sequence was empty"}
	}
	best, bestKey := items[0], key(r, items[0], sensitive, path)
	for _, x := range items[1:] {
		if k := key(r, x, sensitive, path); sign*r.compare(k, bestKey, "<", 0) > 0 {
			best, bestKey = x, k
		}
	}
	return best
}

func reverse(r *run, v Value, a *args) Value {
	a.none(r)
	if s, ok := v.(string); ok {
		r.charge(5 * len(s))
		chars := []rune(s)
		slices.Reverse(chars)
		return string(chars)
	}
	l := r.list(r.items(v))
	slices.Reverse(l.Items)
	if _, ok := v.(*generator); ok {
		return l
	}
	return &generator{l.Items}
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
	s, length, end := r.str(v), a.size(r, or(b[0], int64(255))), r.str(or(b[2], "..."))
	leeway := a.size(r, or(b[3], int64(5)))
	r.charge(5 * len(s))
	chars, tail := []rune(s), utf8.RuneCountInString(end)
	if length < tail {
		r.fail("truncate: expected length >= %d, got %d", tail, length)
	}
	if len(chars) <= length+leeway {
		return s
	}
	head := string(chars[:length-tail])
	if !truth(or(b[1], false)) {
		if i := strings.LastIndexByte(head, ' '); i >= 0 {
			head = head[:i]
		}
	}
	return head + end
}

func unique(r *run, v Value, a *args) Value {
	b := a.take(r, 0, "case_sensitive", "attribute")
	seen := NewDict()
	l := &List{}
	for _, x := range r.items(v) {
		k := key(r, x, truth(or(b[0], false)), or(b[1], nil))
		if _, found := seen.Get(k); found {
			continue
		}
		if !seen.Set(k, nil) {
			r.fail("unhashable type: '%s'", typeName(k))
		}
		r.charge(64)
		l.Items = append(l.Items, x)
	}
	return &generator{l.Items}
}
