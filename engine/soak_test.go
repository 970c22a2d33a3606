package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Soak: clients come and go at random, read slowly, lose interest, and run out of time, on a pool that is too small for all of them, with
// prefixes and drafts. Whatever is read to its end is what the request gets alone; and when all are gone, nothing of them is left.
//
//	MEMRA_SOAK=30m go test -timeout 40m -run Soak ./engine         half an hour of it; 2 seconds without
//	MEMRA_SOAK=30m go test -race -timeout 40m -run Soak ./engine   under the race detector
func TestSoakLeavesNothingBehind(t *testing.T) {
	duration := 2 * time.Second
	if text := os.Getenv("MEMRA_SOAK"); text != "" {
		var err error
		if duration, err = time.ParseDuration(text); err != nil {
			t.Fatal(err)
		}
	}
	d := processor(t, 2)
	subjects, err := families(d, asItIs)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range subjects[:len(subjects)-1] {
		t.Run(s.name, func(t *testing.T) { soak(t, s, duration/time.Duration(len(subjects)-1)) })
	}
}

func soak(t *testing.T, s subject, duration time.Duration) {
	seed := number(t, "MEMRA_SEED", 1)
	rng := rand.New(rand.NewPCG(seed, 77))
	var requests []Request
	var want []outcome
	var texts [][]int32
	for len(requests) < 24 {
		for _, r := range draw(rng, 1).requests {
			if len(r.Tokens) < 300 {
				alone := s.alone(r.Request)
				requests, want = append(requests, r.Request), append(want, alone)
				for _, answer := range alone.answers {
					texts = append(texts, slices.Concat(r.Tokens, tokens(answer, 0)))
				}
			}
		}
	}
	sp, err := drafting{kind: "knowing", depth: 4, errs: 5}.speculator(s, texts, 6)
	if err != nil {
		t.Fatal(err)
	}
	goroutines := runtime.NumGoroutine()
	e, end := s.idle(sizes{rows: 128, asking: 32, sequences: 6, positions: 1000, slots: 6, prefixes: true, snapshots: 16}, sp)
	go e.work()
	var heaps []uint64 // early, late
	began := time.Now()
	var served, cancelled, wrong atomic.Int64
	var clients sync.WaitGroup
	for client := range uint64(12) {
		clients.Go(func() {
			rng := rand.New(rand.NewPCG(seed, client))
			for time.Since(began) < duration {
				i := rng.IntN(len(requests))
				events, err := visit(e, requests[i], rng)
				switch gone := errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded); {
				case err != nil && !gone:
					t.Errorf("a request fails: %v", err)
					wrong.Add(1)
				case gone:
					cancelled.Add(1)
				default:
					served.Add(1)
				}
				got := newOutcome(&requests[i], events, nil)
				for j := range got.answers {
					if d := differ(got.answers[j], want[i].answers[j], err != nil); d != "" {
						t.Errorf("request %d, answer %d: %s", i, j, d)
						wrong.Add(1)
					}
				}
				if wrong.Load() > 3 {
					return
				}
			}
		})
	}
	for _, at := range []time.Duration{duration / 3, duration} {
		time.Sleep(at - time.Since(began))
		if at == duration {
			clients.Wait()
		}
		if err := e.Between(func() error { // no step runs
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			heaps = append(heaps, m.HeapAlloc)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, func() (left string) { // contexts that end say so in a goroutine of their own
		if err := e.Between(func() error {
			if sched := e.scheduler; len(sched.running)+len(sched.waiting)+len(sched.tenants)+len(sched.notes) > 0 {
				left = fmt.Sprintf("the scheduler holds %d that run, %d that wait, %d tenants and %d notes", len(sched.running), len(sched.waiting), len(sched.tenants), len(sched.notes))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return left
	})
	e.Close()
	if err := end(); err != nil {
		t.Error(err)
	}
	eventually(t, func() string {
		if n := runtime.NumGoroutine(); n > goroutines {
			return fmt.Sprintf("%d goroutines are left, %d were there before", n, goroutines)
		}
		return ""
	})
	if heaps[1] > heaps[0]+8<<20 {
		t.Errorf("the heap grew from %d to %d bytes", heaps[0], heaps[1])
	}
	t.Logf("%d requests served, %d cancelled; heap %d KiB, then %d KiB", served.Load(), cancelled.Load(), heaps[0]>>10, heaps[1]>>10)
}

// eventually waits until nothing is left.
func eventually(t *testing.T, left func() string) {
	t.Helper()
	for began := time.Now(); ; time.Sleep(time.Millisecond) {
		what := left()
		if what == "" {
			return
		}
		if time.Since(began) > 10*time.Second {
			t.Fatal(what)
		}
	}
}

// visit is a client's: it submits a request, reads some or all of the answer, and leaves.
func visit(e *Engine, r Request, rng *rand.Rand) (events []Event, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if rng.IntN(4) == 0 {
		ctx, cancel = context.WithTimeout(ctx, time.Duration(rng.IntN(20))*time.Millisecond)
		defer cancel()
	}
	a, err := e.Submit(ctx, r)
	if err != nil {
		return nil, err
	}
	leaves := rng.IntN(120)
	for {
		if len(events) == leaves {
			a.Cancel()
		}
		if rng.IntN(50) == 0 {
			time.Sleep(time.Duration(rng.IntN(3)) * time.Millisecond)
		}
		event, err := a.Next(ctx)
		switch {
		case errors.Is(err, io.EOF):
			return events, nil
		case err != nil:
			return events, err
		}
		events = append(events, event)
	}
}
