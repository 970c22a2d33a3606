package artefact

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
)

// Kernels reads the entries of a cubin, an ELF file: the parameters of kernel k stand in section .nv.info.k as attributes
//
//	byte  0     1     2        4                                       a parameter (0x17), 12 bytes:
//	      ┌─────┬─────┬────────┬─ ─ ─ ─┐                                4 index of a symbol, 2 ordinal, 2 offset,
//	      │form │ id  │ length │ value │   length only of form 4        4 bits: 18.. size in bytes
//	      └─────┴─────┴────────┴─ ─ ─ ─┘
func Kernels(cubin []byte) ([]Kernel, error) {
	f, err := elf.NewFile(bytes.NewReader(cubin))
	if err != nil {
		return nil, fmt.Errorf("artefact: not a cubin: %w", err)
	}
	var kernels []Kernel
	for _, s := range f.Sections {
		name, ok := strings.CutPrefix(s.Name, ".nv.info.")
		if !ok {
			continue
		}
		data, err := s.Data()
		if err != nil {
			return nil, fmt.Errorf("artefact: section %s: %w", s.Name, err)
		}
		params, err := parameters(data)
		if err != nil {
			return nil, fmt.Errorf("artefact: section %s: %w", s.Name, err)
		}
		kernels = append(kernels, Kernel{Name: name, Params: params})
	}
	slices.SortFunc(kernels, func(a, b Kernel) int { return strings.Compare(a.Name, b.Name) })
	return kernels, nil
}

func parameters(data []byte) ([]int, error) {
	const sized, parameter = 4, 0x17
	sizes := map[int]int{}
	for len(data) >= 4 {
		form, id, n := data[0], data[1], int(binary.LittleEndian.Uint16(data[2:]))
		data = data[4:]
		if form != sized {
			continue
		}
		if n > len(data) {
			return nil, fmt.Errorf("an attribute of %d bytes, %d are left", n, len(data))
		}
		if id == parameter && n == 12 {
			sizes[int(binary.LittleEndian.Uint16(data[4:]))] = int(binary.LittleEndian.Uint32(data[8:]) >> 18)
		}
		data = data[n:]
	}
	params := make([]int, len(sizes))
	for ordinal, size := range sizes {
		if ordinal >= len(params) {
			return nil, fmt.Errorf("parameter %d of %d", ordinal, len(params))
		}
		params[ordinal] = size
	}
	return params, nil
}
