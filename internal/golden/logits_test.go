package golden

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// position is what a golden says about one.
type position struct {
	top          []uint32
	logProb      []float32
	tail         float32
	drawn        []uint32
	drawnLogProb []float32
}

// file lays out a golden of one window of token 2, uncompressed.
func file(t *testing.T, vocab int, positions []position) []byte {
	t.Helper()
	var tokens, top, drawn []uint32
	var logProb, tail, drawnLogProb []float32
	for _, p := range positions {
		tokens, top, drawn = append(tokens, 2), append(top, p.top...), append(drawn, p.drawn...)
		logProb, tail, drawnLogProb = append(logProb, p.logProb...), append(tail, p.tail), append(drawnLogProb, p.drawnLogProb...)
	}
	name := "model.gguf"
	h := header{
		Version: version, Windows: 1, Positions: uint32(len(positions)), Vocab: uint32(vocab), NameBytes: uint32(len(name)),
		Top: uint32(len(positions[0].top)), Drawn: uint32(len(positions[0].drawn)), SHA256: [32]byte{7},
	}
	copy(h.Magic[:], magic)
	var b bytes.Buffer
	for _, part := range []any{h, []byte(name), tokens, top, logProb, tail, drawn, drawnLogProb} {
		if err := binary.Write(&b, binary.LittleEndian, part); err != nil {
			t.Fatal(err)
		}
	}
	return b.Bytes()
}

func load(t *testing.T, data []byte) (*Logits, error) {
	t.Helper()
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.golden.gz")
	if err := os.WriteFile(path, z.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return Load(path)
}

func ln(x float64) float32 { return float32(math.Log(x)) }

// small has two positions and a vocabulary of five: 3 (1/2), 1 (1/4), the others 1/12 each; then 0 (5/8), 4 (1/4), the
// others 1/24 each.
func small(t *testing.T) []byte {
	return file(t, 5, []position{
		{[]uint32{3, 1}, []float32{ln(0.5), ln(0.25)}, ln(0.25), []uint32{0, 2}, []float32{ln(1. / 12), ln(1. / 12)}},
		{[]uint32{0, 4}, []float32{ln(0.625), ln(0.25)}, ln(0.125), []uint32{1, 1}, []float32{ln(1. / 24), ln(1. / 24)}},
	})
}

func TestCompareAgreesWithDivergencesWorkedOutByHand(t *testing.T) {
	g, err := load(t, small(t))
	if err != nil {
		t.Fatal(err)
	}
	if g.Model != "model.gguf" || g.SHA256[0] != 7 || g.Vocab != 5 || !slices.Equal(g.Tokens[0], []int32{2, 2}) {
		t.Errorf("loaded %q, %x, %d tokens, %v", g.Model, g.SHA256, g.Vocab, g.Tokens)
	}
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, c := range []struct {
		name     string
		position int
		logits   []float32
		kl       float64
		same     bool
	}{
		// 1/2 ln(5/2) + 1/4 ln(5/4) + 1/4 ln(5/12)
		{"all tokens alike", 0, []float32{0, 0, 0, 0, 0}, 0.29506364, false},
		{"the same distribution", 0, []float32{ln(1. / 12), ln(0.25), ln(1. / 12), ln(0.5), ln(1. / 12)}, 0, true},
		// r is 12/5 and 9/25: 1/4 (7/5 - ln 12/5 - 16/25 - ln 9/25) / 2
		{"the same but for how the others share", 0, []float32{ln(0.2), ln(0.25), ln(0.03), ln(0.5), ln(0.02)}, 0.11327281, true},
		{"the same, shifted by 1000", 0, []float32{1000 + ln(1./12), 1000 + ln(0.25), 1000 + ln(1./12), 1000 + ln(0.5), 1000 + ln(1./12)}, 0, true},
		// ours 1/4 for the best and 1/2 for the second: 1/2 ln 2 - 1/4 ln 2
		{"the two likeliest exchanged", 0, []float32{ln(1. / 12), ln(0.5), ln(1. / 12), ln(0.25), ln(1. / 12)}, 0.17328680, false},
		// ours 1/8, 1/8, 3/4 at the second position: 5/8 ln 5 + 1/4 ln 2 - 1/8 ln 6
		{"mass among the others", 1, []float32{ln(0.125), ln(0.25), ln(0.25), ln(0.25), ln(0.125)}, 0.95521508, false},
		{"the first of equals is the likeliest", 1, []float32{0, -9, -9, -9, 0}, math.NaN(), true},
		{"a NaN", 0, []float32{0, 0, 0, nan, 0}, math.Inf(1), false},
		{"an infinity", 0, []float32{0, 0, 0, inf, 0}, math.Inf(1), false},
		{"a token masked out", 0, []float32{0, 0, 0, 5, -inf}, math.Inf(1), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			kl, same := g.Compare(0, c.position, c.logits)
			if math.IsNaN(c.kl) { // only the best token is asked about
				c.kl = kl
			}
			// The recorded log-probabilities are float32, and so are logits near 1000: 1000 * 2^-24 each.
			if same != c.same || kl != c.kl && !(math.Abs(kl-c.kl) < 1e-4) {
				t.Errorf("kl %.8f, same %v, want %.8f, %v", kl, same, c.kl, c.same)
			}
		})
	}
}

func TestCompareIsTheFullDivergenceWhenOneTokenIsNotListed(t *testing.T) {
	const vocab = 40
	rng := rand.New(rand.NewPCG(1, 2))
	ours, theirs := make([]float32, vocab), make([]float32, vocab)
	for range 100 {
		order := make([]uint32, vocab)
		for i := range order {
			order[i], ours[i], theirs[i] = uint32(i), float32(3*rng.NormFloat64()), float32(3*rng.NormFloat64())
		}
		p, q := logSoftmax(theirs), logSoftmax(ours)
		slices.SortFunc(order, func(a, b uint32) int { return cmp.Compare(p[b], p[a]) })
		var want float64
		listed := make([]float32, vocab)
		for i, id := range order {
			want += math.Exp(p[id]) * (p[id] - q[id])
			listed[i] = float32(p[id])
		}
		last := vocab - 1
		g, err := parse(file(t, vocab, []position{{order[:last], listed[:last], listed[last], order[last:], listed[last:]}}))
		if err != nil {
			t.Fatal(err)
		}
		kl, same := g.Compare(0, 0, ours)
		// A recorded log-probability is within 2^-24 of 16: 1e-6, times |1 + ln p/q| <= 30.
		if math.Abs(kl-want) > 3e-5 {
			t.Errorf("kl %.9f, want %.9f", kl, want)
		}
		if same != (slices.Index(ours, slices.Max(ours)) == int(order[0])) {
			t.Errorf("same %v", same)
		}
		if kl, same := g.Compare(0, 0, theirs); math.Abs(kl) > 1e-6 || !same {
			t.Errorf("from itself: kl %g, same %v", kl, same)
		}
	}
}

func TestCompareIsTheFullDivergenceInTheMean(t *testing.T) {
	const vocab, top, drawn, positions = 200, 20, 16, 2000
	rng := rand.New(rand.NewPCG(3, 4))
	rows, recorded := make([][]float32, positions), make([]position, positions)
	var want float64
	for i := range rows {
		theirs, ours, order := make([]float32, vocab), make([]float32, vocab), make([]uint32, vocab)
		for j := range order {
			theirs[j] = float32(rng.NormFloat64())
			ours[j], order[j] = theirs[j]+float32(0.1*rng.NormFloat64()), uint32(j)
		}
		p, q := logSoftmax(theirs), logSoftmax(ours)
		for j := range p {
			want += math.Exp(p[j]) * (p[j] - q[j]) / positions
		}
		slices.SortFunc(order, func(a, b uint32) int { return cmp.Compare(p[b], p[a]) })
		at := position{top: order[:top]}
		for _, id := range at.top {
			at.logProb = append(at.logProb, float32(p[id]))
		}
		var mass float64
		for _, id := range order[top:] {
			mass += math.Exp(p[id])
		}
		at.tail = float32(math.Log(mass))
		for range drawn {
			u, id := rng.Float64()*mass, top-1
			for ; u >= 0 && id < vocab-1; u -= math.Exp(p[order[id]]) {
				id++
			}
			at.drawn = append(at.drawn, order[id])
			at.drawnLogProb = append(at.drawnLogProb, float32(p[order[id]]))
		}
		rows[i], recorded[i] = ours, at
	}
	g, err := parse(file(t, vocab, recorded))
	if err != nil {
		t.Fatal(err)
	}
	var got float64
	for i, row := range rows {
		kl, _ := g.Compare(0, i, row)
		got += kl / positions
	}
	// A draw's r - 1 - ln r deviates by about 1.4 of its mean: 0.8 % over 32,000 draws. Without them, 60 % is missing.
	if math.Abs(got/want-1) > 0.02 {
		t.Errorf("mean kl %.6f, want %.6f", got, want)
	}
}

func logSoftmax(logits []float32) []float64 {
	p := make([]float64, len(logits))
	var sum float64
	for _, x := range logits {
		sum += math.Exp(float64(x))
	}
	for i, x := range logits {
		p[i] = float64(x) - math.Log(sum)
	}
	return p
}

func TestLoadRefusesWhatIsNotAGolden(t *testing.T) {
	change := func(at int, to byte) func([]byte) []byte {
		return func(b []byte) []byte { b[at] = to; return b }
	}
	for _, c := range []struct {
		name   string
		damage func([]byte) []byte
		want   string
	}{
		{"nothing", func(b []byte) []byte { return nil }, "header: 0 bytes"},
		{"half a header", func(b []byte) []byte { return b[:20] }, "header: 20 bytes"},
		{"another magic", change(0, 'x'), `starts with "xemragld"`},
		{"another version", change(8, 9), "version 9"},
		{"more positions than bytes", change(18, 1), "bytes after the header"},
		{"as many listed as the vocabulary has", change(20, 5), "not a golden's counts"},
		{"none listed", change(20, 0), "not a golden's counts"},
		{"none drawn", change(24, 0), "not a golden's counts"},
		{"a byte short", func(b []byte) []byte { return b[:len(b)-1] }, "bytes after the header, want"},
		{"a byte too many", func(b []byte) []byte { return append(b, 0) }, "bytes after the header, want"},
		{"a token beyond the vocabulary", change(68+10, 200), "token 200, want less than 5"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := load(t, c.damage(small(t)))
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "golden: ") {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
	if _, err := Load(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("an absent file loads")
	}
}

func TestCompareRefusesRowsOfAnotherVocabulary(t *testing.T) {
	g, err := load(t, small(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if r := recover(); r == nil {
			t.Error("four logits compare with a vocabulary of five")
		}
	}()
	g.Compare(0, 0, make([]float32, 4))
}

func TestCommittedGoldensAreDistributions(t *testing.T) {
	for _, c := range []struct {
		model string
		vocab int
		first int32 // token of every window, -1 for any
	}{
		{"SmolLM2-135M-Instruct.Q4_1", 49152, -1},
		{"gemma-3-270m-q4_k_m", 262144, 2},
	} {
		t.Run(c.model, func(t *testing.T) {
			g, err := Load("../../model/testdata/" + c.model + ".golden.gz")
			if err != nil {
				t.Fatal(err)
			}
			if g.Model != c.model+".gguf" || g.Vocab != c.vocab || len(g.Tokens) != 4 || g.top.count != 128 || g.drawn.count != 16 {
				t.Fatalf("%s, %d tokens, %d windows, %d listed", g.Model, g.Vocab, len(g.Tokens), g.top.count)
			}
			for _, tokens := range g.Tokens {
				if len(tokens) != 512 || c.first >= 0 && tokens[0] != c.first {
					t.Errorf("a window of %d tokens begins with %d", len(tokens), tokens[0])
				}
			}
			for row := range g.tail {
				_, p := g.top.row(row)
				mass := math.Exp(float64(g.tail[row]))
				for _, x := range p {
					mass += math.Exp(float64(x))
				}
				if math.Abs(mass-1) > 1e-5 || !slices.IsSortedFunc(p, func(a, b float32) int { return cmp.Compare(b, a) }) {
					t.Fatalf("position %d: mass %g, or not sorted", row, mass)
				}
				if _, drawn := g.drawn.row(row); slices.Max(drawn) > p[len(p)-1] {
					t.Fatalf("position %d: a token drawn from the others is likelier than a listed one", row)
				}
			}
		})
	}
}
