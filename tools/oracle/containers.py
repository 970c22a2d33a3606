"""Writes the files that package gguf's reader is tested against, with the `gguf` package of llama.cpp's authors.

    python tools/oracle/containers.py            writes gguf/testdata/{values,big-endian,set-0000N-of-00003}.gguf
    python tools/oracle/containers.py FILE ...   reads files, such as ones that package gguf wrote, and prints what is in them

Needs numpy and gguf==0.19.0.
"""

import sys
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFEndian, GGUFReader, GGUFValueType, GGUFWriter

OUT = Path(__file__).resolve().parents[2] / "gguf" / "testdata"

SCALARS = {
    "uint8": 200, "int8": -100, "uint16": 60000, "int16": -30000, "uint32": 4000000000, "int32": -2000000000,
    "float32": 1.5, "bool": True, "string": "naïve €", "uint64": 1 << 63, "int64": -(1 << 62), "float64": 0.1,
}
ARRAYS = {
    "uint8": [1, 255], "int8": [-1, 127], "uint16": [1, 65535], "int16": [-1, 32767], "uint32": [1, 4294967295],
    "int32": [-1, 2147483647], "float32": [0.5, -2.0], "bool": [True, False, True], "string": ["", "a", "länger"],
    "uint64": [1, 1 << 63], "int64": [-1, 1 << 62], "float64": [0.1, -1e300],
}


def write(path, tensors, **options):
    w = GGUFWriter(path, "test", **options)
    for name, v in SCALARS.items():
        w.add_key_value(f"one.{name}", v, GGUFValueType[name.upper()])
    for name, v in ARRAYS.items():
        w.add_key_value(f"many.{name}", v, GGUFValueType.ARRAY, GGUFValueType[name.upper()])
    w.add_key_value("many.array", [[1, 2], [3]], GGUFValueType.ARRAY)
    for name, array, raw in tensors:
        w.add_tensor(name, array, raw_dtype=raw)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


def main():
    if len(sys.argv) > 1:
        for path in sys.argv[1:]:
            r = GGUFReader(path)
            for key, field in r.fields.items():
                print(key, [t.name for t in field.types], str(field.contents())[:80])
            for t in r.tensors:
                print(t.name, t.tensor_type.name, list(t.shape), t.data.nbytes, int(t.data.view(np.uint8).sum()))
        return
    OUT.mkdir(exist_ok=True)
    count = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
    q8 = np.arange(3 * 68, dtype=np.uint8).reshape(3, 68)
    tensors = [
        ("cube", count, None),
        ("half", count.astype(np.float16)[0], None),
        ("blocks", q8, GGMLQuantizationType.Q8_0),
        ("ids", np.array([7, -7], np.int32), None),
    ]
    write(OUT / "values.gguf", tensors)
    write(OUT / "big-endian.gguf", tensors[:1], endianess=GGUFEndian.BIG)
    write(OUT / "set.gguf", tensors[:3], split_max_tensors=1)


if __name__ == "__main__":
    main()
