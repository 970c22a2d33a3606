//go:build !linux

package cpu

import "memra/compute"

// Memory is not known here.
func (d *Device) Memory() (compute.Memory, error) { return compute.Memory{Lazy: true}, nil }
