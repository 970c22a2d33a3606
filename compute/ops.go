package compute

// Tensor is the rows of one activation, [Rows, Width], in the memory of the device that made it.
//
// The zero Tensor stands for "nothing", where an operation says that it may.
type Tensor struct {
	Rows, Width int
	Mem         any // owned by the backend
}

// IsZero reports whether t stands for nothing.
func (t Tensor) IsZero() bool { return t.Mem == nil }

// Weight is a matrix [Rows, Width] in some quantised or float format, packed for the device: a matmul takes rows of Width
// values to rows of Rows values.
type Weight struct {
	Rows, Width int
	Experts     int    // matrices of that shape, one for each expert; 0: this is one matrix
	Format      string // of the source, for people: "Q4_K"
	Bytes       int    // what a matmul reads
	Bias        Vector // [Rows], of experts [Experts*Rows], added to products; zero: none
	Mem         any    // owned by the backend
}

// IsZero reports whether w is absent (an optional tensor that the file does not have).
func (w Weight) IsZero() bool { return w.Mem == nil }

// Vector is a small float32 array of a model: a norm's gain, a bias, rotary divisors.
type Vector struct {
	Width int
	Mem   any // owned by the backend
}

// IsZero reports whether v is absent.
func (v Vector) IsZero() bool { return v.Mem == nil }

// Ops are the operations of one step. A device hands them to the function that Device.Run calls.
//
// A tensor made before the first call of Layer lives until the step ends; one made in a layer lives until the next layer
// ends. So a residual stream and a sublayer's output cross a layer's border, and memory does not grow with depth.
//
// Operations do not return errors: shapes were proven when the model was bound, and a fault of the device comes back from
// Device.Run.
type Ops interface {
	// Layer begins layer i of the model.
	Layer(i int)

	// Embed looks up the rows' tokens.
	//
	//	x[r,i] = scale * w[token(r), i]
	//
	// Shapes: w [vocab, width]; x [rows, width]. One rounding, of the product.
	Embed(b *Batch, w Weight, scale float32) Tensor

	// AddNorm adds a sublayer's output to the residual stream and normalises the sum.
	//
	//	s[r,i] = x[r,i] + y[r,i]
	//	n[r,i] = g[i] * s[r,i] / sqrt(mean_j(s[r,j]^2) + eps)
	//
	// Shapes: x, y, s, n [rows, width]; g [width]. Zero y: s = x. s may reuse x.
	AddNorm(x, y Tensor, g Vector, eps float32) (s, n Tensor)

	// Norm is the root mean square norm alone, of each group of g.Width values of a row: all of it, or a head each.
	//
	//	n[r,i] = g[i mod W] * x[r,i] / sqrt(mean_j(x[r,j]^2) + eps)    j in i's group of W = g.Width
	//
	// Shapes: x, n [rows, width]; width is a multiple of W.
	Norm(x Tensor, g Vector, eps float32) Tensor

	// Add sums and scales: s[r,i] = scale * (x[r,i] + y[r,i]), each operator rounded. Shapes: all [rows, width]. s may reuse x.
	Add(x, y Tensor, scale float32) Tensor

	// Columns are width values of each row, from a place on: y[r,i] = x[r,from+i].
	Columns(x Tensor, from, width int) Tensor

	// Scale multiplies by a number, and bends what grows beyond a cap: y[r,i] = scale * x[r,i], or with a cap above 0,
	//
	//	y[r,i] = cap * tanh(scale * x[r,i] / cap)
	//
	// computed as cap - 2*cap / (1 + exp(2/cap * (scale*x))): within 4e-7 of the cap. y may reuse x.
	Scale(x Tensor, scale, cap float32) Tensor

	// MatMul multiplies every row by a weight, and adds the weight's bias to the rounded sum where it has one.
	//
	//	y[r,o] = sum_i w[o,i] * x[r,i] + bias[o]
	//
	// Shapes: x [rows, K]; w [N, K]; y [rows, N]. The order of the sum and the precision of x are the class's.
	MatMul(x Tensor, w Weight) Tensor

	// QKNormRope normalises each head of q and k (where there are gains) and turns it by its row's position.
	//
	// Shapes: q [rows, heads*HeadDim], k [rows, kvHeads*HeadDim]. Zero k: a layer that makes no keys. The results may reuse q and k.
	QKNormRope(b *Batch, q, k Tensor, o QK) (Tensor, Tensor)

	// AppendKV stores the rows' keys and values at their positions. Rows without a sequence store nothing.
	AppendKV(b *Batch, kv KV, k, v Tensor)

	// Attention is softmax attention of each row over the keys of its sequence up to its own position.
	//
	//	o[r,h] = sum_t p[t] * v[t, h/group]    p = softmax_t(scale * q[r,h] . k[t, h/group])    0 <= pos(r)-t < window
	//
	// With a.Sinks, each head's softmax has one more score, which no query, cap or scale touches, whose p counts for the sum alone.
	// With a.Cap, a score s is cap * tanh(s / cap) instead, as Scale computes it.
	//
	// Shapes: q, o [rows, heads*HeadDim]; heads is a multiple of kv.Heads. A row without a sequence gives zeros. With a.Gate, which is
	// [rows, heads*2*HeadDim] as QK.Gated has it, o is multiplied by the sigmoid of its gate.
	Attention(b *Batch, q Tensor, kv KV, a Attn) Tensor

	// CausalConv convolves each column over a row and the Taps-1 rows before it in its sequence, and activates the sum. It keeps the
	// rows' inputs for those that come after.
	//
	//	y[r,c] = silu(sum_j w[j,c] * x[pos(r)-Taps+1+j, c])    x = 0 before the sequence began
	//
	// Shapes: x, y [rows, d.Width()]; w [Taps*Width], a tap after another. The sum begins at zero and goes on in the order
	// of j. A row without a sequence gives zeros.
	CausalConv(b *Batch, d Delta, x Tensor, w Vector) Tensor

	// GatedDelta is the gated delta rule: a state S for each value head h, with queries and keys of its key head.
	//
	//	q = x_q / sqrt(sum(x_q^2) + eps) / sqrt(HeadDim)    k = x_k / sqrt(sum(x_k^2) + eps)    b = sigmoid(beta)
	//	S = exp(g) S    g = A * softplus(alpha + DT)    S = S + k u'    u = b * (x_v - S'k)    o = S'q
	//
	// Shapes: x [rows, d.Width()], queries, keys, values; beta, alpha [rows, ValueHeads]; o [rows, ValueHeads*HeadDim]. It is computed by
	// pages. With S as the page began and G the sum of g since, row t of the page is
	//
	//	u[t] = b[t] * (v[t] - exp(G[t]) S'k[t] - sum_{j<t} exp(G[t]-G[j]) (k[j].k[t]) u[j])
	//	o[t] =                exp(G[t]) S'q[t] + sum_{j<=t} exp(G[t]-G[j]) (k[j].q[t]) u[j]
	//
	// and the next page begins with exp(G[63]) S + sum_j exp(G[63]-G[j]) k[j] u[j]': the same whatever rows a step has (R1 to R3).
	// A row without a sequence gives zeros.
	GatedDelta(b *Batch, d Delta, x, beta, alpha Tensor, g DeltaGates) Tensor

	// GatedNorm normalises each group of g.Width values of a row and gates it: y[r,i] = silu(z[r,i]) * n[r,i], n = Norm(x, g, eps).
	//
	// Shapes: x, z, y [rows, width]; width is a multiple of g.Width.
	GatedNorm(x, z Tensor, g Vector, eps float32) Tensor

	// SwiGLU gates: y[r,i] = silu(g[r,i]) * u[r,i], silu(x) = x / (1 + exp(-x)).
	SwiGLU(g, u Tensor) Tensor

	// GeGLU gates: y[r,i] = gelu(g[r,i]) * u[r,i], gelu(x) = x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715*x^3))).
	GeGLU(g, u Tensor) Tensor

	// Router lets each row choose experts: l[r] = w·x[r], and then what Routing says.
	//
	// Shapes: x [rows, K]; w [experts, K], in a float format. The products are MatMul's; all else is float32: exponentials and
	// quotients rounded, sums over all experts in 32 partial sums (e modulo 32), each ascending, folded 16, 8, 4, 2, 1, sums over
	// the chosen ones by falling key.
	Router(x Tensor, w Weight, o Routing) Routes

	// Experts takes each row through the experts that it has chosen, and adds what they give.
	//
	//	y[r] = sum_j w[r,j] * (Wd·gate(Wg·x[r], Wu·x[r]))  + sigmoid(Gate[r]) * Out[r]    of expert e[r,j]
	//
	// Shapes: x, y [rows, width]. The matrix products, biases with them, are MatMul's, bit for bit, whoever else chose the same expert. The sum begins
	// at zero and adds the experts in the order of Routes, by falling key, which is a property of the row; what is shared comes last.
	Experts(x Tensor, r Routes, e Experts, shared Shared) Tensor

	// Logits are a matmul of the rows that ask for logits (Batch.Logits), in the batch's order: [len(b.Logits), vocab].
	Logits(b *Batch, x Tensor, w Weight) Tensor

	// Choose copies rows of a weight to places of a choice: c[places[i]] = w[rows[i]]. No row has two places, and what a place had is
	// forgotten; what is said twice is said alike.
	Choose(c Choice, places, rows []int32)

	// MatMulChosen multiplies every row by the chosen rows of a weight alone: y[r,o] is about what MatMul gives where row o of the weight has
	// a place, and -Inf elsewhere.
	//
	// Shapes: x [rows, K]; w [N, K]; y [rows, N]. A device may round the chosen rows (to 8 bits in blocks of 32, or to f16), so this is for
	// guesses, which nothing that is kept depends on. A row's bits do not depend on the other rows of x.
	MatMulChosen(x Tensor, c Choice) Tensor

	// Keep copies rows of x to places of m for later steps: m[places[i]] = x[rows[i]]. A place gets one row, though it may be said twice.
	Keep(m RowMemory, x Tensor, rows, places []int32)

	// Kept are rows that an earlier step has kept, or this one before: y[i] = m[places[i]]. Shape: y [len(places), m.Width()].
	Kept(m RowMemory, places []int32) Tensor
}

// QK says how queries and keys are prepared.
type QK struct {
	HeadDim      int
	Rope         *Rope  // nil: positions do not turn this layer
	QNorm, KNorm Vector // gains [HeadDim] of a norm per head; zero: none
	Eps          float32
	Gated        bool // q is [rows, heads*2*HeadDim]: each head is followed by as many values that the result leaves out (Attn.Gate)
}

// Attn says how scores are made.
type Attn struct {
	Scale  float32 // of q.k; 0 means 1/sqrt(HeadDim)
	Window int     // positions a row sees, itself included; 0: all
	Cap    float32 // that scores bend towards; 0: none
	Sinks  Vector  // [heads], scores that take part in a head's softmax and have no value; zero: none
	Gate   Tensor  // what QKNormRope got as a gated q; zero: no gate
}
