// Package tiny makes models small enough for tests: real families with random weights, in memory.
package tiny

import (
	"fmt"
	"math/rand/v2"

	"memra/gguf"
	"memra/quant"
)

// Model is a model file that exists in memory only. It is a model.Source.
type Model struct {
	name    string
	meta    *gguf.Metadata
	tensors []gguf.Tensor
	rng     *rand.Rand
}

func (m *Model) Name() string             { return m.name }
func (m *Model) Metadata() *gguf.Metadata { return m.meta }
func (m *Model) Tensors() []gguf.Tensor   { return m.tensors }
func (m *Model) Release()                 {}

// Remove takes a tensor out.
func (m *Model) Remove(name string) {
	for i, t := range m.tensors {
		if t.Name == name {
			m.tensors = append(m.tensors[:i:i], m.tensors[i+1:]...)
			return
		}
	}
}

// Add puts a random tensor in: normal values, divided so that a product with it keeps its size; zeros in a format that is only
// read.
func (m *Model) Add(name string, t gguf.Type, shape ...int) {
	width, rows := shape[len(shape)-1], 1
	for _, n := range shape[:len(shape)-1] {
		rows *= n
	}
	f, err := quant.For(t)
	if err != nil {
		panic(err)
	}
	size, err := f.RowBytes(width)
	if err != nil {
		panic(fmt.Sprintf("tiny: %s: %v", name, err))
	}
	data, values := make([]byte, rows*size), make([]float32, width)
	if f.Quantize == nil {
		m.tensors = append(m.tensors, gguf.Tensor{Name: name, Type: t, Shape: shape, Data: data})
		return
	}
	for r := range rows {
		for i := range values {
			values[i] = float32(m.rng.NormFloat64())
			if len(shape) == 1 {
				values[i] = 1 + values[i]/8 // a gain
			} else {
				values[i] *= 0.09
			}
		}
		f.Quantize(data[r*size:][:size], values, nil)
	}
	m.tensors = append(m.tensors, gguf.Tensor{Name: name, Type: t, Shape: shape, Data: data})
}

// The shape of all tiny models: two query heads share a KV head.
const (
	Vocab  = 300
	width  = 128
	hidden = 256
	heads  = 4
	kv     = 2
	dim    = 32
	layers = 4
	// Window is what Gemma 3's windowed layers see.
	Window = 70
)

func begin(family string, seed uint64, keys map[string]any) *Model {
	m := &Model{name: "tiny-" + family, meta: new(gguf.Metadata), rng: rand.New(rand.NewPCG(seed, 1))}
	m.meta.Set("general.architecture", family)
	for key, value := range map[string]uint32{"block_count": layers, "embedding_length": width, "feed_forward_length": hidden,
		"attention.head_count": heads, "attention.head_count_kv": kv, "attention.key_length": dim, "context_length": 4096} {
		m.meta.Set(family+"."+key, value)
	}
	m.meta.Set(family+".attention.layer_norm_rms_epsilon", float32(1e-6))
	for key, value := range keys {
		m.meta.Set(family+"."+key, value)
	}
	return m
}

// Llama is a tiny llama whose matrices are in one format (of blocks of at most 32, or K-quants, which its 128 values a row do not
// fill, but hidden's 256 do: those matrices only).
func Llama(seed uint64, format gguf.Type) *Model {
	m := begin("llama", seed, map[string]any{"rope.freq_base": float32(10000)})
	m.Add("token_embd.weight", narrow(format), Vocab, width)
	m.blocks(format, nil)
	m.Add("output.weight", narrow(format), Vocab, width)
	return m
}

// Gemma3 is a tiny gemma3 with one layer in two that sees everything.
func Gemma3(seed uint64, format gguf.Type) *Model {
	m := begin("gemma3", seed, map[string]any{"rope.freq_base": float32(1e6), "attention.sliding_window": uint32(Window), "attention.sliding_window_pattern": uint32(2)})
	m.Add("token_embd.weight", narrow(format), Vocab, width)
	m.blocks(format, []string{"post_attention_norm", "post_ffw_norm"})
	return m
}

func (m *Model) blocks(format gguf.Type, norms []string) {
	for i := range layers {
		blk := func(name string) string { return fmt.Sprintf("blk.%d.%s.weight", i, name) }
		for _, name := range append([]string{"attn_norm", "ffn_norm"}, norms...) {
			m.Add(blk(name), gguf.F32, width)
		}
		if norms != nil {
			m.Add(blk("attn_q_norm"), gguf.F32, dim)
			m.Add(blk("attn_k_norm"), gguf.F32, dim)
		}
		m.Add(blk("attn_q"), narrow(format), heads*dim, width)
		m.Add(blk("attn_k"), narrow(format), kv*dim, width)
		m.Add(blk("attn_v"), narrow(format), kv*dim, width)
		m.Add(blk("attn_output"), narrow(format), width, heads*dim)
		m.Add(blk("ffn_gate"), narrow(format), hidden, width)
		m.Add(blk("ffn_up"), narrow(format), hidden, width)
		m.Add(blk("ffn_down"), format, width, hidden)
	}
	m.Add("output_norm.weight", gguf.F32, width)
}

// narrow is a format that rows of 128 values can have.
func narrow(t gguf.Type) gguf.Type {
	if values, _ := t.Block(); values > width {
		return gguf.Q5_0
	}
	return t
}
