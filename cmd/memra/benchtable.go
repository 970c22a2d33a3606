package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// benchTable writes rows as they come, so that a run that is broken off has shown what it measured.
type benchTable interface {
	row(benchLine) error
	end() error
}

// benchLine is a row of a table: a struct whose fields are those of JSON and CSV.
type benchLine interface {
	columns() []column // of a table for people
	build() string
}

// column is a cell and its column: so wide, a negative width aligns it to the left.
type column struct {
	name, text string
	width      int
}

func newBenchTable(format string, w io.Writer) benchTable {
	switch format {
	case "json":
		return &jsonTable{w: w}
	case "jsonl":
		return linesTable{w}
	case "csv":
		return &csvTable{w: csv.NewWriter(w)}
	}
	return &markdownTable{w: w}
}

// markdownTable is llama-bench's, with columns for what that does not have.
type markdownTable struct {
	w     io.Writer
	begun bool
	build string
}

func (t *markdownTable) row(r benchLine) error {
	columns := r.columns()
	if !t.begun {
		t.begun, t.build = true, r.build()
		var names, dashes []string
		for _, c := range columns {
			names = append(names, fmt.Sprintf("%*s", c.width, c.name))
			if c.width < 0 {
				dashes = append(dashes, strings.Repeat("-", -c.width))
			} else {
				dashes = append(dashes, strings.Repeat("-", c.width-1)+":")
			}
		}
		if err := t.write(names); err != nil {
			return err
		}
		if err := t.write(dashes); err != nil {
			return err
		}
	}
	var cells []string
	for _, c := range columns {
		cells = append(cells, fmt.Sprintf("%*s", c.width, c.text))
	}
	return t.write(cells)
}

func (t *markdownTable) write(cells []string) error {
	_, err := fmt.Fprintf(t.w, "| %s |\n", strings.Join(cells, " | "))
	return err
}

func (t *markdownTable) end() error {
	if !t.begun {
		return nil
	}
	_, err := fmt.Fprintf(t.w, "\nbuild: %s\n", t.build)
	return err
}

// jsonTable is an array of objects.
type jsonTable struct {
	w     io.Writer
	begun bool
}

func (t *jsonTable) row(r benchLine) error {
	text, err := json.MarshalIndent(r, "  ", "  ")
	if err != nil {
		return err
	}
	separator := "[\n  "
	if t.begun {
		separator = ",\n  "
	}
	t.begun = true
	_, err = fmt.Fprintf(t.w, "%s%s", separator, text)
	return err
}

func (t *jsonTable) end() error {
	if !t.begun {
		return nil
	}
	_, err := fmt.Fprintln(t.w, "\n]")
	return err
}

// linesTable is an object a line.
type linesTable struct{ w io.Writer }

func (t linesTable) row(r benchLine) error { return writeJSON(t.w, r) }
func (t linesTable) end() error            { return nil }

// csvTable has the fields of JSON but for the samples, as llama-bench's has.
type csvTable struct {
	w     *csv.Writer
	begun bool
}

func (t *csvTable) row(r benchLine) error {
	var names, values []string
	v := reflect.ValueOf(r)
	for _, f := range reflect.VisibleFields(v.Type()) {
		if f.Anonymous || f.Type.Kind() == reflect.Slice {
			continue
		}
		names = append(names, f.Tag.Get("json"))
		values = append(values, fmt.Sprint(v.FieldByIndex(f.Index).Interface()))
	}
	if !t.begun {
		t.begun = true
		if err := t.w.Write(names); err != nil {
			return err
		}
	}
	if err := t.w.Write(values); err != nil {
		return err
	}
	t.w.Flush()
	return t.w.Error()
}

func (t *csvTable) end() error { return nil }
