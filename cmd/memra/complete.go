package main

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"memra"
)

type completeCommand struct {
	*app
	model  modelFlags
	answer requestFlags
	stdin  bool
	stats  bool
	output choice
}

// mostMiddle is -n unless given: a model that does not know where to end fills no screen.
const mostMiddle = 256

func newComplete(a *app) *cobra.Command {
	c := &completeCommand{app: a, output: choices("text", "json")}
	cmd := &cobra.Command{
		Use:   "complete [-m MODEL] [flags] FILE:LINE[:COLUMN]",
		Short: "Fill in the middle of a file: what belongs at a place of it",
		Long: `Fill in the middle of a file: what belongs at a place of it, on standard output. The file stays as it is.

The place is before byte COLUMN of line LINE, both counted from 1 as compilers do; without COLUMN it is the end of the line.
With --stdin the file's text comes from standard input, as an editor has it before it is saved. The model reads what stands before the place and after it, and must have learned to write what
belongs between: its vocabulary then has tokens for that, such as <|fim_prefix|>. The built-in model, which runs where no -m is given,
has; it knows Go alone. Of a file that is larger than the context, what lies farthest from the place is left out, and a line on
standard error says how much.

The answer ends where the model ends it, before it would repeat what comes next in the file, after -n tokens, or with a --stop;
--stop $'\n' keeps to one line.

JSON is {"file","line","column","middle","end","tokens","prompt_tokens","left_out_tokens"}; "end" is "stop" or "length".`,
		Example: `  memra complete main.go:12
  memra complete -n 32 main.go:12:9
  memra complete -m Qwen2.5-Coder-1.5B.gguf --stop $'\n' script.py:3
  memra complete --stdin -o json main.go:7:1 < main.go`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%d arguments, want one place: FILE:LINE or FILE:LINE:COLUMN", len(args))
			}
			return nil
		},
		RunE: interruptible(c.run),
	}
	c.model.add(cmd, 0, "most tokens of file and answer together (default what the model was made for)")
	c.model.drafts.add(cmd)
	c.model.prefix.add(cmd)
	c.answer.add(cmd, mostMiddle)
	cmd.Flags().BoolVar(&c.stdin, "stdin", false, "read the file's text from standard input; FILE is a name for it")
	cmd.Flags().BoolVar(&c.stats, "stats", false, "write token counts and rates to standard error")
	c.output.addOutput(cmd)
	return cmd
}

func (c *completeCommand) run(ctx context.Context, cmd *cobra.Command, args []string) error {
	r, err := c.answer.request(cmd)
	if err != nil {
		return err
	}
	p, err := parsePlace(args[0])
	if err != nil {
		return usageError{cmd, err}
	}
	text, err := c.content(ctx, cmd, p)
	if err != nil {
		return err
	}
	at, err := p.find(text)
	if err != nil {
		return err
	}
	r.Gap, r.Heal = &memra.Gap{Before: text[:at], After: text[at:]}, true
	r.Stop = append(r.Stop, repeats(text[at:])...)
	began := time.Now()
	m, err := c.model.open(ctx, c.app)
	if err != nil {
		return err
	}
	defer m.Close()
	var done *memra.Done
	var first time.Duration
	if c.output.value == "json" {
		done, first, err = c.writeJSON(ctx, m, r, p, began)
	} else {
		done, first, err = c.stream(ctx, m, r, began)
	}
	if err != nil {
		return err
	}
	if done.LeftOut > 0 {
		fmt.Fprintf(c.err, "memra: %d tokens of %s, those farthest from the place, are left out: the context has %d\n", done.LeftOut, p.file, m.Context())
	}
	if c.stats {
		c.writeStats(m, r, done, first)
	}
	return nil
}

// content is the file's text.
func (c *completeCommand) content(ctx context.Context, cmd *cobra.Command, p place) (text string, err error) {
	if c.stdin {
		text, err = c.text(ctx, cmd, []string{"-"}, "", "file")
	} else {
		text, err = c.text(ctx, cmd, nil, p.file, "file")
	}
	if err != nil {
		return "", err
	}
	return text, checkUTF8(text, p.file)
}

// writeJSON writes the answer at once.
func (c *completeCommand) writeJSON(ctx context.Context, m *memra.Model, r memra.Request, p place, began time.Time) (done *memra.Done, first time.Duration, err error) {
	var middle strings.Builder
	to := *c.app
	to.out = &middle
	if done, first, err = to.stream(ctx, m, r, began); err != nil {
		return nil, 0, err
	}
	return done, first, writeJSON(c.out, struct {
		File    string `json:"file"`
		Line    int    `json:"line"`
		Column  int    `json:"column"`
		Middle  string `json:"middle"`
		End     string `json:"end"`
		Tokens  int    `json:"tokens"`
		Prompt  int    `json:"prompt_tokens"`
		LeftOut int    `json:"left_out_tokens"`
	}{p.file, p.line, p.column, middle.String(), done.Reason, done.Tokens, done.Prompt, done.LeftOut})
}

// place is a place in a file.
type place struct {
	file   string
	line   int // from 1
	column int // in bytes, from 1; 0: the end of the line
}

var placeForm = regexp.MustCompile(`^(.+?):(\d+)(?::(\d+))?$`)

func parsePlace(text string) (p place, err error) {
	part := placeForm.FindStringSubmatch(text)
	if part == nil {
		return p, fmt.Errorf("found %q, want a place: FILE:LINE or FILE:LINE:COLUMN", text)
	}
	p.file = part[1]
	for i, to := range []*int{&p.line, &p.column} {
		if part[2+i] == "" {
			continue
		}
		if *to, err = strconv.Atoi(part[2+i]); err != nil || *to < 1 {
			return p, fmt.Errorf("found %q, want lines and columns that count from 1", text)
		}
	}
	return p, nil
}

// find returns the byte of a text that the place is before.
func (p place) find(text string) (int, error) {
	start := 0
	for line := 1; line < p.line; line++ {
		end := strings.IndexByte(text[start:], '\n')
		if end < 0 {
			return 0, fmt.Errorf("complete: %s: line %d, want 1 to %d: the file has no more", p.file, p.line, line)
		}
		start += end + 1
	}
	line, _, _ := strings.Cut(text[start:], "\n")
	line = strings.TrimSuffix(line, "\r")
	switch {
	case p.column == 0:
		return start + len(line), nil
	case p.column > len(line)+1:
		return 0, fmt.Errorf("complete: %s:%d: column %d, want 1 to %d, the line's end", p.file, p.line, p.column, len(line)+1)
	case p.column <= len(line) && !utf8.RuneStart(line[p.column-1]):
		return 0, fmt.Errorf("complete: %s:%d: column %d is inside a character; columns count bytes", p.file, p.line, p.column)
	}
	return start + p.column - 1, nil
}

// repeats are texts with which an answer would begin to write again what stands after a gap. Where the line goes on, that is its rest,
// and the answer keeps to the line. Else it is the next line that is not blank, with its indentation: in code that is laid out
// as usual, what belongs before a "}" has none at that depth, nor one at the start of a line where the next is indented.
func repeats(after string) []string {
	rest, below, _ := strings.Cut(after, "\n")
	if strings.TrimSpace(rest) != "" {
		if hasWord(rest) {
			return []string{"\n", strings.TrimSuffix(rest, "\r")}
		}
		return []string{"\n"}
	}
	var stops []string
	for line := range strings.Lines(below) {
		line = strings.TrimRight(line, "\r\n")
		if strings.TrimSpace(line) == "" {
			continue
		}
		if stops = append(stops, "\n"+line); hasWord(line) {
			stops[0] += "\n"
		}
		if line[0] == ' ' || line[0] == '\t' {
			stops = append(stops, braceAlone)
		}
		break
	}
	return stops
}

// hasWord reports whether a line has more than punctuation, so that it is hardly twice in a text by chance.
func hasWord(line string) bool { return strings.ContainsFunc(line, unicode.IsLetter) }
