package sample

import "math/bits"

// philox is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): ten rounds of two
// 32x32-bit products that turn a counter and a key into four random words.
func philox(c [4]uint32, k0, k1 uint32) [4]uint32 {
	c0, c1, c2, c3 := c[0], c[1], c[2], c[3]
	for range 10 {
		a, b := uint64(0xD2511F53)*uint64(c0), uint64(0xCD9E8D57)*uint64(c2)
		c0, c1, c2, c3 = uint32(b>>32)^c1^k0, uint32(b), uint32(a>>32)^c3^k1, uint32(a)
		k0 += 0x9E3779B9
		k1 += 0xBB67AE85
	}
	return [4]uint32{c0, c1, c2, c3}
}

// noiseWords returns the random words of the four tokens 4*group to 4*group+3 at position.
func noiseWords(seed uint64, position int, group uint32) [4]uint32 {
	p := uint64(position)
	return philox([4]uint32{group, uint32(p), uint32(p >> 32), 0}, uint32(seed), uint32(seed>>32))
}

// gumbel maps a random word to a standard Gumbel variate.
//
//	w = (v + 1/2) / 2^32     E = -log(1 - w)     G = -log(E)
//
// w and 1-w have at most 33 bits, so both are exact and never 0 or 1: G is finite, between gumbelMin and gumbelMax.
func gumbel(v uint32) float64 {
	w := float64((float64(v) + 0.5) * 0x1p-32)
	return -log(-log(1 - w))
}

// gumbelMax is above every value of gumbel: log(2^33) = 22.87...
const gumbelMax = 22.88

// gumbelBound is above gumbel(v), without a logarithm: E >= w > 2^-(z+1) where v has z leading zeros, so G < (z+1)·ln2.
func gumbelBound(v uint32) float64 {
	return float64(0.6932 * float64(bits.LeadingZeros32(v)+1))
}

// Noise returns the Gumbel noise of a token at an absolute position: word token&3 of Philox4x32-10 with the counter
// (token>>2, low and high 32 bits of position, 0) and the seed as key. It depends on nothing else.
func Noise(seed uint64, position int, token int32) float64 {
	return gumbel(noiseWords(seed, position, uint32(token)>>2)[token&3])
}
