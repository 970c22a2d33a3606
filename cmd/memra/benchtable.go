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
	row(benchRow) error
	end() error
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

// markdownTable is llama-bench's, with columns for the floor and for the kernels of a step.
type markdownTable struct {
	w     io.Writer
	begun bool
	build string
}

const markdownRow = "| %-30s | %10s | %10s | %-10s | %7s | %18s | %20s | %10s | %7s |\n"

func (t *markdownTable) row(r benchRow) error {
	if !t.begun {
		t.begun, t.build = true, r.BuildCommit
		dashes := func(n int) string { return strings.Repeat("-", n-1) + ":" }
		if _, err := fmt.Fprintf(t.w, markdownRow+markdownRow,
			"model", "size", "params", "backend", "threads", "test", "t/s", "floor t/s", "kernels",
			strings.Repeat("-", 30), dashes(10), dashes(10), strings.Repeat("-", 10), dashes(7), dashes(18), dashes(20), dashes(10), dashes(7)); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(t.w, markdownRow, r.ModelType, bytesText(r.ModelSize), countText(r.ModelNParams), r.Backends,
		fmt.Sprint(r.NThreads), r.test(), fmt.Sprintf("%.2f ± %.2f", r.AvgTS, r.StddevTS), fmt.Sprintf("%.2f", r.FloorTS), fmt.Sprint(r.Kernels))
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

func (t *jsonTable) row(r benchRow) error {
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

func (t linesTable) row(r benchRow) error { return writeJSON(t.w, r) }
func (t linesTable) end() error           { return nil }

// csvTable has the fields of JSON but for the samples, as llama-bench's has.
type csvTable struct {
	w     *csv.Writer
	begun bool
}

func (t *csvTable) row(r benchRow) error {
	var names, values []string
	v := reflect.ValueOf(r)
	for i := range v.NumField() {
		if v.Field(i).Kind() == reflect.Slice {
			continue
		}
		names = append(names, v.Type().Field(i).Tag.Get("json"))
		values = append(values, fmt.Sprint(v.Field(i).Interface()))
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
