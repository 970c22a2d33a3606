package cuda

import (
	"fmt"
	"math"
	"testing"

	"memra/compute"
	"memra/compute/cpu"
)

func TestNormsAgreeWithFloat64(t *testing.T) {
	d := gpu(t)
	for _, width := range []int{8, 64, 576, 4096, 5120} {
		const rows, eps = 5, 1e-6
		x, y, g := random(rows*width, 1), random(rows*width, 2), random(width, 3)
		gain := d.Vector(g)
		var sum, norm, plain []float64
		for r := range rows {
			var squares, alone float64
			for i := range width {
				s := float64(x[r*width+i] + y[r*width+i])
				sum = append(sum, s)
				squares += s * s
				alone += float64(x[r*width+i]) * float64(x[r*width+i])
			}
			for i := range width {
				norm = append(norm, float64(g[i])*sum[r*width+i]/math.Sqrt(squares/float64(width)+eps))
				plain = append(plain, float64(g[i])*float64(x[r*width+i])/math.Sqrt(alone/float64(width)+eps))
			}
		}
		add := func(first bool) []float32 {
			return d.compute(t, func(s *step) compute.Tensor {
				sum, n := s.AddNorm(s.tensor(x, width), s.tensor(y, width), gain, eps)
				if first {
					return sum
				}
				return n
			})
		}
		closeTo(t, fmt.Sprintf("width %d: x+y", width), add(true), sum, 1e-12)
		closeTo(t, fmt.Sprintf("width %d: AddNorm", width), add(false), norm, 3e-4) // f16: 2^-11/sqrt(3)
		closeTo(t, fmt.Sprintf("width %d: Norm", width), d.compute(t, func(s *step) compute.Tensor { return s.Norm(s.tensor(x, width), gain, eps) }), plain, 3e-7)
	}
}

// A gain so large that a normalised value could leave f16 is stored by a smaller power of two.
func TestANormThatLeavesHalfPrecisionIsStoredSmaller(t *testing.T) {
	d := gpu(t)
	const width = 1024
	x, g := make([]float32, width), random(width, 4)
	for i := range g {
		g[i] *= 1e5
	}
	x[7], x[8] = 1, 1e-3
	var want []float64
	for i := range g {
		want = append(want, float64(g[i])*float64(x[i])/math.Sqrt((1+1e-6)/width)) // 1, and 1e-3 squared
	}
	gain := d.Vector(g)
	got := d.compute(t, func(s *step) compute.Tensor {
		_, n := s.AddNorm(s.tensor(x, width), compute.Tensor{}, gain, 0)
		return n
	})
	closeTo(t, "n", got, want, 5e-4)
}

func TestGatesAreTheCPUClassRoundedToHalf(t *testing.T) {
	d := gpu(t)
	c, err := cpu.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const rows, width = 9, 1544
	g, u := random(rows*width, 5), random(rows*width, 6)
	for i := range g {
		g[i] *= 8
		if i%7 == 0 {
			u[i] *= 1e5
		}
	}
	g[3], g[4], g[5] = -100, 100, 0
	for _, silu := range []bool{true, false} {
		got := d.compute(t, func(s *step) compute.Tensor {
			if silu {
				return s.SwiGLU(s.tensor(g, width), s.tensor(u, width))
			}
			return s.GeGLU(s.tensor(g, width), s.tensor(u, width))
		})
		want := cpuGate(t, c, g, u, width, silu)
		for i := range want {
			want[i] = half(want[i]/64) * 64
		}
		bitsEqual(t, fmt.Sprintf("silu %v", silu), got, want)
	}
}

// cpuGate computes a gate on the CPU: its inputs come from matmuls by float32 identities.
func cpuGate(t *testing.T, c *cpu.Device, g, u []float32, width int, silu bool) []float32 {
	t.Helper()
	embed := func(v []float32) compute.Weight { return packF32(t, c, v, width) }
	gw, uw := embed(g), embed(u)
	b := new(compute.Batch)
	for r := range len(g) / width {
		b.Add(int32(r), r, 0, false)
	}
	rows, err := c.Run(func(ops compute.Ops) compute.Tensor {
		gt, ut := ops.Embed(b, gw, 1), ops.Embed(b, uw, 1)
		if silu {
			return ops.SwiGLU(gt, ut)
		}
		return ops.GeGLU(gt, ut)
	})
	if err != nil {
		t.Fatal(err)
	}
	var all []float32
	for _, r := range rows {
		all = append(all, r...)
	}
	return all
}

func TestHeadsAreNormalisedAndTurnedAsOnTheCPU(t *testing.T) {
	d := gpu(t)
	c, err := cpu.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, dim := range []int{16, 64, 96, 128, 256, 512} {
		for _, neighbour := range []bool{false, true} {
			for _, normed := range []bool{false, true} {
				const heads, kvHeads = 9, 3
				rope, err := compute.NewRope(compute.RopeParams{Base: 1e4, Dims: dim / 2, Neighbour: neighbour})
				if err != nil {
					t.Fatal(err)
				}
				b := new(compute.Batch)
				for i, p := range []int{0, 5000, 63, 64, 4095} {
					b.Add(int32(i), p, 0, false)
				}
				q, k, gain := random(5*heads*dim, 7), random(5*kvHeads*dim, 8), random(dim, 9)
				onGPU := d.Vector(gain)
				for _, key := range []bool{false, true} {
					run := func(ops compute.Ops, q, k compute.Tensor, gain compute.Vector) compute.Tensor {
						o := compute.QK{HeadDim: dim, Rope: rope, Eps: 1e-6}
						if normed {
							o.QNorm, o.KNorm = gain, gain
						}
						q, k = ops.QKNormRope(b, q, k, o)
						if key {
							return k
						}
						return q
					}
					got := d.compute(t, func(s *step) compute.Tensor {
						return run(s, s.tensor(q, heads*dim), s.tensor(k, kvHeads*dim), onGPU)
					})
					qw, kw, g := packF32(t, c, q, heads*dim), packF32(t, c, k, kvHeads*dim), c.Vector(gain)
					rows, err := c.Run(func(ops compute.Ops) compute.Tensor { return run(ops, ops.Embed(b, qw, 1), ops.Embed(b, kw, 1), g) })
					if err != nil {
						t.Fatal(err)
					}
					var want []float64
					for _, r := range rows {
						for _, v := range r {
							want = append(want, float64(v))
						}
					}
					closeTo(t, fmt.Sprintf("dim %d, neighbours %v, normed %v, keys %v", dim, neighbour, normed, key), got, want, 3e-7)
				}
			}
		}
	}
}
