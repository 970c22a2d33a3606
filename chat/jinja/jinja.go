package jinja

import (
	"fmt"
	"strings"
	"time"
)

// Limits of a template and of one rendering: far above what chats need, low enough for a hostile template to end soon.
const (
	maxSource  = 1 << 20 // bytes of a template
	maxNesting = 200     // of brackets, expressions and blocks in a template
	maxDepth   = 500     // of calls under way, and of lists and dicts in each other
	maxEval    = 20_000  // expressions inside each other, through calls too
	maxRange   = 100_000 // items of range(), as in Jinja2's sandbox
)

// limits of one rendering's work.
type limits struct {
	steps int // expressions, statements and items visited; one more for each byte of the variables
	bytes int // of text and lists made, in all, whether still needed or not
	times int // bytes more for each byte of the variables: published templates make up to five
}

var usual = limits{steps: 1_000_000, bytes: 20 << 20, times: 8}

// Error is a template that cannot be parsed, or that failed while it ran.
type Error struct {
	Line    int    // of the template, from 1
	Message string // what Jinja2 would say, or close to it
	Raised  bool   // the template itself refused its input, with raise_exception(Message)
}

func (e *Error) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Message) }

// Template is a parsed template. It is safe for concurrent use.
type Template struct{ body []stmt }

// Parse reads a template. Unknown tags are errors here, not when they are reached, and so are unknown filters and
// tests that do not depend on a condition. An error is an *Error.
func Parse(source string) (t *Template, err error) {
	if len(source) > maxSource {
		return nil, &Error{Line: 1, Message: fmt.Sprintf("the template has %d bytes, want at most %d", len(source), maxSource)}
	}
	tokens, err := lex(source)
	if err != nil {
		return nil, err
	}
	defer func() {
		if r := recover(); r != nil {
			failure, ok := r.(*Error)
			if !ok {
				panic(r)
			}
			t, err = nil, failure
		}
	}()
	p := &parser{tokens: tokens}
	return &Template{p.statements(token{})}, nil
}

// Render runs the template. Names it does not find in vars are functions of this package or undefined. now is what
// strftime_now formats. vars and the values in it are not changed. An error is an *Error.
func (t *Template) Render(vars map[string]Value, now time.Time) (string, error) {
	return t.render(vars, now, usual)
}

func (t *Template) render(vars map[string]Value, now time.Time, limits limits) (text string, err error) {
	for _, v := range vars {
		n := size(v)
		limits.steps += n
		limits.bytes += limits.times * n
	}
	r := &run{limits: limits, out: new(strings.Builder), now: now, line: 1}
	defer func() {
		if p := recover(); p != nil {
			failure, ok := p.(*Error)
			if !ok {
				panic(p)
			}
			text, err = "", failure
		}
	}()
	globals := &scope{more: vars, parent: &scope{more: globalTable}}
	r.exec(t.body, newScope(globals))
	return r.out.String(), nil
}

// size is how many bytes of text are in a value, with some for each thing that is none.
func size(v Value) (n int) {
	switch v := v.(type) {
	case string:
		n += len(v)
	case *List:
		for _, item := range v.Items {
			n += size(item)
		}
	case *Dict:
		for i, key := range v.keys {
			n += size(key) + size(v.values[i])
		}
	}
	return n + 8
}

// run is one rendering.
type run struct {
	out    *strings.Builder
	now    time.Time
	limits limits
	line   int // of what runs now, for errors
	steps  int
	bytes  int
	depth  int
	evals  int
}

func (r *run) fail(format string, a ...any) {
	panic(&Error{Line: r.line, Message: fmt.Sprintf(format, a...)})
}

func (r *run) step() {
	if r.steps++; r.steps > r.limits.steps {
		r.fail("the template takes more than %d steps; it seems not to end", r.limits.steps)
	}
}

// charge accounts for n bytes of new text or of list.
func (r *run) charge(n int) {
	if r.bytes += n; n > r.limits.bytes || r.bytes > r.limits.bytes {
		r.fail("the template makes more than %d bytes of text and lists", r.limits.bytes)
	}
}

// scan accounts for reading n bytes, which is cheaper than making them.
func (r *run) scan(n int) { r.charge(n / 16) }

func (r *run) eval(e expr, s *scope) Value {
	if r.evals++; r.evals > maxEval {
		r.fail("more than %d expressions inside each other", maxEval)
	}
	v := e.eval(r, s)
	r.evals--
	return v
}

// enter counts a call; its result undoes that.
func (r *run) enter() (leave func()) {
	if r.depth++; r.depth > maxDepth {
		r.fail("maximum recursion depth exceeded: more than %d calls inside each other", maxDepth)
	}
	return func() { r.depth-- }
}

func (r *run) write(s string) {
	r.charge(len(s))
	r.out.WriteString(s)
}

// capture returns what f writes.
func (r *run) capture(f func()) string {
	outer := r.out
	r.out = new(strings.Builder)
	f()
	s := r.out.String()
	r.out = outer
	return s
}

// scope is a set of names over the set around it. The first few are searched one by one, which most scopes never exceed.
type scope struct {
	names  []string
	values []Value
	more   map[string]Value
	parent *scope
}

const fewNames = 8

func newScope(parent *scope) *scope { return &scope{parent: parent} }

func (s *scope) set(name string, v Value) {
	for i, n := range s.names {
		if n == name {
			s.values[i] = v
			return
		}
	}
	if len(s.names) < fewNames {
		s.names, s.values = append(s.names, name), append(s.values, v)
		return
	}
	if s.more == nil {
		s.more = map[string]Value{}
	}
	s.more[name] = v
}

func (s *scope) get(name string) (Value, bool) {
	for ; s != nil; s = s.parent {
		for i, n := range s.names {
			if n == name {
				return s.values[i], true
			}
		}
		if v, ok := s.more[name]; ok {
			return v, true
		}
	}
	return nil, false
}
