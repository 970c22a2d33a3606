package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// pool is the worker goroutines of a device. It splits work by handing out indices, one at a time, to whoever is free:
// who computes a piece never changes what is computed.
type pool struct {
	threads int
	work    func(thread, i int)
	pieces  int32
	next    atomic.Int32 // the next piece to hand out
	busy    atomic.Int32 // workers that have not finished this round
	round   atomic.Uint32
	mu      sync.Mutex
	wake    *sync.Cond
	asleep  int
	closed  atomic.Bool
	done    sync.WaitGroup
}

// spins is how often a worker looks for the next round before it sleeps: some tens of microseconds, longer than the serial
// work between two operations.
const spins = 20000

func newPool(threads int) *pool {
	p := &pool{threads: threads}
	p.wake = sync.NewCond(&p.mu)
	for i := range threads - 1 {
		p.done.Add(1)
		go p.worker(i + 1)
	}
	return p
}

// run calls work(thread, i) for each i in [0, pieces), on all threads, and returns when all are done.
func (p *pool) run(pieces int, work func(thread, i int)) {
	if p.threads == 1 || pieces <= 1 {
		for i := range pieces {
			work(0, i)
		}
		return
	}
	p.work, p.pieces = work, int32(pieces)
	p.next.Store(0)
	p.busy.Store(int32(p.threads - 1))
	p.mu.Lock()
	p.round.Add(1)
	if p.asleep > 0 {
		p.wake.Broadcast()
	}
	p.mu.Unlock()
	p.take(0)
	for n := 0; p.busy.Load() > 0; n++ {
		if n > spins/10 {
			runtime.Gosched()
		}
	}
}

// take computes pieces until none is left.
func (p *pool) take(thread int) {
	for {
		i := p.next.Add(1) - 1
		if i >= p.pieces {
			return
		}
		p.work(thread, int(i))
	}
}

func (p *pool) worker(thread int) {
	defer p.done.Done()
	for seen := uint32(0); ; {
		for n := 0; p.round.Load() == seen && n < spins; n++ {
		}
		if p.round.Load() == seen {
			p.mu.Lock()
			p.asleep++
			for p.round.Load() == seen {
				p.wake.Wait()
			}
			p.asleep--
			p.mu.Unlock()
		}
		seen++
		if p.closed.Load() {
			return
		}
		p.take(thread)
		p.busy.Add(-1)
	}
}

// close ends the workers.
func (p *pool) close() {
	p.closed.Store(true)
	p.mu.Lock()
	p.round.Add(1)
	p.wake.Broadcast()
	p.mu.Unlock()
	p.done.Wait()
}
