package memra

import (
	"memra/compute"
	"memra/internal/devices"
)

// OpenWith opens a model on a device of the test's.
func OpenWith(path string, o Options, d compute.Device) (*Model, error) {
	o.open = func(string, devices.Options) (compute.Device, error) { return d, nil }
	return Open(path, o)
}
