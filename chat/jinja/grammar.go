package jinja

import (
	"slices"
	"strconv"
)

// tuple reads an expression, or several with commas between. ternary allows "a if b else c"; empty allows none, as in
// parentheses. The word stop ends it.
func (p *parser) tuple(ternary, empty bool, stop ...string) expr {
	line := p.cur().line
	var items []expr
	tuple := false
	for {
		t := p.cur()
		if t.kind == tokPrintEnd || t.kind == tokBlockEnd || p.isOp(")") || t.kind == tokName && slices.Contains(stop, t.text) {
			break
		}
		items = append(items, p.expression(ternary))
		if !p.skip(tokOp, ",") {
			break
		}
		tuple = true
	}
	switch {
	case tuple || len(items) == 0 && empty:
		return &listExpr{items, true}
	case len(items) == 0:
		p.fail(line, "expected an expression, found %v", p.cur())
	}
	return items[0]
}

func (p *parser) expression(ternary bool) expr {
	defer p.enter()()
	e := p.or()
	for ternary && p.skip(tokName, "if") {
		c := &condExpr{then: e, test: p.or()}
		if p.skip(tokName, "else") {
			p.ifs++
			c.orElse = p.expression(true)
			p.ifs--
		}
		e = c
	}
	return e
}

func (p *parser) or() expr {
	e := p.and()
	for p.skip(tokName, "or") {
		e = &logicExpr{true, e, p.and()}
	}
	return e
}

func (p *parser) and() expr {
	e := p.not()
	for p.skip(tokName, "and") {
		e = &logicExpr{false, e, p.not()}
	}
	return e
}

func (p *parser) not() expr {
	if p.skip(tokName, "not") {
		defer p.enter()()
		return &notExpr{p.not()}
	}
	e := p.sum()
	c := &compareExpr{line: p.cur().line, first: e}
	for {
		op := p.cur().text
		switch {
		case p.isOp("==", "!=", "<", "<=", ">", ">="):
			p.next()
		case p.is(tokName, "in"):
			p.next()
		case p.is(tokName, "not") && p.look().kind == tokName && p.look().text == "in":
			p.next()
			p.next()
			op = "not in"
		default:
			if len(c.ops) == 0 {
				return e
			}
			return c
		}
		c.ops = append(c.ops, op)
		c.rest = append(c.rest, p.sum())
	}
}

// binary reads operands of next with any of ops between, grouped from the left.
func (p *parser) binary(next func() expr, ops ...string) expr {
	e := next()
	for p.isOp(ops...) {
		t := p.next()
		e = &binaryExpr{t.line, t.text, e, next()}
	}
	return e
}

func (p *parser) sum() expr     { return p.binary(p.concat, "+", "-") }
func (p *parser) concat() expr  { return p.binary(p.product, "~") }
func (p *parser) product() expr { return p.binary(p.power, "*", "/", "//", "%") }
func (p *parser) power() expr   { return p.binary(func() expr { return p.unary(true) }, "**") }

func (p *parser) unary(filters bool) expr {
	var e expr
	if p.isOp("-", "+") {
		defer p.enter()()
		t := p.next()
		e = &signExpr{t.line, t.text, p.unary(false)}
	} else {
		e = p.primary()
	}
	for {
		t := p.cur()
		switch {
		case p.isOp("."), p.isOp("["):
			e = p.subscript(e)
		case p.isOp("("):
			e = &callExpr{t.line, e, p.args()}
		case filters && p.isOp("|"):
			p.next()
			return p.filters(p.filter(e, p.name()))
		case filters && p.is(tokName, "is"):
			return p.filters(p.test(e))
		default:
			return e
		}
	}
}

// filters reads what may follow a filter or test: more of them, and calls.
func (p *parser) filters(e expr) expr {
	for {
		t := p.cur()
		switch {
		case p.skip(tokOp, "|"):
			e = p.filter(e, p.name())
		case p.is(tokName, "is"):
			e = p.test(e)
		case p.isOp("("):
			e = &callExpr{t.line, e, p.args()}
		default:
			return e
		}
	}
}

// absent refuses a filter or test that does not exist, except behind a condition: some published templates have such
// branches, which fail only when they are reached, as in Jinja2.
func (p *parser) absent(name token, kind string) {
	if p.ifs == 0 {
		p.fail(name.line, "no %s named '%s'", kind, name.text)
	}
}

func (p *parser) filter(e expr, name token) expr {
	f, ok := filterTable[name.text]
	if !ok {
		p.absent(name, "filter")
		f = func(r *run, v Value, a *args) Value { r.fail("no filter named '%s'", name.text); return nil }
	}
	var a callArgs
	if p.isOp("(") {
		a = p.args()
	}
	return &filterExpr{name.line, name.text, f, e, a}
}

func (p *parser) test(e expr) expr {
	is := p.next()
	negated := p.skip(tokName, "not")
	name := p.name()
	f, ok := testTable[name.text]
	if !ok {
		p.absent(name, "test")
		f = func(r *run, v Value, a *args) bool { r.fail("no test named '%s'", name.text); return false }
	}
	t := p.cur()
	var a callArgs
	switch {
	case p.isOp("("):
		a = p.args()
	case t.kind == tokName && slices.Contains([]string{"else", "or", "and"}, t.text):
	case t.kind == tokName && t.text == "is":
		p.fail(t.line, "tests with 'is' cannot be chained")
	case t.kind == tokName, t.kind == tokString, t.kind == tokInt, t.kind == tokFloat, p.isOp("[", "{"):
		arg := p.primary()
		for p.isOp(".", "[", "(") {
			if p.isOp("(") {
				arg = &callExpr{p.cur().line, arg, p.args()}
			} else {
				arg = p.subscript(arg)
			}
		}
		a.pos = []expr{arg}
	}
	var result expr = &testExpr{is.line, name.text, f, e, a}
	if negated {
		result = &notExpr{result}
	}
	return result
}

func (p *parser) primary() expr {
	defer p.enter()()
	t := p.next()
	switch t.kind {
	case tokName:
		switch t.text {
		case "true", "True":
			return &constExpr{true}
		case "false", "False":
			return &constExpr{false}
		case "none", "None":
			return &constExpr{nil}
		}
		if n := len(p.macros); n > 0 {
			p.macros[n-1].mentions(t.text)
		}
		return &nameExpr{t.line, t.text}
	case tokString:
		s := t.text
		for p.cur().kind == tokString {
			s += p.next().text
		}
		return &constExpr{s}
	case tokInt:
		i, _ := strconv.ParseInt(t.text, 10, 64) // the lexer has tried
		return &constExpr{i}
	case tokFloat:
		f, _ := strconv.ParseFloat(t.text, 64) // ±Inf where it is too large, as in Python
		return &constExpr{f}
	case tokOp:
		switch t.text {
		case "(":
			e := p.tuple(true, true)
			p.expect(tokOp, ")")
			return e
		case "[":
			l := &listExpr{}
			for !p.isOp("]") {
				if len(l.items) > 0 {
					p.expect(tokOp, ",")
					if p.isOp("]") {
						break
					}
				}
				l.items = append(l.items, p.expression(true))
			}
			p.expect(tokOp, "]")
			return l
		case "{":
			d := &dictExpr{line: t.line}
			for !p.isOp("}") {
				if len(d.keys) > 0 {
					p.expect(tokOp, ",")
					if p.isOp("}") {
						break
					}
				}
				d.keys = append(d.keys, p.expression(true))
				p.expect(tokOp, ":")
				d.values = append(d.values, p.expression(true))
			}
			p.expect(tokOp, "}")
			return d
		}
	}
	p.fail(t.line, "expected an expression, found %v", t)
	return nil
}

func (p *parser) subscript(e expr) expr {
	t := p.next()
	if t.text == "." {
		switch attr := p.next(); attr.kind {
		case tokName:
			return &attrExpr{t.line, e, attr.text}
		case tokInt:
			i, _ := strconv.ParseInt(attr.text, 10, 64)
			return &itemExpr{t.line, e, &constExpr{i}}
		default:
			p.fail(attr.line, "expected a name or a number after '.', found %v", attr)
		}
	}
	var parts [3]expr
	n := 0
	for {
		if !p.isOp(":", "]", ",") {
			parts[n] = p.expression(true)
		}
		if n == 2 || !p.skip(tokOp, ":") {
			break
		}
		n++
	}
	p.expect(tokOp, "]")
	switch {
	case n > 0:
		return &sliceExpr{t.line, e, parts}
	case parts[0] == nil:
		p.fail(t.line, "expected an expression between brackets")
	}
	return &itemExpr{t.line, e, parts[0]}
}

func (p *parser) args() callArgs {
	var a callArgs
	open := p.expect(tokOp, "(")
	for !p.isOp(")") {
		if len(a.pos)+len(a.names) > 0 || a.star != nil || a.stars != nil {
			p.expect(tokOp, ",")
			if p.isOp(")") {
				break
			}
		}
		switch {
		case p.isOp("*") && a.star == nil && a.stars == nil:
			p.next()
			a.star = p.expression(true)
		case p.isOp("**") && a.stars == nil:
			p.next()
			a.stars = p.expression(true)
		case p.cur().kind == tokName && p.look().kind == tokOp && p.look().text == "=" && a.stars == nil:
			a.names = append(a.names, p.next().text)
			p.next()
			a.values = append(a.values, p.expression(true))
		case len(a.names) == 0 && a.star == nil && a.stars == nil:
			a.pos = append(a.pos, p.expression(true))
		default:
			p.fail(open.line, "invalid order of arguments in a call")
		}
	}
	p.next()
	return a
}
