"""Writes the truth that package quant is tested against, from the `gguf` package of llama.cpp's authors.

    python tools/oracle/quant.py [MODEL.gguf ...]

For every format: quant/testdata/NAME.blocks, random and odd blocks, and NAME.values, what gguf.quants.dequantize makes of
them (little-endian float32). For every format that gguf.quants.quantize writes: NAME.encoded, what it makes of
inputs.values. scales.sums: for every format with scales of 16 or 8 bits, the hash of what dequantize makes of one block
under each pattern of bits that a scale can have. quant/grids.bin: the package's tables of the IQ formats, as bitmaps. For
every model named: quant/testdata/MODEL.sha256, a hash of each tensor's dequantised float32 bytes.

The package has no code for Q8_1, Q8_K, Q1_0, Q2_0, F64 and integers, and a size of Q8_1 that no file has: for these, numpy
below says what ggml does.

Needs numpy and gguf==0.19.0. Deterministic: the same versions write the same bytes.
"""

import hashlib
import sys
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGUFReader
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize, quantize

QUANT = Path(__file__).resolve().parents[2] / "quant"
OUT = QUANT / "testdata"
VALUES = 1536  # per format

# Where each format keeps its f16 scales, so that random blocks can be given scales of a sensible size.
SCALES = {
    "F32": [], "F16": [], "BF16": [], "F64": [], "I8": [], "I16": [], "I32": [], "I64": [],
    "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q8_1": [0, 2], "Q1_0": [0], "Q2_0": [0],
    "Q2_K": [80, 82], "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "Q8_K": [],
    "IQ1_S": [0], "IQ1_M": [], "IQ2_XXS": [0], "IQ2_XS": [0], "IQ2_S": [0], "IQ3_XXS": [0], "IQ3_S": [0],
    "IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": [], "NVFP4": [], "TQ1_0": [52], "TQ2_0": [64],
}
ENCODED = [T.F16, T.BF16, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0, T.MXFP4]

NUMBERS = {t.name: int(t) for t in T} | {"Q1_0": 41, "Q2_0": 42}  # seeds
SIZES = {t.name: size for t, size in GGML_QUANT_SIZES.items()} | {"Q8_1": (32, 36), "Q2_0": (64, 18)}


def half(b):
    return np.ascontiguousarray(b).view("<f2").astype(np.float32)


def two_bits(b):
    return (b[:, :, None] >> np.array([0, 2, 4, 6], np.uint8) & 3).reshape(len(b), -1).astype(np.float32)


# What ggml does with formats that the package only names: blocks [n, bytes] to values [n, values].
OWN = {
    "Q8_1": lambda b: half(b[:, :2]) * b[:, 4:].view(np.int8).astype(np.float32),
    "Q8_K": lambda b: np.ascontiguousarray(b[:, :4]).view("<f4") * b[:, 4:260].view(np.int8).astype(np.float32),
    "Q1_0": lambda b: half(b[:, :2]) * (np.unpackbits(b[:, 2:], axis=1, bitorder="little").astype(np.float32) * 2 - 1),
    "Q2_0": lambda b: half(b[:, :2]) * (two_bits(b[:, 2:]) - 1),
    "F64": lambda b: b.view("<f8").astype(np.float32),
    "I8": lambda b: b.view("i1").astype(np.float32),
    "I16": lambda b: b.view("<i2").astype(np.float32),
    "I32": lambda b: b.view("<i4").astype(np.float32),
    "I64": lambda b: b.view("<i8").astype(np.float32),
}


def values(name, b):
    """The float32 values of blocks."""
    with np.errstate(all="ignore"):
        return OWN[name](b) if name in OWN else dequantize(b, T[name])


# f16 scales that reach the corners: zeros of both signs, subnormals, one, the largest, infinity, a quiet NaN.
ODD = [0x0000, 0x8000, 0x0001, 0x83FF, 0x3C00, 0x7BFF, 0xFBFF, 0x7C00, 0x7E00]


def put(b, name, at, pattern):
    """Sets the scale at a byte of one block to a pattern of bits; IQ1_M has its one spread over four nibbles."""
    if name == "IQ1_M":
        for i in range(4):
            b[49 + 2 * i] = b[49 + 2 * i] & 15 | pattern >> 4 * i << 4 & 0xF0
        return
    b[at : at + 2] = np.array([pattern], "<u2").view(np.uint8)


def blocks(name, seed):
    """Random blocks of a format with sensible scales, then blocks of all zeros and all ones, then odd scales."""
    rng = np.random.default_rng(seed)
    values, size = SIZES[name]
    n = VALUES // values
    b = rng.integers(0, 256, (n, size), dtype=np.uint8)
    for at in SCALES[name] or ([0] if name == "IQ1_M" else []):
        scale = (rng.normal(size=n) * 2.0 ** rng.integers(-12, 3, n)).astype(np.float16)
        for i in range(n):
            put(b[i], name, at, int(scale.view(np.uint16)[i]))
    if name == "Q8_K":
        b[:, :4] = rng.normal(size=(n, 1)).astype("<f4").view(np.uint8)
    b[0], b[1] = 0, 255
    if SCALES[name] or name == "IQ1_M":
        for i in range(2, n * 5 // 6):
            for k, at in enumerate(SCALES[name] or [0]):  # another one for each scale of a block
                put(b[i], name, at, ODD[(seed + i + 2 * k) % len(ODD)])
    return b


def every_scale(name, block):
    """One block under every scale: pattern p in the first scale, p and a fixed pattern in the second."""
    if name in ("MXFP4", "NVFP4"):  # scales of 8 bits, one or four
        b = np.repeat(block[None], 256, 0)
        b[:, : 1 if name == "MXFP4" else 4] = np.arange(256, dtype=np.uint8)[:, None]
        return b
    b = np.repeat(block[None], 65536, 0)
    for p in range(65536):
        for k, at in enumerate(SCALES[name] or [0]):
            put(b[p], name, at, p ^ 0x5A5A * k)
    return b


def sums():
    for name in sorted(SCALES):
        if SCALES[name] or name in ("IQ1_M", "MXFP4", "NVFP4"):
            block = np.fromfile(OUT / f"{name}.blocks", np.uint8)[-SIZES[name][1] :]
            digest = hashlib.sha256()
            patterns = every_scale(name, block)
            for i in range(0, len(patterns), 4096):
                v = np.ascontiguousarray(values(name, patterns[i : i + 4096]), dtype="<f4")
                bits = v.view(np.uint32).copy()
                bits[np.isnan(v)] = 0x7FC00000  # which NaN it is does not matter
                digest.update(bits.tobytes())
            yield f"{digest.hexdigest()} {name}\n"


def grids():
    """The tables of the IQ formats: bit i of a bitmap says that the entry with the number i is there. An entry's number has
    the place of value 0 among the values it can have as its lowest digit; entries stand in the order of their numbers."""
    out = b""
    for name in ["IQ1_S", "IQ2_XXS", "IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S"]:
        c = getattr(quants, name)
        c.init_grid()
        base, width = len(c.grid_map), c.grid_shape[1]
        digits = np.searchsorted(c.grid_map, c.grid.reshape(-1, width))
        numbers = (digits * base ** np.arange(width)).sum(1)
        assert (np.diff(numbers) > 0).all()
        bits = np.zeros(base**width, np.uint8)
        bits[numbers] = 1
        out += np.packbits(bits, bitorder="little").tobytes()
    return out


def inputs(rng):
    """Rows of 256 values: normal at several sizes, heavy-tailed, one-sided, constant, zero, ties between codes, tiny."""
    x = np.zeros((18, 256), np.float32)
    for i in range(6):
        x[i] = rng.normal(size=256) * 10.0 ** (i - 4)
    x[6] = rng.standard_t(2, 256)
    x[7] = np.abs(rng.normal(size=256))
    x[8] = -np.abs(rng.normal(size=256))
    x[9] = 0.25
    x[11] = np.arange(256) - 128
    x[12] = (np.arange(256) % 33 - 16) / 2
    x[13] = rng.normal(size=256) * 1e-7
    x[14] = rng.choice([-1.0, 1.0], 256)
    x[15, 77] = -3.5
    x[16:] = (np.arange(256) % 33 - 16) / 2
    x[16, ::32], x[17, ::32] = 127, -16  # scales of 1: halves are ties for Q8_0, for Q5_0
    return x


def main():
    OUT.mkdir(exist_ok=True)
    rng = np.random.default_rng(1)
    x = inputs(rng)
    x.tofile(OUT / "inputs.values")
    (QUANT / "grids.bin").write_bytes(grids())
    for name in SCALES:
        b = blocks(name, NUMBERS[name])
        b.tofile(OUT / f"{name}.blocks")
        values(name, b).astype("<f4").tofile(OUT / f"{name}.values")
    (OUT / "scales.sums").write_text("".join(sums()))
    for t in ENCODED:
        with np.errstate(all="ignore"):
            quantize(x, t).tofile(OUT / f"{t.name}.encoded")
    for path in map(Path, sys.argv[1:]):
        with open(OUT / f"{path.stem}.sha256", "w") as out:
            for tensor in GGUFReader(path).tensors:
                digest = hashlib.sha256()
                rows = tensor.data.reshape(-1, tensor.data.shape[-1])
                for i in range(0, len(rows), 4096):
                    digest.update(dequantize(rows[i : i + 4096], tensor.tensor_type).tobytes())
                print(digest.hexdigest(), tensor.tensor_type.name, tensor.name, file=out)


if __name__ == "__main__":
    main()
