package cpu

import (
	"testing"

	"memra/compute"
	"memra/compute/internal/pagetest"
)

func TestPagesComeBackAsTheyWereWritten(t *testing.T) {
	d, err := Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	pagetest.ComeBack(t, d, 16, compute.KVF16, compute.KVF32)
}
