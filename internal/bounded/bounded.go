// Package bounded is how tests see that a reader keeps its promise whatever it is given: it ends within a second for each
// MB, and has no more than 64 MB in memory beyond the size of what it reads.
package bounded

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"testing"
	"time"
)

// promise is time for each MB or part of one, and bytes of memory beyond the input's size.
type promise struct {
	time   time.Duration
	memory uint64
}

// Read runs read, which reads size bytes of input, and fails the test if it breaks the promise. It may run it some more times,
// for a busy machine makes anything slow, and garbage is not memory that is needed: only what every run does counts. Under the race
// detector it runs read, and measures nothing.
func Read(t testing.TB, size int, read func()) {
	t.Helper()
	if instrumented {
		read()
		return
	}
	promise{time.Second, 64 << 20}.check(t, size, read)
}

func (p promise) check(t testing.TB, size int, read func()) {
	t.Helper()
	allowed := p.time * time.Duration(1+size>>20)
	before := allocated()
	took := timed(read)
	made := allocated() - before
	for range 4 {
		if took > allowed {
			took = min(took, timed(read))
		}
	}
	if took > allowed {
		t.Errorf("reading %d bytes takes %v, want at most %v", size, took, allowed)
	}
	most := uint64(size) + p.memory
	for range 4 {
		if made > most {
			made = min(made, peak(read))
		}
	}
	if made > most {
		t.Errorf("reading %d bytes needs %d bytes of memory, want at most %d", size, made, most)
	}
}

func timed(f func()) time.Duration {
	start := time.Now()
	f()
	return time.Since(start)
}

// allocated is how many bytes the program has asked for since it started.
func allocated() uint64 { return read("/gc/heap/allocs:bytes") }

// peak is the most memory that f holds at a time, with garbage collected eagerly.
func peak(f func()) uint64 {
	defer debug.SetGCPercent(debug.SetGCPercent(10))
	runtime.GC()
	before := read("/memory/classes/heap/objects:bytes")
	most, done := before, make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	for {
		select {
		case <-done:
			return most - before
		case <-time.After(time.Millisecond):
			most = max(most, read("/memory/classes/heap/objects:bytes"))
		}
	}
}

func read(name string) uint64 {
	sample := []metrics.Sample{{Name: name}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}
