"""The two files of the real models' logits: a golden (the largest log-probabilities, committed) and full logits (not).

README.md states both layouts; internal/golden reads the golden in Go.
"""

import gzip
import struct
from dataclasses import dataclass

import numpy as np

GOLDEN_MAGIC, FULL_MAGIC, VERSION = b"memragld", b"memraful", 1
GOLDEN_HEADER, FULL_HEADER = struct.Struct("<8sIIIIII32sI"), struct.Struct("<8sIIII")
TOP, DRAWN = 128, 16


def log_softmax(logits):
    """Log-probabilities in float64 of float32 logits, along the last axis."""
    x = logits.astype(np.float64)
    x -= x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


@dataclass
class Golden:
    model: str  # file name of the model
    sha256: bytes  # of the model file
    vocab: int
    tokens: np.ndarray  # [windows, positions] int, as given to the model
    top: np.ndarray  # [windows, positions, TOP] int, the likeliest first
    logprob: np.ndarray  # [windows, positions, TOP] float32, of top
    tail: np.ndarray  # [windows, positions] float32, log of the probability of all other tokens
    drawn: np.ndarray  # [windows, positions, DRAWN] int, drawn from the others by their probability
    drawn_logprob: np.ndarray  # [windows, positions, DRAWN] float32, of drawn

    def write(self, path):
        name = self.model.encode()
        counts = (*self.tokens.shape, self.top.shape[-1], self.drawn.shape[-1], self.vocab)
        header = GOLDEN_HEADER.pack(GOLDEN_MAGIC, VERSION, *counts, self.sha256, len(name))
        arrays = (self.tokens, self.top, self.logprob, self.tail, self.drawn, self.drawn_logprob)
        arrays = (a.astype("<u4" if a.dtype.kind in "iu" else "<f4") for a in arrays)
        with open(path, "wb") as f, gzip.GzipFile("", "wb", 9, f, mtime=0) as z:
            z.write(header + name + b"".join(a.tobytes() for a in arrays))

    @staticmethod
    def read(path):
        with gzip.open(path) as z:
            data = z.read()
        magic, version, windows, positions, top, drawn, vocab, digest, n = GOLDEN_HEADER.unpack_from(data)
        if magic != GOLDEN_MAGIC or version != VERSION:
            raise ValueError(f"oracle: {path}: not a golden of version {VERSION}")
        at, rows = GOLDEN_HEADER.size + n, (windows, positions)
        arrays = []
        listed, others = (*rows, top), (*rows, drawn)
        for dtype, shape in zip(("<u4", "<u4", "<f4", "<f4", "<u4", "<f4"), (rows, listed, listed, rows, others, others)):
            arrays.append(np.frombuffer(data, dtype, np.prod(shape), at).reshape(shape))
            at += arrays[-1].nbytes
        return Golden(data[GOLDEN_HEADER.size : GOLDEN_HEADER.size + n].decode(), digest, vocab, *arrays)


def summarise(logits, rng):
    """What a golden keeps of rows of logits [rows, vocab]: top, logprob, tail, drawn and drawn_logprob of Golden.

    Equal logits are ordered by token id. `rng` draws.
    """
    p = log_softmax(logits)
    top = np.argsort(-logits, axis=-1, kind="stable")[:, :TOP]
    logprob = np.take_along_axis(p, top, -1)
    np.put_along_axis(p, top, -np.inf, -1)
    mass = np.exp(p).cumsum(axis=-1)  # of the others
    drawn = np.stack([np.searchsorted(m, rng.random(DRAWN) * m[-1], side="right") for m in mass])
    drawn_logprob = np.take_along_axis(p, drawn, -1)
    return top, logprob.astype(np.float32), np.log(mass[:, -1]).astype(np.float32), drawn, drawn_logprob.astype(np.float32)


def distances(reference, other, rng):
    """KL(reference || other) in nats for rows of logits: exact, with all unlisted tokens as one, and as a golden tells it.

    A golden tells it exactly for the listed tokens and for the others as one (p, q). Of how the others share their mass it
    tells an estimate, by the tokens drawn: p times the mean of r - 1 - ln r, r being the ratio of a token's probabilities
    over that of the others' masses, (q_i/p_i)/(q/p). It is never negative, and right in the mean since that of r is 1.
    """
    p, q = log_softmax(reference), log_softmax(other)
    exact = (np.exp(p) * (p - q)).sum(axis=-1)
    top, logprob, tail, drawn, drawn_logprob = (a if a.dtype.kind == "i" else a.astype(np.float64) for a in summarise(reference, rng))
    rest = np.exp(q)
    np.put_along_axis(rest, top, 0, -1)
    rest = np.log(rest.sum(axis=-1))
    lumped = (np.exp(logprob) * (logprob - np.take_along_axis(q, top, -1))).sum(axis=-1) + np.exp(tail) * (tail - rest)
    ratio = np.take_along_axis(q, drawn, -1) - drawn_logprob - (rest - tail)[:, None]
    return exact, lumped, lumped + np.exp(tail) * (np.exp(ratio) - 1 - ratio).mean(axis=-1)


def create_full(path, windows, positions, vocab):
    """A new file of full logits; returns its array [windows, positions, vocab], mapped for writing."""
    with open(path, "wb") as f:
        f.write(FULL_HEADER.pack(FULL_MAGIC, VERSION, windows, positions, vocab))
        f.truncate(FULL_HEADER.size + 4 * windows * positions * vocab)
    return np.memmap(path, "<f4", "r+", FULL_HEADER.size, (windows, positions, vocab))


def open_full(path):
    """The array [windows, positions, vocab] of a file of full logits, mapped."""
    with open(path, "rb") as f:
        magic, version, *shape = FULL_HEADER.unpack(f.read(FULL_HEADER.size))
    if magic != FULL_MAGIC or version != VERSION:
        raise ValueError(f"oracle: {path}: not a file of full logits of version {VERSION}")
    return np.memmap(path, "<f4", "r", FULL_HEADER.size, tuple(shape))
