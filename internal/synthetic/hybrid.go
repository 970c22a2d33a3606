package synthetic

import (
	"encoding/binary"
	"fmt"
	"math"
)

// hybrid is what a shape has beside attention: delta nets in all layers but each fourth, and experts.
type hybrid struct {
	keyHeads, valueHeads, dim, taps            int
	rotated                                    int // values of an attention's head that turn
	experts, chosen, expertHidden, sharedWidth int // no experts: a perceptron of the shape's hidden width
}

// period is the layers of which the last has attention.
const period = 4

var hybrids = []shape{
	{name: "Qwen3.5-9B", family: "qwen35", layers: 32, width: 4096, hidden: 12288, heads: 16, kvHeads: 4, dim: 256,
		vocab: 248320, context: 262144, eps: 1e-6, base: 1e7, hybrid: &hybrid{keyHeads: 16, valueHeads: 32, dim: 128, taps: 4, rotated: 64}},
	{name: "Qwen3.6-27B", family: "qwen35", layers: 64, width: 5120, hidden: 17408, heads: 24, kvHeads: 4, dim: 256,
		vocab: 248320, context: 262144, eps: 1e-6, base: 1e7, hybrid: &hybrid{keyHeads: 16, valueHeads: 48, dim: 128, taps: 4, rotated: 64}},
	{name: "Qwen3.6-35B-A3B", family: "qwen35moe", layers: 40, width: 2048, heads: 16, kvHeads: 2, dim: 256,
		vocab: 248320, context: 262144, eps: 1e-6, base: 1e7, hybrid: &hybrid{keyHeads: 16, valueHeads: 32, dim: 128, taps: 4, rotated: 64,
			experts: 256, chosen: 8, expertHidden: 512, sharedWidth: 512}},
}

func (h *hybrid) metadata(set func(key string, value any)) {
	set("rope.dimension_count", uint32(h.rotated))
	set("full_attention_interval", uint32(period))
	set("ssm.conv_kernel", uint32(h.taps))
	set("ssm.state_size", uint32(h.dim))
	set("ssm.group_count", uint32(h.keyHeads))
	set("ssm.time_step_rank", uint32(h.valueHeads))
	set("ssm.inner_size", uint32(h.valueHeads*h.dim))
	if h.experts > 0 {
		set("expert_count", uint32(h.experts))
		set("expert_used_count", uint32(h.chosen))
		set("expert_feed_forward_length", uint32(h.expertHidden))
		set("expert_shared_feed_forward_length", uint32(h.sharedWidth))
	}
}

// hybridLayer lists a layer of a hybrid.
func (s *shape) hybridLayer(i int) (list []tensor) {
	h := s.hybrid
	add := func(name string, r role, shape ...int) {
		list = append(list, tensor{fmt.Sprintf("blk.%d.%s", i, name), r, i, shape})
	}
	add("attn_norm.weight", gain, s.width)
	if (i+1)%period == 0 {
		add("attn_q.weight", weight, 2*s.heads*s.dim, s.width)
		add("attn_k.weight", weight, s.kvHeads*s.dim, s.width)
		add("attn_v.weight", value, s.kvHeads*s.dim, s.width)
		add("attn_q_norm.weight", gain, s.dim)
		add("attn_k_norm.weight", gain, s.dim)
		add("attn_output.weight", weight, s.width, s.heads*s.dim)
	} else {
		columns, inner := (2*h.keyHeads+h.valueHeads)*h.dim, h.valueHeads*h.dim
		add("attn_qkv.weight", weight, columns, s.width)
		add("attn_gate.weight", weight, inner, s.width)
		add("ssm_beta.weight", weight, h.valueHeads, s.width)
		add("ssm_alpha.weight", weight, h.valueHeads, s.width)
		add("ssm_a", decay, h.valueHeads)
		add("ssm_dt.bias", gain, h.valueHeads)
		add("ssm_conv1d.weight", gain, columns, h.taps)
		add("ssm_norm.weight", gain, h.dim)
		add("ssm_out.weight", weight, s.width, inner)
	}
	add("post_attention_norm.weight", gain, s.width)
	if h.experts == 0 {
		add("ffn_gate.weight", weight, s.hidden, s.width)
		add("ffn_up.weight", weight, s.hidden, s.width)
		add("ffn_down.weight", down, s.width, s.hidden)
		return list
	}
	add("ffn_gate_inp.weight", gain, h.experts, s.width) // float32, as routers are kept
	add("ffn_gate_exps.weight", weight, h.experts, h.expertHidden, s.width)
	add("ffn_up_exps.weight", weight, h.experts, h.expertHidden, s.width)
	add("ffn_down_exps.weight", down, h.experts, s.width, h.expertHidden)
	add("ffn_gate_inp_shexp.weight", gain, s.width)
	add("ffn_gate_shexp.weight", weight, h.sharedWidth, s.width)
	add("ffn_up_shexp.weight", weight, h.sharedWidth, s.width)
	add("ffn_down_shexp.weight", down, s.width, h.sharedWidth)
	return list
}

// decays are values of a state's decay: below zero.
func decays(n int) func() ([]byte, error) {
	return func() ([]byte, error) {
		data := make([]byte, 0, 4*n)
		for i := range n {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(-float32(1+i)/float32(n)))
		}
		return data, nil
	}
}
