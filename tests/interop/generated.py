"""Programs that use what fixtures/ does not: control flow, modes, objects, tokens, losses, extra files."""

import torch
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim, export
from torch.export.graph_signature import OutputKind


class Cond(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.cond(x.sum() > 0, lambda x: self.linear(x).sin(), lambda x: x.cos() - self.linear.bias, (x,))


class While(torch.nn.Module):
    def forward(self, x):
        return while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, z * 2), (torch.tensor(0), x))


class Scan(torch.nn.Module):
    def forward(self, x):
        return scan(lambda c, x: (c + x, c * x), torch.zeros(4), x)


class Map(torch.nn.Module):
    def forward(self, xs, y):
        return torch._higher_order_ops.map(lambda x, y: x * y + 1, xs, y)


class Autocast(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x)
        return y.float() + x


class GradMode(torch.nn.Module):
    def forward(self, x):
        with torch.no_grad():
            y = x * 2
        with torch.enable_grad():
            z = y + 1
        return y, z


class Token(torch.nn.Module):
    def forward(self, x):
        torch.ops.aten._print("x seen")
        return x + 1


class Mutations(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("count", torch.zeros(2))
        self.register_buffer("seen", torch.ones(2), persistent=False)

    def forward(self, x, flag=True, nothing=None):
        self.count.add_(1)
        x.mul_(2)
        return {"y": x + self.count, "none": None, "flag": 3}, [x.sum() * self.seen]


class Views(torch.nn.Module):
    """Weights that share storage, lie transposed, begin late."""

    def __init__(self):
        super().__init__()
        base = torch.arange(24.0).view(4, 6)
        self.a = torch.nn.Parameter(base.t())
        self.b = torch.nn.Parameter(base[1:3, 2:5])
        self.c = self.a

    def forward(self, x):
        return x @ self.a + (x[:, :3] * self.b).sum() + self.c.sum()


class Types(torch.nn.Module):
    """A buffer of every dtype a file can hold."""

    def __init__(self):
        super().__init__()
        for dtype in DTYPES:
            value = torch.arange(4, dtype=torch.float32).to(dtype)
            self.register_buffer("b_" + str(dtype).removeprefix("torch."), value)

    def forward(self, x):
        return x + self.b_float64.sum() + self.b_uint8.sum(), self.b_bfloat16.float(), self.b_complex64 * 2


DTYPES = [
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
    torch.complex32, torch.complex64, torch.complex128, torch.bool, torch.bfloat16, torch.uint16, torch.uint32,
    torch.uint64, torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz,
    torch.float8_e8m0fnu,
]  # fmt: skip


class Dynamic(torch.nn.Module):
    def forward(self, x, n: int):
        return x.view(-1, 2) * n, x.shape[0] * 2 + n, x.nonzero()


def docstring():
    """The module of ExportGraphSignature's docstring, functional (S004-45, S004-49)."""

    class CustomModule(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.my_parameter = torch.nn.Parameter(torch.tensor(2.0))
            self.register_buffer("my_buffer1", torch.tensor(3.0))
            self.register_buffer("my_buffer2", torch.tensor(4.0))

        def forward(self, x1, x2):
            output = (x1 + self.my_parameter) * self.my_buffer1 + x2 * self.my_buffer2
            self.my_buffer2.add_(1.0)
            return output

    return export(CustomModule(), (torch.tensor(1.0), torch.tensor(2.0))).run_decompositions({})


def rich():
    """A signature with every kind but tokens and objects (S004-81): kinds are set by hand on a real graph."""

    class Many(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(2))
            self.register_buffer("m", torch.ones(2))
            self.register_buffer("n", torch.ones(2), persistent=False)
            self.k = torch.full((2,), 3.0)

        def forward(self, x, flag=True, none=None):
            self.m.add_(1)
            x.mul_(2)
            y = x * self.w + self.n * self.k + self.m
            return y, None, (y * y).sum(), y * 2, y * 3

    program = export(Many(), (torch.ones(2), True, None)).run_decompositions({})
    outputs = program.graph_signature.output_specs
    kinds = [OutputKind.LOSS_OUTPUT, OutputKind.GRADIENT_TO_PARAMETER, OutputKind.GRADIENT_TO_USER_INPUT]
    for spec, kind, target in zip(outputs[-3:], kinds, [None, "w", "x"]):
        spec.kind, spec.target = kind, target
    # y, None and the loss are what a call gives
    program.module_call_graph[0].signature.out_spec = torch.utils._pytree.tree_structure((0, 0, 0))
    return program


def programs():
    """{name: (what makes the program, options of torch.export.save)}"""
    x = torch.arange(1.0, 9.0).view(2, 4) / 8
    row = {0: 2 * Dim("half", min=1, max=32)}
    return {
        "cond": (lambda: export(Cond(), (x,)), {}),
        "while": (lambda: export(While(), (x,)), {}),
        "scan": (lambda: export(Scan(), (x,)), {}),
        "map": (lambda: export(Map(), (x, x[0].clone())), {}),
        "autocast": (lambda: export(Autocast(), (x,)), {}),
        "grad-mode": (lambda: export(GradMode(), (x,)), {}),
        "token": (lambda: export(Token(), (x,)).run_decompositions({}), {}),
        "mutations": (lambda: export(Mutations(), (torch.ones(2), True, None)), {}),
        "mutations-core": (lambda: export(Mutations(), (torch.ones(2), True, None)).run_decompositions({}), {}),
        "views": (lambda: export(Views(), (torch.ones(2, 6),)), {}),
        "types": (lambda: export(Types(), (torch.ones(1),)), {}),
        "dynamic": (lambda: export(Dynamic(), (torch.ones(4), 3), dynamic_shapes=(row, Dim.DYNAMIC)), {}),
        "strict": (lambda: export(Cond(), (x,), strict=True), {}),
        "docstring": (lambda: docstring(), {}),
        "rich": (lambda: rich(), {}),
        "extra": (lambda: export(GradMode(), (x,)), {"extra_files": {"note.txt": "a note", "deep/file": "\u00e9"}}),
    }
