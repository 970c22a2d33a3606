// Package jinja renders chat templates: the part of Jinja2 that they use, as transformers sets it up, with Python's
// results.
//
//	t, err := jinja.Parse(source)
//	text, err := t.Render(map[string]jinja.Value{"messages": messages}, time.Now())
//
// Supported: every statement except those that need other files (include, import, extends, block), loop controls,
// {% generation %}, all expressions, Jinja2's filters and tests except those for HTML and chance, Python's string, dict
// and list methods, raise_exception, strftime_now, and tojson as json.dumps. trim_blocks and lstrip_blocks are on.
// What is missing is refused by Parse, with its line, or behind a condition when it is reached.
//
// What always holds: a template sees nothing but its variables, changes none of them (Jinja2's immutable sandbox), and
// ends: steps, nesting, and the text and lists it makes are limited. Errors are *Error, with the line; nothing panics.
//
// The lexer and the grammar follow Jinja2 3.1.6; package chat holds the goldens that compare both.
package jinja
