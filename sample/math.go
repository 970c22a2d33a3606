package sample

import (
	"math"
	"math/big"
)

// ln2 in two parts: ln2Hi has 28 bits, so that n*ln2Hi is exact for every n below 2^25; ln2Lo is the rest, rounded.
const (
	ln2Hi = 0x1.62e42fep-1
	ln2Lo = math.Ln2 - ln2Hi
)

// roots holds 2^(j/64), correctly rounded.
var roots = func() (t [64]float64) {
	root := new(big.Float).SetPrec(200).SetInt64(2)
	for range 6 {
		root.Sqrt(root)
	}
	power := new(big.Float).SetPrec(200).SetInt64(1)
	for j := range t {
		t[j], _ = power.Float64()
		power.Mul(power, root)
	}
	return t
}()

// exp returns e^x for x <= 0, and 0 for x < -708 (no subnormals): within 1e-15·|ref|.
//
// With n = round(64·x/ln2), n = 64k + j and r = x - n·ln2/64, e^x = 2^k·2^(j/64)·e^r; e^r - 1 is its Taylor polynomial
// of degree 5 by Horner's rule (|r| <= 0.0055, so the first term left out is below 4e-17). Every product is rounded
// before it is added.
func exp(x float64) float64 {
	if x < -708 {
		return 0
	}
	n := int64(float64(x*(64/math.Ln2)) - 0.5)
	nf := float64(n)
	r := (x - float64(nf*(ln2Hi/64))) - float64(nf*(ln2Lo/64))
	p := 1.0 / 120
	p = float64(p*r) + 1.0/24
	p = float64(p*r) + 1.0/6
	p = float64(p*r) + 0.5
	p = float64(p*r) + 1
	p = float64(p * r)
	root := roots[n&63]
	return float64((root + float64(root*p)) * math.Float64frombits(uint64(1023+n>>6)<<52))
}

// log returns the natural logarithm of a normal x > 0: within 1e-15·|ref|.
//
// With x = 2^k·m, m in [sqrt(1/2), sqrt(2)), f = m-1 (exact) and s = f/(2+f), log x = k·ln2 + 2·atanh(s); the series of
// atanh ends at s^23 (s^2 <= 0.0295, so the first term left out is below 2e-19·|2s|). Written as f - s·(f - R), with R the
// series after its first term, it keeps the exact f apart from the rounded rest. Every product is rounded before it is
// added.
func log(x float64) float64 {
	bits := math.Float64bits(x)
	k := int64(bits>>52) - 1023
	m := math.Float64frombits(bits&(1<<52-1) | 1023<<52)
	if m >= math.Sqrt2 {
		m /= 2
		k++
	}
	f := m - 1
	s := f / (2 + f)
	z := float64(s * s)
	p := 2.0 / 23
	p = float64(p*z) + 2.0/21
	p = float64(p*z) + 2.0/19
	p = float64(p*z) + 2.0/17
	p = float64(p*z) + 2.0/15
	p = float64(p*z) + 2.0/13
	p = float64(p*z) + 2.0/11
	p = float64(p*z) + 2.0/9
	p = float64(p*z) + 2.0/7
	p = float64(p*z) + 2.0/5
	p = float64(p*z) + 2.0/3
	// 2·atanh(s) = 2s + s·(z·p), and 2s = f - s·f.
	rest := float64(s * (f - float64(z*p)))
	kf := float64(k)
	return float64(kf*ln2Hi) + (f - (rest - float64(kf*ln2Lo)))
}
