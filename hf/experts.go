package hf

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"memra/gguf"
)

// Experts' matrices are one tensor of three dimensions in GGUF. Folders have a tensor for each expert, which become its Parts, or
// gate and up of all experts in one, which becomes two. Either way a matrix is made when it is asked for, and not the whole.

// stack is the matrices of experts on their way to one tensor.
type stack struct {
	name  string
	from  string // a tensor of it, for messages
	parts map[int]weight
}

// expertOf cuts the number of an expert out of a tensor's name: "mlp.experts.7.up_proj" is "mlp.experts.*.up_proj" and 7.
func expertOf(part string) (string, int) {
	before, rest, ok := strings.Cut(part, "experts.")
	number, after, dot := strings.Cut(rest, ".")
	e, err := strconv.Atoi(number)
	if !ok || !dot || err != nil || strconv.Itoa(e) != number {
		return part, -1
	}
	return before + "experts.*." + after, e
}

// joined is the stack as a tensor.
func (s *stack) joined() (gguf.Tensor, error) {
	var parts []gguf.Tensor
	for e := range len(s.parts) {
		p, ok := s.parts[e]
		if !ok {
			return gguf.Tensor{}, fmt.Errorf("expert %d of %d is missing", e, len(s.parts)+1)
		}
		if p.factor != 1 || p.input != 1 {
			return gguf.Tensor{}, fmt.Errorf("expert %d has a scale for the whole matrix (NVFP4), which experts cannot have here", e)
		}
		if first := s.parts[0]; p.Type != first.Type || !slices.Equal(p.Shape, first.Shape) {
			return gguf.Tensor{}, fmt.Errorf("expert %d is %s %v, want %s %v like expert 0", e, p.Type, p.Shape, first.Type, first.Shape)
		}
		parts = append(parts, p.Tensor)
	}
	return joined(s.name, parts), nil
}

// joined is matrices of one type and shape as a tensor.
func joined(name string, parts []gguf.Tensor) gguf.Tensor {
	return gguf.Tensor{Name: name, Type: parts[0].Type, Shape: append([]int{len(parts)}, parts[0].Shape...), Parts: parts, Make: func() ([]byte, error) {
		var out []byte
		for i := range parts {
			data, err := parts[i].Bytes()
			if err != nil {
				return nil, err
			}
			if out == nil {
				out = make([]byte, 0, len(data)*len(parts))
			}
			out = append(out, data...)
			parts[i].Release(0, len(data))
		}
		return out, nil
	}}
}

// cut is a tensor [experts, rows, ...] of w's expert by expert, each made by `make` of its data.
func cut(w weight, name string, shape []int, make func(data []byte) []byte) weight {
	source := w.Tensor
	if len(shape) == 1 { // a bias: small
		w.Name, w.Shape, w.Drop = name, []int{w.Shape[0], shape[0]}, nil
		w.Make = func() ([]byte, error) {
			return eachOf(&source, make)
		}
		return w
	}
	parts := slices.Repeat([]gguf.Tensor{{Type: w.Type, Shape: shape}}, w.Shape[0])
	for e := range parts {
		parts[e].Make = func() ([]byte, error) {
			if source.Parts != nil {
				data, err := source.Parts[e].Bytes()
				return make(data), err
			}
			data, err := source.Bytes()
			if err != nil {
				return nil, err
			}
			size := len(data) / source.Shape[0]
			return make(data[e*size:][:size]), nil
		}
	}
	w.Tensor = joined(name, parts)
	return w
}

func eachOf(t *gguf.Tensor, make func(data []byte) []byte) (out []byte, err error) {
	data, err := t.Bytes()
	if err != nil {
		return nil, err
	}
	size := len(data) / t.Shape[0]
	for e := range t.Shape[0] {
		out = append(out, make(data[e*size:][:size])...)
	}
	return out, nil
}

// fusedHalves names what folders have as NAME.gate_up_proj [experts, 2*hidden, width], gates before ups, and NAME.down_proj.
func fusedHalves(w weight) []weight {
	switch name := w.Name; {
	case strings.HasSuffix(name, "experts.gate_up_proj") && len(w.Shape) == 3 && w.Shape[1]%2 == 0:
		stem, shape := strings.TrimSuffix(name, "gate_up_proj"), []int{w.Shape[1] / 2, w.Shape[2]}
		return []weight{
			cut(w, stem+"gate_proj.weight", shape, func(data []byte) []byte { return data[:len(data)/2] }),
			cut(w, stem+"up_proj.weight", shape, func(data []byte) []byte { return data[len(data)/2:] }),
		}
	case strings.HasSuffix(name, "experts.down_proj"):
		w.Name += ".weight"
	}
	return []weight{w}
}

// fusedGPTOSS names gpt-oss's tensors: gate and up are every other row of gate_up_proj, which has its rows as columns where it holds
// floats, as has down_proj.
func fusedGPTOSS(w weight) []weight {
	stem, part := w.Name, ""
	if at := strings.LastIndex(w.Name, "."); at >= 0 {
		stem, part = w.Name[:at+1], w.Name[at+1:]
	}
	_, size := w.Type.Block()
	floats := w.Type == gguf.F32 || w.Type == gguf.F16 || w.Type == gguf.BF16
	switch {
	case part == "gate_up_proj" && len(w.Shape) == 3:
		rows, width := w.Shape[1]/2, w.Shape[2]
		take := func(odd int) func([]byte) []byte {
			return func(data []byte) []byte { return everyOther(data, len(data)/(2*rows), odd) }
		}
		if floats {
			rows, width = w.Shape[2]/2, w.Shape[1]
			take = func(odd int) func([]byte) []byte {
				return func(data []byte) []byte {
					return everyOther(transposed(data, w.Shape[1], w.Shape[2], size), size*width, odd)
				}
			}
		}
		return []weight{cut(w, stem+"gate_proj.weight", []int{rows, width}, take(0)), cut(w, stem+"up_proj.weight", []int{rows, width}, take(1))}
	case part == "gate_up_proj_bias" && len(w.Shape) == 2:
		take := func(odd int) func([]byte) []byte {
			return func(data []byte) []byte { return everyOther(data, size, odd) }
		}
		return []weight{cut(w, stem+"gate_proj.bias", []int{w.Shape[1] / 2}, take(0)), cut(w, stem+"up_proj.bias", []int{w.Shape[1] / 2}, take(1))}
	case part == "down_proj" && len(w.Shape) == 3:
		if floats {
			return []weight{cut(w, w.Name+".weight", []int{w.Shape[2], w.Shape[1]}, func(data []byte) []byte {
				return transposed(data, w.Shape[1], w.Shape[2], size)
			})}
		}
		w.Name += ".weight"
	case part == "down_proj_bias":
		w.Name = stem + "down_proj.bias"
	}
	return []weight{w}
}

// everyOther is the pieces of a size at even places, or at odd ones.
func everyOther(data []byte, size, odd int) []byte {
	out := make([]byte, 0, len(data)/2)
	for at := odd * size; at < len(data); at += 2 * size {
		out = append(out, data[at:at+size]...)
	}
	return out
}

// transposed is a matrix of values of a size, column after column.
func transposed(data []byte, rows, columns, size int) []byte {
	out := make([]byte, 0, len(data))
	for c := range columns {
		for r := range rows {
			out = append(out, data[(r*columns+c)*size:][:size]...)
		}
	}
	return out
}
