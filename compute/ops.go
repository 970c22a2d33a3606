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

	// MatMul multiplies every row by a weight: y[r,o] = sum_i w[o,i] * x[r,i].
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
	// Shapes: q, o [rows, heads*HeadDim]; heads is a multiple of kv.Heads. A row without a sequence gives zeros.
	Attention(b *Batch, q Tensor, kv KV, a Attn) Tensor

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
	//	y[r] = sum_j w[r,j] * (Wd·gate(Wg·x[r] + bg, Wu·x[r] + bu) + bd)  + sigmoid(Gate[r]) * Out[r]    of expert e[r,j]
	//
	// Shapes: x, y [rows, width]. The matrix products are MatMul's, bit for bit, whoever else chose the same expert. The sum begins
	// at zero and adds the experts in the order of Routes, by falling key, which is a property of the row; what is shared comes last.
	Experts(x Tensor, r Routes, e Experts, shared Shared) Tensor

	// Logits are a matmul of the rows that ask for logits (Batch.Logits), in the batch's order: [len(b.Logits), vocab].
	Logits(b *Batch, x Tensor, w Weight) Tensor
}

// QK says how queries and keys are prepared.
type QK struct {
	HeadDim      int
	Rope         *Rope  // nil: positions do not turn this layer
	QNorm, KNorm Vector // gains [HeadDim] of a norm per head; zero: none
	Eps          float32
}

// Attn says how scores are made.
type Attn struct {
	Scale  float32 // of q.k; 0 means 1/sqrt(HeadDim)
	Window int     // positions a row sees, itself included; 0: all
}
