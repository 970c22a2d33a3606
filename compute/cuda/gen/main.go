// Command gen compiles the kernels of package cuda: tools/cuda-build calls it with the compiler.
//
// It compiles the units whose sources, flags or compiler have changed since their artefacts were made, for every target, and
// removes the artefacts of units that are gone. With -check it writes nothing and fails if a fresh build of any unit differs.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"

	"memra/compute/cuda/internal/artefact"
)

func main() {
	nvcc := flag.String("nvcc", "nvcc", "the compiler, of CUDA 13.0")
	dir := flag.String("kernels", "compute/cuda/kernels", "folder of the sources; artefacts go to built in it")
	check := flag.Bool("check", false, "compile everything and compare with what is there")
	flag.Parse()
	if err := run(*nvcc, *dir, *check); err != nil {
		fmt.Fprintln(os.Stderr, "cuda-build:", err)
		os.Exit(1)
	}
}

func run(nvcc, dir string, check bool) error {
	out, err := exec.Command(nvcc, "--version").Output()
	if err != nil {
		return fmt.Errorf("%s --version: %w", nvcc, err)
	}
	m := regexp.MustCompile(`V(\d+\.\d+\.\d+)`).FindSubmatch(out)
	if m == nil {
		return fmt.Errorf("%s --version says no version", nvcc)
	}
	b := builder{nvcc: nvcc, dir: dir, compiler: string(m[1]), check: check}
	sources, err := filepath.Glob(filepath.Join(dir, "*.cu"))
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	limit := make(chan struct{}, runtime.GOMAXPROCS(0))
	errs := make([]error, len(sources))
	var units []string
	for i, src := range sources {
		unit := strings.TrimSuffix(filepath.Base(src), ".cu")
		units = append(units, unit)
		wg.Go(func() { errs[i] = b.build(unit, limit) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil || check {
		return err
	}
	built, err := filepath.Glob(filepath.Join(dir, "built", "*"))
	for _, path := range built {
		name := filepath.Base(path)
		if !slices.Contains(units, strings.TrimSuffix(name, filepath.Ext(name))) {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}

type builder struct {
	nvcc, dir, compiler string
	check               bool
}

// build brings the artefact of one unit up to date; limit is how many compilers run.
func (b *builder) build(name string, limit chan struct{}) error {
	hash, err := artefact.Hash(os.DirFS(b.dir), name, b.compiler)
	if err != nil {
		return err
	}
	path := filepath.Join(b.dir, "built", name)
	old, err := artefact.Read(os.DirFS(filepath.Dir(path)))
	if err != nil {
		return err
	}
	if !b.check && slices.ContainsFunc(old, func(u artefact.Unit) bool { return u.Name == name && u.Hash == hash }) {
		if _, err := os.Stat(path + ".bin"); err == nil {
			return nil
		}
	}
	src, err := os.ReadFile(filepath.Join(b.dir, name+".cu"))
	if err != nil {
		return err
	}
	targets := artefact.UnitTargets(src)
	code, errs := make([][]byte, len(targets)), make([]error, len(targets))
	var wg sync.WaitGroup
	for i, target := range targets {
		wg.Go(func() {
			limit <- struct{}{}
			defer func() { <-limit }()
			code[i], errs[i] = b.compile(name, target)
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	u := artefact.Unit{Name: name, Hash: hash, Compiler: b.compiler, Flags: artefact.Flags}
	for i, c := range code {
		if !strings.HasPrefix(targets[i], "sm_") {
			continue
		}
		kernels, err := artefact.Kernels(c)
		if err != nil {
			return fmt.Errorf("%s for %s: %w", name, targets[i], err)
		}
		if u.Kernels != nil && !reflect.DeepEqual(u.Kernels, kernels) {
			return fmt.Errorf("%s: %s has other kernels or parameters than %s", name, targets[i], targets[0])
		}
		u.Kernels = kernels
	}
	manifest, bin, err := artefact.Write(&u, targets, code)
	if err != nil {
		return err
	}
	if b.check {
		was, err := os.ReadFile(path + ".json")
		if err == nil && !bytes.Equal(was, manifest) {
			err = fmt.Errorf("%s: a fresh build differs from %s.json; run tools/cuda-build", name, path)
		}
		return err
	}
	if err := os.WriteFile(path+".bin", bin, 0o644); err != nil {
		return err
	}
	fmt.Printf("%s: %d kernels, %d targets, %d bytes\n", name, len(u.Kernels), len(targets), len(bin))
	return os.WriteFile(path+".json", manifest, 0o644)
}

// compile returns the cubin for sm_*, the PTX for compute_*.
func (b *builder) compile(unit, target string) ([]byte, error) {
	tmp, err := os.MkdirTemp("", "memra-cuda-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	out := filepath.Join(tmp, "out")
	args := append([]string{}, artefact.Flags...)
	if arch, ok := strings.CutPrefix(target, "sm_"); ok {
		args = append(args, "-cubin", "-gencode", "arch=compute_"+arch+",code=sm_"+arch)
	} else {
		args = append(args, "-ptx", "-arch="+target)
	}
	c := exec.Command(b.nvcc, append(args, "-o", out, unit+".cu")...)
	c.Dir = b.dir // so that the code does not know where the checkout lies
	if text, err := c.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s for %s: %w\n%s", unit, target, err, text)
	}
	return os.ReadFile(out)
}
