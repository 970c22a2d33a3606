package cuda

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"memra/compute"
)

func TestPagesComeBackAsTheyWereWritten(t *testing.T) {
	d := gpu(t)
	const pages = 5
	kv := func(f compute.KVFormat) func() (compute.PageMemory, int) {
		return func() (compute.PageMemory, int) {
			shape := compute.KVShape{Layers: 3, Heads: 2, HeadDim: 64, Format: f}
			m, err := d.NewKV(shape, pages)
			if err != nil {
				t.Fatal(err)
			}
			return m, shape.PageBytes()
		}
	}
	delta := func() (compute.PageMemory, int) {
		shape := compute.DeltaShape{Layers: 2, KeyHeads: 1, ValueHeads: 2, HeadDim: 64, Taps: 4, Format: d.DeltaFormat()}
		m, err := d.NewDelta(shape, pages)
		if err != nil {
			t.Fatal(err)
		}
		return m, shape.PageBytes()
	}
	for name, reserve := range map[string]func() (compute.PageMemory, int){
		"f16": kv(compute.KVF16), "q8_0": kv(compute.KVQ8), "fp8": kv(compute.KVE4M3), "delta-net": delta} {
		t.Run(name, func(t *testing.T) {
			m, size := reserve()
			defer m.Close()
			rng := rand.NewChaCha8([32]byte{1})
			want := make([][]byte, pages)
			for page := range want {
				want[page] = make([]byte, size)
				rng.Read(want[page])
				if err := m.Write(page, want[page]); err != nil {
					t.Fatal(err)
				}
			}
			m.Copy(1, 3)
			want[1] = want[3]
			for page := range want {
				got := make([]byte, size)
				if err := m.Read(page, got); err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(got, want[page]) {
					t.Errorf("page %d comes back otherwise", page)
				}
			}
			if m.Read(pages, want[0]) == nil || m.Write(-1, want[0]) == nil || m.Read(0, want[0][1:]) == nil {
				t.Error("a page that is not there, or of another size, is no error")
			}
		})
	}
}

func TestAPageThatDoesNotComeIsAFault(t *testing.T) {
	f := newFake()
	d := openFake(t, f)
	shape := compute.KVShape{Layers: 1, Heads: 1, HeadDim: 64}
	m, err := d.NewKV(shape, 2)
	if err != nil {
		t.Fatal(err)
	}
	data := make([]byte, shape.PageBytes())
	if err := m.Read(1, data); err != nil {
		t.Fatal(err)
	}
	f.fails["cuMemcpyHtoDAsync"] = 700
	mentions(t, m.Write(1, data), "cuMemcpyHtoDAsync(16384 bytes)", "ILLEGAL_ADDRESS")
	mentions(t, m.Read(1, data), "failed earlier")
}
