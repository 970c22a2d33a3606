package synthetic

import "fmt"

// gptoss is what a shape of gpt-oss has beside attention.
type gptoss struct{ experts, chosen int } // of the shape's hidden width

var gptosses = []shape{
	{name: "gpt-oss-20b", family: "gpt-oss", layers: 24, width: 2880, hidden: 2880, heads: 64, kvHeads: 8, dim: 64,
		vocab: 201088, context: 131072, window: 128, eps: 1e-5, base: 1.5e5, gptoss: &gptoss{experts: 32, chosen: 4}},
	{name: "gpt-oss-120b", family: "gpt-oss", layers: 36, width: 2880, hidden: 2880, heads: 64, kvHeads: 8, dim: 64,
		vocab: 201088, context: 131072, window: 128, eps: 1e-5, base: 1.5e5, gptoss: &gptoss{experts: 128, chosen: 4}},
}

func (g *gptoss) metadata(set func(key string, value any), hidden int) {
	set("expert_count", uint32(g.experts))
	set("expert_used_count", uint32(g.chosen))
	set("expert_feed_forward_length", uint32(hidden))
	set("rope.scaling.type", "yarn")
	set("rope.scaling.factor", float32(32))
	set("rope.scaling.original_context_length", uint32(4096))
	set("rope.scaling.yarn_beta_fast", float32(32))
	set("rope.scaling.yarn_beta_slow", float32(1))
}

// gptossLayer lists a layer of gpt-oss.
func (s *shape) gptossLayer(i int) (list []tensor) {
	e := s.gptoss.experts
	add := func(name string, r role, shape ...int) {
		list = append(list, tensor{fmt.Sprintf("blk.%d.%s", i, name), r, i, shape})
	}
	biased := func(name string, r role, shape ...int) {
		add(name+".weight", r, shape...)
		add(name+".bias", gain, shape[:len(shape)-1]...)
	}
	add("attn_norm.weight", gain, s.width)
	biased("attn_q", weight, s.heads*s.dim, s.width)
	biased("attn_k", weight, s.kvHeads*s.dim, s.width)
	biased("attn_v", value, s.kvHeads*s.dim, s.width)
	biased("attn_output", weight, s.width, s.heads*s.dim)
	add("attn_sinks.weight", gain, s.heads)
	add("post_attention_norm.weight", gain, s.width)
	biased("ffn_gate_inp", gain, e, s.width)
	biased("ffn_gate_exps", expert, e, s.hidden, s.width)
	biased("ffn_up_exps", expert, e, s.hidden, s.width)
	biased("ffn_down_exps", expert, e, s.width, s.hidden)
	return list
}
