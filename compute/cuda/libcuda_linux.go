//go:build linux && (amd64 || arm64)

package cuda

import (
	"fmt"
	"runtime"
	"unsafe"

	"github.com/ebitengine/purego"
)

// libcuda is the driver's library. Its fields are the addresses of its functions.
type libcuda struct {
	cuInit, cuDriverGetVersion, cuDeviceGetCount, cuDeviceGetName, cuDeviceTotalMem, cuDeviceGetAttribute uintptr
	cuDevicePrimaryCtxRetain, cuDevicePrimaryCtxRelease, cuCtxSetCurrent, cuMemGetInfo                    uintptr
	cuMemAlloc, cuMemFree, cuMemHostAlloc, cuMemFreeHost                                                  uintptr
	cuMemsetD8Async, cuMemcpyHtoDAsync, cuMemcpyDtoHAsync, cuMemcpyDtoDAsync                              uintptr
	cuStreamCreate, cuStreamDestroy, cuStreamSynchronize                                                  uintptr
	cuEventCreate, cuEventDestroy, cuEventRecord, cuEventSynchronize, cuEventElapsedTime                  uintptr
	cuModuleLoadData, cuModuleUnload, cuModuleGetFunction, cuFuncSetAttribute, cuLaunchKernelEx           uintptr
	cuStreamBeginCapture, cuStreamEndCapture, cuGraphInstantiateWithFlags, cuGraphExecUpdate              uintptr
	cuGraphLaunch, cuGraphDestroy, cuGraphExecDestroy, cuGetErrorName, cuGetErrorString                   uintptr

	config launchConfig // of the launch in progress, at an address that stays
	params [maxArgs]unsafe.Pointer
}

// openDriver opens the library and finds every function.
func openDriver() (driver, error) {
	runtime.LockOSThread() // the loader keeps the text of its last error by thread
	defer runtime.UnlockOSThread()
	lib, err := purego.Dlopen("libcuda.so.1", purego.RTLD_NOW|purego.RTLD_GLOBAL)
	if err != nil {
		return nil, fmt.Errorf("%w: no NVIDIA driver: %w; install one of 580 or later (CUDA 13.0), or compute on the CPU", ErrNoGPU, err)
	}
	l := new(libcuda)
	for _, f := range []struct {
		name string
		at   *uintptr
	}{
		{"cuInit", &l.cuInit}, {"cuDriverGetVersion", &l.cuDriverGetVersion}, {"cuDeviceGetCount", &l.cuDeviceGetCount},
		{"cuDeviceGetName", &l.cuDeviceGetName}, {"cuDeviceTotalMem_v2", &l.cuDeviceTotalMem},
		{"cuDeviceGetAttribute", &l.cuDeviceGetAttribute}, {"cuDevicePrimaryCtxRetain", &l.cuDevicePrimaryCtxRetain},
		{"cuDevicePrimaryCtxRelease_v2", &l.cuDevicePrimaryCtxRelease}, {"cuCtxSetCurrent", &l.cuCtxSetCurrent},
		{"cuMemGetInfo_v2", &l.cuMemGetInfo}, {"cuMemAlloc_v2", &l.cuMemAlloc}, {"cuMemFree_v2", &l.cuMemFree},
		{"cuMemHostAlloc", &l.cuMemHostAlloc}, {"cuMemFreeHost", &l.cuMemFreeHost}, {"cuMemsetD8Async", &l.cuMemsetD8Async},
		{"cuMemcpyHtoDAsync_v2", &l.cuMemcpyHtoDAsync}, {"cuMemcpyDtoHAsync_v2", &l.cuMemcpyDtoHAsync},
		{"cuMemcpyDtoDAsync_v2", &l.cuMemcpyDtoDAsync}, {"cuStreamCreate", &l.cuStreamCreate},
		{"cuStreamDestroy_v2", &l.cuStreamDestroy}, {"cuStreamSynchronize", &l.cuStreamSynchronize},
		{"cuEventCreate", &l.cuEventCreate}, {"cuEventDestroy_v2", &l.cuEventDestroy},
		{"cuEventRecord", &l.cuEventRecord}, {"cuEventSynchronize", &l.cuEventSynchronize},
		{"cuEventElapsedTime", &l.cuEventElapsedTime}, {"cuModuleLoadData", &l.cuModuleLoadData},
		{"cuModuleUnload", &l.cuModuleUnload}, {"cuModuleGetFunction", &l.cuModuleGetFunction},
		{"cuFuncSetAttribute", &l.cuFuncSetAttribute}, {"cuLaunchKernelEx", &l.cuLaunchKernelEx},
		{"cuStreamBeginCapture_v2", &l.cuStreamBeginCapture}, {"cuStreamEndCapture", &l.cuStreamEndCapture},
		{"cuGraphInstantiateWithFlags", &l.cuGraphInstantiateWithFlags}, {"cuGraphExecUpdate_v2", &l.cuGraphExecUpdate},
		{"cuGraphLaunch", &l.cuGraphLaunch}, {"cuGraphDestroy", &l.cuGraphDestroy}, {"cuGraphExecDestroy", &l.cuGraphExecDestroy},
		{"cuGetErrorName", &l.cuGetErrorName}, {"cuGetErrorString", &l.cuGetErrorString},
	} {
		if *f.at, err = purego.Dlsym(lib, f.name); err != nil {
			return nil, fmt.Errorf("cuda: the NVIDIA driver is too old: %w; install 580 or later (CUDA 13.0)", err)
		}
	}
	return l, nil
}

// call calls a function. What the arguments point to does not move meanwhile.
//
//go:uintptrescapes
func call(f uintptr, args ...uintptr) status {
	r, _, _ := purego.SyscallN(f, args...)
	return status(uint32(r))
}

func (l *libcuda) init() status { return call(l.cuInit, 0) }

func (l *libcuda) version() (int, status) {
	v := new(int32)
	s := call(l.cuDriverGetVersion, uintptr(unsafe.Pointer(v)))
	return int(*v), s
}

func (l *libcuda) deviceCount() (int, status) {
	n := new(int32)
	s := call(l.cuDeviceGetCount, uintptr(unsafe.Pointer(n)))
	return int(*n), s
}

func (l *libcuda) deviceName(index int) (string, status) {
	b := make([]byte, 256)
	s := call(l.cuDeviceGetName, uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)), uintptr(index))
	for i, c := range b {
		if c == 0 {
			return string(b[:i]), s
		}
	}
	return string(b), s
}

func (l *libcuda) deviceMemory(index int) (uint64, status) {
	n := new(uint64)
	s := call(l.cuDeviceTotalMem, uintptr(unsafe.Pointer(n)), uintptr(index))
	return *n, s
}

func (l *libcuda) deviceAttribute(attribute, index int) (int, status) {
	v := new(int32)
	s := call(l.cuDeviceGetAttribute, uintptr(unsafe.Pointer(v)), uintptr(attribute), uintptr(index))
	return int(*v), s
}

func (l *libcuda) retainContext(index int) (handle, status) {
	h := new(handle)
	s := call(l.cuDevicePrimaryCtxRetain, uintptr(unsafe.Pointer(h)), uintptr(index))
	return *h, s
}

func (l *libcuda) setContext(context handle) status { return call(l.cuCtxSetCurrent, uintptr(context)) }
func (l *libcuda) releaseContext(index int) status {
	return call(l.cuDevicePrimaryCtxRelease, uintptr(index))
}

func (l *libcuda) memInfo() (free, total uint64, s status) {
	v := new([2]uint64)
	s = call(l.cuMemGetInfo, uintptr(unsafe.Pointer(&v[0])), uintptr(unsafe.Pointer(&v[1])))
	return v[0], v[1], s
}

func (l *libcuda) memAlloc(bytes int) (pointer, status) {
	p := new(pointer)
	s := call(l.cuMemAlloc, uintptr(unsafe.Pointer(p)), uintptr(bytes))
	return *p, s
}

func (l *libcuda) memFree(p pointer) status { return call(l.cuMemFree, uintptr(p)) }

func (l *libcuda) hostAlloc(bytes int) (unsafe.Pointer, status) {
	p := new(unsafe.Pointer)
	s := call(l.cuMemHostAlloc, uintptr(unsafe.Pointer(p)), uintptr(bytes), 0)
	return *p, s
}

func (l *libcuda) hostFree(p unsafe.Pointer) status { return call(l.cuMemFreeHost, uintptr(p)) }

func (l *libcuda) memset(dst pointer, value byte, bytes int, stream handle) status {
	return call(l.cuMemsetD8Async, uintptr(dst), uintptr(value), uintptr(bytes), uintptr(stream))
}

func (l *libcuda) copyIn(dst pointer, src unsafe.Pointer, bytes int, stream handle) status {
	return call(l.cuMemcpyHtoDAsync, uintptr(dst), uintptr(src), uintptr(bytes), uintptr(stream))
}

func (l *libcuda) copyOut(dst unsafe.Pointer, src pointer, bytes int, stream handle) status {
	return call(l.cuMemcpyDtoHAsync, uintptr(dst), uintptr(src), uintptr(bytes), uintptr(stream))
}

func (l *libcuda) copyWithin(dst, src pointer, bytes int, stream handle) status {
	return call(l.cuMemcpyDtoDAsync, uintptr(dst), uintptr(src), uintptr(bytes), uintptr(stream))
}

func (l *libcuda) streamCreate() (handle, status) {
	const nonBlocking = 1
	h := new(handle)
	s := call(l.cuStreamCreate, uintptr(unsafe.Pointer(h)), nonBlocking)
	return *h, s
}

func (l *libcuda) streamDestroy(stream handle) status {
	return call(l.cuStreamDestroy, uintptr(stream))
}
func (l *libcuda) streamSynchronize(stream handle) status {
	return call(l.cuStreamSynchronize, uintptr(stream))
}

func (l *libcuda) eventCreate() (handle, status) {
	h := new(handle)
	s := call(l.cuEventCreate, uintptr(unsafe.Pointer(h)), 0)
	return *h, s
}

func (l *libcuda) eventDestroy(event handle) status { return call(l.cuEventDestroy, uintptr(event)) }
func (l *libcuda) eventRecord(event, stream handle) status {
	return call(l.cuEventRecord, uintptr(event), uintptr(stream))
}
func (l *libcuda) eventSynchronize(event handle) status {
	return call(l.cuEventSynchronize, uintptr(event))
}

func (l *libcuda) eventElapsed(from, to handle) (float32, status) {
	ms := new(float32)
	s := call(l.cuEventElapsedTime, uintptr(unsafe.Pointer(ms)), uintptr(from), uintptr(to))
	return *ms, s
}

func (l *libcuda) moduleLoad(image []byte) (handle, status) {
	h := new(handle)
	image = append(image, 0) // PTX is text that ends with a zero
	s := call(l.cuModuleLoadData, uintptr(unsafe.Pointer(h)), uintptr(unsafe.Pointer(&image[0])))
	return *h, s
}

func (l *libcuda) moduleUnload(module handle) status { return call(l.cuModuleUnload, uintptr(module)) }

func (l *libcuda) moduleFunction(module handle, name string) (handle, status) {
	h, text := new(handle), append([]byte(name), 0)
	s := call(l.cuModuleGetFunction, uintptr(unsafe.Pointer(h)), uintptr(module), uintptr(unsafe.Pointer(&text[0])))
	return *h, s
}

func (l *libcuda) functionSetShared(function handle, bytes int) status {
	const maxDynamicShared = 8
	return call(l.cuFuncSetAttribute, uintptr(function), maxDynamicShared, uintptr(bytes))
}

// launchConfig is CUlaunchConfig, with room for two attributes.
type launchConfig struct {
	grid, block [3]uint32
	shared      uint32
	_           uint32
	stream      handle
	attributes  unsafe.Pointer
	count       uint32
	_           uint32
	attribute   [2]launchAttribute
}

// launchAttribute is CUlaunchAttribute.
type launchAttribute struct {
	id    uint32
	_     uint32
	value [16]uint32
}

func (l *libcuda) launch(k *launch, stream handle) status {
	const cooperative, clusterDimension, programmaticSerialization = 2, 4, 6
	c := &l.config
	c.grid, c.block, c.shared, c.stream = k.grid, k.block, k.shared, stream
	c.attributes, c.count = unsafe.Pointer(&c.attribute), 0
	if k.cooperative {
		c.attribute[c.count] = launchAttribute{id: cooperative, value: [16]uint32{1}}
		c.count++
	} else if k.kernel.dependent {
		c.attribute[c.count] = launchAttribute{id: programmaticSerialization, value: [16]uint32{1}}
		c.count++
	}
	if k.cluster > 1 {
		c.attribute[c.count] = launchAttribute{id: clusterDimension, value: [16]uint32{k.cluster, 1, 1}}
		c.count++
	}
	for i := range k.count {
		l.params[i] = unsafe.Pointer(&k.args[i])
	}
	return call(l.cuLaunchKernelEx, uintptr(unsafe.Pointer(c)), uintptr(k.kernel.function), uintptr(unsafe.Pointer(&l.params)), 0)
}

func (l *libcuda) captureBegin(stream handle) status {
	const threadLocal = 1
	return call(l.cuStreamBeginCapture, uintptr(stream), threadLocal)
}

func (l *libcuda) captureEnd(stream handle) (handle, status) {
	h := new(handle)
	s := call(l.cuStreamEndCapture, uintptr(stream), uintptr(unsafe.Pointer(h)))
	return *h, s
}

func (l *libcuda) graphInstantiate(graph handle) (handle, status) {
	h := new(handle)
	s := call(l.cuGraphInstantiateWithFlags, uintptr(unsafe.Pointer(h)), uintptr(graph), 0)
	return *h, s
}

func (l *libcuda) graphUpdate(exec, graph handle) (bool, status) {
	const updateFailure = 910
	info := new([3]uint64) // CUgraphExecUpdateResultInfo
	s := call(l.cuGraphExecUpdate, uintptr(exec), uintptr(graph), uintptr(unsafe.Pointer(info)))
	if s == updateFailure {
		return false, success
	}
	return s == success, s
}

func (l *libcuda) graphLaunch(exec, stream handle) status {
	return call(l.cuGraphLaunch, uintptr(exec), uintptr(stream))
}
func (l *libcuda) graphDestroy(graph handle) status { return call(l.cuGraphDestroy, uintptr(graph)) }
func (l *libcuda) execDestroy(exec handle) status   { return call(l.cuGraphExecDestroy, uintptr(exec)) }

func (l *libcuda) errorText(s status) (name, text string) {
	get := func(f uintptr) string {
		p := new(*byte)
		if call(f, uintptr(s), uintptr(unsafe.Pointer(p))) != success || *p == nil {
			return "unknown error"
		}
		n := 0
		for *(*byte)(unsafe.Add(unsafe.Pointer(*p), n)) != 0 {
			n++
		}
		return string(unsafe.Slice(*p, n))
	}
	return get(l.cuGetErrorName), get(l.cuGetErrorString)
}
