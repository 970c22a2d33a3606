#!/usr/bin/env python3
"""Hugging Face model folders, as transformers saves them, for the tests of packages hf and safetensors.

    hf.py quantised OUT      OUT/quantised.zip: matrices in FP8, INT8, NVFP4 and MXFP4, and what compressed-tensors,
                             transformers and torch say that they mean
    hf.py sentencepiece OUT  OUT/sentencepiece.zip: two vocabularies that sentencepiece trains on this repository's README, each as
                             tokenizer.model and as tokenizer.json, and the tokens that it gives to some texts
    hf.py real GGUF FOLDER   a real GGUF file (.models) as a folder, dequantised; --dtype bfloat16 or float32

In all of them config.json, model.safetensors and the tokenizer's files are written by transformers, tokenizers and sentencepiece.
"""

import argparse
import hashlib
import io
import json
import tempfile
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

import bridge
import tiny
from vocabularies import BYTE, CONTROL, NORMAL, UNKNOWN, byte_level, pieces, sentencepiece_model

ROOT = Path(__file__).resolve().parents[2]


def pack(folder, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(tiny.packed(folder))
    print(f"{path}: {path.stat().st_size} bytes")


def make_quantised(out):
    """Matrices in every spelling. truth.json has the SHA-256 of what each means, as little-endian float32 with -0 written as 0 (GGUF
    has no -0 of four bits), and its first values."""
    from compressed_tensors.compressors.nvfp4.helpers import pack_fp4_to_uint8, unpack_fp4_from_uint8
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    g = torch.Generator().manual_seed(7)
    rows, width = 136, 192  # neither is whole blocks of 128
    files, truth = {}, {}

    def codes(kind):  # every code but NaN and infinity
        b = torch.randint(0, 256, (rows, width), generator=g, dtype=torch.uint8)
        x = b.view(kind).float()
        return torch.where(torch.isfinite(x), b, torch.zeros_like(b)).view(kind)

    def scale(*shape, power=False, kind=torch.float32):
        x = torch.rand(shape, generator=g) + 0.5
        return (torch.exp2(torch.round(4 * x - 8)) if power else x / 16).to(kind)

    def fp8(name, kind, suffix, s, block=None):
        w = torch.randint(-128, 128, (rows, width), generator=g, dtype=torch.int8) if kind == torch.int8 else codes(kind)
        files[f"{name}.weight"], files[f"{name}.{suffix}"] = w, s
        s = s.float()
        if block:
            s = s.repeat_interleave(block, 0).repeat_interleave(block, 1)[:rows, :width]
        truth[name] = w.float() * s

    fp8("block", torch.float8_e4m3fn, "weight_scale_inv", scale(2, 2), 128)
    fp8("block_bf16", torch.float8_e4m3fn, "weight_scale_inv", scale(2, 2, kind=torch.bfloat16), 128)
    fp8("block_powers", torch.float8_e4m3fn, "weight_scale_inv", scale(2, 2, power=True), 128)
    fp8("tensor", torch.float8_e4m3fn, "weight_scale", scale(1))
    fp8("scalar", torch.float8_e5m2, "weight_scale", scale())
    fp8("channel", torch.float8_e4m3fn, "weight_scale", scale(rows, 1, kind=torch.bfloat16))
    fp8("int8", torch.int8, "weight_scale", scale(rows, 1))
    files["tensor.input_scale"] = scale(1)

    values = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0])

    def fp4():
        return values[torch.randint(0, 16, (rows, width), generator=g)]

    def e4m3(*shape):  # a scale: positive, of every binade
        return torch.randint(1, 0x7F, shape, generator=g, dtype=torch.uint8).view(torch.float8_e4m3fn)

    for name, factor in (("nvfp4_ct", 1 / 3), ("nvfp4_opt", 0.3), ("nvfp4_one", 1.0)):
        x, s = fp4(), e4m3(rows, width // 16)
        packed = pack_fp4_to_uint8(x)
        assert torch.equal(unpack_fp4_from_uint8(packed, rows, width, dtype=torch.float32), x)
        factor = torch.tensor([factor])
        if name == "nvfp4_ct":
            files[f"{name}.weight_packed"], files[f"{name}.weight_global_scale"] = packed, 1 / factor
            files[f"{name}.input_global_scale"] = torch.ones(1)
            factor = 1 / (1 / factor)
        else:
            files[f"{name}.weight"], files[f"{name}.weight_scale_2"] = packed, factor[0]
        files[f"{name}.weight_scale"] = s
        truth[name] = (x * s.float().repeat_interleave(16, 1)) * factor  # code times scale is exact, the factor rounds once

    x, s = fp4(), torch.randint(120, 134, (rows, width // 32), generator=g, dtype=torch.uint8)
    files["mxfp4_ct.weight_packed"], files["mxfp4_ct.weight_scale"] = pack_fp4_to_uint8(x), s
    truth["mxfp4_ct"] = x * torch.exp2(s.float() - 127).repeat_interleave(32, 1)

    blocks = torch.randint(0, 256, (2, 64, 4, 16), generator=g, dtype=torch.uint8)
    s = torch.randint(110, 140, (2, 64, 4), generator=g, dtype=torch.uint8)
    files["experts.down_proj_blocks"], files["experts.down_proj_scales"] = blocks, s
    truth["experts.down_proj"] = convert_moe_packed_tensors(blocks, s, dtype=torch.float32).transpose(1, 2).contiguous()

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_file(files, folder / "model.safetensors", metadata={"format": "pt"})
        (folder / "truth.json").write_text(json.dumps({
            name: {"shape": list(x.shape), "first": x.flatten()[:8].tolist(), "sha256": hashlib.sha256((x + 0.0).numpy().astype("<f4").tobytes()).hexdigest()}
            for name, x in truth.items()
        }))
        pack(folder, out / "quantised.zip")


TEXTS = ["", " ", "  two  spaces ", "Hello world", "memra runs models", "naïve café — 中文 😀", "a\tb\nc\n\n", "1234567", "the the the", "\u2581x",
         "![](x) `code` **bold**", "same request, same bytes " * 3]


def make_sentencepiece(out):
    import sentencepiece

    with tempfile.TemporaryDirectory() as name:
        folder, truth = Path(name), {}
        for kind, prefix in (("prefix", True), ("bare", False)):
            data = io.BytesIO()
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter((ROOT / "README.md").read_text().splitlines()), model_writer=data, vocab_size=600, model_type="bpe",
                byte_fallback=True, add_dummy_prefix=prefix, remove_extra_whitespaces=False, normalization_rule_name="identity",
                allow_whitespace_only_pieces=not prefix, num_threads=1, minloglevel=2)
            sp = sentencepiece.SentencePieceProcessor(model_proto=data.getvalue())
            tokens = [sp.IdToPiece(i) for i in range(sp.vocab_size())]
            scores = [sp.GetScore(i) for i in range(sp.vocab_size())]
            types = [UNKNOWN if sp.IsUnknown(i) else CONTROL if sp.IsControl(i) else BYTE if sp.IsByte(i) else NORMAL for i in range(sp.vocab_size())]
            t = pieces(tokens, scores, types, prefix)
            (folder / f"{kind}.model").write_bytes(data.getvalue())
            t.save(str(folder / f"{kind}.json"))
            truth[kind] = {"texts": TEXTS, "tokens": [sp.EncodeAsIds(text) for text in TEXTS], "scores": scores, "types": types, "pieces": tokens}
        (folder / "truth.json").write_text(json.dumps(truth, ensure_ascii=False))
        pack(folder, out / "sentencepiece.zip")


def gemma_tokenizer(tokens, scores, types):
    t = pieces(tokens, scores, types)
    t.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    bos = tokens.index("<bos>")
    t.post_processor = processors.TemplateProcessing(single="<bos> $A", pair="<bos> $A <bos> $B", special_tokens=[("<bos>", bos)])
    return t


def make_real(path, folder, dtype):
    meta = bridge.metadata(path)
    get = lambda key, *default: meta.get(f"tokenizer.ggml.{key}", *default)
    tokens, types = get("tokens"), get("token_type")
    bridge.load(path).to(getattr(torch, dtype)).save_pretrained(folder)
    if get("model") == "gpt2":
        special = [t for t, k in zip(tokens, types) if k == CONTROL]
        t = byte_level(tokens, get("merges"), [pre_tokenizers.Digits(individual_digits=True)], special)
    else:
        t = gemma_tokenizer(tokens, get("scores"), types)
        (folder / "tokenizer.model").write_bytes(sentencepiece_model(tokens, get("scores"), types))
    named = {f"{n}_token": tokens[get(f"{k}_token_id")] for n, k in (("bos", "bos"), ("eos", "eos"), ("unk", "unknown"), ("pad", "padding"))
             if get(f"{k}_token_id", None) is not None}
    PreTrainedTokenizerFast(tokenizer_object=t, **named, chat_template=meta.get("tokenizer.chat_template")).save_pretrained(folder)
    # As the folders that people have; transformers no longer writes it, llama.cpp's converter reads it.
    config = json.loads((folder / "tokenizer_config.json").read_text())
    config["added_tokens_decoder"] = {str(i): {"content": a.content, "special": a.special} for i, a in t.get_added_tokens_decoder().items()}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=False))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("quantised", "sentencepiece"):
        commands.add_parser(name).add_argument("out", type=Path)
    c = commands.add_parser("real")
    c.add_argument("gguf")
    c.add_argument("folder", type=Path)
    c.add_argument("--dtype", choices=("float32", "bfloat16"), default="bfloat16")
    a = parser.parse_args()
    torch.set_num_threads(2)
    if a.command == "real":
        make_real(a.gguf, a.folder, a.dtype)
    else:
        {"quantised": make_quantised, "sentencepiece": make_sentencepiece}[a.command](a.out)
