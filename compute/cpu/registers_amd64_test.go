//go:build !noasm

package cpu

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The generator knows thirty-two registers, and forms of old instructions that AVX-512 added. A kernel for AVX2 that is given
// either runs here, and is an illegal instruction on a machine without AVX-512.
func TestKernelsForAVX2NeedNoAVX512(t *testing.T) {
	requires := regexp.MustCompile(`// func (\w+)\(.*\n// Requires: (.*)\n`)
	upper := regexp.MustCompile(`\b([XY](1[6-9]|2\d|3[01])|Z\d+|K\d)\b`)
	for _, file := range []string{"dot_amd64.s", "vector_amd64.s"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		kernels := 0
		for _, function := range strings.Split(string(text), "\nTEXT ·")[1:] {
			name, code, _ := strings.Cut(function, "(SB)")
			if strings.HasSuffix(name, "AVX512") {
				continue
			}
			kernels++
			if at := upper.FindString(code); at != "" {
				t.Errorf("%s: %s uses %s", file, name, at)
			}
		}
		for _, m := range requires.FindAllStringSubmatch(string(text), -1) {
			if !strings.HasSuffix(m[1], "AVX512") && strings.Contains(m[2], "AVX512") {
				t.Errorf("%s: %s requires %s", file, m[1], m[2])
			}
		}
		if kernels == 0 {
			t.Errorf("%s: no kernel is for AVX2", file)
		}
	}
}
