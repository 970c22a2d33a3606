package memra

import (
	"context"
	"errors"

	"memra/gguf"
	"memra/internal/builtin"
)

// SplitOptions say how Split cuts a model file. 0: no limit. The next file begins before a tensor that would exceed one.
type SplitOptions struct {
	MaxBytes   int  // of tensors in a file
	MaxTensors int  // in a file
	DryRun     bool // say what would be written, and write nothing

	// Progress hears how many bytes of tensors of how many are written. Nil: nobody asks.
	Progress func(done, total int)
}

// SplitFile is a file that Split wrote.
type SplitFile struct {
	Path    string `json:"path"`
	Tensors int    `json:"tensors"`
	Bytes   int    `json:"bytes"` // of its tensors
}

// Split writes a GGUF file as a set of smaller ones, PREFIX-00001-of-0000N.gguf and so on. Each works as the name of the whole set.
// Files of the same names are replaced, but never a file of the source.
func Split(ctx context.Context, src, prefix string, o SplitOptions) (files []SplitFile, err error) {
	f, err := builtin.GGUF(src)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	tensors, finish := watched(ctx, f.Tensors, o.Progress)
	parts, err := gguf.Parts(prefix, tensors, gguf.Limits{Bytes: o.MaxBytes, Tensors: o.MaxTensors})
	if err != nil {
		return nil, err
	}
	for _, p := range parts {
		if err := refuse(src, p.Path); err != nil {
			return nil, err
		}
		file := SplitFile{Path: p.Path, Tensors: len(p.Tensors)}
		for _, t := range p.Tensors {
			file.Bytes += t.Size()
		}
		files = append(files, file)
	}
	if o.DryRun {
		return files, nil
	}
	if err := gguf.WriteSet(f.Meta, parts); err != nil {
		return nil, err
	}
	finish()
	return files, nil
}

// Merge writes a split set, or the built-in model, as one GGUF file; src is any file of the set, or Builtin. progress hears how many
// bytes of tensors of how many are written; nil: nobody asks. The file appears under dst whole or not at all, and replaces one that is
// there, but never a file of the set.
func Merge(ctx context.Context, src, dst string, progress func(done, total int)) (err error) {
	if err := refuse(src, dst); err != nil {
		return err
	}
	f, err := builtin.GGUF(src)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	tensors, finish := watched(ctx, f.Tensors, progress)
	if err := gguf.Write(dst, gguf.Whole(f.Meta), tensors); err != nil {
		return err
	}
	finish()
	return nil
}
