package compute

// Routing says how rows choose among experts.
//
// With the products l of the router, and a score s[e] of softmax(l)[e] or sigmoid(l[e]), a row takes the Chosen experts of the largest key,
// s + ChoiceBias, the largest first and of equal ones the lower index. Where no ChoiceBias and no Groups ask for more, the key is
// l itself, which orders as s does. Their weights are the scores themselves, without ChoiceBias:
//
//	w[j] = s[e[j]] / (Normalise ? sum_j s[e[j]] : 1) * Scale * Scales[e[j]]
//
// A normalised softmax is the softmax over the chosen ones, and is computed as such. A row of which a key is NaN takes experts 0, 1
// and so on, at weights of NaN: whatever comes of it is NaN, and no index leaves its range.
type Routing struct {
	Chosen     int     // experts that a row takes
	Score      Score   //
	ChoiceBias Vector  // [experts], added to scores for choosing alone; zero: none
	Normalise  bool    // weights add to one, before Scale
	Scale      float32 // of all weights; 0 means 1
	Scales     Vector  // [experts], of each expert's weight; zero: none

	// Experts lie in Groups of equal size, one after another, and come from the KeptGroups of them with the largest sum of their
	// two largest keys (of equal ones the lower index). 0: no groups.
	Groups, KeptGroups int
}

// Score is what makes a router's products comparable.
type Score int

const (
	Softmax Score = iota // over all experts
	Sigmoid              // each by itself; the sum that normalises is at least 1e-20
)

// Routes are the experts that rows have chosen, by falling key, and their weights, in the memory of the device that made them.
type Routes struct {
	Rows, Chosen int
	Mem          any // owned by the backend
}

// Experts are gated multilayer perceptrons, of which a row goes through a few.
type Experts struct {
	Gate, Up Weight // [experts, hidden, width]; a bias is [experts*hidden]
	Down     Weight // [experts, width, hidden]; a bias is [experts*width]
	Gating   Gating
	Limit    float32 // of ClampedSwiGLU
}

// Gating is what becomes of a gate g and a value u.
type Gating int

const (
	SwiGLU Gating = iota // see Ops.SwiGLU
	GeGLU                // see Ops.GeGLU

	// ClampedSwiGLU is gpt-oss's: silu(a*g') * ((u' + 1)/a), with g' = min(g, Limit), u' = max(min(u, Limit), -Limit) and a = 1.702.
	ClampedSwiGLU
)

// Alpha is the slope of ClampedSwiGLU.
const Alpha = 1.702

// Shared is what every row goes through beside the experts that it has chosen. The zero Shared is nothing.
type Shared struct {
	Out  Tensor // [rows, width], what it gave
	Gate Tensor // [rows, 1], a logit: Out counts sigmoid(Gate) times; zero: once
}
