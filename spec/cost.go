package spec

import (
	"math"
	"slices"
	"sort"
)

// meter is how long something takes, by its size: of each size the median of the last few times, and a line between them. The
// first two times of a size do not count: a device may have to prepare for it (CUDA's graphs).
type meter struct {
	sizes  []int     // that are known, ascending
	least  []float64 // what they take
	times  map[int]*times
	recent []sighting // the last few times, of any size
	clock  int        // times that were heard of
}

// few is how many times count.
const few = 9

// times are the last few of a size, in seconds.
type times struct {
	seen   int // times of the size, less those that do not count
	last   []float64
	median float64
	at     int // meter.clock of the last
}

// sighting is a time, and what it is to what was known of its size.
type sighting struct {
	size           int
	seconds, ratio float64
}

func (t *times) add(seconds float64) {
	if len(t.last) == few {
		t.last = slices.Delete(t.last, 0, 1) // in place
	}
	t.last = append(t.last, seconds)
	t.median = median(t.last)
}

// median is of few values; the smaller of the two where there are two.
func median(x []float64) float64 {
	var room [few]float64
	sorted := room[:copy(room[:], x)]
	slices.Sort(sorted)
	return sorted[(len(sorted)-1)/2]
}

// preparing is how many times of a size do not count.
const preparing = 2

// learn hears of a time, and says whether it made others unknown.
func (m *meter) learn(size int, seconds float64) (forgot bool) {
	if m.times == nil {
		m.times = map[int]*times{}
	}
	t := m.times[size]
	if t == nil {
		t = &times{seen: -preparing}
		m.times[size] = t
	}
	t.seen++
	m.clock++
	if m.clock-t.at > stale {
		t.last = nil
	}
	t.at = m.clock
	switch {
	case t.seen < 1:
		return false
	case t.seen == 1:
		i, _ := slices.BinarySearch(m.sizes, size)
		m.sizes = slices.Insert(m.sizes, i, size)
		t.add(seconds)
	default:
		s := sighting{size, seconds, seconds / t.median}
		t.add(seconds)
		forgot = m.shift(s)
	}
	m.settle()
	return forgot
}

// sure is how many times of a size are believed, however odd.
const sure = 3

// stale is after how many times of other sizes those of a size are not believed any more where they are in its way.
const stale = 64

// settle says what each size takes: no longer than a larger one, and where it was timed only once or twice, or not for long, no longer than the
// sizes below it let one expect, so that an odd time, or a time when others computed on the machine, does not keep the size from being tried
// again.
func (m *meter) settle() {
	m.least = slices.Grow(m.least[:0], len(m.sizes))[:len(m.sizes)]
	least := math.Inf(1)
	for i, size := range slices.Backward(m.sizes) {
		least = min(least, m.times[size].median)
		m.least[i] = least
	}
	for i, size := range m.sizes {
		if t := m.times[size]; i > 0 && (len(t.last) < sure || m.clock-t.at > stale) {
			m.least[i] = min(m.least[i], m.beyond(i-1, size))
		}
	}
}

// beyond is what a size takes by the sizes up to the i-th, which is smaller. By one size alone, half of its time is taken to be there at
// any size; the line through two goes on, and never falls.
func (m *meter) beyond(i, size int) float64 {
	x, y := float64(m.sizes[i]), m.least[i]
	if i == 0 {
		return y/2 + y/2*float64(size)/x
	}
	slope := (y - m.least[i-1]) / (x - float64(m.sizes[i-1]))
	return y + max(0, slope)*(float64(size)-x)
}

// atLeast is the time of a size, where sizes beyond those that are known took no longer.
func (m *meter) atLeast(size int) float64 {
	if last := len(m.sizes) - 1; last >= 0 {
		size = min(size, m.sizes[last])
	}
	return m.of(size)
}

// guesses is how long guessing a token for each of some sequences takes. The first guess of a step takes longer than further ones, for there
// are rows to remember: how much is known from steps that have both, whatever else computes on the machine then.
type guesses struct {
	meter
	dearer float64 // so much longer, less 1
	first  sighting
}

func (g *guesses) learn(depth, sequences int, seconds float64) {
	const most, step = 1, 0.02 // towards the median, which odd times do not move far
	switch {
	case depth == 0:
		g.first = sighting{size: sequences, seconds: seconds}
		seconds /= 1 + g.dearer
	case depth == 1 && sequences == g.first.size:
		if g.first.seconds > seconds*(1+g.dearer) {
			g.dearer = min(g.dearer+step, most)
		} else {
			g.dearer = max(g.dearer-step, 0)
		}
	}
	g.meter.learn(sequences, seconds)
}

// of is the time of a guess after so many drafts.
func (g *guesses) of(depth, sequences int) float64 {
	if depth == 0 {
		return g.meter.of(sequences) * (1 + g.dearer)
	}
	return g.meter.of(sequences)
}

// much is how far a time is from what is known before it says something.
const much = 1.25

// shift hears how a time compares with what was known of its size. Where most of the last few are longer, or shorter, all is: others
// compute on the machine, or have ended. What sizes take that have not been seen since is then not known.
func (m *meter) shift(s sighting) bool {
	if m.recent = append(m.recent, s); len(m.recent) < few {
		return false
	}
	var ratios [few]float64
	for i, r := range m.recent {
		ratios[i] = r.ratio
	}
	now := median(ratios[:])
	if now < much && now > 1/much {
		m.recent = slices.Delete(m.recent, 0, 1)
		return false
	}
	fresh := map[int]bool{}
	for _, r := range m.recent[few/2:] {
		if t := m.times[r.size]; !fresh[r.size] {
			fresh[r.size], t.last = true, nil
		}
		m.times[r.size].add(r.seconds)
	}
	for size, t := range m.times {
		if !fresh[size] {
			t.seen, t.last = min(t.seen, 0), nil
		}
	}
	m.sizes = slices.DeleteFunc(m.sizes, func(size int) bool { return !fresh[size] })
	m.recent = nil
	return true
}

// sure reports whether a size was timed often enough that one odd time does not count.
func (m *meter) sure(size int) bool {
	t := m.times[size]
	return t != nil && t.seen >= sure
}

// of is the time of a size, 0 for none and where nothing is known. Sizes between known ones, or below them, lie on a line.
func (m *meter) of(size int) float64 {
	last := len(m.sizes) - 1
	if last < 0 || size == 0 {
		return 0
	}
	i := sort.SearchInts(m.sizes, size)
	switch {
	case i <= last && m.sizes[i] == size:
		return m.least[i]
	case i > last:
		return m.beyond(last, size)
	case last == 0:
		return m.least[0]/2 + m.least[0]/2*float64(size)/float64(m.sizes[0])
	}
	i = max(i, 1)
	x, y := float64(m.sizes[i]), m.least[i]
	slope := (y - m.least[i-1]) / (x - float64(m.sizes[i-1]))
	return max(0, y-slope*(x-float64(size)))
}
