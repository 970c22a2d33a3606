package devices

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"memra/compute"
	"memra/compute/cuda"
)

// named is a device that is nothing but a name.
type named struct {
	compute.Device
	name string
}

func (n named) Name() string { return n.name }

func TestAutoIsTheGPUWhereOneWorksAndElseTheCPUWithTheReason(t *testing.T) {
	none := fmt.Errorf("%w: no driver; install one", cuda.ErrNoGPU)
	old := errors.New("cuda: the NVIDIA driver supports CUDA 12.4; install 580")
	for _, c := range []struct {
		device string
		kv     compute.KVFormat
		gpu    error // why there is none
		want   string
		log    string // words, level first
		err    string
	}{
		{device: "auto", want: "cuda 0"},
		{device: "", want: "cuda 0"},
		{device: "auto", gpu: none, want: "cpu 3", log: "INFO computing on the CPU no driver; install one"},
		{device: "auto", gpu: old, want: "cpu 3", log: "WARN computing on the CPU CUDA 12.4; install 580"},
		{device: "auto", kv: compute.KVF32, want: "cpu 3", log: "INFO computing on the CPU f16 f32"},
		{device: "auto", kv: compute.KVQ8, want: "cuda 0"},
		{device: "cpu", want: "cpu 3"},
		{device: "cuda", want: "cuda 0"},
		{device: "cuda:2", want: "cuda 2"},
		{device: "cuda", gpu: none, err: "no driver; install one"},
		{device: "cuda:7", gpu: old, err: "CUDA 12.4"},
		{device: "cuda:", err: `device "cuda:", want auto, cpu, cuda or cuda:N`},
		{device: "cuda:-1", err: `device "cuda:-1"`},
		{device: "cuda:01", err: `device "cuda:01"`},
		{device: "CUDA", err: `device "CUDA"`},
	} {
		t.Run(fmt.Sprintf("%q, %v", c.device, c.gpu), func(t *testing.T) {
			var log strings.Builder
			b := backends{
				cpu: func(threads int) (compute.Device, error) { return named{name: fmt.Sprint("cpu ", threads)}, nil },
				cuda: func(index int) (compute.Device, error) {
					return named{name: fmt.Sprint("cuda ", index)}, c.gpu
				},
			}
			d, err := b.open(c.device, Options{Threads: 3, KV: c.kv, Log: slog.New(slog.NewTextHandler(&log, nil))})
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("error %v, want one with %q", err, c.err)
				}
				return
			}
			if err != nil || d.Name() != c.want {
				t.Fatalf("%v, %v; want %s", d, err, c.want)
			}
			if n := strings.Count(log.String(), "\n"); (c.log == "") != (n == 0) || n > 1 {
				t.Errorf("log %q", log.String())
			}
			for _, word := range strings.Fields(c.log) {
				if !strings.Contains(log.String(), word) {
					t.Errorf("log %q does not say %q", log.String(), word)
				}
			}
		})
	}
}

func TestTheCPUIsAlwaysThere(t *testing.T) {
	d, err := Open("cpu", Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if d.Class() != "cpu" {
		t.Errorf("class %q", d.Class())
	}
}
