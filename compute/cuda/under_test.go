package cuda

import (
	"encoding/binary"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"memra/compute"
	"memra/gguf"
	shapes "memra/internal/tiny"
	"memra/model"
	"memra/sample"
	"memra/state"
)

// lazy is a driver whose stream does nothing before it is waited for, and then no more than that: copies read and write the host's memory as late as they
// may. Of kernels it knows what becomes of tokens: embed_* looks at them, sample_finish draws the next numbers.
type lazy struct {
	*fake
	queue  []func()
	events map[handle]int // the length of the queue when it was recorded, less what has been done since
	memory map[pointer][]byte
	seen   [][]int32 // by embed_*
	next   int32     // token that is drawn
}

func (f *lazy) later(do func()) status { f.queue = append(f.queue, do); return success }

// run does the first n things.
func (f *lazy) run(n int) {
	for _, do := range f.queue[:n] {
		do()
	}
	f.queue = f.queue[n:]
	for e := range f.events {
		f.events[e] = max(0, f.events[e]-n)
	}
}

func (f *lazy) streamSynchronize(handle) status { f.run(len(f.queue)); return success }
func (f *lazy) eventRecord(e, _ handle) status  { f.events[e] = len(f.queue); return success }
func (f *lazy) eventSynchronize(e handle) status {
	f.run(f.events[e])
	return success
}

func (f *lazy) copyIn(dst pointer, src unsafe.Pointer, n int, _ handle) status {
	return f.later(func() { copy(f.at(dst, n), unsafe.Slice((*byte)(src), n)) })
}

func (f *lazy) copyOut(dst unsafe.Pointer, src pointer, n int, _ handle) status {
	return f.later(func() { copy(unsafe.Slice((*byte)(dst), n), f.at(src, n)) })
}

// at is n bytes of the device.
func (f *lazy) at(p pointer, n int) []byte {
	for base, size := range f.live {
		if p >= base && p+pointer(n) <= base+pointer(size) {
			if f.memory[base] == nil {
				f.memory[base] = make([]byte, size)
			}
			return f.memory[base][p-base:][:n]
		}
	}
	panic("a copy beyond what was allocated")
}

func (f *lazy) launch(l *launch, stream handle) status {
	if f.capturing {
		return f.fake.launch(l, stream)
	}
	was := *l
	return f.later(func() { f.compute(&was) })
}

func (f *lazy) graphLaunch(exec, _ handle) status {
	f.replays++
	return f.later(func() {
		for i := range f.graphs[exec] {
			f.compute(&f.graphs[exec][i])
		}
	})
}

func (f *lazy) compute(l *launch) {
	rows := int(l.grid[0])
	ints := func(at uint64, n int) (list []int32) {
		for b := range slices.Chunk(f.at(pointer(at), 4*n), 4) {
			list = append(list, int32(binary.LittleEndian.Uint32(b)))
		}
		return list
	}
	switch name := l.kernel.name; {
	case strings.HasPrefix(name, "embed_"):
		tokens := ints(l.args[1], rows)
		for i, t := range tokens {
			if t < 0 {
				tokens[i] = ints(l.args[2]+uint64(-1-t)*answerBytes, 1)[0]
			}
		}
		f.seen = append(f.seen, tokens)
	case name == "sample_finish":
		for i := range rows {
			binary.LittleEndian.PutUint32(f.at(pointer(l.args[0])+pointer(i*answerBytes), answerBytes), uint32(f.next))
			f.next++
		}
	}
}

// A step that is begun while one runs has what that one draws, whatever the host has written by then, and each wait brings its own step's answers.
func TestAStepIsBegunBehindTheOneThatRuns(t *testing.T) {
	f := &lazy{fake: newFake(), events: map[handle]int{}, memory: map[pointer][]byte{}, next: 100}
	d, err := open(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	m, err := model.Open(shapes.Qwen35(1, gguf.Q8_0), d)
	if err != nil {
		t.Fatal(err)
	}
	const rows = 3
	pool, err := state.NewPool(d, m.State(), state.Config{Positions: rows * 640, Sequences: rows, Step: 16})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	var sequences []*state.Sequence
	for range rows {
		sequences = append(sequences, pool.NewSequence())
	}
	begin := func(tokens ...int32) func() ([]sample.Pick, error) {
		t.Helper()
		var b compute.Batch
		for i, s := range sequences {
			b.Add(tokens[i], s.Len(), i, true)
			if err := s.Extend(1); err != nil {
				t.Fatal(err)
			}
		}
		view := pool.View(sequences...)
		wait, err := d.Start(func(ops compute.Ops) compute.Tensor { return m.Forward(ops, &b, view) }, make([]sample.Draw, rows))
		if err != nil {
			t.Fatal(err)
		}
		return wait
	}
	var want [][]int32
	under := begin(1, 2, 3)
	want = append(want, []int32{1, 2, 3})
	for n := range int32(200) { // over the ends of pages
		from := 100 + rows*n
		if n%5 == 0 { // a step that draws nothing comes between
			if _, err := d.Run(func(compute.Ops) compute.Tensor { return compute.Tensor{} }); err != nil {
				t.Fatal(err)
			}
		}
		if n%3 == 0 { // or one that fails before it has begun
			if _, err := d.Run(func(ops compute.Ops) compute.Tensor {
				ops.(*step).fail(compute.ErrMemory)
				return compute.Tensor{}
			}); err == nil {
				t.Fatal("no error")
			}
		}
		var next func() ([]sample.Pick, error)
		if n%7 == 3 { // with nothing under way
			next = under
		} else {
			next = begin(compute.Drawn(2), 7, compute.Drawn(0))
			want = append(want, []int32{from + 2, 7, from})
		}
		picks, err := under()
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range picks {
			if p.Token != from+int32(i) {
				t.Fatalf("step %d, row %d: token %d, want %d", n, i, p.Token, from+int32(i))
			}
		}
		if under = next; n%7 == 3 {
			under = begin(4, 5, compute.Drawn(1))
			want = append(want, []int32{4, 5, from + 1})
		}
	}
	last := begin(0, 0, 0)
	want = append(want, []int32{0, 0, 0})
	_, err = d.Start(func(compute.Ops) compute.Tensor { return compute.Tensor{} }, nil)
	mentions(t, err, "2 steps are under way", "wait")
	for _, wait := range []func() ([]sample.Pick, error){under, last} {
		if _, err := wait(); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.EqualFunc(f.seen, want, slices.Equal) {
		t.Errorf("steps had tokens %v, want %v", f.seen, want)
	}
	if f.replays < 100 {
		t.Errorf("%d of %d steps were graphs, want most: a step keeps its shape, begun ahead or not", f.replays, len(want))
	}
}

// What a step that is not computed would have filled in is still missing for the next.
func TestAStepThatFailsFillsNoRotaryTable(t *testing.T) {
	f := newFake()
	d := openFake(t, f)
	rope := &compute.Rope{Dims: 64, Freq: make([]float64, 32), Scale: 1}
	moves := 0
	for i, want := range []struct {
		fail  bool
		moves int
	}{{true, 1}, {true, 1}, {false, 1}, {false, 0}} {
		_, err := d.Run(func(ops compute.Ops) compute.Tensor {
			s := ops.(*step)
			var b compute.Batch
			b.Add(0, 70, 0, false)
			s.rope(rope, &b)
			if moves = len(s.moves); want.fail {
				s.fail(compute.ErrMemory)
			}
			return compute.Tensor{}
		})
		if (err != nil) != want.fail || moves != want.moves {
			t.Errorf("step %d: %d pages to fill, error %v; want %d, and one: %v", i, moves, err, want.moves, want.fail)
		}
	}
}
