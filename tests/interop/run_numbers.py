"""Numbers: arithmetic on sizes, tensors made of sizes, tensor operators between plain numbers, complex numbers as filling. Each
program as both modes of export give it, decomposed too, at two sizes. See README.md beside this file."""

import math
import sys

from run_interop import fail, run_cases, torch
from torch._higher_order_ops.hints_wrap import hints_wrapper

FLOAT8 = (torch.float8_e4m3fn, torch.float8_e5m2, torch.float8_e4m3fnuz, torch.float8_e5m2fnuz, torch.float8_e8m0fnu)
AUTO = torch.export.Dim.AUTO
div = torch.div


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def pairs(x):
    return torch.view_as_complex(x.reshape(-1, 1).repeat(1, 2))


SIZES = {
    "bits": lambda x: x * (x.shape[0] & 3) + (x.shape[0] | 1),
    "shifts": lambda x: x.new_zeros((x.shape[0] + 7) >> 3 << 3),
    "shift of a sum": lambda x: x * ((x.shape[0] << 2) + (x.shape[0] - 20 >> 1)),
    "square root": lambda x: x / math.sqrt(x.shape[0]),
    "torch.sym_sqrt": lambda x: x / torch.sym_sqrt(x.shape[0]),
    "whole part": lambda x: x * int(x.shape[0] / 3) + math.trunc(x.shape[0] / 3),
    "signs": lambda x: x * (-x.shape[0]) + (+x.shape[0]),
    "rest": lambda x: x * (x.shape[0] % 4) + x.shape[0] // 4,
    "powers": lambda x: x * (x.shape[0] ** 2) + x.shape[0] ** 0.5,
    "float": lambda x: x * float(x.shape[0]),
    "least and most": lambda x: x * min(x.shape[0], 7) + max(x.shape[0], 8),
    "rank": lambda x: x * x.dim(),
}
TENSORS = {
    "of sizes": lambda x: x * torch.tensor([x.shape[0], 2 * x.shape[0]]).sum(),
    "of a size, a float and a bool": lambda x: x * torch.tensor([x.shape[0], 0.5, True]).sum(),
    "of rows": lambda x: torch.tensor([[x.shape[0], 1], [2, x.shape[0] * 2]]),
    "of a quotient": lambda x: x * torch.tensor((x.shape[0] / 2, 1)).sum(),
    "as_tensor": lambda x: x * torch.as_tensor([x.shape[0], 1]).sum(),
    "of an element": lambda x: torch.tensor([x.argmax().item(), x.shape[0]]),
    "0-d": lambda x: x * torch.scalar_tensor(x.shape[0]) + torch.maximum(torch.tensor(x.shape[0]), torch.tensor(3)),
}
BETWEEN = {
    "floor": lambda x: x * div(x.shape[0], 2, rounding_mode="floor"),
    "trunc": lambda x: x * div(x.shape[0], 2, rounding_mode="trunc") + div(7, 2, rounding_mode="trunc"),
    "quotient": lambda x: x * div(x.shape[0], 2),
    "sum": lambda x: torch.add(x.shape[0], 2) + torch.add(5, 2),
    "product": lambda x: x * torch.mul(x.shape[0], 2.5),
    "difference": lambda x: torch.sub(x.shape[0], 2, alpha=3),
    "floor_divide": lambda x: torch.floor_divide(x.shape[0], 2) * x,
    "bools": lambda x: torch.add(True, x.shape[0]) * x,
}
CHOICES = {
    "a float predicate": lambda x: torch.cond(x.sum() - x.sum().floor(), lambda x: x + 1, lambda x: x - 1, (x,)),
    "an integer predicate": lambda x: torch.cond((x * 0).sum().long(), lambda x: x + 1, lambda x: x - 1, (x,)),
    "a predicate of rank 1": lambda x: torch.cond((x.sum() > 0).reshape(1), lambda x: x + 1, lambda x: x - 1, (x,)),
    "hints": lambda x: hints_wrapper(lambda a, b: torch.relu(a) + b, (x, x * 2), {}, hints={"outer": True}),
}
FILLED = {
    "complex": lambda x: torch.full((2,), 1 - 2j) * x[:2],
    "complex128": lambda x: (torch.full((2,), 1j, dtype=torch.complex128) * x[:2]).to(torch.complex64),
    "like": lambda x: torch.full_like(x, 2j, dtype=torch.complex64) * x,
    "new": lambda x: x.to(torch.complex64).new_full((2,), 2j) * x[:2],
    "bool": lambda x: torch.full((2,), True) & (x[:2] > 0),
    "size": lambda x: torch.full((2,), x.shape[0]) * torch.full((2,), x.shape[0] / 2),
    "negated view": lambda x: pairs(x).conj().imag,
    "negated": lambda x: torch._neg_view(x) * 2,
    "chosen": lambda x: torch.where(x > 0.5, 1j, 2.0) * x,
}


def float8(exg, dtype):
    """Every byte as float32, and float32 around and between them as bytes."""

    class Cast(torch.nn.Module):
        def forward(self, code, x):
            return code.view(dtype).float(), x.to(dtype).view(torch.uint8)

    values = torch.arange(256, dtype=torch.uint8).view(dtype).float()
    near = values[values.isfinite()].sort().values
    between = (near[1:] + near[:-1]) / 2
    x = torch.cat([near, between, between.nextafter(near[1:]), between.nextafter(near[:-1]), near * 1e3, -near * 1.01, torch.randn(2000) * 100])
    x = torch.cat([x, torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0, 1e-45, 3e38])])
    arguments = (torch.arange(256, dtype=torch.uint8), x)
    path = exg.path(".pt2")
    torch.export.save(torch.export.export(Cast(), arguments), path)
    outputs, _ = exg.run(path, dict(zip(("code", "x"), arguments)))
    expected = Cast()(*arguments)
    if not torch.equal(outputs["0"].nan_to_num(7e37), expected[0].nan_to_num(7e37)):
        fail("bytes are other numbers")
    if not torch.equal(outputs["1"], expected[1]):
        wrong = (outputs["1"] != expected[1]).nonzero()[0].item()
        fail(f"{x[wrong]} is {outputs['1'][wrong]} and not {expected[1][wrong]}")


def check(exg, function):
    for strict in (False, True):
        program = torch.export.export(Function(function), (torch.rand(6),), dynamic_shapes=({0: AUTO},), strict=strict)
        for saved in (program,) if strict else (program, program.run_decompositions()):
            path = exg.path(".pt2")
            torch.export.save(saved, path)
            if "NOD-001" in exg.command("verify", path):
                fail("verify does not know an operator")
            runs = 0
            for x in (torch.rand(6), torch.rand(11)):
                try:
                    expected = torch.export.load(path).module()(x)
                except AssertionError:  # a guard: the size went into a number, math.log() say
                    continue
                outputs, _ = exg.run(path, {"x": x})
                runs += 1
                expected = expected.resolve_conj().resolve_neg()
                if outputs["0"].dtype != expected.dtype or not torch.allclose(outputs["0"], expected, rtol=1e-5, atol=0):
                    fail(f"{outputs['0']} and not {expected}")
            if runs == 0:
                fail("PyTorch ran it at no size")


def cases(table):
    return {name: (function,) for name, function in table.items()}


if __name__ == "__main__":
    sys.exit(
        run_cases(
            __doc__,
            ("sizes: ", check, cases(SIZES)),
            ("a tensor ", check, cases(TENSORS)),
            ("between numbers: ", check, cases(BETWEEN)),
            ("filled: ", check, cases(FILLED)),
            ("chosen: ", check, cases(CHOICES)),
            ("", float8, {str(d)[6:]: (d,) for d in FLOAT8}),
        )
    )
