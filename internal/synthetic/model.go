package synthetic

import (
	"math/rand/v2"

	"memra/gguf"
	"memra/quant"
)

// Model is a model that no file has. It is a model.Source.
type Model struct {
	shape   *shape
	mix     *mix
	tensors []gguf.Tensor        // without data
	blocks  map[gguf.Type][]byte // what all data is a part of; nil: there is none
}

// New makes a model of a shape in a format; Names and Formats list them. Its weights are made when Tensors is first called.
func New(name, format string) (*Model, error) {
	s, mix, err := find(name, format)
	if err != nil {
		return nil, err
	}
	m := &Model{shape: s, mix: mix}
	for _, t := range s.tensors() {
		of := gguf.Tensor{Name: t.name, Type: mix.of(t, s.layers), Shape: t.shape}
		switch t.role {
		case decay:
			of.Make = decays(t.shape[0])
		case divisors:
			of.Make = quarters(t.shape[0])
		}
		m.tensors = append(m.tensors, of)
	}
	return m, nil
}

// Name says what the model is: "Llama-3.1-8B Q4_K_M (synthetic)".
func (m *Model) Name() string { return m.shape.name + " " + m.mix.name + " (synthetic)" }

// Metadata is what a file's would be, without a tokenizer.
func (m *Model) Metadata() *gguf.Metadata { return m.shape.metadata() }

// Release gives the weights up. The next call of Tensors makes the same again.
func (m *Model) Release() {
	m.blocks = nil
	for i := range m.tensors {
		m.tensors[i].Data = nil
	}
}

// Bytes is the size of all tensors.
func (m *Model) Bytes() (n int) {
	for i := range m.tensors {
		n += bytesOf(&m.tensors[i])
	}
	return n
}

// Host is what the process holds of them while they are packed: the largest tensor of each format.
func (m *Model) Host() (n int) {
	for _, bytes := range m.largest() {
		n += bytes
	}
	return n
}

// Parameters is how many values the tensors have.
func (m *Model) Parameters() (n int) {
	for i := range m.tensors {
		n += m.tensors[i].Values()
	}
	return n
}

func bytesOf(t *gguf.Tensor) int {
	values, bytes := t.Type.Block()
	return t.Values() / values * bytes
}

// largest is the size of the largest tensor of each format, and of what its place may be moved by.
func (m *Model) largest() map[gguf.Type]int {
	largest := map[gguf.Type]int{}
	for i := range m.tensors {
		t := &m.tensors[i]
		_, bytes := t.Type.Block()
		largest[t.Type] = max(largest[t.Type], bytesOf(t)+places*bytes)
	}
	return largest
}

// places is how many different beginnings tensors have in the array of their format.
const places = 64

// Tensors makes the weights.
func (m *Model) Tensors() []gguf.Tensor {
	if m.blocks != nil {
		return m.tensors
	}
	m.blocks = map[gguf.Type][]byte{}
	for format, bytes := range m.largest() {
		m.blocks[format] = repeated(pool(format, m.shape.spread()), bytes)
	}
	for i := range m.tensors {
		t := &m.tensors[i]
		_, bytes := t.Type.Block()
		t.Data = m.blocks[t.Type][i%places*bytes:][:bytesOf(t)]
	}
	return m.tensors
}

// pool is random blocks of a format: normal values of a deviation, as the format's own encoder stores them; gains near 1 for F32.
func pool(format gguf.Type, spread float64) []byte {
	const values = 1 << 19
	f, err := quant.For(format)
	if err != nil {
		panic(err) // formats lists what package quant knows
	}
	rng := rand.New(rand.NewPCG(uint64(format), 1))
	v := make([]float32, values)
	for i := range v {
		v[i] = float32(spread * rng.NormFloat64())
		if format == gguf.F32 {
			v[i] = float32(1 + 0.02*rng.NormFloat64())
		}
	}
	data := make([]byte, values/f.Block*f.Bytes)
	f.Quantize(data, v, nil)
	return data
}

// repeated is n bytes of a pool, again and again.
func repeated(pool []byte, n int) []byte {
	data := make([]byte, n)
	for at := copy(data, pool); at < n; at += copy(data[at:], data[:at]) {
	}
	return data
}
