package cuda

import (
	"errors"
	"fmt"

	"memra/compute"
)

// ReadBandwidth streams memory much larger than the caches through the multiprocessors: the best of some passes. It takes
// 2 GiB, or half of what is free if that is less, and gives it back.
func (d *Device) ReadBandwidth() (bandwidth float64, err error) {
	const most, least, passes = 2 << 30, 64 << 20, 10
	m, err := d.Memory()
	if err != nil {
		return 0, err
	}
	bytes := min(most, m.Free/2) &^ 15
	if bytes < least {
		return 0, fmt.Errorf("cuda: measuring the read bandwidth takes %d bytes or more, %d of %d are free", 2*least, m.Free, m.Total)
	}
	err = d.owner.do(func() (err error) {
		data, err := d.alloc(bytes+16, "measuring the read bandwidth")
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, d.free(data)) }()
		if err := check(d.driver, d.driver.memset(data, 0, bytes+16, d.stream), "cuMemsetD8Async(%d bytes)", bytes+16); err != nil {
			return d.broken(err)
		}
		pass := []launch{newLaunch(d.kernel("read"), shape{grid: grid(4*d.multiprocessors, 1), block: 512},
			(data + pointer(bytes)).arg(), data.arg(), i64(bytes/16))}
		for range passes {
			seconds, err := d.elapsed(func() error { return d.launchAll(pass) })
			if err != nil {
				return d.broken(err)
			}
			bandwidth = max(bandwidth, float64(bytes)/seconds)
		}
		return nil
	})
	return bandwidth, err
}

// elapsed is the device's time, in seconds, of what work puts on the stream. By the owner.
func (d *Device) elapsed(work func() error) (seconds float64, err error) {
	from, s := d.driver.eventCreate()
	if err := check(d.driver, s, "cuEventCreate"); err != nil {
		return 0, err
	}
	defer d.driver.eventDestroy(from)
	to, s := d.driver.eventCreate()
	if err := check(d.driver, s, "cuEventCreate"); err != nil {
		return 0, err
	}
	defer d.driver.eventDestroy(to)
	if err := check(d.driver, d.driver.eventRecord(from, d.stream), "cuEventRecord"); err != nil {
		return 0, err
	}
	if err := work(); err != nil {
		return 0, err
	}
	if err := check(d.driver, d.driver.eventRecord(to, d.stream), "cuEventRecord"); err != nil {
		return 0, err
	}
	if err := check(d.driver, d.driver.eventSynchronize(to), "cuEventSynchronize"); err != nil {
		return 0, err
	}
	ms, s := d.driver.eventElapsed(from, to)
	return float64(ms) / 1e3, check(d.driver, s, "cuEventElapsedTime")
}

// Memory is the GPU's memory: what is reserved is taken at once.
func (d *Device) Memory() (m compute.Memory, err error) {
	err = d.owner.do(func() error {
		free, total, s := d.driver.memInfo()
		m.Free, m.Total = int(free), int(total)
		return check(d.driver, s, "cuMemGetInfo")
	})
	return m, err
}
