package cuda

import (
	"os"
	"path/filepath"
	"testing"

	"memra/gguf"
	"memra/internal/golden"
	"memra/model"
	"memra/state"
)

// Every family's tiny models are launched on a GPU that computes nothing: kernels fit their arguments, operations take the widths of
// small vocabularies. A model that is refused when it is bound is not launched.
func TestEveryFamilyIsLaunched(t *testing.T) {
	for _, name := range tinyNames(t) {
		t.Run(name, func(t *testing.T) {
			d := openFake(t, newFake())
			g, err := golden.LoadTiny(filepath.Join(tinyModels, name))
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), "model.gguf")
			if err := os.WriteFile(path, g.GGUF, 0o644); err != nil {
				t.Fatal(err)
			}
			f, err := gguf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			m, err := model.Open(model.GGUF(f), d)
			if err != nil {
				t.Skip(err)
			}
			pool, err := state.NewPool(d, m.State(), state.Config{Positions: 400, Sequences: 1, Step: 128})
			if err != nil {
				t.Skip(err)
			}
			defer pool.Close()
			s := []*state.Sequence{pool.NewSequence()}
			feed(t, d, m, pool, s, [][]int32{{1, 2, 3}})
			feed(t, d, m, pool, s, [][]int32{{4}})
		})
	}
}
