"""Early files at random, as anything that writes the seed's dataclasses could write them; each comes back letter by letter from
.json, .exg and .pt2, beside itself and in a folder where its files of weights are not. Rows S002-73, S002-77, S002-83, S002-108,
S002-111, S002-114, S002-116, S002-117, S002-119.

    early_forms.py EXG [COUNT [FIRST]]

Needs nothing but Python. Every member of Argument, all dtypes, layouts and memory formats by name and by number, unions with and
without their null members, both storages, ranges that two tensors share, checksums of every kind, views, symbols, branches in
branches with tensors of their own, tables and keys in any order, four ways to lay JSON out."""

import base64
import concurrent.futures
import hashlib
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import zlib

DTYPES = {"u8": 1, "i8": 1, "i16": 2, "i32": 4, "i64": 8, "f16": 2, "f32": 4, "f64": 8, "c32": 4, "c64": 8, "c128": 16, "b8": 1,
          "bf16": 2}  # in the order of their numbers, with the bytes of an element
LAYOUTS = ("strided", "sparse_coo", "sparse_csr", "sparse_csc", "sparse_bsr", "sparse_bsc", "_mkldnn")
FORMATS = ("contiguous_format", "channels_last", "channels_last_3d", "preserve_format")
ARGUMENT = ("as_none", "as_tensor", "as_tensors", "as_symint", "as_symints", "as_bool", "as_bools", "as_int", "as_ints", "as_float",
            "as_floats", "as_str", "as_gm", "as_scalar_type", "as_memory_format", "as_layout", "as_device")
TEXTS = ("", "a", "one\ntwo", 'é\u2028"\\', "torch.nn.Linear, [a;b]", "\U0001f600", "x" * 30)
WAYS = (("b.json",), ("b.exg", "c.json"), ("b.pt2", "d.json"), ("o/b.json",), ("o/b.exg", "o/c.json"), ("e.exg", "e.pt2", "e.json"),
        ("f.pt2", "f.exg", "f.json"))


class Writer:
    """One file's habits, and what it has said so far."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.numbers = self.random.choice([0, 0, 1, 0.5])  # enums by number
        self.long = self.random.choice([0, 0, 1, 0.5])  # targets spelt in full
        self.dumps = self.random.random() < 0.3  # unions with all their members
        self.files, self.names, self.last = {}, 0, None

    def chance(self, share):
        return self.random.random() < share

    def some(self, most, make):
        return [make() for _ in range(self.random.randint(0, most))]

    def name(self, stem):
        self.names += 1
        return self.random.choice(["", "é", "a."]) + stem + self.random.choice(["", ".x", " q", "-"]) + str(self.names)

    def text(self):
        return self.random.choice(TEXTS)

    def enum(self, names, index):
        return index + 1 if self.chance(self.numbers) else names[index]

    def pick(self, names):
        return self.enum(tuple(names), self.random.randrange(len(names)))

    def union(self, tags, tag, value):
        return {each: value if each == tag else None for each in tags} if self.dumps else {tag: value}

    def sym_int(self, value):
        return self.union(("as_int", "as_sym"), "as_int" if isinstance(value, int) else "as_sym", value)

    def device(self):
        return {"type": self.random.choice(["cpu", "cuda", "tpu:x"]), "index": self.random.choice([-1, 0, 3])}

    def meta(self, dtype=None, sizes=None, strides=None, offset=0):
        is_value = dtype is None
        dtype = self.random.choice(list(DTYPES)) if is_value else dtype
        sizes = self.some(3, lambda: self.random.choice([0, 1, 5, "s0", "2*s0 + 1"])) if is_value else sizes
        return {
            "dtype": self.enum(tuple(DTYPES), list(DTYPES).index(dtype)),
            "sizes": [self.sym_int(size) for size in sizes],
            "requires_grad": is_value and dtype.strip("0123456789") not in ("u", "i", "b") and self.chance(0.5),
            "device": self.device(),
            "strides": [self.sym_int(stride) for stride in ([1] * len(sizes) if is_value else strides)],
            "storage_offset": self.sym_int(offset),
            "layout": self.pick(LAYOUTS) if is_value else self.enum(LAYOUTS, 0),
        }

    def tensor(self):
        if self.last is not None and self.chance(0.2):  # once more, maybe with another checksum
            dtype, meta, location, offset, data = self.last
            return {"storage": self.external(location, offset, data), "meta": meta}
        dtype = self.random.choice(list(DTYPES))
        sizes, offset = self.some(2, lambda: self.random.randint(0, 3)), self.random.choice([0, 0, 5])
        strides = [max(sizes[1], 1), 1] if len(sizes) == 2 else [1] * len(sizes)
        strides = strides[::-1] if self.chance(0.3) else strides
        count = offset + 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides)) if all(sizes) else 0
        width = DTYPES[dtype] * (count + self.random.choice([0, 3]))
        data = bytes(self.random.randrange(2 if dtype == "b8" else 256) for _ in range(width))
        meta = self.meta(dtype, sizes, strides, offset)
        if self.chance(0.5):
            buffer = base64.b64encode(data).decode()
            return {"storage": {"data_location": self.enum(("Internal", "External"), 0), "data": {"buffer": buffer}}, "meta": meta}
        location = self.random.choice(["one.bin", "two.bin", "folder/é.bin"])
        held = self.files.setdefault(location, bytearray())
        held += bytes(self.some(5, lambda: self.random.randrange(256)))
        self.last = (dtype, meta, location, len(held), data)
        held += data
        return {"storage": self.external(*self.last[2:]), "meta": meta}

    def external(self, location, offset, data):
        sums = ["", "rot13:abc", "CRC", f"crc32:{zlib.crc32(data):08x}", f"sha256:{hashlib.sha256(data).hexdigest()}",
                hashlib.sha256(data).hexdigest().upper(), hashlib.sha1(data).hexdigest(), f"md5:{hashlib.md5(data).hexdigest()}"]
        data = {"location": location, "offset": str(offset), "length": str(len(data)), "checksum": self.random.choice(sums)}
        return {"data_location": self.enum(("Internal", "External"), 1), "data": data}

    def argument(self, tensors, symbols, depth):
        draw, one = self.random, lambda names: {"name": self.random.choice(names)}
        makers = {
            "as_none": lambda: draw.choice([True, False]),
            "as_tensor": lambda: one(tensors),
            "as_tensors": lambda: self.some(3, lambda: one(tensors)) if tensors else [],
            "as_symint": lambda: one(symbols),
            "as_symints": lambda: self.some(2, lambda: one(symbols)) if symbols else [],
            "as_bool": lambda: self.chance(0.5),
            "as_bools": lambda: self.some(3, lambda: self.chance(0.5)),
            "as_int": lambda: draw.choice([0, -1, 7, 2**63 - 1, -(2**63)]),
            "as_ints": lambda: self.some(3, lambda: draw.randint(-9, 9)),
            "as_float": lambda: draw.choice([0.0, -0.0, 1e-320, 1e22, 0.1, 2, "Infinity", "-Infinity", "NaN", draw.random()]),
            "as_floats": lambda: self.some(3, lambda: draw.choice([0.5, -0.0, "NaN", 1e300])),
            "as_str": self.text,
            "as_gm": lambda: self.module(depth + 1),
            "as_scalar_type": lambda: self.pick(DTYPES),
            "as_memory_format": lambda: self.pick(FORMATS),
            "as_layout": lambda: self.pick(LAYOUTS),
            "as_device": self.device,
        }
        for tag, needed in (("as_tensor", tensors), ("as_symint", symbols), ("as_gm", depth < 2)):
            if not needed:
                del makers[tag]
        tag = draw.choice(list(makers))
        return self.union(ARGUMENT, tag, makers[tag]())

    def node(self, tensors, symbols, described, depth):
        node = {
            "target": ("torch.ops." if self.chance(self.long) else "") + "mine.op.default",
            "args": self.some(4, lambda: self.argument(tensors, symbols, depth)),
            "kwargs": {key: self.argument(tensors, symbols, depth) for key in self.some(2, lambda: self.name("k"))},
            "outputs": [],
            "metadata": {"stack_trace": self.text(), "nn_module_stack": self.text(),
                         "extra": {key: self.text() for key in self.some(3, lambda: self.random.choice(["", "custom", "stack_trace"]))}},
        }
        for _ in range(self.random.randint(0, 2)):
            kind, names = self.random.choice([("as_tensor", tensors), ("as_symint", symbols)])
            names.append(self.name("y"))
            (described if kind == "as_tensor" else []).append(names[-1])
            node["outputs"].append(self.union(("as_tensor", "as_symint"), kind, {"name": names[-1]}))
        return node

    def module(self, depth=0):
        tables = [{self.name("w"): self.tensor() for _ in range(self.random.randint(0, 2))} for _ in range(2)]
        inputs, own = self.some(3, lambda: self.name("x")), {**tables[0], **tables[1]}
        tensors, symbols, described = inputs + list(own), [], inputs + list(own)
        nodes = self.some(4, lambda: self.node(tensors, symbols, described, depth))
        if own and depth == 0 and self.chance(0.3):  # an input by name, and in the list too
            inputs.insert(self.random.randint(0, len(inputs)), self.random.choice(list(own)))
        described += self.some(1, lambda: self.name("unused"))
        self.random.shuffle(described)
        graph = {
            "inputs": [{"name": name} for name in inputs],
            "outputs": self.some(3, lambda: {"name": self.random.choice(tensors)}) if tensors else [],
            "nodes": nodes,
            "tensor_values": [{"name": name, "meta": own[name]["meta"] if name in own else self.meta()} for name in described],
            "symint_values": [{"name": name, "value": self.sym_int(self.random.choice(["s0", "2*s0 + 1", 4, -3]))}
                              for name in self.random.sample(symbols, len(symbols))],
        }
        return {
            "name": self.random.choice(["", "GraphModule", "<lambda>", "a.b", "forward"]) if depth else self.text(),
            "graph": graph,
            "metadata": {key: self.text() for key in self.some(3, lambda: self.random.choice(["z", "a", "custom", ""]))},
            "parameters": tables[0],
            "buffers": tables[1],
        }


def write(seed, folder):
    """a.json and the files that it names."""
    writer = Writer(seed)
    module = writer.module()
    layout = random.Random(~seed).choice([{}, {}, {"separators": (",", ":")}, {"indent": 1, "sort_keys": True}, {"ensure_ascii": False}])
    text = json.dumps(module, **layout) + random.Random(seed + 1).choice(["", "\n"])
    (folder / "a.json").write_text(text, encoding="utf-8")
    for location, data in writer.files.items():
        (folder / location).parent.mkdir(exist_ok=True)
        (folder / location).write_bytes(data)


def check(exg, seed):
    """What went wrong with this one, or None."""
    with tempfile.TemporaryDirectory(prefix="exg-early-") as name:
        folder = pathlib.Path(name)
        (folder / "o").mkdir()
        write(seed, folder)
        for way in WAYS:
            at = "a.json"
            for to in way:
                done = subprocess.run([exg, "convert", folder / at, folder / to], capture_output=True, text=True, timeout=60)
                if done.returncode != 0:
                    return f"{seed}: {at} to {to}: {done.stderr.strip()}"
                at = to
            if (folder / at).read_bytes() != (folder / "a.json").read_bytes():
                return f"{seed}: by way of {', '.join(way)} it came back as something else"
    return None


def main():
    exg, count, first = os.path.abspath(sys.argv[1]), *map(int, (sys.argv[2:] + ["60", "0"][len(sys.argv) - 2:])[:2])
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        faults = [fault for fault in pool.map(lambda seed: check(exg, seed), range(first, first + count)) if fault]
    print(*faults, f"{count - len(faults)} of {count} files came back as they were", sep="\n")
    return 1 if faults or count == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
