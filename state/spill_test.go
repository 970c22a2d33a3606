package state

import (
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"memra/state/disk"
)

// restarted is a tree in a new pool over a folder, as a new process has it.
func restarted(t *testing.T, layout Layout, c Config, path, model string) (*Tree, *disk.Folder) {
	t.Helper()
	p, err := NewPool(deltaDevice{}, layout, c)
	if err != nil {
		t.Fatal(err)
	}
	folder, err := disk.Open(path, 64<<20, slog.New(slog.NewTextHandler(io.Discard, nil)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(folder.Close)
	tree := NewTree(p)
	tree.Spill(folder, model)
	return tree, folder
}

// bring does what an engine does for a request before it begins.
func bring(t *testing.T, tree *Tree, tenant string, tokens []int32) bool {
	t.Helper()
	left := 0
	for {
		f := tree.Fetch(tenant, tokens)
		if f == nil || left > 0 && f.Pages() >= left {
			return left > 0
		}
		left = f.Pages()
		f.Read()
		if err := tree.Restore(f); err != nil {
			t.Fatal(err)
		}
	}
}

// readPieces has so many bytes read at a time.
func readPieces(t *testing.T, bytes int) {
	t.Helper()
	before := mostRead
	mostRead = bytes
	t.Cleanup(func() { mostRead = before })
}

func TestASecondTurnAfterARestartComputesOnlyItsMessage(t *testing.T) {
	for name, layout := range layouts {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 1))
			path := t.TempDir()
			conversation := more(rng, nil, 1)
			for turn := range 4 {
				readPieces(t, []int{1 << 30, 1, 10000, 100000}[turn])
				tree, folder := restarted(t, layout, Config{Positions: 5000, Sequences: 1, Step: 200, Snapshots: 6}, path, "m")
				before := len(conversation)
				conversation = more(rng, conversation, 400+rng.IntN(100))
				want := before
				if turn == 0 {
					want = 0
				}
				bring(t, tree, "", conversation[:len(conversation)-1])
				if found := finish(t, tree, conversation, 200); found.Held != want {
					t.Errorf("turn %d: %d of %d tokens need not be computed (%v), want %d", turn, found.Held, len(conversation), found, want)
				}
				tree.Flush()
				folder.Close()
			}
			for _, other := range []struct{ model, tenant string }{{"another", ""}, {"m", "another"}} {
				tree, _ := restarted(t, layout, Config{Positions: 5000, Sequences: 1, Step: 200, Snapshots: 6}, path, other.model)
				if bring(t, tree, other.tenant, conversation) {
					t.Errorf("%+v finds what it has not computed", other)
				}
			}
		})
	}
}

// What requests have in common ends within a page, whose other tokens nobody asks for again.
func TestSharedBeginningsOutliveTheProcess(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 1))
	path := t.TempDir()
	shared := more(rng, nil, 1111)
	c := Config{Positions: 9000, Sequences: 1, Step: 200, Snapshots: 6}
	tree, folder := restarted(t, windowed, c, path, "m")
	for i := range 5 {
		tokens := more(rng, append(slices.Clone(shared), int32(10+i)), 300)
		bring(t, tree, "", tokens)
		if found := finish(t, tree, tokens, 200); i > 1 && found.Held != 1111 {
			t.Errorf("request %d finds %+v, want 1111 held", i, found)
		}
		if i > 0 {
			tree.Flush()
			folder.Close()
			tree, folder = restarted(t, windowed, c, path, "m")
		}
	}
}

func TestWhatWasEvictedIsFoundOnDisk(t *testing.T) {
	for name, layout := range layouts {
		t.Run(name, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, 1))
			tree, folder := restarted(t, layout, Config{Positions: 1200, Sequences: 1, Step: 200, Snapshots: 1}, t.TempDir(), "m")
			var texts [][]int32
			for i := range 6 {
				texts = append(texts, more(rng, []int32{int32(10 + i)}, 600))
				finish(t, tree, texts[i], 200)
			}
			if tree.Bytes() > tree.pool.Bytes() {
				t.Errorf("the tree holds %d bytes of a pool of %d", tree.Bytes(), tree.pool.Bytes())
			}
			for i, tokens := range texts {
				bring(t, tree, "", tokens[:600])
				if found := finish(t, tree, tokens, 200); found.Held != 600 {
					t.Errorf("text %d: %d of %d tokens need not be computed: %v", i, found.Held, len(tokens), found)
				}
			}
			folder.Close()
		})
	}
}

// A random life over restarts, with files that go and change, against the truth: whatever is found is right.
func TestWhatComesFromDiskIsWhatItsTokensSay(t *testing.T) {
	for name, layout := range layouts {
		t.Run(name, func(t *testing.T) {
			brought := 0
			for seed := range uint64(2) {
				rng := rand.New(rand.NewPCG(seed, 8))
				path := t.TempDir()
				var texts [][]int32
				for range 4 {
					readPieces(t, []int{1 << 30, 1, 50000}[rng.IntN(3)])
					tree, folder := restarted(t, layout, Config{Positions: 600 + rng.IntN(2000), Sequences: 1, Step: 200, Snapshots: rng.IntN(6)}, path, fmt.Sprint(rng.IntN(4)/3))
					for range 12 {
						tokens := text(rng, texts)
						if bring(t, tree, "", tokens[:len(tokens)-1]) {
							brought++
						}
						audit(t, tree, nil)
						if tree.pool.Fits(len(tokens)) == nil {
							finish(t, tree, tokens, 1+rng.IntN(200)) // checks what is held
							texts = append(texts, tokens)
						}
						audit(t, tree, nil)
					}
					tree.Flush()
					folder.Close()
					spoil(t, rng, path)
				}
			}
			if brought < 5 {
				t.Errorf("the disk was of use %d times: this tests little", brought)
			}
		})
	}
}

// spoil removes, cuts or changes a few files.
func spoil(t *testing.T, rng *rand.Rand, path string) {
	t.Helper()
	entries, err := os.ReadDir(path)
	if err != nil {
		t.Fatal(err)
	}
	for range len(entries) / 20 {
		file := filepath.Join(path, entries[rng.IntN(len(entries))].Name())
		data, err := os.ReadFile(file)
		if err != nil {
			continue // it is removed already
		}
		switch rng.IntN(3) {
		case 0:
			err = os.Remove(file)
		case 1:
			err = os.WriteFile(file, data[:rng.IntN(len(data)+1)], 0o600)
		case 2:
			data = slices.Clone(data)
			if len(data) > 0 {
				data[rng.IntN(len(data))] ^= 1 << rng.IntN(8)
			}
			err = os.WriteFile(file, data, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}
