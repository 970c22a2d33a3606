package memra

import (
	"context"
	"errors"
	"sync/atomic"

	"memra/hf"
	"memra/quantize"
)

// QuantizeOptions say what Quantize makes of a file. Type is needed; the zero value of all else is right for most uses.
type QuantizeOptions struct {
	Type       string                // one of QuantizeTypes
	Pure       bool                  // one format for all matrices, without the rules that give some of them more bits
	Requantize bool                  // also matrices that are quantised already, which costs quality
	Tensors    []string              // "attn_v=q8_0": formats of matrices whose names match; the first that matches counts
	Importance string                // a file of llama-imatrix; empty: all columns of a matrix count alike
	Threads    int                   // that encode; 0: one a processor. The bytes do not depend on it
	DryRun     bool                  // say what would be written, and write nothing
	Progress   func(done, total int) // told, from any goroutine, how many values are done; nil: nobody asks
}

// Quantized is what Quantize wrote.
type Quantized struct {
	Values    int               `json:"values"`
	FromBytes int               `json:"from_bytes"` // of tensor data in the source
	Bytes     int               `json:"bytes"`      // and in what was written
	Tensors   []QuantizedTensor `json:"tensors"`
}

// QuantizedTensor is what became of a tensor.
type QuantizedTensor struct {
	Name   string `json:"name"`
	Shape  []int  `json:"shape"` // slowest first
	From   string `json:"from"`
	Type   string `json:"type"`
	Wanted string `json:"wanted,omitempty"` // what the rules say, where rows are no whole blocks of it
	Bytes  int    `json:"bytes"`
}

// QuantizeTypes lists the types that Quantize knows, the largest files first. Q3_K, Q4_K and Q5_K mean the middle one of theirs.
func QuantizeTypes() []string { return quantize.Mixes() }

// Quantize writes a model file, or a Hugging Face folder, as a GGUF file with smaller numbers, choosing formats as llama.cpp's
// llama-quantize does. The file appears under dst whole or not at all, and replaces one that is there, but never a file of the source.
func Quantize(ctx context.Context, src, dst string, o QuantizeOptions) (_ *Quantized, err error) {
	with := quantize.Options{Mix: o.Type, Pure: o.Pure, Requantize: o.Requantize, Threads: o.Threads}
	for _, text := range o.Tensors {
		over, err := quantize.ParseOverride(text)
		if err != nil {
			return nil, err
		}
		with.Overrides = append(with.Overrides, over)
	}
	if o.Importance != "" {
		if with.Importance, err = quantize.ReadImportance(o.Importance); err != nil {
			return nil, err
		}
	}
	if err := refuse(src, dst); err != nil {
		return nil, err
	}
	f, err := openFile(src)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if folder, ok := f.(*hf.Folder); ok {
		if err := folder.Vocabulary(); err != nil {
			return nil, err // a file without it would be no model
		}
	}
	plan, err := quantize.Plan(f, with)
	if err != nil {
		return nil, err
	}
	result := new(Quantized)
	for _, c := range plan {
		t := QuantizedTensor{Name: c.Tensor.Name, Shape: c.Tensor.Shape, From: c.Tensor.Type.String(), Type: c.Type.String()}
		if c.Wanted != c.Type {
			t.Wanted = c.Wanted.String()
		}
		size, as := c.Tensor.Size(), *c.Tensor
		as.Type = c.Type
		t.Bytes = as.Size()
		result.Values += c.Tensor.Values()
		result.FromBytes += size
		result.Bytes += t.Bytes
		result.Tensors = append(result.Tensors, t)
	}
	if o.DryRun {
		return result, nil
	}
	if o.Progress != nil {
		var done atomic.Int64
		with.Progress = func(values int) { o.Progress(int(done.Add(int64(values))), result.Values) }
	}
	return result, quantize.Write(ctx, f, dst, with)
}
