//go:build amd64 && !noasm

package cpu

import "github.com/klauspost/cpuid/v2"

// A feature counts when both the processor and the operating system give it, which is what cpuid reports.
func init() {
	var usable []*kernels
	if cpuid.CPU.Supports(cpuid.AVX512F, cpuid.AVX512BW, cpuid.AVX512VL, cpuid.AVX512DQ, cpuid.AVX512VNNI, cpuid.AVX2, cpuid.F16C) {
		usable = append(usable, &avx512Kernels)
	}
	if cpuid.CPU.Supports(cpuid.AVX2, cpuid.F16C) {
		usable = append(usable, &avx2Kernels)
	}
	sets = append(usable, sets...)
}

var avx512Kernels = kernels{
	name:        "AVX-512 VNNI",
	dot:         dotAVX512,
	quantizeRow: quantizeRowGo,
	sumSquares:  sumSquaresGo,
	scale:       scaleGo,
	add:         addGo,
	swiglu:      swigluGo,
	geglu:       gegluGo,
	scores:      scoresGo[half],
	softmax:     softmaxGo,
	values:      valuesGo[half],
}

var avx2Kernels = kernels{
	name:        "AVX2",
	dot:         dotAVX2,
	quantizeRow: quantizeRowGo,
	sumSquares:  sumSquaresGo,
	scale:       scaleGo,
	add:         addGo,
	swiglu:      swigluGo,
	geglu:       gegluGo,
	scores:      scoresGo[half],
	softmax:     softmaxGo,
	values:      valuesGo[half],
}
