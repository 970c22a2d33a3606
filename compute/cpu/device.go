package cpu

import (
	"fmt"
	"runtime"
	"slices"
	"sync"

	"memra/compute"
	"memra/sample"
)

// Device is this machine's processor.
type Device struct {
	kernels  *kernels
	pool     *pool
	scratch  []attendScratch  // one a thread
	tiles    []tileScratch    // one a thread
	deltas   []deltaScratch   // one a thread
	samplers []sample.Sampler // one a thread
	step     step

	mu     sync.Mutex
	mapped [][]byte // weights
	slab   []byte   // what is left of the last
}

// Open starts a device of so many threads; 0 means one a processor.
func Open(threads int) (*Device, error) { return open(threads, sets[0]) }

// OpenPlain starts a device that computes in plain Go: the same bits, slowly. Tests and doubts are what it is for.
func OpenPlain(threads int) (*Device, error) { return open(threads, &goKernels) }

func open(threads int, k *kernels) (*Device, error) {
	if threads == 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	if threads < 0 || threads > 1024 {
		return nil, fmt.Errorf("cpu: %d threads, want 1 to 1024, or 0 for one a processor", threads)
	}
	d := &Device{kernels: k, pool: newPool(threads), scratch: make([]attendScratch, threads), tiles: make([]tileScratch, threads), deltas: make([]deltaScratch, threads), samplers: make([]sample.Sampler, threads)}
	d.step.Device = d
	for i := range d.samplers {
		d.samplers[i].Largest = k.largest
	}
	return d, nil
}

// Name says what computes.
func (d *Device) Name() string {
	return fmt.Sprintf("cpu (%s, %d threads)", d.kernels.name, d.pool.threads)
}

// Class: see compute.Device. Every CPU computes the same bits.
func (d *Device) Class() string { return "cpu" }

// Step is enough to amortise reading the weights, and few enough for activations to stay small.
func (d *Device) Step() int { return 256 }

// Padded: a row more takes time, and nothing is prepared.
func (d *Device) Padded(n int) int { return n }

// Kernels: a step is not made of kernels.
func (d *Device) Kernels() int { return 0 }

// Threads is how many threads compute.
func (d *Device) Threads() int { return d.pool.threads }

// Vector keeps a copy of the values.
func (d *Device) Vector(values []float32) compute.Vector {
	return compute.Vector{Width: len(values), Mem: append([]float32(nil), values...)}
}

// Run computes one step. See compute.Device.
func (d *Device) Run(forward func(compute.Ops) compute.Tensor) ([][]float32, error) {
	d.step.begin()
	t := forward(&d.step)
	d.step.settle()
	rows := make([][]float32, t.Rows)
	for r := range rows {
		rows[r] = t.Mem.(*buffer).row(r, t.Width)
	}
	return rows, nil
}

// Sample computes one step and draws from its rows, a thread a row. See compute.Device.
func (d *Device) Sample(forward func(compute.Ops) compute.Tensor, draws []sample.Draw) ([]sample.Pick, error) {
	d.step.begin()
	d.step.roughly = !slices.ContainsFunc(draws, func(w sample.Draw) bool { return !w.Rough() })
	defer func() { d.step.roughly = false }()
	t := forward(&d.step)
	d.step.settle()
	if err := compute.CheckDraws(draws, t); err != nil {
		return nil, err
	}
	picks := make([]sample.Pick, len(draws))
	if y, ok := t.Mem.(*buffer); ok && y.rough != nil {
		if d.step.drawRoughly(picks, t, draws) {
			return picks, nil
		}
		d.step.whole(t)
	}
	d.pool.run(len(draws), func(thread, i int) {
		picks[i] = d.samplers[thread].Draw(t.Mem.(*buffer).row(i, t.Width), draws[i])
	})
	return picks, nil
}

// Close ends the threads and frees the weights.
func (d *Device) Close() error {
	d.pool.close()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.mapped {
		if err := unmap(m); err != nil {
			return err
		}
	}
	d.mapped, d.slab = nil, nil
	return nil
}

// slabBytes is how much memory is mapped at once: many huge pages, so that small weights lie on such as well. What nobody writes
// takes no room.
const slabBytes = 64 << 20

// memory is zeroed memory outside the collector's heap, so that weights do not make it wait to collect. It begins at a line of
// the cache.
func (d *Device) memory(n int) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.slab) < n {
		m, err := mapAnonymous(max(n, slabBytes))
		if err != nil {
			return nil, fmt.Errorf("cpu: %d bytes for a weight: %w", n, err)
		}
		d.mapped, d.slab = append(d.mapped, m), m
	}
	m := d.slab[:n:n]
	d.slab = d.slab[min(len(d.slab), ceilDiv(n, 64)*64):]
	return m, nil
}
