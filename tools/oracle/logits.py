#!/usr/bin/env python3
"""The float32 truth about a GGUF file: its perplexity, goldens of its logits, and how far other logits are from them.

    logits.py perplexity MODEL...                  llama.cpp's protocol; .ci/run has what it says of the two models of tools/models
    logits.py goldens [--text FILE] [--full FILE] MODEL OUT
                                                   2,048 positions: the 128 likeliest tokens of each, the rest's mass; of a text's
                                                   tokens, or without one of those of the golden that OUT is
    logits.py full --by ARITHMETIC MODEL GOLDEN OUT
                                                   full logits of a golden's tokens in bfloat16, or by llama.cpp
    logits.py kl REFERENCE OTHER                   distance of two files of full logits, exact and as a golden tells it

README.md states the protocol and the layout of the files.
"""

import argparse
import sys
from pathlib import Path

import numpy as np
import torch

import golden
from bridge import load, metadata, sha256
from tokens import start_token, tokenize

TEXT = Path(__file__).resolve().parents[2] / "model/testdata/docs-frozen.txt"
WINDOWS, CONTEXT = 4, 512  # of a golden


def windows_of(path, text, context):
    """Windows of a text as a model reads them [n, context]: cut without a rest, the start token in place of each first.

    Also returns the windows as the text has them, for scoring.
    """
    ids = np.array(tokenize(path, text))
    said = ids[: len(ids) // context * context].reshape(-1, context)
    read = said.copy()
    start = start_token(metadata(path))
    if start is not None:
        read[:, 0] = start
    return read, said


def forward(model, window, last=0):
    """Logits of one window as float32 [positions, vocab], of all positions or of the `last` ones."""
    with torch.inference_mode():
        out = model(torch.from_numpy(window.astype(np.int64))[None], logits_to_keep=last, use_cache=False).logits[0]
    return out.float().numpy()


def perplexity(path, text, context):
    """exp of the mean negative log-probability of the tokens in the second half of every window, its first excepted.

    Position context/2 is the first whose logits count, context-2 the last: context/2 - 1 tokens per window.
    """
    model, (read, said) = load(path), windows_of(path, text, context)
    nll, count, half = 0.0, 0, context // 2
    for i, (r, s) in enumerate(zip(read, said)):
        p = golden.log_softmax(forward(model, r, context - half))[:-1]
        nll -= p[np.arange(len(p)), s[half + 1 :]].sum()
        count += len(p)
        print(f"[{i + 1}/{len(read)}] {np.exp(nll / count):.4f}", end="\r", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    return np.exp(nll / count), count, len(read)


def golden_windows(path, text):
    """WINDOWS windows of a text, from its first to its last at even distances."""
    read, _ = windows_of(path, text, CONTEXT)
    return read[np.linspace(0, len(read) - 1, WINDOWS).astype(int)]


def write_golden(path, tokens, out, full):
    """The golden of a model, of tokens [WINDOWS, CONTEXT]."""
    model = load(path)
    rows = golden.create_full(full, WINDOWS, CONTEXT, model.config.vocab_size) if full else None
    parts, rng = [], np.random.default_rng(0)
    for i, window in enumerate(tokens):
        logits = forward(model, window)
        if full:
            rows[i] = logits
        blocks = (golden.summarise(logits[j : j + 32], rng) for j in range(0, CONTEXT, 32))
        parts.append([np.concatenate(part) for part in zip(*blocks)])
    summary = (np.stack(part) for part in zip(*parts))
    golden.Golden(Path(path).name, sha256(path), model.config.vocab_size, tokens, *summary).write(out)


def write_full(by, path, golden_path, out):
    """Full logits of a golden's tokens, in bfloat16 by transformers or in llama.cpp's arithmetic by llama-cpp-python."""
    g = golden.Golden.read(golden_path)
    if sha256(path) != g.sha256:
        raise ValueError(f"oracle: {golden_path} is a golden of {g.model}, {path} is another file")
    rows = golden.create_full(out, *g.tokens.shape, g.vocab)
    if by == "bfloat16":
        model = load(path).to(torch.bfloat16)
        for i, window in enumerate(g.tokens):
            rows[i] = forward(model, window)
    else:
        from llama_cpp import Llama

        model = Llama(path, n_ctx=CONTEXT, n_batch=CONTEXT, n_threads=torch.get_num_threads(), logits_all=True, verbose=False)
        for i, window in enumerate(g.tokens):
            model.reset()
            model.eval(window.tolist())
            rows[i] = model.scores[:CONTEXT]


def compare(reference, other):
    """golden.distances of two files of full logits, for all positions, and whether the best tokens are the same."""
    a, b = (full.reshape(-1, full.shape[-1]) for full in (golden.open_full(reference), golden.open_full(other)))
    if a.shape != b.shape:
        raise ValueError(f"oracle: {reference} has shape {a.shape}, {other} {b.shape}")
    parts, rng = [], np.random.default_rng(0)
    for i in range(0, len(a), 32):
        x, y = np.array(a[i : i + 32]), np.array(b[i : i + 32])
        parts.append([*golden.distances(x, y, rng), x.argmax(axis=-1) == y.argmax(axis=-1)])
    return (np.concatenate(part) for part in zip(*parts))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    threads = argparse.ArgumentParser(add_help=False)
    threads.add_argument("--threads", type=int, default=2)
    c = commands.add_parser("perplexity", parents=[threads])
    c.add_argument("--text", type=Path, default=TEXT, help="default: %(default)s")
    c.add_argument("-c", "--context", type=int, default=CONTEXT)
    c.add_argument("model", nargs="+")
    c = commands.add_parser("goldens", parents=[threads])
    c.add_argument("--text", type=Path, help="default: the tokens of the golden that there is")
    c.add_argument("--full", help="also write all logits to this file (2,048 x vocabulary x 4 bytes)")
    c.add_argument("model")
    c.add_argument("out")
    c = commands.add_parser("full", parents=[threads])
    c.add_argument("--by", choices=("bfloat16", "llama.cpp"), required=True)
    c.add_argument("model")
    c.add_argument("golden")
    c.add_argument("out")
    c = commands.add_parser("kl", parents=[threads])
    c.add_argument("reference")
    c.add_argument("other")
    a = parser.parse_args()

    torch.set_num_threads(a.threads)
    torch.use_deterministic_algorithms(True)
    if a.command == "perplexity":
        for path in a.model:
            ppl, count, windows = perplexity(path, a.text.read_bytes().decode(), a.context)
            print(f"{Path(path).name}: perplexity {ppl:.4f}, {count} tokens scored in {windows} windows of {a.context}")
    elif a.command == "goldens":
        tokens = golden_windows(a.model, a.text.read_bytes().decode()) if a.text else golden.Golden.read(a.out).tokens
        write_golden(a.model, tokens, a.out, a.full)
    elif a.command == "full":
        write_full(a.by, a.model, a.golden, a.out)
    else:
        exact, lumped, told, same = compare(a.reference, a.other)
        print(f"{len(exact)} positions: mean KL {exact.mean():.6f} nats; as a golden tells it {told.mean():.6f}, without the "
              f"tokens drawn {lumped.mean():.6f}; same best token {100 * same.mean():.2f} %")


if __name__ == "__main__":
    main()
