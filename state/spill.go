package state

import (
	"cmp"
	"fmt"
	"slices"

	"memra/compute"
	"memra/state/disk"
)

// spill is where a tree keeps what it evicts.
type spill struct {
	folder *disk.Folder
	of     []string // what pages depend on, but the tenant and the tokens
}

// Spill has the tree keep in a folder what it evicts, and find it there again. model is what pages depend on beside the pool's layout and
// formats and the tokens: the model file, and the numeric class of what computes. Of windows and delta-nets only those pages are kept at which
// something ended.
func (t *Tree) Spill(folder *disk.Folder, model ...string) {
	of := slices.Clone(model)
	for _, k := range t.pool.kinds {
		of = append(of, fmt.Sprintf("%d layers of %+v, %d bytes", k.layers, k.layer, k.pageBytes(t.pool.config)))
	}
	c := t.pool.config
	t.spill = &spill{folder, append(of, fmt.Sprintf("keys and values %v, delta-nets %d, pages of %d", c.Format, c.Delta, compute.Page))}
}

// root is a tenant's key.
func (s *spill) root(tenant string) disk.Key { return disk.Root(append(slices.Clone(s.of), tenant)...) }

// key is a node's.
func (s *spill) key(n *node) disk.Key {
	var chain []*node
	for ; n.parent != nil && n.key == nil; n = n.parent {
		chain = append(chain, n)
	}
	var key disk.Key
	if n.parent == nil {
		key = s.root(n.tenant)
	} else {
		key = *n.key
	}
	for _, n := range slices.Backward(chain) {
		key = key.Next(n.tokens)
		own := key
		n.key = &own
	}
	return key
}

// lasts reports whether a node's page of a kind is worth a place on disk.
func (t *Tree) lasts(n *node, k int) bool {
	return n.pages[k] >= 0 && (t.pool.kinds[k].window() == 0 || n.kept[k].used >= long)
}

// place is a node's page of a kind on disk.
func (s *spill) place(n *node, k int) disk.Page {
	return disk.Page{Parent: s.key(n.parent), Tokens: n.tokens, Kind: k}
}

// store gives a node's page of a kind to what writes it, unless the folder has it.
func (t *Tree) store(n *node, k int, write func(p disk.Page, bytes int, read func() []byte)) {
	if t.spill == nil || !t.lasts(n, k) {
		return
	}
	p := t.spill.place(n, k)
	if t.spill.folder.Has(p) {
		t.spill.folder.Use(p)
		return
	}
	bytes := t.pool.kinds[k].pageBytes(t.pool.config)
	write(p, bytes, func() []byte {
		data := make([]byte, bytes)
		if t.pool.memory[k].Read(int(n.pages[k]), data) != nil { // a device that fails says so at its next step, too
			return nil
		}
		return data
	})
}

// evict stores a page that is about to go, to be written by and by.
func (t *Tree) evict(n *node, k int) {
	if t.spill != nil {
		t.store(n, k, t.spill.folder.Queue)
	}
}

// save writes a page at once.
func (s *spill) save(p disk.Page, _ int, read func() []byte) {
	if data := read(); data != nil {
		s.folder.Save(p, data)
	}
}

// Flush writes what the folder lacks, and returns when it is written: of the branches that were used last, as much as the folder has
// room for.
func (t *Tree) Flush() {
	if t.spill == nil {
		return
	}
	ends := slices.Clone(t.ends)
	slices.SortFunc(ends, func(a, b *entry) int { return cmp.Compare(b.used, a.used) })
	var branches [][]*node
	seen, room := map[*node]bool{}, t.spill.folder.Limit()
	for _, e := range ends {
		var branch []*node
		for n := e.node; n.parent != nil && !seen[n]; n = n.parent {
			for k := range n.pages {
				if t.lasts(n, k) {
					room -= int64(t.pool.kinds[k].pageBytes(t.pool.config))
				}
			}
			branch, seen[n] = append(branch, n), true
		}
		if room < 0 {
			break
		}
		branches = append(branches, branch)
	}
	for _, branch := range slices.Backward(branches) { // what is written last stays longest: the last branch, and of each its beginning
		for _, n := range branch {
			for k := range n.pages {
				t.store(n, k, t.spill.save)
			}
		}
	}
}

// Fetch is pages on disk that would make a match longer.
type Fetch struct {
	tree   *Tree
	tenant string
	tokens []int32 // of pages up to the end of that match
	parent []disk.Key
	pages  []fetched
}

// fetched is the i-th page, of a kind.
type fetched struct {
	i, kind int
	data    []byte
}

// Fetch is what the disk has for a match of tokens that the tree has not. nil: nothing. Read it anywhere, Restore it, and Match.
func (t *Tree) Fetch(tenant string, tokens []int32) *Fetch {
	if t.spill == nil {
		return nil
	}
	s, found := t.Match(tenant, tokens)
	s.Free()
	var path []*node
	if root := t.roots[tenant]; root != nil {
		path = root.follow(tokens)
	}
	gains := func(stop int) bool { return stop >= min(found.Held+worth, len(tokens)) && stop > found.Held }
	f := &Fetch{tree: t, tenant: tenant, parent: []disk.Key{t.spill.root(tenant)}}
	for at := 0; at+compute.Page <= len(tokens); at += compute.Page {
		f.tokens = tokens[:at+compute.Page]
		if i := at / compute.Page; i >= len(path) && !f.whole(i) {
			break
		}
		f.parent = append(f.parent, f.parent[len(f.parent)-1].Next(tokens[at:at+compute.Page]))
	}
	partial := slices.IndexFunc(t.pool.kinds, func(k kind) bool { return k.window() > 0 }) // a kind of which pages may be lacking
	for n := len(f.parent) - 1; n >= 0; n-- {
		at := n * compute.Page
		if n == len(f.parent)-1 || partial >= 0 {
			for _, next := range f.alike(n, max(0, partial), tokens[at:]) {
				f.tokens = slices.Concat(tokens[:at], next)
				if stop := at + common(next, tokens[at:]); gains(stop) && f.whole(n) && f.plan(path, stop) {
					return f
				}
			}
		}
		if !gains(at) {
			break
		}
		if f.tokens = slices.Clip(tokens[:at]); f.plan(path, at) {
			return f
		}
	}
	return nil
}

// place is the i-th page, of a kind.
func (f *Fetch) place(i, kind int) disk.Page {
	from := i * compute.Page
	return disk.Page{Parent: f.parent[i], Tokens: f.tokens[from:min(len(f.tokens), from+compute.Page)], Kind: kind}
}

// alike is what pages of a kind on disk have that follow the first n pages, and begin like tokens: the likest first.
func (f *Fetch) alike(n, kind int, tokens []int32) [][]int32 {
	var all [][]int32
	for _, next := range f.tree.spill.folder.Next(f.parent[n], kind) {
		if common(next, tokens) > 0 {
			all = append(all, next)
		}
	}
	slices.SortFunc(all, func(a, b []int32) int { return common(b, tokens) - common(a, tokens) })
	return all
}

// whole reports whether the disk has the i-th page of every kind that sees everything.
func (f *Fetch) whole(i int) bool {
	for k, kind := range f.tree.pool.kinds {
		if kind.window() == 0 && !f.tree.spill.folder.Has(f.place(i, k)) {
			return false
		}
	}
	return true
}

// plan lists the pages that a match up to a position lacks, and reports whether the disk has them. Those of kinds that see everything
// it has.
func (f *Fetch) plan(path []*node, stop int) bool {
	lacks := func(i, k int) bool { return i >= len(path) || path[i].pages[k] < 0 }
	for k, kind := range f.tree.pool.kinds {
		for i, to := kind.sees(stop); kind.window() > 0 && i < to; i++ {
			if lacks(i, k) && !f.tree.spill.folder.Has(f.place(i, k)) {
				return false
			}
		}
	}
	for k, kind := range f.tree.pool.kinds {
		for i, to := kind.sees(stop); i < to; i++ {
			if lacks(i, k) {
				f.pages = append(f.pages, fetched{i: i, kind: k})
			}
		}
	}
	return true
}

// Pages is how many there are.
func (f *Fetch) Pages() int { return len(f.pages) }

// Read brings the pages to memory, from the first on and of those that are many only the first mostRead bytes: Restore them, and Fetch the
// others. It touches neither tree nor pool: any goroutine may do it.
func (f *Fetch) Read() {
	t, bytes := f.tree, 0
	slices.SortStableFunc(f.pages, func(a, b fetched) int { return a.i - b.i })
	for i := range f.pages {
		p := &f.pages[i]
		size := t.pool.kinds[p.kind].pageBytes(t.pool.config)
		if bytes += size; bytes > mostRead && p.i > f.pages[0].i {
			f.tokens = f.tokens[:p.i*compute.Page]
			f.pages = slices.DeleteFunc(f.pages[:i], func(q fetched) bool { return q.i == p.i })
			break
		}
		p.data = t.spill.folder.Load(f.place(p.i, p.kind), size)
	}
	for _, p := range slices.Backward(f.pages) { // the beginning, which others may share, is what was used last
		t.spill.folder.Use(f.place(p.i, p.kind))
	}
}

// mostRead is how many bytes of pages are read at a time.
var mostRead = 256 << 20

// Restore puts what was read into the tree, as far as there is room and nothing is missing. An error is the device's.
func (t *Tree) Restore(f *Fetch) error {
	s := t.pool.NewSequence()
	s.tenant = f.tenant
	defer s.Free()
	var path []*node
	if root := t.roots[f.tenant]; root != nil {
		path = root.follow(f.tokens)
	}
	data := map[[2]int][]byte{}
	for _, p := range f.pages {
		data[[2]int{p.i, p.kind}] = p.data
	}
	for i := 0; s.length < len(f.tokens); i++ {
		for k, kind := range t.pool.kinds {
			page := int32(-1)
			switch bytes := data[[2]int{i, k}]; {
			case i < len(path) && path[i].pages[k] >= 0:
				page = path[i].pages[k]
				t.pool.share(k, page)
			case bytes != nil && t.pool.available(k) > 0:
				t.reclaim(k, 1)
				page = t.pool.take(k)
				if err := t.pool.memory[k].Write(int(page), bytes); err != nil {
					t.pool.drop(k, page)
					return err
				}
			case kind.window() == 0:
				t.Retire(s, f.tokens)
				return nil
			}
			s.tables[k] = append(s.tables[k], page)
		}
		s.length = min(s.length+compute.Page, len(f.tokens))
	}
	t.Retire(s, f.tokens)
	return nil
}
