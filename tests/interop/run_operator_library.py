"""Custom operators, which a library in C has (examples/operators/mylib.c), wherever they stand. See README.md beside this file."""

import os
import pathlib
import subprocess
import sys

import safetensors.torch
from run_interop import FIXTURES, Mismatch, fail, pytree, run_cases, torch
from torch._higher_order_ops.auto_functionalize import auto_functionalized as on_copies
from torch._higher_order_ops.map import map as map_of
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop

ROOT = FIXTURES.parent


def define():
    """The operators as make.py beside their fixtures defines them, without what it writes."""
    path = FIXTURES / "operator_library" / "make.py"
    text = path.read_text()
    exec(compile(text[: text.rindex("\nmain()")], str(path), "exec"), {"__file__": str(path), "__name__": "operators"})


define()
L = torch.ops.mylib

# What operator_kinds.c has in C.
KINDS = torch.library.Library("kinds", "DEF")


def kinds(name, schema, fake=None, tags=()):
    def add(function):
        KINDS.define(name + schema, tags=tags)
        KINDS.impl(name, function, "CompositeExplicitAutograd")
        if fake is not None:
            torch.library.register_fake(f"kinds::{name}")(fake)

    return add


@kinds("all", '(Tensor x, Scalar s=2, str mode="sum", *, ScalarType? dtype=None, Device? device=None, SymInt[] a=[1, 2], float[] f=[], '
       "bool flag=False, Tensor[]? more=None) -> (Tensor, Tensor)", lambda x, *a, **k: (torch.empty_like(x), torch.empty_like(x)))
def _(x, s=2, mode="sum", *, dtype=None, device=None, a=(1, 2), f=(), flag=False, more=None):
    others = (mode == "mean") + (dtype == torch.float64) + 10 * (device is not None)
    return x * s + sum(a) + sum(f) + flag, x + (more[0] if more else 0) + others


@kinds("twice.out", "(Tensor x, *, Tensor(a!) out) -> Tensor(a!)")
def _(x, *, out):
    return out.copy_(x * 2)


@kinds("count_", "(Tensor x, Tensor(a!)? more=None) -> Tensor", lambda x, more=None: torch.empty_like(x))
def _(x, more=None):
    if more is not None:
        more.add_(x)
    return x + 1


@kinds("swap", "(Tensor(a!) a, Tensor(b!) b) -> (Tensor, Tensor)", lambda a, b: (torch.empty_like(a), torch.empty_like(b)))
def _(a, b):
    made, kept = (a + b, a - b), a.clone()
    a.copy_(b)
    b.copy_(kept)
    return made


@kinds("double.out", "(Tensor x, *, Tensor(a!) out) -> Tensor(a!)", lambda x, *, out: out, (torch.Tag.out,))
def _(x, *, out):
    return out.copy_(x * 2)


@kinds("quick", "(Tensor x) -> Tensor", torch.empty_like)
def _(x):
    return x * torch.sigmoid(x * 1.702) + 1


@kinds("stats", "(Tensor x, Tensor? scale=None) -> (Tensor, Tensor, Tensor)",
       lambda x, scale=None: (torch.empty_like(x), x.new_empty(x.shape[0]), x.new_empty(x.shape[1])))
def _(x, scale=None):
    y = x * 1 if scale is None else x * scale
    return y, y.sum(1), y.sum(0)


K = torch.ops.kinds


class Called(torch.nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call = call
        self.register_buffer("total", torch.arange(12.0).reshape(3, 4))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        return self.call(self, x)


def write(*calls):
    """What stands last, after the calls before it."""
    return calls[-1]


CASES = {
    "on what is turned": lambda m, x: (L.noted(x.t()).contiguous(), L.soft_threshold(x[:, ::2]), L.noted(x.t()) + 1),
    "viewed as it lies in memory": lambda m, x: (L.noted(x.t()).t().reshape(2, 12), L.swish(x.t()).t().view(2, 12)),
    "in a branch": lambda m, x: torch.cond(x.sum() > 0, lambda x: L.soft_threshold(x, 0.1), lambda x: L.swish(x), (x,)),
    "in a map": lambda m, x: map_of(lambda row: L.soft_threshold(row, 0.2), x),
    "in a loop": lambda m, x: while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, L.soft_threshold(y, 0.2)), (torch.tensor(0), x)),
    "in a scan": lambda m, x: scan(lambda c, row: (c + L.soft_threshold(row, 0.2), c * 2), torch.zeros(4), x),
    "in a vmap": lambda m, x: torch.vmap(lambda row: L.soft_threshold(row, 0.2))(x),
    "of a size that an operator gives": lambda m, x: L.swish(L.positives(L.positives(x) * 2 - 1)).sum(),
    "of none of them": lambda m, x: L.positives(x - 100),
    "watched in a loop": lambda m, x: while_loop(
        lambda i, y: i < 3, lambda i, y: write(L.watch(y, "y"), (i + 1, L.soft_threshold(y, 0.2))), (torch.tensor(0), x)),
    "watched, and written": lambda m, x: write(L.watch(x, "x"), m.total.add_(1), L.watch(m.total, "total"), (x * 2, m.total + 1)),
    "arguments left out": lambda m, x: K.all(x),
    "arguments of every kind": lambda m, x: K.all(
        x, 3, "mean", dtype=torch.float64, device="cpu", a=[x.shape[0], 5], f=[1.5, 2], flag=True, more=[x * 2, x]),
    "numbers that are no sizes": lambda m, x: K.all(x, 2, a=[2**41, -(2**40)] * 10),
    "an empty list": lambda m, x: K.all(x, 0.5, more=[]),
    "writes what may be absent": lambda m, x: (K.count_(x), K.count_(x[:3], m.total), K.count_(x[1:2], more=m.total[:1])),
    "writes two": lambda m, x: (K.swap(m.total[0], x[1]), m.total + 0, K.swap(x[2:4], m.total[1:])),
    "on copies": lambda m, x: on_copies(L.count_and_add.default, x=x, total=m.total[1], seen=m.seen, weight=2),
    "on copies of a list": lambda m, x: on_copies(L.scale_all.default, xs=[x, m.total], factor=3.0),
    "on copies, or on none": lambda m, x: (
        on_copies(K.count_.default, x=x, more=None)[0], on_copies(K.count_.default, x=x[:3], more=m.total), m.total + 0),
    "on copies of two": lambda m, x: on_copies(K.swap.default, a=m.total[0], b=x[1]),
    "writes what is made for it": lambda m, x: (K.double.out(x, out=torch.empty(6, 4)) + 1, write(K.double.out(x[:3], out=m.total), m.total + 1)),
    "made of numbers": lambda m, x: (K.quick(x), K.quick(x.half()).float(), K.quick(x.bfloat16()).float()),
    "several results, split": lambda m, x: (K.stats(x * 2, m.total[0]), K.stats(x)[2], K.stats((x + 1).t(), m.total[0, 2:3])),
    "a list of parts": lambda m, x: L.halves(x, [1, 2, 0, 3]),
    "a list of many parts": lambda m, x: L.halves(torch.cat([x, x, x, x]), [1] * 20 + [0, 3, 1]),
    "writes a list of many": lambda m, x: write(L.scale_all([row[i : i + 2] for row in (*x, *m.total) for i in (0, 2)], 3.0), (x * 2, m.total.sum())),
    "on copies of many": lambda m, x: on_copies(L.scale_all.default, xs=[x + i for i in range(20)], factor=2.0),
    "writes a row": lambda m, x: (L.count_and_add(x, m.total[1], m.seen), m.total.view(2, 6)[1].clone(), m.total.t().sum(), m.seen + 1),
    "writes a column of an input": lambda m, x: write(L.scale_all([x[:, 1], m.total[0]], 3.0), (x * 2, m.total.sum())),
    "writes a view of what was written": lambda m, x: write(
        m.total.add_(1), L.scale_all([m.total[0], m.total[1:, 1:3], x.t()[1]], 2.0), m.total[0].mul_(3), (m.total + 1, x.sum())),
    "writes twice": lambda m, x: (L.count_and_add(x, m.total[0], m.seen, 2), L.count_and_add(x * 2, m.total[0], m.seen)),
}


# What shares elements with what is written: PyTorch's kernel writes through, one of a library has each tensor for itself.
SHARED = {
    "views that overlap, in a list": lambda m, x: write(L.scale_all([x[0:3], x[2:5]], 2.0), x + 0),
    "a tensor twice, in a list": lambda m, x: write(L.scale_all([x, x], 2.0), x + 0),
    "a row and a column": lambda m, x: write(L.scale_all([m.total[1], m.total[:, 1]], 2.0), m.total + 0),
    "what a list has, and what it is a view of": lambda m, x: write(L.scale_all([m.total.t()[1:], m.total], 2.0), m.total + 0),
    "two arguments": lambda m, x: (K.swap(x[0:2], x[1:3]), x + 0),
    "a tensor that is read": lambda m, x: (K.count_(x[0:2], x[1:3]), x + 0),
    "one that is read whole": lambda m, x: (K.count_(x, x), x + 0),
    "what it writes for out=": lambda m, x: (K.twice.out(x[:3], out=x[2:5]) + 1, x + 0),
    "one broadcast": lambda m, x: write(L.scale_all([x[0].expand(3, 4)], 2.0), x + 0),
    "one unfolded": lambda m, x: write(L.scale_all([m.total.view(-1).unfold(0, 4, 3)], 2.0), m.total + 0),
    "bytes of it": lambda m, x: write(L.scale_all([m.total[0], m.total.view(torch.int32)[:, :2].view(torch.float32)], 2.0), m.total + 0),
}

# They do not, though they are views of one tensor.
APART = {
    "every other row": lambda m, x: write(L.scale_all([x[::2], x[1::2]], 2.0), x + 0),
    "every other element": lambda m, x: write(L.scale_all([m.total.view(-1)[::3], m.total.view(-1)[1::3]], 2.0), m.total + 0),
    "above and below the diagonal": lambda m, x: write(L.scale_all([x.diagonal(1), x.diagonal(-1), x.diagonal()], 2.0), x + 0),
    "halves, turned": lambda m, x: (K.swap(x.t()[:2], x.t()[2:]), x + 0),
    "parts as channels lie last": lambda m, x: write(
        y := (x.reshape(1, 2, 3, 4) * 1).contiguous(memory_format=torch.channels_last),
        L.scale_all([*y.permute(0, 2, 3, 1).view(12, 2).split(6)], 2.0), y + 0),
    "windows side by side": lambda m, x: write(L.scale_all([m.total.view(-1).unfold(0, 4, 4), x], 2.0), m.total + 0),
    "nothing of it": lambda m, x: (K.count_(x[3:3], x[3:3]), K.count_(x[2:3], x[3:4]), x + 0),
}


# PyTorch leaves no operator that gives what it was given when it decomposes.
AS_EXPORTED = {
    "gives what it wrote": lambda m, x: (K.twice.out(x[:3], out=m.total) + 1, m.total.sum()),
    "gives the view that it wrote": lambda m, x: (K.twice.out(x[0], out=m.total[1]) + 1, m.total.sum()),
}


def libraries(exg):
    """Both, by their options; --ops is given twice."""
    for source in ("examples/operators/mylib.c", "tests/interop/operator_kinds.c"):
        path = exg.folder / f"lib{pathlib.Path(source).stem}.so"
        if not path.exists():
            words = [os.environ.get("CC", "cc"), "-shared", "-fPIC", "-O2", "-I", ROOT / "libexport/include", "-o", path]
            subprocess.run([*map(str, words), str(ROOT / source)], check=True)
    return ["--ops", exg.folder / "libmylib.so", "--ops", exg.folder / "liboperator_kinds.so"]


def run(exg, file, x, **options):
    """(outputs, buffers); written inputs are outputs, too."""
    given, output, state = (exg.path(".safetensors") for _ in range(3))
    safetensors.torch.save_file({"x": x.clone()}, given)
    words = [word for name, value in options.items() for word in (f"--{name}", value)]
    exg.command("run", file, *libraries(exg), "--input", given, "--output", output, "--state-output", state, *words)
    return safetensors.torch.load_file(output), safetensors.torch.load_file(state)


def check(exg, call, decomposed):
    torch.manual_seed(0)
    x = torch.randn(6, 4)
    program = torch.export.export(Called(call), (x,))
    program = program.run_decompositions() if decomposed else program
    path = exg.path(".pt2")
    torch.export.save(program, path)
    module, given = program.module(), x.clone()
    before = {name: value.clone() for name, value in module.named_buffers()}
    with torch.no_grad():
        leaves = pytree.tree_leaves(module(given), is_leaf=lambda leaf: leaf is None)
    expected = {str(i): value for i, value in enumerate(leaves) if value is not None}
    changed = {name: value for name, value in module.named_buffers() if not torch.equal(value, before[name])}
    exg.command("verify", path, *libraries(exg), "--deny", "NOD-001")
    for file in (path, exg.convert(path, ".exg")):
        for options in ({}, {"mesh": "2", "place": "data"}, {"mesh": "3", "place": "auto"}):
            outputs, state = run(exg, file, x, **options)
            for name, value in (expected | changed).items():
                got = state[name] if name in changed else outputs[name]
                if got.shape != value.shape or not torch.allclose(got, value, rtol=1e-4, atol=1e-5):
                    fail(f"{pathlib.Path(file).suffix} {options} '{name}': {got.flatten()[:4]}, not {value.flatten()[:4]}")


def refuse(exg, call):
    path = exg.path(".pt2")
    torch.export.save(torch.export.export(Called(call), (torch.ones(6, 4),)), path)
    given = exg.path(".safetensors")
    safetensors.torch.save_file({"x": torch.ones(6, 4)}, given)
    try:
        exg.command("run", path, *libraries(exg), "--input", given)
    except Mismatch as refusal:
        if "FUN-004" not in str(refusal):
            raise
    else:
        fail("it runs")


if __name__ == "__main__":
    sys.exit(run_cases(__doc__, ("as exported, ", check, {name: (case, False) for name, case in (CASES | AS_EXPORTED).items()}),
                       ("apart, ", check, {name: (case, False) for name, case in APART.items()}),
                       ("shared, ", refuse, {name: (case,) for name, case in SHARED.items()}),
                       ("decomposed, ", check, {name: (case, True) for name, case in CASES.items()})))
