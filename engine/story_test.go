package engine

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"memra/compute"
	"memra/model"
	"memra/sample"
	"memra/spec"
	"memra/state"
)

var update = flag.Bool("update", false, "rewrite the stories in testdata with what happens")

// Stories drive a scheduler without device or model: the token after position i is i+1. A story is commands, a line ----, and what
// happens, until an empty line. Lines that begin with # explain. The commands:
//
//	pool pages=3 sequences=2 rows=64 asking=8    begins anew (a step has up to 64 rows, of which 8 ask); prefixes=1: with a tree of them
//	add a prompt=63 limit=5 n=1 score=0 end=70 tenant=x
//	cancel a
//	draft a 2 wrong=1    guesses two tokens for the next step, of which the second is wrong (counted from 0)
//	step n=1 took=1ms fails=a nan=a    n steps; one with rows of a fails, or its row that asks has no numbers
//	skip n=60            so many steps that are not told
//
// A step shows each chunk as its first position and the one after its last, with a * for each row that asks; then what became of it, who
// waits, and how many pages are free.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.story")
	if err != nil || len(files) == 0 {
		t.Fatal("no stories", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			told := tell(t, string(text))
			if *update {
				if err := os.WriteFile(file, []byte(told), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if told != string(text) {
				got, want := strings.Split(told, "\n"), strings.Split(string(text), "\n")
				for i := range want {
					if i >= len(got) || got[i] != want[i] {
						t.Fatalf("line %d: want %q; go test ./engine -run TestStories -update rewrites it, then read the diff. What happens:\n%s", i+1, want[i], told)
					}
				}
				t.Fatal("more happens than is told")
			}
		})
	}
}

// tell runs a story and returns it with what happens.
func tell(t *testing.T, text string) string {
	var b strings.Builder
	s := &story{t: t, out: &b}
	skipping := false
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case line == "----":
			fmt.Fprintln(&b, line)
			for _, command := range s.commands {
				s.do(command)
			}
			s.commands, skipping = nil, true
		case line == "":
			skipping = false
			fmt.Fprintln(&b)
		case !skipping:
			fmt.Fprintln(&b, line)
			if !strings.HasPrefix(line, "#") {
				s.commands = append(s.commands, strings.Fields(line))
			}
		}
	}
	return b.String()
}

type story struct {
	t         *testing.T
	out       *strings.Builder
	commands  [][]string
	engine    *Engine
	answers   map[string]*Answer
	names     map[*Answer]string
	preempted map[*sequence]int
	guesses   scripted
	steps     int
}

// scripted is a drafter that a story tells what to guess next.
type scripted struct {
	*spec.Lookup
	next map[*sequence][]int32
}

func (scripted) Begin() spec.Memory { return sighted{} }

func (scripted) Await() error { return nil }

func (d scripted) Draft(asks []*spec.Ask) error {
	for q, drafts := range d.next {
		for _, a := range asks {
			if a.Sequence == q.guesses {
				a.Drafts = append(a.Drafts, drafts[:min(len(drafts), a.Depth)]...)
			}
		}
	}
	clear(d.next)
	return nil
}

// paper is a device whose memory nobody reads.
type paper struct{ compute.Device }

type paperMemory struct{ compute.KVMemory }

func (paper) NewKV(shape compute.KVShape, pages int) (compute.KVMemory, error) {
	return paperMemory{}, nil
}
func (paperMemory) Copy(int, int) {}

// arguments are a command's name=value words.
type arguments map[string]string

func (a arguments) number(t *testing.T, name string, without int) int {
	text, ok := a[name]
	if !ok {
		return without
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (s *story) do(command []string) {
	args := arguments{}
	var words []string
	for _, word := range command[1:] {
		if name, value, ok := strings.Cut(word, "="); ok {
			args[name] = value
		} else {
			words = append(words, word)
		}
	}
	number := func(name string, without int) int { return args.number(s.t, name, without) }
	switch command[0] {
	case "pool":
		pool, err := state.NewPool(paper{}, state.KV(1, 1, 16), state.Config{Positions: (number("pages", 2) - 1) * compute.Page, Sequences: 1, Step: number("rows", 64)})
		if err != nil {
			s.t.Fatal(err)
		}
		var prefixes *state.Tree
		if number("prefixes", 0) > 0 {
			prefixes = state.NewTree(pool)
		}
		m := &model.Model{Vocab: 1 << 20}
		s.guesses = scripted{spec.NewLookup(m), map[*sequence][]int32{}}
		s.engine = idle(Config{Model: m, Drafts: spec.New(s.guesses, 8, func(n int) int { return n }).Always(), Pool: pool, Prefixes: prefixes, Rows: number("rows", 64), Asking: number("asking", 8), Sequences: number("sequences", 2), Context: 1 << 20})
		s.answers, s.names, s.preempted, s.steps = map[string]*Answer{}, map[*Answer]string{}, map[*sequence]int{}, 0
	case "add":
		r := Request{Limit: number("limit", 0), N: number("n", 1), Tenant: args["tenant"], Patient: number("patient", 0) > 0}
		for i := range number("prompt", 1) {
			r.Tokens = append(r.Tokens, int32(i))
		}
		if _, ok := args["score"]; ok {
			r.Score = &Score{From: number("score", 0)}
		}
		if end := number("end", -1); end >= 0 {
			r.Ends = []int32{int32(end)}
		}
		a, err := newAnswer(s.engine, &r)
		if err != nil {
			s.t.Fatal(err)
		}
		s.answers[words[0]], s.names[a] = a, words[0]
		s.engine.scheduler.add(a)
	case "cancel":
		s.engine.scheduler.cancel(s.answers[words[0]], errors.New("cancelled"))
		s.notes()
	case "draft":
		q := s.answers[words[0]].sequences[0]
		n, _ := strconv.Atoi(words[1])
		for i := range n {
			guess := int32(len(q.tokens) + i)
			if i == number("wrong", -1) {
				guess = 0
			}
			s.guesses.next[q] = append(s.guesses.next[q], guess)
		}
	case "skip":
		told := s.out.String()
		for range number("n", 1) {
			s.step(time.Millisecond, "", "")
		}
		s.out.Reset()
		s.out.WriteString(told)
	case "step":
		took, err := time.ParseDuration(cmp.Or(args["took"], "1ms"))
		if err != nil {
			s.t.Fatal(err)
		}
		for range number("n", 1) {
			s.step(took, args["fails"], args["nan"])
		}
	default:
		s.t.Fatalf("no command %q", command[0])
	}
}

// step plans a step and answers it.
func (s *story) step(took time.Duration, fails, nan string) {
	sched := s.engine.scheduler
	s.steps++
	sched.drafts.draft(sched.running)
	st := sched.plan()
	s.notes()
	for _, q := range slices.Concat(sched.running, sched.waiting) {
		if n := q.done.Preempted; n > s.preempted[q] {
			s.preempted[q] = n
			fmt.Fprintf(s.out, "   %s gives up its pages\n", s.name(q))
		}
	}
	if st == nil {
		fmt.Fprintf(s.out, "%-3d nothing to compute\n", s.steps)
		return
	}
	fmt.Fprintf(s.out, "%-3d", s.steps)
	var failure error
	picks := make([]sample.Pick, len(st.draws))
	for _, c := range st.chunks {
		fmt.Fprintf(s.out, "%s %d:%d%s  ", s.name(c.sequence), c.first, c.first+c.rows, strings.Repeat("*", c.asking))
		for i := range c.asking {
			picks[c.from+i] = sample.Pick{Token: int32(st.draws[c.from+i].Position + 1)}
			if s.names[c.sequence.answer] == nan {
				picks[c.from+i] = st.draws[c.from+i].Refuse(&sample.RowError{Fault: sample.NaN})
			}
		}
		if s.names[c.sequence.answer] == fails {
			failure = errors.New("planted")
		}
	}
	fmt.Fprintf(s.out, " free=%d\n", s.engine.config.Pool.Free()[0])
	st.took = took
	sched.apply(st, picks, failure)
	s.notes()
	if len(sched.waiting) > 0 {
		var names []string
		for _, q := range sched.waiting {
			names = append(names, s.name(q))
		}
		fmt.Fprintf(s.out, "   waiting: %s\n", strings.Join(names, " "))
	}
}

// name is a sequence's: its request's, with a number where that has several.
func (s *story) name(q *sequence) string {
	if q.request.N > 1 {
		return fmt.Sprint(s.names[q.answer], ".", q.index)
	}
	return s.names[q.answer]
}

// notes tells the scheduler's.
func (s *story) notes() {
	for _, n := range s.engine.scheduler.notes {
		name := s.name(n.answer.sequences[n.index])
		switch {
		case n.began != nil:
			if s.engine.config.Prefixes != nil {
				fmt.Fprintf(s.out, "   %s begins with %d of %d tokens (%s)\n", name, n.began.Cached, n.began.Given, cmp.Or(n.began.Miss, "all but the last"))
			}
		case n.err != nil:
			fmt.Fprintf(s.out, "   %s: %v\n", s.names[n.answer], n.err)
		case n.event.Done != nil:
			fmt.Fprintf(s.out, "   %s ends: %s, %d generated\n", name, n.event.Done.Reason, n.event.Done.Generated)
		case n.event.Scored:
			fmt.Fprintf(s.out, "   %s: score of %d\n", name, n.event.Token)
		default:
			fmt.Fprintf(s.out, "   %s: %d\n", name, n.event.Token)
		}
	}
	s.engine.scheduler.notes = nil
}
