package golden

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
)

// magic and version open a golden, once decompressed.
const (
	magic   = "memragld"
	version = 1
)

// header is the fixed part of a golden, little-endian; the model's name and the six arrays follow.
type header struct {
	Magic                                 [8]byte
	Version                               uint32
	Windows, Positions, Top, Drawn, Vocab uint32
	SHA256                                [32]byte
	NameBytes                             uint32
}

// Logits are an oracle's next-token distributions for windows of tokens.
type Logits struct {
	Model  string    // file name of the model
	SHA256 [32]byte  // of the model file
	Vocab  int       // tokens of the model
	Tokens [][]int32 // [windows][positions] as given to the model, with a start token if it wants one

	top   listed    // the likeliest tokens, best first
	tail  []float32 // [windows*positions] log of the probability of all other tokens
	drawn listed    // tokens drawn from the others by their probability
}

// listed are so many tokens of each position, with their log-probabilities.
type listed struct {
	count   int       // per position
	id      []int32   // [windows*positions*count]
	logProb []float32 // of id
}

func newListed(rows uint64, count uint32) listed {
	n := rows * uint64(count)
	return listed{int(count), make([]int32, n), make([]float32, n)}
}

func (l listed) row(i int) ([]int32, []float32) {
	return l.id[i*l.count : (i+1)*l.count], l.logProb[i*l.count : (i+1)*l.count]
}

// Load reads a golden that tools/oracle/logits.py wrote.
func Load(path string) (*Logits, error) {
	data, err := unzip(path)
	if err != nil {
		return nil, err
	}
	g, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("golden: %s: %w; make it again as tools/oracle/README.md says", path, err)
	}
	return g, nil
}

func unzip(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("golden: %w", err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("golden: %s: %w", path, err)
	}
	data, err := io.ReadAll(z)
	if err != nil {
		return nil, fmt.Errorf("golden: %s: %w", path, err)
	}
	return data, nil
}

func parse(data []byte) (*Logits, error) {
	r := bytes.NewReader(data)
	var h header
	if err := binary.Read(r, binary.LittleEndian, &h); err != nil {
		return nil, fmt.Errorf("header: %d bytes, want at least %d", len(data), binary.Size(h))
	}
	if string(h.Magic[:]) != magic || h.Version != version {
		return nil, fmt.Errorf("starts with %q, version %d, want %q, version %d", h.Magic, h.Version, magic, version)
	}
	rows := uint64(h.Windows) * uint64(h.Positions)
	if rows > math.MaxInt32 || h.Top == 0 || h.Drawn == 0 || h.Top > math.MaxUint16 || h.Drawn > math.MaxUint16 || h.Top >= h.Vocab || h.Vocab > math.MaxInt32 {
		return nil, fmt.Errorf("%d windows of %d positions, %d of %d tokens listed, %d drawn: not a golden's counts",
			h.Windows, h.Positions, h.Top, h.Vocab, h.Drawn)
	}
	want := uint64(h.NameBytes) + 4*(2*rows+2*rows*(uint64(h.Top)+uint64(h.Drawn)))
	if uint64(r.Len()) != want {
		return nil, fmt.Errorf("%d bytes after the header, want %d", r.Len(), want)
	}
	name := make([]byte, h.NameBytes)
	tokens := make([]int32, rows)
	g := &Logits{
		SHA256: h.SHA256,
		Vocab:  int(h.Vocab),
		top:    newListed(rows, h.Top),
		tail:   make([]float32, rows),
		drawn:  newListed(rows, h.Drawn),
	}
	for _, part := range []any{name, tokens, g.top.id, g.top.logProb, g.tail, g.drawn.id, g.drawn.logProb} {
		if err := binary.Read(r, binary.LittleEndian, part); err != nil {
			return nil, err
		}
	}
	g.Model = string(name)
	for _, ids := range [][]int32{tokens, g.top.id, g.drawn.id} {
		for _, id := range ids {
			if id < 0 || int(id) >= g.Vocab {
				return nil, fmt.Errorf("token %d, want less than %d", uint32(id), g.Vocab)
			}
		}
	}
	for w := range int(h.Windows) {
		g.Tokens = append(g.Tokens, tokens[w*int(h.Positions):(w+1)*int(h.Positions)])
	}
	return g, nil
}

// Compare gives the Kullback-Leibler divergence in nats of softmax(logits) from the oracle's distribution at a position,
// and whether the likeliest token is the oracle's:
//
//	KL = Σ p_i·ln(p_i/q_i) + p·ln(p/q) + p·mean_j(r_j - 1 - ln r_j)    r_j = (q_j/p_j) / (q/p)
//
// The sum runs over the listed tokens; p and q are the masses of all others in the oracle's distribution and in ours; the
// mean runs over the tokens drawn from those others. The last term estimates how differently they share their mass. It is
// never negative and right in the mean, because the mean of r is 1: over 2,000 positions KL is exact to about a hundredth,
// where leaving the term out loses a fifth. Everything is float64. Of equal logits the first counts as the likeliest.
// Logits that are no distribution (a NaN, an infinity) are infinitely far and never the same.
//
// It panics if logits are not one for each token, or if there is no such window or position.
func (g *Logits) Compare(window, position int, logits []float32) (kl float64, sameBest bool) {
	if len(logits) != g.Vocab {
		panic(fmt.Sprintf("golden: %s: %d logits, want %d", g.Model, len(logits), g.Vocab))
	}
	_ = g.Tokens[window][position]
	row := window*len(g.Tokens[window]) + position
	top, topLogProb := g.top.row(row)

	best := 0
	for i, x := range logits {
		if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
			return math.Inf(1), false
		}
		if x > logits[best] {
			best = i
		}
	}
	most := float64(logits[best])
	ascending := slices.Sorted(slices.Values(top))
	var inTop, others float64 // mass, relative to the likeliest token's
	for i, x := range logits {
		mass := math.Exp(float64(x) - most)
		if len(ascending) > 0 && ascending[0] == int32(i) {
			ascending = ascending[1:]
			inTop += mass
		} else {
			others += mass
		}
	}
	logTotal := most + math.Log(inTop+others)
	logQ := func(id int32) float64 { return float64(logits[id]) - logTotal }

	for i, id := range top {
		p := float64(topLogProb[i])
		kl += math.Exp(p) * (p - logQ(id))
	}
	p, q := float64(g.tail[row]), most+math.Log(others)-logTotal
	kl += math.Exp(p) * (p - q)
	drawn, drawnLogProb := g.drawn.row(row)
	for i, id := range drawn {
		logR := logQ(id) - float64(drawnLogProb[i]) - (q - p)
		kl += math.Exp(p) * (math.Expm1(logR) - logR) / float64(len(drawn))
	}
	return kl, int32(best) == top[0]
}
