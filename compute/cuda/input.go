package cuda

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"unsafe"

	"memra/compute"
)

// inputs is what a step reads from the host: pieces of pinned memory, each with its place on the device. They are copied before
// the step's first launch, so launches know addresses and not values. Equal sequences of pieces get equal addresses. The host has two of each: one may still
// be on its way when the next step is recorded.
type inputs struct {
	chunks []inputChunk
	chunk  int
	used   []int // of each chunk
	place  int   // of the host's two
}

type inputChunk struct {
	host [2][]byte
	at   pointer
}

// take returns a piece of n bytes, zeroed on neither side.
func (in *inputs) take(d *Device, n int) ([]byte, pointer, error) {
	n = roundUp(max(n, 1), 256)
	for ; in.chunk < len(in.chunks); in.chunk++ {
		c := in.chunks[in.chunk]
		if u := in.used[in.chunk]; u+n <= len(c.host[in.place]) {
			in.used[in.chunk] += n
			return c.host[in.place][u : u+n], c.at + pointer(u), nil
		}
	}
	bytes := max(n, 1<<20)
	var host [2][]byte
	for i := range host {
		var err error
		if host[i], err = d.hostMemory(bytes); err != nil {
			return nil, 0, err
		}
	}
	at, err := d.alloc(bytes, "a step's inputs")
	if err != nil {
		return nil, 0, err
	}
	in.chunks, in.used = append(in.chunks, inputChunk{host, at}), append(in.used, n)
	return host[in.place][:n], at, nil
}

func (in *inputs) reset(place int) {
	in.chunk, in.place = 0, place
	clear(in.used)
}

// send copies what was taken.
func (in *inputs) send(d *Device) error {
	for i, c := range in.chunks {
		if in.used[i] > 0 {
			if err := check(d.driver, d.driver.copyIn(c.at, unsafe.Pointer(&c.host[in.place][0]), in.used[i], d.stream), "cuMemcpyHtoDAsync(%d bytes)", in.used[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// ints sends int32s.
func (s *step) ints(n int, fill func([]int32)) pointer {
	host, at, err := s.inputs.take(s.Device, 4*n)
	if err != nil {
		s.fail(err)
		return 0
	}
	if n > 0 {
		fill(unsafe.Slice((*int32)(unsafe.Pointer(&host[0])), n))
	}
	return at
}

// batchInput is a batch on the device.
type batchInput struct{ tokens, positions, slots, logits pointer }

// batch sends a batch, once a step.
func (s *step) batch(b *compute.Batch) *batchInput {
	in := s.batches[b]
	if in == nil {
		send := func(v []int32) pointer { return s.ints(len(v), func(to []int32) { copy(to, v) }) }
		in = &batchInput{send(b.Tokens), send(b.Positions), send(b.Slots), send(b.Logits)}
		s.batches[b] = in
	}
	return in
}

// tablesInput is the page tables of a KV memory: [slots][stride] pages.
type tablesInput struct {
	at     pointer
	stride int
}

// tables sends page tables, once a step. The stride is a power of two, and there is room for more tables, so that a step keeps its shape while
// sequences grow, begin and end.
func (s *step) tables(kv compute.KV) tablesInput {
	key := unsafe.SliceData(kv.Tables)
	if in, ok := s.pageTables[key]; ok {
		return in
	}
	most := 64
	for _, t := range kv.Tables {
		for most < len(t) {
			most *= 2
		}
	}
	in := tablesInput{stride: most}
	in.at = s.ints(max(16, powerOfTwo(len(kv.Tables)))*most, func(to []int32) {
		for i, t := range kv.Tables {
			row := to[i*most:][:most]
			for j := copy(row, t); j < most; j++ {
				row[j] = -1
			}
		}
	})
	s.pageTables[key] = in
	return in
}

// ropeTable is cosines and sines of a rotary embedding, [position][cos | sin][dims/2], for the positions that steps have asked
// for: whole pages of 64, each computed once. It grows by doubling.
type ropeTable struct {
	at     pointer
	filled []bool // by page
}

// rope makes sure that the table has the batch's positions.
func (s *step) rope(r *compute.Rope, b *compute.Batch) pointer {
	t := s.ropes[r]
	if t == nil {
		t = new(ropeTable)
		s.ropes[r] = t
	}
	if slices.Contains(s.roped[r], b) {
		return t.at
	}
	s.roped[r] = append(s.roped[r], b)
	last := 0
	for _, p := range b.Positions {
		last = max(last, int(p)/compute.Page)
	}
	pageBytes := compute.Page * 4 * r.Dims
	if last >= len(t.filled) && len(s.roped[r]) > 1 { // launches know the table's place
		s.fail(fmt.Errorf("cuda: a batch with position %d follows one of the same step whose rotary table ends at %d; take the longer one first", last*compute.Page, len(t.filled)*compute.Page))
		return 0
	}
	if last >= len(t.filled) {
		pages := max(64, len(t.filled))
		for pages <= last {
			pages *= 2
		}
		p, err := s.alloc(pages*pageBytes, "a rotary table of %d positions", pages*compute.Page)
		if err == nil && t.at != 0 {
			n := len(t.filled) * pageBytes
			err = check(s.driver, s.driver.copyWithin(p, t.at, n, s.stream), "cuMemcpyDtoDAsync(%d bytes)", n)
			if err == nil { // cuMemFree waits for what is in flight
				err = s.free(t.at)
			}
		}
		if err != nil {
			s.fail(err)
			return 0
		}
		t.at, t.filled = p, append(t.filled, make([]bool, pages-len(t.filled))...)
	}
	var missing []int
	for _, p := range b.Positions {
		if page := int(p) / compute.Page; !t.filled[page] {
			t.filled[page] = true
			missing, s.filling = append(missing, page), append(s.filling, &t.filled[page])
		}
	}
	if len(missing) == 0 {
		return t.at
	}
	host, from, err := s.fills.take(s.Device, len(missing)*pageBytes)
	if err != nil {
		s.fail(err)
		return 0
	}
	values := unsafe.Slice((*float32)(unsafe.Pointer(&host[0])), len(missing)*pageBytes/4)
	parallel(len(missing), func(i int) {
		var positions [compute.Page]int32
		for j := range positions {
			positions[j] = int32(missing[i]*compute.Page + j)
		}
		cos, sin := r.Table(positions[:])
		half := r.Dims / 2
		for j := range positions {
			to := values[(i*compute.Page+j)*r.Dims:]
			copy(to, cos[j*half:][:half])
			copy(to[half:], sin[j*half:][:half])
		}
	})
	for i, page := range missing {
		s.moves = append(s.moves, move{t.at + pointer(page*pageBytes), from + pointer(i*pageBytes), pageBytes})
	}
	return t.at
}

// forget has the rotary tables lack what a step that is not computed would have filled in.
func (s *step) forget() {
	for _, filled := range s.filling {
		*filled = false
	}
}

// move is a copy on the device, after the inputs have come and before the first launch.
type move struct {
	to, from pointer
	bytes    int
}

// parallel runs work(0) to work(n-1) on the machine's processors.
func parallel(n int, work func(i int)) {
	threads := min(n, runtime.GOMAXPROCS(0))
	if threads <= 1 {
		for i := range n {
			work(i)
		}
		return
	}
	var wg sync.WaitGroup
	for t := range threads {
		wg.Go(func() {
			for i := t; i < n; i += threads {
				work(i)
			}
		})
	}
	wg.Wait()
}
