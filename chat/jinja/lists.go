package jinja

import "slices"

// Filters over the items of lists and dicts.

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
