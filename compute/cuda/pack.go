package cuda

import (
	"encoding/binary"
	"fmt"
	"math"
	"unsafe"

	"memra/compute"
	"memra/gguf"
	"memra/quant"
)

// layout is a packed form of weights; kernels/layouts.cuh states them.
type layout struct {
	name   string
	bytes  int       // of a tile of 64 outputs x 64 of K
	matmul [3]string // kernels for blocks of 8, 16 and 32 rows
	hopper [5]string // and those of Hopper, for tiles of 8 to 128
}

// piece is how many tiles of K of a strip, 16 outputs of them, are brought at a time: PIECE of kernels/layouts.cuh.
func (l *layout) piece() int {
	if l.bytes/4 < 2048 {
		return 4
	}
	return 2
}

func newLayout(name string, bytes int) *layout {
	l := &layout{name: name, bytes: bytes}
	for i := range l.matmul {
		l.matmul[i] = fmt.Sprintf("matmul_%s_%d", name, 8<<i)
	}
	for i := range l.hopper {
		l.hopper[i] = fmt.Sprintf("matmul_hopper_%s_%d", name, 8<<i)
	}
	return l
}

// The layouts: codes, high bits, scales.
var (
	layoutQ8  = newLayout("q8", 4096+2*32*4)
	layoutQ4  = newLayout("q4", 2048+2*32*4)
	layoutQ4M = newLayout("q4m", 2048+2*32*8)
	layoutQ5  = newLayout("q5", 2048+512+2*32*4)
	layoutQ5M = newLayout("q5m", 2048+512+2*32*8)
	layoutQ6  = newLayout("q6", 2048+1024+4*32*4)
	layoutF16 = newLayout("f16", 8192)
	layoutF32 = &layout{name: "f32"} // float32 rows as they are
)

// sources are the formats that a kernel reads as they lie in a file.
var sources = map[gguf.Type]struct {
	name   string // of kernels
	layout *layout
}{
	gguf.Q8_0: {"q8_0", layoutQ8}, gguf.Q4_0: {"q4_0", layoutQ4}, gguf.Q4_1: {"q4_1", layoutQ4M}, gguf.Q5_0: {"q5_0", layoutQ5},
	gguf.Q5_1: {"q5_1", layoutQ5M}, gguf.Q4_K: {"q4_k", layoutQ4M}, gguf.Q5_K: {"q5_k", layoutQ5M}, gguf.Q6_K: {"q6_k", layoutQ6},
	gguf.F16: {"f16", layoutF16}, gguf.BF16: {"bf16", layoutF16}, gguf.F32: {"f32", layoutF16},
}

// RunsAs names the format that Pack keeps a file's format as: its own where a kernel reads it.
func RunsAs(t gguf.Type) string {
	if _, direct := sources[t]; direct {
		return t.String()
	}
	return gguf.F16.String()
}

// packed is a weight on the device.
type packed struct {
	layout *layout
	n, k   int     // outputs, values of K
	data   pointer // tiles, or the rows of layoutF32
	scales pointer // 2^-e of each output; none for layoutF32
}

func (p *packed) ktiles() int { return ceilDiv(p.k, tileK) }

// Pack makes a weight: the data goes through pinned memory to the device, where kernels repack it. Formats without a kernel of
// their own are dequantised and kept as f16, which is what this class multiplies by in any case. Float32 is kept as f16 where
// that loses nothing, as float32 otherwise. It is safe to call side by side.
func (d *Device) Pack(format gguf.Type, rows, width int, data []byte, done func(from, to int)) (compute.Weight, error) {
	src, err := sourceOf(format, rows, width, data)
	if err != nil {
		return compute.Weight{}, err
	}
	p := &packed{layout: src.layout, n: rows, k: width}
	if format == gguf.F32 && !fitsHalf(data, rows, width) {
		p.layout = layoutF32
	}
	bytes, scales := 4*rows*width, 0
	if p.layout != layoutF32 {
		bytes, scales = p.tileBytes(), 4*rows
	}
	if p.data, p.scales, err = d.room(bytes, scales, "%v weight [%d %d]", format, rows, width); err != nil {
		return compute.Weight{}, err
	}
	if err := d.fill(p, src, data, done); err != nil {
		return compute.Weight{}, err
	}
	return compute.Weight{Rows: rows, Width: width, Format: format.String(), Bytes: bytes + scales, Mem: p}, nil
}

// tileBytes is the size of a weight's tiles.
func (p *packed) tileBytes() int { return ceilDiv(p.n, tileK) * p.ktiles() * p.layout.bytes }

// room takes memory for tiles, or rows, and their scales.
func (d *Device) room(bytes, scales int, what string, args ...any) (data, scale pointer, err error) {
	err = d.owner.do(func() (err error) {
		if data, err = d.alloc(bytes, what, args...); err == nil {
			scale, err = d.alloc(scales, "scales of "+what, args...)
		}
		return err
	})
	return data, scale, err
}

// source is how a weight's data comes to the device: as it lies in the file, or dequantised.
type source struct {
	name      string // of kernels
	layout    *layout
	format    *quant.Format
	direct    bool
	fileBytes int // of a row
	rowBytes  int // of a row on its way
}

func sourceOf(format gguf.Type, rows, width int, data []byte) (source, error) {
	f, err := quant.For(format)
	if err != nil {
		return source{}, fmt.Errorf("cuda: %w", err)
	}
	rowBytes, err := f.RowBytes(width)
	if err != nil {
		return source{}, fmt.Errorf("cuda: %w", err)
	}
	if len(data) != rows*rowBytes {
		return source{}, fmt.Errorf("cuda: %v weight [%d %d] has %d bytes, want %d", format, rows, width, len(data), rows*rowBytes)
	}
	if known, ok := sources[format]; ok {
		return source{known.name, known.layout, f, true, rowBytes, rowBytes}, nil
	}
	return source{sources[gguf.F32].name, layoutF16, f, false, rowBytes, 4 * width}, nil
}

// fill brings the data to a weight that has room. Whole tiles of 64 rows at a time.
func (d *Device) fill(p *packed, src source, data []byte, done func(from, to int)) error {
	rows, width, rowBytes := p.n, p.k, src.rowBytes
	copyRows := func(to []byte, row, n int) { copyParallel(to, data[row*rowBytes:][:n*rowBytes]) }
	if !src.direct {
		copyRows = func(to []byte, row, n int) {
			parallel(n, func(i int) {
				src.format.Dequantize(unsafe.Slice((*float32)(unsafe.Pointer(&to[i*rowBytes])), width), data[(row+i)*src.fileBytes:][:src.fileBytes])
			})
		}
	}
	step := d.stageBytes / (tileK * rowBytes) * tileK
	if step == 0 {
		return fmt.Errorf("cuda: weight [%d %d]: rows of %d bytes, want at most %d", rows, width, rowBytes, d.stageBytes/tileK)
	}
	for row := 0; row < rows; row += step {
		n := min(step, rows-row)
		err := d.upload(n*rowBytes, func(to []byte) { copyRows(to, row, n) }, func(at pointer) error {
			if p.layout == layoutF32 {
				return check(d.driver, d.driver.copyWithin(p.data+pointer(row*rowBytes), at, n*rowBytes, d.stream), "cuMemcpyDtoDAsync(%d bytes)", n*rowBytes)
			}
			to, scale := p.data+pointer(row/tileK*p.ktiles()*p.layout.bytes), p.scales+pointer(4*row)
			return d.launchAll([]launch{
				newLaunch(d.kernel("row_scale_"+src.name), shape{grid: grid(ceilDiv(n, 4), 1), block: 128},
					scale.arg(), at.arg(), i32(n), i32(width), i64(rowBytes)),
				newLaunch(d.kernel("pack_"+src.name), shape{grid: grid(p.ktiles(), ceilDiv(n, tileK)), block: 128},
					to.arg(), at.arg(), scale.arg(), i32(n), i32(width), i64(rowBytes)),
			})
		})
		if err != nil {
			return err
		}
		if done != nil {
			done(row*src.fileBytes, (row+n)*src.fileBytes)
		}
	}
	return nil
}

// fitsHalf reports whether float32 rows are f16 without loss, each scaled as the pack kernels scale it.
func fitsHalf(data []byte, rows, width int) bool {
	for r := range rows {
		row := data[4*r*width:][:4*width]
		var peak float32
		for i := range width {
			peak = max(peak, float32(math.Abs(float64(math.Float32frombits(binary.LittleEndian.Uint32(row[4*i:]))))))
		}
		if peak == 0 {
			continue
		}
		_, e := math.Frexp(float64(peak))
		up := math.Ldexp(1, min(120, 15-e))
		for i := range width {
			v := float32(float64(math.Float32frombits(binary.LittleEndian.Uint32(row[4*i:]))) * up)
			if quant.F16ToF32(quant.F32ToF16(v)) != v {
				return false
			}
		}
	}
	return true
}

// stages is how many pieces of weights may be on their way, stageBytes their size.
const (
	stages     = 4
	stageBytes = 32 << 20
)

// stage is pinned memory and its twin on the device, made when first needed, kept for the next weight.
type stage struct {
	host []byte
	at   pointer
	done handle // event: the twin is free again
}

// upload brings n bytes to the device: fill writes them to pinned memory on the caller's goroutine, so callers side by side read
// their files in parallel; use launches what reads them there.
func (d *Device) upload(n int, fill func([]byte), use func(at pointer) error) error {
	st := <-d.staging
	defer func() { d.staging <- st }()
	err := d.owner.do(func() (err error) {
		if err := d.failed(); err != nil {
			return err
		}
		if st.host != nil {
			return d.broken(check(d.driver, d.driver.eventSynchronize(st.done), "cuEventSynchronize: a weight's upload"))
		}
		if st.host, err = d.hostMemory(d.stageBytes); err != nil {
			return err
		}
		var s status
		if st.done, s = d.driver.eventCreate(); s != success {
			return check(d.driver, s, "cuEventCreate")
		}
		st.at, err = d.alloc(d.stageBytes, "staging of weights")
		return err
	})
	if err != nil {
		return err
	}
	fill(st.host[:n])
	return d.owner.do(func() error {
		err := check(d.driver, d.driver.copyIn(st.at, unsafe.Pointer(&st.host[0]), n, d.stream), "cuMemcpyHtoDAsync(%d bytes)", n)
		if err == nil {
			err = use(st.at)
		}
		if err == nil {
			err = check(d.driver, d.driver.eventRecord(st.done, d.stream), "cuEventRecord")
		}
		return d.broken(err)
	})
}

// copyParallel copies on several threads: one does not saturate memory, nor page faults of a mapped file.
func copyParallel(to, from []byte) {
	const piece = 1 << 20
	parallel(ceilDiv(len(from), piece), func(i int) {
		end := min(len(from), (i+1)*piece)
		copy(to[i*piece:end], from[i*piece:end])
	})
}

// vector is a float32 vector on the device. headroom is the power of two by which a norm with this gain stays within f16: no
// normalised value exceeds sqrt(width).
type vector struct {
	at       pointer
	headroom float32
}

// Vector keeps a copy of the values. A failure comes back from the next Run.
func (d *Device) Vector(values []float32) compute.Vector {
	v := &vector{headroom: 1}
	peak := 0.0
	for _, x := range values {
		peak = max(peak, math.Abs(float64(x))) // a NaN stays out
	}
	for peak*math.Sqrt(float64(len(values)))*float64(v.headroom) > 32768 {
		v.headroom /= 2
	}
	bytes := 4 * len(values)
	var err error
	if bytes > d.stageBytes {
		err = fmt.Errorf("cuda: a vector of %d values, want at most %d", len(values), d.stageBytes/4)
	} else if bytes > 0 {
		err = d.owner.do(func() (err error) {
			v.at, err = d.alloc(bytes, "a vector of %d values", len(values))
			return err
		})
		if err == nil {
			err = d.upload(bytes, func(to []byte) {
				copy(unsafe.Slice((*float32)(unsafe.Pointer(&to[0])), len(values)), values)
			}, func(at pointer) error {
				return check(d.driver, d.driver.copyWithin(v.at, at, bytes, d.stream), "cuMemcpyDtoDAsync(%d bytes)", bytes)
			})
		}
	}
	if err != nil {
		d.owner.do(func() error {
			if d.fault == nil {
				d.fault = err
			}
			return nil
		})
	}
	return compute.Vector{Width: len(values), Mem: v}
}
