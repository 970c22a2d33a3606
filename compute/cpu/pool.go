package cpu

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// pool is the worker goroutines of a device. The pieces of a round are cut into as many shares as there are threads; each thread does its
// own share, ascending, so that what it asks of memory ahead of a piece is of the next, and then what is left of others': who computes a
// piece never changes what is computed.
//
// A round waits for its pieces, not for its workers: a worker that sleeps, or that the machine runs elsewhere, misses a
// round and nobody waits for it. So where processors are few the caller does the work alone.
type pool struct {
	threads int
	work    func(thread, i int) // of this round, like pieces; read only by who has taken a piece, so while the round lasts
	pieces  int
	shares  []share
	open    atomic.Int32  // pieces that are not done, or not counted yet
	round   atomic.Uint32 // that has begun
	asleep  atomic.Int32
	closed  atomic.Bool
	mu      sync.Mutex
	wake    *sync.Cond
	done    sync.WaitGroup
}

// share is how many pieces of a share nobody has taken, alone in its lines of a cache.
type share struct {
	left atomic.Int32
	_    [124]byte
}

const (
	// A worker looks for work about this long before it sleeps: longer than the serial work between two operations.
	awake = 50 * time.Microsecond
	// A caller looks about this long for the last pieces to end before it lets other goroutines run, and then, threads.
	patience, sleep = 20 * time.Microsecond, 50 * time.Microsecond
)

func newPool(threads int) *pool {
	p := &pool{threads: threads, shares: make([]share, threads)}
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
	p.work, p.pieces = work, pieces
	p.open.Store(int32(pieces))
	for i := range p.shares {
		p.shares[i].left.Store(int32(p.end(i) - p.end(i-1)))
	}
	p.round.Add(1)
	if p.asleep.Load() > 0 {
		p.mu.Lock()
		p.wake.Broadcast()
		p.mu.Unlock()
	}
	p.take(0)
	done := func() bool { return p.open.Load() == 0 }
	for !spin(patience, done) { // whoever has the last piece may lack a processor
		runtime.Gosched()
		if !spin(patience, done) {
			time.Sleep(sleep)
		}
	}
}

// end is where a share of the round's pieces ends, and the next begins.
func (p *pool) end(share int) int { return (share + 1) * p.pieces / p.threads }

// take computes pieces until none is left. It counts them once, for threads that count together wait for each other.
func (p *pool) take(thread int) {
	done := int32(0)
	for i := range p.threads {
		share := (thread + i) % p.threads
		for left := &p.shares[share].left; ; {
			n := left.Load()
			if n == 0 {
				break
			}
			if left.CompareAndSwap(n, n-1) {
				p.work(thread, p.end(share)-int(n))
				done++
			}
		}
	}
	if done > 0 {
		p.open.Add(-done)
	}
}

func (p *pool) worker(thread int) {
	defer p.done.Done()
	var seen uint32 // the round that it has looked at
	called := func() bool { return p.round.Load() != seen || p.closed.Load() }
	for !p.closed.Load() {
		seen = p.round.Load()
		p.take(thread)
		if spin(awake, called) {
			continue
		}
		p.mu.Lock()
		p.asleep.Add(1) // before the last look: run looks for sleepers after it has begun a round
		for !called() {
			p.wake.Wait()
		}
		p.asleep.Add(-1)
		p.mu.Unlock()
	}
}

// close ends the workers.
func (p *pool) close() {
	p.closed.Store(true)
	p.mu.Lock()
	p.wake.Broadcast()
	p.mu.Unlock()
	p.done.Wait()
}

// spin looks for a condition, for about as long as a limit, and reports whether it came.
func spin(limit time.Duration, condition func() bool) bool {
	const looks = 64 // between looks at the clock
	for start := (time.Time{}); ; {
		for range looks {
			if condition() {
				return true
			}
			pause()
		}
		switch now := time.Now(); {
		case start.IsZero():
			start = now
		case now.Sub(start) > limit:
			return false
		}
	}
}
