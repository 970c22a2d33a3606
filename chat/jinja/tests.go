package jinja

import (
	"math/big"
	"strings"
)

// test is what stands after "is".
type test func(r *run, v Value, a *args) bool

// testTable holds Jinja2's tests. It is filled by init because the tests "filter" and "test" look names up in turn.
var testTable map[string]test

func init() {
	is := func(f func(v Value) bool) test {
		return func(r *run, v Value, a *args) bool {
			a.none(r)
			return f(v)
		}
	}
	relation := func(op string) test {
		return func(r *run, v Value, a *args) bool { return r.holds(op, v, a.take(r, 1, "other")[0]) }
	}
	remainder := func(r *run, v, n Value) float64 {
		switch m := r.eval(&binaryExpr{r.line, "%", &constExpr{v}, &constExpr{n}}, nil).(type) {
		case int64:
			return float64(m)
		case float64:
			return m
		}
		r.fail("not all arguments converted during string formatting") // text % number, with a %s in it
		return 0
	}
	isString := func(v Value) bool { _, ok := v.(string); return ok }
	isDict := func(v Value) bool { _, ok := v.(*Dict); return ok }
	isUndefined := func(v Value) bool { _, ok := v.(*Undefined); return ok }
	isIterable := func(v Value) bool {
		switch v.(type) {
		case string, *List, *Dict, *generator, *Undefined, *loop:
			return true
		}
		return false
	}
	isInteger := func(v Value) bool {
		switch v.(type) {
		case int64, *big.Int:
			return true
		}
		return false
	}
	isFloat := func(v Value) bool { _, ok := v.(float64); return ok }
	testTable = map[string]test{
		"defined":   is(func(v Value) bool { return !isUndefined(v) }),
		"undefined": is(isUndefined),
		"none":      is(func(v Value) bool { return v == nil }),
		"boolean":   is(func(v Value) bool { _, ok := v.(bool); return ok }),
		"true":      is(func(v Value) bool { return v == true }),
		"false":     is(func(v Value) bool { return v == false }),
		"integer":   is(isInteger),
		"float":     is(isFloat),
		"number":    is(func(v Value) bool { _, _, kind := number(v); return kind != 0 }),
		"string":    is(isString),
		"mapping":   is(isDict),
		"iterable":  is(isIterable),
		"sequence": is(func(v Value) bool { // what can be indexed and counted; Undefined has those methods too
			switch v.(type) {
			case string, *Dict, *Undefined:
				return true
			}
			l, ok := v.(*List)
			return ok && l.view == ""
		}),
		"callable": is(func(v Value) bool {
			switch v.(type) {
			case *Func, *macro, *loop, *Undefined:
				return true
			}
			return false
		}),
		"escaped": is(func(v Value) bool { return false }), // templates run without autoescape
		"sameas": func(r *run, v Value, a *args) bool {
			w := a.take(r, 1, "other")[0]
			return typeName(v) == typeName(w) && (v == nil || isUndefined(v) || v == w)
		},
		"lower": func(r *run, v Value, a *args) bool {
			s := r.str(v)
			return s != strings.ToUpper(s) && s == strings.ToLower(s)
		},
		"upper": func(r *run, v Value, a *args) bool {
			s := r.str(v)
			return s != strings.ToLower(s) && s == strings.ToUpper(s)
		},
		"even": func(r *run, v Value, a *args) bool { return remainder(r, v, int64(2)) == 0 },
		"odd":  func(r *run, v Value, a *args) bool { return remainder(r, v, int64(2)) == 1 },
		"divisibleby": func(r *run, v Value, a *args) bool {
			return remainder(r, v, a.take(r, 1, "num")[0]) == 0
		},
		"in": func(r *run, v Value, a *args) bool { return r.contains(a.take(r, 1, "seq")[0], v) },
		"filter": func(r *run, v Value, a *args) bool {
			name, _ := v.(string)
			return filterTable[name] != nil
		},
		"test": func(r *run, v Value, a *args) bool {
			name, _ := v.(string)
			return testTable[name] != nil
		},
	}
	for op, names := range map[string][]string{
		"==": {"eq", "equalto"}, "!=": {"ne"}, "<": {"lt", "lessthan"}, "<=": {"le"}, ">": {"gt", "greaterthan"}, ">=": {"ge"},
	} {
		for _, name := range names {
			testTable[name] = relation(op)
		}
	}
}
