#!/usr/bin/env python3
"""Stage 1, data: writes corpus.xz, held.xz and tokenizer.json into a folder, some 30 MB, all that train.py needs.

    data.py OUT

Text travels, not tokens: files are cut for fill-in-the-middle at any character, anew each epoch, and each part becomes tokens by itself.
"""

import sys
from pathlib import Path

import corpus
import vocabulary


def main(out):
    out.mkdir(parents=True, exist_ok=True)
    documents, held = corpus.collect()
    for name, some in (("held.xz", held), ("corpus.xz", documents)):
        corpus.write(out / name, some)
        print(f"data: {name}: {(out / name).stat().st_size / 1e6:.1f} MB")
    tokenizer = vocabulary.train(d.text for i, d in enumerate(documents) if d.often > 1 or i % 5 == 0)
    tokenizer.save(str(out / "tokenizer.json"))
    ids = [len(tokenizer.encode(d.text).ids) for d in held]
    print(f"data: {sum(len(d.text.encode()) for d in held) / sum(ids):.2f} bytes a token on what is held out")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
