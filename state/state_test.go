package state

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"memra/compute"
)

// device is memory that remembers which position each place of each page holds.
type device struct{ compute.Device }

type memory struct {
	shape  compute.KVShape
	places [][compute.Page]int
}

func (device) NewKV(shape compute.KVShape, pages int) (compute.KVMemory, error) {
	return &memory{shape, make([][compute.Page]int, pages)}, nil
}
func (m *memory) Shape() compute.KVShape { return m.shape }
func (m *memory) Pages() int             { return len(m.places) }
func (m *memory) Copy(dst, src int)      { m.places[dst] = m.places[src] }
func (m *memory) Close() error           { return nil }

func (m *memory) Read(page int, data []byte) error {
	for i, p := range m.places[page] {
		binary.LittleEndian.PutUint64(data[8*i:], uint64(p))
	}
	return nil
}

func (m *memory) Write(page int, data []byte) error {
	for i := range m.places[page] {
		m.places[page][i] = int(binary.LittleEndian.Uint64(data[8*i:]))
	}
	return nil
}

// write stores a mark for each position [from, s.Len()), as a step does.
func write(s *Sequence, from, mark int) {
	for k, table := range s.tables {
		for p := from; p < s.Len(); p++ {
			s.pool.memory[k].(*memory).places[table[p/compute.Page]][p%compute.Page] = mark + p
		}
	}
}

// check reads back what the row at position at would see, in every kind of layer.
func check(t *testing.T, s *Sequence, at int, want func(position int) int) {
	t.Helper()
	for k, table := range s.tables {
		from := 0
		if w := s.pool.kinds[k].layer.Window; w > 0 {
			from = max(0, at+1-w)
		}
		for p := from; p < at; p++ {
			page := table[p/compute.Page]
			if page < 0 {
				t.Fatalf("kind %d: position %d is gone, and the row at %d sees it", k, p, at)
			}
			if got := s.pool.memory[k].(*memory).places[page][p%compute.Page]; got != want(p) {
				t.Fatalf("kind %d position %d holds %d, want %d", k, p, got, want(p))
			}
		}
	}
}

// mixed is two layers that see everything and two with a window of 100.
var mixed = Layout{{Heads: 2, HeadDim: 16, Window: 100}, {Heads: 2, HeadDim: 16}, {Heads: 2, HeadDim: 16, Window: 100}, {Heads: 2, HeadDim: 16}}

// borrowing is two layers of their own and three that read one of them.
var borrowing = Layout{{Heads: 2, HeadDim: 16, Window: 100}, {Heads: 1, HeadDim: 32}, {Heads: 2, HeadDim: 16, Window: 100, Back: 2}, {Heads: 2, HeadDim: 16, Window: 100, Back: 3}, {Heads: 1, HeadDim: 32, Back: 3}}

func newPool(t *testing.T, l Layout, c Config) *Pool {
	t.Helper()
	p, err := NewPool(device{}, l, c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func extend(t *testing.T, s *Sequence, n, mark int) {
	t.Helper()
	from := s.Len()
	if err := s.Extend(n); err != nil {
		t.Fatal(err)
	}
	write(s, from, mark)
}

func TestPoolTakesExactlyWhatTheLayoutSays(t *testing.T) {
	c := Config{Format: compute.KVF16, Positions: 1000, Sequences: 2, Step: 64}
	p := newPool(t, mixed, c)
	// 16 pages and one per sequence; a window of 100 and a step of 64 touch at most four pages a sequence.
	page := 2 * 2 * 16 * 64 * 2 * 2 // two layers, two heads of 16, 64 positions, keys and values, two bytes
	if want := 18*page + 8*page; p.Bytes() != want || mixed.Bytes(c) != want {
		t.Errorf("pool of %d bytes, layout of %d, want %d", p.Bytes(), mixed.Bytes(c), want)
	}
	if kv := p.View().KV(3); kv.Layer != 1 || kv.Memory.Shape().Layers != 2 {
		t.Errorf("layer 3 is layer %d of %d of its kind, want 1 of 2", kv.Layer, kv.Memory.Shape().Layers)
	}
}

func TestLayersThatReadAnothersKeysStoreNone(t *testing.T) {
	c := Config{Format: compute.KVF16, Positions: 1000, Sequences: 2, Step: 64}
	p := newPool(t, borrowing, c)
	if own := borrowing[:2].Bytes(c); p.Bytes() != own {
		t.Errorf("pool of %d bytes, want the %d of the layers that store", p.Bytes(), own)
	}
	s := p.NewSequence()
	extend(t, s, 50, 0)
	v := p.View(s)
	for layer, owner := range []int{0, 1, 0, 0, 1} {
		got, want := v.KV(layer), v.KV(owner)
		if got.Memory != want.Memory || got.Layer != want.Layer || got.Tables[0][0] != want.Tables[0][0] {
			t.Errorf("layer %d reads layer %d of %v, want what layer %d stores", layer, got.Layer, got.Memory.Shape(), owner)
		}
	}
}

func TestWindowedLayersFreeWhatNoRowSees(t *testing.T) {
	p := newPool(t, mixed, Config{Positions: 4096, Sequences: 1, Step: 64})
	s := p.NewSequence()
	for s.Len() < 4096 {
		extend(t, s, 64, 0)
		check(t, s, s.Len(), func(p int) int { return p })
	}
	held := 0
	for _, page := range s.tables[0] {
		if page >= 0 {
			held++
		}
	}
	if held > 4 {
		t.Errorf("a window of 100 holds %d pages, want at most 4", held)
	}
	s.Free()
	if p.Used() != 0 {
		t.Errorf("%d bytes in use after all is free", p.Used())
	}
}

func TestForkSharesUntilItWrites(t *testing.T) {
	p := newPool(t, mixed, Config{Positions: 1024, Sequences: 3, Step: 64})
	a := p.NewSequence()
	extend(t, a, 64, 0)
	extend(t, a, 20, 0)
	before := p.Used()
	b := a.Fork()
	if p.Used() != before {
		t.Errorf("a fork takes %d bytes, want none", p.Used()-before)
	}
	extend(t, a, 10, 1000)
	extend(t, b, 10, 2000)
	past := func(mark int) func(int) int {
		return func(p int) int {
			if p < 84 {
				return p
			}
			return mark + p
		}
	}
	check(t, a, a.Len(), past(1000))
	check(t, b, b.Len(), past(2000))
	a.Free()
	check(t, b, b.Len(), past(2000))
	b.Free()
	if p.Used() != 0 {
		t.Errorf("%d bytes in use after all is free", p.Used())
	}
}

func TestFullPoolChangesNothingAndSaysWhatLacks(t *testing.T) {
	p := newPool(t, KV(1, 1, 16), Config{Positions: 64, Sequences: 1, Step: 256})
	s := p.NewSequence()
	extend(t, s, 100, 0)
	used := p.Used()
	if err := s.Extend(64); !errors.Is(err, ErrFull) {
		t.Fatalf("got %v, want ErrFull", err)
	}
	if s.Len() != 100 || p.Used() != used {
		t.Errorf("after a failure: %d positions and %d bytes, want 100 and %d", s.Len(), p.Used(), used)
	}
	extend(t, s, 28, 0) // what still fits
}

func TestTruncateRefusesWhatAWindowHasForgotten(t *testing.T) {
	p := newPool(t, mixed, Config{Positions: 1024, Sequences: 1, Step: 64})
	s := p.NewSequence()
	for range 10 {
		extend(t, s, 64, 0)
	}
	if err := s.Truncate(100); err == nil {
		t.Error("cut to 100 of 640 positions with a window of 100, want an error")
	}
	if err := s.Truncate(630); err != nil {
		t.Fatal(err)
	}
	extend(t, s, 5, 7000)
	check(t, s, s.Len(), func(p int) int {
		if p < 630 {
			return p
		}
		return 7000 + p
	})
}

// A random life of several sequences, against a list of what each was told.
func TestSequencesNeverMix(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		p := newPool(t, mixed, Config{Positions: 4000, Sequences: 6, Step: 64})
		type life struct {
			s    *Sequence
			want []int
		}
		var all []*life
		for mark := 0; mark < 300; mark++ {
			switch i := rng.IntN(6); {
			case len(all) == 0 || i == 0 && len(all) < 6:
				all = append(all, &life{s: p.NewSequence()})
			case i == 1 && len(all) < 6:
				l := all[rng.IntN(len(all))]
				all = append(all, &life{l.s.Fork(), slices.Clone(l.want)})
			case i == 2:
				j := rng.IntN(len(all))
				all[j].s.Free()
				all = slices.Delete(all, j, j+1)
			case i == 3:
				l := all[rng.IntN(len(all))]
				if n := max(0, l.s.Len()-rng.IntN(20)); l.s.Truncate(n) == nil {
					l.want = l.want[:n]
				}
			default:
				l, n := all[rng.IntN(len(all))], rng.IntN(65)
				from := l.s.Len()
				if err := l.s.Extend(n); err != nil {
					if !errors.Is(err, ErrFull) {
						t.Fatalf("seed %d: %v", seed, err)
					}
					continue
				}
				write(l.s, from, mark*10000)
				for p := from; p < l.s.Len(); p++ {
					l.want = append(l.want, mark*10000+p)
				}
			}
			for _, l := range all {
				check(t, l.s, l.s.Len(), func(p int) int { return l.want[p] })
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
