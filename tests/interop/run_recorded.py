"""Recorded dtypes are notes: strict exports under autocast record what is not computed, and their results go into branches, loops,
lists, buffers and sizes. exg computes what PyTorch computes and says so. See README.md beside this file."""

import sys

from functorch.experimental.control_flow import map as map_of
from run_interop import Mismatch, fail, run_cases, torch
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop


class Layer(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function, self.layer = function, torch.nn.Linear(4, 4)
        self.register_buffer("kept", torch.zeros(2, 4))

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.layer(x)
        return self.function(self, x, y)


def into(view, y):
    view.add_(1)
    return y


CASES = {
    "given": lambda m, x, y: y,
    "norm": lambda m, x, y: torch.nn.functional.layer_norm(y, (4,)).relu(),
    "beside float32": lambda m, x, y: (torch.cat([y, x]), torch.where(x > 0, x, y), y + x),
    "converted": lambda m, x, y: y.to(torch.float64),
    "list": lambda m, x, y: torch.stack([y, y]),
    "view": lambda m, x, y: into(y.view(-1)[2:], y),
    "attention": lambda m, x, y: torch.nn.functional.scaled_dot_product_attention(y[None], y[None], y[None]),
    "element": lambda m, x, y: x * y.sum().item(),
    "size from data": lambda m, x, y: y[y > 0] * 2,
    "branch": lambda m, x, y: torch.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, (y,)),
    "branch by it": lambda m, x, y: torch.cond(y.sum() > 0, lambda y: y * 2, lambda y: y - 1, (y,)) + 1,
    "loop": lambda m, x, y: while_loop(lambda y: y.sum() < 100, lambda y: (y.abs() + 1,), (y,)),
    "loop beside": lambda m, x, y: while_loop(lambda z, y: z < 100, lambda z, y: (z + 1.5, y.abs() + 1), (x.sum(), y)),
    "scan": lambda m, x, y: scan(lambda c, v: (c + v, c * v), y[0].clone(), y, dim=0),
    "map": lambda m, x, y: map_of(lambda v: v * 2, y),
    "added to a buffer": lambda m, x, y: m.kept.add_(y) * 2,
    "copied to a buffer": lambda m, x, y: m.kept.copy_(y) + y,
}


def check(exg, function):
    torch.manual_seed(3)
    module, x, ran = Layer(function), torch.rand(2, 4), 0
    for strict in (True, False):
        path = exg.path(".pt2")
        try:
            torch.export.save(torch.export.export(module, (x,), strict=strict), path)
        except torch._dynamo.exc.UserError:
            continue
        try:
            expected = torch.utils._pytree.tree_leaves(torch.export.load(path).module()(x))
        except RuntimeError as error:  # a metadata assertion that does not hold
            try:
                exg.run(path, {"x": x})
            except Mismatch:
                continue
            fail(f"exg runs what PyTorch does not: {error}")
        for options in ({}, {"mesh": "2", "place": "auto"}):
            outputs, _ = exg.run(path, {"x": x}, **options)
            for i, value in enumerate(expected):
                got = outputs[str(i)]
                if got.dtype != value.dtype or not torch.allclose(got.double(), value.double(), rtol=2e-2, atol=2e-2):
                    fail(f"strict={strict} {options}: {got} and not {value}")
        ran += 1
    if ran == 0:
        fail("PyTorch ran none of it")


def scaled(exg, dtype, power):
    class Scaled(torch.nn.Module):
        def forward(self, x, power):
            return torch.ldexp(x, power)

    x = (torch.randn(400) * torch.pow(10.0, torch.randint(-30, 30, (400,)).double())).to(dtype)
    powers = torch.randint(0, 250, (400,)).to(power) - (200 if power != torch.uint8 else 0)
    for arguments in ((x, powers), (x, powers[0]), (x[0], powers)):
        path = exg.path(".pt2")
        program = torch.export.export(Scaled(), arguments)
        torch.export.save(program, path)
        outputs, _ = exg.run(path, dict(zip(("x", "power"), arguments)))
        expected = program.module()(*arguments)
        if outputs["0"].dtype != expected.dtype or not torch.equal(outputs["0"], expected):
            fail(f"{outputs['0']} and not {expected}")


if __name__ == "__main__":
    dtypes = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
    powers = (torch.uint8, torch.int32, torch.int64)
    sys.exit(
        run_cases(
            __doc__,
            ("autocast: ", check, {name: (function,) for name, function in CASES.items()}),
            ("ldexp: ", scaled, {f"{d} by {p}".replace("torch.", ""): (d, p) for d in dtypes for p in powers}),
        )
    )
