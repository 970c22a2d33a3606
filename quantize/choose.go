package quantize

import (
	"cmp"
	"fmt"
	"strings"

	"memra/gguf"
	"memra/model"
)

// shape is what the rules of mixes ask about a model.
type shape struct {
	family     string
	layers     int
	experts    int
	grouped    int  // query heads that share a key head, in the first layer
	large      bool // of the size that llama.cpp calls 70B
	tied       bool // the embedding is the output matrix
	values     int  // matrices of attention's values
	importance bool // is known
}

// shapeOf reads a file's keys. A key that is absent counts as 0.
func shapeOf(src model.Source) shape {
	m := shape{tied: true}
	meta := src.Metadata()
	m.family, _ = meta.String("general.architecture")
	first := func(key string) int {
		if n, err := meta.Int(m.family + "." + key); err == nil {
			return n
		}
		if each, err := meta.Ints(m.family + "." + key); err == nil && len(each) > 0 {
			return each[0]
		}
		return 0
	}
	m.layers, m.experts = first("block_count"), first("expert_count")
	heads, kv := first("attention.head_count"), first("attention.head_count_kv")
	if kv == 0 {
		kv = heads
	}
	if kv > 0 {
		m.grouped = heads / kv
	}
	switch m.family {
	case "llama":
		m.large = m.layers == 80 && heads != kv
	case "qwen2", "deci", "olmo":
		m.large = m.layers == 80
	case "jais2":
		m.large = m.layers == 68
	}
	for _, t := range src.Tensors() {
		switch roleOf(t.Name) {
		case output:
			m.tied = false
		case value:
			m.values++
		}
	}
	return m
}

// chooser applies a mix's rules to the matrices of a model, in order: some rules count.
type chooser struct {
	mix
	shape
	valuesSeen, downSeen int
}

// byLayer orders names as the rules count them: those outside of layers, then layer after layer, by name in each.
func byLayer(a, b string) int {
	return cmp.Or(cmp.Compare(layerOf(a), layerOf(b)), strings.Compare(a, b))
}

// layerOf is the layer that a tensor's name names, or -1.
func layerOf(name string) int {
	layer := -1
	if n, err := fmt.Sscanf(name, "blk.%d.", &layer); n != 1 || err != nil {
		return -1
	}
	return layer
}

// choose returns the format of the next matrix.
func (c *chooser) choose(t *gguf.Tensor) gguf.Type {
	r := roleOf(t.Name)
	switch {
	case r == output, r == embedding && c.tied:
		return c.output(t)
	case c.name == "MXFP4_MOE":
		if len(t.Shape) > 2 && t.Shape[len(t.Shape)-3] > 1 { // experts
			return gguf.MXFP4
		}
		return gguf.Q8_0
	case r == value:
		c.valuesSeen++
		return c.value(c.valuesSeen - 1)
	case r == key && c.experts == 8:
		return gguf.Q8_0
	case r == down:
		layer := c.downSeen
		c.downSeen++
		if c.experts > 1 { // several a layer, and in any order
			layer = layerOf(t.Name)
		}
		return c.down(layer)
	case r == attentionOut:
		return c.attentionOut()
	}
	return c.base
}

func (c *chooser) output(t *gguf.Tensor) gguf.Type {
	block, _ := c.base.Block()
	if c.name == "MXFP4_MOE" || c.base == gguf.Q8_0 || c.family == "falcon" || t.Shape[len(t.Shape)-1]%block != 0 {
		return gguf.Q8_0
	}
	return gguf.Q6_K
}

// value is the format of the i-th matrix of attention's values.
func (c *chooser) value(i int) gguf.Type {
	t := c.base
	switch c.name {
	case "Q2_K":
		t = pick(c.grouped >= 4, gguf.Q4_K, gguf.Q3_K)
	case "Q3_K_M":
		t = pick(i < 2, gguf.Q5_K, gguf.Q4_K)
	case "Q3_K_L":
		t = gguf.Q5_K
	case "IQ4_NL", "IQ4_XS":
		t = pick(c.grouped >= 4, gguf.Q5_K, t)
	case "Q4_K_M", "Q5_K_M":
		t = pick(more(i, c.values), gguf.Q6_K, t)
	case "Q4_K_S":
		t = pick(i < 4, gguf.Q5_K, t)
	}
	if c.large && (t == gguf.Q3_K || t == gguf.Q4_K) { // an eighth of the queries' size, so it costs little
		t = gguf.Q5_K
	}
	return pick(c.experts == 8, gguf.Q8_0, t)
}

// down is the format of layer i's matrix that ends the MLP.
func (c *chooser) down(i int) gguf.Type {
	falcon, n := c.family == "falcon", c.layers
	switch c.name {
	case "Q2_K":
		return gguf.Q3_K
	case "Q3_K_M":
		if i < n/16 {
			return gguf.Q5_K
		}
		return pick(!falcon || more(i, n), gguf.Q4_K, gguf.Q3_K)
	case "Q3_K_L":
		return pick(falcon, gguf.Q4_K, gguf.Q5_K)
	case "Q4_K_M":
		if falcon && i >= n/16 {
			return pick(more(i, n), gguf.Q5_K, gguf.Q4_K)
		}
		return pick(more(i, n), gguf.Q6_K, gguf.Q4_K)
	case "Q5_K_M":
		return pick(more(i, n), gguf.Q6_K, gguf.Q5_K)
	case "Q4_K_S":
		return pick(!falcon && i < n/8, gguf.Q5_K, gguf.Q4_K)
	case "IQ4_NL", "IQ4_XS":
		return pick(i < n/8 && !c.importance, gguf.Q5_K, c.base)
	case "Q4_0": // with importance, the first layers can go wrong without a minimum
		return pick(i < n/8 && c.importance, gguf.Q4_1, gguf.Q4_0)
	case "Q5_0":
		return pick(i < n/8 && c.importance, gguf.Q5_1, gguf.Q5_0)
	}
	return c.base
}

func (c *chooser) attentionOut() gguf.Type {
	switch {
	case c.family == "falcon":
		return pick(c.name == "Q3_K_L", gguf.Q4_K, c.base)
	case c.experts == 8:
		switch c.name {
		case "Q2_K", "Q3_K_S", "Q3_K_M", "Q4_K_S", "Q4_K_M", "IQ4_NL", "IQ4_XS":
			return gguf.Q5_K
		}
		return c.base
	}
	switch c.name {
	case "Q2_K":
		return gguf.Q3_K
	case "Q3_K_M":
		return gguf.Q4_K
	case "Q3_K_L":
		return gguf.Q5_K
	}
	return c.base
}

func pick(first bool, a, b gguf.Type) gguf.Type {
	if first {
		return a
	}
	return b
}
