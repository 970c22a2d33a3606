package cuda

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"memra/compute/cuda/internal/artefact"
)

func TestArtefactsAreWhatTheSourcesSay(t *testing.T) {
	units, err := artefact.Read(built())
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]bool{}
	paths, _ := filepath.Glob("kernels/*.cu")
	for _, p := range paths {
		sources[strings.TrimSuffix(filepath.Base(p), ".cu")] = true
	}
	names := map[string]string{} // unit of each kernel
	for _, u := range units {
		t.Run(u.Name, func(t *testing.T) {
			if !sources[u.Name] {
				t.Fatalf("there is no kernels/%s.cu; run tools/cuda-build", u.Name)
			}
			delete(sources, u.Name)
			hash, err := artefact.Hash(os.DirFS("kernels"), u.Name, u.Compiler)
			if err != nil {
				t.Fatal(err)
			}
			if hash != u.Hash || !reflect.DeepEqual(u.Flags, artefact.Flags) {
				t.Errorf("sources, flags or targets have changed since %s was compiled; run tools/cuda-build", u.Name)
			}
			src, _ := os.ReadFile("kernels/" + u.Name + ".cu")
			if n := len(artefact.UnitTargets(src)); len(u.Code) != n {
				t.Errorf("%d targets, want %d", len(u.Code), n)
			}
			for _, c := range u.Code {
				code, err := artefact.Load(built(), &u, &c)
				if err != nil {
					t.Fatal(err)
				}
				if !strings.HasPrefix(c.Target, "sm_") {
					for _, k := range u.Kernels {
						if !strings.Contains(string(code), ".entry "+k.Name+"(") {
							t.Errorf("the PTX for %s has no kernel %s", c.Target, k.Name)
						}
					}
					continue
				}
				kernels, err := artefact.Kernels(code)
				if err != nil {
					t.Fatal(err)
				}
				if !reflect.DeepEqual(kernels, u.Kernels) {
					t.Errorf("kernels of the code for %s: %v, the manifest says %v", c.Target, kernels, u.Kernels)
				}
			}
		})
		for _, k := range u.Kernels {
			if other, ok := names[k.Name]; ok {
				t.Errorf("kernel %s is in units %s and %s", k.Name, other, u.Name)
			}
			names[k.Name] = u.Name
		}
	}
	for s := range sources {
		t.Errorf("kernels/%s.cu has no artefact; run tools/cuda-build", s)
	}
}

func TestEmbeddedArtefactsStaySmall(t *testing.T) {
	total := 0
	for _, pattern := range []string{"kernels/built/*.bin", "kernels/built/*.json"} {
		paths, _ := filepath.Glob(pattern)
		for _, p := range paths {
			info, err := os.Stat(p)
			if err != nil {
				t.Fatal(err)
			}
			total += int(info.Size())
		}
	}
	const most = 30 << 20 // of the binary's 60 MB
	if total > most {
		t.Errorf("artefacts take %d bytes, want at most %d", total, most)
	}
}

func TestEveryGPUSinceAmpereHasCode(t *testing.T) {
	for _, c := range []struct {
		major, minor int
		want         string
	}{{7, 5, ""}, {8, 0, "sm_80"}, {8, 6, "sm_86"}, {8, 7, "sm_86"}, {8, 9, "sm_89"}, {9, 0, "sm_90a"}, {10, 0, "sm_100"}, {10, 3, "sm_100"}, {11, 0, "compute_100"}, {12, 0, "sm_120"}, {12, 1, "sm_120"}, {13, 0, "compute_100"}} {
		if got := targetFor(c.major, c.minor); got != c.want {
			t.Errorf("%d.%d: %q, want %q", c.major, c.minor, got, c.want)
		}
	}
}
