// Package artefact is the compiled form of kernels: what tools/cuda-build writes and package cuda embeds.
//
// A unit is one .cu file. Its artefact is two files in kernels/built: NAME.json, the manifest, and NAME.bin, the machine code
// for each target, compressed. The manifest's hash covers the source, the headers it includes, the flags and the compiler, so
// a test without a GPU or a compiler proves that what is embedded is what the sources say.
package artefact

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"regexp"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// Flags are what every unit is compiled with, but for the target. -fmad=false: nothing fuses that the source does not fuse.
var Flags = []string{"-std=c++17", "-O3", "-fmad=false"}

// Targets are what a unit is compiled for, unless it says otherwise in a line "// Targets  sm_90a": machine code, and the
// PTX of compute_100, which later GPUs' drivers compile.
var Targets = []string{"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100", "sm_120", "compute_100"}

// Unit is the manifest of one compiled .cu file.
type Unit struct {
	Name     string   `json:"name"`
	Hash     string   `json:"hash"`     // SHA-256 of sources, flags, targets and compiler, as Hash gives it
	Compiler string   `json:"compiler"` // of nvcc: "13.0.88"
	Flags    []string `json:"flags"`
	Kernels  []Kernel `json:"kernels"` // sorted by name
	Code     []Code   `json:"code"`    // in the order of the targets
}

// Kernel is one entry of a unit: the bytes of its parameters, in order.
type Kernel struct {
	Name   string `json:"name"`
	Params []int  `json:"params"`
}

// Code is the machine code, or PTX, for one target within the unit's .bin.
type Code struct {
	Target string `json:"target"`
	Offset int    `json:"offset"` // in the .bin
	Length int    `json:"length"` // compressed
	Size   int    `json:"size"`   // as the driver takes it
	SHA256 string `json:"sha256"` // of that
}

// Read reads the manifests of a folder, sorted by name.
func Read(dir fs.FS) ([]Unit, error) {
	names, err := fs.Glob(dir, "*.json")
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	units := make([]Unit, len(names))
	for i, name := range names {
		data, err := fs.ReadFile(dir, name)
		if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, &units[i]); err != nil {
			return nil, fmt.Errorf("artefact: %s: %w", name, err)
		}
	}
	return units, nil
}

// For returns the code for a target, nil if the unit has none.
func (u *Unit) For(target string) *Code {
	for i := range u.Code {
		if u.Code[i].Target == target {
			return &u.Code[i]
		}
	}
	return nil
}

// Load decompresses the code of a unit for a target and checks it.
func Load(dir fs.FS, u *Unit, c *Code) ([]byte, error) {
	data, err := fs.ReadFile(dir, u.Name+".bin")
	if err != nil {
		return nil, err
	}
	if c.Offset < 0 || c.Length < 0 || c.Offset+c.Length > len(data) {
		return nil, fmt.Errorf("artefact: %s for %s: bytes %d to %d of %d; run tools/cuda-build", u.Name, c.Target, c.Offset, c.Offset+c.Length, len(data))
	}
	d, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1))
	if err != nil {
		return nil, err
	}
	defer d.Close()
	code, err := d.DecodeAll(data[c.Offset:c.Offset+c.Length], nil)
	if err != nil {
		return nil, fmt.Errorf("artefact: %s for %s: %w", u.Name, c.Target, err)
	}
	if sum := sha256.Sum256(code); len(code) != c.Size || hex.EncodeToString(sum[:]) != c.SHA256 {
		return nil, fmt.Errorf("artefact: %s for %s: %d bytes of SHA-256 %x, want %d of %s; run tools/cuda-build", u.Name, c.Target, len(code), sum, c.Size, c.SHA256)
	}
	return code, nil
}

// Write is the opposite of Read and Load: the two files of a unit, whose Code it fills in.
func Write(u *Unit, targets []string, code [][]byte) (manifest, bin []byte, err error) {
	e, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return nil, nil, err
	}
	defer e.Close()
	u.Code = nil
	for i, c := range code {
		sum := sha256.Sum256(c)
		at := len(bin)
		bin = e.EncodeAll(c, bin)
		u.Code = append(u.Code, Code{Target: targets[i], Offset: at, Length: len(bin) - at, Size: len(c), SHA256: hex.EncodeToString(sum[:])})
	}
	manifest, err = json.MarshalIndent(u, "", "\t")
	return append(manifest, '\n'), bin, err
}

var (
	include = regexp.MustCompile(`(?m)^#include "([^"]+)"`)
	targets = regexp.MustCompile(`(?m)^// Targets +(.+)$`)
)

// UnitTargets is what a unit's source is to be compiled for.
func UnitTargets(src []byte) []string {
	if m := targets.FindSubmatch(src); m != nil {
		return strings.Fields(string(m[1]))
	}
	return Targets
}

// Hash is the fingerprint of what a unit's artefact is made from: its source, the headers that it includes, flags, targets,
// compiler.
func Hash(dir fs.FS, unit, compiler string) (string, error) {
	var files []string
	text := map[string][]byte{}
	var visit func(name string) error
	visit = func(name string) error {
		if _, ok := text[name]; ok {
			return nil
		}
		data, err := fs.ReadFile(dir, name)
		if err != nil {
			return err
		}
		text[name] = data
		files = append(files, name)
		for _, m := range include.FindAllSubmatch(data, -1) {
			if err := visit(string(m[1])); err != nil {
				return err
			}
		}
		return nil
	}
	if err := visit(unit + ".cu"); err != nil {
		return "", err
	}
	slices.Sort(files)
	var all bytes.Buffer
	fmt.Fprintf(&all, "nvcc %s %q %q\n", compiler, Flags, UnitTargets(text[unit+".cu"]))
	for _, name := range files {
		fmt.Fprintf(&all, "%s %d\n%s", name, len(text[name]), text[name])
	}
	sum := sha256.Sum256(all.Bytes())
	return hex.EncodeToString(sum[:]), nil
}
