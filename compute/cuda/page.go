package cuda

import (
	"errors"
	"unsafe"

	"memra/compute"
)

// readPage brings a page of so many bytes to the host, out of the memory that pages lie in, one after another. It waits for the copy.
func (d *Device) readPage(m compute.PageMemory, at pointer, bytes, page int, data []byte) error {
	return d.copyPage(m, bytes, page, data, "cuMemcpyDtoHAsync(%d bytes)", func(host unsafe.Pointer) status {
		return d.driver.copyOut(host, at+pointer(page*bytes), bytes, d.stream)
	})
}

// writePage is the opposite.
func (d *Device) writePage(m compute.PageMemory, at pointer, bytes, page int, data []byte) error {
	return d.copyPage(m, bytes, page, data, "cuMemcpyHtoDAsync(%d bytes)", func(host unsafe.Pointer) status {
		return d.driver.copyIn(at+pointer(page*bytes), host, bytes, d.stream)
	})
}

// copyPage has the owner copy, and waits until the host's bytes are of no more use to the driver.
func (d *Device) copyPage(m compute.PageMemory, bytes, page int, data []byte, call string, copy func(host unsafe.Pointer) status) error {
	if err := compute.CheckPage(m, page, data, bytes); err != nil {
		return err
	}
	if d.owner == nil {
		return errors.New("cuda: a page of a device that is closed")
	}
	return d.owner.do(func() error {
		if err := d.failed(); err != nil {
			return err
		}
		if err := check(d.driver, copy(unsafe.Pointer(&data[0])), call, bytes); err != nil {
			return d.broken(err)
		}
		return d.broken(check(d.driver, d.driver.streamSynchronize(d.stream), "cuStreamSynchronize"))
	})
}
