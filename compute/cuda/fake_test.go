package cuda

import (
	"strings"
	"testing"
	"unsafe"
)

// fake is a driver without a GPU: it hands out addresses, remembers launches, and computes nothing. A function whose name is in
// fails answers with that status.
type fake struct {
	fails         map[string]status
	driverVersion int
	major, minor  int
	free          uint64
	next          uint64
	pinned        map[unsafe.Pointer][]byte
	live          map[pointer]int
	launched      map[string]int // by kernel
	issued        []launch       // since the last synchronisation, outside of a capture
	capturing     bool
	captured      []launch
	graphs        map[handle][]launch
	replays       int
	shared        int // the most that a function was allowed
}

func newFake() *fake {
	return &fake{fails: map[string]status{}, driverVersion: 13000, major: 9, free: 1 << 37, next: 1 << 40, pinned: map[unsafe.Pointer][]byte{},
		live: map[pointer]int{}, launched: map[string]int{}, graphs: map[handle][]launch{}}
}

func (f *fake) handle() handle { f.next += 1 << 20; return handle(f.next) }

func (f *fake) init() status                      { return f.fails["cuInit"] }
func (f *fake) version() (int, status)            { return f.driverVersion, f.fails["cuDriverGetVersion"] }
func (f *fake) deviceCount() (int, status)        { return 1, success }
func (f *fake) deviceName(int) (string, status)   { return "Fake", success }
func (f *fake) deviceMemory(int) (uint64, status) { return 1 << 37, success }
func (f *fake) retainContext(int) (handle, status) {
	return f.handle(), f.fails["cuDevicePrimaryCtxRetain"]
}
func (f *fake) setContext(handle) status                 { return success }
func (f *fake) releaseContext(int) status                { return success }
func (f *fake) memInfo() (uint64, uint64, status)        { return f.free, 1 << 37, success }
func (f *fake) memset(pointer, byte, int, handle) status { return success }
func (f *fake) deviceAttribute(a, _ int) (int, status) {
	return map[int]int{attributeMajor: f.major, attributeMinor: f.minor, attributeMultiprocessor: 132}[a], success
}

func (f *fake) memAlloc(n int) (pointer, status) {
	if uint64(n) > f.free {
		return 0, outOfMemory
	}
	f.free -= uint64(n)
	p := pointer(f.next)
	f.next += uint64(n) + 1<<20
	f.live[p] = n
	return p, success
}

func (f *fake) memFree(p pointer) status {
	f.free += uint64(f.live[p])
	delete(f.live, p)
	return success
}

func (f *fake) hostAlloc(n int) (unsafe.Pointer, status) {
	b := make([]uint64, (n+7)/8)
	p := unsafe.Pointer(&b[0])
	f.pinned[p] = unsafe.Slice((*byte)(p), n)
	return p, success
}

func (f *fake) hostFree(p unsafe.Pointer) status { delete(f.pinned, p); return success }

func (f *fake) copyIn(pointer, unsafe.Pointer, int, handle) status {
	return f.fails["cuMemcpyHtoDAsync"]
}
func (f *fake) copyOut(unsafe.Pointer, pointer, int, handle) status { return success }
func (f *fake) copyWithin(pointer, pointer, int, handle) status     { return success }
func (f *fake) streamCreate() (handle, status)                      { return f.handle(), success }
func (f *fake) streamDestroy(handle) status                         { return success }
func (f *fake) streamSynchronize(handle) status                     { return f.fails["cuStreamSynchronize"] }
func (f *fake) eventCreate() (handle, status)                       { return f.handle(), success }
func (f *fake) eventDestroy(handle) status                          { return success }
func (f *fake) eventRecord(handle, handle) status                   { return success }
func (f *fake) eventSynchronize(handle) status                      { return success }
func (f *fake) eventElapsed(handle, handle) (float32, status)       { return 1, success }
func (f *fake) moduleLoad([]byte) (handle, status)                  { return f.handle(), f.fails["cuModuleLoadData"] }
func (f *fake) moduleUnload(handle) status                          { return success }
func (f *fake) moduleFunction(handle, string) (handle, status)      { return f.handle(), success }
func (f *fake) functionSetShared(_ handle, n int) status            { f.shared = max(f.shared, n); return success }

func (f *fake) launch(l *launch, _ handle) status {
	f.launched[l.kernel.name]++
	if f.capturing {
		f.captured = append(f.captured, *l)
	} else {
		f.issued = append(f.issued, *l)
	}
	return f.fails["cuLaunchKernelEx"]
}

func (f *fake) captureBegin(handle) status { f.capturing, f.captured = true, nil; return success }
func (f *fake) captureEnd(handle) (handle, status) {
	f.capturing = false
	h := f.handle()
	f.graphs[h] = f.captured
	return h, success
}
func (f *fake) graphInstantiate(g handle) (handle, status) {
	h := f.handle()
	f.graphs[h] = f.graphs[g]
	return h, f.fails["cuGraphInstantiateWithFlags"]
}

func (f *fake) graphUpdate(exec, g handle) (bool, status) {
	if len(f.graphs[exec]) != len(f.graphs[g]) {
		return false, success
	}
	f.graphs[exec] = f.graphs[g]
	return true, success
}

func (f *fake) graphLaunch(exec, _ handle) status {
	f.replays++
	f.issued = append(f.issued, f.graphs[exec]...)
	return success
}
func (f *fake) graphDestroy(g handle) status { delete(f.graphs, g); return success }
func (f *fake) execDestroy(g handle) status  { delete(f.graphs, g); return success }

func (f *fake) errorText(s status) (string, string) {
	return map[status]string{700: "CUDA_ERROR_ILLEGAL_ADDRESS", outOfMemory: "CUDA_ERROR_OUT_OF_MEMORY", 222: "CUDA_ERROR_UNSUPPORTED_PTX_VERSION"}[s], "the driver's words"
}

// openFake opens a device on a fake driver.
func openFake(t *testing.T, f *fake) *Device {
	t.Helper()
	d, err := open(f, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		if len(f.live) != 0 || len(f.pinned) != 0 {
			t.Errorf("after Close %d pieces of device memory and %d of pinned memory are not freed", len(f.live), len(f.pinned))
		}
	})
	return d
}

func mentions(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}
