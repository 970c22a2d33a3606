#!/usr/bin/env python3
"""Perplexity of the tiny models by llama.cpp beside ours: the same files, text and protocol (README.md), caches in float32.

    peer.py [PATTERN ...]     prints the table of the models whose names match, all without patterns; fails where one is not
                              within 0.5 %

llama-perplexity is in $LLAMA_CPP_BIN (.peer/bin by default), memra is built from this checkout. The text is vocabularies.PROMPTS, over
and over: random models find every text hard.
"""

import fnmatch
import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from vocabularies import PROMPTS

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 0.005
WINDOW = 128

# Where llama.cpp reads a file otherwise than transformers computes it, and why.
KNOWN = {
    "gptoss-mxfp4": "rounds the ends of yarn's ramp",
    "gptoss-plain": "rounds the ends of yarn's ramp",
    "llama-partial": "refuses to load: of this family, whole heads turn",
    "llama-yarn-set": "reads no beta_fast and beta_slow",
    "mistral-window": "knows no windows in llama files",
    "olmoe-plain": "wants as many key heads as query heads",
    "phi3-window": "has windows of phi3 switched off",
}


def ours(memra, file, text):
    out = subprocess.run([memra, "perplexity", "-m", file, "-c", str(WINDOW), "-ctk", "f32", "--device", "cpu", "-o", "json", "-f", text], capture_output=True, text=True)
    return json.loads(out.stdout)["ppl"] if out.returncode == 0 else out.stderr.strip()


def theirs(folder, file, text):
    command = [f"{folder}/llama-perplexity", "-m", file, "-c", str(WINDOW), "-b", str(WINDOW), "-t", "1", "-ctk", "f32", "-ctv", "f32", "-f", text]
    for _ in range(20):  # its log may lose its last lines
        out = subprocess.run(command, capture_output=True, text=True, env=os.environ | {"LD_LIBRARY_PATH": folder})
        said = out.stdout + out.stderr
        if out.returncode != 0:
            break
        windows = re.search(r"over (\d+) chunks", said)
        found = windows and re.search(rf"\[{windows[1]}\]([0-9.]+)", said)
        if found:
            return float(found[1])
    return "does not run"


def main(patterns):
    folder, failed = os.environ.get("LLAMA_CPP_BIN", str(ROOT / ".peer/bin")), False
    with tempfile.TemporaryDirectory() as name:
        memra, file, text = f"{name}/memra", f"{name}/model.gguf", f"{name}/text"
        subprocess.run(["go", "build", "-o", memra, "./cmd/memra"], cwd=ROOT, check=True, env=os.environ | {"CGO_ENABLED": "0"})
        Path(text).write_text("\n".join(PROMPTS * 12))
        print("| model | memra | llama.cpp | apart |\n|---|---|---|---|")
        for path in sorted((ROOT / "model/testdata/tiny").glob("*.gguf.gz")):
            model = path.name.removesuffix(".gguf.gz")
            if patterns and not any(fnmatch.fnmatch(model, p) for p in patterns):
                continue
            Path(file).write_bytes(gzip.decompress(path.read_bytes()))
            a, b = ours(memra, file, text), theirs(folder, file, text)
            row = [a if isinstance(a, str) else f"{a:.7g}", b if isinstance(b, str) else f"{b:.7g}"]
            if isinstance(a, float) and isinstance(b, float):
                apart = abs(a / b - 1)
                row.append(f"{100 * apart:.4f} %" + (f", {KNOWN[model]}" if model in KNOWN else ""))
                failed |= apart > LIMIT and model not in KNOWN
            else:
                row.append(KNOWN.get(model, ""))
                failed |= model not in KNOWN
            print(f"| {model} | {' | '.join(row)} |", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
