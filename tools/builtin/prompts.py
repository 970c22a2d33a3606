#!/usr/bin/env python3
"""Stage 4, prompts: what the model is to go on with, as requests of `memra batch`, so that the layer that drafts learns from what the model writes itself.

    prompts.py DATA OUT.jsonl [COUNT]
    memra batch -m MODEL.gguf -i OUT.jsonl -o WRITTEN.jsonl

Beginnings of the corpus's files, cut anywhere: half is gone on with greedily, half by sampling.
"""

import json
import random
import sys
from pathlib import Path

import corpus

TOKENS = 576  # that an answer has at most
PROMPT = 1100, 1700  # bytes of a prompt


def main(data, out, count=6000):
    rng = random.Random(3)
    documents = [d.text for d in corpus.read(data / "corpus.xz") for _ in range(d.often) if len(d.text) > PROMPT[1]]
    with open(out, "w") as file:
        for i in range(count):
            text, length = rng.choice(documents), rng.randrange(*PROMPT)
            start = text.rfind("\n", 0, rng.randrange(len(text) - length)) + 1 if rng.random() < 0.5 else 0
            body = {"prompt": text[start : start + length], "max_tokens": TOKENS, "temperature": 0.8 * (i % 2), "seed": i}
            print(json.dumps({"custom_id": str(i), "method": "POST", "url": "/v1/completions", "body": body}), file=file)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], *map(int, sys.argv[3:]))
