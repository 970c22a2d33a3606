// Package devices opens what computes, by the name that users give it.
package devices

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	"memra/compute"
	"memra/compute/cpu"
	"memra/compute/cuda"
)

// Names are the names of devices, for help and completion; "cuda:N" is the N-th GPU that the driver shows.
func Names() []string { return []string{"auto", "cpu", "cuda", "cuda:0", "cuda:1"} }

// Options say what a device is wanted for.
type Options struct {
	Threads int // of the CPU; 0: one a processor
	KV      compute.KVFormat
	Log     *slog.Logger // hears why "auto" computes on the CPU
}

// backends are how devices are opened; tests replace them.
type backends struct {
	cpu  func(threads int) (compute.Device, error)
	cuda func(index int) (compute.Device, error)
}

var real = backends{
	cpu:  func(threads int) (compute.Device, error) { return opened(cpu.Open(threads)) },
	cuda: func(index int) (compute.Device, error) { return opened(cuda.Open(index)) },
}

// opened keeps a nil pointer from becoming a device that is not nil.
func opened[D compute.Device](d D, err error) (compute.Device, error) {
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Open opens a device: "cpu"; "cuda" or "cuda:N"; "auto" or "", which is the first GPU where one works and the CPU elsewhere, with
// a line in the log that says why. A machine without a GPU is nothing to warn of; a GPU that does not work is.
func Open(name string, o Options) (compute.Device, error) { return real.open(name, o) }

func (b backends) open(name string, o Options) (compute.Device, error) {
	kind, index, err := parse(name)
	switch {
	case err != nil:
		return nil, err
	case kind == "cpu":
		return b.cpu(o.Threads)
	case kind == "cuda":
		return b.cuda(index)
	}
	if o.KV == compute.KVF32 {
		o.Log.Info("computing on the CPU: GPUs keep the KV cache in f16 or 8 bits", "asked", o.KV)
		return b.cpu(o.Threads)
	}
	d, err := b.cuda(0)
	if err == nil {
		return d, nil
	}
	level := slog.LevelWarn
	if errors.Is(err, cuda.ErrNoGPU) {
		level = slog.LevelInfo
	}
	o.Log.Log(context.Background(), level, "computing on the CPU", "why", err)
	return b.cpu(o.Threads)
}

// Check reports a name that no device can have.
func Check(name string) error {
	_, _, err := parse(name)
	return err
}

func parse(name string) (kind string, index int, err error) {
	switch name {
	case "", "auto":
		return "auto", 0, nil
	case "cpu", "cuda":
		return name, 0, nil
	}
	if number, ok := strings.CutPrefix(name, "cuda:"); ok {
		if n, err := strconv.Atoi(number); err == nil && n >= 0 && strconv.Itoa(n) == number {
			return "cuda", n, nil
		}
	}
	return "", 0, fmt.Errorf("device %q, want auto, cpu, cuda or cuda:N", name)
}
