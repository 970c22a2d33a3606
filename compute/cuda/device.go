package cuda

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unsafe"

	"memra/compute"
)

// minVersion is the oldest driver that loads the artefacts: nvcc 13.0 made them.
const minVersion = 13000

// Device is one GPU. It implements compute.Device.
type Device struct {
	driver driver
	owner  *owner

	index           int
	name            string
	major, minor    int // compute capability
	multiprocessors int
	memory          uint64
	version         int    // of CUDA, that the driver supports: 13000 is 13.0
	target          string // of the artefacts it runs

	// What follows belongs to the owner.
	stream    handle
	modules   []handle
	kernels   map[string]*kernel
	allocated map[pointer]int
	pinned    map[unsafe.Pointer]int
	ropes     map[*compute.Rope]*ropeTable
	graphs    graphs
	partials  struct {
		at    pointer
		bytes int
	}
	attended    growing // partial results of attention
	attendedFew growing // the same, where there are few
	met         growing // the same in programs: all ones between launches
	gate        pointer // counter of programs
	step        step
	drawn       pointer      // the answers of the last step that drew
	under       [2]under     // places for steps under way
	turn        int          // the number of the last
	code        pinnedBuffer // of a program, on its way
	fault       error        // sticky: the context is of no more use

	staging    chan *stage // of weights on their way to the device
	stageBytes int
}

var _ compute.Overlapping = (*Device)(nil)

// ErrNoGPU is wrapped by errors of Open on a machine without a GPU or its driver: nothing is wrong there.
var ErrNoGPU = errors.New("cuda: no GPU")

// Available says why no GPU can compute, nil if one can: device 0 is opened as far as it takes to know.
func Available() error {
	drv, err := openDriver()
	if err != nil {
		return err
	}
	_, err = query(drv, 0)
	return err
}

// Open takes a GPU by its index among those that the driver shows (CUDA_VISIBLE_DEVICES counts).
//
// Its errors name what is missing: a driver, one new enough for the artefacts, a GPU that they run on.
func Open(index int) (*Device, error) {
	drv, err := openDriver()
	if err != nil {
		return nil, err
	}
	return open(drv, index)
}

// query checks the driver and a device, without a context.
func query(drv driver, index int) (*Device, error) {
	d := &Device{driver: drv, index: index}
	s := drv.init()
	if s == errorNoDevice {
		return nil, fmt.Errorf("%w: the NVIDIA driver sees none; compute on the CPU", ErrNoGPU)
	}
	if err := check(drv, s, "cuInit"); err != nil {
		return nil, err
	}
	if d.version, s = drv.version(); s != success {
		return nil, check(drv, s, "cuDriverGetVersion")
	}
	if d.version < minVersion {
		return nil, fmt.Errorf("cuda: the NVIDIA driver supports CUDA %d.%d, the kernels want %d.%d; install driver 580 or later",
			d.version/1000, d.version%1000/10, minVersion/1000, minVersion%1000/10)
	}
	count, s := drv.deviceCount()
	if err := check(drv, s, "cuDeviceGetCount"); err != nil {
		return nil, err
	}
	if index < 0 || index >= count {
		return nil, fmt.Errorf("cuda: GPU %d of %d; want 0 to %d", index, count, count-1)
	}
	var errs [5]error
	d.name, s = drv.deviceName(index)
	errs[0] = check(drv, s, "cuDeviceGetName(%d)", index)
	d.memory, s = drv.deviceMemory(index)
	errs[1] = check(drv, s, "cuDeviceTotalMem(%d)", index)
	for i, a := range []struct {
		id int
		to *int
	}{{attributeMajor, &d.major}, {attributeMinor, &d.minor}, {attributeMultiprocessor, &d.multiprocessors}} {
		*a.to, s = drv.deviceAttribute(a.id, index)
		errs[2+i] = check(drv, s, "cuDeviceGetAttribute(%d, %d)", a.id, index)
	}
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	if d.target = targetFor(d.major, d.minor); d.target == "" {
		return nil, fmt.Errorf("cuda: GPU %d, %s, has compute capability %d.%d, want 8.0 or later; compute on the CPU", index, d.name, d.major, d.minor)
	}
	return d, nil
}

func open(drv driver, index int) (*Device, error) {
	d, err := query(drv, index)
	if err != nil {
		return nil, err
	}
	d.owner = new(owner)
	d.allocated, d.pinned, d.ropes = map[pointer]int{}, map[unsafe.Pointer]int{}, map[*compute.Rope]*ropeTable{}
	d.step = step{Device: d, batches: map[*compute.Batch]*batchInput{}, pageTables: map[*[]int32]tablesInput{}, roped: map[*compute.Rope][]*compute.Batch{},
		plans: map[attendKey]*attendPlan{}, sorted: map[*compute.Batch]*historyInput{}}
	d.staging, d.stageBytes = make(chan *stage, stages), stageBytes
	for range stages {
		d.staging <- new(stage)
	}
	err = d.owner.do(func() error {
		context, s := drv.retainContext(index)
		if err := check(drv, s, "cuDevicePrimaryCtxRetain(%d)", index); err != nil {
			return fmt.Errorf("%w; does another process hold the GPU?", err)
		}
		d.owner.enter = func() error { return check(drv, drv.setContext(context), "cuCtxSetCurrent") }
		if err := d.owner.enter(); err != nil {
			return err
		}
		if d.stream, s = drv.streamCreate(); s != success {
			return check(drv, s, "cuStreamCreate")
		}
		return d.loadModules()
	})
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Name says what computes.
func (d *Device) Name() string {
	return fmt.Sprintf("cuda:%d (%s, %d multiprocessors, %.0f GiB, %s)", d.index, d.name, d.multiprocessors, float64(d.memory)/(1<<30),
		driverText(d.version, "/proc/driver/nvidia/version"))
}

// driverText is the driver's version: the CUDA that it supports, and its own where the system shows it, for libcuda does not tell.
func driverText(cuda int, path string) string {
	text := fmt.Sprintf("CUDA %d.%d", cuda/1000, cuda%1000/10)
	data, err := os.ReadFile(path)
	if err != nil {
		return text
	}
	first, _, _ := strings.Cut(string(data), "\n")
	for _, word := range strings.Fields(first) { // NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.95.05  Tue ...
		if major, _, ok := strings.Cut(word, "."); ok && strings.Trim(word, "0123456789.") == "" && len(major) >= 3 {
			return text + ", driver " + word
		}
	}
	return text
}

// Class: see compute.Device. All GPUs compute the same bits.
func (d *Device) Class() string { return "cuda" }

// Step is enough for the matmuls to be bound by arithmetic rather than by memory.
func (d *Device) Step() int { return 2048 }

// mostPadded is the most rows of a step that are rounded: with more, computing takes longer than launching kernel by kernel.
const mostPadded = 256

// Padded makes few lists of launches of steps with few rows, so that they become graphs. A row within an operand's tile costs next to
// nothing.
func (d *Device) Padded(n int) int {
	if n > mostPadded {
		return n
	}
	return compute.RoundedRows(n)
}

// SetEager says whether steps that repeat are launched kernel by kernel rather than as graphs. The bits are the same: this is
// for checking that.
func (d *Device) SetEager(eager bool) {
	d.owner.do(func() error { d.graphs.eager = eager; return nil })
}

// Graphs is how many steps have become graphs.
func (d *Device) Graphs() (n int) {
	d.owner.do(func() error { n = d.graphs.made; return nil })
	return n
}

// KernelNames lists the kernels of the last step, each once, in the order of their first launch.
func (d *Device) KernelNames() (names []string) {
	d.owner.do(func() error {
		for i := range d.step.launches {
			if n := d.step.launches[i].kernel.name; !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
		return nil
	})
	return names
}

// Close frees everything the device holds. A second Close does nothing.
func (d *Device) Close() error {
	if d.owner == nil {
		return nil
	}
	err := d.owner.do(func() error {
		var errs []error
		note := func(s status, call string) { errs = append(errs, check(d.driver, s, "%s", call)) }
		if d.stream != 0 {
			note(d.driver.streamSynchronize(d.stream), "cuStreamSynchronize")
		}
		for _, g := range d.graphs.list {
			note(d.driver.execDestroy(g.exec), "cuGraphExecDestroy")
		}
		for _, u := range d.under {
			if u.done != 0 {
				note(d.driver.eventDestroy(u.done), "cuEventDestroy")
			}
		}
		for range stages {
			if st := <-d.staging; st.done != 0 {
				note(d.driver.eventDestroy(st.done), "cuEventDestroy")
			}
		}
		for p := range d.allocated {
			note(d.driver.memFree(p), "cuMemFree")
		}
		for p := range d.pinned {
			note(d.driver.hostFree(p), "cuMemFreeHost")
		}
		for _, m := range d.modules {
			note(d.driver.moduleUnload(m), "cuModuleUnload")
		}
		if d.stream != 0 {
			note(d.driver.streamDestroy(d.stream), "cuStreamDestroy")
		}
		note(d.driver.releaseContext(d.index), "cuDevicePrimaryCtxRelease")
		if d.fault != nil { // whatever is called after a fault fails with it
			return nil
		}
		return errors.Join(errs...)
	})
	d.owner = nil
	return err
}

// broken notes an error after which the device computes no more, unless it is one that leaves the context whole.
func (d *Device) broken(err error) error {
	var e *Error
	if errors.As(err, &e) && e.Code != int(outOfMemory) && d.fault == nil {
		d.fault = err
	}
	return err
}

// failed is the error of an earlier fault.
func (d *Device) failed() error {
	if d.fault == nil {
		return nil
	}
	return fmt.Errorf("cuda: GPU %d failed earlier and must be opened anew: %w", d.index, d.fault)
}
