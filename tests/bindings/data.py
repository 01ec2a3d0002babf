"""data.py INPUTS NAME EXPECTED NAME OUT - two float32 tensors of safetensors files as lines of numbers, a line a row."""

import json
import struct
import sys


def rows(path, name):
    data = open(path, "rb").read()
    (length,) = struct.unpack("<Q", data[:8])
    tensor = json.loads(data[8 : 8 + length])[name]
    begin, end = (8 + length + offset for offset in tensor["data_offsets"])
    numbers = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
    width = tensor["shape"][-1]
    return [" ".join(repr(n) for n in numbers[i : i + width]) for i in range(0, len(numbers), width)]


with open(sys.argv[5], "w") as out:
    print(*rows(*sys.argv[1:3]), *rows(*sys.argv[3:5]), sep="\n", file=out)
