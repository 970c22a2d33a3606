package jinja

import (
	"fmt"
	"slices"
)

// parser turns tokens into statements, by recursive descent over Jinja2's grammar. It stops at the first error by
// panicking with an *Error, which Parse catches.
type parser struct {
	tokens []token
	at     int
	depth  int
	loops  int      // for loops around this place, within the macro or call block
	ifs    int      // conditions around this place
	macros []*macro // bodies around this place: of macros and call blocks
}

func (p *parser) cur() token  { return p.tokens[p.at] }
func (p *parser) look() token { return p.tokens[min(p.at+1, len(p.tokens)-1)] }

func (p *parser) next() token {
	t := p.tokens[p.at]
	if p.at < len(p.tokens)-1 {
		p.at++
	}
	return t
}

func (p *parser) fail(line int, format string, a ...any) {
	panic(&Error{Line: line, Message: fmt.Sprintf(format, a...)})
}

func (p *parser) is(kind tokenKind, text string) bool {
	return p.cur().kind == kind && p.cur().text == text
}

func (p *parser) isOp(texts ...string) bool {
	return p.cur().kind == tokOp && slices.Contains(texts, p.cur().text)
}

func (p *parser) skip(kind tokenKind, text string) bool {
	if p.is(kind, text) {
		p.next()
		return true
	}
	return false
}

func (p *parser) expect(kind tokenKind, text string) token {
	if !p.is(kind, text) {
		p.fail(p.cur().line, "expected '%s', found %v", text, p.cur())
	}
	return p.next()
}

func (p *parser) name() token {
	if p.cur().kind != tokName {
		p.fail(p.cur().line, "expected a name, found %v", p.cur())
	}
	return p.next()
}

// enter counts nesting; its result undoes that.
func (p *parser) enter() (leave func()) {
	p.depth++
	if p.depth > maxNesting {
		p.fail(p.cur().line, "the template is nested more than %d deep", maxNesting)
	}
	return func() { p.depth-- }
}

// statements reads up to a block that begins with one of ends, and stays before that name.
func (p *parser) statements(opened token, ends ...string) []stmt {
	defer p.enter()()
	var body []stmt
	for {
		switch t := p.next(); t.kind {
		case tokEnd:
			if len(ends) > 0 {
				p.fail(t.line, "the template ends inside '%s' of line %d, expected '%s'", opened.text, opened.line, ends[len(ends)-1])
			}
			return body
		case tokData:
			body = append(body, text(t.text))
		case tokPrint:
			e := p.tuple(true, false)
			p.expect(tokPrintEnd, "}}")
			body = append(body, &printStmt{t.line, e})
		case tokBlock:
			if p.cur().kind == tokName && slices.Contains(ends, p.cur().text) {
				return body
			}
			body = append(body, p.statement())
		}
	}
}

// block reads the end of a tag, a body, and the block that closes it, whose name it returns.
func (p *parser) block(opened token, ends ...string) (body []stmt, end string) {
	p.skip(tokOp, ":")
	p.expect(tokBlockEnd, "%}")
	body = p.statements(opened, ends...)
	return body, p.next().text
}

func (p *parser) closed(opened token, end string) []stmt {
	body, _ := p.block(opened, end)
	p.expect(tokBlockEnd, "%}")
	return body
}

func (p *parser) statement() stmt {
	t := p.name()
	switch t.text {
	case "if":
		return p.ifStatement(t)
	case "for":
		return p.forStatement(t)
	case "set":
		return p.setStatement(t)
	case "macro":
		m := &macro{name: p.name().text}
		p.signature(m)
		p.body(m, t, "endmacro")
		return &macroStmt{m}
	case "call":
		m := &macro{name: "caller"}
		if p.isOp("(") {
			p.signature(m)
		}
		e, ok := p.expression(true).(*callExpr)
		if !ok {
			p.fail(t.line, "expected a call after 'call'")
		}
		p.body(m, t, "endcall")
		return &callStmt{t.line, e, m}
	case "filter":
		value := &constExpr{}
		e := p.filter(value, p.name())
		for p.skip(tokOp, "|") {
			e = p.filter(e, p.name())
		}
		return &filterStmt{t.line, value, e, p.closed(t, "endfilter")}
	case "with":
		return p.withStatement(t)
	case "generation": // marks what the model wrote; only trainers care
		return &scopeStmt{p.closed(t, "endgeneration")}
	case "break", "continue":
		if p.loops == 0 {
			p.fail(t.line, "'%s' outside of a loop", t.text)
		}
		p.expect(tokBlockEnd, "%}")
		if t.text == "break" {
			return jump(broke)
		}
		return jump(continued)
	case "include", "import", "from", "extends", "block":
		p.fail(t.line, "'%s' is not available: a chat template is a single file", t.text)
	}
	p.fail(t.line, "unknown tag '%s'", t.text)
	return nil
}

func (p *parser) ifStatement(t token) stmt {
	s := &ifStmt{}
	for {
		test := p.tuple(false, false)
		p.ifs++
		body, end := p.block(t, "elif", "else", "endif")
		s.branches = append(s.branches, branch{test, body})
		switch end {
		case "elif":
			continue
		case "else":
			s.orElse = p.closed(t, "endif")
		default:
			p.expect(tokBlockEnd, "%}")
		}
		p.ifs -= len(s.branches)
		return s
	}
}

func (p *parser) forStatement(t token) stmt {
	s := &forStmt{line: t.line, target: p.target("in")}
	p.expect(tokName, "in")
	s.iter = p.tuple(false, false, "recursive")
	if p.skip(tokName, "if") {
		s.filter = p.expression(true)
	}
	s.recursive = p.skip(tokName, "recursive")
	p.loops++
	body, end := p.block(t, "else", "endfor")
	p.loops--
	s.body = body
	if end == "else" {
		s.orElse = p.closed(t, "endfor")
	} else {
		p.expect(tokBlockEnd, "%}")
	}
	return s
}

func (p *parser) setStatement(t token) stmt {
	target := p.target("=")
	if p.skip(tokOp, "=") {
		e := p.tuple(true, false)
		p.expect(tokBlockEnd, "%}")
		return &setStmt{t.line, target, e}
	}
	s := &setBlockStmt{line: t.line, target: target}
	for p.skip(tokOp, "|") {
		if s.filter == nil {
			s.value = &constExpr{}
			s.filter = s.value
		}
		s.filter = p.filter(s.filter, p.name())
	}
	s.body = p.closed(t, "endset")
	return s
}

func (p *parser) withStatement(t token) stmt {
	s := &withStmt{line: t.line}
	for p.cur().kind != tokBlockEnd && !p.isOp(":") {
		if len(s.targets) > 0 {
			p.expect(tokOp, ",")
		}
		s.targets = append(s.targets, p.target("="))
		p.expect(tokOp, "=")
		s.values = append(s.values, p.expression(true))
	}
	s.body = p.closed(t, "endwith")
	return s
}

// signature reads the parameters of a macro or call block.
func (p *parser) signature(m *macro) {
	p.expect(tokOp, "(")
	for !p.isOp(")") {
		if len(m.params) > 0 {
			p.expect(tokOp, ",")
		}
		name := p.name()
		q := param{name: name.text}
		if p.skip(tokOp, "=") {
			q.byDefault = p.expression(true)
		} else if n := len(m.params); n > 0 && m.params[n-1].byDefault != nil {
			p.fail(name.line, "parameter '%s' without a default follows one with", name.text)
		}
		m.params = append(m.params, q)
	}
	p.next()
}

func (p *parser) body(m *macro, opened token, end string) {
	loops := p.loops
	p.loops = 0
	p.macros = append(p.macros, m)
	m.body = p.closed(opened, end)
	p.macros = p.macros[:len(p.macros)-1]
	p.loops = loops
}

// target reads what a loop or a set assigns to: a name, a namespace's attribute, or a tuple of them.
func (p *parser) target(end string) target {
	var names []target
	tuple := false
	for {
		switch {
		case p.isOp("("):
			defer p.enter()()
			p.next()
			names = append(names, p.target(")"))
			p.expect(tokOp, ")")
		default:
			t := p.name()
			if slices.Contains([]string{"true", "false", "none", "True", "False", "None"}, t.text) {
				p.fail(t.line, "cannot assign to '%s'", t.text)
			}
			if p.skip(tokOp, ".") {
				names = append(names, target{line: t.line, name: t.text, attr: p.name().text})
			} else {
				names = append(names, target{line: t.line, name: t.text})
			}
		}
		if !p.skip(tokOp, ",") {
			break
		}
		tuple = true
		if p.cur().text == end {
			break
		}
	}
	if !tuple {
		return names[0]
	}
	return target{line: names[0].line, tuple: names}
}
