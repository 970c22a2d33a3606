package cuda

import (
	"embed"
	"fmt"
	"io/fs"

	"memra/compute/cuda/internal/artefact"
)

//go:embed kernels/built
var embedded embed.FS

// built is the folder of artefacts.
func built() fs.FS {
	dir, err := fs.Sub(embedded, "kernels/built")
	if err != nil {
		panic(err) // the path is a constant
	}
	return dir
}

// targetFor is the machine code that a GPU of a compute capability runs, "" if there is none. Code for 8.6 runs on 8.7, for 10.0
// on 10.3, but not on the next major version, and sm_90a only on 9.0; GPUs newer than the code get PTX, which their driver
// compiles.
func targetFor(major, minor int) string {
	switch {
	case major == 8 && minor >= 9:
		return "sm_89"
	case major == 8 && minor >= 6:
		return "sm_86"
	case major == 8:
		return "sm_80"
	case major == 9:
		return "sm_90a"
	case major == 10:
		return "sm_100"
	case major == 12:
		return "sm_120"
	case major > 10:
		return "compute_100"
	}
	return ""
}

// loadModules loads every unit that has code for the GPU, and finds its kernels.
func (d *Device) loadModules() error {
	units, err := artefact.Read(built())
	if err != nil {
		return err
	}
	d.kernels = map[string]*kernel{}
	for i := range units {
		u := &units[i]
		c := u.For(d.target)
		if c == nil {
			continue
		}
		image, err := artefact.Load(built(), u, c)
		if err != nil {
			return err
		}
		m, s := d.driver.moduleLoad(image)
		if err := check(d.driver, s, "cuModuleLoadData(%s for %s)", u.Name, d.target); err != nil {
			return fmt.Errorf("%w; the kernels were compiled by CUDA %s: is the driver older?", err, u.Compiler)
		}
		d.modules = append(d.modules, m)
		for _, k := range u.Kernels {
			f, s := d.driver.moduleFunction(m, k.Name)
			if err := check(d.driver, s, "cuModuleGetFunction(%s)", k.Name); err != nil {
				return err
			}
			d.kernels[k.Name] = &kernel{name: k.Name, params: k.Params, shared: 40 << 10, function: f, dependent: d.major >= 9}
		}
	}
	return nil
}

// kernel finds a kernel; a name that no unit has is a fault of this package.
func (d *Device) kernel(name string) *kernel {
	k := d.kernels[name]
	if k == nil {
		panic(fmt.Sprintf("cuda: no kernel %s for %s", name, d.target))
	}
	return k
}
