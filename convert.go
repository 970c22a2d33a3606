package memra

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"memra/gguf"
	"memra/hf"
	"memra/quant"
)

// ConvertOptions say how a folder becomes a GGUF file. The zero value loses nothing.
type ConvertOptions struct {
	// Type is the format of matrices: "auto", the default, keeps each as it is; "f32", "f16" and "bf16" round those that are
	// floats. Vectors are always F32, and matrices of 4-bit floats stay what they are.
	Type string

	// Progress hears how many bytes of tensors of how many are written. Nil: nobody asks.
	Progress func(done, total int)
}

// convertTypes are the formats that Convert can write matrices in.
var convertTypes = map[string]gguf.Type{"f32": gguf.F32, "f16": gguf.F16, "bf16": gguf.BF16}

// Convert writes a Hugging Face folder as a GGUF file, with the names, layouts and keys of llama.cpp. The file appears under
// path whole or not at all, and replaces one that is there.
func Convert(ctx context.Context, folder, path string, o ConvertOptions) error {
	target, rounded := convertTypes[o.Type]
	if !rounded && o.Type != "" && o.Type != "auto" {
		return fmt.Errorf("memra: convert to the type %q, want auto, f32, f16 or bf16", o.Type)
	}
	if info, err := os.Stat(folder); err == nil && !info.IsDir() {
		return fmt.Errorf("memra: %s: is a file, want a Hugging Face model folder", folder)
	}
	if err := refuse(folder, path); err != nil {
		return err
	}
	f, err := hf.Open(folder)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := f.Vocabulary(); err != nil {
		return err
	}
	tensors := slices.Clone(f.Tensors())
	for i := range tensors {
		if t := &tensors[i]; rounded && len(t.Shape) > 1 && isFloat(t.Type) && t.Type != target {
			*t = round(*t, target)
		}
	}
	tensors, finish := watched(ctx, tensors, o.Progress)
	meta := f.Metadata()
	meta.Set("general.file_type", fileType(tensors))
	meta.Set("general.quantization_version", uint32(2))
	if err := gguf.Write(path, meta, tensors); err != nil {
		return err
	}
	finish()
	return nil
}

// watched returns the tensors such that progress is told, as each one's turn comes to be written, how many bytes of how many are done,
// that the end of ctx ends the writing, and that pages go once they were written. finish tells progress that all is done.
func watched(ctx context.Context, tensors []gguf.Tensor, progress func(done, total int)) (_ []gguf.Tensor, finish func()) {
	if progress == nil {
		progress = func(int, int) {}
	}
	done, total := 0, 0
	for i := range tensors {
		total += tensors[i].Size()
	}
	out, written := slices.Clone(tensors), func() {}
	for i, t := range tensors {
		out[i].Data, out[i].Drop = nil, nil
		out[i].Make = func() ([]byte, error) { // when the last one is written
			written()
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			progress(done, total)
			done += t.Size()
			written = func() { t.Release(0, len(t.Data)) }
			return t.Bytes()
		}
	}
	return out, func() { progress(total, total) }
}

func isFloat(t gguf.Type) bool { return t == gguf.F32 || t == gguf.F16 || t == gguf.BF16 }

// round is a tensor of floats in another of their formats.
func round(t gguf.Tensor, target gguf.Type) gguf.Tensor {
	return gguf.Tensor{Name: t.Name, Type: target, Shape: t.Shape, Make: func() ([]byte, error) {
		from, err := quant.For(t.Type)
		if err != nil {
			return nil, err
		}
		data, err := t.Bytes()
		if err != nil {
			return nil, err
		}
		_, size := target.Block()
		out := make([]byte, 0, t.Values()*size)
		var values [4096]float32
		for at := 0; at < len(data); at += len(values) * from.Bytes {
			piece := data[at:min(len(data), at+len(values)*from.Bytes)]
			v := values[:len(piece)/from.Bytes]
			from.Dequantize(v, piece)
			for _, x := range v {
				switch target {
				case gguf.F32:
					out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
				case gguf.F16:
					out = binary.LittleEndian.AppendUint16(out, quant.F32ToF16(x))
				default:
					out = binary.LittleEndian.AppendUint16(out, quant.F32ToBF16(x))
				}
			}
		}
		t.Release(0, len(t.Data))
		return out, nil
	}}
}

// fileType is llama.cpp's number for what most matrices are.
func fileType(tensors []gguf.Tensor) uint32 {
	numbers := map[gguf.Type]uint32{gguf.F32: 0, gguf.F16: 1, gguf.BF16: 32, gguf.MXFP4: 38, gguf.NVFP4: 39}
	values := map[gguf.Type]int{}
	most := gguf.F32
	for i := range tensors {
		t := &tensors[i]
		if len(t.Shape) < 2 || strings.HasPrefix(t.Name, "token_embd") || strings.HasPrefix(t.Name, "output") {
			continue
		}
		if values[t.Type] += t.Values(); values[t.Type] > values[most] {
			most = t.Type
		}
	}
	return numbers[most]
}
