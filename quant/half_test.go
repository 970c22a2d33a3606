package quant

import (
	"math"
	"testing"
)

func TestEveryHalfSurvivesARoundTrip(t *testing.T) {
	for i := range 1 << 16 {
		h := uint16(i)
		f := F16ToF32(h)
		if want := halfValue(h); float64(f) != want && !(f != f && want != want) || math.Signbit(float64(f)) != (h>>15 == 1) {
			t.Fatalf("%#04x: found %g, want %g", h, f, want)
		}
		want := h
		if f != f {
			want |= 0x200 // quiet
		}
		if got := F32ToF16(f); got != want {
			t.Fatalf("%#04x: %g came back as %#04x, want %#04x", h, f, got, want)
		}
	}
}

// halfValue evaluates the definition in float64.
func halfValue(h uint16) float64 {
	sign, exponent, fraction := 1-2*float64(h>>15), int(h>>10&31), float64(h&1023)
	switch {
	case exponent == 31 && fraction != 0:
		return math.NaN()
	case exponent == 31:
		return sign * math.Inf(1)
	case exponent == 0:
		return sign * math.Ldexp(fraction, -24)
	}
	return sign * math.Ldexp(1+fraction/1024, exponent-15)
}

func TestF32ToF16RoundsToTheNearestAndTiesToEven(t *testing.T) {
	for low := range uint16(0x7bff) { // every pair of neighbours below the largest half; the sum of two is exact
		middle := (F16ToF32(low) + F16ToF32(low+1)) / 2
		checkRounding(t, "F32ToF16", F32ToF16, low, middle, 0x8000)
	}
	for _, c := range []struct {
		f    float32
		want uint16
	}{
		{65504, 0x7bff},
		{math.Nextafter32(65520, 0), 0x7bff},
		{65520, 0x7c00},
		{-65520, 0xfc00},
		{math.MaxFloat32, 0x7c00},
		{float32(math.Inf(-1)), 0xfc00},
		{math.SmallestNonzeroFloat32, 0},
		{float32(math.Copysign(0, -1)), 0x8000},
	} {
		if got := F32ToF16(c.f); got != c.want {
			t.Errorf("%g: found %#04x, want %#04x", c.f, got, c.want)
		}
	}
}

func TestF32ToBF16RoundsToTheNearestAndTiesToEven(t *testing.T) {
	for low := range uint16(0x7f7f) {
		middle := math.Float32frombits(uint32(low)<<16 | 0x8000)
		checkRounding(t, "F32ToBF16", F32ToBF16, low, middle, 0x8000)
	}
	for i := range 1 << 16 {
		b := uint16(i)
		f, want := BF16ToF32(b), b
		if f != f {
			want |= 0x40
		}
		if got := F32ToBF16(f); got != want {
			t.Fatalf("%#04x: %g came back as %#04x, want %#04x", b, f, got, want)
		}
	}
	if got := F32ToBF16(math.MaxFloat32); got != 0x7f80 {
		t.Errorf("the largest float32: found %#04x, want infinity", got)
	}
	if f := math.Float32frombits(0x7f800001); BF16ToF32(F32ToBF16(f)) == BF16ToF32(F32ToBF16(f)) {
		t.Error("a NaN whose upper half is that of infinity came back as a number")
	}
}

// checkRounding converts the number between low and low+1, and its neighbours, for both signs.
func checkRounding(t *testing.T, name string, convert func(float32) uint16, low uint16, middle float32, sign uint16) {
	t.Helper()
	even := low + low&1
	for _, c := range []struct {
		f    float32
		want uint16
	}{
		{math.Nextafter32(middle, 0), low},
		{middle, even},
		{math.Nextafter32(middle, math.MaxFloat32), low + 1},
	} {
		if got := convert(c.f); got != c.want {
			t.Fatalf("%s(%g): found %#04x, want %#04x", name, c.f, got, c.want)
		}
		if got := convert(-c.f); got != c.want|sign {
			t.Fatalf("%s(%g): found %#04x, want %#04x", name, -c.f, got, c.want|sign)
		}
	}
}
