package jinja

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// method returns a method or built-in attribute of v. What would change v is missing, as in Jinja2's immutable sandbox.
func (r *run) method(v Value, name string) (Value, bool) {
	switch v := v.(type) {
	case string:
		if f, ok := stringMethods[name]; ok {
			return &Func{name, func(r *run, a *args) Value {
				r.scan(len(v))
				return f(r, v, a)
			}}, true
		}
	case *Dict:
		if f, ok := dictMethods[name]; ok {
			return &Func{name, func(r *run, a *args) Value { return f(r, v, a) }}, true
		}
		if slices.Contains([]string{"pop", "popitem", "clear", "update", "setdefault"}, name) {
			return &Undefined{why: "access to attribute '" + name + "' of 'dict' object is unsafe: a template cannot change it"}, true
		}
	case *List:
		if i := slices.Index(v.names, name); i >= 0 {
			return v.Items[i], true
		}
		if v.view != "" {
			return nil, false
		}
		if f, ok := listMethods[name]; ok && !(v.Tuple && name == "copy") {
			return &Func{name, func(r *run, a *args) Value { return f(r, v, a) }}, true
		}
		if slices.Contains([]string{"append", "pop", "insert", "extend", "remove", "reverse", "sort", "clear"}, name) {
			return &Undefined{why: "access to attribute '" + name + "' of 'list' object is unsafe: a template cannot change it"}, true
		}
	case *Namespace:
		return v.attrs.Get(name)
	case *loop:
		return v.attr(name)
	case *macro:
		if name == "name" {
			return v.name, true
		}
	}
	return nil, false
}

var dictMethods = map[string]func(r *run, d *Dict, a *args) Value{
	"get": func(r *run, d *Dict, a *args) Value {
		b := a.take(r, 1, "key", "default")
		if v, ok := d.Get(b[0]); ok {
			return v
		}
		return or(b[1], nil)
	},
	"items": func(r *run, d *Dict, a *args) Value {
		a.none(r)
		items := r.dictItems(d)
		items.view = "dict_items"
		return items
	},
	"keys": func(r *run, d *Dict, a *args) Value {
		a.none(r)
		r.charge(16 * d.Len())
		return &List{Items: slices.Clone(d.keys), view: "dict_keys"}
	},
	"values": func(r *run, d *Dict, a *args) Value {
		a.none(r)
		r.charge(16 * d.Len())
		return &List{Items: slices.Clone(d.values), view: "dict_values"}
	},
	"copy": func(r *run, d *Dict, a *args) Value {
		a.none(r)
		return d // nothing can change it
	},
}

func (r *run) dictItems(d *Dict) *List {
	r.charge(100 * d.Len())
	items := &List{}
	for i, k := range d.keys {
		items.Items = append(items.Items, &List{Items: []Value{k, d.values[i]}, Tuple: true})
	}
	return items
}

var listMethods = map[string]func(r *run, l *List, a *args) Value{
	"count": func(r *run, l *List, a *args) Value {
		n, x := int64(0), a.take(r, 1, "value")[0]
		for _, y := range l.Items {
			if r.equal(x, y, 0) {
				n++
			}
		}
		return n
	},
	"index": func(r *run, l *List, a *args) Value {
		x := a.take(r, 1, "value")[0]
		for i, y := range l.Items {
			if r.equal(x, y, 0) {
				return int64(i)
			}
		}
		r.fail("%s is not in list", r.str(x))
		return nil
	},
	"copy": func(r *run, l *List, a *args) Value {
		a.none(r)
		return l
	},
}

type stringMethod func(r *run, s string, a *args) Value

var stringMethods map[string]stringMethod

func init() {
	stringMethods = map[string]stringMethod{
		"strip":      stripper(strings.TrimFunc),
		"lstrip":     stripper(strings.TrimLeftFunc),
		"rstrip":     stripper(strings.TrimRightFunc),
		"upper":      mapper(upper),
		"lower":      mapper(strings.ToLower),
		"casefold":   mapper(strings.ToLower),
		"capitalize": mapper(capitalize),
		"title":      mapper(title),
		"swapcase":   mapper(swapcase),
		"isdigit":    tester(unicode.IsDigit),
		"isdecimal":  tester(unicode.IsDigit),
		"isnumeric":  tester(unicode.IsNumber),
		"isalpha":    tester(unicode.IsLetter),
		"isalnum":    tester(func(c rune) bool { return unicode.IsLetter(c) || unicode.IsNumber(c) }),
		"isspace":    tester(isSpace),
		"isupper":    func(r *run, s string, a *args) Value { return s != strings.ToLower(s) && s == strings.ToUpper(s) },
		"islower":    func(r *run, s string, a *args) Value { return s != strings.ToUpper(s) && s == strings.ToLower(s) },
		"startswith": affix(strings.HasPrefix),
		"endswith":   affix(strings.HasSuffix),
		"removeprefix": func(r *run, s string, a *args) Value {
			return strings.TrimPrefix(s, a.text(r, a.take(r, 1, "prefix")[0]))
		},
		"removesuffix": func(r *run, s string, a *args) Value {
			return strings.TrimSuffix(s, a.text(r, a.take(r, 1, "suffix")[0]))
		},
		"find":   finder(strings.Index, false),
		"rfind":  finder(strings.LastIndex, false),
		"index":  finder(strings.Index, true),
		"rindex": finder(strings.LastIndex, true),
		"count": func(r *run, s string, a *args) Value {
			return int64(strings.Count(s, a.text(r, a.take(r, 1, "sub")[0])))
		},
		"replace": func(r *run, s string, a *args) Value {
			b := a.take(r, 2, "old", "new", "count")
			return r.replace(s, a.text(r, b[0]), a.text(r, b[1]), int(max(a.integer(r, or(b[2], int64(-1))), -1)))
		},
		"join": func(r *run, s string, a *args) Value {
			var parts []string
			for _, v := range r.items(a.take(r, 1, "iterable")[0]) {
				parts = append(parts, a.text(r, v))
				r.charge(len(s) + len(parts[len(parts)-1]) + 16)
			}
			return strings.Join(parts, s)
		},
		"split":  splitter(false),
		"rsplit": splitter(true),
		"splitlines": func(r *run, s string, a *args) Value {
			return r.texts(r.splitLines(s, truth(or(a.take(r, 0, "keepends")[0], false))))
		},
		"partition": func(r *run, s string, a *args) Value {
			before, after, found := strings.Cut(s, r.separator(a, a.take(r, 1, "sep")[0]))
			if !found {
				return &List{Items: []Value{s, "", ""}, Tuple: true}
			}
			return &List{Items: []Value{before, a.pos[0], after}, Tuple: true}
		},
		"rpartition": func(r *run, s string, a *args) Value {
			sep := r.separator(a, a.take(r, 1, "sep")[0])
			i := strings.LastIndex(s, sep)
			if i < 0 {
				return &List{Items: []Value{"", "", s}, Tuple: true}
			}
			return &List{Items: []Value{s[:i], sep, s[i+len(sep):]}, Tuple: true}
		},
		"zfill": func(r *run, s string, a *args) Value {
			n := a.size(r, a.take(r, 1, "width")[0]) - utf8.RuneCountInString(s)
			sign := ""
			if s != "" && (s[0] == '-' || s[0] == '+') {
				sign, s = s[:1], s[1:]
			}
			return sign + r.pad("0", n) + s
		},
		"ljust": func(r *run, s string, a *args) Value {
			n, fill := r.width(s, a)
			return s + r.pad(fill, n)
		},
		"rjust": func(r *run, s string, a *args) Value {
			n, fill := r.width(s, a)
			return r.pad(fill, n) + s
		},
		"center": func(r *run, s string, a *args) Value {
			n, fill := r.width(s, a)
			if n <= 0 {
				return s
			}
			left := n / 2
			if n%2 == 1 && utf8.RuneCountInString(s)%2 == 0 { // as CPython decides it: odd widths lean left
				left = n/2 + 1
			}
			return r.pad(fill, left) + s + r.pad(fill, n-left)
		},
		"format": func(r *run, s string, a *args) Value { return r.format(s, a) },
	}
}

func (r *run) width(s string, a *args) (n int, fill string) {
	b := a.take(r, 1, "width", "fillchar")
	fill = a.text(r, or(b[1], " "))
	if utf8.RuneCountInString(fill) != 1 {
		r.fail("%s(): the fill character must be exactly one character long", a.fn)
	}
	return a.size(r, b[0]) - utf8.RuneCountInString(s), fill
}

func (r *run) pad(fill string, n int) string {
	n = max(n, 0)
	r.charge(n * len(fill))
	return strings.Repeat(fill, n)
}

func stripper(trim func(string, func(rune) bool) string) stringMethod {
	return func(r *run, s string, a *args) Value {
		set := or(a.take(r, 0, "chars")[0], nil)
		if set == nil {
			return trim(s, isSpace)
		}
		chars := a.text(r, set)
		return trim(s, func(c rune) bool { return strings.ContainsRune(chars, c) })
	}
}

func mapper(f func(string) string) stringMethod {
	return func(r *run, s string, a *args) Value {
		a.none(r)
		r.charge(len(s))
		return f(s)
	}
}

func tester(f func(rune) bool) stringMethod {
	return func(r *run, s string, a *args) Value {
		a.none(r)
		for _, c := range s {
			if !f(c) {
				return false
			}
		}
		return s != ""
	}
}

func affix(has func(s, affix string) bool) stringMethod {
	return func(r *run, s string, a *args) Value {
		switch v := a.take(r, 1, "affix")[0].(type) {
		case *List:
			for _, x := range v.Items {
				if has(s, a.text(r, x)) {
					return true
				}
			}
			return false
		default:
			return has(s, a.text(r, v))
		}
	}
}

// finder counts in characters, not bytes.
func finder(find func(s, sub string) int, must bool) stringMethod {
	return func(r *run, s string, a *args) Value {
		sub := a.text(r, a.take(r, 1, "sub")[0])
		i := find(s, sub)
		switch {
		case i >= 0:
			return int64(utf8.RuneCountInString(s[:i]))
		case must:
			r.fail("substring not found")
		}
		return int64(-1)
	}
}

// replace replaces old in s, n times or, if n is negative, everywhere.
func (r *run) replace(s, old, new string, n int) string {
	times := strings.Count(s, old)
	if n >= 0 {
		times = min(times, n)
	}
	if grow := len(new) - len(old); grow > 0 && times > r.limits.bytes/grow {
		r.charge(r.limits.bytes + 1)
	}
	r.charge(len(s) + times*(len(new)-len(old)))
	return strings.Replace(s, old, new, n)
}

func (r *run) separator(a *args, v Value) string {
	sep := a.text(r, v)
	if sep == "" {
		r.fail("empty separator")
	}
	return sep
}

// texts makes a list of strings.
func (r *run) texts(parts []string) *List {
	r.charge(16 * len(parts))
	l := &List{Items: make([]Value, len(parts))}
	for i, p := range parts {
		l.Items[i] = p
	}
	return l
}

func splitter(right bool) stringMethod {
	return func(r *run, s string, a *args) Value {
		b := a.take(r, 0, "sep", "maxsplit")
		n := int(max(min(a.integer(r, or(b[1], int64(-1))), int64(len(s)+1)), -1))
		sep := or(b[0], nil)
		if sep == nil {
			r.charge(8 * len(s)) // room for a field in every second place
			return r.texts(fields(s, n, right))
		}
		mark := r.separator(a, sep)
		r.charge(16 * (strings.Count(s, mark) + 1))
		switch {
		case n < 0:
			return r.texts(strings.Split(s, mark))
		case !right:
			return r.texts(strings.SplitN(s, mark, n+1))
		}
		var parts []string
		for ; n > 0; n-- {
			i := strings.LastIndex(s, mark)
			if i < 0 {
				break
			}
			parts, s = append(parts, s[i+len(mark):]), s[:i]
		}
		parts = append(parts, s)
		slices.Reverse(parts)
		return r.texts(parts)
	}
}

// fields splits at runs of space, at most n times if n is not negative.
func fields(s string, n int, right bool) []string {
	if n < 0 {
		return strings.FieldsFunc(s, isSpace)
	}
	var parts []string
	if right {
		for s = strings.TrimRightFunc(s, isSpace); s != ""; s = strings.TrimRightFunc(s, isSpace) {
			i := strings.LastIndexFunc(s, isSpace)
			if n == 0 || i < 0 {
				parts = append(parts, s)
				break
			}
			_, size := utf8.DecodeRuneInString(s[i:])
			parts, s, n = append(parts, s[i+size:]), s[:i], n-1
		}
		slices.Reverse(parts)
		return parts
	}
	for s = strings.TrimLeftFunc(s, isSpace); s != ""; s = strings.TrimLeftFunc(s, isSpace) {
		i := strings.IndexFunc(s, isSpace)
		if n == 0 || i < 0 {
			return append(parts, s)
		}
		parts, s, n = append(parts, s[:i]), s[i:], n-1
	}
	return parts
}

// splitLines splits at Python's line ends; the last line is left out if it is empty.
func (r *run) splitLines(s string, keep bool) []string {
	var lines []string
	for s != "" {
		i := strings.IndexFunc(s, func(c rune) bool {
			return c >= '\n' && c <= '\r' || c >= 0x1c && c <= 0x1e || c == 0x85 || c == 0x2028 || c == 0x2029
		})
		if i < 0 {
			return append(lines, s)
		}
		_, size := utf8.DecodeRuneInString(s[i:])
		if strings.HasPrefix(s[i:], "\r\n") {
			size = 2
		}
		r.charge(16)
		if keep {
			lines = append(lines, s[:i+size])
		} else {
			lines = append(lines, s[:i])
		}
		s = s[i+size:]
	}
	return lines
}

func capitalize(s string) string {
	c, size := utf8.DecodeRuneInString(s)
	if size == 0 {
		return s
	}
	return string(unicode.ToTitle(c)) + strings.ToLower(s[size:])
}

// title is str.title: a letter after a letter is lower case, others are upper.
func title(s string) string {
	inside := false
	return strings.Map(func(c rune) rune {
		was := inside
		inside = unicode.IsLetter(c)
		if was {
			return unicode.ToLower(c)
		}
		return unicode.ToTitle(c)
	}, s)
}

// upper knows the one common letter whose upper case is two.
func upper(s string) string { return strings.ReplaceAll(strings.ToUpper(s), "ß", "SS") }

func swapcase(s string) string {
	return strings.Map(func(c rune) rune {
		if unicode.IsUpper(c) {
			return unicode.ToLower(c)
		}
		return unicode.ToUpper(c)
	}, s)
}
