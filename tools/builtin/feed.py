"""The training mix: windows of tokens, made anew for each part of each epoch by processes beside the one that trains.

A document gives pieces, about half of it as they are and half for fill-in-the-middle:

    <|endoftext|>piece        <|endoftext|><|fim_prefix|>prefix<|fim_suffix|>suffix<|fim_middle|>middle

Those of the second kind are whole in their window, or the middle would have to be told without what it follows from; the others fill
what is left. What part n holds depends on the seed and n alone.
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
    """A piece in parts that become tokens by themselves, as a prompt does that ends anywhere: behind a brace, at a line's end, in a word."""
    at = 0
    while at < len(text):
        end, kind = at + rng.randrange(200, 2200), rng.random()
        if kind < 0.5:
            end = text.find("{\n", end) + 1
        elif kind < 0.75:
            end = text.find("\n", end)
        end = end if at < end < len(text) else len(text)
        yield text[at:end]
        at = end


def spans(text, rng):
    """Pieces of a file that fit into a window with their marks, cut at line ends."""
    at = 0
    while at < len(text):
        end = at + rng.randrange(400, 4000)
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
        """The windows of part n, [windows, window+1]."""
        epoch, part = divmod(n, self.parts)
        order = list(range(len(self.documents)))
        random.Random(f"{self.seed} {epoch}").shuffle(order)
        rng = random.Random(f"{self.seed} {n}")
        plain, filled = [], []  # each a list of texts and names of special tokens
        for i in order[part :: self.parts]:
            text = self.documents[i]
            if rng.random() >= FILL:
                plain += [[END, *fragments(p, rng)] for p in pieces(text, rng)]
                continue
            for span in spans(text, rng):
                a, b = gap(span, rng)
                filled.append([END, PREFIX, span[:a], SUFFIX, span[b:], MIDDLE, span[a:b]])
        rng.shuffle(plain)
        rng.shuffle(filled)
        return self.pack(np.concatenate(self.tokens(plain)), self.tokens(filled), rng)

    def tokens(self, pieces):
        """The ids of each piece."""
        special = {s: [self.tokenizer.token_to_id(s)] for s in (END, PREFIX, SUFFIX, MIDDLE)}
        texts = [t for piece in pieces for t in piece if t not in special]
        encoded = iter(self.tokenizer.encode_batch_fast(texts, add_special_tokens=False))
        return [np.array([i for t in piece for i in (special[t] if t in special else next(encoded).ids)], np.uint16) for piece in pieces]

    def pack(self, plain, filled, rng):
        """Windows of plain tokens with as many whole pieces behind them as fit, and the end of the last; then of plain tokens alone."""
        windows, at, end = [], 0, np.array([self.tokenizer.token_to_id(END)], np.uint16)
        group, size = [], 1
        for piece in filled:
            if size + len(piece) > self.window + 1 and group:
                room = self.window + 1 - size
                if at + room > len(plain):
                    break
                windows.append(np.concatenate([plain[at : at + room], *group, end]))
                group, size, at = [], 1, at + room
            if size + len(piece) <= self.window + 1:
                group.append(piece)
                size += len(piece)
        windows += [plain[i : i + self.window + 1] for i in range(at, len(plain) - self.window, self.window)]
        rng.shuffle(windows)
        return np.stack(windows)


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
