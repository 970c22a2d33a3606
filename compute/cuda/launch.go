package cuda

import (
	"fmt"
	"math"
)

// maxArgs is the most parameters that a kernel may have.
const maxArgs = 24

// kernel is a function of a loaded module.
type kernel struct {
	name      string
	params    []int // their sizes in bytes, from the compiled code
	shared    int   // dynamic shared memory that it may have, bytes
	function  handle
	dependent bool // may start while the kernel before it ends: programmatic dependent launch
}

// launch is a kernel with its grid and arguments. Launches are compared with ==.
type launch struct {
	kernel      *kernel
	grid, block [3]uint32
	shared      uint32 // dynamic, bytes
	cluster     uint32 // blocks along x; 0: none
	cooperative bool   // all blocks run at once, or the launch fails; it waits for the kernels before it
	count       int
	args        [maxArgs]uint64
}

// arg is one argument of a kernel: its bits, and how many bytes of them count.
type arg struct {
	bits uint64
	size int
}

func (p pointer) arg() arg                  { return arg{uint64(p), 8} }
func i32[T ~int | ~int32 | ~uint8](v T) arg { return arg{uint64(uint32(v)), 4} }
func i64(v int) arg                         { return arg{uint64(v), 8} }
func f32(v float32) arg                     { return arg{uint64(math.Float32bits(v)), 4} }
func flag(v bool) arg                       { return i32(bit(v)) }

// shape is how a kernel is launched.
type shape struct {
	grid    [3]int // y and z may be 0: 1
	block   int
	shared  int
	cluster int
}

func grid(x, y int) [3]int { return [3]int{x, y, 1} }

// newLaunch is a launch of its own, in no step.
func newLaunch(k *kernel, s shape, args ...arg) (l launch) {
	l.set(k, s, args)
	return l
}

// set checks the arguments against the compiled kernel's parameters; a mismatch is a fault of this package.
func (l *launch) set(k *kernel, s shape, args []arg) {
	*l = launch{kernel: k, block: [3]uint32{uint32(s.block), 1, 1}, shared: uint32(s.shared), cluster: uint32(s.cluster), count: len(args)}
	for i, n := range s.grid {
		l.grid[i] = uint32(max(1, n))
	}
	if len(args) != len(k.params) {
		panic(fmt.Sprintf("cuda: %s: %d arguments, the kernel has %d parameters", k.name, len(args), len(k.params)))
	}
	for i, a := range args {
		if a.size != k.params[i] {
			panic(fmt.Sprintf("cuda: %s: argument %d has %d bytes, the kernel's parameter %d", k.name, i, a.size, k.params[i]))
		}
		l.args[i] = a.bits
	}
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
func roundUp(a, b int) int { return ceilDiv(a, b) * b }
