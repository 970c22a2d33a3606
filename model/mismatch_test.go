package model_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"memra/gguf"
	"memra/internal/golden"
	"memra/model"
)

// changed is a model file with other metadata, or other tensors.
type changed struct {
	model.Source
	meta    *gguf.Metadata
	tensors []gguf.Tensor
}

func (c *changed) Metadata() *gguf.Metadata { return c.meta }
func (c *changed) Tensors() []gguf.Tensor   { return c.tensors }

// with is a copy of a file in which a key has another value.
func with(src model.Source, key string, value any) *changed {
	c := &changed{Source: src, meta: new(gguf.Metadata), tensors: append([]gguf.Tensor(nil), src.Tensors()...)}
	for k, v := range src.Metadata().All() {
		c.meta.Set(k, v)
	}
	c.meta.Set(key, value)
	return c
}

// twice is a number, or each of a list, times two; nil where a value is neither.
func twice(m *gguf.Metadata, key string) any {
	if n, err := m.Int(key); err == nil {
		return uint32(2 * n)
	}
	list, err := m.Ints(key)
	if err != nil {
		return nil
	}
	for i := range list {
		list[i] *= 2
	}
	return toInt32(list)
}

func toInt32(list []int) (out []int32) {
	for _, n := range list {
		out = append(out, int32(n))
	}
	return out
}

var (
	misshaped = regexp.MustCompile(`^tensor (\S+): shape \[[\d ]*\], want \[([\d ]+)\]`)
	missing   = regexp.MustCompile(`^tensor (\S+?)(?: or \S+?)*(\.weight|\.bias|\.scale)?: missing, want shape \[([\d ]+)\]`)
)

// repair gives tensors the shapes that an error asks for. It returns the lines that ask for something else.
func (c *changed) repair(err error) (rest []string) {
	for _, line := range strings.Split(err.Error(), "\n")[1:] {
		line = strings.TrimSpace(line)
		if m := misshaped.FindStringSubmatch(line); m != nil {
			for i := range c.tensors {
				if c.tensors[i].Name == m[1] {
					c.tensors[i].Shape, c.tensors[i].Data = shapeOf(m[2]), nil
				}
			}
		} else if m := missing.FindStringSubmatch(line); m != nil {
			name := m[1] + m[2]
			if strings.HasSuffix(m[1], m[2]) {
				name = m[1]
			}
			c.tensors = append(c.tensors, gguf.Tensor{Name: name, Type: gguf.F32, Shape: shapeOf(m[3])})
		} else {
			rest = append(rest, line)
		}
	}
	return rest
}

func shapeOf(text string) (shape []int) {
	for _, s := range strings.Fields(text) {
		n, _ := strconv.Atoi(s)
		shape = append(shape, n)
	}
	return shape
}

// A number of the metadata is doubled, and the error tells all that follows: a file in which what it tells is put right opens. So no
// mismatch hides behind another. Where numbers contradict each other, the error names one of their keys, and tensors come after.
func TestMetadataThatContradictsTensorsIsToldWhole(t *testing.T) {
	seen := map[string]int{}
	eachTiny(t, func(t *testing.T, _ int, _ string, g *golden.Tiny) {
		src := model.GGUF(file(t, g.GGUF))
		if _, err := model.Check(src); err != nil {
			t.Fatal(err)
		}
		for key := range src.Metadata().All() {
			own, ok := strings.CutPrefix(key, g.Family+".")
			if !ok {
				continue
			}
			value := twice(src.Metadata(), key)
			if value == nil || fmt.Sprint(value) == "0" {
				continue
			}
			c := with(src, key, value)
			_, err := model.Check(c)
			if err == nil {
				continue // it shapes nothing: a window, a context, an epsilon
			}
			seen[own]++
			if rest := c.repair(err); len(rest) > 0 {
				for _, line := range rest {
					if strings.Contains(line, "tensors are not known") && own == "leading_dense_block_count" {
						continue // layers have one kind of block where another was
					}
					if !strings.HasPrefix(line, "metadata "+g.Family+".") {
						t.Errorf("%s doubled: %q is neither of a tensor's shape nor of metadata, in\n%v", key, line, err)
					}
				}
				continue
			}
			if _, again := model.Check(c); again != nil {
				t.Errorf("%s doubled: the error\n%v\ndid not tell\n%v", key, err, again)
			}
		}
	})
	for _, key := range []string{"block_count", "embedding_length", "feed_forward_length", "attention.head_count", "attention.head_count_kv", "attention.key_length"} {
		if seen[key] == 0 {
			t.Errorf("no family's tensors contradict %s", key)
		}
	}
}
