"""The tiny models: a row for each variant of a family that can go wrong. tiny.py makes them.

A family is its rows here, no more: everything that transformers' configuration says goes into `config`, on top of BASE.
"""

import math
from dataclasses import dataclass, field

from vocabularies import piece_vocabulary

CONTEXT = 128
EPS = 9.999999747378752e-06  # 1e-5 as float32, which is what GGUF keeps

# What most configurations share. A row's own values come on top; None takes a value out.
BASE = dict(
    hidden_size=64, intermediate_size=256, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, head_dim=16,
    max_position_embeddings=CONTEXT, rms_norm_eps=EPS, tie_word_embeddings=True,
    pad_token_id=None, bos_token_id=None, eos_token_id=None,
)


@dataclass
class Model:
    """One tiny model.

    Weights are -3, -1, 1 or 3 times a power of two: exact in F32, F16 and BF16, and easy to compress. `scales` are those powers,
    by a part of the tensor's name: the first that matches counts, then tiny.SCALES."""

    name: str  # FAMILY-VARIANT
    kind: str  # transformers' model_type
    note: str  # what it is there to catch
    config: dict = field(default_factory=dict)
    rope: dict = field(default_factory=dict)  # rope_parameters beside base 10000; {} for a family that nests them in config
    tokenizer: str = "gpt-2"  # a kind of vocabularies.py
    start: bool = False  # sequences begin with a start token
    scales: dict = field(default_factory=dict)
    final: float = 1  # the last norm's gain is about this
    keys: dict = field(default_factory=dict)  # GGUF keys, without the family, written over what llama.cpp's converter says
    rotated: int = 0  # leading dimensions of a head that rotate where transformers turns whole heads; 0: all
    shard: str = "1GB"  # the most that a file of the folder holds
    mxfp4: bool = False  # experts' matrices are stored in MXFP4, which loses nothing of them


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
LONGROPE = {
    "rope_type": "longrope",
    "short_factor": [1.0, 1.1, 1.2, 1.4, 1.7, 2.0], "long_factor": [1.0, 1.3, 2.0, 3.5, 6.0, 9.0],
}
LLAMA = dict(intermediate_size=96)
# Gemma multiplies the embedding by sqrt(width): smaller, lest a tied output matrix repeat the input, and the last norm makes up.
GEMMA = dict(scales={"embed_tokens": 1 / 32}, final=8, start=True)


def gemma3(layers, layer_types, near=10000.0, rope=None, **config):
    """config of a gemma3: one character of layer_types a layer, w for windowed and f for full, repeated."""
    return dict(
        intermediate_size=96, num_hidden_layers=layers, query_pre_attn_scalar=config.get("head_dim", 16), sliding_window=16,
        layer_types=[{"w": "sliding_attention", "f": "full_attention"}[layer_types[i % len(layer_types)]] for i in range(layers)],
        rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": 1e6} | (rope or {}),
            "sliding_attention": {"rope_type": "default", "rope_theta": near},
        },
    ) | config


PERIOD = {"attention.sliding_window_pattern": 2}  # the converter never says: it trusts in the period of six

TINY = [
    Model("llama-plain", "llama", "rotary pairs are neighbours; the output matrix is the embedding", LLAMA),
    Model("llama-grouped", "llama", "three query heads share a key; heads wider than width/heads; an output matrix of its own; a start token",
          dict(hidden_size=96, intermediate_size=160, num_attention_heads=6, head_dim=32, tie_word_embeddings=False),
          {"rope_theta": 500000.0}, start=True, shard="60KB"),
    Model("llama-linear", "llama", "positions divided by 4", LLAMA, {"rope_type": "linear", "factor": 4.0}),
    Model("llama-llama3", "llama", "rope_freqs.weight divides frequencies: the first by 1, two by less than 8, the rest by 8", LLAMA,
          {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}),
    Model("llama-yarn", "llama", "yarn with every default: the attention factor is 1 + ln(4)/10", LLAMA, YARN),
    Model("llama-yarn-set", "llama", "yarn with beta_fast, beta_slow and attn_factor given, attn_factor on top of 1 + ln(4)/10", LLAMA,
          YARN | {"beta_fast": 8.0, "beta_slow": 2.0, "attention_factor": 0.75 * (1 + 0.1 * math.log(4))},
          keys={"rope.scaling.attn_factor": 0.75}),
    Model("llama-partial", "llama", "the first 8 dimensions of 16 rotate", LLAMA, rotated=8, keys={"rope.dimension_count": 8}),
    Model("gemma3-plain", "gemma3_text", "windows of 16 in layers 0 and 2, a period of 2 as an integer", gemma3(3, "wf"), keys=PERIOD, **GEMMA),
    Model("gemma3-linear", "gemma3_text", "positions of the global layer divided by 8, of the windowed ones not",
          gemma3(3, "wf", rope={"rope_type": "linear", "factor": 8.0}), keys=PERIOD, **GEMMA),
    Model("gemma3-six", "gemma3_text", "no pattern given: every sixth layer is global",
          gemma3(7, "wwwwwf", hidden_size=32, intermediate_size=64, num_attention_heads=2, num_key_value_heads=1), **GEMMA),
    Model("gemma3-local", "gemma3_text", "a pattern of booleans, a base of the windowed layers, one key head, wide heads, an output matrix",
          gemma3(2, "wf", near=5000.0, hidden_size=96, intermediate_size=160, num_attention_heads=3, num_key_value_heads=1, head_dim=32,
                 tie_word_embeddings=False),
          keys={"attention.sliding_window_pattern": [True, False], "rope.freq_base_swa": 5000.0}, **GEMMA),
    Model("llama-biases", "llama", "biases wherever a llama may have some", LLAMA | dict(attention_bias=True, mlp_bias=True)),
    Model("qwen2-plain", "qwen2", "biases of queries, keys and values; heads as wide as width/heads; an output matrix",
          dict(head_dim=None, tie_word_embeddings=False), tokenizer="qwen2"),
    Model("qwen3-plain", "qwen3", "normalised queries and keys, heads wider than width/heads", dict(head_dim=32), {"rope_theta": 1e6}, tokenizer="qwen2"),
    Model("qwen3-yarn", "qwen3", "yarn where pairs are halves", dict(head_dim=32), YARN | {"rope_theta": 1e6}, tokenizer="qwen2"),
    Model("gemma2-plain", "gemma2", "scores and logits capped, low enough to bend most; windows of 16 in layers 0 and 2",
          dict(num_hidden_layers=3, query_pre_attn_scalar=16, attn_logit_softcapping=4.0, final_logit_softcapping=6.0, sliding_window=16),
          tokenizer="gemma", scales={"embed_tokens": 1 / 32}, final=2, start=True),
    Model("mistral-plain", "mistral", "a llama under another name, with a vocabulary of SentencePiece", dict(sliding_window=None, tie_word_embeddings=False),
          tokenizer="llama", start=True),
    Model("mistral-window", "mistral", "windows of 16 in all layers", dict(sliding_window=16, head_dim=32), keys={"attention.sliding_window": 16}),
    Model("phi3-window", "phi3", "queries, keys and values in one matrix, gate and up in one; windows of 16 in all layers",
          dict(head_dim=None, sliding_window=16, tie_word_embeddings=False, original_max_position_embeddings=CONTEXT), tokenizer="llama", start=True),
    Model("phi3-longrope", "phi3", "longrope beyond the original context: long divisors, sharpened; 12 dimensions of 16 rotate",
          dict(head_dim=None, partial_rotary_factor=0.75, original_max_position_embeddings=4),
          LONGROPE | {"original_max_position_embeddings": 4, "partial_rotary_factor": 0.75}, tokenizer="llama", start=True),
    Model("phi3-shortrope", "phi3", "longrope of a model within the original context: short divisors",
          dict(head_dim=None, partial_rotary_factor=0.75, max_position_embeddings=256, original_max_position_embeddings=256),
          LONGROPE | {"original_max_position_embeddings": 256, "partial_rotary_factor": 0.75}, tokenizer="llama", start=True),
    Model("granite-plain", "granite", "multipliers of the embedding, scores, sublayers and logits",
          dict(head_dim=None, embedding_multiplier=3.0, attention_multiplier=0.15, residual_multiplier=0.6, logits_scaling=1.7), tokenizer="smollm",
          scales={"embed_tokens": 1 / 32}, final=4),
    Model("smollm3-plain", "smollm3", "the fourth layer's positions do not turn", dict(num_hidden_layers=5, head_dim=None), tokenizer="llama-bpe", start=True),
]

# Layers of four: three gated delta nets, then attention. Heads of delta nets are 16 wide, two key heads.
QWEN35 = dict(
    num_hidden_layers=4, intermediate_size=96, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16, linear_value_head_dim=16,
)
SPARSE = dict(num_experts=8, num_experts_per_tok=3, moe_intermediate_size=32, shared_expert_intermediate_size=64)
QUARTER = {"rope_theta": 1e6, "partial_rotary_factor": 0.25}
PICTURES = {"mrope_section": [1, 1, 0]}  # how many pairs turn by which of a picture's positions; llama.cpp asks for no more than there are
CONV = {"conv1d": 1 / 8}

HYBRID = [
    Model("qwen35-plain", "qwen3_5_text", "two value heads share a key head, 2 apart in GGUF; a quarter of a head turns; an output matrix of its own",
          QWEN35 | dict(tie_word_embeddings=False), QUARTER | PICTURES, tokenizer="qwen35", scales=CONV),
    Model("qwen35-even", "qwen3_5_text", "as many key heads as value heads; layers named one by one, attention in the first and the third; half of a head turns",
          QWEN35 | dict(linear_num_value_heads=2, layer_types=["full_attention", "linear_attention"] * 2), QUARTER | {"partial_rotary_factor": 0.5, "mrope_section": [2, 1, 1]},
          tokenizer="qwen35", scales=CONV),
    Model("qwen35moe-plain", "qwen3_5_moe_text", "experts in one tensor, gate above up; a shared expert behind a gate", QWEN35 | SPARSE, QUARTER | PICTURES,
          tokenizer="qwen35", scales=CONV),
    Model("qwen3next-plain", "qwen3_next", "value heads side by side; queries, keys, values and gates of a key head in one matrix", QWEN35 | SPARSE, QUARTER,
          tokenizer="qwen2", scales=CONV),
    Model("qwen2moe-plain", "qwen2_moe", "biases of q, k and v; weights of the chosen do not add to one; a gated shared expert",
          dict(tie_word_embeddings=False, moe_intermediate_size=32, shared_expert_intermediate_size=96, num_experts=8, num_experts_per_tok=2, norm_topk_prob=False)),
    Model("qwen3moe-plain", "qwen3_moe", "weights of the chosen add to one; normalised heads; hidden width of an expert its own",
          dict(moe_intermediate_size=32, num_experts=8, num_experts_per_tok=3, norm_topk_prob=True)),
    Model("mixtral-plain", "mixtral", "a llama with experts of the dense width: rotary pairs are neighbours",
          dict(intermediate_size=96, num_local_experts=4, num_experts_per_tok=2, sliding_window=None)),
    Model("olmoe-plain", "olmoe", "queries and keys normalised over all heads; weights of the chosen do not add to one",
          dict(tie_word_embeddings=False, intermediate_size=32, num_experts=8, num_experts_per_tok=3, norm_topk_prob=False, clip_qkv=None)),
    Model("olmoe-heads", "olmoe", "as many key heads as query heads, as in the real one",
          dict(tie_word_embeddings=False, num_key_value_heads=4, intermediate_size=32, num_experts=8, num_experts_per_tok=3, norm_topk_prob=False, clip_qkv=None)),
    Model("glm4moe-plain", "glm4_moe", "a dense layer first; sigmoid scores, chosen with a bias, scaled; an ungated shared expert; biases; half of a head rotates",
          dict(num_hidden_layers=3, moe_intermediate_size=32, n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=1, first_k_dense_replace=1,
               n_group=1, topk_group=1, routed_scaling_factor=1.5, norm_topk_prob=True, attention_bias=True, use_qk_norm=False), {"partial_rotary_factor": 0.5}),
    Model("glm4moe-normed", "glm4_moe", "normalised heads, no biases, two shared experts in one",
          dict(num_hidden_layers=2, moe_intermediate_size=32, n_routed_experts=8, num_experts_per_tok=2, n_shared_experts=2, first_k_dense_replace=1,
               n_group=1, topk_group=1, routed_scaling_factor=1.0, norm_topk_prob=True, attention_bias=False, use_qk_norm=True), {"partial_rotary_factor": 0.5}),
    Model("gptoss-plain", "gpt_oss", "attention sinks, windows of 16 in layers 0 and 2, clamped gates, biases everywhere, yarn without truncation",
          dict(num_hidden_layers=3, intermediate_size=64, num_local_experts=4, num_experts_per_tok=2, sliding_window=16, tie_word_embeddings=False,
               layer_types=["sliding_attention", "full_attention", "sliding_attention"]),
          {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 32}),
    Model("gptoss-mxfp4", "gpt_oss", "experts in MXFP4; windows of 32; five experts of eight",
          dict(num_hidden_layers=2, intermediate_size=32, num_local_experts=8, num_experts_per_tok=5, sliding_window=32, tie_word_embeddings=False,
               layer_types=["sliding_attention", "full_attention"]),
          {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 32}, mxfp4=True),
]

TINY += HYBRID


def gemma4(layer_types, **config):
    """config of a gemma4: one character of layer_types a layer, w for windowed and f for full. Full layers have heads of 32."""
    return dict(
        num_hidden_layers=len(layer_types), intermediate_size=96, sliding_window=16, hidden_size_per_layer_input=0, final_logit_softcapping=8.0,
        layer_types=[{"w": "sliding_attention", "f": "full_attention"}[c] for c in layer_types], global_head_dim=32,
        rope_parameters={
            "full_attention": {"rope_type": "proportional", "rope_theta": 1e6, "partial_rotary_factor": 0.25},
            "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
        },
    ) | config


# Scores are not scaled, and normalised queries and keys are long: gains of about 1 make attention sharp enough.
GEMMA4 = dict(tokenizer="gemma", start=True, final=8, scales={"embed_tokens.": 1 / 32})

TINY += [
    Model("gemma4-dense", "gemma4_text",
          "a global layer of wider heads and fewer keys, whose values are its keys; a quarter of its pairs turn; scaled layers; capped logits",
          gemma4("wwf", attention_k_eq_v=True, num_global_key_value_heads=1), **GEMMA4),
    Model("gemma4-parts", "gemma4_text", "per-layer embeddings; three layers read another's keys and values, each of its kind, with wider perceptrons",
          gemma4("wfwwf", hidden_size_per_layer_input=16, vocab_size_per_layer_input=len(piece_vocabulary("gemma")[0]), num_kv_shared_layers=3,
                 use_double_wide_mlp=True), **GEMMA4),
    Model("gemma4-experts", "gemma4_text", "a mixture of experts beside the perceptron, weights of experts scaled one by one",
          gemma4("wf", enable_moe_block=True, num_experts=6, top_k_experts=2, moe_intermediate_size=32, attention_k_eq_v=True), **GEMMA4),
]
