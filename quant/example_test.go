package quant_test

import (
	"fmt"
	"log"

	"memra/gguf"
	"memra/quant"
)

func ExampleFor() {
	f, err := quant.For(gguf.Q4_0)
	if err != nil {
		log.Fatal(err)
	}
	row := make([]float32, 64)
	for i := range row {
		row[i] = float32(i%17 - 8)
	}
	size, err := f.RowBytes(len(row))
	if err != nil {
		log.Fatal(err)
	}
	blocks := make([]byte, size)
	f.Quantize(blocks, row, nil)
	f.Dequantize(row, blocks)
	fmt.Println(size, "bytes", row[:10], row[16:19])
	// Output: 36 bytes [-8 -7 -6 -5 -4 -3 -2 -1 0 1] [7 -8 -7]
}
