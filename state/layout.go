package state

import "memra/compute"

// Layer is what one layer of a model stores per position: keys and values, or what a delta-net keeps.
type Layer struct {
	Heads, HeadDim int // of keys, and of values
	Window         int // positions that a row sees; 0: all
	Back           int // how many layers back the layer is whose keys and values this one reads; 0: its own. The rest is that layer's

	// Delta is what a delta-net keeps; its Layers and Format are the pool's affair. Zero: keys and values.
	Delta compute.DeltaShape
}

// Layout is the layers of a model, in order.
type Layout []Layer

// KV is the layout of a model whose layers are all alike and see everything.
func KV(layers, heads, headDim int) Layout {
	l := make(Layout, layers)
	for i := range l {
		l[i] = Layer{Heads: heads, HeadDim: headDim}
	}
	return l
}

// Config is the size of a pool.
type Config struct {
	Format    compute.KVFormat
	Delta     compute.DeltaFormat // the device's; NewPool knows it
	Positions int                 // tokens that all sequences together can hold
	Sequences int                 // how many at once; each may leave a page part empty
	Step      int                 // the most rows of a sequence in one step: a windowed layer keeps them beside its window
	Snapshots int                 // how many ends of prefixes a Tree keeps for windows and delta-nets, whatever the sequences take
}

// kind is the layers that share a page table.
type kind struct {
	layer  Layer
	layers int
}

// kinds groups the layers, and says for each layer its kind and its place in it. A layer that stores nothing has those of the
// layer that it reads.
func (l Layout) kinds() (kinds []kind, of, place []int) {
	index := map[Layer]int{}
	for i, layer := range l {
		if layer.Back > 0 {
			of, place = append(of, of[i-layer.Back]), append(place, place[i-layer.Back])
			continue
		}
		k, ok := index[layer]
		if !ok {
			k = len(kinds)
			index[layer] = k
			kinds = append(kinds, kind{layer: layer})
		}
		of, place = append(of, k), append(place, kinds[k].layers)
		kinds[k].layers++
	}
	return kinds, of, place
}

// isDelta reports whether the kind is of delta-nets.
func (k kind) isDelta() bool { return k.layer.Delta != compute.DeltaShape{} }

// window is how many positions a row of the kind sees, 0: all. A delta-net's row sees the page that it works in, and a page's first
// row the page before, so two positions.
func (k kind) window() int {
	if k.isDelta() {
		return 2
	}
	return k.layer.Window
}

// sees is the pages, from the first to before the last, that the row at a position sees of those before it.
func (k kind) sees(position int) (from, to int) {
	if w := k.window(); w > 0 {
		from = max(0, position+1-w) / compute.Page
	}
	return from, ceilDiv(position, compute.Page)
}

// delta is the kind's pages as the device stores a delta-net's.
func (k kind) delta(f compute.DeltaFormat) compute.DeltaShape {
	s := k.layer.Delta
	s.Layers, s.Format = k.layers, f
	return s
}

// pageBytes is the size of a page of the kind.
func (k kind) pageBytes(c Config) int {
	if k.isDelta() {
		return k.delta(c.Delta).PageBytes()
	}
	return k.shape(c.Format).PageBytes()
}

// shape is the kind's pages as the device stores them.
func (k kind) shape(f compute.KVFormat) compute.KVShape {
	return compute.KVShape{Layers: k.layers, Heads: k.layer.Heads, HeadDim: k.layer.HeadDim, Format: f}
}

// pages is how many pages of the kind a pool needs: enough for every position, but for windowed layers no more than each
// sequence's window and step can touch at once, and the windows of a tree's snapshots.
func (k kind) pages(c Config) int {
	all := ceilDiv(c.Positions, compute.Page) + c.Sequences
	if k.window() == 0 {
		return all
	}
	from, to := k.sees((all + 1) * compute.Page) // one page fewer than at the worst alignment
	return min(all, c.Sequences*k.windowPages(c.Step)+c.Snapshots*(to-from))
}

// windowPages is the most pages of the kind that one sequence holds: those of a window and a step, at any alignment. A delta-net
// keeps those of a step's first row and of its last, and the full one before where the first row begins a page.
func (k kind) windowPages(step int) int {
	if k.isDelta() {
		return 3
	}
	return ceilDiv(k.layer.Window-1+step, compute.Page) + 1
}

// Bytes is exactly what a pool of that size takes on its device.
func (l Layout) Bytes(c Config) int {
	kinds, _, _ := l.kinds()
	n := 0
	for _, k := range kinds {
		n += k.pages(c) * k.pageBytes(c)
	}
	return n
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
