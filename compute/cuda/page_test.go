package cuda

import (
	"testing"

	"memra/compute"
	"memra/compute/internal/pagetest"
)

func TestPagesComeBackAsTheyWereWritten(t *testing.T) {
	pagetest.ComeBack(t, gpu(t), 64, compute.KVF16, compute.KVQ8, compute.KVE4M3)
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
