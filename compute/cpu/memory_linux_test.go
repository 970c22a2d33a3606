package cpu

import (
	"os"
	"path/filepath"
	"testing"

	"memra/compute"
)

func TestMemoryIsTheMachinesOrWhatTheControlGroupLeaves(t *testing.T) {
	const giB = 1 << 30
	machine := compute.Memory{Free: 20 * giB, Total: 24 * giB, Lazy: true}
	for _, c := range []struct {
		name  string
		files map[string]string
		want  compute.Memory
	}{
		{"no control group", nil, machine},
		{"no limit", map[string]string{"memory.max": "max\n", "memory.current": "5\n"}, machine},
		{"a limit above the machine's", map[string]string{"memory.max": "99999999999999\n", "memory.current": "5\n"}, machine},
		{"a limit", map[string]string{"memory.max": "8589934592\n", "memory.current": "3221225472\n"}, compute.Memory{Free: 5 * giB, Total: 8 * giB, Lazy: true}},
		{"a limit, with cached files", map[string]string{"memory.max": "8589934592\n", "memory.current": "3221225472\n",
			"memory.stat": "anon 5\nactive_file 1073741824\ninactive_file 1073741824\n"}, compute.Memory{Free: 7 * giB, Total: 8 * giB, Lazy: true}},
		{"a limit that is exceeded", map[string]string{"memory.max": "1073741824\n", "memory.current": "3221225472\n"}, compute.Memory{Total: giB, Lazy: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			group := t.TempDir()
			for name, text := range c.files {
				if err := os.WriteFile(filepath.Join(group, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := limited(machine, group); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
		})
	}
}

func TestMeminfoIsReadInKilobytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "meminfo")
	if err := os.WriteFile(path, []byte("MemTotal:       16 kB\nMemFree:         1 kB\nMemAvailable:    8 kB\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := meminfo(path); err != nil || got != (compute.Memory{Free: 8192, Total: 16384, Lazy: true}) {
		t.Errorf("%+v, %v", got, err)
	}
	if err := os.WriteFile(path, []byte("MemTotal: 16 kB\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := meminfo(path); err == nil {
		t.Error("a machine without available memory, want an error")
	}
}
