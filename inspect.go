package memra

import (
	"iter"

	"memra/compute/cpu"
	"memra/compute/cuda"
	"memra/gguf"
)

// Info is what a model file says of itself. It can be read of files that no family here can run.
type Info struct {
	Family     string
	Parameters int // values in all tensors
	Bytes      int // of all tensors
	Template   string
	Card       string // of the built-in model alone: BuiltinCard
	Tensors    []TensorInfo

	metadata *gguf.Metadata
}

// TensorInfo is one tensor of a model file.
type TensorInfo struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape []int  `json:"shape"` // slowest first: rows, then the values of a row
	Bytes int    `json:"bytes"`

	// RunsAs says how the processor keeps a matrix whose format it has no kernel for: as a format that loses nothing of it. Empty
	// where it runs as it is.
	RunsAs string `json:"runs_as,omitempty"`

	// RunsAsCUDA says the same of a GPU, which multiplies by F16: it keeps such a matrix rounded to that.
	RunsAsCUDA string `json:"runs_as_cuda,omitempty"`
}

// Metadata yields the file's keys and values, in the file's order.
func (i *Info) Metadata() iter.Seq2[string, any] { return i.metadata.All() }

// Inspect reads what a model file says of itself, without its weights.
func Inspect(path string) (*Info, error) {
	f, err := openFile(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info := &Info{metadata: f.Metadata()}
	info.Family, _ = f.Metadata().String("general.architecture") // a file without it is still worth a look
	info.Template, _ = f.Metadata().String(chatTemplate)
	if path == Builtin {
		info.Card = BuiltinCard()
	}
	for _, t := range f.Tensors() {
		tensor := TensorInfo{Name: t.Name, Type: t.Type.String(), Shape: t.Shape, Bytes: t.Size()}
		if as := cpu.RunsAs(t.Type); as != tensor.Type && len(t.Shape) > 1 {
			tensor.RunsAs = as
		}
		if as := cuda.RunsAs(t.Type); as != tensor.Type && len(t.Shape) > 1 {
			tensor.RunsAsCUDA = as
		}
		info.Tensors = append(info.Tensors, tensor)
		info.Parameters += t.Values()
		info.Bytes += t.Size()
	}
	return info, nil
}
