// Command dot writes the assembly of matmul: dot kernels that multiply a group of 16 packed outputs by a tile of rows.
//
// compute/cpu/dot.go says what they compute, to the bit; pack32.go and pack256.go there how the weights lie. A kernel is
// composed: kernel.go holds the loops and the float32 arithmetic, avx512.go and avx2.go the integers, float.go the kernels of
// float weights.
package main

import (
	"flag"
	"fmt"
	"os"

	. "github.com/mmcloughlin/avo/build"
)

func main() {
	check := flag.String("check", "dot_offsets_amd64.go", "where to write the Go file that compiles only if panelBlock has the offsets used here")
	flag.Parse()
	ConstraintExpr("amd64,!noasm")
	for _, set := range []isa{&avx512{}, &avx2{}} {
		set.constants()
		for _, f := range formats {
			for _, rows := range set.tiles(f) {
				quantised(set, f, rows)
			}
		}
		for _, f := range floats {
			for _, rows := range set.floatTiles() {
				float(set, f, rows)
			}
		}
	}
	if err := os.WriteFile(*check, []byte(offsetCheck), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, "dot:", err)
		os.Exit(1)
	}
	Generate()
}
