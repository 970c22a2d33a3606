package cpu

import (
	"fmt"
	"sync"
	"sync/atomic"

	"memra/compute"
	"memra/gguf"
	"memra/quant"
)

// group is how many output rows a packed weight interleaves: the lanes of one AVX-512 register, of two AVX ones.
const group = 16

// layout is a packed form of weights: how one block of K of a group of 16 outputs lies in memory.
//
// Quantised layouts keep the source's integers and scales exactly, so a packed weight holds no more and no less than its
// file. The integers of four consecutive k of 16 outputs form a vector of 64 bytes, byte 4*o+i for output o and k+i: the
// operand of a dot product instruction. Eight vectors make a block of 32 k; nibbles put vector p in the low halves and
// vector p+4 in the high halves of 64 bytes.
type layout struct {
	name   string
	step   int                                       // values of K in a packed block
	float  bool                                      // activations are taken as they are, not quantised
	bytes  int                                       // of a packed block of 16 outputs
	pack   func(dst, row []byte, lane int)           // a row of the layout's own format, into one output of a group of zeros
	unpack func(dst []float32, src []byte, lane int) // one block of one output
}

// packed is a weight in memory: groups of 16 outputs, each a run of blocks over K.
type packed struct {
	layout *layout
	n, k   int // outputs, values of K
	blocks int // along K
	data   []byte

	longest  float64 // length of the longest row, of so many groups
	measured int     // step.measure
}

// groupBytes is the size of one group of outputs over all of K.
func (p *packed) groupBytes() int { return p.blocks * p.layout.bytes }

// group is the blocks of outputs 16g to 16g+15.
func (p *packed) group(g int) []byte { return p.data[g*p.groupBytes():][:p.groupBytes()] }

// row dequantises output row o, exactly as package quant does.
func (p *packed) row(dst []float32, o int) {
	l, blocks := p.layout, p.group(o/group)
	for b := range p.blocks {
		l.unpack(dst[b*l.step:(b+1)*l.step], blocks[b*l.bytes:][:l.bytes], o%group)
	}
}

// layouts is every packed form.
var layouts = []*layout{layoutQ8, layoutQ4, layoutQ4M, layoutQ5, layoutQ5M, layoutK2, layoutK4, layoutK5, layoutK6, layoutK8, layoutF16, layoutBF16, layoutF32}

// Pack makes a weight. It is safe to call side by side.
func (d *Device) Pack(format gguf.Type, rows, width int, data []byte, done func(from, to int)) (compute.Weight, error) {
	p, err := d.pack(format, rows, width, data, done)
	if err != nil {
		return compute.Weight{}, err
	}
	return compute.Weight{Rows: rows, Width: width, Format: format.String(), Bytes: len(p.data), Mem: p}, nil
}

// PackExperts makes a weight of many: each expert's is packed as it were by Pack, so in formats whose layout the data decides they may
// differ. It is safe to call side by side.
func (d *Device) PackExperts(format gguf.Type, experts, rows, width int, expert func(e int) ([]byte, func(), error)) (compute.Weight, error) {
	all, bytes := make([]*packed, experts), 0
	for e := range all {
		data, done, err := expert(e)
		if err == nil {
			all[e], err = d.pack(format, rows, width, data, nil)
		}
		if err != nil {
			return compute.Weight{}, fmt.Errorf("expert %d: %w", e, err)
		}
		if done != nil {
			done()
		}
		bytes += len(all[e].data)
	}
	return compute.Weight{Experts: experts, Rows: rows, Width: width, Format: format.String(), Bytes: bytes, Mem: all}, nil
}

// pack makes one matrix.
func (d *Device) pack(format gguf.Type, rows, width int, data []byte, done func(from, to int)) (*packed, error) {
	f, err := quant.For(format)
	if err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	rowBytes, err := f.RowBytes(width)
	if err != nil {
		return nil, fmt.Errorf("cpu: %w", err)
	}
	if len(data) != rows*rowBytes {
		return nil, fmt.Errorf("cpu: %v weight [%d %d] has %d bytes, want %d", format, rows, width, len(data), rows*rowBytes)
	}
	s := sourceOf(format, data)
	l := s.layout
	p := &packed{layout: l, n: rows, k: width, blocks: width / l.step}
	if p.data, err = d.memory(ceilDiv(rows, group) * p.groupBytes()); err != nil {
		return nil, err
	}
	d.eachGroups(ceilDiv(rows, group), func(from, to int) {
		for g := from; g < to; g++ {
			for o := range min(group, rows-g*group) {
				s.pack(p.group(g), data[(g*group+o)*rowBytes:][:rowBytes], o)
			}
		}
		if done != nil {
			done(from*group*rowBytes, min(rows, to*group)*rowBytes)
		}
	})
	return p, nil
}

// eachGroups runs work for all groups [0, groups), some at a time, on as many goroutines as the device has threads. It leaves the pool alone, whose
// work comes from one goroutine at a time.
func (d *Device) eachGroups(groups int, work func(from, to int)) {
	const perPiece = 64
	var next atomic.Int64
	var done sync.WaitGroup
	for range min(d.pool.threads, ceilDiv(groups, perPiece)) {
		done.Go(func() {
			for {
				to := int(next.Add(perPiece))
				if to-perPiece >= groups {
					return
				}
				work(to-perPiece, min(to, groups))
			}
		})
	}
	done.Wait()
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
