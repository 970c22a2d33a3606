package cpu

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"memra/compute"
	"memra/gguf"
	"memra/quant"
)

// runStep computes one step of an open device and copies its rows.
func runStep(t testing.TB, d *Device, forward func(o *step) compute.Tensor) [][]float32 {
	t.Helper()
	rows, err := d.Run(func(ops compute.Ops) compute.Tensor { return forward(ops.(*step)) })
	if err != nil {
		t.Fatal(err)
	}
	for r := range rows {
		rows[r] = append([]float32(nil), rows[r]...)
	}
	return rows
}

// drawn is a tensor of normal values.
func drawn(o *step, rng *rand.Rand, rows, width int) (compute.Tensor, *buffer) {
	x, m := o.tensor(rows, width)
	for i := range m.rows {
		m.rows[i] = float32(rng.NormFloat64())
	}
	return x, m
}

// TestAddNormAgreesWithFloat64: the mean adds 16 partial sums of width/16 squares, wrong by at most (width/16+6) roundings of
// 2^-24; the root halves them; the mean, eps, the root, its inverse and two products round once more each.
func TestAddNormAgreesWithFloat64(t *testing.T) {
	d := openTest(t, 2, sets[0])
	for _, width := range []int{1, 16, 101, 576, 2048} {
		t.Run(fmt.Sprint(width), func(t *testing.T) {
			rng := rand.New(rand.NewPCG(1, uint64(width)))
			const rows, eps = 7, 1e-5
			gain := make([]float32, width)
			for i := range gain {
				gain[i] = float32(rng.NormFloat64())
			}
			g := d.Vector(gain)
			var x, y, sum []float32
			n := runStep(t, d, func(o *step) compute.Tensor {
				tx, mx := drawn(o, rng, rows, width)
				ty, my := drawn(o, rng, rows, width)
				ts, tn := o.AddNorm(tx, ty, g, eps)
				x, y, sum = append(x, mx.rows...), append(y, my.rows...), append(sum, mem(ts).rows...)
				return tn
			})
			for r := range rows {
				mean := 0.0
				for i := range width {
					if s := sum[r*width+i]; s != x[r*width+i]+y[r*width+i] {
						t.Fatalf("row %d value %d: the sum is %v, want %v", r, i, s, x[r*width+i]+y[r*width+i])
					}
					mean += float64(sum[r*width+i]) * float64(sum[r*width+i]) / float64(width)
				}
				for i := range width {
					want := float64(sum[r*width+i]) * float64(gain[i]) / math.Sqrt(mean+eps)
					if e := math.Abs(float64(n[r][i]) - want); e > math.Abs(want)*(float64(width/16+6)/2+6)*0x1p-24 {
						t.Fatalf("row %d value %d: %v, float64 gives %v", r, i, n[r][i], want)
					}
				}
			}
		})
	}
}

func TestQKNormRopeAgreesWithFloat64(t *testing.T) {
	for _, neighbour := range []bool{false, true} {
		for _, dims := range []int{64, 48} { // of 64: all of a head turns, or part
			t.Run(fmt.Sprintf("neighbour=%v,dims=%d", neighbour, dims), func(t *testing.T) {
				rope, err := compute.NewRope(compute.RopeParams{Base: 1e4, Dims: dims, Neighbour: neighbour})
				if err != nil {
					t.Fatal(err)
				}
				const dim, rows = 64, 9
				d, rng, b := openTest(t, 2, sets[0]), rand.New(rand.NewPCG(1, 2)), new(compute.Batch)
				for r := range rows {
					b.Add(0, r*r*r*13, 0, false)
				}
				var before []float32
				after := runStep(t, d, func(o *step) compute.Tensor {
					q, m := drawn(o, rng, rows, 3*dim)
					k, _ := drawn(o, rng, rows, dim)
					before = append(before, m.rows...)
					q, _ = o.QKNormRope(b, q, k, compute.QK{HeadDim: dim, Rope: rope})
					return q
				})
				for r := range rows {
					for h := range 3 {
						x, y := before[(r*3+h)*dim:][:dim], after[r][h*dim:][:dim]
						for j := range dims / 2 {
							lo, hi := j, j+dims/2
							if neighbour {
								lo, hi = 2*j, 2*j+1
							}
							s, c := math.Sincos(float64(b.Positions[r]) * math.Pow(1e4, -2*float64(j)/float64(dims)))
							a, b := float64(x[lo]), float64(x[hi])
							// cosine, product and sum round; the angle itself is good to 1e-11.
							limit := 3*0x1p-24*(math.Abs(a)+math.Abs(b)) + 1e-10
							if math.Abs(float64(y[lo])-(a*c-b*s)) > limit || math.Abs(float64(y[hi])-(a*s+b*c)) > limit {
								t.Fatalf("row %d head %d pair %d: %v %v, float64 gives %v %v", r, h, j, y[lo], y[hi], a*c-b*s, a*s+b*c)
							}
						}
						wantEqual(t, "values that do not turn", y[dims:], x[dims:])
					}
				}
			})
		}
	}
}

func TestEmbedScalesTheTokensRows(t *testing.T) {
	const vocab, width, scale = 21, 64, 3.25
	d, f, rng := openTest(t, 2, sets[0]), format(t, gguf.Q8_0), rand.New(rand.NewPCG(1, 2))
	data := randomRows(t, rng, f, vocab, width)
	w, err := d.Pack(f.Type, vocab, width, data, nil)
	if err != nil {
		t.Fatal(err)
	}
	b := new(compute.Batch)
	for r := range 11 {
		b.Add(int32(r*7%vocab), r, 0, false)
	}
	want := make([]float32, width)
	for r, row := range runStep(t, d, func(o *step) compute.Tensor { return o.Embed(b, w, scale) }) {
		f.Dequantize(want, data[int(b.Tokens[r])*len(data)/vocab:][:len(data)/vocab])
		for i := range want {
			want[i] *= scale
		}
		wantEqual(t, fmt.Sprintf("row %d", r), row, want)
	}
}

func format(t testing.TB, typ gguf.Type) *quant.Format {
	t.Helper()
	f, err := quant.For(typ)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// network is one layer of every operation, over tokens of which the last is full of NaN.
type network struct {
	embed, q, k, v, o, gate, up, down, out compute.Weight
	gain, headGain                         compute.Vector
	rope                                   *compute.Rope
}

const (
	networkVocab, networkWidth, networkHidden = 40, 64, 96
	networkHeads, networkKVHeads, networkDim  = 4, 2, 16
	badToken                                  = networkVocab - 1
)

func newNetwork(t testing.TB, d *Device) *network {
	t.Helper()
	rng := rand.New(rand.NewPCG(8, 8))
	pack := func(typ gguf.Type, rows, width int) compute.Weight {
		data := randomRows(t, rng, format(t, typ), rows, width)
		if rows == networkVocab && typ == gguf.F32 {
			for i := badToken * width * 4; i < len(data); i++ {
				data[i] = 0xff
			}
		}
		w, err := d.Pack(typ, rows, width, data, nil)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	vector := func(n int) compute.Vector {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(1 + rng.NormFloat64()/4)
		}
		return d.Vector(x)
	}
	rope, err := compute.NewRope(compute.RopeParams{Base: 1e4, Dims: networkDim})
	if err != nil {
		t.Fatal(err)
	}
	return &network{
		embed: pack(gguf.F32, networkVocab, networkWidth),
		q:     pack(gguf.Q8_0, networkHeads*networkDim, networkWidth),
		k:     pack(gguf.Q4_0, networkKVHeads*networkDim, networkWidth),
		v:     pack(gguf.Q4_1, networkKVHeads*networkDim, networkWidth),
		o:     pack(gguf.F16, networkWidth, networkHeads*networkDim),
		gate:  pack(gguf.Q8_0, networkHidden, networkWidth),
		up:    pack(gguf.Q8_0, networkHidden, networkWidth),
		down:  pack(gguf.Q8_0, networkWidth, networkHidden),
		out:   pack(gguf.Q8_0, networkVocab, networkWidth),
		gain:  vector(networkWidth), headGain: vector(networkDim), rope: rope,
	}
}

func (n *network) forward(o compute.Ops, b *compute.Batch, kv compute.KV) compute.Tensor {
	const eps = 1e-5
	x := o.Embed(b, n.embed, 2)
	x, h := o.AddNorm(x, compute.Tensor{}, n.gain, eps)
	for i := range 3 {
		o.Layer(i)
		q, k, v := o.MatMul(h, n.q), o.MatMul(h, n.k), o.MatMul(h, n.v)
		q, k = o.QKNormRope(b, q, k, compute.QK{HeadDim: networkDim, Rope: n.rope, QNorm: n.headGain, KNorm: n.headGain, Eps: eps})
		kv.Layer = i
		o.AppendKV(b, kv, k, v)
		y := o.MatMul(o.Attention(b, q, kv, compute.Attn{}), n.o)
		x, h = o.AddNorm(x, y, n.gain, eps)
		gate, up := o.MatMul(h, n.gate), o.MatMul(h, n.up)
		gated := o.SwiGLU(gate, up)
		if i == 1 {
			gated = o.GeGLU(gate, up)
		}
		x, h = o.AddNorm(x, o.MatMul(gated, n.down), n.gain, eps)
	}
	return o.Logits(b, h, n.out)
}

// TestRowsAreTheirOwn is R1 to R3 over all operations: whatever the schedule, the threads and the instruction set, the same
// bits, and no NaN of another row.
func TestRowsAreTheirOwn(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 6))
	s := &scene{shape: compute.KVShape{Layers: 3, Heads: networkKVHeads, HeadDim: networkDim}}
	var tokens [][]int32
	for _, n := range []int{70, 90, 31} {
		var list []int32
		for range n {
			list = append(list, int32(rng.IntN(badToken)))
		}
		s.seqs, tokens = append(s.seqs, sequence{n: n}), append(tokens, list)
	}
	for p := s.poisonFrom(1); p < s.seqs[1].n; p++ {
		tokens[1][p] = badToken
	}
	run := func(threads int, k *kernels, schedule [][]place) map[place][]float32 {
		d := openTest(t, threads, k)
		n, kv, results := newNetwork(t, d), s.cache(t, d), map[place][]float32{}
		for _, places := range schedule {
			b := new(compute.Batch)
			var asked []place
			for _, p := range places {
				logits := rng.IntN(3) > 0
				if p.seq < 0 {
					b.Add(badToken, 0, -1, false)
					continue
				}
				b.Add(tokens[p.seq][p.position], p.position, p.seq, logits)
				if logits {
					asked = append(asked, p)
				}
			}
			for i, row := range runStep(t, d, func(o *step) compute.Tensor { return n.forward(o, b, kv) }) {
				results[asked[i]] = row
			}
		}
		return results
	}
	want := map[place][]float32{}
	for i := range s.seqs {
		for p := range s.seqs[i].n {
			for len(want[place{i, p}]) == 0 { // until its logits are asked for
				for q, row := range run(1, &goKernels, s.whole(i)) {
					want[q] = row
				}
			}
		}
	}
	for p, row := range want {
		if bad := p.seq == 1 && p.position >= s.poisonFrom(1); bad != (row[0] != row[0]) {
			t.Fatalf("%+v gives %v", p, row[0])
		}
	}
	for threads := 1; threads <= 8; threads++ {
		k := sets[threads%len(sets)]
		for p, row := range run(threads, k, s.schedule(rng)) {
			wantEqual(t, fmt.Sprintf("%s, %d threads, %+v: logits", k.name, threads, p), row, want[p])
		}
	}
}
