package state

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"memra/compute"
)

// hybrid is two delta-nets and a layer of keys and values, on a device that remembers what each page of a delta-net knows: everything
// before the page, and the page's rows.
var hybrid = Layout{{Delta: net}, {Heads: 1, HeadDim: 16}, {Delta: net}}

var net = compute.DeltaShape{KeyHeads: 1, ValueHeads: 2, HeadDim: 16, Taps: 4}

type deltaDevice struct{ device }

type deltaMemory struct {
	shape compute.DeltaShape
	known []deltaPage
}

type deltaPage struct {
	before []int
	rows   [compute.Page]int
}

func (deltaDevice) NewDelta(shape compute.DeltaShape, pages int) (compute.DeltaMemory, error) {
	return &deltaMemory{shape, make([]deltaPage, pages)}, nil
}
func (deltaDevice) DeltaFormat() compute.DeltaFormat { return compute.DeltaF32 }
func (m *deltaMemory) Shape() compute.DeltaShape     { return m.shape }
func (m *deltaMemory) Pages() int                    { return len(m.known) }
func (m *deltaMemory) Copy(dst, src int)             { m.known[dst] = m.known[src] }
func (m *deltaMemory) Close() error                  { return nil }

// Read writes the rows, and all that was before them behind, as many as have room.
func (m *deltaMemory) Read(page int, data []byte) error {
	p := m.known[page]
	binary.LittleEndian.PutUint64(data, uint64(len(p.before)))
	for i, v := range append(p.rows[:], p.before...) {
		binary.LittleEndian.PutUint64(data[8+8*i:], uint64(v))
	}
	return nil
}

func (m *deltaMemory) Write(page int, data []byte) error {
	p := deltaPage{before: make([]int, binary.LittleEndian.Uint64(data))}
	for i := range p.rows {
		p.rows[i] = int(binary.LittleEndian.Uint64(data[8+8*i:]))
	}
	for i := range p.before {
		p.before[i] = int(binary.LittleEndian.Uint64(data[8+8*(compute.Page+i):]))
	}
	m.known[page] = p
	return nil
}

// recall is all that a delta-net knows before a position, by its pages.
func recall(t *testing.T, d compute.Delta, position int) []int {
	t.Helper()
	if position == 0 {
		return nil
	}
	page := d.Tables[0][(position-1)/compute.Page]
	if page < 0 {
		t.Fatalf("the page before position %d is not kept", position)
	}
	known := d.Memory.(*deltaMemory).known[page]
	return append(slices.Clone(known.before), known.rows[:(position-1)%compute.Page+1]...)
}

// step does with marks what a delta-net does with rows.
func stepDelta(t *testing.T, s *Sequence, from int, marks []int) {
	d := s.pool.View(s).Delta(2)
	known := recall(t, d, from)
	for i, mark := range marks {
		p := from + i
		if page := d.Tables[0][p/compute.Page]; page >= 0 {
			kept := &d.Memory.(*deltaMemory).known[page]
			if p%compute.Page == 0 {
				kept.before = slices.Clone(known)
			}
			kept.rows[p%compute.Page] = mark
		}
		known = append(known, mark)
	}
}

func TestDeltaNetsKeepThreePagesOfAnySequenceAtMost(t *testing.T) {
	c := Config{Positions: 100000, Sequences: 3, Step: 512}
	p, err := NewPool(deltaDevice{}, hybrid, c)
	if err != nil {
		t.Fatal(err)
	}
	kv, page := 1*2*16*64*2, 2*(4*2*16*16+4*64*3*16+4*67*4*16+4*64*2) // two layers of S, rows, convolution, decays
	if want := (1563+3)*kv + 9*page; p.Bytes() != want || hybrid.Bytes(c) != want {
		t.Errorf("pool of %d bytes, layout of %d, want %d", p.Bytes(), hybrid.Bytes(c), want)
	}
	s := p.NewSequence()
	for _, n := range []int{500, 1, 11, 512, 1, 63, 1, 64, 512} {
		if err := s.Extend(n); err != nil {
			t.Fatal(err)
		}
		kept := 0
		for _, page := range s.tables[0] {
			if page >= 0 {
				kept++
			}
		}
		if kept > 3 {
			t.Errorf("at %d positions %d pages are kept, want at most 3", s.Len(), kept)
		}
	}
	if err := s.Truncate(s.Len() - 300); err == nil {
		t.Error("300 of a prompt's 512 rows were dropped, and the state between is not kept")
	}
}

// A random life of several sequences, against a list of what each was told. Rows of a step of up to 64 can be dropped.
func TestDeltaNetsRememberExactlyWhatWasKept(t *testing.T) {
	for seed := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, 0))
		p, err := NewPool(deltaDevice{}, hybrid, Config{Positions: 8000, Sequences: 5, Step: 300})
		if err != nil {
			t.Fatal(err)
		}
		type life struct {
			s    *Sequence
			told []int
		}
		var all []*life
		for mark := range 300 {
			switch i := rng.IntN(5); {
			case len(all) == 0 || i == 0 && len(all) < 5:
				all = append(all, &life{s: p.NewSequence()})
			case i == 1 && len(all) < 5:
				l := all[rng.IntN(len(all))]
				all = append(all, &life{l.s.Fork(), slices.Clone(l.told)})
			case i == 2:
				j := rng.IntN(len(all))
				all[j].s.Free()
				all = slices.Delete(all, j, j+1)
			default:
				l, n := all[rng.IntN(len(all))], []int{1, 2, 8, 64, 65, 300}[rng.IntN(6)]
				if err := l.s.Extend(n); err != nil {
					if !errors.Is(err, ErrFull) {
						t.Fatal(err)
					}
					continue
				}
				marks := make([]int, n)
				for i := range marks {
					marks[i] = 1000*mark + i
				}
				stepDelta(t, l.s, len(l.told), marks)
				keep := n
				if n <= 64 {
					keep = rng.IntN(n + 1)
				}
				l.told = append(l.told, marks[:keep]...)
				if err := l.s.Truncate(len(l.told)); err != nil {
					t.Fatal(err)
				}
			}
			for _, l := range all {
				if got := recall(t, p.View(l.s).Delta(0), len(l.told)); !slices.Equal(got, l.told) {
					t.Fatalf("seed %d step %d: a sequence of %d positions knows %d others", seed, mark, len(l.told), len(got))
				}
			}
		}
		for _, l := range all {
			l.s.Free()
		}
		if p.Used() != 0 {
			t.Fatalf("seed %d: %d bytes in use after all is free", seed, p.Used())
		}
	}
}
