"""What PyTorch's own export tests had that exg refused, or ran otherwise: a row a kind, each in several forms, compared with eager
PyTorch; what is refused with the sentence that says so. Last the examples that torch.export's own documentation is made of. See
README.md beside this file."""

import collections
import dataclasses
import functools
import math
import sys
import zipfile

import run_interop
from rows import Call, Function, Rows, fail, go, not_made, refused, runs, saved, torch
from run_interop import Mismatch, safetensors, same
from torch import nn
from torch.export import Dim, export

ROWS = Rows()
row = ROWS.add
AUTO = Dim.AUTO


def each(exg, cases, *args, modes=(False, True), **options):
    """Every case as both modes of export give it; the outcome of the last."""
    for name, case in cases.items():
        for strict in modes:
            try:
                outcome = runs(exg, case, *args, strict=strict, meshes=(), **options)
            except Exception as error:
                raise Mismatch(f"{name}, strict={strict}: {type(error).__name__} {' '.join(str(error).split())[:300]}") from None
    return outcome


# ---- 1: guards ----------------------------------------------------------------------------------


@dataclasses.dataclass
class Box:
    x: torch.Tensor
    y: torch.Tensor


torch.export.register_dataclass(Box, serialized_type_name="exg_rows.Box")


def by_rest(x):
    return x.sum() if x.shape[0] % 3 != 0 else x.prod()


GUARDED = {  # name: (forward, sizes open, arguments of n rows)
    "plain": (lambda x: by_rest(x), lambda d: (d,), lambda n: Call(torch.rand(n))),
    "*args": (lambda *xs: by_rest(xs[0]) + xs[1].sum(), lambda d: ((d, d),), lambda n: Call(torch.rand(n), torch.rand(n))),
    "keyword": (lambda x, *, y: by_rest(y) + x.sum(), lambda d: {"x": None, "y": d}, lambda n: Call(torch.rand(2), y=torch.rand(n))),
    "dict": (lambda x: by_rest(x["b"]) + x["a"].sum(), lambda d: ({"a": None, "b": d},), lambda n: Call({"a": torch.rand(2), "b": torch.rand(n)})),
    "list": (lambda x: by_rest(x[1][0]), lambda d: ([None, [d]],), lambda n: Call([torch.rand(2), [torch.rand(n)]])),
    "dataclass": (lambda x: by_rest(x.y) + x.x.sum(), lambda d: ([None, d],), lambda n: Call(Box(torch.rand(2), torch.rand(n)))),
    "two of them": (lambda x, y: x.sum() if x.shape[0] > 2 * y.shape[0] - 6 else x.prod(), lambda d: (d, d), lambda n: Call(torch.rand(n), torch.rand(5))),
    "quotient": (lambda x: x.sum() if x.shape[0] / 2 < 3.5 else x.prod(), lambda d: (d,), lambda n: Call(torch.rand(n))),
}


@row("1", "guards of strict exports and of nested inputs are kept")
def _(exg):
    told = None
    for name, (forward, shapes, call) in GUARDED.items():
        for strict in (False, True):
            module, first = Function(forward), call(5)
            program = export(module, first.args, first.kwargs, dynamic_shapes=shapes({0: AUTO}), strict=strict)
            path = saved(exg, program)
            loaded = torch.export.load(path)
            names = [spec.arg.name for spec in loaded.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
            for n in (5, 7, 9, 4, 12):
                given = call(n)
                leaves = torch.utils._pytree.tree_leaves((given.args, given.kwargs))
                try:
                    expected = loaded.module()(*given.args, **given.kwargs)
                except (AssertionError, RuntimeError, ValueError):
                    expected = None
                file = exg.path(".safetensors")
                safetensors.torch.save_file(dict(zip(names, leaves, strict=True)), file)
                try:
                    if expected is None:
                        told = refused(exg, path, "INP-", code=2, more=("--input", file))
                    else:
                        same(exg.run(path, dict(zip(names, leaves)))[0], {"0": expected})
                except Exception as error:
                    fail(f"{name}, strict={strict}, {n} rows, PyTorch {'refuses' if expected is None else 'runs'}: {error}")
    return told


@row("1b", "guards that cannot be read are not passed over")
def _(exg):
    import json

    path = saved(exg, export(Function(by_rest), (torch.rand(5),), dynamic_shapes=({0: AUTO},)))
    for guard in ("mystery(L['x'].size()[0]) == 5", "L['x'].size()[0] ==", "L['x'].dtype == 3"):
        other = exg.path(".pt2")
        with zipfile.ZipFile(path) as source, zipfile.ZipFile(other, "w") as target:
            for name in source.namelist():
                data = source.read(name)
                if name.endswith("model.json"):
                    program = json.loads(data)
                    if not program["guards_code"]:
                        fail("no guards are written")
                    program["guards_code"] = [guard]
                    data = json.dumps(program).encode()
                target.writestr(name, data)
        told = refused(exg, other, "INP-011", "a guard of the program cannot be read")
    return told


# ---- 2, 3: memory and recorded dtypes -----------------------------------------------------------


@row("2", "as_strided of what does not lie row by row")
def _(exg):
    def conv(m, x):
        return torch.as_strided(m.conv(x.to(memory_format=torch.channels_last)), (2, 3), (5, 2), 1)

    each(exg, {
        "turned": lambda x: (torch.as_strided(x.t(), (8, 4), (4, 1)), x.t() * 1),
        "copy": lambda x: torch.as_strided_copy(x.t() * 2, (3, 5), (2, 1), 3),
        "scatter": lambda x: torch.as_strided_scatter(x.t() + 0, torch.ones(4), (4,), (3,), 1),
        "of a part": lambda x: torch.as_strided(x[:, ::2], (4, 2), (8, 2), 1) + 1,
    }, torch.arange(32.0).view(4, 8))
    # an input that is given in another layout than the one exported
    each(exg, {"an input": lambda x: torch.as_strided(x, (8, 4), (4, 1)) * 1}, torch.arange(32.0).view(4, 8), core=False)
    return runs(exg, Function(conv, conv=nn.Conv2d(2, 3, 1)), torch.randn(1, 2, 4, 4), meshes=())


@row("2b", "as_strided of an input that was exported turned")
def _(exg):
    x = torch.arange(32.0).view(4, 8).t()
    program = export(Function(lambda x: torch.as_strided(x, (8, 4), (4, 1)) * 1), (x,))
    path = saved(exg, program)
    same(exg.run(path)[0], {"0": program.module()(x)})


@row("3", "strict exports under autocast: linear, products, norms behind them")
def _(exg):
    def region(forward):
        def inner(m, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                y = m.l(x)
            return forward(m, x, y)

        return inner

    modules = {
        name: Function(region(f), l=nn.Linear(3, 4), n=nn.LayerNorm(4))
        for name, f in {
            "linear": lambda m, x, y: y, "float": lambda m, x, y: y.double().relu(), "norm": lambda m, x, y: m.n(torch.relu(y).float()),
            "both": lambda m, x, y: (y, x @ x.t()), "written": lambda m, x, y: torch.cat([y, y], 1),
        }.items()
    }
    each(exg, {"product": lambda x: matmul_under_autocast(x)}, torch.randn(3, 3))
    for name, module in modules.items():
        for strict in (False, True):
            program = export(module, (torch.randn(2, 3),), strict=strict)
            path = saved(exg, program)
            x = torch.randn(2, 3)
            try:
                expected = torch.export.load(path).module()(x)
            except RuntimeError:  # PyTorch does not run its own program: what was recorded stays
                continue
            leaves = expected if isinstance(expected, tuple) else (expected,)
            try:
                same(exg.run(path, {"x": x})[0], {str(i): leaf.detach() for i, leaf in enumerate(leaves)})
            except Mismatch as error:
                fail(f"{name}, strict={strict}: {error}")


def matmul_under_autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        a = x @ x
        with torch.autocast("cpu", enabled=False):
            b = x.float() @ x.float()
    return a, b


# ---- 4 to 8: numbers ----------------------------------------------------------------------------


@row("4", "operators of tensors between plain numbers")
def _(exg):
    each(exg, {
        "floor": lambda x: x * torch.div(x.shape[0], 2, rounding_mode="floor"), "trunc": lambda x: x * torch.div(7, 2, rounding_mode="trunc"),
        "sums": lambda x: x * torch.add(5, 2) + torch.sub(7, 2) - torch.add(True, 1) + torch.add(1, 2, alpha=3), "products": lambda x: torch.mul(2, 3) * x,
        "quotients": lambda x: (torch.true_divide(5, 2) * x, torch.floor_divide(7, 2) * x, torch.div(5.5, 2, rounding_mode="floor") * x),
        "0-d": lambda x: (torch.remainder(torch.tensor(7), 3) * x, torch.pow(2, torch.tensor(3)) * x, torch.maximum(torch.tensor(1), torch.tensor(2)) + x),
        "a size each": lambda x: torch.div(x.shape[0], 2, rounding_mode="trunc") + x,
    }, torch.rand(5), torch.rand(9), shapes=({0: AUTO},), modes=(False,))
    return each(exg, {"numbers": lambda x: (torch.add(2.5, 1) * x, torch.fmod(torch.tensor(7), 3) + x, torch.bitwise_and(torch.tensor(6), 3) + x)}, torch.rand(5))


@row("5", "bits of sizes")
def _(exg):
    return each(exg, {
        "and": lambda x: x * (x.shape[0] & 3), "or": lambda x: x * (x.shape[0] | 1), "shift": lambda x: x.new_zeros((x.shape[0] + 7) >> 3 << 3),
        "and a sum": lambda x: x + ((x.shape[0] * 2 + 1) & 5) - (x.shape[0] | 8),
    }, torch.rand(5), torch.rand(7), shapes=({0: AUTO},), modes=(False,))


@row("6", "roots of sizes")
def _(exg):
    each(exg, {"root": lambda x: x / math.sqrt(x.shape[0]), "sym_sqrt": lambda x: x * torch.sym_sqrt(x.shape[0])}, torch.rand(5), shapes=({0: AUTO},))
    return each(exg, {"power": lambda x: x * x.shape[0] ** -0.5}, torch.rand(5), torch.rand(9), shapes=({0: AUTO},), modes=(False,))


@row("7", "complex numbers as filling, views that negate, complex results in files")
def _(exg):
    each(exg, {
        "full": lambda x: torch.full((2,), 1j) * x, "several": lambda x: (x + torch.full((2,), 1 - 1j), torch.full_like(x, 2j, dtype=torch.complex64), torch.scalar_tensor(1j, dtype=torch.complex64)),
        "negated": lambda x: torch.view_as_complex(x.repeat(2, 1)).conj().imag + 1, "new": lambda x: x.new_full((2,), 1j, dtype=torch.complex64) * x,
    }, torch.rand(2))
    path, out = saved(exg, export(Function(lambda x: torch.view_as_complex(x) * 2), (torch.rand(3, 2, dtype=torch.float64),))), exg.path(".npz")
    exg.command("run", path, "--output", out)
    import numpy

    if numpy.load(out)["0"].dtype != numpy.complex128:
        fail("complex128 is another in .npz")


@row("8", "float8 of fnuz and e8m0, to and from float32, in products")
def _(exg):
    for dtype in (torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu, torch.float8_e4m3fn, torch.float8_e5m2):
        held = torch.tensor([1.0, 2, 4, 0.5]).to(dtype)
        module = Function(lambda m, x: (x * m.w.to(torch.float32), (x * 4).to(dtype).to(torch.float32), m.w.to(x.dtype) @ x), w=held)
        runs(exg, module, torch.rand(4) + 0.1, meshes=())


# ---- 9 to 11: nodes, control flow, operators ----------------------------------------------------


@row("9", "elements that are read and dropped; programs of TorchScript, converted")
def _(exg):
    from torch._export.converter import TS2EPConverter

    class Lengths(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor):
            a, b = len(x), len(y)
            return torch.ones(min(a, b) + int(min(a * 2.0, b * 2.0)) + max([a, b]) + int(max(a * 2.0, b))) + x.sum()

    class Rank(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor):
            return x * x.dim() + y.sum() + torch.tensor([x.size(0), 1]).sum()

    x, y = torch.rand(10), torch.rand(5)
    for module in (Lengths(), Rank()):
        program = TS2EPConverter(torch.jit.script(module), (x, y)).convert()
        path = saved(exg, program)
        names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
        same(exg.run(path, dict(zip(names, (x, y))))[0], {"0": module(x, y)})
    return each(exg, {"dead": lambda x: (torch.ops.aten._local_scalar_dense(x.sum()), x + 1)[1]}, torch.rand(3), modes=(False,))


def packed_quant(x):
    return torch.ops.higher_order.invoke_quant_packed(lambda x, y: (x * y + y,), x, x + 1)[0]


@row("10", "control flow: loops that keep what they carried, hints, packed calls, predicates of other dtypes, maps of one tensor")
def _(exg):
    from functorch.experimental.control_flow import map as map_of
    from torch._higher_order_ops.hints_wrap import hints_wrapper
    from torch._higher_order_ops.while_loop import while_loop_stack_output_op

    each(exg, {
        "stacked": lambda x: while_loop_stack_output_op(lambda i, y: i < 4, lambda i, y: (i + 1, y * 1.5 - i), (torch.tensor(0), x), ()),
        "hints": lambda x: hints_wrapper(lambda a: torch.relu(a) + 1, (x,), {}, hints={"outer": True}),
        "a float predicate": lambda x: torch.cond(x.sum() - x.sum(), lambda x: x.sin(), lambda x: x.cos(), (x,)),
        "a predicate of one element": lambda x: torch.cond((x.sum() > 0).reshape(1), lambda x: x.sin(), lambda x: x.cos(), (x,)),
        "a map of a tensor": lambda x: map_of(lambda row, y: row * y.sum(), x, x.sum(0)),
        "a map that nests": lambda x: map_of(lambda row, y: [row * y, [row + y, (row - y).sum()]], x, x.sum(0)),
    }, torch.rand(4, 3), modes=(False,), core=False)
    return each(exg, {"quant": packed_quant}, torch.rand(4, 3), modes=(False,))


@row("11", "operators that PyTorch's tests have")
def _(exg):
    q = torch.ops.quantized
    weight, bias = torch.randn(3, 4), torch.randn(3)
    held = {"w": weight, "b": bias, "table": q.embedding_bag_byte_prepack(torch.randn(5, 16))}

    def wrapped(m, x):
        n = torch.tensor
        return torch.ops._quantized.wrapped_quantized_linear(x, n(0.05), n(3), m.w, n(0.02), n(0), m.b, n(0.1), n(2), 3)

    def source(x):
        y = x * 1
        y.set_(x * 2)
        return y + 1

    modules = {
        "embedding_bag_byte_unpack": Function(lambda m, x: q.embedding_bag_byte_unpack(m.table) + x.sum(), **held),
        "linear_dynamic_fp16": Function(lambda m, x: q.linear_dynamic_fp16_unpacked_weight(x, m.w, m.b), **held),
        "wrapped_quantized_linear": Function(wrapped, **held),
        "set_": source, "to_sparse": lambda x: x.to_sparse().to_dense() * 2, "quantile": lambda x: x.expand(2, 3, 2, 2, 4).contiguous().quantile(0.3, 2) if x.shape[0] == 2 else x,
        "nanquantile": lambda x: x.expand(2, 1, 2, 2, 4).contiguous().nanquantile(torch.tensor([0.2, 0.7]), 4),
    }
    return each(exg, modules, torch.randn(2, 4), modes=(False,), core=False)


@row("11b", "results that are tensor subclasses, decomposed")
def _(exg):
    from torch.testing._internal.two_tensor import TwoTensor

    x = torch.randn(3)
    path = saved(exg, export(Function(lambda x: TwoTensor(x, x + 1) * 2), (x,)).run_decompositions())
    try:
        torch.export.load(path).module()(x)
    except ValueError:
        return refused(exg, path, "MCG-003", "give the tensors inside of it", code=4)
    return fail("PyTorch calls it by now")


@row("11c", "nested tensors, and other sparse layouts")
def _(exg):
    return not_made(lambda: saved(exg, export(Function(lambda x: torch.nested.nested_tensor([x, x[:2]]).to_padded_tensor(0.0)), (torch.randn(3, 2),))))


# ---- 12 to 14: files and comparisons ------------------------------------------------------------


@row("12", "sample inputs that are no pickle")
def _(exg):
    path, other = saved(exg, export(Function(lambda x: x + 1), (torch.rand(3),))), exg.path(".pt2")
    with zipfile.ZipFile(path) as source, zipfile.ZipFile(other, "w") as target:
        for name in source.namelist():
            target.writestr(name, b"nothing" if "sample_inputs" in name else source.read(name))
    return "is told of", refused(exg, other, "ARC-020", "is no file of torch.save", code=0, command="verify")[1]


@row("13", "sums of many terms are as expected")
def _(exg):
    module, x = Function(lambda x, y: (x @ y, (x * 100).sum(0), x.cumsum(1))), (torch.randn(64, 4096), torch.randn(4096, 64))
    program = export(module, x)
    path, given, want = saved(exg, program), exg.path(".safetensors"), exg.path(".safetensors")
    safetensors.torch.save_file({"x": x[0], "y": x[1]}, given)
    safetensors.torch.save_file({str(i): t.contiguous() for i, t in enumerate(module(*x))}, want)
    exg.command("run", path, "--input", given, "--expect", want)


@row("14", "programs whose weights have no elements, compared")
def _(exg):
    from torch._subclasses.fake_tensor import FakeTensorMode

    def made(width):
        with FakeTensorMode():
            return saved(exg, export(nn.Linear(3, width), (torch.empty(2, 3),)))

    a, b = made(4), made(4)
    exg.command("diff", a, b)
    return refused(exg, a, "DIF-001: 4 differences", code=1, command="diff", more=(made(5),))


Pair = collections.namedtuple("Pair", "x y")


@row("15", "sample inputs that hold objects of Python")
def _(exg):
    torch.utils._pytree._register_namedtuple(Pair, serialized_type_name="exg_rows.Pair")
    path = saved(exg, export(Function(lambda pair: pair.x + pair.y), (Pair(torch.rand(3), torch.rand(3)),)))
    refused(exg, path, "INP-002", "--input FILE.safetensors", code=2)
    return "is told of", refused(exg, path, "ARC-020", "objects that only PyTorch reads", code=0, command="verify")[1]


# ---- the examples of the documentation ----------------------------------------------------------


def documented():
    from torch._export.db.examples import all_examples

    return all_examples()


def show_example(example, exg):
    args, kwargs = example.example_args, example.example_kwargs or {}
    try:
        program = export(example.model, args, kwargs, dynamic_shapes=example.dynamic_shapes, strict=False)
        path = saved(exg, program)
        loaded = torch.export.load(path)
    except Exception as error:
        return "is not made by PyTorch", f"{type(error).__name__}: {' '.join(str(error).split())[:120]}"
    calls = [Call(*args, **kwargs)] + ([Call(*example.extra_args)] if example.extra_args else [])
    return runs(exg, loaded, *calls, core=False, meshes=("auto",))


for name, example in sorted(documented().items()):
    ROWS[f"db {name}"] = ("torch._export.db", functools.partial(show_example, example))


if __name__ == "__main__":
    run_interop.DEADLINE = 120
    sys.exit(go(__doc__, ROWS))
