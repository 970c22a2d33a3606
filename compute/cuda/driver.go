package cuda

import (
	"fmt"
	"unsafe"
)

// driver is the part of the CUDA driver that this package calls, a method a function. Tests without a GPU fake it.
//
// All methods but errorText are called by the context's owner alone (owner.go).
type driver interface {
	init() status
	version() (int, status) // 13000 is CUDA 13.0
	deviceCount() (int, status)
	deviceName(index int) (string, status)
	deviceMemory(index int) (uint64, status)
	deviceAttribute(attribute, index int) (int, status)

	retainContext(index int) (handle, status) // the device's primary context
	setContext(context handle) status
	releaseContext(index int) status
	memInfo() (free, total uint64, s status)

	memAlloc(bytes int) (pointer, status)
	memFree(p pointer) status
	hostAlloc(bytes int) (unsafe.Pointer, status) // pinned
	hostFree(p unsafe.Pointer) status
	memset(dst pointer, value byte, bytes int, stream handle) status
	copyIn(dst pointer, src unsafe.Pointer, bytes int, stream handle) status
	copyOut(dst unsafe.Pointer, src pointer, bytes int, stream handle) status
	copyWithin(dst, src pointer, bytes int, stream handle) status

	streamCreate() (handle, status)
	streamDestroy(stream handle) status
	streamSynchronize(stream handle) status

	eventCreate() (handle, status)
	eventDestroy(event handle) status
	eventRecord(event, stream handle) status
	eventSynchronize(event handle) status
	eventElapsed(from, to handle) (milliseconds float32, s status)

	moduleLoad(image []byte) (handle, status)
	moduleUnload(module handle) status
	moduleFunction(module handle, name string) (handle, status)
	functionSetShared(function handle, bytes int) status // dynamic shared memory beyond 48 KiB
	launch(l *launch, stream handle) status

	captureBegin(stream handle) status
	captureEnd(stream handle) (graph handle, s status)
	graphInstantiate(graph handle) (exec handle, s status)
	graphUpdate(exec, graph handle) (bool, status) // false: another shape, exec is as before
	graphLaunch(exec, stream handle) status
	graphDestroy(graph handle) status
	execDestroy(exec handle) status

	errorText(s status) (name, text string)
}

type (
	handle  uintptr // context, stream, event, module, function, graph
	pointer uint64  // an address in device memory
	status  uint32  // CUresult
)

const (
	success       status = 0
	outOfMemory   status = 2
	errorNoDevice status = 100
)

// attributes of a device (CUdevice_attribute)
const (
	attributeMultiprocessor = 16
	attributeMajor          = 75
	attributeMinor          = 76
)

// Error is a call of the driver that failed.
type Error struct {
	Call string // "cuMemAlloc(1048576 bytes)"
	Code int    // CUresult
	Name string // "CUDA_ERROR_OUT_OF_MEMORY"
	Text string // the driver's own words
}

func (e *Error) Error() string {
	return fmt.Sprintf("cuda: %s: %s (%d): %s", e.Call, e.Name, e.Code, e.Text)
}

// check makes an error of a status; call and args name the function and the arguments that matter.
func check(d driver, s status, call string, args ...any) error {
	if s == success {
		return nil
	}
	name, text := d.errorText(s)
	return &Error{Call: fmt.Sprintf(call, args...), Code: int(s), Name: name, Text: text}
}
