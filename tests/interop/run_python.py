"""The package of Python (bindings/python), made of this build and installed into a folder of its own, beside PyTorch: what it gives is what
the module gives, memory is shared where that is said, and what is wrong is an exception with exg's code."""

import argparse
import gc
import importlib
import os
import pathlib
import subprocess
import sys
import tempfile
import threading

import numpy
import torch
from safetensors.torch import load_file, save_file

ROOT = pathlib.Path(__file__).resolve().parents[2]
FIXTURES = ROOT / "fixtures"


class Gated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.up = torch.nn.Linear(6, 8)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x, *, scale):
        self.calls.add_(1)
        return torch.relu(self.up(x)) * scale, x.flip(0), x.shape[0]


def exported(folder):
    torch.manual_seed(3)
    module = Gated().eval()
    program = torch.export.export(module, (torch.randn(3, 6),), {"scale": torch.tensor(2.0)},
                                  dynamic_shapes={"x": {0: torch.export.Dim("rows", max=64)}, "scale": {}})  # fmt: skip
    torch.export.save(program, folder / "gated.pt2")
    return program


def raises(exg, code, function):
    try:
        function()
    except exg.Error as fault:
        assert fault.code == code, (fault.code, code)
        assert fault.message and code in str(fault)
        return fault
    raise AssertionError(f"no fault, {code} was expected")


def runs(exg, folder):
    program = exported(folder)
    module = program.module()
    opened = exg.open(folder / "gated.pt2")
    assert [a.name for a in opened.inputs] == ["x", "scale"] and opened.inputs[0].shape[1] == 6
    assert isinstance(opened.inputs[0].shape[0], str)
    assert opened.verify(data=True) == []
    assert [(f.code, f.where) for f in exg.open(FIXTURES / "bf16.pt2").verify(values=True)] == [("WGT-021", 'weights["2.bias"]')]
    assert [n for n, t in torch.export.load(FIXTURES / "bf16.pt2").state_dict.items() if not t.any()] == ["2.bias"]
    assert str(opened).startswith("ExportedProgram:") and "aten.relu.default" in opened.graph
    assert opened.inspect()["parameters"] == sum(p.numel() for p in program.parameters())
    session = opened.session(threads=1)
    for rows in (3, 7, 1):
        x, scale = torch.randn(rows, 6), torch.tensor(0.5)
        want = module(x, scale=scale)
        got = session(x, scale=scale)
        assert len(got) == 3 and got[2] == rows == want[2]
        torch.testing.assert_close(got[0].torch(), want[0])
        assert torch.equal(got[1].torch(), want[1])
        assert numpy.array_equal(got[1].numpy(), want[1].numpy()) and numpy.array_equal(numpy.asarray(got[1]), want[1].numpy())
    assert session.stats["runs"] == 3
    assert int(session.state["calls"].numpy()) == 3
    session.set_state(calls=torch.tensor(40))
    session(torch.randn(2, 6), scale=torch.tensor(1.0))
    assert int(session.state["calls"].numpy()) == 41
    # what does not lie row by row is copied; arrays that may not be written to, too
    x = torch.randn(6, 5).t()
    torch.testing.assert_close(session(x, scale=torch.tensor(1.0))[0].torch(), module(x, scale=torch.tensor(1.0))[0])
    array = x.numpy()[::-1]
    frozen = array.copy()
    frozen.setflags(write=False)
    for given in (array, frozen, numpy.asfortranarray(frozen), frozen.astype(">f4")):
        want = module(torch.from_numpy(frozen.copy()), scale=torch.tensor(1.0))[0]
        torch.testing.assert_close(session(x=given, scale=numpy.float32(1).reshape(()))[0].torch(), want)
    with torch.no_grad():
        grad = torch.randn(2, 6, requires_grad=True)
    assert session(grad, scale=torch.tensor(1.0))[0].shape == (2, 8)
    # over ranks
    torch.testing.assert_close(opened.session(mesh=2, place="data")(x, scale=torch.tensor(1.0))[0].torch(), module(x, scale=torch.tensor(1.0))[0])
    plan = folder / "placements.json"
    plan.write_text('{"inputs": {"x": "S(0)"}}')
    for place in (plan, str(plan), [plan]):
        placed = opened.session(mesh=2, place=place)
        torch.testing.assert_close(placed(x, scale=torch.tensor(1.0))[0].torch(), module(x, scale=torch.tensor(1.0))[0])
    raises(exg, "INP-004", lambda: session(torch.randn(3, 5), scale=torch.tensor(1.0)))
    raises(exg, "INP-003", lambda: session(torch.randn(3, 6, dtype=torch.float64), scale=torch.tensor(1.0)))
    for wrong in (lambda: session("x"), lambda: session(x, x, x), lambda: session(x, x=x), lambda: session([1.0], scale=2.5)):
        try:
            wrong()
        except TypeError:
            continue
        raise AssertionError("no TypeError")
    for wrong in (dict(place="data"), dict(mesh=2, place="data,tensor"), dict(mesh=(2, 2), place="data"), dict(mesh=2, place="datum")):
        try:
            opened.session(**wrong)
        except ValueError:
            continue
        raise AssertionError(f"no ValueError of {wrong}")


class Nested(torch.nn.Module):
    def forward(self, cache, *more, scale, mode="sum"):
        return cache["layers"][0]["keys"] * scale + cache["layers"][1]["keys"], more[0][1] - more[1]


def paths(exg, folder):
    """Inputs by the arguments of the call, as inspect and the command call them."""
    a, b, c, d = (torch.randn(2, 3) for _ in range(4))
    args, scale = ({"layers": [{"keys": a}, {"keys": b}]}, (torch.zeros(1), c), d), torch.tensor(2.0)
    torch.export.save(torch.export.export(Nested(), args, {"scale": scale, "mode": "mean"}), folder / "nested.pt2")
    opened = exg.open(folder / "nested.pt2")
    want = Nested()(*args, scale=scale)
    session = opened.session(threads=1)
    rest = {"more_0": [torch.zeros(1), c], "more_1": d, "scale": scale}
    flat = {"cache.layers.0.keys": a, "cache.layers.1.keys": b}
    for given in ({"cache": args[0], **rest}, {**flat, **rest}, {"cache": {"layers": {"0.keys": a, 1: {"keys": b}}}, **rest}, {"cache_layers_0_keys": a, "cache.layers.1": {"keys": b}, **rest}):
        for got, wanted in zip(session(**given), want):
            torch.testing.assert_close(got.torch(), wanted)
    session.bind_input("cache.layers.0.keys", a)
    torch.testing.assert_close(session(**{"cache.layers.1.keys": b}, **rest)[0].torch(), want[0])
    said = raises(exg, "INP-001", lambda: session(**flat, **rest, **{"cache.layers.2.keys": b}))
    assert "cache.layers.2.keys" in str(said), said
    said = raises(exg, "INP-002", lambda: opened.session(threads=1)(**flat, scale=scale))
    assert "is not given" in str(said), said


def shares_memory(exg, folder):
    opened = exg.open(folder / "gated.pt2")
    session = opened.session(threads=1)
    (y, flipped, _) = session(torch.randn(4, 6), scale=torch.tensor(1.0))
    tensor, array = torch.from_dlpack(y), y.numpy()
    assert tensor.data_ptr() == y.torch().data_ptr() == array.__array_interface__["data"][0]
    array[0, 0] = 123
    assert tensor[0, 0] == 123
    kept = tensor.clone()
    session(torch.zeros(4, 6), scale=torch.tensor(9.0))  # outputs are the caller's
    del y, array, session, opened
    gc.collect()
    assert torch.equal(tensor, kept)
    capsule = flipped.__dlpack__()  # that nobody takes
    del capsule, flipped
    gc.collect()
    # the program writes its input: it is the caller's memory that is written
    writes = exg.open(FIXTURES / "inplace.pt2")
    assert writes.inputs


def dtypes(exg, folder):
    class Same(torch.nn.Module):
        def forward(self, x):
            return x.clone()

    for dtype in (torch.bfloat16, torch.float16, torch.float64, torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool, torch.complex64):
        x = torch.randint(0, 2, (3, 4)).to(dtype)
        path = folder / "same.pt2"
        torch.export.save(torch.export.export(Same(), (x,)), path)
        (y,) = exg.open(path).session()(x)
        assert y.dtype == str(dtype).removeprefix("torch.") and y.torch().dtype == dtype and torch.equal(y.torch(), x), dtype


def weights(exg, folder):
    tensors = {"a.weight": torch.randn(4, 8), "a.bias": torch.randn(4), "step": torch.tensor(7)}
    save_file(tensors, folder / "w.safetensors", {"made": "by a test"})
    opened = exg.weights.open(folder / "w.safetensors")
    assert set(opened) == set(tensors) and len(opened) == 3 and "b" not in opened and opened.metadata["made"] == "by a test"
    for name, tensor in tensors.items():
        assert torch.equal(opened[name].torch(), tensor) and opened.describe(name).shape == tuple(tensor.shape)
    calls = []
    exg.weights.convert(folder / "w.safetensors", folder / "h.safetensors", dtype={"*.weight": "bf16"}, rename={"^a[.]": "b."},
                        progress=lambda done, total: calls.append((done, total)))  # fmt: skip
    made = load_file(folder / "h.safetensors")
    assert torch.equal(made["b.weight"], tensors["a.weight"].bfloat16()) and torch.equal(made["b.bias"], tensors["a.bias"])
    assert calls and calls[-1][0] == calls[-1][1]
    found = {d.name: d.kind for d in exg.weights.diff(folder / "w.safetensors", folder / "h.safetensors")}
    assert found, found
    assert exg.weights.diff(folder / "w.safetensors", opened) == []
    assert opened.digest() == exg.weights.open(folder / "w.safetensors").digest() and opened.digest().startswith("sha256:")
    torch.save({"model": {"w": torch.ones(2)}, "args": argparse.Namespace(rate=1)}, folder / "c.pt")
    checkpoint = exg.weights.open(folder / "c.pt")
    assert list(checkpoint) == ["model.w"] and checkpoint.skipped[0][1] == "argparse.Namespace"
    raises(exg, "WGT-PATTERN", lambda: opened.edit(rename={"(": "x"}))
    raises(exg, "JSN-001", lambda: broken(exg, folder))
    try:
        opened["none"]
    except KeyError:
        pass
    else:
        raise AssertionError("no KeyError")
    # into a program and back
    program = exg.open(FIXTURES / "mlp.pt2")
    assert program.weights["up.weight"].shape == (16, 8)
    replaced = {name: torch.zeros_like(program.weights[name].torch()) for name in program.weights}
    save_file(replaced, folder / "z.safetensors")
    program.fill(exg.weights.open(folder / "z.safetensors"))
    program.save(folder / "z.pt2")
    assert all(not t.any() for t in torch.export.load(folder / "z.pt2").state_dict.values())
    raises(exg, "WGT-FILL", lambda: program.fill(exg.weights.open(folder / "h.safetensors")))


def broken(exg, folder):
    (folder / "broken.safetensors").write_bytes(b"\x10\0\0\0\0\0\0\0" + b"{" * 16)
    exg.weights.open(folder / "broken.safetensors")


def faults(exg, folder):
    fault = raises(exg, "NOD-017", lambda: exg.open(FIXTURES / "bad/NOD-017.pt2").session())
    assert isinstance(fault, exg.MalformedError) and fault.where and fault.fix and fault.source
    found = exg.open(FIXTURES / "bad/NOD-017.pt2").verify()
    assert [(d.severity, d.code) for d in found] == [("error", "NOD-017")] and found[0].source
    assert isinstance(raises(exg, "IO-OPEN", lambda: exg.open(folder / "none.pt2")), OSError)
    raises(exg, "FMT-FOREIGN", lambda: exg.open(__file__))


def threads(exg, folder):
    opened = exg.open(FIXTURES / "mlp.pt2")
    x = exg.weights.open(FIXTURES / "mlp.inputs.safetensors")["x"]
    want = exg.weights.open(FIXTURES / "mlp.expected.safetensors")["0"].numpy()
    sessions, wrong = [opened.session(threads=1) for _ in range(2)], []

    def work(session):
        for _ in range(200):
            if not numpy.allclose(session(x)[0].numpy(), want, rtol=1e-5):
                wrong.append(session)

    workers = [threading.Thread(target=work, args=(sessions[i % 2],)) for i in range(4)]
    for w in workers:
        w.start()
    for w in workers:
        w.join()
    assert not wrong


class Cache(torch.nn.Module):
    def forward(self, x, cache, rows):
        cache = cache + x
        return cache[rows] * x, cache


class OfDevice:
    """What cupy and torch.cuda say of a tensor on a GPU; of a session on the CPU the host's memory is meant."""

    def __init__(self, array):
        self.array = array
        self.__cuda_array_interface__ = array.__array_interface__


def binds(exg, folder):
    x, rows = torch.randn(1, 5), torch.tensor([2, 0])
    torch.export.save(torch.export.export(Cache(), (x, torch.randn(4, 5), rows)), folder / "cache.pt2")
    session = exg.open(folder / "cache.pt2").session(threads=1)
    for cache in (torch.randn(4, 5), numpy.ones((4, 5), "float32"), OfDevice(numpy.zeros((4, 5), "float32"))):
        values = torch.as_tensor(cache.array if isinstance(cache, OfDevice) else cache)
        result, want = numpy.empty((2, 5), "float32"), values.clone()
        session.bind_input("cache", cache)
        session.bind_input("rows", rows)
        session.bind_output(0, result)
        session.bind_output(1, cache)
        for _ in range(3):
            first, want = Cache()(x, want, rows)
            got = session(x)
            assert got[0] is result and got[1] is cache
            assert torch.equal(torch.from_numpy(result), first) and torch.equal(values, want)
    session.bind_output(0)
    assert isinstance(session(x)[0], exg.Tensor)
    raises(exg, "RUN-014", lambda: session.bind_output(2, result))
    raises(exg, "INP-001", lambda: session.bind_input("catch", result))
    session.bind_output(0, numpy.empty((1, 5), "float32"))
    raises(exg, "RUN-014", lambda: session(x))
    for refused in (numpy.empty((5, 2), "float32").T, numpy.broadcast_to(numpy.float32(1), (2, 5))):
        try:
            session.bind_output(0, refused)
            raise AssertionError("bound to what cannot be written where it lies")
        except TypeError:
            pass


def on_gpu(folder, standins):
    """In a process of its own, whose libcuda is the stand-in's."""
    x, rows = torch.randn(1, 5).bfloat16(), torch.tensor([2, 0])
    torch.export.save(torch.export.export(Cache(), (x, torch.randn(4, 5).bfloat16(), rows)), folder / "cache.bf16.pt2")
    subprocess.run([sys.executable, ROOT / "tests/interop/python_gpu.py", folder / "cache.bf16.pt2"], check=True,
                   env=os.environ | {"PYTHONPATH": str(folder / "site"), "LD_LIBRARY_PATH": str(standins), "XDG_CACHE_HOME": str(folder / "cache"),
                                     "EXG_STANDIN_DEVICES": "2"})  # fmt: skip


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exg", required=True, help="the exg binary")
    options = parser.parse_args()
    build = pathlib.Path(options.exg).resolve().parents[1]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run(["sh", ROOT / "bindings/python/wheel.sh", sys.executable, build, folder], check=True, stdout=subprocess.DEVNULL)
        (wheel,) = folder.glob("exg-*.whl")
        subprocess.run([sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-compile", "--no-index", "--target", folder / "site", wheel],
                       check=True)  # fmt: skip
        sys.path.insert(0, str(folder / "site"))
        exg = importlib.import_module("exg")
        assert pathlib.Path(exg.__file__).is_relative_to(folder)
        for test in (runs, paths, binds, shares_memory, dtypes, weights, faults, threads):
            test(exg, folder)
            print(f"{test.__name__}: right")
        on_gpu(folder, build / "tests/standin")
        said = subprocess.run([sys.executable, "-m", "exg", "inspect", FIXTURES / "mlp.pt2"], capture_output=True, text=True, check=True,
                              env=os.environ | {"PYTHONPATH": str(folder / "site")}).stdout  # fmt: skip
        assert "3 nodes, 212 parameters" in said


if __name__ == "__main__":
    main()
