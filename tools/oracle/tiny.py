#!/usr/bin/env python3
"""Tiny random models of each family as GGUF F32 files, with the float64 logits that transformers gives them.

    tiny.py make OUT     writes NAME.gguf.gz and NAME.json.gz for every model below; README.md states the JSON
    tiny.py check OUT    compares the JSON there with what llama.cpp computes from the GGUF (needs llama-cpp-python)

Weights are -3, -1, 1 or 3 times a power of two, gains nearly so: exact in F32, F16 and BF16, and easy to compress.
Logits are transformers' own code with its float32 replaced by float64, so they are the truth to about 1e-12; each is
stored rounded to float32.
"""

import argparse
import base64
import contextlib
import gzip
import hashlib
import json
import math
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import Gemma3ForCausalLM, Gemma3TextConfig, LlamaConfig, LlamaForCausalLM

from bridge import GEMMA3_LAYER, LLAMA_LAYER, gguf_name, neighbours
from golden import log_softmax

PROMPTS = (
    "Hi \u00e9",
    "Then the thin rain ended.",
    "In the morning the others went in to see what the night had left: 3 shells, a rope \u2014 and no boat, \u00e0 peine.",
)
CONTINUATION = 16  # greedy tokens after each prompt
MARGIN = 0.02  # the least difference between the best and the second logit along them
CONTEXT = 128
EPS = float(np.float32(1e-5))  # GGUF keeps it as float32

MERGES = ["Ġ t", "h e", "i n", "Ġt he"]
SPECIAL = ["<|start|>", "<|end|>", "<|pad|>"]  # the last three ids


@dataclass
class Model:
    """One tiny model: its shape, and how its rotary and windows differ from the plain one."""

    name: str
    note: str  # what it is there to catch
    layers: int = 2
    width: int = 64
    hidden: int = 96
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    base: float = 10000.0
    tied: bool = True
    start: bool = False  # begins sequences with <|start|>
    rope: dict = field(default_factory=dict)  # transformers' rope_parameters, of the global layers in gemma3
    attn_factor: float = 1.0  # rope.scaling.attn_factor; rope has the attention_factor it amounts to
    rotated: int = 0  # leading dimensions of a head that rotate, 0 for all
    window: int = 16  # gemma3
    global_layers: tuple = ()  # gemma3
    pattern: object = None  # gemma3: attention.sliding_window_pattern as written, None to leave the default of six
    local_base: float = 0  # gemma3: rope.freq_base_swa, 0 to leave the default of 10000

    @property
    def family(self):
        return self.name.split("-")[0]


YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}
TINY = [
    Model("llama-plain", "rotary pairs are neighbours; the output matrix is the embedding"),
    Model("llama-grouped", "three query heads share a key; heads wider than width/heads; an output matrix of its own; a start token",
          width=96, hidden=160, heads=6, head_dim=32, base=500000.0, tied=False, start=True),
    Model("llama-linear", "positions divided by 4", rope={"rope_type": "linear", "factor": 4.0}),
    Model("llama-llama3", "rope_freqs.weight divides frequencies: the first by 1, two by less than 8, the rest by 8",
          rope={"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                "original_max_position_embeddings": 64}),
    Model("llama-yarn", "yarn with every default: the attention factor is 1 + ln(4)/10", rope=YARN),
    Model("llama-yarn-set", "yarn with beta_fast, beta_slow and attn_factor given, attn_factor on top of 1 + ln(4)/10",
          rope=YARN | {"beta_fast": 8.0, "beta_slow": 2.0, "attention_factor": 0.75 * (1 + 0.1 * math.log(4))}, attn_factor=0.75),
    Model("llama-partial", "the first 8 dimensions of 16 rotate", rotated=8),
    Model("gemma3-plain", "windows of 16 in layers 0 and 2, a period of 2 as an integer",
          layers=3, base=1e6, start=True, global_layers=(1,), pattern=2),
    Model("gemma3-linear", "positions of the global layer divided by 8, of the windowed ones not",
          layers=3, base=1e6, start=True, global_layers=(1,), pattern=2, rope={"rope_type": "linear", "factor": 8.0}),
    Model("gemma3-six", "no pattern given: every sixth layer is global",
          layers=7, width=32, hidden=64, heads=2, kv_heads=1, base=1e6, start=True, global_layers=(5,)),
    Model("gemma3-local", "a pattern of booleans, a base of the windowed layers, one key head, wide heads, an output matrix",
          width=96, hidden=160, heads=3, kv_heads=1, head_dim=32, base=1e6, tied=False, start=True,
          global_layers=(1,), pattern=[True, False], local_base=5000.0),
    Model("gemma3-partial", "the first 8 dimensions of 16 rotate, halves paired",
          layers=3, base=1e6, start=True, global_layers=(1,), pattern=2, rotated=8),
]


def vocabulary():
    """Pieces of the byte-level vocabulary: 256 bytes, the merges, three control tokens."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    return alphabet + [m.replace(" ", "") for m in MERGES] + SPECIAL


def prompt_tokens(m, text):
    pieces = vocabulary()
    tokenizer = Tokenizer(models.BPE(vocab={p: i for i, p in enumerate(pieces)}, merges=[tuple(x.split()) for x in MERGES]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    return [pieces.index("<|start|>")] * m.start + tokenizer.encode(text).ids


class NoFloat32(TorchDispatchMode):
    """Raises if any operation gives a float32 tensor."""

    float32 = torch.float32

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        out = func(*args, **(kwargs or {}))
        for t in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(t, torch.Tensor) and t.dtype == self.float32:
                raise TypeError(f"oracle: {func} gives float32")
        return out


@contextlib.contextmanager
def float64():
    """Within it, whatever transformers calls float32 is float64; an operation that still gives float32 fails."""
    saved = torch.float32, torch.float, torch.Tensor.float, torch.get_default_dtype()
    torch.float32 = torch.float = torch.float64
    torch.Tensor.float = torch.Tensor.double
    torch.set_default_dtype(torch.float64)
    try:
        with NoFloat32(), torch.no_grad():
            yield
    finally:
        torch.float32, torch.float, torch.Tensor.float = saved[:3]
        torch.set_default_dtype(saved[3])


def build(m, seed):
    """The transformers model of `m` in float64, with weights drawn from `seed`. Call it within float64()."""
    common = dict(
        vocab_size=len(vocabulary()), hidden_size=m.width, intermediate_size=m.hidden, num_hidden_layers=m.layers,
        num_attention_heads=m.heads, num_key_value_heads=m.kv_heads, head_dim=m.head_dim, max_position_embeddings=CONTEXT,
        rms_norm_eps=EPS, tie_word_embeddings=m.tied, attn_implementation="eager",
        pad_token_id=None, bos_token_id=None, eos_token_id=None,
    )
    rope = {"rope_type": "default", "rope_theta": m.base} | m.rope
    if m.family == "llama":
        model = LlamaForCausalLM(LlamaConfig(**common, rope_parameters=rope)).eval()
        rotary = {"inv_freq": m.base}
    else:
        local = m.local_base or 10000.0
        model = Gemma3ForCausalLM(Gemma3TextConfig(
            **common, query_pre_attn_scalar=m.head_dim, sliding_window=m.window,
            layer_types=["full_attention" if i in m.global_layers else "sliding_attention" for i in range(m.layers)],
            rope_parameters={"full_attention": rope, "sliding_attention": {"rope_type": "default", "rope_theta": local}},
        )).eval()
        rotary = {"full_attention_inv_freq": m.base, "sliding_attention_inv_freq": local}
    if m.rotated:  # transformers rotates whole heads in these families: the pairs that should rest turn by nothing
        for name, base in rotary.items():
            turn = base ** (-torch.arange(0, m.rotated, 2) / m.rotated)
            setattr(model.model.rotary_emb, name, torch.cat([turn, torch.zeros((m.head_dim - m.rotated) // 2)]))
    rng = np.random.default_rng(seed)
    for name, w in model.named_parameters():
        k = torch.from_numpy(rng.integers(0, 4, w.shape) * 2.0 - 3)  # -3, -1, 1, 3: deviation 2.2
        if "norm" in name:
            gain = 1 + k / 16
            if "q_norm" in name:
                gain = 2 * gain  # so that attention is sharp
            if name == "model.norm.weight" and m.family == "gemma3":
                gain = 8 * gain  # the embedding is small, see below
            w.copy_(gain - 1 if m.family == "gemma3" else gain)
        elif "embed_tokens" in name or "lm_head" in name:
            # gemma3 multiplies the embedding by sqrt(width): smaller, lest a tied output matrix repeat the input
            w.copy_(k / (32 if m.family == "gemma3" else 4))
        elif "q_proj" in name:
            w.copy_(k / 8)
        else:
            w.copy_(k / 16)
    return model


def leading(d, rotated):
    """Order of a head's dimensions that brings the rotated pairs (i, i+d/2) to (i, i+rotated/2), the others behind."""
    half = [*range(rotated // 2), *range(d // 2, d // 2 + rotated // 2)]
    return half + [i for i in range(d) if i not in half]


def write_gguf(m, model, path):
    """Writes the model as llama.cpp's converter would: its tensor names, keys and order of the rotary pairs."""
    w = gguf.GGUFWriter(path, m.family)
    w.add_name(m.name)
    w.add_block_count(m.layers)
    w.add_context_length(CONTEXT)
    w.add_embedding_length(m.width)
    w.add_feed_forward_length(m.hidden)
    w.add_head_count(m.heads)
    w.add_head_count_kv(m.kv_heads)
    w.add_key_length(m.head_dim)
    w.add_value_length(m.head_dim)
    w.add_layer_norm_rms_eps(EPS)
    w.add_rope_freq_base(m.base)
    kind = m.rope.get("rope_type")
    if kind in ("linear", "yarn"):
        w.add_rope_scaling_type(gguf.RopeScalingType(kind))
        w.add_rope_scaling_factor(m.rope["factor"])
    if kind == "yarn":
        w.add_rope_scaling_orig_ctx_len(m.rope["original_max_position_embeddings"])
        if "beta_fast" in m.rope:
            w.add_rope_scaling_yarn_beta_fast(m.rope["beta_fast"])
            w.add_rope_scaling_yarn_beta_slow(m.rope["beta_slow"])
            w.add_rope_scaling_attn_factors(m.attn_factor)
    if kind == "llama3":  # no key: divisors of the frequencies, in a tensor
        rotary = model.model.rotary_emb
        plain = m.base ** -(np.arange(0, m.head_dim, 2) / m.head_dim)
        w.add_tensor("rope_freqs.weight", (plain / rotary.inv_freq.numpy()).astype(np.float32))
    if m.family == "llama":
        w.add_vocab_size(len(vocabulary()))
        w.add_rope_dimension_count(m.rotated or m.head_dim)
    else:
        w.add_sliding_window(m.window)
        if m.pattern is not None:
            w.add_sliding_window_pattern(m.pattern)
        if m.local_base:
            w.add_rope_freq_base_swa(m.local_base)
        if m.rotated:
            w.add_rope_dimension_count(m.rotated)

    pieces = vocabulary()
    w.add_tokenizer_model("gpt2")
    w.add_tokenizer_pre("gpt-2")
    w.add_token_list(pieces)
    w.add_token_types([gguf.TokenType.CONTROL if p in SPECIAL else gguf.TokenType.NORMAL for p in pieces])
    w.add_token_merges(MERGES)
    w.add_bos_token_id(pieces.index("<|start|>"))
    w.add_eos_token_id(pieces.index("<|end|>"))
    w.add_pad_token_id(pieces.index("<|pad|>"))
    w.add_add_bos_token(m.start)

    order = leading(m.head_dim, m.rotated)
    for name, p in model.named_parameters():
        target, x = gguf_name(name, LLAMA_LAYER if m.family == "llama" else GEMMA3_LAYER), p.detach().numpy()
        if m.family == "llama" and (".attn_q." in target or ".attn_k." in target):
            x = neighbours(x, x.shape[0] // m.head_dim)
        if m.family == "gemma3":
            if target.endswith("norm.weight"):
                x = x + 1
            if m.rotated and (".attn_q." in target or ".attn_k." in target):
                x = x.reshape(-1, m.head_dim, m.width)[:, order].reshape(x.shape)
            if m.rotated and ("q_norm" in target or "k_norm" in target):
                x = x[order]
        w.add_tensor(target, np.ascontiguousarray(x, dtype=np.float32))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def logits(model, tokens):
    """Logits [positions, vocab] of a sequence, float64."""
    return model(torch.tensor([tokens]), use_cache=False).logits[0].numpy()


def recorded(m, n):
    """Positions of a prompt of n tokens whose logits are kept: the first, the last, and around multiples of the window."""
    near = {0, 1, 2, n - 1}
    for edge in (m.window, 2 * m.window, 64):  # 64: the page of memra's KV cache
        near |= {edge - 1, edge}
    return sorted(i for i in near if 0 <= i < n)


def run(m, model):
    """What the JSON says about every prompt, and the least margin of all continuations."""
    prompts = []
    for text in PROMPTS:
        tokens = prompt_tokens(m, text)
        rows = logits(model, tokens)
        positions = recorded(m, len(tokens))
        said = log_softmax(rows)[np.arange(len(tokens) - 1), tokens[1:]]
        greedy, margin, row = [], math.inf, rows[-1]
        while True:
            second, best = np.argsort(row)[-2:]
            margin = min(margin, row[best] - row[second])
            greedy.append(int(best))
            if len(greedy) == CONTINUATION:
                break
            row = logits(model, tokens + greedy)[-1]
        prompts.append({
            "text": text, "tokens": tokens, "logprobs": [round(float(p), 9) for p in said], "positions": positions,
            "logits": base64.b64encode(rows[positions].astype("<f4").tobytes()).decode(), "greedy": greedy,
            "margin": round(float(margin), 6),
        })
    return prompts


def pack(path, data):
    with open(path, "wb") as f, gzip.GzipFile("", "wb", 9, f, mtime=0) as z:
        z.write(data)


def make(out):
    out.mkdir(parents=True, exist_ok=True)
    for m in TINY:
        seed = 0
        with float64():
            while True:  # the first seed whose greedy tokens no rounding can change
                model = build(m, seed)
                prompts = run(m, model)
                if min(p["margin"] for p in prompts) >= MARGIN:
                    break
                seed += 1
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "model.gguf"
                write_gguf(m, model, path)
                data = path.read_bytes()
        truth = {"family": m.family, "note": m.note, "seed": seed, "vocab": len(vocabulary()), "sha256": hashlib.sha256(data).hexdigest()}
        pack(out / f"{m.name}.gguf.gz", data)
        pack(out / f"{m.name}.json.gz", json.dumps(truth | {"prompts": prompts}, ensure_ascii=False).encode())
        print(f"{m.name}: seed {seed}, {[len(p['tokens']) for p in prompts]} tokens, least margin {min(p['margin'] for p in prompts)}")


def check(out):
    """Prints how far llama.cpp's logits are from the recorded ones, relative to their deviation, and whether tokens agree."""
    from llama_cpp import Llama

    for m in TINY:
        truth = json.loads(gzip.decompress((out / f"{m.name}.json.gz").read_bytes()))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.gguf"
            path.write_bytes(gzip.decompress((out / f"{m.name}.gguf.gz").read_bytes()))
            betas = {f"yarn_{k}": m.rope[k] for k in ("beta_fast", "beta_slow") if k in m.rope}  # not read from the file for llama
            try:  # type_k, type_v 0: the KV cache in float32
                peer = Llama(str(path), n_ctx=CONTEXT, logits_all=True, n_threads=1, verbose=False, type_k=0, type_v=0, **betas)
            except ValueError:
                print(f"{m.name}: llama.cpp does not load it")
                continue
            worst, same = 0.0, True
            for p in truth["prompts"]:
                same &= peer.tokenize(p["text"].encode(), add_bos=True) == p["tokens"]
                peer.reset()
                peer.eval(p["tokens"] + p["greedy"])
                want = np.frombuffer(base64.b64decode(p["logits"]), "<f4").reshape(-1, truth["vocab"])
                worst = max(worst, np.abs(peer.scores[p["positions"]] - want).max() / want.std())
                ends = range(len(p["tokens"]) - 1, len(p["tokens"]) + len(p["greedy"]) - 1)
                same &= [int(peer.scores[i].argmax()) for i in ends] == p["greedy"]
            print(f"{m.name}: logits within {worst:.1e} of their deviation, tokens {'equal' if same else 'DIFFER'}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=("make", "check"))
    parser.add_argument("out", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(2)
    {"make": make, "check": check}[arguments.command](arguments.out)
