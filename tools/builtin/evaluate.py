#!/usr/bin/env python3
"""Stage 6, evaluate: what the model's file is worth on the packages that training did not see.

    evaluate.py DATA FOLDER FILE --memra BINARY [--peer FILE]... [--llama-perplexity BINARY]

FOLDER is drafts.py's, FILE what memra makes of it, a peer another model's file. Writes figures as JSON, the model card's:

    bits a byte     of pieces of held-out files, each read alone, by `memra score`; peers read the same bytes
    functions       whose signature the model is given after the file up to it; it writes, greedily, until a brace at the start of a line
    drafts          of those functions' tokens, how many the layer that drafts had guessed one token earlier
    agreement       of memra with transformers (float32), of FILE with FOLDER, and of llama.cpp with memra
"""

import argparse
import hashlib
import json
import math
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer

import corpus
from delta import CHUNK
from drafts import load

FUNCTION = re.compile(r"^func [^\n]*\{\n(?:(?!\}).*\n)*\}\n", re.MULTILINE)
LONGEST = 400  # tokens of a function that the model writes


def drawn(things, count, key):
    """So many of a list, always the same ones."""
    return sorted(things, key=lambda t: hashlib.sha256(key(t).encode()).digest())[:count]


def cut(text, size):
    """A text's pieces of about so many bytes, cut at line ends."""
    while text:
        end = text.find("\n", size) + 1 or len(text)
        yield text[:end]
        text = text[end:]


class Memra:
    def __init__(self, binary):
        self.binary = binary

    def run(self, *arguments, text=None):
        done = subprocess.run([self.binary, *map(str, arguments)], input=text, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(f"evaluate: {self.binary} {arguments[0]}: {done.stderr.strip()}")
        return done

    def score(self, model, text, *flags):
        """The log-probability of each token of a text but the start token's."""
        tokens = json.loads(self.run("score", "-m", model, "--no-special", *flags, "-", text=text).stdout)["tokens"]
        return [t["id"] for t in tokens], [t["logprob"] for t in tokens[1:]]

    def bits(self, model, texts):
        nats = -sum(sum(self.score(model, t)[1]) for t in texts)
        return nats / math.log(2) / sum(len(t.encode()) for t in texts)

    def perplexity(self, model, file, *flags):
        return json.loads(self.run("perplexity", "-m", model, "-f", file, "-o", "json", *flags).stdout)


def functions(held, count, fits):
    """(what stands before the body, with the signature last; the signature) of functions with bodies of 3 to 40 lines, if the model can read it."""
    found = []
    for d in held:
        if d.path.endswith("_test.go"):
            continue
        for m in FUNCTION.finditer(d.text):
            if 5 <= m[0].count("\n") <= 42:
                signature = m[0].split("\n", 1)[0] + "\n"
                before = d.text[: m.start()]
                at = max(0, len(before) - 4000)
                found.append((before[before.find("\n\n", at) + 2 if at else 0 :] + signature, signature))
    return drawn([f for f in found if fits(f[0])], count, lambda f: f[0])


def completed(memra, file, prompts):
    """The model's bodies, with the closing brace, or None where it did not come to one."""
    def one(prompt):
        done = memra.run("run", "-m", file, "--raw", "-n", LONGEST, "--stop", "\n}", "--stats", "-t", 1, "-", text=prompt + "\n")
        return done.stdout + "\n}\n" if "end: stop" in done.stderr else None

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(one, prompts))


def parsed(bodies, prompts):
    sources = ["package p\n\n" + signature + body for body, (_, signature) in zip(bodies, prompts) if body]
    here = Path(__file__).with_name("parse.go")
    return json.loads(subprocess.run(["go", "run", str(here)], input=json.dumps(sources), capture_output=True, text=True, check=True).stdout)


@torch.no_grad()
def drafts(folder, texts):
    """How often the layer that drafts guesses the token after the next, in the second parts of texts, which the model wrote."""
    model = load(folder)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    right = total = 0
    for before, written in texts:
        start = len(tokenizer.encode(before).ids)
        ids = torch.tensor(tokenizer.encode(before + written).ids)[: model.config.max_position_embeddings]
        padded = torch.cat([ids, ids[-1:].expand(1 + -len(ids) % CHUNK)])
        guess = model.logits(model(padded[None])[1])[0].argmax(-1)[: len(ids) - 2]
        same = (guess == ids[2:])[start - 1 :]
        right, total = right + same.sum().item(), total + len(same)
    return right / total, total


@torch.no_grad()
def differ(memra, folder, text):
    """The largest difference of a token's log-probability, transformers' in float32 and memra's with a cache in float32."""
    ids, found = memra.score(folder, text, "--kv-type", "f32", "--device", "cpu")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    logits = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    want = logits[:-1].gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
    return ((torch.tensor(found).double() - want).abs() / want.abs().clamp_min(1)).max().item()


def main(a):
    memra, held = Memra(a.memra), corpus.read(a.data / "held.xz")
    texts = drawn([t for d in held for t in cut(d.text, 3000)], a.texts, lambda t: t)
    out = {"texts": len(texts), "bytes": sum(len(t.encode()) for t in texts)}
    out["bits_a_byte"] = {str(Path(m).name): memra.bits(m, texts) for m in [a.file, *a.peer]}
    print(json.dumps(out), file=sys.stderr)
    tokenizer = Tokenizer.from_file(str(a.folder / "tokenizer.json"))
    longest = json.loads((a.folder / "config.json").read_text())["max_position_embeddings"] - LONGEST
    prompts = functions(held, a.functions, lambda text: len(tokenizer.encode(text).ids) <= longest)
    bodies = completed(memra, a.file, [p for p, _ in prompts])
    errors = parsed(bodies, prompts)
    out["functions"] = {"count": len(prompts), "closed": sum(b is not None for b in bodies), "parse": errors.count("")}
    out["share_that_parses"] = errors.count("") / len(prompts)
    written = [(p, b) for (p, _), b in zip(prompts, bodies) if b]
    out["drafts_accepted"], out["drafts"] = drafts(a.folder, written)
    print(json.dumps(out), file=sys.stderr)
    out["off_transformers"] = max(differ(memra, a.folder, t) for t in texts[:4])
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as f:
        f.write("".join(texts[:12]))
        f.flush()
        out["perplexity"] = {"folder": memra.perplexity(a.folder, f.name)["ppl"], "file": memra.perplexity(a.file, f.name)["ppl"]}
        if a.llama_perplexity:
            said = subprocess.run([a.llama_perplexity, "-m", a.file, "-c", "512", "-f", f.name], capture_output=True, text=True, check=True)
            out["perplexity"]["llama.cpp"] = float(re.search(r"Final estimate: PPL = ([0-9.]+)", said.stdout + said.stderr)[1])
    print(json.dumps(out, indent=2))
    for body, (prompt, signature) in list(zip(bodies, prompts))[: a.show]:
        print(f"\n{signature}{body or '(no end)'}", file=sys.stderr)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("data", type=Path)
    p.add_argument("folder", type=Path)
    p.add_argument("file")
    p.add_argument("--memra", required=True)
    p.add_argument("--peer", action="append", default=[])
    p.add_argument("--llama-perplexity")
    p.add_argument("--texts", type=int, default=40, help="pieces of 3,000 bytes")
    p.add_argument("--functions", type=int, default=200)
    p.add_argument("--show", type=int, default=0, help="functions to show")
    main(p.parse_args())
