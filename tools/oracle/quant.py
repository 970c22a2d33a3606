"""Writes the truth that package quant is tested against, from the `gguf` package of llama.cpp's authors.

    python tools/oracle/quant.py [MODEL.gguf ...]

For every format: quant/testdata/NAME.blocks, random and odd blocks, and NAME.values, what gguf.quants.dequantize makes of
them (little-endian float32). For every format that gguf.quants.quantize writes: NAME.encoded, what it makes of
inputs.values. For every model named: quant/testdata/MODEL.sha256, a hash of each tensor's dequantised float32 bytes.

Needs numpy and gguf==0.19.0. Deterministic: the same versions write the same bytes.
"""

import hashlib
import sys
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGUFReader
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize, quantize

OUT = Path(__file__).resolve().parents[2] / "quant" / "testdata"
VALUES = 1536  # per format

# Where each format keeps its f16 scales, so that random blocks can be given scales of a sensible size.
SCALES = {
    T.F32: [], T.F16: [], T.BF16: [],
    T.Q4_0: [0], T.Q4_1: [0, 2], T.Q5_0: [0], T.Q5_1: [0, 2], T.Q8_0: [0],
    T.Q2_K: [80, 82], T.Q3_K: [108], T.Q4_K: [0, 2], T.Q5_K: [0, 2], T.Q6_K: [208],
    T.IQ4_NL: [0], T.IQ4_XS: [0], T.MXFP4: [], T.TQ1_0: [52], T.TQ2_0: [64],
}
ENCODED = [T.F16, T.BF16, T.Q4_0, T.Q4_1, T.Q5_0, T.Q5_1, T.Q8_0]

# f16 scales that reach the corners: zeros of both signs, subnormals, one, the largest, infinity, a quiet NaN.
ODD = [0x0000, 0x8000, 0x0001, 0x83FF, 0x3C00, 0x7BFF, 0xFBFF, 0x7C00, 0x7E00]


def blocks(t, rng):
    """Random blocks of format t with sensible scales, then blocks of all zeros and all ones, then odd scales."""
    values, size = GGML_QUANT_SIZES[t]
    n = VALUES // values
    b = rng.integers(0, 256, (n, size), dtype=np.uint8)
    for at in SCALES[t]:
        scale = (rng.normal(size=n) * 2.0 ** rng.integers(-12, 3, n)).astype(np.float16)
        b[:, at : at + 2] = scale.view(np.uint8).reshape(n, 2)
    b[0], b[1] = 0, 255
    if SCALES[t]:
        for i in range(2, n * 5 // 6):
            for k, at in enumerate(SCALES[t]):  # another one for each scale of a block
                b[i, at : at + 2] = np.array([ODD[(int(t) + i + 2 * k) % len(ODD)]], np.uint16).view(np.uint8)
    return b


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
    for t in SCALES:
        b = blocks(t, np.random.default_rng(int(t)))
        b.tofile(OUT / f"{t.name}.blocks")
        with np.errstate(all="ignore"):
            dequantize(b, t).astype("<f4").tofile(OUT / f"{t.name}.values")
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
