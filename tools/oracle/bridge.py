"""GGUF to transformers: a causal language model with the dequantised tensors of a GGUF file, in the arithmetic of torch.

`load` reads the metadata and the tensors itself, so that what is compared with memra owes nothing to another GGUF loader:
every tensor is dequantised with the gguf package, renamed, and put where transformers keeps it. Two things differ between
the worlds. A GGUF llama stores the rows of the query and key matrices so that a rotary pair is two neighbours, where
transformers pairs the halves of a head. A GGUF gemma stores the gain of a norm as it multiplies (1 + w), where
transformers stores w.

A file that asks for something this module does not translate is refused by name, never read approximately.
"""

import hashlib

import numpy as np
import torch
from gguf import GGUFReader, dequantize
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM

# transformers name of a tensor of a layer -> GGUF name, both without the layer's prefix and ".weight".
LLAMA_LAYER = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
GEMMA3_LAYER = LLAMA_LAYER | {
    "self_attn.q_norm": "attn_q_norm",
    "self_attn.k_norm": "attn_k_norm",
    "post_attention_layernorm": "post_attention_norm",
    "pre_feedforward_layernorm": "ffn_norm",
    "post_feedforward_layernorm": "post_ffw_norm",
}
OUTSIDE = {"model.embed_tokens": "token_embd", "model.norm": "output_norm", "lm_head": "output"}

# Settings that `load` does not translate.
UNTRANSLATED = (
    "rope.scaling.type", "rope.scaling.factor", "rope.scaling.attn_factor", "rope.scale_linear", "rope.freq_base_swa",
    "attention.sliding_window_pattern", "final_logit_softcapping",
)


def gguf_name(name, layer_names):
    """The GGUF name of the transformers tensor `name`: model.layers.3.mlp.up_proj.weight -> blk.3.ffn_up.weight."""
    stem = name.removesuffix(".weight")
    if stem in OUTSIDE:
        return OUTSIDE[stem] + ".weight"
    _, _, layer, rest = stem.split(".", 3)
    return f"blk.{layer}.{layer_names[rest]}.weight"


def neighbours(w, heads):
    """Rows of a query or key matrix [heads*d, width], rotary pairs moved from (i, i+d/2) to (2i, 2i+1)."""
    return w.reshape(heads, 2, -1, w.shape[-1]).swapaxes(1, 2).reshape(w.shape)


def halves(w, heads):
    """Rows of a query or key matrix [heads*d, width], rotary pairs moved from (2i, 2i+1) to (i, i+d/2)."""
    return w.reshape(heads, -1, 2, w.shape[-1]).swapaxes(1, 2).reshape(w.shape)


def sha256(path):
    """The SHA-256 of a file, 32 bytes."""
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").digest()


def metadata(path):
    """The metadata of a GGUF file as a dictionary, arrays as lists."""
    return {key: field.contents() for key, field in GGUFReader(path).fields.items()}


def load(path):
    """A transformers model in float32 with the weights of the GGUF file at `path`, ready to run, with eager attention."""
    meta = metadata(path)
    family = meta["general.architecture"]
    if family not in ("llama", "gemma3"):
        raise ValueError(f"oracle: {path}: family {family} is not translated; this script knows llama and gemma3")
    for key in UNTRANSLATED:
        if f"{family}.{key}" in meta:
            raise ValueError(f"oracle: {path}: {family}.{key} = {meta[f'{family}.{key}']} is not translated")
    tensors = {t.name: t for t in GGUFReader(path).tensors}
    get = lambda key, *default: meta.get(f"{family}.{key}", *default)
    layers, layer_names = get("block_count"), LLAMA_LAYER if family == "llama" else GEMMA3_LAYER
    heads, width = get("attention.head_count"), get("embedding_length")
    kv_heads = get("attention.head_count_kv", heads)
    head_dim = get("attention.key_length", width // heads)
    common = dict(
        vocab_size=len(meta["tokenizer.ggml.tokens"]), hidden_size=width, intermediate_size=get("feed_forward_length"),
        num_hidden_layers=layers, num_attention_heads=heads, num_key_value_heads=kv_heads, head_dim=head_dim,
        max_position_embeddings=get("context_length"), rms_norm_eps=get("attention.layer_norm_rms_epsilon"),
        tie_word_embeddings="output.weight" not in tensors, attn_implementation="eager",
    )
    if family == "llama":
        if get("rope.dimension_count", head_dim) != head_dim:
            raise ValueError(f"oracle: {path}: rope.dimension_count {get('rope.dimension_count')}, head width {head_dim}")
        rope = {"rope_type": "default", "rope_theta": get("rope.freq_base", 10000.0)}
        model = LlamaForCausalLM(LlamaConfig(**common, rope_parameters=rope))
    else:
        model = Gemma3ForCausalLM(Gemma3TextConfig(
            **common, query_pre_attn_scalar=head_dim, sliding_window=get("attention.sliding_window"),
            layer_types=["full_attention" if i % 6 == 5 else "sliding_attention" for i in range(layers)],
            rope_parameters={
                "sliding_attention": {"rope_type": "default", "rope_theta": 10000.0},
                "full_attention": {"rope_type": "default", "rope_theta": get("rope.freq_base")},
            },
        ))
    used = set()
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # a tied output matrix is listed once, as the embedding
            source = gguf_name(name, layer_names)
            used.add(source)
            t = tensors[source]
            w = dequantize(t.data, t.tensor_type).astype(np.float32)
            if family == "llama" and ".attn_q." in source:
                w = halves(w, heads)
            if family == "llama" and ".attn_k." in source:
                w = halves(w, kv_heads)
            if family == "gemma3" and source.endswith("norm.weight"):
                w = w - np.float32(1)
            if w.shape != tuple(parameter.shape):
                raise ValueError(f"oracle: {path}: tensor {source}: shape {w.shape}, want {tuple(parameter.shape)}")
            parameter.copy_(torch.from_numpy(w))
    if unused := tensors.keys() - used:
        raise ValueError(f"oracle: {path}: tensors that the model does not use: {sorted(unused)}")
    return model.eval()
