package gguf_test

import (
	"fmt"
	"log"

	"memra/gguf"
)

func ExampleOpen() {
	f, err := gguf.Open("testdata/values.gguf")
	if err != nil {
		log.Fatal(err)
	}
	defer f.Close()
	family, err := f.Meta.String("general.architecture")
	fmt.Println(family, err)
	_, err = f.Meta.Int("one.string")
	fmt.Println(err)
	for _, t := range f.Tensors {
		fmt.Println(t.Name, t.Type, t.Shape, len(t.Data), "bytes")
	}
	// Output:
	// test <nil>
	// gguf: testdata/values.gguf: metadata key "one.string": found string, want an integer
	// cube F32 [2 3 4] 96 bytes
	// half F16 [3 4] 24 bytes
	// blocks Q8_0 [3 64] 204 bytes
	// ids I32 [2] 8 bytes
}
