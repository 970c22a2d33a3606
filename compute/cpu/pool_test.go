package cpu

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestPoolDoesEveryPieceOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 8, 64} {
		p := newPool(threads)
		for round := range 300 {
			pieces := round * 7 % 41
			count := make([]int32, pieces) // not atomic: the race detector sees pieces that overlap or outlive their round
			users := make([]int32, threads)
			p.run(pieces, func(thread, i int) {
				count[i]++
				users[thread]++
			})
			total := int32(0)
			for _, n := range users {
				total += n
			}
			for i, n := range count {
				if n != 1 || int(total) != pieces {
					t.Fatalf("%d threads, round %d of %d pieces: piece %d was done %d times, threads did %d", threads, round, pieces, i, n, total)
				}
			}
			if round%100 == 99 {
				time.Sleep(3 * awake) // so that workers sleep
			}
		}
		p.close()
	}
}

func TestPoolUsesItsThreads(t *testing.T) {
	p := newPool(4)
	defer p.close()
	var here, seen atomic.Int32
	p.run(4, func(_, _ int) { // four pieces that end only together
		here.Add(1)
		for start := time.Now(); here.Load() < 4 && time.Since(start) < 10*time.Second; {
			runtime.Gosched()
		}
		seen.Store(here.Load())
	})
	if seen.Load() != 4 {
		t.Fatalf("%d of 4 threads worked side by side", seen.Load())
	}
}

func TestPoolSleepsWhenThereIsNothingToDo(t *testing.T) {
	p := newPool(4)
	defer p.close()
	p.run(64, func(_, _ int) {})
	for start := time.Now(); p.asleep.Load() < 3; time.Sleep(time.Millisecond) {
		if time.Since(start) > 10*time.Second {
			t.Fatalf("%d of 3 workers sleep after 10 s", p.asleep.Load())
		}
	}
}

// BenchmarkPool is one round of pieces that do nothing.
func BenchmarkPool(b *testing.B) {
	for _, threads := range []int{1, 2, 4, 16} {
		for _, idle := range []time.Duration{0, 20 * time.Microsecond, 5 * awake} {
			b.Run(fmt.Sprintf("threads=%d,idle=%v", threads, idle), func(b *testing.B) {
				p := newPool(threads)
				defer p.close()
				var spent time.Duration
				for b.Loop() {
					for start := time.Now(); time.Since(start) < idle; {
					}
					start := time.Now()
					p.run(2*threads, func(_, _ int) {})
					spent += time.Since(start)
				}
				b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "ns/round")
			})
		}
	}
}
