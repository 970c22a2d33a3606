package engine

import (
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"memra/compute"
	"memra/compute/cuda"
	"memra/gguf"
	"memra/internal/builtin"
	"memra/internal/overlap"
	"memra/internal/tiny"
	"memra/model"
	"memra/sample"
	"memra/spec"
	"memra/state"
	"memra/tokenizer"
)

// drafting is how a plan's sequences are drafted.
type drafting struct {
	kind   string // of drafter: see speculator; "": none
	depth  int
	always bool // or as it pays
	room   int  // positions that the drafter has memory for
	errs   int  // one of so many drafts of "knowing" is wrong
}

// randomDrafting draws any. Most random texts never repeat, so that drafts that come true are those of who knows.
func randomDrafting(rng *rand.Rand) drafting {
	one := func(of ...int) int { return of[rng.IntN(len(of))] }
	kind := []string{"", "", "", "lookup", "lookup", "lookup", "knowing", "knowing", "knowing", "knowing"}[rng.IntN(10)]
	if rng.IntN(20) == 0 {
		kind = []string{"draft", "mtp", "mtp+lookup"}[rng.IntN(3)]
	}
	return drafting{kind, one(1, 1+rng.IntN(8), 8), rng.IntN(3) > 0, one(64, 300, 4000), one(2, 5, 1000)}
}

// speculator makes it, for a subject and requests whose finished texts are these.
func (d drafting) speculator(s subject, texts [][]int32, sequences int) (*spec.Speculator, error) {
	c := state.Config{Positions: d.room, Sequences: sequences, Step: 256}
	var drafter spec.Drafter
	var err error
	switch d.kind {
	case "":
		return nil, nil
	case "lookup":
		drafter = spec.NewLookup(s.Model)
	case "knowing":
		drafter = knowing{spec.NewLookup(s.Model), texts, d.errs}
	case "draft": // the model itself: all its drafts come true
		drafter, err = spec.NewSmall(s.device, s.Model, s.Model, c, d.depth)
	case "mtp":
		drafter, err = spec.NewHead(s.device, s.Model, c, d.depth)
	case "mtp+lookup":
		var head *spec.Head
		if head, err = spec.NewHead(s.device, s.Model, c, d.depth); err == nil {
			drafter = spec.NewBoth(head, spec.NewLookup(s.Model))
		}
	}
	if err != nil {
		return nil, err
	}
	sp := spec.New(drafter, d.depth, s.device.Padded)
	if d.always {
		sp.Always()
	}
	return sp, nil
}

// knowing drafts what is known to come, with mistakes.
type knowing struct {
	*spec.Lookup
	texts [][]int32
	errs  int
}

func (knowing) Begin() spec.Memory { return sighted{} }

func (k knowing) Draft(asks []*spec.Ask) error {
	for _, a := range asks {
		n := len(a.Tokens)
		i := slices.IndexFunc(k.texts, func(t []int32) bool { return len(t) > n && slices.Equal(t[:n], a.Tokens) })
		if i < 0 {
			continue
		}
		for j, t := range k.texts[i][n:min(len(k.texts[i]), n+a.Depth)] {
			if (7*n+j)%k.errs == 0 {
				t ^= 1
			}
			a.Drafts = append(a.Drafts, t)
		}
	}
	return nil
}

// sighted is a memory of nothing.
type sighted struct{}

func (sighted) Sight([]int32) (paid, free int) { return spec.None, 0 }
func (sighted) Fork() spec.Memory              { return sighted{} }
func (sighted) Free()                          {}

// A model that drafts for itself draws its drafts with the noise that the tokens are drawn with: every one of them is right, also in
// a page's corners, through preemptions, and where a hybrid has to drop rows.
func TestAModelThatDraftsForItselfIsAlwaysRight(t *testing.T) {
	onEachDevice(t, func(t *testing.T, d compute.Device) {
		for name, make := range map[string]func(uint64, gguf.Type) *tiny.Model{"llama": tiny.Llama, "qwen35": tiny.Qwen35, "gemma3": tiny.Gemma3} {
			m, err := model.Open(make(5, gguf.Q8_0), d)
			if err != nil {
				t.Fatal(err)
			}
			s := subject{name, d, m}
			for _, p := range []sample.Params{{}, {Temperature: 1, Seed: 3}, {Temperature: 0.8, TopK: 40, Seed: 9, RepeatPenalty: 1.2, FrequencyPenalty: 0.3}} {
				sp, err := drafting{kind: "draft", depth: 5, always: true, room: 3000}.speculator(s, nil, 3)
				if err != nil {
					t.Fatal(err)
				}
				e, end := s.idle(sizes{rows: 64, asking: 64, sequences: 3, positions: 600, slots: 3}, sp)
				var answers []*Answer
				for i := range 3 {
					a, err := newAnswer(e, &Request{Tokens: random(uint64(i), 50+20*i), Limit: 150, Draw: sample.Draw{Params: p}})
					if err != nil {
						t.Fatal(err)
					}
					answers = append(answers, a)
					e.scheduler.add(a)
				}
				for e.step(time.Since) {
				}
				for i, a := range answers {
					events, err := a.queue, a.err
					if err != nil || len(events) == 0 {
						t.Fatalf("%s, answer %d: %v", name, i, err)
					}
					if done := events[len(events)-1].Done; done.Accepted < 100 || done.Accepted != done.Drafted {
						t.Errorf("%s, answer %d: %d of %d drafts were right, want all of over 100", name, i, done.Accepted, done.Drafted)
					}
				}
				if err := end(); err != nil {
					t.Error(err)
				}
			}
		}
	})
}

// The built-in model's own layer has to have seen what it guesses from: what the model made of every token, at its place. It has, whether
// prompts come in chunks beside others' or at once, and in company it guesses as it does alone: nearly every draft is the same, for what is
// remembered without a guess may differ in a last bit from what is guessed from.
func TestTheBuiltInModelsOwnLayerIsMostlyRight(t *testing.T) {
	onEachDevice(t, func(t *testing.T, d compute.Device) {
		s := builtinSubject(t, d)
		var requests []Request
		for i := range 16 { // greedy and not
			requests = append(requests, Request{Tokens: s.prompt[:len(s.prompt)-10*(i%4)], Limit: 100,
				Draw: sample.Draw{Params: sample.Params{Temperature: 0.2 * float32(i%4), Seed: uint64(i)}}})
		}
		chunks, _ := mostlyRight(t, s.subject, 100, requests)
		kept, rounds := 0, 0
		for i := range requests {
			whole, st := mostlyRight(t, s.subject, 1000, requests[i:i+1])
			for _, n := range st.Accepted {
				kept += n
			}
			rounds += st.Rounds
			if c, w := chunks[i].Accepted, whole[0].Accepted; c < w-5 || c > w+5 {
				t.Errorf("request %d: %d drafts were right beside others, in chunks, and %d alone, at once", i, c, w)
			}
		}
		if rate := float64(kept) / float64(rounds); !(rate > 1.5) || rounds < 400 {
			t.Errorf("%d drafts of %d rounds of three were kept, want over 1.5 a round", kept, rounds)
		}
	})
}

// Guesses whose predecessors are not known yet are those that would have been made after them, and so where draws look back, when nothing is begun ahead.
func TestGuessesBegunAheadAreThoseInTurn(t *testing.T) {
	d := processor(t, 2)
	s := builtinSubject(t, d)
	for _, c := range []struct {
		name   string
		params sample.Params
		ahead  bool
	}{
		{"greedy", sample.Params{}, true}, {"drawn", sample.Params{Temperature: 0.7, Seed: 4}, true}, {"with penalties", sample.Params{Temperature: 0.7, RepeatPenalty: 1.1}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var requests []Request
			for i := range 3 {
				requests = append(requests, Request{Tokens: s.prompt[10*i:], Limit: 40 + i, Draw: sample.Draw{Params: c.params}})
			}
			under := &overlap.Device{Device: d}
			inTurn, want := mostlyRight(t, s.subject, 100, requests)
			ahead, got := mostlyRight(t, subject{s.name, under, s.Model}, 100, requests)
			if !reflect.DeepEqual(got, want) || want.Rounds < 30 {
				t.Errorf("%+v guesses, in turn %+v", got, want)
			}
			for i := range ahead {
				if ahead[i].Accepted != inTurn[i].Accepted || ahead[i].Drafted != inTurn[i].Drafted {
					t.Errorf("request %d: %d of %d guesses were right, in turn %d of %d", i, ahead[i].Accepted, ahead[i].Drafted, inTurn[i].Accepted, inTurn[i].Drafted)
				}
			}
			if (under.Ahead > 0) != c.ahead || under.Disorder > 0 || under.Begun != under.Waited {
				t.Errorf("%d of %d steps were begun ahead, want some: %v; %d out of turn; %d waited for", under.Ahead, under.Begun, c.ahead, under.Disorder, under.Waited)
			}
		})
	}
}

// prompted is the built-in model, and a text for it.
type prompted struct {
	subject
	prompt []int32
}

func builtinSubject(t *testing.T, d compute.Device) prompted {
	t.Helper()
	file, err := builtin.GGUF(builtin.Name)
	if err != nil {
		t.Fatal(err)
	}
	vocabulary, err := tokenizer.FromGGUF(file.Meta)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("testdata/prompt.txt")
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Open(model.GGUF(file), d)
	if err != nil {
		t.Fatal(err)
	}
	return prompted{subject{builtin.Name, d, m}, append([]int32{vocabulary.BOS()}, vocabulary.Encode(string(text), tokenizer.Options{})...)}
}

// mostlyRight serves requests together, in steps of so many rows, by a schedule that no time decides. The layer has memory for all of them.
func mostlyRight(t *testing.T, s subject, rows int, requests []Request) (done []Done, st spec.Stats) {
	const positions = 1024
	sp, err := drafting{kind: "mtp", depth: 3, always: true, room: positions * len(requests)}.speculator(s, nil, len(requests))
	if err != nil {
		t.Fatal(err)
	}
	e, end := s.idle(sizes{rows: rows, asking: 64, sequences: len(requests), positions: positions * len(requests), slots: len(requests)}, sp)
	var answers []*Answer
	for i := range requests {
		a, err := newAnswer(e, &requests[i])
		if err != nil {
			t.Fatal(err)
		}
		answers = append(answers, a)
		e.scheduler.add(a)
	}
	for e.step(func(time.Time) time.Duration { return time.Millisecond }) {
	}
	for i, a := range answers {
		if a.err != nil || len(a.queue) == 0 || a.queue[len(a.queue)-1].Done == nil {
			t.Fatalf("request %d: %v, and no end", i, a.err)
		}
		done = append(done, *a.queue[len(a.queue)-1].Done)
	}
	if err := end(); err != nil {
		t.Error(err)
	}
	return done, sp.Stats()
}

// onEachDevice runs a test on the processor, and on a GPU where there is one.
func onEachDevice(t *testing.T, test func(t *testing.T, d compute.Device)) {
	t.Run("cpu", func(t *testing.T) { test(t, processor(t, 2)) })
	t.Run("cuda", func(t *testing.T) {
		d, err := cuda.Open(0)
		if err != nil {
			t.Skip(err)
		}
		defer d.Close()
		test(t, d)
	})
}

// String names it in a failing plan.
func (d drafting) String() string {
	if d.kind == "" {
		return "no drafts"
	}
	return fmt.Sprintf("%s, up to %d drafts, always %v, memory for %d positions, one mistake in %d", d.kind, d.depth, d.always, d.room, d.errs)
}
