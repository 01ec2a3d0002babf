"""What nodes give, recorded in PyTorch by docs/record_nodes.py, against `exg run --expect`. See README.md beside this file."""

import json
import pathlib
import runpy
import subprocess
import sys

import safetensors.torch
import torch
from torch._higher_order_ops.hints_wrap import hints_wrapper
from torch._higher_order_ops.while_loop import while_loop_stack_output_op as while_loop_stack_output
from run_interop import Mismatch, fail, run_cases

ROOT = pathlib.Path(__file__).resolve().parents[2]
PLACES = ((), ("--mesh", "2", "--place", "data"), ("--device", "strict"))


def record(exg, program):
    path = exg.path(".safetensors")
    sys.argv = ["record_nodes.py", str(program), str(path)]
    runpy.run_path(str(ROOT / "docs/record_nodes.py"))
    return path


def as_recorded(exg, program, nodes, rtol=1e-3, atol=1e-4):
    """Each node by name, on one core, on a mesh, on the strict device; and a wrong value is found where it begins."""
    path = record(exg, program)
    values = safetensors.torch.load_file(path)
    if len(values) < nodes:
        fail(f"{len(values)} nodes are recorded, {nodes} were expected")
    tolerance = ("--rtol", rtol, "--atol", atol)
    for place in PLACES:
        exg.command("run", program, "--expect", path, *tolerance, *place)
    dump = exg.path(".safetensors")
    exg.command("run", program, "--dump", dump)
    dumped = safetensors.torch.load_file(dump)
    if set(dumped) != set(values):
        fail(f"other nodes: {sorted(set(dumped) ^ set(values))[:5]}")
    for name, value in values.items():
        if value.dtype != dumped[name].dtype or value.shape != dumped[name].shape:
            fail(f"{name} is {dumped[name].dtype} {tuple(dumped[name].shape)}")
    wrong = [name for name, value in values.items() if value.is_floating_point() and value.numel() > 0][nodes // 2]
    values[wrong].view(-1)[0] += 100
    safetensors.torch.save_file(values, path)
    try:
        exg.command("run", program, "--expect", path, *tolerance)
    except Mismatch as error:
        if f'"{wrong}"' not in str(error):
            fail(f"{wrong} is wrong, and exg says {error}")
    else:
        fail(f"{wrong} is wrong, and nothing is said")


class Writer(torch.nn.Module):
    """What is written later is recorded as it was."""

    def forward(self, x):
        first = x * 2
        second = first.view(-1)
        kept = first + 1
        second.add_(100)
        first[0].zero_()
        return kept + first


class Modes(torch.nn.Module):
    """Graphs that run where they stand."""

    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = self.a(x)
        with torch.no_grad():
            z = (y * 2).sin()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            w = self.a(z)
        return w + y


@torch.compiler.nested_compile_region
def region(x):
    return x.sin() * 2


class Regions(torch.nn.Module):
    """One graph that is called twice, and a branch in a loop."""

    def forward(self, x):
        def body(i, y):
            return i + 1, torch.cond(y.sum() > 0, lambda y: y - 1, lambda y: y * 2, (y,))

        _, y = torch.ops.higher_order.while_loop(lambda i, y: i < 4, body, (torch.tensor(0), x), ())
        return region(y) + region(y + 1)


class Hinted(torch.nn.Module):
    """A graph with hints, and a loop that keeps what its turns give."""

    def forward(self, x):
        _, layers = while_loop_stack_output(lambda i, y: i < 3, lambda i, y: (i + 1, y.sin() * 2), (torch.tensor(0), x), ())
        return layers + hints_wrapper(lambda y: (y.cos() + 1) * 2, (x,), {}, hints={"a": 1})


class Examples(torch.nn.Module):
    """torch.vmap in itself, in a mode, with a branch in it; a write to an example after it was read."""

    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(4, 4)

    def forward(self, x):
        def write(y):
            z = y * 2
            y.add_(1)
            return z.chunk(2)[1] + y[:2], torch.ones(2)

        own = x + 1
        written, same = torch.vmap(write, in_dims=1)(own.t())
        pairs = torch.vmap(lambda a: torch.vmap(lambda b: torch.dot(a, b) * 2)(x) + a.sum())(x)
        with torch.no_grad():
            plain = torch.vmap(lambda y: self.a(y).sin() * 2)(own)
        return written + same, pairs, plain


def nested(exg, function):
    """Calls of torch.vmap in calls that they need not, or do not, read: outputs as PyTorch has them."""
    program, inputs, expected = exg.path(".pt2"), exg.path(".safetensors"), exg.path(".safetensors")
    x = torch.randn(3, 4)

    class Nested(torch.nn.Module):
        def forward(self, x):
            return function(x)

    torch.export.save(torch.export.export(Nested(), (x,), strict=True), program)
    safetensors.torch.save_file({"x": x}, inputs)
    safetensors.torch.save_file({"0": function(x).contiguous()}, expected)
    exg.command("verify", program)
    for options in ((), ("--mesh", "2", "--place", "data")):
        exg.command("run", program, "--input", inputs, "--expect", expected, *options)
    return program


def mask(x):
    """As transformers makes masks: the second level has an example that nothing reads."""
    at, counts = torch.arange(4), torch.tensor([0, 2])
    rule = lambda b, h, q, k: (k <= q) & (k >= counts[b])
    for dims in ((None, None, None, 0), (None, None, 0, None), (None, 0, None, None), (0, None, None, None)):
        rule = torch.vmap(rule, in_dims=dims)
    return x.new_ones(2, 5, 4, 4) * rule(torch.arange(2), torch.arange(5), at, at)


NESTED = {
    "a mask": (mask,),
    "the inner alone": (lambda x: torch.vmap(lambda a: torch.vmap(lambda b: b.sin() * 2)(x))(x),),
    "the inner first": (lambda x: torch.vmap(lambda a: torch.vmap(lambda b: b.sin() * 2)(x).sum(0) * a)(x),),
    "three, the middle one alone": (lambda x: torch.vmap(lambda a: torch.vmap(lambda b: torch.vmap(lambda c: c * 2)(x) + a)(x))(x),),
}


def batched(exg, function, loops):
    """Maps with one example at a time and those whose nodes run once: the same outputs, and what is left to plan is told."""
    told = subprocess.run([exg.binary, "plan", nested(exg, function), "--summary"], capture_output=True, text=True, check=True).stdout
    if ("not whole" in told) != loops:
        fail(f"a loop is {'not ' * loops}planned apart: {told}")


def mapped(body, *rest):
    return lambda x: torch._higher_order_ops.map(body, x, *rest)


def written(x, body):
    """What is written to the result of a call is written to what it is a view of."""
    y = torch.vmap(body)(x)
    y.add_(1)
    return y + x


BATCHED = {  # (function, does a loop stay?)
    "a mask": (mask, False),
    "dims elsewhere": (lambda x: torch.vmap(lambda a, b: a * 2 + b, in_dims=(1, None), out_dims=1)(x, x[:, 0]), False),
    "fewer dims than another": (lambda x: torch.vmap(lambda a: torch.vmap(lambda b: a * b + 1)(x.sum(0)))(x), False),
    "numbers of two dtypes": (lambda x: torch.vmap(lambda n: n * 0.5 + n)(torch.arange(3)) + x[:, 0], False),
    "dtypes and dims": (lambda x: torch.vmap(lambda a, n: a.half() + n, in_dims=(0, 0))(x, torch.arange(3.0, dtype=torch.float64)).float(), True),
    "what is looked up": (lambda x: torch.vmap(lambda i: torch.vmap(lambda j: x[i, j] * x[j])(torch.tensor([2, 0])))(torch.tensor([1, -1])), False),
    "an example looked into": (lambda x: torch.vmap(lambda a: a[torch.tensor([3, 0])])(x), True),
    "an example itself": (lambda x: written(x + 0, lambda a: a.detach()), False),
    "a view of an example": (lambda x: written(x + 0, lambda a: a.unsqueeze(0)), False),
    "what is the same for all": (lambda x: torch.vmap(lambda a: (a * 2, torch.ones(2)))(x)[1] + x[:, :2], False),
    "views": (lambda x: torch.vmap(lambda a: torch.vmap(lambda b: b.unsqueeze(-1).expand(2, -1, 3).transpose(0, -1) * a.unsqueeze(0)[0, 0])(x))(x), True),
    "views alone": (lambda x: torch.vmap(lambda a: torch.vmap(lambda b: b.unsqueeze(-1).expand(2, -1, 3).transpose(0, -1) + 1)(x) + a.unsqueeze(-1))(x), False),
    "a sum": (lambda x: torch.vmap(lambda a: a.sum() * 2)(x), True),
    "random numbers": (lambda x: torch.vmap(lambda a: (a + torch.rand(4)).floor() - a.floor() < 2, randomness="different")(x), True),
    "a map": (mapped(lambda a, n: a.sin() * n + 1, torch.ones(4)), False),
    "none": (lambda x: torch.vmap(lambda a: a.exp())(x[:0]).sum() + x, False),
}


class Forked(torch.nn.Module):
    """A branch inside of torch.vmap."""

    def forward(self, x):
        return torch.vmap(lambda y: torch.cond(y.sum() > 0, lambda z: z.sin() * 2, lambda z: z.cos(), (y,)) + 1)(x)


def forks(exg):
    """Nodes of a branch inside of torch.vmap give each example that takes it, in their order."""
    program, dump = exg.path(".pt2"), exg.path(".safetensors")
    x = torch.tensor([[1.0, 2], [-1, -2], [3, 0]])
    torch.export.save(torch.export.export(Forked(), (x,), strict=True), program)
    exg.command("run", program, "--expect", record(exg, program))
    exg.command("run", program, "--dump", dump)
    dumped = safetensors.torch.load_file(dump)
    found = {name.split("/", 1)[1]: value for name, value in dumped.items() if "/" in name}
    expected = {"true_graph_0/sin@0": x[0].sin(), "true_graph_0/mul@0": x[0].sin() * 2, "true_graph_0/sin@1": x[2].sin(),
                "true_graph_0/mul@1": x[2].sin() * 2, "false_graph_0/cos@0": x[1].cos()}  # fmt: skip
    if set(found) != set(expected) or any(not torch.allclose(found[name], value) for name, value in expected.items()):
        fail(f"{found}")


def inner(exg, model, strict):
    program = exg.path(".pt2")
    torch.manual_seed(0)
    torch.export.save(torch.export.export(model(), (torch.randn(3, 4),), strict=strict), program)
    as_recorded(exg, program, 7, 2e-2, 1e-2)


def writes(exg):
    program = exg.path(".pt2")
    torch.export.save(torch.export.export(Writer(), (torch.ones(2, 3),)), program)
    as_recorded(exg, program, 4)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.GELU()) for _ in range(4))

    def forward(self, x):
        for block in self.blocks:
            x = x + block(x)
        return x


def compares(exg):
    """Of two programs that differ in a weight the first node is found; its operand was equal."""
    torch.manual_seed(0)
    model, paths = Model(), [exg.path(".pt2"), exg.path(".pt2")]
    torch.export.save(torch.export.export(model, (torch.randn(3, 8),)), paths[0])
    exg.command("compare", paths[0], paths[0], "--with", "mesh=2")
    with torch.no_grad():
        model.blocks[2][0].weight[0, 0] += 1
    torch.export.save(torch.export.export(model, (torch.randn(3, 8),)), paths[1])
    for other in (paths[1], record(exg, paths[1])):
        more = ("--input", inputs_of(exg, paths[1])) if other != paths[1] else ()
        done = subprocess.run([exg.binary, "compare", paths[0], other, "--json", *more], capture_output=True, text=True)
        found = json.loads(done.stdout)
        if done.returncode != 1 or found["first"]["module"] != "blocks.2.0" or found["first"]["name"] != "linear_2":
            fail(f"{done.returncode}: {found.get('first')}")
        if found["first"]["operands"][0]["beyond_tolerance"] != 0 or not found["first"]["operands"][0]["compared"]:
            fail(f"its operand: {found['first']['operands']}")


class Precise(Model):
    """With a dtype that is said, a result that is float32 in any case, a norm, and a mask of the least number."""

    def __init__(self):
        super().__init__()
        self.norm = torch.nn.LayerNorm(8)

    def forward(self, x):
        y = self.norm(super().forward(x)) + torch.arange(8, dtype=x.dtype)
        return y, y.softmax(-1), torch.zeros(3, 1, dtype=x.dtype) + y.sum(-1, keepdim=True), (y > 0).sum() / 2, y.tril().softmax(-1).masked_fill(y > 1, max(torch.finfo(d).min for d in (x.dtype, torch.float32)))


def precise(exg, name):
    """--precision against PyTorch's module in that dtype."""
    torch.manual_seed(0)
    model, x, dtype = Precise(), torch.randn(3, 8), {"bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64}[name]
    program, expected, inputs = exg.path(".pt2"), exg.path(".safetensors"), exg.path(".safetensors")
    torch.export.save(torch.export.export(model, (x,)), program)
    outputs = model.to(dtype)(x.to(dtype))
    safetensors.torch.save_file({"x": x}, inputs)
    safetensors.torch.save_file({str(i): y.contiguous() for i, y in enumerate(outputs)}, expected)
    exg.command("run", program, "--precision", name, "--input", inputs, "--expect", expected, "--atol", 0 if name == "f64" else 3e-2,
                "--rtol", 1e-12 if name == "f64" else 1.6e-2)  # fmt: skip
    written = exg.path(".safetensors")
    exg.command("run", program, "--precision", name, "--input", inputs, "--output", written)
    for key, y in safetensors.torch.load_file(written).items():
        if y.dtype != outputs[int(key)].dtype:
            fail(f"output {key} is {y.dtype}, of PyTorch {outputs[int(key)].dtype}")


def reduces(exg, name, fault, left):
    """What is left of a program that makes a command fail is a program of PyTorch."""
    small = exg.path(".pt2")
    command = f"! {exg.binary} run {{}} --fill zeros 2>&1 | grep -q {fault}"
    exg.command("reduce", ROOT / f"fixtures/{name}.pt2", small, "--", "sh", "-c", command)
    program = torch.export.load(small)
    nodes = [node for node in program.graph.nodes if node.op == "call_function"]
    if len(nodes) != left:
        fail(f"{len(nodes)} nodes are left: {nodes}")
    program.module()


def inputs_of(exg, program):
    path = exg.path(".safetensors")
    safetensors.torch.save_file({"x": torch.export.load(program).example_inputs[0][0]}, path)
    return path


PROGRAMS = {
    name: (ROOT / f"fixtures/{name}.pt2", *rest)
    for name, *rest in (
        ("mlp", 3), ("convbn", 5), ("inplace", 12), ("lm.core.static", 150), ("lm.train-ir.static", 80),
        ("branch", 14), ("branch.core", 14), ("loops", 60), ("loops.core", 80),
        ("norms", 4, 2e-2, 1e-2), ("bf16", 4, 2e-2, 1e-2))  # of bf16
}  # fmt: skip


def reduces_within(exg, name, word, left):
    """Of the graphs of branches and loops no more is left than the command needs; PyTorch takes the program."""
    small = exg.path(".pt2")
    command = f"! {exg.binary} inspect {{}} --graph | grep -q {word}"
    exg.command("reduce", ROOT / f"fixtures/{name}.pt2", small, "--", "sh", "-c", command)
    program = torch.export.load(small)
    program.module()
    within = [node.target for module in program.graph_module.children() for node in module.graph.nodes if node.op == "call_function" and "getitem" not in str(node.target)]
    if sum("full" not in str(target) for target in within) != left or not any(word in str(target) for target in within):
        fail(f"nodes in graphs within are {within}")


if __name__ == "__main__":
    sys.exit(run_cases(__doc__, ("nodes: ", as_recorded, PROGRAMS), ("nodes: ", writes, {"what is written later": ()}), ("nodes: ", inner, {"modes": (Modes, False), "regions": (Regions, True), "hints": (Hinted, True), "examples": (Examples, False)}), ("nodes: ", forks, {"a branch in vmap": ()}), ("nested: ", nested, NESTED), ("batched: ", batched, BATCHED), ("precision: ", precise, {name: (name,) for name in ("bf16", "f16", "f64")}), ("nodes: ", compares, {"two programs": ()}),
                       ("nodes: reduced ", reduces, {"division": ("integer", "RUN-001", 1), "decomposed": ("integer.core", "RUN-001", 1)}),
                       ("nodes: reduced within ", reduces_within, {"a branch": ("branch", "aten.sin", 1), "a loop": ("loops", "aten.tanh", 2)})))
