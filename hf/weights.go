package hf

import (
	"fmt"
	"slices"
	"strings"

	"memra/gguf"
	"memra/safetensors"
)

// weight is a tensor as a model means it: one array of numbers, however many tensors of the checkpoint spell it.
type weight struct {
	gguf.Tensor         // under its Hugging Face name; shape and data as GGUF has them
	factor      float32 // of all values, kept apart (NVFP4); 1 for all others
	input       float32 // a factor for inputs that are quantised likewise (NVFP4); 1 for all others
}

// unused are the ends of names that say how activations, and keys and values in a cache, were quantised.
var unused = []string{".input_scale", ".input_global_scale", ".input_activation_scale", ".activation_scale", ".k_scale", ".v_scale",
	".q_scale", ".output_scale", ".prob_output_scale"}

// checkpoint is a folder's tensors on their way to weights.
type checkpoint struct {
	file   *safetensors.File
	block  [2]int // rows and values of a row that share a scale, where scales are a grid
	taken  map[string]bool
	faults *[]error
}

// readWeights joins codes and scales. skip says which tensors are not the model's.
func readWeights(file *safetensors.File, config object, skip func(name string) bool) []weight {
	c := &checkpoint{file: file, block: [2]int{128, 128}, taken: map[string]bool{}, faults: config.faults}
	c.method(config)
	var out []weight
	var rest []*safetensors.Tensor
	for i := range file.Tensors {
		t := &file.Tensors[i]
		if skip(t.Name) {
			continue
		}
		w, ok, err := c.weight(t)
		switch {
		case err != nil:
			c.fail(t, err)
		case ok:
			out = append(out, w)
		default:
			rest = append(rest, t)
		}
	}
	for _, t := range rest {
		known := slices.ContainsFunc(unused, func(end string) bool { return strings.HasSuffix(t.Name, end) })
		if !known && !c.taken[t.Name] {
			c.fail(t, fmt.Errorf("found %s %v, want a float tensor, or codes with the scales that belong to them", t.DType, t.Shape))
		}
	}
	return out
}

func (c *checkpoint) fail(t *safetensors.Tensor, err error) {
	*c.faults = append(*c.faults, fmt.Errorf("hf: %s: tensor %s: %w", t.File, clip(t.Name), err))
}

// method reads quantization_config, and refuses what is not read here by name.
func (c *checkpoint) method(config object) {
	q := config.object("quantization_config")
	if q.value == nil {
		return
	}
	switch method := q.text("quant_method", ""); method {
	case "", "fp8", "fbgemm_fp8", "compressed-tensors", "modelopt", "mxfp4":
	default:
		q.fail("quant_method", "found %q, want fp8, fbgemm_fp8, compressed-tensors, modelopt or mxfp4", clip(method))
	}
	if size := q.ints("weight_block_size"); size != nil {
		c.setBlock(q, "weight_block_size", size)
	}
	for name := range q.object("config_groups").value {
		weights := q.object("config_groups").object(name).object("weights")
		if size := weights.ints("block_structure"); size != nil {
			c.setBlock(weights, "block_structure", size)
		}
	}
}

func (c *checkpoint) setBlock(o object, key string, size []int) {
	if len(size) != 2 || size[0] < 1 || size[1] < 1 {
		o.fail(key, "found %v, want two positive integers", size)
		return
	}
	c.block = [2]int(size)
}

// weight makes the weight that t is the codes of. It returns false where t is part of another tensor's weight, or of none.
func (c *checkpoint) weight(t *safetensors.Tensor) (weight, bool, error) {
	if base, ok := strings.CutSuffix(t.Name, "_blocks"); ok && t.DType == safetensors.U8 {
		return c.gptOSS(t, base)
	}
	base, packed := strings.CutSuffix(t.Name, "_packed")
	if !packed && !strings.HasSuffix(t.Name, ".weight") && !isFloat(t.DType) {
		return weight{}, false, nil
	}
	scale := c.take(base+"_scale", base+"_scale_inv")
	switch {
	case scale == nil && isFloat(t.DType) && (!isScale(t.Name)):
		return plain(t), true, nil
	case scale == nil:
		return weight{}, false, nil
	case t.DType == safetensors.F8E4M3 || t.DType == safetensors.F8E5M2 || t.DType == safetensors.I8:
		w, err := c.scaled(t, scale)
		return w, true, err
	case t.DType == safetensors.U8 && scale.DType == safetensors.F8E4M3:
		w, err := c.nvfp4(t, base, scale)
		return w, true, err
	case t.DType == safetensors.U8 && (scale.DType == safetensors.U8 || scale.DType == safetensors.F8E8M0):
		w, err := mxfp4(t, base, scale)
		return w, true, err
	}
	return weight{}, true, fmt.Errorf("found %s with scales of %s, want FP8 or I8 with float scales, or U8 with scales of F8_E4M3 (NVFP4) or U8 (MXFP4)", t.DType, scale.DType)
}

// take returns the first of the tensors that is there, and notes that it is used.
func (c *checkpoint) take(names ...string) *safetensors.Tensor {
	for _, name := range names {
		if t, ok := c.file.Tensor(name); ok {
			c.taken[name] = true
			return t
		}
	}
	return nil
}

func isFloat(t safetensors.DType) bool { _, ok := floatTypes[t]; return ok }

// floatTypes are the types that GGUF has as well.
var floatTypes = map[safetensors.DType]gguf.Type{safetensors.F32: gguf.F32, safetensors.F16: gguf.F16, safetensors.BF16: gguf.BF16}

// isScale reports whether a float tensor is another's scale.
func isScale(name string) bool {
	for _, end := range append([]string{".weight_scale", ".weight_scale_inv", ".weight_scale_2", ".weight_global_scale"}, unused...) {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
}

// plain is a tensor of floats as it stands.
func plain(t *safetensors.Tensor) weight {
	return weight{gguf.Tensor{Name: t.Name, Type: floatTypes[t.DType], Shape: t.Shape, Data: t.Data, Drop: t.Drop}, 1, 1}
}

// rowsOf returns a matrix's rows and values of a row, in storage units.
func rowsOf(t *safetensors.Tensor) (rows, width int, err error) {
	if len(t.Shape) != 2 {
		return 0, 0, fmt.Errorf("shape %v, want a matrix", t.Shape)
	}
	return t.Shape[0], t.Shape[1], nil
}
