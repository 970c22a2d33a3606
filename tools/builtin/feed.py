"""The training mix: windows of tokens, made anew for each part of each epoch by processes beside the one that trains.

A document gives pieces, about half of it as they are and half for fill-in-the-middle:

    <|endoftext|>piece        <|endoftext|><|fim_prefix|>prefix<|fim_suffix|>suffix<|fim_middle|>middle

Pieces of a part are shuffled, joined, and cut into windows. What part n holds depends on the seed and n alone.
"""

import os
import random
import re
from collections import deque
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import numpy as np
from tokenizers import Tokenizer

import corpus
from vocabulary import END, MIDDLE, PREFIX, SUFFIX

FILL = 0.5  # the share of documents, by text, that is cut for fill-in-the-middle
DECLARATION = re.compile(r"(?<=\n\n)(?=(func|type|var|const|//) )")


def pieces(text, rng):
    """A file in one piece, or in several that begin at declarations of its top level, as a prompt does that is only a function."""
    if rng.random() < 0.5:
        return [text]
    starts = [m.start() for m in DECLARATION.finditer(text)]
    cuts = sorted(rng.sample(starts, min(len(starts), 1 + len(text) // 8000)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)])]


def fragments(text, rng):
    """A piece in parts that become tokens by themselves, as a prompt does that ends anywhere: often before a line feed, else in a word."""
    at = 0
    while at < len(text):
        end = at + rng.randrange(500, 3500)
        if rng.random() < 0.5:
            end = text.find("\n", end)
        end = end if 0 < end < len(text) else len(text)
        yield text[at:end]
        at = end


def spans(text, rng):
    """Pieces of a file that fit into a window with their marks, cut at line ends."""
    at = 0
    while at < len(text):
        end = at + rng.randrange(1000, 6000)
        end = text.find("\n", end) + 1 or len(text)
        yield text[at:end]
        at = end


def gap(text, rng):
    """Where the middle begins and ends: the rest of a line, some lines, or anything up to a third of the text."""
    start = rng.randrange(len(text) + 1)
    kind = rng.random()
    if kind < 0.7:
        end = start
        for _ in range(1 if kind < 0.35 else rng.randrange(2, 10)):
            end = text.find("\n", end + 1)
            if end < 0:
                return start, len(text)
        return start, end
    return start, min(len(text), start + rng.randrange(1 + len(text) // 3))


class Maker:
    """Makes parts."""

    def __init__(self, folder, seed, parts, window):
        self.seed, self.parts, self.window = seed, parts, window
        self.documents = [d.text for d in corpus.read(folder / "corpus.xz") for _ in range(d.often)]
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def make(self, n):
        """The windows of part n, [windows, window+1]: neighbours share a token."""
        epoch, part = divmod(n, self.parts)
        order = list(range(len(self.documents)))
        random.Random(f"{self.seed} {epoch}").shuffle(order)
        rng = random.Random(f"{self.seed} {n}")
        texts = []  # each a list of texts and names of special tokens
        for i in order[part :: self.parts]:
            text = self.documents[i]
            if rng.random() >= FILL:
                texts += [[END, *fragments(p, rng)] for p in pieces(text, rng)]
                continue
            for span in spans(text, rng):
                a, b = gap(span, rng)
                texts.append([END, PREFIX, span[:a], SUFFIX, span[b:], MIDDLE, span[a:b]])
        rng.shuffle(texts)
        flat = [t for piece in texts for t in piece]
        special = {s: np.array([self.tokenizer.token_to_id(s)]) for s in (END, PREFIX, SUFFIX, MIDDLE)}
        encoded = iter(self.tokenizer.encode_batch_fast([t for t in flat if t not in special], add_special_tokens=False))
        ids = np.concatenate([special[t] if t in special else next(encoded).ids for t in flat]).astype(np.uint16)
        count = (len(ids) - 1) // self.window
        return np.stack([ids[i * self.window : (i + 1) * self.window + 1] for i in range(count)])[np.random.default_rng(n).permutation(count)]


_maker = None  # what forked processes find


def _make(n):
    return _maker.make(n)


class Feed:
    """Batches in a fixed order, made ahead. `part` is where to go on after a stop; what was left of a part is not read again.

    The processes are forks, which share the text: make the feed before anything starts threads or uses the GPU.
    """

    def __init__(self, folder, seed, parts, window, batch, workers, part=0):
        global _maker
        _maker = Maker(folder, seed, parts, window)
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        self.batch, self.part = batch, part
        self.pool = ProcessPoolExecutor(workers, get_context("fork"))
        self.waiting = deque(self.pool.submit(_make, part + i) for i in range(2 * workers))

    def __iter__(self):
        left = None
        while True:
            made = self.waiting.popleft().result()
            self.waiting.append(self.pool.submit(_make, self.part + len(self.waiting) + 1))
            self.part += 1
            windows = made if left is None else np.concatenate([left, made])
            whole = len(windows) // self.batch * self.batch
            for i in range(0, whole, self.batch):
                yield windows[i : i + self.batch]
            left = windows[whole:]

    def close(self):
        self.pool.shutdown(wait=False, cancel_futures=True)
