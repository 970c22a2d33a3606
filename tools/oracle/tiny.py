#!/usr/bin/env python3
"""Tiny random models of each family (families.py): as transformers saves them, as llama.cpp's converter writes them, and what
transformers computes from them in float64.

    tiny.py OUT [PATTERN ...]   writes NAME.zip (the folder), NAME.gguf.gz and NAME.json.gz for every model whose name matches
                                one of the patterns (llama-*), without patterns for all; README.md states the JSON

The converter is convert_hf_to_gguf.py of llama.cpp's sources, in $LLAMA_CPP (.peer/src by default; README.md says how to get it).

Everything that transformers calls float32 is float64 while goldens are made, so that they are the truth to about 1e-12; each
value is stored rounded to float32.
"""

import argparse
import base64
import contextlib
import fnmatch
import gzip
import hashlib
import io
import json
import logging
import math
import os
import sys
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import safetensors.torch  # before float64() renames dtypes
import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import AutoConfig
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING

import vocabularies
from families import BASE, TINY
from golden import log_softmax

ROOT = Path(__file__).resolve().parents[2]
CONTINUATION = 16  # greedy tokens after each prompt
MARGIN = 0.02  # the least difference between the best and the second logit along them
SCALES = {"embed_tokens": 1 / 4, "lm_head": 1 / 4, "q_proj": 1 / 8, "qkv_proj": 1 / 8, "": 1 / 16}


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


def configuration(m, vocab):
    """transformers' configuration of a row of families.py."""
    values = BASE | {"vocab_size": vocab} | m.config
    if "rope_parameters" not in values:
        values["rope_parameters"] = {"rope_type": "default", "rope_theta": 10000.0} | m.rope
    config = AutoConfig.for_model(m.kind, **{k: v for k, v in values.items() if v is not None or BASE.get(k) is None})
    config._attn_implementation = config._experts_implementation = "eager"
    return config


def build(m, vocab, seed):
    """The transformers model of `m` with weights drawn from `seed`. Call it within float64()."""
    torch.manual_seed(seed)
    config = configuration(m, vocab)
    model = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)](config).eval()
    if m.rotated:  # the pairs that should rest turn by nothing
        turn = 10000.0 ** (-torch.arange(0, m.rotated, 2) / m.rotated)
        model.model.rotary_emb.inv_freq = torch.cat([turn, torch.zeros((config.head_dim - m.rotated) // 2)])
    saved = model.state_dict()
    rng = np.random.default_rng(seed)
    for name, w in [*model.named_parameters(), *((n, b) for n, b in model.named_buffers() if n in saved and b.is_floating_point())]:
        k = torch.from_numpy(rng.integers(0, 4, w.shape) * 2.0 - 3)  # -3, -1, 1, 3: deviation 2.2
        if "norm" in name and w.dim() == 1:
            gain = 1 + k / 16
            if "q_norm" in name:
                gain = 2 * gain  # so that attention is sharp
            if name.endswith("model.norm.weight"):
                gain = m.final * gain
            w.copy_(gain if w.any() else gain - 1)  # where it begins as 0, the class multiplies by 1 + w
        elif w.dim() == 1:  # a bias, or what a class begins with some other way
            w.copy_(torch.round(16 * w) / 16 + k / 16)
        else:
            w.copy_(k * next(s for part, s in [*m.scales.items(), *SCALES.items()] if part in name))
    return model


def run(m, model, tokenizer, window):
    """What the JSON says about every prompt; None where a greedy token leads by too little."""
    prompts = []
    for text in vocabularies.PROMPTS:
        tokens = tokenizer.encode(text).ids
        out = model(torch.tensor([tokens]), use_cache=False, output_hidden_states=True)
        rows, hidden = out.logits[0].numpy(), np.stack([h[0].numpy() for h in out.hidden_states])
        positions = recorded(window, len(tokens))
        said = log_softmax(rows)[np.arange(len(tokens) - 1), tokens[1:]]
        greedy, margin, row = [], math.inf, rows[-1]
        while True:
            second, best = np.argsort(row)[-2:]
            margin = min(margin, row[best] - row[second])
            if margin < MARGIN:
                return None
            greedy.append(int(best))
            if len(greedy) == CONTINUATION:
                break
            row = model(torch.tensor([tokens + greedy]), use_cache=False).logits[0, -1].numpy()
        prompts.append({
            "text": text, "tokens": tokens, "logprobs": [round(float(p), 9) for p in said], "positions": positions,
            "logits": floats(rows[positions]), "hidden": floats(hidden[:, positions]), "greedy": greedy, "margin": round(float(margin), 6),
        })
    return prompts


def recorded(window, n):
    """Positions of a prompt of n tokens that are kept: the first, the last, and around multiples of the window."""
    near = {0, 1, 2, n - 1}
    for edge in (window, 2 * window, 64):  # 64: the page of memra's KV cache
        near |= {edge - 1, edge}
    return sorted(i for i in near if 0 <= i < n)


def floats(x):
    return base64.b64encode(x.astype("<f4").tobytes()).decode()


def convert(m, folder, path, drafts=False):
    """Writes the folder as a GGUF file, F32, by llama.cpp's converter; drafts: with the layers that draft."""
    sources = os.environ.get("LLAMA_CPP", str(ROOT / ".peer/src"))
    if not Path(sources, "convert_hf_to_gguf.py").is_file():
        raise SystemExit(f"oracle: {sources} has no convert_hf_to_gguf.py; set LLAMA_CPP to llama.cpp's sources (tools/oracle/README.md)")
    sys.path[:0] = [f"{sources}/gguf-py", sources]
    import conversion
    import gguf

    logging.getLogger("hf-to-gguf").setLevel(logging.ERROR)
    logging.getLogger("gguf").setLevel(logging.ERROR)
    hparams = conversion.ModelBase.load_hparams(folder, False)
    kind = conversion.get_model_class(conversion.get_model_architecture(hparams, conversion.ModelType.TEXT))

    class Converter(kind):
        model_arch = kind.model_arch
        no_mtp = not drafts  # transformers does not save layers that draft

        def get_vocab_base_pre(self, tokenizer):  # its table of hashes does not know so small a vocabulary
            return m.tokenizer

        def _set_vocab_glm(self):  # it asks for tokens that only GLM's vocabulary has
            self._set_vocab_gpt2()

        def prepare_metadata(self, vocab_only):
            super().prepare_metadata(vocab_only)
            self.gguf_writer.kv_data[0].pop("tokenizer.chat_template", None)  # a base model's file: tests write templates of their own
            for key, value in m.keys.items():
                key = f"{gguf.MODEL_ARCH_NAMES[self.model_arch]}.{key}"
                self.gguf_writer.kv_data[0].pop(key, None)
                add = {list: self.gguf_writer.add_array, float: self.gguf_writer.add_float32, int: self.gguf_writer.add_uint32}[type(value)]
                add(key, value)

    with contextlib.redirect_stderr(io.StringIO()), torch.inference_mode():
        Converter(folder, gguf.LlamaFileType.ALL_F32, path, model_name="Tiny").write()  # llama.cpp reads families out of names
    return gguf.MODEL_ARCH_NAMES[kind.model_arch]


def to_mxfp4(folder):
    """Stores experts' matrices as gpt-oss's checkpoints do: codes of 4 bits, two neighbours a byte, beside an exponent for each 32."""
    codes = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
    path = folder / "model.safetensors"
    out = {}
    for name, w in safetensors.torch.load_file(path).items():
        if not name.endswith(("gate_up_proj", "down_proj")):
            out[name] = w
            continue
        blocks = w.transpose(1, 2).unflatten(2, (-1, 32))
        exponent = torch.floor(torch.log2(blocks.abs().amax(-1))) - 1  # the largest code is 3 or 2
        code = (blocks / 2 ** exponent.unsqueeze(-1)).unsqueeze(-1).sub(codes).abs().argmin(-1)
        assert (codes[code] * 2 ** exponent.unsqueeze(-1) == blocks).all()
        out[name + "_blocks"] = (code[..., 0::2] | code[..., 1::2] << 4).to(torch.uint8).contiguous()
        out[name + "_scales"] = (exponent + 127).to(torch.uint8).contiguous()
    safetensors.torch.save_file(out, path, {"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4"}
    (folder / "config.json").write_text(json.dumps(config, indent=2))


def packed(folder):
    """A zip of the files of a folder, the same bytes each time."""
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as z:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                z.writestr(zipfile.ZipInfo(str(file.relative_to(folder)), (2000, 1, 1, 0, 0, 0)), file.read_bytes(), zipfile.ZIP_DEFLATED)
    return data.getvalue()


def squeeze(path, data):
    with open(path, "wb") as f, gzip.GzipFile("", "wb", 9, f, mtime=0) as z:
        z.write(data)


def make(m, out):
    with tempfile.TemporaryDirectory() as parent:
        folder, path = Path(parent) / m.name, Path(parent) / "model.gguf"
        folder.mkdir()
        tokenizer = vocabularies.write(m.tokenizer, m.start, folder)
        vocab, seed, prompts = tokenizer.get_vocab_size(), 0, None
        while not prompts:  # the first seed whose greedy tokens no rounding can change
            with float64():
                model = build(m, vocab, seed)
                prompts = run(m, model, tokenizer, m.config.get("sliding_window") or 16)
            seed += 1
        seed -= 1
        model.to(torch.float32).save_pretrained(folder, max_shard_size=m.shard)
        if m.mxfp4:
            to_mxfp4(folder)
        family = convert(m, folder, path)
        if not m.rotated:  # config.json cannot say so
            (out / f"{m.name}.zip").write_bytes(packed(folder))
        data = path.read_bytes()
    squeeze(out / f"{m.name}.gguf.gz", data)
    squeeze(out / f"{m.name}.json.gz", json.dumps({
        "family": family, "note": m.note, "seed": seed, "vocab": vocab, "states": model.config.num_hidden_layers + 1, "width": model.config.hidden_size,
        "keys": list(m.keys), "saved": not m.rotated, "mxfp4": m.mxfp4, "sha256": hashlib.sha256(data).hexdigest(),
        "prompts": prompts,
    }, ensure_ascii=False).encode())
    size = sum(p.stat().st_size for p in out.glob(f"{m.name}.*"))
    print(f"{m.name}: {family}, seed {seed}, {[len(p['tokens']) for p in prompts]} tokens, least margin {min(p['margin'] for p in prompts)}, {size // 1000} kB", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("pattern", nargs="*")
    arguments = parser.parse_args()
    torch.set_num_threads(1)  # the work is tiny, and threads that wait for each other are slow on a busy machine
    transformers.utils.logging.disable_progress_bar()
    arguments.out.mkdir(parents=True, exist_ok=True)
    chosen = [m for m in TINY if not arguments.pattern or any(fnmatch.fnmatch(m.name, p) for p in arguments.pattern)]
    for m in chosen:
        make(m, arguments.out)
    if not chosen:
        raise SystemExit(f"oracle: no model matches {' or '.join(arguments.pattern)}; families.py has {', '.join(m.name for m in TINY)}")
