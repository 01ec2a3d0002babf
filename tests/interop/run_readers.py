"""Files at the edges of their formats: exg takes what the format's own reader takes, refuses what it refuses, and gives the same bytes."""

import argparse
import io
import json
import pathlib
import struct
import subprocess
import sys
import tempfile
import warnings
import zipfile

try:
    import numpy
    import safetensors
    import safetensors.numpy
except ImportError as error:
    print(f"FAIL readers: {error}")
    print("0 passed, 1 failed")
    sys.exit(1)

try:
    import gguf
except ImportError:
    gguf = None

TENSOR = '{"dtype":"F32","shape":[1],"data_offsets":[0,4]}'


def tensor(dtype="F32", shape=(1,), begin=0, end=4, more=""):
    return f'{{"dtype":"{dtype}","shape":{json.dumps(list(shape))},"data_offsets":[{begin},{end}]{more}}}'


def safetensors_cases():
    """Headers, each with so many bytes of data. None has a dtype that safetensors does not know: exg lists such tensors."""
    for name in ("a", "", "a b", "\\u0000", "a\\u0000b", "\\u00e9", "\\ud83d\\ude00", "__metadata", "x" * 3000):
        yield f'{{"{name}":{TENSOR}}}', 4
    for text in ('{"a\\u0000b":%s,"a\\u0000c":%s}' % (tensor(), tensor(begin=4, end=8)), '{"a":%s,"a":%s}' % (TENSOR, tensor(begin=4, end=8))):
        yield text, 8
    for metadata in ("null", "{}", '{"a":"b"}', '{"a":1}', '{"a":null}', "[]", '""', '{"a":"1","a":"2"}', '{"a":"1","a":"1"}',
                     '{"a\\u0000":"b\\u0000c"}', '{"a":{"b":"c"}}', '{"a":"b"},"__metadata__":{}'):
        yield f'{{"__metadata__":{metadata},"a":{TENSOR}}}', 4
        yield f'{{"a":{TENSOR},"__metadata__":{metadata}}}', 4
    for twice in (TENSOR, tensor("I32"), tensor("F32", (1,), 4, 8), tensor("F32", (2,)), "{}"):
        yield f'{{"a":{twice},"a":{TENSOR}}}', 4
        yield f'{{"a":{TENSOR},"b":{tensor(begin=4, end=8)},"a":{twice}}}', 8
    for more in (',"x":1', ',"x":{"y":[1,{}]}', ',"x":1,"x":2', ',"dtype":"F32"', ',"shape":[1]', ',"data_offsets":[0,4]', ',"x":NaN', ',"x":-Infinity',
                 ',"x":"\\u0000"', ',"x"', ',', ',"x":01'):
        yield f'{{"a":{tensor(more=more)}}}', 4
    for value in ("1", "null", '"x"', "[]", '["F32",[1],[0,4]]', '["F32",[1],[0,4],5]', '["F32",[1]]', '{"shape":[1],"data_offsets":[0,4]}',
                  '{"dtype":"F32","data_offsets":[0,4]}', '{"dtype":"F32","shape":[1]}'):
        yield f'{{"a":{value}}}', 4
    for shape in ("[]", "[1.0]", "[-1]", "[1,1,1,1,1,1,1,1,1]", "null", "[null]", '["1"]', "{}", "[1e0]", "[2]", "[" + ",".join(["1"] * 64) + "]"):
        yield f'{{"a":{{"dtype":"F32","shape":{shape},"data_offsets":[0,4]}}}}', 4
    for shape in ((2**62, 2**62, 0), (0, 2**62, 2**62), (2**64 - 1, 2**64 - 1, 0), (0, 5), (5, 0), (2**61, 0), (2**59, 0), (2**62,)):
        yield f'{{"a":{tensor(shape=shape, end=0)}}}', 0
    for offsets in ("[0]", "[0,4,4]", "[4,0]", "[0,8]", "[4,8]", "[-1,3]", "[0.0,4]", "[0,18446744073709551615]", "null", "[]", "{}"):
        yield f'{{"a":{{"dtype":"F32","shape":[1],"data_offsets":{offsets}}}}}', 4
    yield f'{{"a":{TENSOR},"b":{tensor(begin=8, end=12)}}}', 12
    yield f'{{"a":{TENSOR},"b":{tensor(begin=2, end=6)}}}', 6
    yield f'{{"b":{tensor(begin=4, end=8)},"a":{TENSOR}}}', 8
    yield f'{{"a":{TENSOR}}}', 8
    yield f'{{"a":{TENSOR}}}', 3
    for dtype, bits in dict(BOOL=8, U8=8, I8=8, F8_E5M2=8, F8_E4M3=8, F8_E8M0=8, F8_E4M3FNUZ=8, F8_E5M2FNUZ=8, I16=16, U16=16, F16=16, BF16=16,
                            I32=32, U32=32, F32=32, F64=64, I64=64, U64=64, C64=64, F4=4, F6_E2M3=6, F6_E3M2=6).items():
        for shape in ((8,), (4, 2), (2, 4), (0, 3), (2, 2, 2), (4, 1)):
            count = int(numpy.prod(shape)) * bits // 8
            yield f'{{"a":{tensor(dtype, shape, 0, count)}}}', count
        yield f'{{"a":{tensor(dtype, (1,), 0, (bits + 7) // 8)}}}', (bits + 7) // 8
    for text in ("{}", "[]", "", " {}", "\n\t {}", "{} ", "{}\n", "{}x", "{}\0", "{", "}", "null", "{}{}", "\ufeff{}", '{"a":%s,}' % TENSOR, "{'a':1}", "// \n{}"):
        yield text, 4 if "F32" in text else 0
    yield b'{"\xff":' + TENSOR.encode() + b"}", 4
    yield b'{"\\ud800":' + TENSOR.encode() + b"}", 4
    yield b'{"a\nb":' + TENSOR.encode() + b"}", 4


def numpy_headers():
    descrs = ("<f4", ">f4", "=f4", "|f4", "f4", "float32", "float", "f", "d", "e", "half", "single", "double", "i4", "int32", "int", "i", "l", "L", "q",
              "Q", "b", "B", "h", "H", "I", "?", "bool", "b1", "|b1", "<b1", "u1", ">u1", "<i1", "int8", "F", "D", "c8", "<c8", ">c16", "complex64",
              "complex", "longlong", "intp", "uintp", "long", "ulong", "byte", "short", "int_", "uint", "p", "P", "n", "N", "uint16", "f2", ">i8",
              "f3", "<f1", "4", "float_", "", "<", "<<f4", "f4 ", "x")
    for descr in descrs:
        yield f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': (2,), }}"
    shapes = ("()", "(2,)", "(2, )", "(1, 2)", "(1, 2,)", "(2L,)", "(1L, 2L)", "(2)", "[2]", "(0, 2)", "(-1,)", "(2, -1)", "(2.0,)", "('2',)", "2", "None",
              "(,)", "(2,,)", "(2 2)")
    for shape in shapes:
        for order in ("False", "True"):
            yield f"{{'descr': '<f4', 'fortran_order': {order}, 'shape': {shape}, }}"
    yield from ('{"descr": "<f4", "fortran_order": False, "shape": (2,)}', "{'shape': (2,), 'fortran_order': False, 'descr': '<f4'}",
                "{'descr': u'<f4', 'fortran_order': False, 'shape': (2,)}", "{'descr': b'<f4', 'fortran_order': False, 'shape': (2,)}",
                "{'descr': '<f4', 'fortran_order': 0, 'shape': (2,)}", "{'descr': '<f4', 'fortran_order': False}",
                "{'descr': '<f4', 'fortran_order': False, 'shape': (2,), 'x': 1}", "{'descr': None, 'fortran_order': False, 'shape': (2,)}",
                "  {'descr': '<f4',\n 'fortran_order': False, 'shape': (2,)}", "dict()", "{}", "[]", "{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} 1")


class Checks:
    def __init__(self, exg, folder):
        self.exg, self.folder, self.passed, self.failed = exg, pathlib.Path(folder), 0, 0

    def run(self, *words):
        return subprocess.run([self.exg, *map(str, words)], capture_output=True, text=True, timeout=60, check=False)

    def told(self, path):
        """What exg says of a file, or None when it refuses it."""
        done = self.run("inspect", path, "--json")
        if done.returncode not in (0, 4, 5):
            raise AssertionError(f"exit code {done.returncode}: {done.stderr}")
        return json.loads(done.stdout) if done.returncode == 0 else None

    def check(self, what, good, why):
        self.passed, self.failed = self.passed + bool(good), self.failed + (not good)
        if not good:
            print(f"FAIL {what[:150]!r}: {why}")

    def safetensors(self):
        path = self.folder / "x.safetensors"
        for header, count in safetensors_cases():
            text = header if isinstance(header, bytes) else header.encode()
            path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(i % 251 for i in range(count)))
            try:
                with safetensors.safe_open(path, "np") as file:
                    slices = {name: file.get_slice(name) for name in file.keys()}
                    want = {name: (s.get_dtype(), s.get_shape()) for name, s in slices.items()}
            except (safetensors.SafetensorError, OSError):
                want = None
            got = self.told(path)
            self.check(header if isinstance(header, str) else repr(header), (got is None) == (want is None), f"exg {got}, safetensors {want}")
            if got is None or want is None:
                continue
            names = {t["name"] for t in got["tensors"]}
            self.check(header, names == {n.replace("\0", "\\u0000") for n in want}, f"{names}, expected {list(want)}")
            for t in got["tensors"]:
                dtype, shape = want[t["name"].replace("\\u0000", "\0")]
                if "encoding" not in t:
                    self.check(header, t["shape"] == shape, f"{t} is {shape}")
                else:
                    self.check(header, t["encoding"].startswith(dtype), f"{t} is {dtype}")

    def numpy(self):
        warnings.simplefilter("ignore")  # headers of Python 2
        path = self.folder / "x.npy"
        for header in numpy_headers():
            text = header.encode() + b"\n"
            path.write_bytes(b"\x93NUMPY\1\0" + struct.pack("<H", len(text)) + text)
            try:
                with open(path, "rb") as file:
                    major = numpy.lib.format.read_magic(file)
                    shape, fortran, dtype = numpy.lib.format.read_array_header_1_0(file)
                    want = numpy.arange(int(numpy.prod(shape))).astype(dtype).reshape(shape, order="F" if fortran else "C")
                    assert major == (1, 0) and min(shape, default=0) >= 0
            except Exception:  # NumPy raises many kinds
                want = None
            data = b"" if want is None else want.tobytes("F" if fortran else "C")
            path.write_bytes(path.read_bytes() + data)
            out = self.folder / "out.safetensors"
            told = self.told(path)
            self.check(header, (told is not None) == (want is not None), f"{told} NumPy: {want}")
            if told is not None and want is not None and want.dtype.itemsize < 16:  # safetensors has no complex128
                done = self.run("convert", path, out)
                self.check(header, done.returncode == 0, done.stderr)
                got = safetensors.numpy.load_file(out)["x"]
                self.check(header, got.shape == want.shape and numpy.array_equal(got, want), f"{got}, expected {want}")

    def gguf(self):
        """Every type of gguf-py: the same bytes, and rows of as many."""
        path, out = self.folder / "x.gguf", self.folder / "out.safetensors"
        for kind, (block, size) in gguf.GGML_QUANT_SIZES.items():
            data = numpy.random.default_rng(int(kind)).integers(0, 100, (3, 2 * size), "u1")
            writer = gguf.GGUFWriter(path, "test")
            writer.add_tensor_info("x", [3, 2 * size], numpy.dtype("u1"), data.nbytes, raw_dtype=kind)
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_ti_data_to_file()
            writer.write_tensor_data(data)
            writer.close()
            told = self.told(path)
            want = gguf.GGUFReader(path).tensors[0]
            self.check(kind.name, told is not None and told["bytes"] == want.n_bytes == data.nbytes, told)
            self.check(kind.name, told is not None and (block == 1) == ("encoding" not in told["tensors"][0]), told)
            done = self.run("convert", path, out, "--force")
            got = out.read_bytes()[-data.nbytes:] if done.returncode == 0 else done.stderr
            self.check(kind.name, got == data.tobytes(), got)

    def npz(self):
        path = self.folder / "x.npz"
        arrays = {name: numpy.full(2, i, "f4") for i, name in enumerate(("W", "w", "a/b", "a//b", "/x", "../x", "./x", "a\\b", "", "\u00fc", "a.npy", "x" * 600))}
        for compressed in (numpy.savez, numpy.savez_compressed):
            with open(path, "wb") as file:
                compressed(file, **arrays)
            done = self.run("convert", path, self.folder / "out.safetensors", "--force")
            got = safetensors.numpy.load_file(self.folder / "out.safetensors") if done.returncode == 0 else {}
            self.check("npz", {k: v.tolist() for k, v in got.items()} == {k: v.tolist() for k, v in arrays.items()}, done.stderr or list(got))
        with zipfile.ZipFile(path, "a") as file:  # a name twice, of which the last counts
            for values in ([5, 6, 7], [8]):
                array = io.BytesIO()
                numpy.save(array, numpy.array(values, "f8"))
                file.writestr("w.npy", array.getvalue())
        done = self.run("convert", path, self.folder / "out.safetensors", "--force")
        got = safetensors.numpy.load_file(self.folder / "out.safetensors")
        self.check("npz, a name twice", len(got) == len(arrays) and numpy.array_equal(got["w"], numpy.load(path)["w"]), done.stderr or got)
        self.check("npz, a name twice", [s["name"] for s in self.told(path)["skipped"]] == ["w", "w"], self.told(path))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exg", required=True)
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(parser.parse_args().exg, folder)
        checks.safetensors()
        checks.numpy()
        checks.npz()
        if gguf is not None:
            checks.gguf()
        print(f"{checks.passed} passed, {checks.failed} failed")
        sys.exit(1 if checks.failed else 0)


if __name__ == "__main__":
    main()
