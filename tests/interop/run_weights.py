"""Files of weights: what torch, numpy, safetensors and gguf write, exg reads, and the other way round."""

import argparse
import collections
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy
    import safetensors.numpy
    import safetensors.torch
    import torch
    import torch.export.pt2_archive._package
except ImportError as error:
    print(f"FAIL weights: {error}")
    print("0 passed, 1 failed")
    sys.exit(1)
try:
    import gguf
except ImportError:
    gguf = None

DTYPES = (
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
    torch.bool, torch.bfloat16, torch.uint16, torch.uint32, torch.uint64, torch.complex64,
    torch.float8_e4m3fn, torch.float8_e5m2,
)  # fmt: skip


def tensors(seed=0):
    """One tensor a dtype, with empty and 0-d ones, and a big one."""
    random = torch.Generator().manual_seed(seed)

    def of(dtype, *shape):
        bits = torch.randint(0, 256, (*shape, dtype.itemsize), dtype=torch.uint8, generator=random)
        return (bits[..., 0] > 99) if dtype is torch.bool else bits.view(dtype).reshape(shape)

    made = {f"of.{str(dtype)[6:]}": of(dtype, 3, 5) for dtype in DTYPES}
    return made | {
        "empty": torch.zeros(0, 7),
        "scalar": torch.tensor(2.5),
        "odd": of(torch.uint8, 13),
        "large": of(torch.float32, 1100, 1024),
    }


def same(got, want):
    """The same names, dtypes, shapes and bits."""
    if sorted(got) != sorted(want):
        raise AssertionError(f"names {sorted(got)[:4]}, expected {sorted(want)[:4]}")
    for name, a in got.items():
        b = want[name].contiguous()
        if a.dtype != b.dtype or a.shape != b.shape:
            raise AssertionError(f"{name}: {a.dtype} {tuple(a.shape)}, expected {b.dtype} {tuple(b.shape)}")
        if not torch.equal(a.reshape(-1).view(torch.uint8), b.reshape(-1).view(torch.uint8)):
            raise AssertionError(f"{name}: other bits")


# Where blocks have scales in float16, or how many of one byte and from where to where: what is drawn there is a number.
SCALES_OF_BLOCKS = {
    "Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q2_K": (80, 82), "Q3_K": (108,), "Q4_K": (0, 2),
    "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,), "MXFP4": {"count": 1, "least": 115, "most": 125},
    "NVFP4": {"count": 4, "least": 1, "most": 60},
}  # fmt: skip


class Checks:
    def __init__(self, exg, folder):
        self.exg, self.folder, self.calls = exg, pathlib.Path(folder), 0

    def path(self, name):
        self.calls += 1
        folder = self.folder / str(self.calls)
        folder.mkdir()
        return folder / name

    def run(self, *words):
        return subprocess.run([self.exg, *map(str, words)], capture_output=True, text=True, timeout=120, check=False)

    def convert(self, source, *options):
        """What exg makes of `source`, read by safetensors."""
        out = self.path("out.safetensors")
        done = self.run("convert", source, out, *options)
        if done.returncode != 0:
            raise AssertionError(done.stderr.strip() or done.stdout)
        return out

    def load(self, source):
        return safetensors.torch.load_file(self.convert(source))

    def refused(self, source, code):
        done = self.run("convert", source, self.path("out.safetensors"))
        if done.returncode == 0 or code not in done.stderr:
            raise AssertionError(f"expected {code}: {done.returncode} {done.stderr.strip()}")

    def inspect(self, source):
        return json.loads(self.run("inspect", source, "--json").stdout)

    # ---- one check a format ------------------------------------------------------------------

    def check_safetensors(self):
        path = self.path("a.safetensors")
        safetensors.torch.save_file(tensors(), path, {"format": "pt", "note": "é\n"})
        same(self.load(path), tensors())
        with safetensors.safe_open(self.convert(path), "pt") as file:
            assert file.metadata() == {"format": "pt", "note": "é\n"}, file.metadata()

    def check_safetensors_split(self):
        path = self.path("a.safetensors")
        safetensors.torch.save_file(tensors(), path, {"format": "pt"})
        out = self.convert(path, "--split", "300")  # bytes: many files, and one too large for the limit
        index = json.loads(pathlib.Path(f"{out}.index.json").read_text())
        files = set(index["weight_map"].values())
        assert len(files) > 3 and not out.exists()
        parts = {name: safetensors.torch.load_file(out.parent / name) for name in files}
        same({name: parts[file][name] for name, file in index["weight_map"].items()}, tensors())
        assert sum(len(part) for part in parts.values()) == len(tensors())
        assert index["metadata"]["total_size"] == sum(t.nbytes for t in tensors().values())
        same(self.load(f"{out}.index.json"), tensors())
        (out.parent / min(files)).unlink()
        self.refused(f"{out}.index.json", "IO-OPEN")

    def check_npz(self):
        arrays = {k: v.numpy() for k, v in tensors().items() if v.dtype not in (torch.bfloat16,) and v.itemsize > 1}
        arrays |= {"bool": numpy.array([True, False]), "column": numpy.asfortranarray(numpy.arange(24).reshape(2, 3, 4))}
        arrays["big"] = numpy.arange(7, dtype=">i4")
        arrays["complex.big"] = numpy.array([1 + 2j, 3 - 4j], dtype=">c8")
        want = {
            k: torch.from_numpy(numpy.ascontiguousarray(v).astype(v.dtype.newbyteorder("=")).reshape(v.shape))
            for k, v in arrays.items()
        }
        for save in (numpy.savez, numpy.savez_compressed):
            path = self.path("a.npz")
            save(path, **arrays)
            same(self.load(path), want)

    def check_npy(self):
        path = self.path("a.npy")
        numpy.save(path, numpy.arange(6).reshape(2, 3).T)
        same(self.load(path), {"a": torch.arange(6).reshape(2, 3).T})
        with open(path, "ab") as file:
            file.write(b"behind")
        assert (numpy.load(path) == numpy.arange(6).reshape(2, 3).T).all()
        same(self.load(path), {"a": torch.arange(6).reshape(2, 3).T})

    def check_checkpoint(self):
        weight, all_kinds = torch.randn(4, 6), {k: v for k, v in tensors(1).items()}
        parameter = torch.nn.Parameter(torch.randn(3, 3))
        state = collections.OrderedDict(w=weight, tied=weight, t=weight.t(), row=weight[1:3, 2:], p=parameter)
        state["expanded"] = torch.tensor([1.0, 2.0]).expand(3, 2)
        optimizer = {"state": {0: {"exp_avg": torch.ones(2)}}, "param_groups": [{"lr": 0.5, "params": [0]}]}
        checkpoint = {"model": state, "optimizer": optimizer, "epoch": 3, "name": "run", "none": None, "all": all_kinds}
        path = self.path("a.pt")
        torch.save(checkpoint, path)
        want = {f"model.{k}": v.detach() for k, v in state.items()} | {f"all.{k}": v for k, v in all_kinds.items()}
        want["optimizer.state.0.exp_avg"] = torch.ones(2)
        same(self.load(path), want)
        told = self.inspect(path)
        kept = {t["name"]: t for t in told["tensors"]}
        for name, value in want.items():
            if name.startswith("model."):
                row = kept[name]
                assert row["strides"] == list(value.stride()) and row["offset"] == value.storage_offset(), row
        assert len({kept[f"model.{n}"]["storage"] for n in ("w", "tied", "t", "row")}) == 1
        assert told["metadata"]["epoch"] == "3" and told["metadata"]["optimizer.param_groups.0.lr"] == "0.5", told

    def check_checkpoint_of_a_module(self):
        path = self.path("a.pth")
        module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4))
        torch.save(module.state_dict(), path)
        same(self.load(path), module.state_dict())

    def check_gguf(self):
        for order in (gguf.GGUFEndian.LITTLE, gguf.GGUFEndian.BIG):
            path = self.path("a.gguf")
            writer = gguf.GGUFWriter(path, "test", endianess=order)
            writer.add_uint32("test.count", 7)
            writer.add_float32("test.ratio", 0.25)
            writer.add_int16("test.minus", -3)
            writer.add_bool("test.yes", True)
            writer.add_array("test.words", ["a", "bc"])
            arrays = {
                "f32": numpy.random.rand(3, 4).astype("f4"),
                "f16": numpy.random.rand(2, 3, 5).astype("f2"),
                "f64": numpy.random.rand(5),
                "i8": numpy.arange(-3, 4, dtype="i1"),
                "i16": numpy.arange(7, dtype="i2"),
                "i32": numpy.arange(3, dtype="i4"),
                "i64": numpy.arange(5, dtype="i8").reshape(5, 1),
            }
            for name, array in arrays.items():
                writer.add_tensor(name, array.copy())
            kinds = (gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q4_0)
            packed = {k.name: gguf.quantize(numpy.random.rand(6, 64).astype("f4"), k) for k in kinds}
            if order == gguf.GGUFEndian.LITTLE:
                brain = torch.randn(4, 8).bfloat16()
                writer.add_tensor("bf16", brain.view(torch.uint8).numpy(), raw_dtype=gguf.GGMLQuantizationType.BF16)
                for name, array in packed.items():
                    writer.add_tensor(name, array, raw_dtype=gguf.GGMLQuantizationType[name])
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
            writer.close()
            want = {name: torch.from_numpy(array) for name, array in arrays.items()}
            if order == gguf.GGUFEndian.LITTLE:
                want |= {"bf16": brain} | {name: torch.from_numpy(array) for name, array in packed.items()}
            same(self.load(path), want)
            told = self.inspect(path)
            expected = {"test.count": "7", "test.ratio": "0.25", "test.minus": "-3", "test.yes": "true"}
            assert expected.items() <= told["metadata"].items(), told["metadata"]
            encodings = {t["name"]: t.get("encoding") for t in told["tensors"]}
            assert all(encodings[n] == (n if n in packed else None) for n in want), encodings
            with safetensors.safe_open(self.convert(path), "pt") as file:
                for name in packed if order == gguf.GGUFEndian.LITTLE else ():
                    assert file.metadata()[f"encoding:{name}"] == name

    def check_digest(self):
        """The tree of schema/README.md, by hashlib."""
        path = self.path("a.safetensors")
        safetensors.torch.save_file(tensors(), path)

        def h(tag, data):
            return hashlib.sha256(bytes([tag]) + data).digest()

        def tree(leaves):
            if len(leaves) < 2:
                return leaves[0] if leaves else h(1, b"")
            k = 1 << (len(leaves) - 1).bit_length() - 1
            return h(1, tree(leaves[:k]) + tree(leaves[k:]))

        def u64(*numbers):
            return b"".join(n.to_bytes(8, "little") for n in numbers)

        def text(value):
            return u64(len(value.encode())) + value.encode()

        leaves = []
        for name, value in sorted(tensors().items(), key=lambda item: item[0].encode()):
            data = value.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
            blocks = [h(0, data[at : at + (1 << 20)]) for at in range(0, len(data), 1 << 20)]
            leaves.append(h(2, text(name) + text(str(value.dtype)[6:]) + u64(value.dim(), *value.shape) + tree(blocks)))
        told = self.run("inspect", path, "--digest", "sha256").stdout.strip()
        assert told == f"sha256:{h(3, u64(len(leaves)) + tree(leaves)).hex()}", told

    def check_outputs_as_numpy(self):
        """What `exg run --output` writes under the names of NumPy's files, NumPy reads."""

        class Kinds(torch.nn.Module):
            def forward(self, x):
                wide = torch.complex(x.double(), -x.double())
                return x, wide, x > 0, x.sum(), wide.to(torch.complex32)

        x = torch.arange(12.0).reshape(3, 4) / 4 - 1  # whose sum is the same in any order
        program = self.path("kinds.pt2")
        torch.export.save(torch.export.export(Kinds(), (x,)), program)
        out = program.parent / "y.npz"
        done = self.run("run", program, "--output", out)
        assert done.returncode == 0, done.stderr
        got, want = numpy.load(out), [y.resolve_conj() for y in Kinds()(x)]
        assert sorted(got.files) == ["0", "1", "2", "3", "4"], got.files
        want[4] = want[4].to(torch.complex64)  # which NumPy has
        for i, y in enumerate(want):
            assert got[str(i)].dtype == y.numpy().dtype and got[str(i)].shape == y.numpy().shape, i
            assert (got[str(i)] == y.numpy()).all(), i
        assert self.run("run", program, "--expect", out).returncode == 0
        done = self.run("run", program, "--output", out.with_suffix(".safetensors"))
        assert done.returncode == 5 and "STF-DTYPE" in done.stderr and ".npz" in done.stderr, done.stderr
        torch.export.save(torch.export.export(torch.nn.Linear(4, 2), (x,)), program)
        done = self.run("run", program, "--output", out.with_suffix(".npy"))
        assert done.returncode == 0, done.stderr
        assert numpy.load(out.with_suffix(".npy")).shape == (3, 2)

    def check_several_programs(self):
        """All programs of an archive, and its extra files, come through and are loaded by PyTorch."""
        package = torch.export.pt2_archive._package
        modules = {"a": torch.nn.Linear(4, 2), "model": torch.nn.Linear(4, 3), "b": torch.nn.Linear(4, 5)}
        x = torch.randn(2, 4)
        path = self.path("several.pt2")
        programs = {name: torch.export.export(m, (x,)) for name, m in modules.items()}
        package.package_pt2(path, exported_programs=programs, extra_files={"notes.txt": "hello"})
        out = path.with_name("out.pt2")
        done = self.run("convert", path, out)
        assert done.returncode == 0, done.stderr
        got = package.load_pt2(out)
        assert sorted(got.exported_programs) == sorted(modules) and got.extra_files == {"notes.txt": "hello"}, got
        for name, module in modules.items():
            assert torch.equal(got.exported_programs[name].module()(x), module(x)), name

    def check_gguf_in_parts(self):
        folder = self.path("x").parent
        writer = gguf.GGUFWriter(folder / "m.gguf", "test", split_max_tensors=2)
        arrays = {str(i): numpy.arange(i, i + 4, dtype="f4") for i in range(5)}
        for name, array in arrays.items():
            writer.add_tensor(name, array)
        writer.write_header_to_file()
        writer.write_kv_data_to_file()
        writer.write_tensors_to_file()
        writer.close()
        for i in range(3):
            same(self.load(folder / f"m-{i + 1:05}-of-00003.gguf"), {k: torch.from_numpy(v) for k, v in arrays.items()})
        (folder / "m-00002-of-00003.gguf").unlink()
        self.refused(folder / "m-00001-of-00003.gguf", "m-00002-of-00003.gguf")

    def check_gguf_blocks_as_stored(self):
        """A program takes blocks as they are stored: looked up, multiplied, one matrix for both, on one rank and on two."""

        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.words = torch.nn.Embedding(48, 256)
                self.down = torch.nn.Linear(256, 40)
                self.up = torch.nn.Linear(256, 256, bias=False)

            def forward(self, ids):
                x = self.words(ids)
                return x, self.down(x), torch.nn.functional.linear(torch.relu(self.up(x)), self.words.weight)

        model, ids = Tied().eval(), torch.randint(0, 48, (3, 7))
        program = self.path("tied.pt2")
        dynamic = {"ids": {0: torch.export.Dim("rows", max=64), 1: torch.export.Dim("words", max=64)}}
        torch.export.save(torch.export.export(model, (ids,), dynamic_shapes=dynamic), program)
        given, wanted, path = (program.with_name(name) for name in ("in.safetensors", "want.safetensors", "w.gguf"))
        safetensors.torch.save_file({"ids": ids}, given)
        random = numpy.random.default_rng(5)
        for name, halves in SCALES_OF_BLOCKS.items():
            kind = gguf.GGMLQuantizationType[name]
            elements, size = gguf.GGML_QUANT_SIZES[kind]
            writer, state = gguf.GGUFWriter(path, "test"), {"down.bias": model.down.bias.detach()}
            writer.add_tensor("down.bias", state["down.bias"].numpy())
            for fqn, rows in (("words.weight", 48), ("down.weight", 40), ("up.weight", 256)):
                blocks = random.integers(0, 256, (rows * 256 // elements, size), dtype="u1")
                for at in halves if isinstance(halves, tuple) else ():
                    blocks[:, at : at + 2] = (random.random(len(blocks)) * 0.02 - 0.01).astype("<f2").view("u1").reshape(-1, 2)
                if not isinstance(halves, tuple):  # scales of one byte: so many of them, up to so much
                    blocks[:, : halves["count"]] = random.integers(halves["least"], halves["most"], (len(blocks), halves["count"]))
                packed = blocks.reshape(rows, -1)
                writer.add_tensor(fqn, packed, raw_dtype=kind)
                state[fqn] = torch.from_numpy(gguf.dequantize(packed, kind))
            writer.write_header_to_file()
            writer.write_kv_data_to_file()
            writer.write_tensors_to_file()
            writer.close()
            model.load_state_dict(state)
            with torch.no_grad():
                want = model(ids)
            out = self.path("out.safetensors")
            done = self.run("run", program, "--weights-from", path, "--input", given, "--output", out, "--profile", "--json")
            assert done.returncode == 0, f"{name}: {done.stderr}"
            got = safetensors.torch.load_file(out)
            assert torch.equal(got["0"], want[0]), f"{name}: rows that are looked up"
            for i in (1, 2):
                error = (got[str(i)] - want[i]).abs().max() / want[i].abs().max()
                assert error < 2e-5, f"{name}: output {i} is off by {error}"
            assert done.stdout.count("weight_product") >= 3 and ".mm." not in done.stdout, f"{name}: {done.stdout}"
            safetensors.torch.save_file({str(i): y.clone() for i, y in enumerate(want)}, wanted)
            for place in ("data", "tensor"):
                done = self.run("run", program, "--weights-from", path, "--input", given, "--mesh", "2", "--place", place,
                                "--expect", wanted, "--rtol", "1e-3", "--atol", str(2e-5 * float(want[2].abs().max())))
                assert done.returncode == 0, f"{name}, {place}: {done.stderr}"

    def check_gguf_types(self):
        """Our table against the library's (which counts Q8_1 otherwise than ggml itself: not ours)."""
        table = pathlib.Path(__file__).resolve().parents[2] / "libexport/formats/gguf_type.def"
        rows = {}
        for line in table.read_text().splitlines():
            if line.startswith("EXG_GGUF_TYPE("):
                number, name, elements, size, _ = (w.strip(' "') for w in line[14:].rstrip(")").split(","))
                rows[int(number)] = (name, int(elements), int(size))
        for kind, (elements, size) in gguf.GGML_QUANT_SIZES.items():
            if kind.name != "Q8_1" and rows.get(int(kind)) != (kind.name, elements, size):
                raise AssertionError(f"{kind.name}: {rows.get(int(kind))}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--exg", required=True)
    binary = pathlib.Path(parser.parse_args().exg).resolve()
    passed = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        checks = Checks(binary, folder)
        for name in sorted(n for n in dir(checks) if n.startswith("check_")):
            title = name[6:].replace("_", " ")
            if gguf is None and "gguf" in name:
                print(f"skip {title}: no module gguf")
                continue
            try:
                getattr(checks, name)()
            except Exception as error:  # any surprise is a failed check; the others still run
                failed += 1
                print(f"FAIL {title}: {type(error).__name__} {error}")
            else:
                passed += 1
                print(f"ok   {title}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
