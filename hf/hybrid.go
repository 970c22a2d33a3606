package hf

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Hybrids: gated delta nets and gated attention (Qwen3-Next, Qwen3.5, Qwen3.6). GGUF's delta nets differ from transformers' in these:
//
//	ssm_a                    -exp(A_log)
//	ssm_norm                 its gain is w, where all others are 1 + w
//	ssm_conv1d               [columns, taps], of [columns, 1, taps]
//	value heads (qwen35)     those of one key head stand Hk apart, in every tensor that has value heads: GGUF's slot j*Hk + g is head
//	                         g*r + j of r value heads a key head
//	attn_qkv, attn_gate      (qwen3next) all queries, then all keys, then all values; and all gates: of a matrix that has them by key head
//
// Layers that draft follow the others: mtp.layers.0 is the layer after the last.

var deltaLayer = map[string]string{
	"linear_attn.in_proj_qkv":  "attn_qkv",
	"linear_attn.in_proj_z":    "attn_gate",
	"linear_attn.in_proj_b":    "ssm_beta",
	"linear_attn.in_proj_a":    "ssm_alpha",
	"linear_attn.in_proj_qkvz": "attn_qkv",
	"linear_attn.in_proj_ba":   "ssm_ba",
	"linear_attn.A_log":        "ssm_a.",
	"linear_attn.dt_bias":      "ssm_dt.bias.",
	"linear_attn.conv1d":       "ssm_conv1d",
	"linear_attn.norm":         "ssm_norm",
	"linear_attn.out_proj":     "ssm_out",
	"post_attention_layernorm": "post_attention_norm",
	"fc":                       "nextn.eh_proj",
	"pre_fc_norm_embedding":    "nextn.enorm",
	"pre_fc_norm_hidden":       "nextn.hnorm",
	"norm":                     "nextn.shared_head_norm",
}

func init() {
	hybrid := family{layer: with(qwen3Layer, deltaLayer), gains: true, rename: (*translation).hybridName, parts: (*translation).hybridParts}
	add := func(kind, name string, defaults map[string]any, config func(t *translation)) {
		f := hybrid
		f.name, f.defaults, f.config = name, defaults, config
		families[kind] = &f
	}
	add("qwen3_5_text", "qwen35", qwen35Defaults, qwen35Config)
	hybrid.layer, hybrid.fused = with(qwen2moeLayer, hybrid.layer), fusedHalves
	add("qwen3_5_moe_text", "qwen35moe", qwen35MoEDefaults, sparse(qwen35Config))
	add("qwen3_next", "qwen3next", qwen3NextDefaults, sparse(hybridConfig))
}

// The defaults of transformers' classes, beyond those of most.
var (
	deltaDefaults = map[string]any{
		"linear_conv_kernel_dim": number("4"), "linear_key_head_dim": number("128"), "linear_value_head_dim": number("128"),
		"linear_num_key_heads": number("16"), "linear_num_value_heads": number("32"), "head_dim": number("256"), "partial_rotary_factor": number("0.25"),
	}
	qwen35Defaults = with(deltaDefaults, map[string]any{
		"hidden_size": number("4096"), "intermediate_size": number("12288"), "num_hidden_layers": number("32"), "num_attention_heads": number("16"),
		"num_key_value_heads": number("4"), "max_position_embeddings": number("32768"), "vocab_size": number("248320"),
	})
	qwen35MoEDefaults = with(deltaDefaults, map[string]any{
		"hidden_size": number("2048"), "intermediate_size": number("0"), "num_hidden_layers": number("40"), "num_attention_heads": number("16"),
		"num_key_value_heads": number("2"), "max_position_embeddings": number("32768"), "vocab_size": number("248320"), "num_experts": number("256"),
		"num_experts_per_tok": number("8"), "moe_intermediate_size": number("512"), "shared_expert_intermediate_size": number("512"),
	})
	qwen3NextDefaults = with(deltaDefaults, map[string]any{
		"hidden_size": number("2048"), "intermediate_size": number("5632"), "num_hidden_layers": number("48"), "num_attention_heads": number("16"),
		"num_key_value_heads": number("2"), "max_position_embeddings": number("32768"), "vocab_size": number("151936"), "num_experts": number("512"),
		"num_experts_per_tok": number("10"), "moe_intermediate_size": number("512"), "shared_expert_intermediate_size": number("512"),
	})
)

// hybridConfig is the configuration of all hybrids.
func hybridConfig(t *translation) {
	t.dense()
	t.activation("hidden_act", "silu")
	t.refuse("attention_bias", !t.bool("attention_bias", false), "false")
	t.refuse("norm_topk_prob", t.bool("norm_topk_prob", true), "true")
	t.rope("rope", t.ropeParameters(), true)

	d := &t.delta
	d.keyHeads, d.valueHeads = t.int("linear_num_key_heads", -1), t.int("linear_num_value_heads", -1)
	d.dim, d.taps = t.int("linear_key_head_dim", -1), t.int("linear_conv_kernel_dim", -1)
	if d.keyHeads < 1 || d.valueHeads < 1 || d.valueHeads%d.keyHeads != 0 || d.dim < 1 || d.dim > maxHead {
		t.fail("linear_num_value_heads", "found %d value heads, %d key heads and a width of %d, want value heads a multiple of key heads, and all positive", d.valueHeads, d.keyHeads, d.dim)
		return
	}
	t.refuse("linear_value_head_dim", t.int("linear_value_head_dim", d.dim) == d.dim, fmt.Sprintf("%d, the width of a key", d.dim))
	t.set("ssm.conv_kernel", uint32(d.taps))
	t.set("ssm.state_size", uint32(d.dim))
	t.set("ssm.group_count", uint32(d.keyHeads))
	t.set("ssm.time_step_rank", uint32(d.valueHeads))
	t.set("ssm.inner_size", uint32(d.dim*d.valueHeads))
	t.set("full_attention_interval", uint32(t.int("full_attention_interval", 4)))
	d.layers = t.int("num_hidden_layers", -1)
	drafting := 0
	for t.has(fmt.Sprintf("mtp.layers.%d.input_layernorm.weight", drafting)) {
		drafting++
	}
	if drafting > 0 {
		t.set("block_count", uint32(d.layers+drafting))
		t.set("nextn_predict_layers", uint32(drafting))
	}
	if types := t.texts("layer_types"); types != nil {
		t.recurrent(types, drafting)
	}
}

// recurrent writes which layers are delta nets.
func (t *translation) recurrent(types []string, drafting int) {
	if len(types) != t.delta.layers {
		t.fail("layer_types", "found %d, want one for each of %d layers", len(types), t.delta.layers)
		return
	}
	list := make([]bool, len(types)+drafting)
	for i, kind := range types {
		list[i] = kind == "linear_attention"
		if !list[i] && kind != "full_attention" {
			t.fail("layer_types", "found %q, want full_attention or linear_attention", clip(kind))
			return
		}
	}
	t.set("attention.recurrent_layers", list)
}

func qwen35Config(t *translation) {
	hybridConfig(t)
	t.set("rope.dimension_sections", t.sections())
}

// sections is how a picture's positions share the pairs of a head: GGUF's readers ask for it, and text does not need it.
func (t *translation) sections() []int32 {
	sections := []int32{11, 11, 10, 0}
	for i, n := range t.ropeParameters().ints("mrope_section") {
		if i < 3 {
			sections[i] = int32(n)
		}
	}
	return sections
}

// sparse adds experts to a hybrid's configuration.
func sparse(config func(t *translation)) func(t *translation) {
	return func(t *translation) {
		config(t)
		t.everyLayer()
		t.experts("moe_intermediate_size")
		t.setInt("expert_shared_feed_forward_length", "shared_expert_intermediate_size", -1)
	}
}

// deltaSizes are those of a hybrid's delta nets.
type deltaSizes struct{ layers, keyHeads, valueHeads, dim, taps int }

// tiled is the order of value heads that a GGUF file of the family has: for each slot, transformers' head.
func (t *translation) tiled() []int {
	d, order := t.delta, []int(nil)
	perKey := d.valueHeads / d.keyHeads
	for slot := range d.valueHeads {
		order = append(order, slot%d.keyHeads*perKey+slot/d.keyHeads)
	}
	return order
}

// hybridName moves what drafts behind the layers.
func (t *translation) hybridName(name string) string {
	rest, ok := strings.CutPrefix(strings.TrimPrefix(name, "model."), "mtp.")
	if !ok {
		return name
	}
	if layer, ok := strings.CutPrefix(rest, "layers."); ok {
		index, part, _ := strings.Cut(layer, ".")
		for i := range 16 {
			if index == fmt.Sprint(i) {
				return fmt.Sprintf("model.layers.%d.%s", t.delta.layers+i, part)
			}
		}
		return name
	}
	return fmt.Sprintf("model.layers.%d.%s", t.delta.layers, rest)
}

// hybridParts makes GGUF's tensors of one of transformers'.
func (t *translation) hybridParts(name string, w weight) ([]weight, error) {
	d, stem := t.delta, name[strings.LastIndexByte(strings.TrimSuffix(strings.TrimSuffix(name, ".weight"), ".bias"), '.')+1:]
	values := func(width int) []int { return spread(t.order(), width) }
	rows := 0
	if len(w.Shape) > 0 {
		rows = w.Shape[0]
	}
	want := func(n int) error {
		if rows != n {
			return fmt.Errorf("shape %v, want %d rows", w.Shape, n)
		}
		return nil
	}
	qk, v := 2*d.keyHeads*d.dim, d.valueHeads*d.dim
	plain := func(order []int) ([]weight, error) {
		w.Name = name
		if err := want(len(order)); err != nil {
			return nil, err
		}
		return []weight{w.gather(order)}, nil
	}
	switch stem {
	case "attn_qkv.weight":
		if rows == qk+2*v {
			return t.unmix(name, w)
		}
		return plain(append(spread([]int{0}, qk), shifted(values(d.dim), qk)...))
	case "attn_gate.weight":
		return plain(values(d.dim))
	case "ssm_beta.weight", "ssm_alpha.weight", "ssm_dt.bias":
		return plain(values(1))
	case "ssm_a":
		a, err := vector(w)
		if err != nil {
			return nil, err
		}
		for i, x := range a {
			a[i] = float32(-math.Exp(float64(x)))
		}
		w = ofFloats(w, a)
		return plain(values(1))
	case "ssm_conv1d.weight":
		if len(w.Shape) != 3 || w.Shape[1] != 1 {
			return nil, fmt.Errorf("shape %v, want [%d 1 %d]", w.Shape, qk+v, d.taps)
		}
		w.Shape = []int{w.Shape[0], w.Shape[2]}
		c, err := vector(w)
		if err != nil {
			return nil, err
		}
		w = ofFloats(w, c)
		return plain(append(spread([]int{0}, qk), shifted(values(d.dim), qk)...))
	case "ssm_out.weight":
		return t.columns(name, w, values(1))
	}
	one := t.adapt
	switch stem {
	case "ssm_norm.weight", "ssm_ba.weight":
		one = func(_ string, w weight) (weight, error) { return asIs(w) }
	case "enorm.weight", "hnorm.weight":
		one = func(_ string, w weight) (weight, error) { return gain(w) }
	}
	w, err := one(name, w)
	w.Name = name
	return []weight{w}, err
}

// order is where the value heads of the family's GGUF files come from.
func (t *translation) order() []int {
	if t.family.name == "qwen3next" {
		return spread([]int{0}, t.delta.valueHeads)
	}
	return t.tiled()
}

// unmix parts a matrix that has queries, keys, values and gates by key head.
func (t *translation) unmix(name string, w weight) ([]weight, error) {
	d := t.delta
	perKey := d.valueHeads / d.keyHeads * d.dim
	group := 2*d.dim + 2*perKey
	var qkv, z []int
	for _, part := range []struct {
		to        *[]int
		at, width int
	}{{&qkv, 0, d.dim}, {&qkv, d.dim, d.dim}, {&qkv, 2 * d.dim, perKey}, {&z, 2*d.dim + perKey, perKey}} {
		for head := range d.keyHeads {
			*part.to = append(*part.to, shifted(spread([]int{0}, part.width), head*group+part.at)...)
		}
	}
	first, second := w.gather(qkv), w.gather(z)
	first.Name, second.Name = name, strings.Replace(name, "attn_qkv", "attn_gate", 1)
	return []weight{first, second}, nil
}

// columns puts the heads of each row in another order.
func (t *translation) columns(name string, w weight, order []int) ([]weight, error) {
	block, _ := w.Type.Block()
	if len(w.Shape) != 2 || w.Shape[1] != len(order)*t.delta.dim || t.delta.dim%block != 0 {
		return nil, fmt.Errorf("shape %v in %v, want %d columns in blocks that a head of %d can have", w.Shape, w.Type, len(order)*t.delta.dim, t.delta.dim)
	}
	w.Name = name
	if slices.IsSorted(order) {
		return []weight{w}, nil
	}
	heads := w
	heads.Shape = []int{w.Shape[0] * len(order), t.delta.dim}
	all := make([]int, 0, heads.Shape[0])
	for r := range w.Shape[0] {
		all = append(all, shifted(order, r*len(order))...)
	}
	out := heads.gather(all)
	out.Shape = w.Shape
	return []weight{out}, nil
}

// gather is a weight whose row i is row rows[i] of w.
func (w weight) gather(rows []int) weight {
	source := w.Tensor
	if len(rows) == w.Shape[0] && slices.IsSorted(rows) {
		return w
	}
	size := source.Size() / w.Shape[0]
	out := w
	out.Shape = append([]int{len(rows)}, w.Shape[1:]...)
	out.Data, out.Drop = nil, nil
	out.Make = func() ([]byte, error) {
		data, err := source.Bytes()
		if err != nil {
			return nil, err
		}
		made := make([]byte, 0, len(rows)*size)
		for _, r := range rows {
			made = append(made, data[r*size:][:size]...)
		}
		source.Release(0, len(source.Data))
		return made, nil
	}
	return out
}

// spread is width consecutive numbers for each of a list: those of the i-th thing of such a width.
func spread(order []int, width int) []int {
	out := make([]int, 0, len(order)*width)
	for _, i := range order {
		for j := range width {
			out = append(out, i*width+j)
		}
	}
	return out
}

func shifted(list []int, by int) []int {
	out := make([]int, len(list))
	for i, n := range list {
		out[i] = n + by
	}
	return out
}
