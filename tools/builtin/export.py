#!/usr/bin/env python3
"""Stage 3, export: a run's folder as a Hugging Face folder, which `memra convert` and `memra quantize` make a file of.

    export.py DATA RUN OUT
"""

import json
import shutil
import sys
from pathlib import Path

import safetensors.torch
from tokenizers import Tokenizer

import train
import vocabulary


def main(data, run, out):
    model, _ = train.load(run)
    out.mkdir(parents=True, exist_ok=True)
    shutil.copy(data / "tokenizer.json", out)
    end = Tokenizer.from_file(str(data / "tokenizer.json")).token_to_id(vocabulary.END)
    written = {
        "config.json": model.config.transformers(end),
        "generation_config.json": {"bos_token_id": end, "eos_token_id": end, "pad_token_id": end},
        "tokenizer_config.json": vocabulary.settings(model.config.max_position_embeddings),
    }
    for name, settings in written.items():
        (out / name).write_text(json.dumps(settings, indent=2) + "\n")
    safetensors.torch.save_file(model.state_dict(), out / "model.safetensors", {"format": "pt"})
    print(f"export: {out}: {sum(w.numel() for w in model.state_dict().values()) / 1e6:.2f} million parameters")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
