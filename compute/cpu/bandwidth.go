package cpu

import (
	"math"
	"time"
	"unsafe"
)

// ReadBandwidth measures how fast the device's threads read memory that no cache holds, in bytes a second: the best of some
// passes over 256 MiB that lie as weights do.
func (d *Device) ReadBandwidth() (float64, error) {
	const bytes, piece, passes = 256 << 20, 256 << 10, 8
	m, err := mapAnonymous(bytes)
	if err != nil {
		return 0, err
	}
	data := unsafe.Slice((*float32)(unsafe.Pointer(&m[0])), bytes/4)
	for i := range data {
		data[i] = float32(i & 1023)
	}
	best := math.Inf(1)
	for range passes {
		began := time.Now()
		d.pool.run(bytes/piece, func(_, i int) { d.kernels.sumSquares(data[i*piece/4:][:piece/4]) })
		best = min(best, time.Since(began).Seconds())
	}
	return bytes / best, unmap(m)
}
