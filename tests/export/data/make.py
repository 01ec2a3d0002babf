"""Makes the archives and texts beside it, with the PyTorch that is their reference.

    python tests/export/data/make.py          (from the source root; torch 2.13)

control.pt2     cond, while_loop and scan: subgraphs
symbols.pt2     symbolic and unbacked sizes, symbol arithmetic, every sort of user input
kinds.pt2       argument kinds that models rarely use, through custom operators
protocol4.pt2   example inputs pickled with protocol 4
*.txt           print(exported_program) of these and of some of fixtures/
"""
import os
import sys

import torch
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim, export, load, save

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", "..", "..")) + "/"
PACKAGES = os.path.dirname(os.path.dirname(os.path.abspath(torch.__file__))) + "/"


class Control(torch.nn.Module):
    def forward(self, x):
        with torch.no_grad():
            y = torch.cond(x.sum() > 0, lambda x: x.sin() + 1, lambda x: x.cos(), (x,))
        n, z = while_loop(lambda i, z: i < 3, lambda i, z: (i + 1, z * 2), (torch.tensor(0), y))
        carry, rows = scan(lambda c, x: (c + x, c * x), torch.zeros(4), x)
        return n, z, carry, rows


class Symbols(torch.nn.Module):
    def forward(self, x, y, n: int = 3, flag=True, scale=1.5, mode="a", nothing=None):
        rows = x.shape[0]
        a, c = x.split([2, 2], 1)
        z = torch.cat([a, c], 1).view(rows * 2, -1)
        top = torch.topk(y, 2)
        k = top.indices[0].item()
        torch._check(k >= 0)
        torch._check(k < 100)
        return {"z": z.to(torch.float16), "top": top.values * scale, "rows": rows * 2 + 1,
                "third": (rows * 2) // 3, "half": rows / 2, "n": n, "grown": torch.zeros(k + 1),
                "where": x.nonzero(), "none": None}


torch.library.define(
    "exgtest::kinds",
    "(Tensor[] a, Tensor?[] b, float[] c, str[] d, bool[] e, complex f, Device g, Layout h,"
    " MemoryFormat i, ScalarType j, str k, float l, int[] m) -> (Tensor, Tensor[], Tensor?)")


@torch.library.impl("exgtest::kinds", "CompositeExplicitAutograd")
def kinds(a, b, c, d, e, f, g, h, i, j, k, l, m):
    return a[0].clone(), [t.clone() for t in a], None


@torch.library.register_fake("exgtest::kinds")
def kinds_fake(a, b, c, d, e, f, g, h, i, j, k, l, m):
    return torch.empty_like(a[0]), [torch.empty_like(t) for t in a], None


class Kinds(torch.nn.Module):
    def forward(self, x, y):
        p, q, _ = torch.ops.exgtest.kinds(
            [x, y], [None, x], [0.1, float("inf"), -0.0], ["it's", "\"\n"], [True, False], 1 - 2j,
            torch.device("cpu"), torch.strided, torch.channels_last, torch.bfloat16, "caf\u00e9",
            float("nan"), [1, -(2**63), 2**63 - 1])
        return p, q[1]


def clean(program):
    """Paths become relative; addresses go."""
    for module in program.graph_module.modules():
        for node in getattr(module, "graph", torch.fx.Graph()).nodes:
            trace = node.meta.get("stack_trace")
            if trace:
                node.meta["stack_trace"] = trace.replace(ROOT, "").replace(PACKAGES, "")
            node.meta.pop("from_node", None)
            node.meta.pop("nn_module_stack", None)
    return program


def put(name, program, **options):
    save(clean(program), os.path.join(HERE, name + ".pt2"), **options)
    text(name, os.path.join(HERE, name + ".pt2"))


def text(name, path):
    with open(os.path.join(HERE, name + ".txt"), "w", encoding="utf-8") as out:
        out.write(str(load(path)))


def main():
    torch.manual_seed(0)
    put("control", export(Control(), (torch.ones(4, 4),)))
    put("symbols", export(
        Symbols(), (torch.ones(3, 4), torch.arange(5.0), 3, True, 1.5, "a", None),
        dynamic_shapes=({0: Dim("rows", min=2, max=64)}, None, None, None, None, None, None)))
    put("kinds", export(Kinds(), (torch.ones(2), torch.zeros(2))))
    put("protocol4", export(torch.nn.ReLU(), (torch.arange(6.0).view(2, 3).t(),)),
        pickle_protocol=4)
    for name in ("mlp", "views", "constants.core", "mutate.core", "integer", "lm.core.dynamic"):
        text(name, os.path.join(ROOT, "fixtures", name + ".pt2"))


if __name__ == "__main__":
    sys.exit(main())
