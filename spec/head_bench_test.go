package spec

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"memra/compute"
	"memra/compute/cpu"
	"memra/internal/builtin"
	"memra/model"
	"memra/sample"
	"memra/state"
	"memra/tokenizer"
)

// BenchmarkHead is a step of so many rows of the built-in model, and so many guesses of its layer, at depth 900 on the processor. Others use a machine
// at times: the shortest twentieth says the most.
func BenchmarkHead(b *testing.B) {
	file, err := builtin.GGUF(builtin.Name)
	if err != nil {
		b.Fatal(err)
	}
	vocabulary, err := tokenizer.FromGGUF(file.Meta)
	if err != nil {
		b.Fatal(err)
	}
	text, err := os.ReadFile("../state/pool.go")
	if err != nil {
		b.Fatal(err)
	}
	tokens := vocabulary.Encode(string(text), tokenizer.Options{})[:910]
	d, err := cpu.Open(0)
	if err != nil {
		b.Fatal(err)
	}
	defer d.Close()
	m, err := model.Open(model.GGUF(file), d)
	if err != nil {
		b.Fatal(err)
	}
	config := state.Config{Positions: 2048, Sequences: 1, Step: 256}
	pool, err := state.NewPool(d, m.State(), config)
	if err != nil {
		b.Fatal(err)
	}
	defer pool.Close()
	head, err := NewHead(d, m, config, 8)
	if err != nil {
		b.Fatal(err)
	}
	defer head.Close()
	q, memory := pool.NewSequence(), head.Begin()
	draw := sample.Draw{Params: sample.Params{Temperature: 0, Seed: 1}}
	step := func(from, rows, asks int) time.Duration {
		if q.Len() > from {
			if err := q.Truncate(from); err != nil {
				b.Fatal(err)
			}
		}
		if err := q.Extend(rows); err != nil {
			b.Fatal(err)
		}
		began := time.Now()
		var batch compute.Batch
		var draws []sample.Draw
		for i := range rows {
			batch.Add(tokens[from+i], from+i, 0, i >= rows-asks)
		}
		for range asks {
			draws = append(draws, draw)
		}
		known := from + rows
		if asks > 1 {
			known = from + 1
		}
		view := pool.View(q)
		shares := []Share{{Memory: memory, Tokens: tokens[:known], From: from, Rows: rows}}
		if _, err := d.Sample(head.Forward(&batch, view, shares), draws); err != nil {
			b.Fatal(err)
		}
		return time.Since(began)
	}
	for at := 0; at < 900; at += 100 {
		step(at, 100, 0)
	}
	var times []time.Duration
	report := func(b *testing.B) {
		slices.Sort(times)
		n := max(1, len(times)/20)
		var sum time.Duration
		for _, t := range times[:n] {
			sum += t
		}
		b.ReportMetric(float64(sum.Nanoseconds())/float64(n)/1e3, "us-shortest")
		b.ReportMetric(float64(times[len(times)/2].Nanoseconds())/1e3, "us-median")
		b.ReportMetric(0, "ns/op")
	}
	for _, rows := range []int{1, 2, 4, 5} {
		b.Run(fmt.Sprintf("rows=%d", rows), func(b *testing.B) {
			times = times[:0]
			for range b.N {
				times = append(times, step(900, rows, rows))
			}
			report(b)
		})
	}
	for _, depth := range []int{1, 3} {
		b.Run(fmt.Sprintf("guesses=%d", depth), func(b *testing.B) {
			times = times[:0]
			step(900, 1, 1)
			s := &Sequence{memory: memory}
			b.ReportAllocs()
			for range b.N {
				a := &Ask{Sequence: s, Tokens: tokens[:902], Most: 8, Draw: func([]int32) sample.Draw { return draw }, Depth: depth}
				began := time.Now()
				if err := head.Draft([]*Ask{a}); err != nil {
					b.Fatal(err)
				}
				times = append(times, time.Since(began))
				if len(a.Drafts) != depth {
					b.Fatal(a.Drafts)
				}
			}
			report(b)
		})
	}
}
