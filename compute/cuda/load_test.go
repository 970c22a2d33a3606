package cuda

import (
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"unsafe"

	"memra/engine"
	"memra/internal/builtin"
	"memra/model"
	"memra/spec"
	"memra/state"
)

// drawing is a driver whose GPU draws tokens at random, one of two, so that some guesses are right. It counts how steps are issued.
type drawing struct {
	*fake
	rng      *rand.Rand
	eager    int // steps whose kernels were launched one by one
	begun    bool
	captures int
}

func (f *drawing) launch(*launch, handle) status {
	if !f.capturing && !f.begun {
		f.eager, f.begun = f.eager+1, true
	}
	return success
}
func (f *drawing) graphLaunch(handle, handle) status { f.replays++; return success }
func (f *drawing) captureBegin(h handle) status      { f.captures++; return f.fake.captureBegin(h) }
func (f *drawing) streamSynchronize(handle) status   { f.begun = false; return success }

func (f *drawing) copyOut(p unsafe.Pointer, _ pointer, n int, _ handle) status {
	clear(unsafe.Slice((*byte)(p), n))
	for i := range unsafe.Slice((*answer)(p), n/answerBytes) {
		(*answer)(unsafe.Add(p, i*answerBytes)).token = f.rng.Int32N(2)
	}
	return success
}

// A load that changes all the time comes down to few lists of launches: requests of every length begin and end, and guesses come true or not.
// Else a GPU launches kernel by kernel, or makes graphs for steps that never come again.
func TestStepsOfAChangingLoadAreFewLists(t *testing.T) {
	file, err := builtin.GGUF(builtin.Name)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name     string
		parallel int
		drafts   int
		lists    int // that become graphs, at most
		eager    int // steps that are launched kernel by kernel, those of prompts among them
	}{{"one stream with guesses", 1, 8, 20, 35}, {"16 streams with guesses", 16, 8, 54, 110}, {"40 streams", 40, 0, 60, 130}} {
		t.Run(c.name, func(t *testing.T) {
			drv := &drawing{fake: newFake(), rng: rand.New(rand.NewPCG(1, 2))}
			d, err := open(drv, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			m, err := model.Open(model.GGUF(file), d)
			if err != nil {
				t.Fatal(err)
			}
			sizes := state.Config{Positions: 2000 * c.parallel, Sequences: c.parallel, Step: 2048, Delta: d.DeltaFormat()}
			pool, err := state.NewPool(d, m.State(), sizes)
			if err != nil {
				t.Fatal(err)
			}
			defer pool.Close()
			config := engine.Config{Device: d, Model: m, Pool: pool, Rows: 2048, Asking: 1024, Sequences: c.parallel, Context: 2000}
			if c.drafts > 0 {
				head, err := spec.NewHead(d, m, sizes, c.drafts)
				if err != nil {
					t.Fatal(err)
				}
				config.Drafts = spec.New(head, c.drafts, d.Padded).Always()
				defer config.Drafts.Close()
			}
			e := engine.New(config)
			var answers []*engine.Answer
			err = e.Between(func() error { // all of them wait when the first step begins: who comes when is no matter of luck
				rng := rand.New(rand.NewPCG(3, 4))
				for range 3 * c.parallel {
					a, err := e.Submit(t.Context(), engine.Request{Tokens: make([]int32, 1+rng.IntN(300)), Limit: 250 + rng.IntN(100)})
					if err != nil {
						return err
					}
					answers = append(answers, a)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range answers {
				for err == nil {
					_, err = a.Next(t.Context())
				}
				if !errors.Is(err, io.EOF) {
					t.Error(err)
				}
				err = nil
			}
			e.Close()
			t.Logf("%d lists became graphs, which ran %d times; %d steps were launched kernel by kernel", drv.captures, drv.replays, drv.eager)
			if drv.captures > c.lists || drv.eager > c.eager {
				t.Errorf("%d lists became graphs and %d steps were launched kernel by kernel, want at most %d and %d", drv.captures, drv.eager, c.lists, c.eager)
			}
		})
	}
}
