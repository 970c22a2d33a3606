package jinja

// jump is how a statement ended, and as a statement {% break %} or {% continue %}.
type jump byte

const (
	done jump = iota
	broke
	continued
)

type stmt interface{ exec(r *run, s *scope) jump }

func (r *run) exec(body []stmt, s *scope) jump {
	for _, st := range body {
		r.step()
		if j := st.exec(r, s); j != done {
			return j
		}
	}
	return done
}

func (j jump) exec(*run, *scope) jump { return j }

// text is what stands between tags.
type text string

func (t text) exec(r *run, s *scope) jump {
	r.write(string(t))
	return done
}

// printStmt is {{ value }}.
type printStmt struct {
	line  int
	value expr
}

func (p *printStmt) exec(r *run, s *scope) jump {
	r.line = p.line
	r.write(r.str(r.eval(p.value, s)))
	return done
}

type branch struct {
	test expr
	body []stmt
}

type ifStmt struct {
	branches []branch
	orElse   []stmt
}

func (i *ifStmt) exec(r *run, s *scope) jump {
	for _, b := range i.branches {
		if truth(r.eval(b.test, s)) {
			return r.exec(b.body, s)
		}
	}
	return r.exec(i.orElse, s)
}

// target is what is assigned to: a name, a namespace's attribute, or a tuple of these.
type target struct {
	line  int
	name  string
	attr  string
	tuple []target
}

func (t target) assign(r *run, s *scope, v Value) {
	r.line = t.line
	switch {
	case t.tuple != nil:
		items := r.items(v)
		if len(items) != len(t.tuple) {
			r.fail("cannot unpack %d values into %d names", len(items), len(t.tuple))
		}
		for i, part := range t.tuple {
			part.assign(r, s, items[i])
		}
	case t.attr != "":
		v0, _ := s.get(t.name)
		ns, ok := v0.(*Namespace)
		if !ok {
			r.fail("cannot assign attribute '%s' on '%s': it is no namespace object", t.attr, t.name)
		}
		ns.attrs.Set(t.attr, v)
	default:
		s.set(t.name, v)
	}
}

type setStmt struct {
	line   int
	target target
	value  expr
}

func (t *setStmt) exec(r *run, s *scope) jump {
	r.line = t.line
	t.target.assign(r, s, r.eval(t.value, s))
	return done
}

// setBlockStmt is {% set x %}...{% endset %}. filter, if not nil, is applied to the text through value.
type setBlockStmt struct {
	line   int
	target target
	value  *constExpr
	filter expr
	body   []stmt
}

func (t *setBlockStmt) exec(r *run, s *scope) jump {
	var j jump
	var v Value = r.capture(func() { j = r.exec(t.body, newScope(s)) })
	if t.filter != nil {
		v = r.eval(withInput(t.filter, t.value, v), s)
	}
	t.target.assign(r, s, v)
	return j
}

type filterStmt struct {
	line   int
	value  *constExpr
	filter expr
	body   []stmt
}

func (f *filterStmt) exec(r *run, s *scope) jump {
	var j jump
	v := r.capture(func() { j = r.exec(f.body, newScope(s)) })
	r.line = f.line
	r.write(r.str(r.eval(withInput(f.filter, f.value, v), s)))
	return j
}

// withInput returns a chain of filters over v in place of hole. Templates are shared, so the chain is copied.
func withInput(e expr, hole *constExpr, v Value) expr {
	f, ok := e.(*filterExpr)
	if !ok {
		return &constExpr{v}
	}
	filled := *f
	filled.value = withInput(f.value, hole, v)
	return &filled
}

type withStmt struct {
	line    int
	targets []target
	values  []expr
	body    []stmt
}

func (w *withStmt) exec(r *run, s *scope) jump {
	inner := newScope(s)
	for i, t := range w.targets {
		t.assign(r, inner, r.eval(w.values[i], s))
	}
	return r.exec(w.body, inner)
}

type scopeStmt struct{ body []stmt }

func (b *scopeStmt) exec(r *run, s *scope) jump { return r.exec(b.body, newScope(s)) }

type forStmt struct {
	line      int
	target    target
	iter      expr
	filter    expr
	recursive bool
	body      []stmt
	orElse    []stmt
}

func (f *forStmt) exec(r *run, s *scope) jump {
	r.line = f.line
	v := plain(r.eval(f.iter, s))
	r.line = f.line
	return f.loop(r, s, v, 1)
}

func (f *forStmt) loop(r *run, s *scope, v Value, depth int) jump {
	items := r.items(v)
	if f.filter != nil {
		var kept []Value
		for _, x := range items {
			r.step()
			inner := newScope(s)
			f.target.assign(r, inner, x)
			if truth(r.eval(f.filter, inner)) {
				kept = append(kept, x)
			}
		}
		items = kept
	}
	if len(items) == 0 {
		return r.exec(f.orElse, newScope(s))
	}
	l := &loop{items: items, depth: depth}
	if f.recursive {
		l.recurse = func(r *run, v Value) Value {
			defer r.enter()()
			return r.capture(func() { f.loop(r, s, v, depth+1) })
		}
	}
	for i, x := range items {
		r.step()
		l.at = i
		inner := newScope(s)
		inner.set("loop", l)
		f.target.assign(r, inner, x)
		if r.exec(f.body, inner) == broke {
			break
		}
	}
	return done
}

// attr returns an attribute of the loop variable.
func (l *loop) attr(name string) (Value, bool) {
	n, i := len(l.items), l.at
	switch name {
	case "index":
		return int64(i + 1), true
	case "index0":
		return int64(i), true
	case "revindex":
		return int64(n - i), true
	case "revindex0":
		return int64(n - i - 1), true
	case "first":
		return i == 0, true
	case "last":
		return i == n-1, true
	case "length":
		return int64(n), true
	case "depth":
		return int64(l.depth), true
	case "depth0":
		return int64(l.depth - 1), true
	case "previtem":
		if i == 0 {
			return &Undefined{why: "there is no previous item"}, true
		}
		return l.items[i-1], true
	case "nextitem":
		if i == n-1 {
			return &Undefined{why: "there is no next item"}, true
		}
		return l.items[i+1], true
	case "cycle":
		return &Func{"cycle", func(r *run, a *args) Value {
			if len(a.pos) == 0 {
				r.fail("no items for cycling given")
			}
			return a.pos[l.at%len(a.pos)]
		}}, true
	case "changed":
		return &Func{"changed", func(r *run, a *args) Value {
			now := &List{Items: a.pos, Tuple: true}
			same := l.changed && r.equal(l.last, now, 0)
			l.last, l.changed = now, true
			return !same
		}}, true
	}
	return nil, false
}

// macro is the body of a {% macro %} or {% call %} block; closed over a scope it is a value.
type macro struct {
	name   string
	params []param
	body   []stmt
	// Which of the special names the body mentions: only then it takes what they hold.
	varargs, kwargs, caller bool
	scope                   *scope
}

type param struct {
	name      string
	byDefault expr // nil if there is none
}

func (m *macro) mentions(name string) {
	switch name {
	case "varargs":
		m.varargs = true
	case "kwargs":
		m.kwargs = true
	case "caller":
		m.caller = true
	}
}

func (m *macro) call(r *run, a *args) Value {
	defer r.enter()()
	s := newScope(m.scope)
	kw := NewDict()
	for i, name := range a.names {
		kw.Set(name, a.values[i])
	}
	used := 0
	for i, p := range m.params {
		switch v, named := kw.Get(p.name); {
		case i < len(a.pos):
			if named {
				r.fail("macro '%s' got two values for '%s'", m.name, p.name)
			}
			s.set(p.name, a.pos[i])
		case named:
			s.set(p.name, v)
			used++
		case p.byDefault != nil:
			s.set(p.name, r.eval(p.byDefault, s))
		default:
			s.set(p.name, &Undefined{why: "parameter '" + p.name + "' was not provided"})
		}
	}
	rest := NewDict()
	for i, name := range a.names {
		if !m.has(name) {
			rest.Set(name, a.values[i])
		}
	}
	if m.caller && !m.has("caller") {
		if v, ok := rest.Get("caller"); ok {
			s.set("caller", v)
			rest = rest.without("caller")
		} else {
			s.set("caller", &Undefined{why: "no caller defined"})
		}
	}
	switch {
	case m.kwargs:
		s.set("kwargs", rest)
	case rest.Len() > 0:
		r.fail("macro '%s' takes no keyword argument '%s'", m.name, r.str(rest.keys[0]))
	}
	switch extra := max(0, len(a.pos)-len(m.params)); {
	case m.varargs:
		s.set("varargs", &List{Items: a.pos[len(a.pos)-extra:], Tuple: true})
	case extra > 0:
		r.fail("macro '%s' takes not more than %d argument(s)", m.name, len(m.params))
	}
	return r.capture(func() { r.exec(m.body, s) })
}

func (m *macro) has(param string) bool {
	for _, p := range m.params {
		if p.name == param {
			return true
		}
	}
	return false
}

func (d *Dict) without(key string) *Dict {
	rest := NewDict()
	for i, k := range d.keys {
		if k != key {
			rest.Set(k, d.values[i])
		}
	}
	return rest
}

type macroStmt struct{ macro *macro }

func (m *macroStmt) exec(r *run, s *scope) jump {
	closed := *m.macro
	closed.scope = s
	s.set(closed.name, &closed)
	return done
}

type callStmt struct {
	line int
	call *callExpr
	body *macro
}

func (c *callStmt) exec(r *run, s *scope) jump {
	closed := *c.body
	closed.scope = s
	a := c.call.args.eval(r, s)
	a.names, a.values = append(a.names, "caller"), append(a.values, &closed)
	f := r.eval(c.call.fn, s)
	r.line = c.line
	r.write(r.str(r.call(f, a)))
	return done
}
