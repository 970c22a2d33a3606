package state

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"memra/compute"
)

// kinds of layouts that a tree must get right.
var layouts = map[string]Layout{
	"layers that see everything":   KV(2, 1, 16),
	"windows among them":           mixed,
	"nothing but windows":          {{Heads: 1, HeadDim: 16, Window: 100}, {Heads: 2, HeadDim: 16, Window: 70}},
	"delta-nets":                   hybrid,
	"delta-nets, windows and both": windowed,
}

// life is a sequence and the tokens that it has, of which it has computed the first.
type life struct {
	s      *Sequence
	tokens []int32
}

// truth is what any layer must know of each position: a hash of all tokens up to it. This is the dumb twin of a model and its cache: a
// map from prefixes to content that needs no memory.
func truth(tokens []int32) []int {
	known, h := make([]int, len(tokens)), uint64(0)
	for i, token := range tokens {
		h = mix(h, uint64(token))
		known[i] = int(h >> 1)
	}
	return known
}

// run does with a sequence what a step of n rows does, in every kind of layer. Rows read what they see, and store the truth only if
// that is the truth.
func (l *life) run(t *testing.T, n int) error {
	t.Helper()
	from := l.s.Len()
	if err := l.s.Extend(n); err != nil {
		return err
	}
	l.check(t, from)
	want := truth(l.tokens)
	for k, table := range l.s.tables {
		switch m := l.s.pool.memory[k].(type) {
		case *memory:
			for p := from; p < from+n; p++ {
				m.places[table[p/compute.Page]][p%compute.Page] = want[p]
			}
		case *deltaMemory:
			known := l.known(t, k, from)
			for p := from; p < from+n; p++ {
				if page := table[p/compute.Page]; page >= 0 {
					if p%compute.Page == 0 {
						m.known[page].before = slices.Clone(known)
					}
					m.known[page].rows[p%compute.Page] = want[p]
				}
				known = append(known, want[p])
			}
		}
	}
	return nil
}

// known is what a delta-net knows before a position, by its pages.
func (l *life) known(t *testing.T, k, position int) []int {
	t.Helper()
	return recall(t, compute.Delta{Memory: l.s.pool.memory[k].(compute.DeltaMemory), Tables: [][]int32{l.s.tables[k]}}, position)
}

// check compares what the row at a position sees with the truth.
func (l *life) check(t *testing.T, at int) {
	t.Helper()
	want := truth(l.tokens)
	for k, table := range l.s.tables {
		from := 0
		if w := l.s.pool.kinds[k].layer.Window; w > 0 {
			from = max(0, at+1-w)
		}
		if l.s.pool.kinds[k].isDelta() {
			for p, got := range l.known(t, k, at) {
				if got != want[p] {
					t.Fatalf("kind %d: what a delta-net knows of position %d before %d is not of these tokens", k, p, at)
				}
			}
			continue
		}
		for p := from; p < at; p++ {
			if page := table[p/compute.Page]; page < 0 {
				t.Fatalf("kind %d: position %d is gone, and the row at %d sees it", k, p, at)
			} else if got := l.s.pool.memory[k].(*memory).places[page][p%compute.Page]; got != want[p] {
				t.Fatalf("kind %d: what position %d holds is not of these tokens", k, p)
			}
		}
	}
}

// audit recounts everything that pool and tree count.
func audit(t *testing.T, tree *Tree, lives []*life) {
	t.Helper()
	p := tree.pool
	for k := range p.kinds {
		refs := make([]int32, len(p.refs[k]))
		for _, l := range lives {
			for _, page := range l.s.tables[k] {
				if page >= 0 {
					refs[page]++
				}
			}
		}
		idle, kept := 0, 0
		for page, n := range tree.holder[k] {
			if n == nil {
				continue
			}
			if kept++; n.pages[k] != int32(page) || n.gone {
				t.Fatalf("kind %d page %d: its node does not hold it", k, page)
			}
			if refs[page]++; refs[page] == 1 {
				idle++
			}
		}
		if !slices.Equal(refs, p.refs[k]) {
			t.Fatalf("kind %d: pages are held %v times, want %v", k, p.refs[k], refs)
		}
		free := slices.Clone(p.free[k])
		slices.Sort(free)
		if slices.ContainsFunc(free, func(page int32) bool { return refs[page] > 0 }) || len(slices.Compact(free)) != len(p.free[k]) {
			t.Fatalf("kind %d: free pages are held, or free twice: %v", k, free)
		}
		if len(free)+len(refs)-slices.IndexFunc(append(slices.Sorted(slices.Values(refs)), 1), func(n int32) bool { return n > 0 }) != len(refs) {
			t.Fatalf("kind %d: %d pages are free of %d, and some of the others are nobody's", k, len(free), len(refs))
		}
		if idle != p.idle[k] {
			t.Fatalf("kind %d: %d pages are idle, want %d", k, p.idle[k], idle)
		}
		if p.kinds[k].window() > 0 && kept != len(tree.kept[k]) {
			t.Fatalf("kind %d: %d pages are kept, %d are in order", k, kept, len(tree.kept[k]))
		}
	}
	ends := 0
	var walk func(n *node)
	walk = func(n *node) {
		for i, c := range n.child {
			if c.parent != n || c.start != n.stop() || i > 0 && slices.Compare(n.child[i-1].tokens, c.tokens) >= 0 || len(n.tokens)%compute.Page != 0 {
				t.Fatalf("a node of positions %d to %d is in a wrong place", c.start, c.stop())
			}
			walk(c)
		}
		if n.parent != nil && len(n.child) == 0 {
			ends++
		}
		if n.parent != nil && (n.end.place > 0) != (len(n.child) == 0) {
			t.Fatalf("a node of %d children counts as an end: %v", len(n.child), n.end.place > 0)
		}
	}
	for _, root := range tree.roots {
		walk(root)
	}
	if ends != len(tree.ends) {
		t.Fatalf("%d branches end, %d are in order", ends, len(tree.ends))
	}
}

// text makes tokens that begin like some earlier ones.
func text(rng *rand.Rand, earlier [][]int32) []int32 {
	var tokens []int32
	if len(earlier) > 0 && rng.IntN(4) > 0 {
		from := earlier[rng.IntN(len(earlier))]
		tokens = slices.Clone(from[:rng.IntN(len(from)+1)])
	}
	return more(rng, tokens, 1+rng.IntN([]int{3, 70, 300}[rng.IntN(3)]))
}

func more(rng *rand.Rand, tokens []int32, n int) []int32 {
	for range n {
		tokens = append(tokens, int32(rng.IntN(2)))
	}
	return tokens
}

// A random life of several sequences that share what they can, in a pool that is too small, against the truth.
func TestSharedPrefixesAreWhatTheirTokensSay(t *testing.T) {
	for name, layout := range layouts {
		t.Run(name, func(t *testing.T) {
			hits, misses := 0, map[Miss]int{}
			for seed := range uint64(60) {
				randomLife(t, layout, seed, &hits, misses)
			}
			if hits < 200 || len(misses) < 4 {
				t.Errorf("%d matches held something, and others missed for %v: this tests little", hits, slices.Sorted(maps.Keys(misses)))
			}
		})
	}
}

func randomLife(t *testing.T, layout Layout, seed uint64, hits *int, misses map[Miss]int) {
	rng := rand.New(rand.NewPCG(seed, 7))
	p, err := NewPool(deltaDevice{}, layout, Config{Positions: 500 + rng.IntN(3000), Sequences: 4, Step: 200, Snapshots: rng.IntN(6)})
	if err != nil {
		t.Fatal(err)
	}
	tree := NewTree(p)
	var texts [][]int32
	var lives []*life
	end := func(i int, f func(l *life)) {
		f(lives[i])
		texts = append(texts, lives[i].tokens)
		lives = slices.Delete(lives, i, i+1)
	}
	retire := func(l *life) { tree.Retire(l.s, l.tokens) }
	for range 250 {
		tenant := []string{"", "", "", "b"}[rng.IntN(4)]
		switch i := rng.IntN(9); {
		case len(lives) == 0 || i == 0 && len(lives) < 4:
			l := &life{tokens: text(rng, texts)}
			var found Found
			l.s, found = tree.Match(tenant, l.tokens[:len(l.tokens)-1])
			if found.Held != l.s.Len() || found.Held >= len(l.tokens) || (found.Miss == Whole) != (found.Held == len(l.tokens)-1) {
				t.Fatalf("seed %d: of %d tokens %+v", seed, len(l.tokens), found)
			}
			l.check(t, l.s.Len())
			misses[found.Miss]++
			if found.Held > 0 {
				*hits++
			}
			lives = append(lives, l)
		case i == 1 && len(lives) < 4:
			l := lives[rng.IntN(len(lives))]
			lives = append(lives, &life{l.s.Fork(), slices.Clone(l.tokens)})
		case i == 2:
			end(rng.IntN(len(lives)), retire)
		case i == 3 && rng.IntN(3) == 0:
			end(rng.IntN(len(lives)), func(l *life) { l.s.Free() })
		case i == 4: // drop, and go on with something else
			l := lives[rng.IntN(len(lives))]
			if n := max(0, l.s.Len()-rng.IntN(90)); l.s.Truncate(n) == nil {
				l.tokens = more(rng, l.tokens[:n:n], 1+rng.IntN(90))
			}
		default:
			j := rng.IntN(len(lives))
			l := lives[j]
			if l.s.Len() == len(l.tokens) {
				l.tokens = more(rng, l.tokens, []int{1, 1, 9, 64}[rng.IntN(4)])
			}
			n := min(200, len(l.tokens)-l.s.Len(), []int{1, 64, 100, 200}[rng.IntN(4)])
			if err := l.run(t, n); err != nil {
				if !errors.Is(err, ErrFull) {
					t.Fatal(err)
				}
				if len(lives) == 1 && p.Fits(l.s.Len()+n) == nil {
					t.Fatalf("seed %d: a sequence of %d positions is alone and cannot have %d more: %v", seed, l.s.Len(), n, err)
				}
				end(j, []func(*life){retire, func(l *life) { l.s.Free() }}[rng.IntN(2)])
				break
			}
			if rng.IntN(4) > 0 {
				tree.Insert(l.s, l.tokens)
			}
		}
		audit(t, tree, lives)
		for _, l := range lives {
			l.check(t, l.s.Len())
		}
	}
	for len(lives) > 0 {
		end(0, retire)
	}
	audit(t, tree, nil)
	if p.Used() != tree.Bytes() {
		t.Fatalf("seed %d: %d bytes in use, %d of them the tree's", seed, p.Used(), tree.Bytes())
	}
	tree.Clear()
	if p.Used() != 0 || tree.Bytes() != 0 || len(tree.roots) != 0 {
		t.Fatalf("seed %d: %d bytes in use after all is evicted", seed, p.Used())
	}
}

// finish computes tokens from whatever the tree has of them, in steps of so many, and gives them to it.
func finish(t *testing.T, tree *Tree, tokens []int32, step int) Found {
	t.Helper()
	l := &life{tokens: tokens}
	var found Found
	l.s, found = tree.Match("", tokens[:len(tokens)-1])
	for l.s.Len() < len(tokens) {
		n := min(step, len(tokens)-l.s.Len())
		if found.Cut > l.s.Len() {
			n = min(n, found.Cut-l.s.Len())
		}
		if err := l.run(t, n); err != nil {
			t.Fatal(err)
		}
		tree.Insert(l.s, tokens)
	}
	tree.Retire(l.s, tokens)
	return found
}

func newTree(t *testing.T, layout Layout, positions int) *Tree {
	t.Helper()
	p, err := NewPool(deltaDevice{}, layout, Config{Positions: positions, Sequences: 1, Step: 200, Snapshots: 6})
	if err != nil {
		t.Fatal(err)
	}
	return NewTree(p)
}

func TestASecondTurnComputesOnlyItsMessage(t *testing.T) {
	for name, layout := range layouts {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 1))
			tree := newTree(t, layout, 5000)
			conversation := more(rng, nil, 1)
			for turn := range 5 {
				before := len(conversation)
				conversation = more(rng, conversation, 400+rng.IntN(100))
				want := before
				if turn == 0 {
					want = 0
				}
				if found := finish(t, tree, conversation, 200); found.Held != want {
					t.Errorf("turn %d: %d of %d tokens need not be computed (%v), want %d", turn, found.Held, len(conversation), found, want)
				}
			}
			if found := finish(t, tree, conversation, 200); found.Held != len(conversation)-1 || found.Miss != Whole {
				t.Errorf("the same again: %d of %d tokens need not be computed: %v", found.Held, len(conversation), found)
			}
		})
	}
}

// A template that leaves the reasoning of earlier answers out parts from the first conversation where its prompt ended.
func TestAPromptCanBeAnsweredAgain(t *testing.T) {
	for name, layout := range layouts {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 1))
			tree := newTree(t, layout, 5000)
			prompt := more(rng, nil, 700)
			l := &life{tokens: slices.Clone(prompt)}
			l.s, _ = tree.Match("", prompt[:699])
			for l.s.Len() < 1500 {
				n := 1
				if l.s.Len() < 700 {
					n = min(200, 700-l.s.Len())
				}
				if err := l.run(t, n); err != nil {
					t.Fatal(err)
				}
				tree.Insert(l.s, l.tokens)
				l.tokens = more(rng, l.tokens, 1)
			}
			tree.Retire(l.s, l.tokens)
			again := append(slices.Clone(prompt), 7, 7, 7)
			if s, found := tree.Match("", again); s.Len() != 700 {
				t.Errorf("%d of a prompt of 700 tokens are held: %v", s.Len(), found)
			}
		})
	}
}

// A long beginning that many requests share: the first computes it, the second finds where they part, from the third on all is held.
func TestSharedBeginningsOfDeltaNetsAreLearned(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	tree := newTree(t, hybrid, 9000)
	shared := more(rng, nil, 1111)
	for i := range 4 {
		tokens := append(slices.Clone(shared), int32(10+i))
		found := finish(t, tree, more(rng, tokens, 300), 200)
		switch {
		case i == 0 && found != (Found{Miss: Nothing}):
			t.Errorf("the first finds %+v", found)
		case i == 1 && (found.Miss != State || found.At != 1111 || found.Cut != 1111):
			t.Errorf("the second finds %+v, want that states at 1111 are lacking", found)
		case i > 1 && (found.Miss != Differs || found.Held != 1111 || found.At != 1111):
			t.Errorf("request %d finds %+v, want 1111 held", i, found)
		}
	}
}

func TestTheReasonOfAMissIsTold(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	tree := newTree(t, KV(1, 1, 16), 1000)
	tokens := more(rng, nil, 300)
	want := func(what string, found, want Found) {
		t.Helper()
		if found != want {
			t.Errorf("%s: %+v (%v), want %+v", what, found, found, want)
		}
	}
	want("an empty tree", finish(t, tree, tokens, 200), Found{Miss: Nothing})
	_, found := tree.Match("other", tokens)
	want("another tenant", found, Found{Miss: Tenant})
	_, found = tree.Match("", append(slices.Clone(tokens[:250]), 9, 9, 9))
	want("other tokens", found, Found{Held: 250, Miss: Differs, At: 250})
	_, found = tree.Match("", append(slices.Clone(tokens[:197]), 9, 9, 9))
	want("other tokens soon after a page begins", found, Found{Held: 192, Miss: Differs, At: 197})
	_, found = tree.Match("", append(slices.Clone(tokens), 9))
	want("more tokens", found, Found{Held: 300, Miss: Ends, At: 300})
	_, found = tree.Match("", tokens[:200])
	want("fewer tokens", found, Found{Held: 200})
}

func TestWhatWasUsedLastStaysLongest(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	tree := newTree(t, KV(1, 1, 16), 1024) // 17 pages
	var texts [][]int32
	for i := range 3 {
		texts = append(texts, more(rng, []int32{int32(10 + i)}, 255)) // four pages each
		finish(t, tree, texts[i], 200)
	}
	finish(t, tree, texts[0], 200)                      // used again
	finish(t, tree, more(rng, []int32{20}, 8*64-1), 64) // eight pages, of which five are free
	for i, held := range []int{255, 64, 255} {
		s, found := tree.Match("", texts[i][:255])
		if s.Free(); found.Held != held {
			t.Errorf("text %d: %d tokens are held, want %d: %v", i, found.Held, held, found)
		}
		if evicted := (Found{64, Evicted, 64, 0}); i == 1 && found != evicted {
			t.Errorf("text 1: %+v, want %+v", found, evicted)
		}
	}
}

// A sequence that needs every page of the pool cannot have one more to copy the last page of its prefix to.
func TestTheTreeGivesUpAPageRatherThanHaveItCopied(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	tree := newTree(t, KV(1, 1, 16), 640) // 11 pages
	tokens := more(rng, nil, 690)
	finish(t, tree, tokens, 200)
	finish(t, tree, append(slices.Clone(tokens), 8, 8), 200) // the same page, filled up
	tokens = more(rng, append(tokens, 9), 704-691)
	if found := finish(t, tree, tokens, 200); found.Held != 690 {
		t.Errorf("%+v, want 690 held", found)
	}
	audit(t, tree, nil)
}

func TestEqualPromptsComputedSideBySideTakeTheirPagesOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	tree := newTree(t, windowed, 2000)
	tokens := more(rng, nil, 320)
	var lives []*life
	for range 2 {
		s, _ := tree.Match("", tokens[:319])
		lives = append(lives, &life{s, tokens})
	}
	for range 5 {
		for _, l := range lives {
			if err := l.run(t, 64); err != nil {
				t.Fatal(err)
			}
			tree.Insert(l.s, tokens)
		}
	}
	audit(t, tree, lives)
	for k, kind := range tree.pool.kinds {
		if a, b := lives[0].s.tables[k], lives[1].s.tables[k]; !slices.Equal(a, b) {
			t.Errorf("kind %d (%+v): pages %v and %v, want the same", k, kind.layer, a, b)
		}
	}
}

func ExampleTree() {
	pool, _ := NewPool(device{}, KV(1, 1, 16), Config{Positions: 640, Sequences: 2, Step: 64})
	tree := NewTree(pool)
	tokens := make([]int32, 100)
	s, found := tree.Match("tenant", tokens[:99]) // the last token's logits are wanted: it must be computed
	fmt.Println(found.Held, found)
	_ = s.Extend(64) // and a step
	_ = s.Extend(36)
	tree.Retire(s, tokens)
	_, found = tree.Match("tenant", tokens[:99])
	fmt.Println(found.Held, found)
	// Output:
	// 0 nothing is cached
	// 99
}

// A prompt of 128k tokens that is all there, and a decode step's offer: what an engine does between steps.
func BenchmarkTree(b *testing.B) {
	const length = 128 << 10
	p, err := NewPool(device{}, KV(1, 1, 16), Config{Positions: 2 * length, Sequences: 2, Step: length})
	if err != nil {
		b.Fatal(err)
	}
	tree := NewTree(p)
	tokens := more(rand.New(rand.NewPCG(1, 1)), nil, length)
	s, _ := tree.Match("", tokens)
	if err := s.Extend(length); err != nil {
		b.Fatal(err)
	}
	tree.Retire(s, tokens)
	b.Run("match", func(b *testing.B) {
		for b.Loop() {
			s, _ := tree.Match("", tokens)
			s.Free()
		}
	})
	b.Run("insert", func(b *testing.B) {
		s, _ := tree.Match("", tokens)
		for b.Loop() {
			tree.Insert(s, tokens)
		}
	})
}
