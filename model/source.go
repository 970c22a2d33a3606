package model

import "memra/gguf"

// Source is a model file, whatever its format: metadata under GGUF's keys, tensors under GGUF's names, shapes slowest first.
type Source interface {
	Name() string // for errors: the file
	Metadata() *gguf.Metadata
	Tensors() []gguf.Tensor
	Release() // tells the system that the tensors' pages are not needed for now
}

// GGUF is a GGUF file as a source.
func GGUF(f *gguf.File) Source { return ggufSource{f} }

type ggufSource struct{ *gguf.File }

func (s ggufSource) Name() string             { return s.Path }
func (s ggufSource) Metadata() *gguf.Metadata { return s.Meta }
func (s ggufSource) Tensors() []gguf.Tensor   { return s.File.Tensors }
