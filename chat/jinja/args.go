package jinja

import "slices"

// args are the arguments of a call.
type args struct {
	fn     string // what is called, for errors
	pos    []Value
	names  []string
	values []Value
}

// absent stands for an argument that was not given.
type absent struct{}

// take binds the arguments to params, of which the first required must be given. Those not given are absent{}.
func (a *args) take(r *run, required int, params ...string) []Value {
	if len(a.pos) > len(params) {
		r.fail("%s() takes at most %d argument(s), %d given", a.fn, len(params), len(a.pos))
	}
	bound := make([]Value, len(params))
	for i := range bound {
		bound[i] = absent{}
	}
	copy(bound, a.pos)
	for i, name := range a.names {
		k := slices.Index(params, name)
		switch {
		case k < 0:
			r.fail("%s() got an unexpected keyword argument '%s'", a.fn, name)
		case bound[k] != Value(absent{}):
			r.fail("%s() got multiple values for argument '%s'", a.fn, name)
		}
		bound[k] = a.values[i]
	}
	for i := range required {
		if bound[i] == Value(absent{}) {
			r.fail("%s() missing argument '%s'", a.fn, params[i])
		}
	}
	return bound
}

// none is for functions without arguments.
func (a *args) none(r *run) { a.take(r, 0) }

func given(v Value) bool { return v != Value(absent{}) }

// or returns v, or byDefault if v is absent.
func or(v, byDefault Value) Value {
	if !given(v) {
		return byDefault
	}
	return v
}

// text returns a string argument.
func (a *args) text(r *run, v Value) string {
	s, ok := v.(string)
	if !ok {
		r.refuseUndefined(v)
		r.fail("%s(): expected a string, found '%s'", a.fn, typeName(v))
	}
	return s
}

// integer returns an integer argument.
func (a *args) integer(r *run, v Value) int64 {
	i, _, kind := number(v)
	if kind != 'i' {
		r.refuseUndefined(v)
		r.fail("%s(): expected an integer, found '%s'", a.fn, typeName(v))
	}
	return i
}

// size returns an integer argument that says how many characters or items to make.
func (a *args) size(r *run, v Value) int {
	n := a.integer(r, v)
	if n > int64(r.limits.bytes) {
		r.fail("%s(): %d is too large", a.fn, n)
	}
	return int(max(n, -1))
}
