package jinja

import (
	"errors"
	"strings"
	"sync"
	"testing"

	"memra/internal/bounded"
)

func TestHostileTemplatesEndWithAnError(t *testing.T) {
	list := &List{Items: []Value{int64(1), int64(2), int64(3)}}
	for _, c := range []struct{ name, source, want string }{
		{"a macro that calls itself", "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"},
		{"two macros that call each other", "{% macro f() %}{{ g() }}{% endmacro %}{% macro g() %}{{ f() }}{% endmacro %}{{ f() }}", "recursion"},
		{"a caller that calls its caller", "{% macro m() %}{{ caller() }}{% endmacro %}{% macro w() %}{% call m() %}{{ w() }}{% endcall %}{% endmacro %}{{ w() }}", "recursion"},
		{"a recursive loop over itself", "{% for x in l recursive %}{{ loop(l) }}{% endfor %}", "recursion"},
		{"a long expression inside a recursion", "{% macro f() %}{{ f() " + strings.Repeat("~ 1 ", 3000) + "}}{% endmacro %}{{ f() }}", "inside each other"},
		{"loops in loops", strings.Repeat("{% for x in range(99999) %}", 3) + strings.Repeat("{% endfor %}", 3), "steps"},
		{"many splits", "{% set s = ' a' * 100000 %}{% for x in range(99999) %}{% set y = s.split() %}{% endfor %}", "bytes"},
		{"loops in loops that print", strings.Repeat("{% for x in range(9999) %}", 3) + "0123456789" + strings.Repeat("{% endfor %}", 3), "steps"},
		{"a range without end", "{{ range(10 ** 18)|length }}", "range too big"},
		{"text that doubles", "{% set ns = namespace(s='ab') %}{% for x in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", "bytes"},
		{"text that doubles by ~", "{% set ns = namespace(s='ab') %}{% for x in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}", "bytes"},
		{"text that doubles by replace", "{% set ns = namespace(s='aa') %}{% for x in range(99) %}{% set ns.s = ns.s|replace('a', 'aa') %}{% endfor %}", "bytes"},
		{"text that doubles by join", "{% set ns = namespace(s='aa') %}{% for x in range(99) %}{% set ns.s = [ns.s, ns.s]|join %}{% endfor %}", "bytes"},
		{"text that doubles by format", "{% set ns = namespace(s='aa') %}{% for x in range(99) %}{% set ns.s = '{0}{0}'.format(ns.s) %}{% endfor %}", "bytes"},
		{"text that doubles by %", "{% set ns = namespace(s='aa') %}{% for x in range(99) %}{% set ns.s = '%s%s' % (ns.s, ns.s) %}{% endfor %}", "bytes"},
		{"a list that doubles", "{% set ns = namespace(s=[1]) %}{% for x in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}", "bytes"},
		{"repetition", "{{ 'abc' * 10 ** 12 }}", "bytes"},
		{"repetition of a list", "{{ [1] * 10 ** 12 }}", "bytes"},
		{"padding", "{{ 'a'.ljust(10 ** 12) }}", "too large"},
		{"centering", "{{ 'a'|center(10 ** 12) }}", "too large"},
		{"a wide conversion", "{{ '%999999999d' % 1 }}", "too large"},
		{"wide conversions", "{% set w = '%9999d' * 10000 %}{{ w % ((1,) * 10000) }}{{ w % ((1,) * 10000) }}{{ w % ((1,) * 10000) }}", "bytes"},
		{"an indent without end", "{{ l|tojson(indent=10 ** 12) }}", "too large"},
		{"a value nested without end", "{% set ns = namespace(s=[]) %}{% for x in range(9999) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}", "nested"},
		{"JSON nested without end", "{% set ns = namespace(s=[]) %}{% for x in range(9999) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s|tojson }}", "nested"},
		{"values nested without end, compared", "{% set ns = namespace(a=[], b=[]) %}{% for x in range(9999) %}{% set ns.a = [ns.a] %}{% set ns.b = [ns.b] %}{% endfor %}{{ ns.a == ns.b }}", "nested"},
		{"a value that holds itself often", "{% set ns = namespace(s=[1]) %}{% for x in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}", "steps"},
		{"a namespace that holds itself", "{% set ns = namespace() %}{% set ns.s = ns %}{{ ns }}", "nested"},
		{"brackets without end", "{{ " + strings.Repeat("(", 100_000), "nested"},
		{"lists without end", "{{ " + strings.Repeat("[", 150) + "1" + strings.Repeat("]", 150) + " }}", "nested"},
		{"signs without end", "{{ " + strings.Repeat("-", 100_000) + "1 }}", "nested"},
		{"nots without end", "{{ " + strings.Repeat("not ", 100_000) + "1 }}", "nested"},
		{"blocks without end", strings.Repeat("{% if 1 %}", 100_000), "nested"},
		{"a source without end", strings.Repeat(" ", maxSource+1), "bytes"},
		{"a power", "{{ 7 ** 10 ** 9 }}", "overflow"},
		{"long searches", "{% set s = 'ab' * 1000000 %}{% for x in range(99999) %}{{ s.find('zz') }}{% endfor %}", "bytes"},
		{"many lines", "{% set s = '\\n' * 100000 %}{% for x in range(99999) %}{% set y = s.splitlines() %}{% endfor %}", "bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			parsed, err := Parse(c.source)
			if err == nil {
				_, err = parsed.render(map[string]Value{"l": list}, frozen, limits{steps: 200_000, bytes: 16 << 20})
			}
			var failure *Error
			if !errors.As(err, &failure) || !strings.Contains(failure.Message, c.want) {
				t.Errorf("error %.200v, want one about %q", err, c.want)
			}
			bounded.Read(t, len(c.source), func() { render(c.source, map[string]Value{"l": list}) }) // within the usual limits
		})
	}
}

func TestTheUsualLimitsEndARendering(t *testing.T) {
	_, err := render("{% set l = range(9999) %}{% for a in l %}{% for b in l %}{% endfor %}{% endfor %}", nil)
	if err == nil || !strings.Contains(err.Error(), "takes more than 1000000 steps") {
		t.Errorf("error %v", err)
	}
}

func TestALongConversationMayMakeMoreText(t *testing.T) {
	const source = "{% set ns = namespace(s='') %}{% for x in l %}{% set ns.s = x|trim|replace('a', 'b')|upper ~ '' %}{{ ns.s }}{% endfor %}"
	long := &List{}
	for range 100 {
		long.Items = append(long.Items, strings.Repeat("abc ", 100_000))
	}
	text, err := render(source, map[string]Value{"l": long})
	if err != nil || len(text) != 100*399_999 {
		t.Errorf("%d bytes, %v, want all of the conversation's", len(text), err)
	}
}

func TestErrorsNameTheLine(t *testing.T) {
	for _, c := range []struct {
		source string
		line   int
		want   string
	}{
		{"a\n{{ 1 + }}", 2, "expected an expression, found '}}'"},
		{"a\n\n{% if x %}\nb", 4, "the template ends inside 'if' of line 3, expected 'endif'"},
		{"{% for x in l %}\n{% endif %}", 2, "unknown tag 'endif'"},
		{"\n\n{% frob %}", 3, "unknown tag 'frob'"},
		{"\n{{ x|frob }}", 2, "no filter named 'frob'"},
		{"\n{{ x is frob }}", 2, "no test named 'frob'"},
		{"\r\n\r\n{{ 'a }}", 3, "a string does not end"},
		{"{{ x\n\n$ }}", 3, "unexpected char '$'"},
		{"{# a\n\n #}\n{{ x.y.z }}", 4, "'x' is undefined"},
		{"{{ 1 }}\n{{ s\n.upper()\n+ 1 }}", 4, "unsupported operand type(s) for +: 'str' and 'int'"},
		{"{% macro m() %}\n\n{{ none() }}\n{% endmacro %}\n{{ m() }}", 3, "'NoneType' object is not callable"},
		{"{% set a, b = 1, 2, 3 %}", 1, "cannot unpack 3 values into 2 names"},
		{"\n{% include 'other' %}", 2, "'include' is not available: a chat template is a single file"},
		{"{% raw %}\n{{ }}\n{% endraw %}\n{% break %}", 4, "'break' outside of a loop"},
		{"{% set x %}\n\n{% endset %}\n{{ nope.x }}", 4, "'nope' is undefined"},
		{"{{ 'a\nb' }}\n{{ nope.x }}", 3, "'nope' is undefined"},
	} {
		_, err := render(c.source, map[string]Value{"s": "text"})
		var failure *Error
		if !errors.As(err, &failure) || failure.Line != c.line || failure.Message != c.want || failure.Raised {
			t.Errorf("%q: error %v, want line %d: %s", c.source, err, c.line, c.want)
		}
	}
}

func TestARaisedExceptionIsTheTemplatesOwn(t *testing.T) {
	_, err := render("a\n{% if true %}\n{{ raise_exception('roles must ' ~ 'alternate') }}{% endif %}", nil)
	var failure *Error
	if !errors.As(err, &failure) || !failure.Raised || failure.Line != 3 || failure.Message != "roles must alternate" {
		t.Errorf("error %#v", err)
	}
}

func TestTemplatesAreSafeForConcurrentUseAndChangeNothing(t *testing.T) {
	sources, _, vars := readSnippets(t)
	templates := make([]*Template, len(sources))
	want := make([]string, len(sources))
	for i, source := range sources {
		parsed, err := Parse(source)
		if err != nil {
			continue
		}
		templates[i] = parsed
		want[i], _ = parsed.Render(vars, frozen)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for i, parsed := range templates {
				if parsed == nil {
					continue
				}
				if got, _ := parsed.Render(vars, frozen); got != want[i] {
					t.Errorf("%s: %q, first %q", sources[i], got, want[i])
				}
			}
		})
	}
	wg.Wait()
}

func TestJSONKeepsOrderAndNumbers(t *testing.T) {
	const text = `{"z": [1, 1.0, -0.0, 1e+22, 12345678901234567890, true, null], "a": {"é": "\n", "b": ""}}`
	v, err := FromJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := render("{{ v|tojson }}", map[string]Value{"v": v}); err != nil || got != text {
		t.Errorf("got %s, %v", got, err)
	}
	for _, bad := range []string{"", "{", `{"a":}`, "1 2", `{"a":1}x`, strings.Repeat("[", 1000), strings.Repeat("9", 5000)} {
		if _, err := FromJSON([]byte(bad)); err == nil {
			t.Errorf("%.20q is accepted", bad)
		}
	}
}
