package quantize

import (
	"fmt"
	"slices"
	"strings"

	"memra/gguf"
)

// mix is a named way to choose formats.
type mix struct {
	name     string
	fileType uint32    // as general.file_type says it
	base     gguf.Type // of what no rule names
}

// mixes are llama.cpp's names and numbers.
var mixes = []mix{
	{"F32", 0, gguf.F32}, {"BF16", 32, gguf.BF16}, {"F16", 1, gguf.F16}, {"Q8_0", 7, gguf.Q8_0},
	{"Q6_K", 18, gguf.Q6_K}, {"Q5_K_M", 17, gguf.Q5_K}, {"Q5_K_S", 16, gguf.Q5_K}, {"Q5_1", 9, gguf.Q5_1}, {"Q5_0", 8, gguf.Q5_0},
	{"Q4_K_M", 15, gguf.Q4_K}, {"Q4_K_S", 14, gguf.Q4_K}, {"Q4_1", 3, gguf.Q4_1}, {"Q4_0", 2, gguf.Q4_0},
	{"IQ4_NL", 25, gguf.IQ4_NL}, {"IQ4_XS", 30, gguf.IQ4_XS}, {"MXFP4_MOE", 38, gguf.MXFP4},
	{"Q3_K_L", 13, gguf.Q3_K}, {"Q3_K_M", 12, gguf.Q3_K}, {"Q3_K_S", 11, gguf.Q3_K}, {"Q2_K", 10, gguf.Q2_K},
}

// Mixes lists the names of all mixes, the largest files first.
func Mixes() []string {
	names := make([]string, len(mixes))
	for i, m := range mixes {
		names[i] = m.name
	}
	return names
}

// mixOf finds a mix by its name, in any case; Q3_K, Q4_K and Q5_K mean the middle one.
func mixOf(name string) (mix, error) {
	full := strings.ToUpper(name)
	if slices.Contains([]string{"Q3_K", "Q4_K", "Q5_K"}, full) {
		full += "_M"
	}
	for _, m := range mixes {
		if m.name == full {
			return m, nil
		}
	}
	return mix{}, fmt.Errorf("quantize: no type is called %q, want one of %s", name, strings.Join(Mixes(), ", "))
}

// blocked reports whether the mix makes blocks: the others have one format for all matrices, and no rules.
func (m mix) blocked() bool { n, _ := m.base.Block(); return n > 1 }

// role is what a matrix does in its model, as far as mixes care.
type role int

const (
	other role = iota
	embedding
	output
	value // attention's values, also where one matrix makes values and others
	key
	attentionOut
	down
)

// roleOf tells a matrix by llama.cpp's name for it.
func roleOf(name string) role {
	has := func(part string) bool { return strings.Contains(name, part) }
	switch {
	case name == "output.weight":
		return output
	case name == "token_embd.weight", name == "per_layer_token_embd.weight":
		return embedding
	case has("attn_qkv.weight"), has("attn_kv_b.weight"), has("attn_v.weight"):
		return value
	case has("attn_k.weight"):
		return key
	case has("attn_output.weight"):
		return attentionOut
	case has("ffn_down"):
		return down
	}
	return other
}

// keptParts are parts of the names of matrices that no mix touches: small, or read otherwise than by a product.
var keptParts = []string{
	"_norm.weight", "ffn_gate_inp.weight", "ffn_gate_tid2eid.weight", "altup", "laurel", "per_layer_model_proj",
	"ssm_conv1d", "shortconv.conv.weight", "indexer.k_proj.weight", "indexer.q_proj.weight",
	"time_mix_first.weight", "time_mix_w0.weight", "time_mix_w1.weight", "time_mix_w2.weight", "time_mix_v0.weight", "time_mix_v1.weight",
	"time_mix_v2.weight", "time_mix_a0.weight", "time_mix_a1.weight", "time_mix_a2.weight", "time_mix_g1.weight", "time_mix_g2.weight",
	"time_mix_decay_w1.weight", "time_mix_decay_w2.weight", "time_mix_lerp_fused.weight", "attn_rel_b.weight",
	".position_embd", "sam.pos_embd", "sam.neck.", "sam.net_", ".rel_pos", ".patch_embd", ".patch_merger", "a.rvq.codebook", "mm.a.code_embd",
}

// touches reports whether mixes may change a tensor: a weight of two dimensions or more.
func touches(t *gguf.Tensor) bool {
	shape := t.Shape
	for len(shape) > 1 && shape[0] == 1 {
		shape = shape[1:]
	}
	return len(shape) > 1 && strings.HasSuffix(t.Name, "weight") &&
		t.Name != "position_embd.weight" && t.Name != "token_types.weight" &&
		!slices.ContainsFunc(keptParts, func(part string) bool { return strings.Contains(t.Name, part) })
}

// more reports whether layer i of n gets more bits in the mixes that end in M: the first and last eighth, and every third between.
func more(i, n int) bool { return i < n/8 || i >= 7*n/8 || (i-n/8)%3 == 2 }

// fitting returns the format itself where rows of so many values are whole blocks of it, else one of smaller blocks and about as
// many bits, else F16.
func fitting(t gguf.Type, width int) gguf.Type {
	fits := func(t gguf.Type) bool { n, _ := t.Block(); return width%n == 0 }
	if fits(t) {
		return t
	}
	smaller := map[gguf.Type]gguf.Type{
		gguf.Q2_K: gguf.Q4_0, gguf.Q3_K: gguf.Q4_0, gguf.Q4_K: gguf.Q5_0, gguf.Q5_K: gguf.Q5_1, gguf.Q6_K: gguf.Q8_0, gguf.IQ4_XS: gguf.IQ4_NL,
	}
	if s, ok := smaller[t]; ok && fits(s) {
		return s
	}
	return gguf.F16
}
