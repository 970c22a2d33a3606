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
	name:             "AVX-512 VNNI",
	dot:              dotAVX512,
	quantizeRow:      quantizer(quantizeRowAVX512),
	sumSquares:       squarer(sumSquaresAVX512),
	scale:            scaler(scaleAVX512),
	add:              elementwise(addAVX512, addGo),
	swiglu:           elementwise(swigluAVX512, swigluGo),
	geglu:            elementwise(gegluAVX512, gegluGo),
	bend:             bender(bendAVX512),
	addProducts:      elementwise(addProductsAVX512, addProductsGo),
	sigmoid:          elementwise(sigmoidAVX512, sigmoidGo),
	decay:            decayer(decayAVX512),
	addMatrix:        matrixAdder(addMatrix1AVX512, addMatrix2AVX512, addMatrix3AVX512, addMatrix4AVX512),
	rotateHalves:     rotateHalvesAVX,
	rotateNeighbours: rotateNeighboursAVX,
	halve:            halveAVX,
	spread:           spreadAVX,
	widen:            widenAVX,
	scores:           scorer(scores1AVX512, scores2AVX512, scores3AVX512, scores4AVX512),
	scoresFull:       scorerFull(scoresFull1AVX512, scoresFull2AVX512, scoresFull3AVX512, scoresFull4AVX512),
	softmax:          softmaxer(softmaxAVX512),
	values:           valuer(values1AVX512, values2AVX512, values3AVX512, values4AVX512),
	valuesFull:       valuerFull(valuesFull1AVX512, valuesFull2AVX512, valuesFull3AVX512, valuesFull4AVX512),
	largest:          largester(largestAVX512),
}

var avx2Kernels = kernels{
	name:             "AVX2",
	dot:              dotAVX2,
	quantizeRow:      quantizer(quantizeRowAVX2),
	sumSquares:       squarer(sumSquaresAVX2),
	scale:            scaler(scaleAVX2),
	add:              elementwise(addAVX2, addGo),
	swiglu:           elementwise(swigluAVX2, swigluGo),
	geglu:            elementwise(gegluAVX2, gegluGo),
	bend:             bender(bendAVX2),
	addProducts:      elementwise(addProductsAVX2, addProductsGo),
	sigmoid:          elementwise(sigmoidAVX2, sigmoidGo),
	decay:            decayer(decayAVX2),
	addMatrix:        matrixAdder(addMatrix1AVX2, addMatrix2AVX2),
	rotateHalves:     rotateHalvesAVX,
	rotateNeighbours: rotateNeighboursAVX,
	halve:            halveAVX,
	spread:           spreadAVX,
	widen:            widenAVX,
	scores:           scorer(scores1AVX2, scores2AVX2),
	scoresFull:       scorerFull(scoresFull1AVX2, scoresFull2AVX2),
	softmax:          softmaxer(softmaxAVX2),
	values:           valuer(values1AVX2, values2AVX2),
	valuesFull:       valuerFull(valuesFull1AVX2, valuesFull2AVX2),
	largest:          largester(largestAVX2),
}
