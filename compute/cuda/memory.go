package cuda

import (
	"fmt"
	"unsafe"

	"memra/compute"
)

// MemoryError is a wish that the device's memory cannot fulfil.
type MemoryError struct {
	What                string // "weight [4096 4096]"
	Needed, Free, Total uint64 // bytes
}

func (e *MemoryError) Error() string {
	return fmt.Sprintf("cuda: out of memory: %s needs %d bytes, %d of %d are free; take a smaller model or format, a shorter context or fewer sequences",
		e.What, e.Needed, e.Free, e.Total)
}

// Unwrap is compute.ErrMemory.
func (e *MemoryError) Unwrap() error { return compute.ErrMemory }

// alloc takes device memory; what it is for goes into the error. By the owner.
func (d *Device) alloc(bytes int, what string, args ...any) (pointer, error) {
	if err := d.failed(); err != nil {
		return 0, err
	}
	p, s := d.driver.memAlloc(max(bytes, 1))
	if s == outOfMemory {
		free, total, s := d.driver.memInfo()
		if err := check(d.driver, s, "cuMemGetInfo"); err != nil {
			return 0, err
		}
		return 0, &MemoryError{What: fmt.Sprintf(what, args...), Needed: uint64(bytes), Free: free, Total: total}
	}
	if err := check(d.driver, s, "cuMemAlloc(%d bytes)", bytes); err != nil {
		return 0, d.broken(err)
	}
	d.allocated[p] = bytes
	return p, nil
}

// free gives memory back. Nothing in flight may use it.
func (d *Device) free(p pointer) error {
	if _, ok := d.allocated[p]; !ok {
		return nil
	}
	delete(d.allocated, p)
	return check(d.driver, d.driver.memFree(p), "cuMemFree")
}

// hostMemory takes pinned memory, which copies run from and to at full speed and asynchronously.
func (d *Device) hostMemory(bytes int) ([]byte, error) {
	if err := d.failed(); err != nil {
		return nil, err
	}
	p, s := d.driver.hostAlloc(bytes)
	if err := check(d.driver, s, "cuMemHostAlloc(%d bytes)", bytes); err != nil {
		return nil, err
	}
	d.pinned[p] = bytes
	return unsafe.Slice((*byte)(p), bytes), nil
}

func (d *Device) freeHost(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	p := unsafe.Pointer(&b[0])
	delete(d.pinned, p)
	return check(d.driver, d.driver.hostFree(p), "cuMemFreeHost")
}

// pinnedBuffer is pinned memory that grows.
type pinnedBuffer struct{ data []byte }

// room returns at least n bytes of any content; what was there before is lost when it grows.
func (b *pinnedBuffer) room(d *Device, n int) ([]byte, error) {
	if n > len(b.data) {
		err := d.freeHost(b.data)
		if b.data = nil; err != nil {
			return nil, err
		}
		if b.data, err = d.hostMemory(roundUp(n, 1<<20)); err != nil {
			return nil, err
		}
	}
	return b.data[:n], nil
}

// arena hands out device memory that all ends together. It keeps its chunks, and equal requests get equal addresses: a step
// that is like an earlier one is launched alike.
type arena struct {
	chunks []arenaChunk
	chunk  int // the one in use
	used   int // of it
}

type arenaChunk struct {
	at    pointer
	bytes int
}

// align is where tensors begin: more than any load or bulk copy wants.
const align = 1024

// take returns n bytes of any content.
func (a *arena) take(d *Device, n int) (pointer, error) {
	n = roundUp(max(n, 1), align)
	for ; a.chunk < len(a.chunks); a.chunk, a.used = a.chunk+1, 0 {
		if c := a.chunks[a.chunk]; a.used+n <= c.bytes {
			a.used += n
			return c.at + pointer(a.used-n), nil
		}
	}
	bytes := max(n, 8<<20)
	p, err := d.alloc(bytes, "memory of a step's tensors")
	if err != nil {
		return 0, err
	}
	a.chunks = append(a.chunks, arenaChunk{p, bytes})
	a.used = n
	return p, nil
}

// reset ends everything handed out.
func (a *arena) reset() { a.chunk, a.used = 0, 0 }

// growing is memory that a kernel writes and reads, and leaves to nobody. It grows by doubling, so that most steps know the same; what was
// too small is freed with the device, for launches that were captured know it.
type growing struct {
	at    pointer
	bytes int
}

// room returns at least n bytes.
func (g *growing) room(d *Device, n int, what string) (pointer, error) {
	if g.at == 0 || n > g.bytes {
		bytes := powerOfTwo(max(n, 8<<20))
		at, err := d.alloc(bytes, "%s", what)
		if err != nil {
			return 0, err
		}
		g.at, g.bytes = at, bytes
	}
	return g.at, nil
}
