package cpu

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"

	"memra/compute"
)

// Memory is the machine's, or what the control group that the process runs in leaves of it. Everything is mapped and taken
// as it is written.
func (d *Device) Memory() (compute.Memory, error) {
	m, err := meminfo("/proc/meminfo")
	if err != nil {
		return m, err
	}
	return limited(m, "/sys/fs/cgroup"), nil
}

// meminfo reads what the kernel says of the machine's memory.
func meminfo(path string) (compute.Memory, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return compute.Memory{}, fmt.Errorf("cpu: memory of the machine: %w", err)
	}
	kilobytes := map[string]int{}
	for line := range strings.Lines(string(data)) {
		if f := strings.Fields(line); len(f) >= 2 {
			kilobytes[f[0]], _ = strconv.Atoi(f[1])
		}
	}
	m := compute.Memory{Free: kilobytes["MemAvailable:"] << 10, Total: kilobytes["MemTotal:"] << 10, Lazy: true}
	if m.Free == 0 || m.Total == 0 {
		return m, fmt.Errorf("cpu: %s has no MemAvailable and MemTotal", path)
	}
	return m, nil
}

// limited applies a control group's limit (version 2), if there is one: its file cache can be given up, so it counts as free.
func limited(m compute.Memory, group string) compute.Memory {
	read := func(name string) (int, bool) {
		data, err := os.ReadFile(group + "/" + name)
		n, e := strconv.Atoi(string(bytes.TrimSpace(data)))
		return n, err == nil && e == nil
	}
	limit, ok := read("memory.max")
	used, known := read("memory.current")
	if !ok || !known || limit >= m.Total {
		return m
	}
	if stat, err := os.ReadFile(group + "/memory.stat"); err == nil {
		for line := range strings.Lines(string(stat)) {
			if name, value, _ := strings.Cut(strings.TrimSpace(line), " "); name == "inactive_file" || name == "active_file" {
				if n, err := strconv.Atoi(value); err == nil {
					used -= n
				}
			}
		}
	}
	m.Total, m.Free = limit, min(m.Free, max(0, limit-max(0, used)))
	return m
}
