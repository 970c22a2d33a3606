package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"memra"
)

func newInspect(a *app) *cobra.Command {
	output := choices("text", "json")
	var noTensors, verify bool
	var model modelFlags
	cmd := &cobra.Command{
		Use:   "inspect [-m] MODEL",
		Short: "Show what a model file says of itself: metadata, tensors, sizes, template",
		Long: `Show what a model file says of itself: metadata, tensors, sizes, template. It works for files that no family here can run.
Of the built-in model (builtin) it shows the card as well: what it is, what it learned from, its figures and its licences.

The text output abbreviates long arrays and strings. JSON has all of them, metadata in the file's order:
{"family","parameters","bytes","metadata":{..},"tensors":[{"name","type","shape","bytes","runs_as","runs_as_cuda"}],"template","card"}. Shapes go slowest first:
rows, then the values of a row. A matrix whose format has no kernel runs as another that loses nothing of it (runs_as),
and on a GPU as F16 (runs_as_cuda). Numbers that
JSON has not (NaN, infinities) are strings.

With --check all of the file is read as well, and the exit status is 1 if anything is wrong: a weight that is NaN or infinite, a tensor
or setting that is not the family's, a broken tokenizer, a chat template that fails. JSON has "check":
{"faults":[..],"template":[{"conversation","refused"}],"sha256"}. The hash is of the weights alone: files that hold the same tensors
have the same, whatever their format and metadata.`,
		Example: `  memra inspect model.gguf
  memra inspect --no-tensors builtin
  memra inspect --no-tensors model.gguf
  memra inspect --check --no-tensors model.gguf
  memra inspect -o json model.gguf | jq '.metadata["general.name"]'`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 1 || len(args) == 1 && model.path != "" {
				return fmt.Errorf("%d models are given, want one", max(2, len(args)))
			}
			return nil
		},
		ValidArgsFunction: cobra.FixedCompletions([]string{"gguf"}, cobra.ShellCompDirectiveFilterFileExt),
		RunE: interruptible(func(ctx context.Context, _ *cobra.Command, args []string) error {
			if len(args) == 1 {
				model.path = args[0]
			}
			model.choose(a)
			info, err := memra.Inspect(model.path)
			if err != nil {
				return err
			}
			var found *memra.Verified
			if verify {
				bar := a.bytesBar("check")
				found, err = memra.Verify(ctx, model.path, bar.set)
				bar.finish()
				if err != nil {
					return err
				}
			}
			w := bufio.NewWriter(a.out)
			if noTensors {
				info.Tensors = nil
			}
			if output.value == "json" {
				err = inspectJSON(w, info, found, !noTensors)
			} else {
				err = inspectText(w, func(s string) string { return bold(a.out, s) }, model.path, info, found)
			}
			if err != nil {
				return err
			}
			if err := w.Flush(); err != nil {
				return err
			}
			if found != nil && len(found.Faults) > 0 {
				return fmt.Errorf("inspect: %s: %d faults:\n%s", model.path, len(found.Faults), harmless(strings.Join(found.Faults, "\n")))
			}
			return nil
		}),
	}
	model.addPath(cmd)
	cmd.Flags().BoolVar(&verify, "check", false, "also read all weights, and say what is wrong with the file")
	cmd.Flags().BoolVar(&noTensors, "no-tensors", false, "leave the table of tensors out")
	output.addOutput(cmd)
	return cmd
}

func inspectText(w io.Writer, heading func(string) string, path string, info *memra.Info, found *memra.Verified) error {
	family := info.Family
	if family == "" {
		family = "(not said)"
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "file\t%s\n", harmless(path))
	fmt.Fprintf(t, "family\t%s\n", harmless(family))
	fmt.Fprintf(t, "parameters\t%s (%d)\n", countText(info.Parameters), info.Parameters)
	fmt.Fprintf(t, "tensor data\t%s (%d bytes)\n", bytesText(info.Bytes), info.Bytes)

	fmt.Fprintf(t, "\n%s\n", heading("metadata"))
	for key, value := range info.Metadata() {
		fmt.Fprintf(t, "%s\t%s\n", harmless(key), brief(value))
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if len(info.Tensors) > 0 {
		fmt.Fprintf(w, "\n%s\n", heading(fmt.Sprintf("tensors (%d: %s)", len(info.Tensors), formats(info.Tensors))))
		t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, tensor := range info.Tensors {
			kind := tensor.Type
			if tensor.RunsAs != "" {
				kind += ", runs as " + tensor.RunsAs
			}
			if tensor.RunsAsCUDA != "" {
				kind += ", on CUDA as " + tensor.RunsAsCUDA
			}
			fmt.Fprintf(t, "%s\t%s\t%v\t%d\n", harmless(tensor.Name), kind, tensor.Shape, tensor.Bytes)
		}
		if err := t.Flush(); err != nil {
			return err
		}
	}
	if info.Template != "" {
		fmt.Fprintf(w, "\n%s\n%s\n", heading("template"), harmless(info.Template))
	}
	if info.Card != "" {
		fmt.Fprintf(w, "\n%s\n%s", heading("card"), harmless(info.Card))
	}
	if found == nil {
		return nil
	}
	t = tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "\n%s\n", heading("check"))
	for _, trial := range found.Template {
		outcome := "rendered"
		if trial.Refused != "" {
			outcome = trial.Refused
		}
		fmt.Fprintf(t, "template: %s\t%s\n", trial.Conversation, harmless(outcome))
	}
	fmt.Fprintf(t, "faults\t%d\n", len(found.Faults))
	fmt.Fprintf(t, "weights, SHA-256\t%s\n", found.SHA256)
	return t.Flush()
}

// formats counts the tensors of each type: "211 Q4_1, 61 F32".
func formats(tensors []memra.TensorInfo) string {
	count := map[string]int{}
	var names []string
	for _, t := range tensors {
		if count[t.Type]++; count[t.Type] == 1 {
			names = append(names, t.Type)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return count[b] - count[a] })
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", count[name], name)
	}
	return strings.Join(names, ", ")
}

// briefItems and briefRunes are how much of an array and of a string the text output shows.
const (
	briefItems = 6
	briefRunes = 80
)

// brief is a metadata value on one line.
func brief(value any) string {
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.String:
		text := v.String()
		if runes := []rune(text); len(runes) > briefRunes {
			return fmt.Sprintf("%s... (%d bytes)", strconv.Quote(string(runes[:briefRunes])), len(text))
		}
		return strconv.Quote(text)
	case reflect.Slice:
		items := make([]string, 0, briefItems+1)
		for i := range min(v.Len(), briefItems) {
			items = append(items, brief(v.Index(i).Interface()))
		}
		if v.Len() > briefItems {
			items = append(items, fmt.Sprintf("... (%d in all)", v.Len()))
		}
		return "[" + strings.Join(items, ", ") + "]"
	}
	return fmt.Sprint(value)
}

// inspectJSON writes one line for each key and each tensor.
func inspectJSON(w io.Writer, info *memra.Info, found *memra.Verified, tensors bool) error {
	j := jsonWriter{w: w}
	j.printf("{\n\"family\": %s,\n\"parameters\": %d,\n\"bytes\": %d,\n\"metadata\": {", j.value(info.Family), info.Parameters, info.Bytes)
	separator := "\n"
	for key, value := range info.Metadata() {
		j.printf("%s%s: %s", separator, j.value(key), j.value(plain(value)))
		separator = ",\n"
	}
	j.printf("\n}")
	if tensors {
		j.printf(",\n\"tensors\": [")
		separator = "\n"
		for _, t := range info.Tensors {
			j.printf("%s%s", separator, j.value(t))
			separator = ",\n"
		}
		j.printf("\n]")
	}
	if info.Template != "" {
		j.printf(",\n\"template\": %s", j.value(info.Template))
	}
	if info.Card != "" {
		j.printf(",\n\"card\": %s", j.value(info.Card))
	}
	if found != nil {
		j.printf(",\n\"check\": %s", j.value(found))
	}
	j.printf("\n}\n")
	return j.err
}

// jsonWriter writes pieces of JSON and keeps the first error.
type jsonWriter struct {
	w   io.Writer
	err error
}

func (j *jsonWriter) value(v any) []byte {
	text, err := toJSON(v)
	if j.err == nil {
		j.err = err
	}
	return text
}

func (j *jsonWriter) printf(format string, args ...any) {
	if j.err == nil {
		_, j.err = fmt.Fprintf(j.w, format, args...)
	}
}

// plain is a metadata value as encoding/json shall see it: bytes as numbers, and what JSON has no number for as a string.
func plain(value any) any {
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		if f := v.Float(); f != f || f-f != 0 {
			return fmt.Sprint(f)
		}
	case reflect.Slice:
		items := make([]any, v.Len())
		for i := range items {
			items[i] = plain(v.Index(i).Interface())
		}
		return items
	}
	return value
}
