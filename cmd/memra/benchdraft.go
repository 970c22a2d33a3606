package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"time"

	"memra"
)

// drafts measures what guessing tokens ahead brings, on the text of a file.
func (c *benchCommand) drafts(ctx context.Context, m *memra.Model, table benchTable) error {
	text, err := os.ReadFile(c.text)
	if err != nil {
		return fmt.Errorf("bench: the text: %w", err)
	}
	prompt := m.Tokenize(string(text))
	for _, n := range c.generates.value {
		for _, streams := range c.streams.value {
			test := memra.DraftTest{Generate: n, Streams: streams}
			room := m.Context() - test.Room()
			if room < 1 {
				return fmt.Errorf("bench: the context of %d tokens has no room for a prompt and %d more", m.Context(), test.Room())
			}
			test.Prompt = prompt[:min(room, len(prompt))]
			began := time.Now()
			r, err := m.BenchDrafts(ctx, test, c.repetitions)
			if err != nil {
				return err
			}
			if err := table.row(newDraftRow(m.Facts(), c.model.cache.value, began, r)); err != nil {
				return err
			}
		}
	}
	return nil
}

// draftRow is a result of drafts.
type draftRow struct {
	benchFacts
	NPrompt   int       `json:"n_prompt"`
	NGen      int       `json:"n_gen"`
	NStreams  int       `json:"n_streams"`
	Draft     string    `json:"draft"`
	PlainTS   []float64 `json:"plain_ts"`
	DraftTS   []float64 `json:"draft_ts"`
	Ratio     float64   `json:"ratio"` // of the medians
	Rounds    int       `json:"rounds"`
	NDrafted  []int     `json:"n_drafted"`  // by depth
	NAccepted []int     `json:"n_accepted"` // of them
	Command   string    `json:"command"`
}

func newDraftRow(f memra.Facts, kv string, began time.Time, r memra.DraftResult) draftRow {
	return draftRow{benchFacts: newBenchFacts(f, kv, began), NPrompt: len(r.Prompt), NGen: r.Generate, NStreams: r.Streams, Draft: r.Drafts.Kind,
		PlainTS: r.Plain, DraftTS: r.Drafted, Ratio: median(r.Drafted) / median(r.Plain), Rounds: r.Drafts.Rounds, NDrafted: r.Drafts.Drafted,
		NAccepted: r.Drafts.Accepted, Command: commandLine()}
}

func (r draftRow) columns() []column {
	depth := 0.0 // drafts that came true, for each step of a sequence with drafts
	for _, n := range r.NAccepted {
		depth += float64(n) / float64(max(1, r.Rounds))
	}
	first := 0.0
	if len(r.NDrafted) > 0 && r.NDrafted[0] > 0 {
		first = 100 * float64(r.NAccepted[0]) / float64(r.NDrafted[0])
	}
	return append(r.benchFacts.columns(), column{"test", fmt.Sprintf("%s tg%d x%d @ d%d", r.Draft, r.NGen, r.NStreams, r.NPrompt), 24},
		column{"plain t/s", fmt.Sprintf("%.1f", median(r.PlainTS)), 10}, column{"t/s", fmt.Sprintf("%.1f", median(r.DraftTS)), 10},
		column{"ratio", fmt.Sprintf("%.2f", r.Ratio), 6}, column{"first right", fmt.Sprintf("%.0f %%", first), 11}, column{"right a step", fmt.Sprintf("%.2f", depth), 12})
}

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
