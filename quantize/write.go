package quantize

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"

	"memra/gguf"
	"memra/model"
	"memra/quant"
)

// Write writes the file that Plan describes. dst may be there, and is replaced: it must not be a file that the source is read from.
func Write(ctx context.Context, src model.Source, dst string, o Options) error {
	plan, err := Plan(src, o)
	if err != nil {
		return err
	}
	m, err := mixOf(o.Mix)
	if err != nil {
		return err
	}
	tensors := make([]gguf.Tensor, len(plan))
	for i, c := range plan {
		tensors[i] = *c.Tensor
		if c.Type == c.Tensor.Type {
			tensors[i].Make = func() ([]byte, error) {
				data, err := c.Tensor.Bytes()
				o.progress(c.Tensor.Values())
				return data, errors.Join(err, ctx.Err())
			}
			continue
		}
		importance, err := o.Importance.of(c.Tensor)
		if err != nil {
			return err
		}
		tensors[i].Type, tensors[i].Data = c.Type, nil
		tensors[i].Make = func() ([]byte, error) { return o.encode(ctx, c, importance) }
	}
	meta := metadata(src.Metadata(), m)
	if o.Importance != nil {
		meta.Set("quantize.imatrix.file", filepath.Base(o.Importance.path))
		meta.Set("quantize.imatrix.entries_count", uint32(o.Importance.Len()))
	}
	return gguf.Write(dst, meta, tensors)
}

// metadata is the source's, with the keys that say what the file is now.
func metadata(source *gguf.Metadata, m mix) *gguf.Metadata {
	out := gguf.Whole(source)
	out.Set("general.file_type", m.fileType)
	out.Set("general.quantization_version", uint32(2))
	return out
}

func (o *Options) progress(values int) {
	if o.Progress != nil {
		o.Progress(values)
	}
}

// pieceValues is how many values a goroutine takes at a time: enough to be worth it, few enough to stay in a cache.
const pieceValues = 1 << 15

// encode makes the data of a tensor, on all threads. Every value must be finite, and stay so.
func (o *Options) encode(ctx context.Context, c Choice, importance []float32) ([]byte, error) {
	t := c.Tensor
	from, err := quant.For(t.Type)
	if err != nil {
		return nil, err
	}
	to, err := quant.For(c.Type)
	if err != nil {
		return nil, err
	}
	source, err := t.Bytes()
	if err != nil {
		return nil, err
	}
	width := t.Shape[len(t.Shape)-1]
	fromBytes, toBytes := width/from.Block*from.Bytes, width/to.Block*to.Bytes
	rows, perMatrix := 0, t.Shape[len(t.Shape)-2]
	if width > 0 {
		rows = t.Values() / width
	}
	dst, step := make([]byte, rows*toBytes), max(1, pieceValues/max(1, width))
	piece := func(first int, x, weights []float32) error {
		n := min(step, rows-first)
		x = x[:n*width]
		from.Dequantize(x, source[first*fromBytes:][:n*fromBytes])
		for j, v := range x {
			if v-v != 0 {
				return fmt.Errorf("quantize: tensor %q: value %d of row %d is %v; a value that is not finite spoils its block, and the model with it", t.Name, j%width, first+j/width, v)
			}
			if c.Type == gguf.F16 && (v >= 65520 || v <= -65520) {
				return fmt.Errorf("quantize: tensor %q: value %d of row %d is %v, beyond the largest F16 of 65504; take BF16", t.Name, j%width, first+j/width, v)
			}
		}
		if importance == nil {
			to.Quantize(dst[first*toBytes:][:n*toBytes], x, nil)
		} else {
			for r := range n { // a matrix of its own has columns of its own
				matrix := (first + r) / perMatrix
				copy(weights[r*width:], importance[matrix*width:][:width])
			}
			to.Quantize(dst[first*toBytes:][:n*toBytes], x, weights[:n*width])
		}
		t.Release(first*fromBytes, (first+n)*fromBytes)
		o.progress(n * width)
		return ctx.Err()
	}
	return dst, o.parallel(rows, step, func() func(first int) error {
		x, weights := make([]float32, step*width), []float32(nil)
		if importance != nil {
			weights = make([]float32, step*width)
		}
		return func(first int) error { return piece(first, x, weights) }
	})
}

// parallel runs work for the pieces of [0, rows), each on one of the threads, and returns an error of the first piece that has one.
func (o *Options) parallel(rows, step int, worker func() func(first int) error) error {
	threads := o.Threads
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	var next atomic.Int64
	var done sync.WaitGroup
	var mu sync.Mutex
	var failed error
	at := math.MaxInt
	for range min(threads, (rows+step-1)/step) {
		done.Go(func() {
			work := worker()
			for {
				first := int(next.Add(int64(step))) - step
				if first >= rows {
					return
				}
				if err := work(first); err != nil {
					mu.Lock()
					if first < at {
						failed, at = err, first
					}
					mu.Unlock()
					next.Store(int64(rows))
					return
				}
			}
		})
	}
	done.Wait()
	return failed
}
