package jinja

import (
	"math"
	"math/big"
	"strings"
)

type expr interface{ eval(r *run, s *scope) Value }

type constExpr struct{ value Value }

func (e *constExpr) eval(*run, *scope) Value { return e.value }

type nameExpr struct {
	line int
	name string
}

func (e *nameExpr) eval(r *run, s *scope) Value {
	r.line = e.line
	if v, ok := s.get(e.name); ok {
		return v
	}
	return &Undefined{why: "'" + e.name + "' is undefined"}
}

// refuseUndefined fails if v is undefined, saying what is.
func (r *run) refuseUndefined(v Value) {
	if u, ok := v.(*Undefined); ok {
		r.fail("%s", u.why)
	}
}

type listExpr struct {
	items []expr
	tuple bool
}

func (e *listExpr) eval(r *run, s *scope) Value {
	r.charge(16 * len(e.items))
	l := &List{Items: make([]Value, len(e.items)), Tuple: e.tuple}
	for i, x := range e.items {
		l.Items[i] = plain(r.eval(x, s))
	}
	return l
}

type dictExpr struct {
	line         int
	keys, values []expr
}

func (e *dictExpr) eval(r *run, s *scope) Value {
	r.charge(64 * len(e.keys))
	d := NewDict()
	for i, k := range e.keys {
		key := plain(r.eval(k, s))
		r.line = e.line
		if !d.Set(key, plain(r.eval(e.values[i], s))) {
			r.refuseUndefined(key)
			r.fail("unhashable type: '%s'", typeName(key))
		}
	}
	return d
}

type condExpr struct{ test, then, orElse expr }

func (e *condExpr) eval(r *run, s *scope) Value {
	switch {
	case truth(r.eval(e.test, s)):
		return r.eval(e.then, s)
	case e.orElse != nil:
		return r.eval(e.orElse, s)
	}
	return &Undefined{why: "the inline if-expression evaluated to false and no else section was defined"}
}

type logicExpr struct {
	or          bool
	left, right expr
}

func (e *logicExpr) eval(r *run, s *scope) Value {
	left := r.eval(e.left, s)
	if truth(left) == e.or {
		return left
	}
	return r.eval(e.right, s)
}

type notExpr struct{ value expr }

func (e *notExpr) eval(r *run, s *scope) Value { return !truth(r.eval(e.value, s)) }

type compareExpr struct {
	line  int
	first expr
	ops   []string
	rest  []expr
}

func (e *compareExpr) eval(r *run, s *scope) Value {
	left := plain(r.eval(e.first, s))
	for i, op := range e.ops {
		right := plain(r.eval(e.rest[i], s))
		r.line = e.line
		if !r.holds(op, left, right) {
			return false
		}
		left = right
	}
	return true
}

func (r *run) holds(op string, a, b Value) bool {
	switch op {
	case "==":
		return r.equal(a, b, 0)
	case "!=":
		return !r.equal(a, b, 0)
	case "in":
		return r.contains(b, a)
	case "not in":
		return !r.contains(b, a)
	}
	if _, f, kind := number(a); kind != 0 {
		if _, g, other := number(b); other != 0 && (math.IsNaN(f) || math.IsNaN(g)) {
			return false
		}
	}
	switch c := r.compare(a, b, op, 0); op {
	case "<":
		return c < 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	default:
		return c >= 0
	}
}

type signExpr struct {
	line  int
	sign  string
	value expr
}

func (e *signExpr) eval(r *run, s *scope) Value {
	v := r.eval(e.value, s)
	r.line = e.line
	i, f, kind := number(v)
	n, isBig := v.(*big.Int)
	switch {
	case isBig && e.sign == "+":
		return n
	case isBig:
		return new(big.Int).Neg(n)
	case kind == 'i' && e.sign == "+":
		return i
	case kind == 'i' && i != math.MinInt64:
		return -i
	case kind == 'f' && e.sign == "+":
		return f
	case kind == 'f':
		return -f
	}
	r.refuseUndefined(v)
	r.fail("bad operand for unary %s: '%s'", e.sign, typeName(v))
	return nil
}

type binaryExpr struct {
	line        int
	op          string
	left, right expr
}

func (e *binaryExpr) eval(r *run, s *scope) Value {
	r.step()
	a, b := r.eval(e.left, s), r.eval(e.right, s)
	r.line = e.line
	if e.op == "~" {
		return r.join(r.str(a), r.str(b))
	}
	r.refuseUndefined(a)
	if _, text := a.(string); !text || e.op != "%" { // text without a conversion takes even that
		r.refuseUndefined(b)
	}
	if e.op == "+" {
		if v, ok := r.addMarkup(a, b); ok {
			return v
		}
	}
	a, b = plain(a), plain(b)
	if v, ok := r.sequence(e.op, a, b); ok {
		return v
	}
	_, floatA := a.(float64)
	_, floatB := b.(float64)
	i, f, kind := number(a)
	j, g, other := number(b)
	switch {
	case kind == 0 || other == 0:
		r.fail("unsupported operand type(s) for %s: '%s' and '%s'", e.op, typeName(a), typeName(b))
	case (isBig(a) || isBig(b)) && !floatA && !floatB:
		r.fail("arithmetic with integers beyond 64 bits is not supported")
	case kind == 'i' && other == 'i' && e.op != "/" && !(e.op == "**" && j < 0):
		return r.integer(e.op, i, j)
	}
	return r.float(e.op, f, g)
}

type attrExpr struct {
	line  int
	value expr
	name  string
}

func (e *attrExpr) eval(r *run, s *scope) Value {
	r.step()
	v := plain(r.eval(e.value, s))
	r.line = e.line
	return r.attr(v, e.name)
}

// attr is v.name: an attribute or method first, then a key.
func (r *run) attr(v Value, name string) Value {
	r.refuseUndefined(v)
	if m, ok := r.method(v, name); ok {
		return m
	}
	if d, ok := v.(*Dict); ok {
		if x, found := d.Get(name); found {
			return x
		}
	}
	return missing(v, name)
}

func missing(v Value, name string) Value {
	if v == nil {
		return &Undefined{why: "'None' has no attribute '" + name + "'"}
	}
	return &Undefined{why: "'" + typeName(v) + " object' has no attribute '" + name + "'"}
}

// itemExpr is value[key].
type itemExpr struct {
	line  int
	value expr
	key   expr
}

func (e *itemExpr) eval(r *run, s *scope) Value {
	r.step()
	v, key := plain(r.eval(e.value, s)), plain(r.eval(e.key, s))
	r.line = e.line
	return r.item(v, key)
}

// item is v[key]: a key or place first, then an attribute or method.
func (r *run) item(v, key Value) Value {
	r.refuseUndefined(v)
	name, isName := key.(string)
	r.scan(len(name))
	i, _, kind := number(key)
	switch x := v.(type) {
	case *Dict:
		if y, ok := x.Get(key); ok {
			return y
		}
	case *List:
		if i < 0 {
			i += int64(len(x.Items))
		}
		if kind == 'i' && x.view == "" && i >= 0 && i < int64(len(x.Items)) {
			return x.Items[i]
		}
	case string:
		if kind == 'i' {
			return r.char(x, i)
		}
	case *Namespace:
		if isName {
			return r.attr(v, name)
		}
	}
	if isName {
		if m, ok := r.method(v, name); ok {
			return m
		}
	}
	return missing(v, r.str(key))
}

func (r *run) char(s string, i int64) Value {
	r.charge(len(s))
	chars := []rune(s)
	if i < 0 {
		i += int64(len(chars))
	}
	if i < 0 || i >= int64(len(chars)) {
		return &Undefined{why: "string index out of range"}
	}
	return string(chars[i])
}

// sliceExpr is value[start:stop:step].
type sliceExpr struct {
	line  int
	value expr
	parts [3]expr
}

func (e *sliceExpr) eval(r *run, s *scope) Value {
	r.step()
	v := plain(r.eval(e.value, s))
	var given [3]bool
	var n [3]int64
	for k, part := range e.parts {
		if part == nil {
			continue
		}
		p := r.eval(part, s)
		r.line = e.line
		if p == nil {
			continue
		}
		i, _, kind := number(p)
		if kind != 'i' {
			r.refuseUndefined(p)
			r.fail("slice indices must be integers or None, not '%s'", typeName(p))
		}
		given[k], n[k] = true, i
	}
	r.line = e.line
	r.refuseUndefined(v)
	switch x := v.(type) {
	case string:
		r.charge(5 * len(x))
		chars := []rune(x)
		places := r.places(len(chars), given, n)
		var b strings.Builder
		for i := places.start; places.more(i); i += places.step {
			b.WriteRune(chars[i])
		}
		return b.String()
	case *List:
		if x.view != "" {
			break
		}
		r.charge(16 * len(x.Items))
		places := r.places(len(x.Items), given, n)
		l := &List{Tuple: x.Tuple}
		for i := places.start; places.more(i); i += places.step {
			l.Items = append(l.Items, x.Items[i])
		}
		return l
	}
	r.fail("'%s' object cannot be sliced", typeName(v))
	return nil
}

type span struct{ start, stop, step int }

func (s span) more(i int) bool { return s.step > 0 && i < s.stop || s.step < 0 && i > s.stop }

// places resolves a slice of a sequence of length n as Python does.
func (r *run) places(n int, given [3]bool, part [3]int64) span {
	step := int64(1)
	if given[2] {
		step = part[2]
	}
	if step == 0 {
		r.fail("slice step cannot be zero")
	}
	low, high := int64(0), int64(n)
	if step < 0 {
		low, high = -1, int64(n)-1
	}
	clip := func(k int, absent int64) int {
		if !given[k] {
			return int(absent)
		}
		i := part[k]
		if i < 0 {
			i += int64(n)
		}
		return int(min(max(i, low), high))
	}
	step = min(max(step, -int64(n)-1), int64(n)+1) // one step beyond the end is as good as any
	if step > 0 {
		return span{clip(0, low), clip(1, high), int(step)}
	}
	return span{clip(0, high), clip(1, low), int(step)}
}

type callArgs struct {
	pos         []expr
	names       []string
	values      []expr
	star, stars expr
}

func (c *callArgs) eval(r *run, s *scope) *args {
	a := &args{}
	for _, e := range c.pos {
		a.pos = append(a.pos, plain(r.eval(e, s)))
	}
	if c.star != nil {
		items := r.items(r.eval(c.star, s))
		r.charge(16 * len(items))
		a.pos = append(a.pos, items...)
	}
	for i, e := range c.values {
		a.names, a.values = append(a.names, c.names[i]), append(a.values, plain(r.eval(e, s)))
	}
	if c.stars != nil {
		d, ok := r.eval(c.stars, s).(*Dict)
		if !ok {
			r.fail("argument after ** must be a mapping")
		}
		r.charge(32 * d.Len())
		for i, k := range d.keys {
			name, ok := k.(string)
			if !ok {
				r.fail("keywords must be strings")
			}
			a.names, a.values = append(a.names, name), append(a.values, d.values[i])
		}
	}
	return a
}

type callExpr struct {
	line int
	fn   expr
	args callArgs
}

func (e *callExpr) eval(r *run, s *scope) Value {
	r.step()
	f := r.eval(e.fn, s)
	a := e.args.eval(r, s)
	r.line = e.line
	return r.call(f, a)
}

func (r *run) call(f Value, a *args) Value {
	line := r.line
	defer func() { r.line = line }()
	switch f := f.(type) {
	case *Func:
		a.fn = f.name
		return f.call(r, a)
	case *macro:
		return f.call(r, a)
	case *loop:
		if f.recurse == nil {
			r.fail("the loop must have the 'recursive' marker to be called")
		}
		a.fn = "loop"
		return f.recurse(r, a.take(r, 1, "iterable")[0])
	}
	r.refuseUndefined(f)
	r.fail("'%s' object is not callable", typeName(f))
	return nil
}

type filterExpr struct {
	line  int
	name  string
	fn    filter
	value expr
	args  callArgs
}

func (e *filterExpr) eval(r *run, s *scope) Value {
	r.step()
	v := plain(r.eval(e.value, s))
	a := e.args.eval(r, s)
	a.fn, r.line = e.name, e.line
	return e.fn(r, v, a)
}

type testExpr struct {
	line  int
	name  string
	fn    test
	value expr
	args  callArgs
}

func (e *testExpr) eval(r *run, s *scope) Value {
	r.step()
	v := plain(r.eval(e.value, s))
	a := e.args.eval(r, s)
	a.fn, r.line = e.name, e.line
	return e.fn(r, v, a)
}
