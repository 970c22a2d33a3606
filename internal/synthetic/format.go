package synthetic

import (
	"fmt"
	"strings"

	"memra/gguf"
)

// mix says which format each tensor of a file gets.
type mix struct {
	name string
	base gguf.Type // of most matrices
	more gguf.Type // of the output matrix, and of values and ends of gated layers in some layers; base where a file has one format
}

// formats are the mixes, by the names that files carry. Those that end in _M are llama.cpp's.
var formats = []mix{
	{"Q8_0", gguf.Q8_0, gguf.Q8_0},
	{"Q4_K_M", gguf.Q4_K, gguf.Q6_K},
	{"Q5_K_M", gguf.Q5_K, gguf.Q6_K},
	{"Q6_K", gguf.Q6_K, gguf.Q6_K},
	{"Q4_0", gguf.Q4_0, gguf.Q4_0},
	{"Q4_1", gguf.Q4_1, gguf.Q4_1},
	{"Q5_0", gguf.Q5_0, gguf.Q5_0},
	{"Q5_1", gguf.Q5_1, gguf.Q5_1},
	{"BF16", gguf.BF16, gguf.BF16},
	{"F16", gguf.F16, gguf.F16},
	{mxfp4, gguf.Q8_0, gguf.Q8_0},
}

// mxfp4 is gpt-oss's own mix: its experts are in MXFP4.
const mxfp4 = "MXFP4"

// of is the format of a tensor in a model of so many layers.
func (m *mix) of(t tensor, layers int) gguf.Type {
	format := m.base
	switch t.role {
	case gain, decay, divisors:
		return gguf.F32
	case kept:
		return gguf.BF16
	case expert:
		if m.name == mxfp4 {
			return gguf.MXFP4
		}
	case output:
		format = m.more
	case value, down:
		if precise(t.layer, layers) {
			format = m.more
		}
	}
	return fitting(format, t.shape[len(t.shape)-1])
}

// precise reports whether a layer of a mix gets the larger format: the first eighth, the last, and each third between.
func precise(layer, layers int) bool {
	eighth := layers / 8
	return layer < eighth || layer >= 7*layers/8 || (layer-eighth)%3 == 2
}

// fitting replaces formats whose blocks of 256 do not fill a row by formats with blocks of 32 of about the same size, as
// llama.cpp does.
func fitting(t gguf.Type, width int) gguf.Type {
	if values, _ := t.Block(); width%values == 0 {
		return t
	}
	switch t {
	case gguf.Q4_K:
		return gguf.Q5_0
	case gguf.Q5_K:
		return gguf.Q5_1
	}
	return gguf.Q8_0
}

// Names lists the shapes; Formats the formats.
func Names() (names []string) {
	for i := range shapes {
		names = append(names, shapes[i].name)
	}
	return names
}

// Formats lists the formats that weights can be made in.
func Formats() (names []string) {
	for i := range formats {
		names = append(names, formats[i].name)
	}
	return names
}

// find looks a shape and a format up, whatever the case of their names.
func find(name, format string) (s *shape, m *mix, err error) {
	for i := range shapes {
		if strings.EqualFold(shapes[i].name, name) {
			s = &shapes[i]
		}
	}
	for i := range formats {
		if strings.EqualFold(formats[i].name, format) {
			m = &formats[i]
		}
	}
	switch {
	case s == nil:
		return nil, nil, fmt.Errorf("synthetic: model %q, want one of %s", name, strings.Join(Names(), ", "))
	case m == nil:
		return nil, nil, fmt.Errorf("synthetic: format %q, want one of %s", format, strings.Join(Formats(), ", "))
	}
	return s, m, nil
}
