package hf

import (
	"fmt"
	"slices"
	"strings"

	"memra/gguf"
	"memra/safetensors"
)

// Floats of four bits come two in a byte, the first in the low half. GGUF's blocks of 2n codes have code j low and code j+n high
// in byte j, so each block's nibbles are dealt anew; the codes stay what they are.

// nvfp4 is a matrix in NVIDIA's format: a scale of F8_E4M3 for each 16 codes, and a factor for all, which ModelOpt calls
// weight_scale_2 and compressed-tensors gives as its inverse, weight_global_scale.
func (c *checkpoint) nvfp4(t *safetensors.Tensor, base string, scale *safetensors.Tensor) (weight, error) {
	rows, half, err := rowsOf(t)
	if err != nil {
		return weight{}, err
	}
	if half%32 != 0 {
		return weight{}, fmt.Errorf("rows of %d codes, want a multiple of 64, the block of NVFP4", 2*half)
	}
	if !slices.Equal(scale.Shape, []int{rows, half / 8}) {
		return weight{}, fmt.Errorf("its scales have shape %v, want %v, one for each 16 codes", scale.Shape, []int{rows, half / 8})
	}
	factor, err := c.factor(base+"_scale_2", base+"_global_scale")
	if err != nil {
		return weight{}, err
	}
	module := strings.TrimSuffix(base, ".weight")
	input, err := c.factor(module+".input_scale", module+".input_global_scale")
	if err != nil {
		return weight{}, err
	}
	return weight{gguf.Tensor{Name: base, Type: gguf.NVFP4, Shape: []int{rows, 2 * half}, Make: func() ([]byte, error) {
		out := make([]byte, 0, len(t.Data)+len(scale.Data))
		for in, s := t.Data, scale.Data; len(in) > 0; in, s = in[32:], s[4:] {
			for _, e := range s[:4] {
				if e >= 0x7f {
					return nil, fmt.Errorf("hf: %s: tensor %s: a scale is the byte %#x, which is negative or no number", t.File, clip(t.Name), e)
				}
			}
			out = append(out, s[:4]...)
			for k := 0; k < 32; k += 8 {
				out = deal(out, in[k:k+8])
			}
		}
		t.Drop(0, len(t.Data))
		return out, nil
	}}, factor, input}, nil
}

// factor reads one of two tensors, the factor or its inverse: 1 where neither is there.
func (c *checkpoint) factor(name, inverse string) (float32, error) {
	f := float32(1)
	var err error
	if t := c.take(name); t != nil {
		f, err = scalar(t)
	} else if t := c.take(inverse); t != nil {
		f, err = scalar(t)
		f = 1 / f
	}
	if err == nil && (!(f > 0) || f > 1e30) {
		err = fmt.Errorf("tensor %s: the factor is %v, want a positive number", clip(name), f)
	}
	return f, err
}

// mxfp4 is a matrix in OCP's format: a power of two for each 32 codes, as its exponent plus 127.
func mxfp4(t *safetensors.Tensor, base string, scale *safetensors.Tensor) (weight, error) {
	rows, half, err := rowsOf(t)
	if err != nil {
		return weight{}, err
	}
	if half%16 != 0 {
		return weight{}, fmt.Errorf("rows of %d codes, want a multiple of 32, the block of MXFP4", 2*half)
	}
	if !slices.Equal(scale.Shape, []int{rows, half / 16}) {
		return weight{}, fmt.Errorf("its scales have shape %v, want %v, one for each 32 codes", scale.Shape, []int{rows, half / 16})
	}
	return mxfp4Blocks(t, base, []int{rows, 2 * half}, scale), nil
}

// gptOSS is experts' matrices as gpt-oss has them: NAME_blocks [experts, rows, blocks, 16] beside NAME_scales [experts, rows, blocks].
func (c *checkpoint) gptOSS(t *safetensors.Tensor, base string) (weight, bool, error) {
	scale := c.take(base + "_scales")
	if scale == nil || scale.DType != safetensors.U8 {
		return weight{}, true, fmt.Errorf("blocks without scales: want a tensor %s of U8", clip(base+"_scales"))
	}
	if len(t.Shape) != 4 || t.Shape[3] != 16 || !slices.Equal(scale.Shape, t.Shape[:3]) {
		return weight{}, true, fmt.Errorf("shape %v with scales of %v, want [experts rows blocks 16] with one for each block", t.Shape, scale.Shape)
	}
	return mxfp4Blocks(t, base, []int{t.Shape[0], t.Shape[1], t.Shape[2] * 32}, scale), true, nil
}

func mxfp4Blocks(t *safetensors.Tensor, name string, shape []int, scale *safetensors.Tensor) weight {
	return weight{gguf.Tensor{Name: name, Type: gguf.MXFP4, Shape: shape, Make: func() ([]byte, error) {
		out := make([]byte, 0, len(t.Data)+len(scale.Data))
		for i, e := range scale.Data {
			out = deal(append(out, e), t.Data[16*i:][:16])
		}
		t.Drop(0, len(t.Data))
		return out, nil
	}}, 1, 1}
}

// deal appends the codes of in, two neighbours a byte, as GGUF's block has them: the first half low, the second high.
func deal(out, in []byte) []byte {
	code := func(j int) byte { return in[j/2] >> (j % 2 * 4) & 15 }
	for j := range in {
		out = append(out, code(j)|code(j+len(in))<<4)
	}
	return out
}
