// Package pagetest holds every device's memory of pages to the same promise: what is written comes back.
package pagetest

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"memra/compute"
)

// ComeBack writes, copies and reads pages of keys and values in each format, and of delta-nets, with heads of a width.
func ComeBack(t *testing.T, d compute.Device, headDim int, formats ...compute.KVFormat) {
	t.Helper()
	for _, f := range formats {
		t.Run(f.String(), func(t *testing.T) {
			shape := compute.KVShape{Layers: 3, Heads: 2, HeadDim: headDim, Format: f}
			m, err := d.NewKV(shape, pages)
			if err != nil {
				t.Fatal(err)
			}
			comeBack(t, m, shape.PageBytes())
		})
	}
	t.Run("delta-net", func(t *testing.T) {
		shape := compute.DeltaShape{Layers: 2, KeyHeads: 1, ValueHeads: 2, HeadDim: headDim, Taps: 4, Format: d.DeltaFormat()}
		m, err := d.NewDelta(shape, pages)
		if err != nil {
			t.Fatal(err)
		}
		comeBack(t, m, shape.PageBytes())
	})
}

const pages = 5

func comeBack(t *testing.T, m compute.PageMemory, size int) {
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
}
