"""Autocast: the table of operators against PyTorch's own registrations, and functions under bfloat16 and float16 with
arguments that are wide, narrow and mixed. See README.md beside this file."""

import argparse
import pathlib
import re
import sys
import tempfile

from run_interop import Exg, Report, fail, named_inputs, torch, torch_call

TABLE = pathlib.Path(__file__).resolve().parents[2] / "libexport" / "transform" / "autocast.def"
F = torch.nn.functional
LABELS = torch.tensor([2, 0, 3, 1])

# x (4, 4), y (4, 4), v (4), b (2, 4, 4), i (2, 3, 4, 4)
FUNCTIONS = {
    "einsum": lambda x, y, v, b, i: torch.einsum("ij,jk", x, y),
    "einsum of three": lambda x, y, v, b, i: torch.einsum("bij,bjk,kl->bil", b, b, x),
    "einsum without a product": lambda x, y, v, b, i: (torch.einsum("i,j->ij", v, v), torch.einsum("ij->ji", x)),
    "tensordot": lambda x, y, v, b, i: torch.tensordot(x, y, 1),
    "inner": lambda x, y, v, b, i: torch.inner(x, y),
    "multi_dot": lambda x, y, v, b, i: torch.linalg.multi_dot([x, y, x]),
    "chain_matmul": lambda x, y, v, b, i: torch.chain_matmul(x, y, x),
    "linalg.matmul": lambda x, y, v, b, i: torch.linalg.matmul(x, y),
    "matrix_power": lambda x, y, v, b, i: torch.linalg.matrix_power(x, 3),
    "vecdot": lambda x, y, v, b, i: torch.linalg.vecdot(x, y),
    "products": lambda x, y, v, b, i: (x @ y, torch.mm(x, y), torch.bmm(b, b), torch.baddbmm(b, b, b), torch.addbmm(x, b, b)),
    "linear": lambda x, y, v, b, i: F.linear(x, y, v),
    "prelu": lambda x, y, v, b, i: F.prelu(x, v),
    "conv": lambda x, y, v, b, i: (F.conv2d(i, i[:, :, :3, :3]), F.conv1d(b, b[:, :, :3], padding="same")),
    "conv_transpose": lambda x, y, v, b, i: F.conv_transpose2d(i, i.transpose(0, 1)[:, :, :3, :3]),
    "attention": lambda x, y, v, b, i: F.scaled_dot_product_attention(b, b, b),
    "losses": lambda x, y, v, b, i: (F.mse_loss(x, y), F.l1_loss(x, y), F.smooth_l1_loss(x, y), F.huber_loss(x, y)),
    "cross_entropy": lambda x, y, v, b, i: (F.cross_entropy(x, LABELS), F.nll_loss(F.log_softmax(x, 1), LABELS)),
    "triplet_margin_loss": lambda x, y, v, b, i: F.triplet_margin_loss(x, y, x + y),
    "binary_cross_entropy": lambda x, y, v, b, i: F.binary_cross_entropy_with_logits(x, y.sigmoid()),
    "prod": lambda x, y, v, b, i: (x.prod(), x.prod(1), x.trace()),
    "cdist": lambda x, y, v, b, i: torch.cdist(x, y),
    "grid_sample": lambda x, y, v, b, i: F.grid_sample(i, i[:, :2].permute(0, 2, 3, 1).tanh(), align_corners=False),
    "pads": lambda x, y, v, b, i: (F.pad(i, (1, 1, 1, 1), "reflect"), F.pad(b, (1, 1), "replicate")),
    "cat": lambda x, y, v, b, i: (torch.cat([x, y]), torch.stack([x, y])),
    "einsum of one element": lambda x, y, v, b, i: (torch.einsum("ij,jk->ik", x[:, :1], y[:1]), torch.einsum("...i, ...i -> ...", b, b)),
    "einsum of vectors": lambda x, y, v, b, i: (torch.einsum("i,i->", v, v), torch.einsum("ij,ij->ij", x, y), torch.einsum("ij,k->k", x, v)),
    "inner of vectors": lambda x, y, v, b, i: (torch.inner(v, v), torch.inner(v, v[0]), torch.inner(x, v)),
    "powers": lambda x, y, v, b, i: (torch.linalg.matrix_power(x, 1), torch.matrix_power(x, 2), torch.chain_matmul(x)),
    "cells": lambda x, y, v, b, i: (torch.rnn_tanh_cell(x, y, x, y), torch.rnn_relu_cell(x, y, x, y), torch.gru_cell(x, y, x.repeat(3, 1), y.repeat(3, 1))),
    "a recurrence": lambda x, y, v, b, i: torch.rnn_tanh(b, b[:1] * 0, [x, y, v, v], True, 1, 0.0, False, False, False),
    "as they are": lambda x, y, v, b, i: (x + y, x.softmax(1), F.layer_norm(x, (4,)), x.sum(), torch.mv(x, v), x.cumsum(0)),
    "conversions": lambda x, y, v, b, i: (x.bfloat16(), x.half(), x.float(), x.type_as(y), x.view(torch.int8)),
    "off within": lambda x, y, v, b, i: off(x, x),
}  # fmt: skip


def off(x, y):
    with torch.autocast("cpu", enabled=False):
        z = x @ y
    return z, x @ y


def given(kind, dtype):
    """Arguments all float32, all of autocast's dtype, or mixed."""
    torch.manual_seed(7)
    x, y, v, b, i = (torch.rand(s) / 2 for s in ((4, 4), (4, 4), (4,), (2, 4, 4), (2, 3, 4, 4)))
    if kind == "mixed":
        return x, y.to(dtype), v, b, i
    return tuple(t.to(dtype) for t in (x, y, v, b, i)) if kind == "narrow" else (x, y, v, b, i)


def check(exg, function, kind, dtype, strict):
    class Module(torch.nn.Module):
        def forward(self, *args):
            with torch.autocast("cpu", dtype=dtype):
                return function(*args)

    args = given(kind, dtype)
    try:
        Module()(*args)
        program = torch.export.export(Module(), args, strict=strict)
    except (RuntimeError, ValueError):
        return  # nothing PyTorch runs, or exports: in strict mode its records know of no autocast
    try:
        expected = torch_call(program, args, {})[0]
    except RuntimeError:
        return  # a strict program that PyTorch does not run: it says float32 where bfloat16 is
    path = exg.path(".pt2")
    torch.export.save(program, path)
    exg.command("verify", path)
    got = exg.run(path, named_inputs(program, args, {}))[0]
    for name, want in expected.items():
        if got[name].dtype != want.dtype:
            fail(f"result {name} is {got[name].dtype}, not {want.dtype}")
        try:
            torch.testing.assert_close(got[name], want, rtol=4e-2, atol=4e-2)
        except AssertionError as error:
            fail(f"result {name}: {str(error).splitlines()[0]}")


def check_table():
    rows = dict(reversed(row) for row in re.findall(r'^EXG_AUTOCAST\((\w+), "(.*)"\)', TABLE.read_text(), re.M))
    own = {name for name, rule in rows.items() if rule in ("LOWER", "WIDER", "PROMOTE")}
    names = torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCPU")
    theirs = {n if "." in n else n + ".default" for n in (n.removeprefix("aten::") for n in names)}
    if own != theirs:
        fail(f"no rows: {sorted(theirs - own)}; rows too many: {sorted(own - theirs)}")
    for name, rule in rows.items():
        if name not in own and name in theirs:
            fail(f"{name} is {rule} and has a rule of its own")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exg", required=True, help="the exg binary")
    options = parser.parse_args()
    report = Report()
    report.check("table", check_table)
    with tempfile.TemporaryDirectory(prefix="exg-autocast-") as folder:
        exg = Exg(options.exg, folder)
        for dtype in (torch.bfloat16, torch.float16):
            for kind in ("wide", "narrow", "mixed"):
                for name, function in FUNCTIONS.items():
                    for strict in (False, True) if dtype == torch.bfloat16 else (False,):
                        about = f"{name}, {kind}, {str(dtype)[6:]}{', strict' if strict else ''}"
                        report.check(about, lambda: check(exg, function, kind, dtype, strict))
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
