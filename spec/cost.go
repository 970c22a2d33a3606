package spec

import (
	"slices"
	"sort"
)

// meter is how long something takes, by its size: of each size the median of the last few times, and a line between them. The first two
// times of a size do not count: a device may have to prepare for it (CUDA's graphs).
type meter struct {
	sizes []int // that are known, ascending
	times map[int]*times
}

// times are the last few, in seconds.
type times struct {
	last   [9]float64
	n      int
	median float64
}

// preparing is how many times of a size do not count.
const preparing = 2

// learn hears of a time.
func (m *meter) learn(size int, seconds float64) {
	if m.times == nil {
		m.times = map[int]*times{}
	}
	t := m.times[size]
	if t == nil {
		t = &times{n: -preparing}
		m.times[size] = t
	}
	t.n++
	if t.n <= 0 {
		return
	}
	if t.n == 1 {
		i, _ := slices.BinarySearch(m.sizes, size)
		m.sizes = slices.Insert(m.sizes, i, size)
	}
	t.last[(t.n-1)%len(t.last)] = seconds
	sorted := slices.Clone(t.last[:min(t.n, len(t.last))])
	slices.Sort(sorted)
	t.median = sorted[(len(sorted)-1)/2]
}

// known reports whether anything of the kind was timed.
func (m *meter) known() bool { return len(m.sizes) > 0 }

// of is the time of a size, 0 where nothing is known. Sizes between known ones lie on a line; from one known size alone, half of its time
// is taken to be there at any size; beyond the known ones the line through the last two goes on, and never falls.
func (m *meter) of(size int) float64 {
	at := func(i int) (x, y float64) { return float64(m.sizes[i]), m.times[m.sizes[i]].median }
	last := len(m.sizes) - 1
	if last < 0 {
		return 0
	}
	i := sort.SearchInts(m.sizes, size)
	if i <= last && m.sizes[i] == size {
		return m.times[size].median
	}
	if last == 0 {
		x, y := at(0)
		return y/2 + y/2*float64(size)/x
	}
	if i == 0 || i > last { // before the first, or after the last
		i = min(max(i, 1), last)
	}
	x0, y0 := at(i - 1)
	x1, y1 := at(i)
	slope := max(0, (y1-y0)/(x1-x0))
	if float64(size) > x1 {
		return y1 + slope*(float64(size)-x1)
	}
	return max(0, y0+(y1-y0)/(x1-x0)*(float64(size)-x0))
}
