package check

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"memra/compute"
	"memra/internal/builtin"
	"memra/internal/golden"
	"memra/model"
)

// real are the checks of a model file.
func (c *checker) real(path string) []one {
	name := filepath.Base(path)
	return []one{
		{"logits of " + name, func(c *checker) (string, error) { return c.goldens(path) }},
		{"a schedule is invisible: " + name, func(c *checker) (string, error) {
			return c.file(path, func(b *Bound) (string, error) {
				if c.Quick {
					return c.invisible(b, 1, 70, 20)
				}
				return c.invisible(b, 2, 200, 67, 30)
			})
		}},
	}
}

// file binds a model file for the time of a check.
func (c *checker) file(path string, check func(*Bound) (string, error)) (detail string, err error) {
	f, err := builtin.GGUF(path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b, err := Bind(c.device, model.GGUF(f), 1200, 3)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	return check(b)
}

// goldens compares a file's logits with float32 transformers' on the same weights: in the mean over its positions, the
// Kullback-Leibler divergence stays below what the class's roundings cost.
func (c *checker) goldens(path string) (string, error) {
	base := strings.TrimSuffix(filepath.Base(path), ".gguf")
	from := filepath.Join(c.Goldens, base+".golden.gz")
	g, err := golden.Load(from)
	if errors.Is(err, os.ErrNotExist) {
		return "", skip("there is no %s", from)
	}
	if err != nil {
		return "", err
	}
	if sum, err := fileSum(path); err != nil {
		return "", err
	} else if sum != g.SHA256 {
		return "", fmt.Errorf("%s has SHA-256 %x, its golden was made of %x; fetch the file again with tools/models", path, sum, g.SHA256)
	}
	return c.file(path, func(b *Bound) (string, error) { return c.divergence(b, g) })
}

func (c *checker) divergence(b *Bound, g *golden.Logits) (string, error) {
	windows := pick(c, 1, g.Tokens...)
	var sum float64
	var same, positions int
	for w, tokens := range windows {
		s := b.pool.NewSequence()
		for first := 0; first < len(tokens); first += 128 {
			var batch compute.Batch
			for i, token := range tokens[first:min(len(tokens), first+128)] {
				batch.Add(token, first+i, 0, true)
			}
			if err := s.Extend(batch.Rows()); err != nil {
				return "", err
			}
			rows, err := b.run(&batch, s)
			if err != nil {
				return "", err
			}
			for i, row := range rows {
				kl, ok := g.Compare(w, first+i, row)
				sum += kl
				positions++
				if ok {
					same++
				}
			}
		}
		s.Free()
	}
	kl := sum / float64(positions)
	text := fmt.Sprintf("KL divergence %.1e nats in the mean over %d positions, limit %.0e; same best token at %.2f %%", kl, positions, c.limit.kl,
		100*float64(same)/float64(positions))
	if !(kl <= c.limit.kl) || math.IsNaN(kl) {
		return "", errors.New(text)
	}
	return text, nil
}

func fileSum(path string) (sum [32]byte, err error) {
	f, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return sum, err
	}
	return [32]byte(h.Sum(nil)), nil
}
