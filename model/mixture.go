package model

import "memra/compute"

// The parts that families with experts share. A family's layer has a mixture, or one of these beside a block of another kind:
//
//	Mixture *mixture `block:"experts"`     // or embedded, where every layer has one
//	Shared  *shared  `block:"shared"`
//
// and its configuration the sizes that their shapes name.

// expertsConfig is the sizes of a mixture.
type expertsConfig struct {
	Experts      int `meta:"expert_count"`
	Chosen       int `meta:"expert_used_count"`
	ExpertHidden int `meta:"expert_feed_forward_length" default:"Hidden"`
}

// mixture is a router and its experts. Files have gate and up apart or, for each expert, one above the other.
type mixture struct {
	Router     compute.Weight `tensor:"ffn_gate_inp" shape:"Experts,Width"`
	ExpertGate compute.Weight `tensor:"ffn_gate_exps,ffn_gate_up_exps/0" shape:"Experts,ExpertHidden,Width"`
	ExpertUp   compute.Weight `tensor:"ffn_up_exps,ffn_gate_up_exps/1" shape:"Experts,ExpertHidden,Width"`
	ExpertDown compute.Weight `tensor:"ffn_down_exps" shape:"Experts,Width,ExpertHidden"`
}

func (m *mixture) experts() compute.Experts {
	return compute.Experts{Gate: m.ExpertGate, Up: m.ExpertUp, Down: m.ExpertDown}
}

// shared is a multilayer perceptron that every row goes through beside its experts.
type shared struct {
	SharedGate compute.Weight `tensor:"ffn_gate_shexp" shape:"SharedHidden,Width"`
	SharedUp   compute.Weight `tensor:"ffn_up_shexp" shape:"SharedHidden,Width"`
	SharedDown compute.Weight `tensor:"ffn_down_shexp" shape:"Width,SharedHidden"`
}

func (m *shared) forward(ops compute.Ops, n compute.Tensor) compute.Tensor {
	return swiGLU(ops, n, m.SharedGate, m.SharedUp, m.SharedDown)
}
