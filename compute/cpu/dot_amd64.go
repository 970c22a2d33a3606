//go:build amd64 && !noasm

package cpu

// The dot kernels of the two instruction sets.
var (
	dotAVX512 = goKernels.dot
	dotAVX2   = goKernels.dot
)
