"""What aliases what: every operator that may give a view or a copy, with each argument and layout that decides, followed by a
write on either side; and operators that speak of memory (as_strided and its kin) on tensors that do not lie row by row.
Outputs and inputs after the call are compared with the module in eager mode. See README.md beside this file."""

import argparse
import sys
import tempfile

from run_interop import Exg, Report, fail, safetensors, torch

F32, CL = torch.float32, torch.channels_last
A = torch.ops.aten
C = torch.contiguous_format

# name: a view or copy of x (float32, of at least rank 2); y is like x. Those of another rank say so in SHAPES.
FORMS = {
    "alias": lambda x, y: A.alias(x),
    "detach": lambda x, y: x.detach(),
    "clone": lambda x, y: x.clone(),
    "lift_fresh": lambda x, y: A.lift_fresh(x),
    "positive": lambda x, y: torch.positive(x),
    "view": lambda x, y: x.view(x.shape),
    "view flat": lambda x, y: x.view(-1),
    "view_as": lambda x, y: x.view_as(x),
    "view dtype": lambda x, y: x.view(torch.int32).view(F32),
    "reshape flat": lambda x, y: x.reshape(-1),
    "reshape same": lambda x, y: x.reshape(x.shape),
    "reshape split": lambda x, y: x.reshape(2, -1, *x.shape[1:]),
    "reshape_as": lambda x, y: x.reshape_as(y),
    "ravel": lambda x, y: x.ravel(),
    "flatten": lambda x, y: x.flatten(),
    "flatten one": lambda x, y: x.flatten(0, 0),
    "flatten two": lambda x, y: x.flatten(-2),
    "unflatten": lambda x, y: x.unflatten(0, (2, -1)),
    "contiguous": lambda x, y: x.contiguous(),
    "t": lambda x, y: x.transpose(0, 1),
    "swapaxes": lambda x, y: x.swapaxes(0, 1),
    "swapdims": lambda x, y: x.swapdims(0, -1),
    "permute": lambda x, y: x.permute(*reversed(range(x.dim()))),
    "movedim": lambda x, y: x.movedim(0, 1),
    "moveaxis": lambda x, y: x.moveaxis(0, 1),
    "mT": lambda x, y: x.mT,
    "mT reshape": lambda x, y: x.mT.reshape(-1),
    "mT contiguous": lambda x, y: x.mT.contiguous(),
    "select": lambda x, y: x[1],
    "select last": lambda x, y: x.select(-1, 0),
    "slice": lambda x, y: x[1:3],
    "slice step": lambda x, y: x[:, ::2],
    "slice all": lambda x, y: x[:],
    "slice reshape": lambda x, y: x[:, ::2].reshape(-1),
    "slice contiguous": lambda x, y: x[1:].contiguous(),
    "narrow": lambda x, y: x.narrow(0, 1, 2),
    "narrow_copy": lambda x, y: x.narrow_copy(0, 1, 2),
    "unsqueeze": lambda x, y: x.unsqueeze(1),
    "squeeze": lambda x, y: x.squeeze(),
    "squeeze dim": lambda x, y: x.squeeze(0),
    "squeeze dims": lambda x, y: x.squeeze((0, 1)),
    "diagonal": lambda x, y: x.diagonal(),
    "diagonal_copy": lambda x, y: torch.diagonal_copy(x),
    "diag_embed": lambda x, y: torch.diag_embed(x),
    "unfold": lambda x, y: x.unfold(0, 2, 2),
    "expand": lambda x, y: x.expand(x.shape),
    "expand_as": lambda x, y: x.expand_as(y),
    "broadcast_to": lambda x, y: x.broadcast_to(x.shape),
    "split": lambda x, y: x.split(2)[1],
    "split sizes": lambda x, y: x.split([1, x.shape[0] - 1])[1],
    "split_with_sizes": lambda x, y: A.split_with_sizes(x, [1, x.shape[0] - 1])[1],
    "split_copy": lambda x, y: A.split_copy(x, 2)[1],
    "chunk": lambda x, y: x.chunk(2)[0],
    "tensor_split": lambda x, y: x.tensor_split(2)[0],
    "tensor_split sections": lambda x, y: x.tensor_split((1,), 1)[1],
    "hsplit": lambda x, y: x.hsplit(2)[0],
    "vsplit": lambda x, y: x.vsplit(2)[1],
    "unbind": lambda x, y: x.unbind()[1],
    "unbind_copy": lambda x, y: A.unbind_copy(x)[1],
    "unsafe_chunk": lambda x, y: torch.unsafe_chunk(x, 2)[0],
    "unsafe_split": lambda x, y: torch.unsafe_split(x, 2)[1],
    "unsafe_split_with_sizes": lambda x, y: torch.unsafe_split_with_sizes(x, [1, x.shape[0] - 1])[1],
    "_unsafe_view": lambda x, y: A._unsafe_view(x, [x.numel()]),
    "atleast_3d": lambda x, y: torch.atleast_3d(x),
    "real": lambda x, y: torch.real(x),
    "conj": lambda x, y: x.conj(),
    "conj_physical": lambda x, y: torch.conj_physical(x),
    "resolve_conj": lambda x, y: x.resolve_conj(),
    "resolve_neg": lambda x, y: x.resolve_neg(),
    "to dtype": lambda x, y: x.to(F32),
    "to dtype copy": lambda x, y: x.to(F32, copy=True),
    "to dtype other": lambda x, y: x.to(torch.float64),
    "to device": lambda x, y: x.to("cpu"),
    "to device copy": lambda x, y: x.to("cpu", copy=True),
    "to device dtype": lambda x, y: x.to("cpu", F32),
    "to device dtype copy": lambda x, y: x.to("cpu", F32, False, True),
    "to other": lambda x, y: x.to(y),
    "to other copy": lambda x, y: x.to(y, False, True),
    "to other copy word": lambda x, y: x.to(y, copy=True),
    "aten.to.other": lambda x, y: A.to.other(x, y, False, True),
    "aten.to.dtype": lambda x, y: A.to.dtype(x, F32, False, True),
    "aten.to.device": lambda x, y: A.to.device(x, "cpu", F32, False, True),
    "aten.to.dtype_layout": lambda x, y: A.to.dtype_layout(x, dtype=F32, copy=True),
    "aten.to.dtype_layout alias": lambda x, y: A.to.dtype_layout(x, dtype=F32),
    "_to_copy": lambda x, y: A._to_copy(x),
    "type_as": lambda x, y: x.type_as(y),
    "float": lambda x, y: x.float(),
    "cpu": lambda x, y: x.cpu(),
    "dropout eval": lambda x, y: torch.nn.functional.dropout(x, 0.5, False),
    "identity": lambda x, y: torch.nn.Identity()(x),
    "meshgrid": lambda x, y: torch.meshgrid(x[0], y[0], indexing="ij")[0],
    "as_strided": lambda x, y: x.as_strided((2, 2), (2, 1)),
    "as_strided offset": lambda x, y: x.as_strided((2, 3), (4, 1), 2),
    "as_strided turned": lambda x, y: x.as_strided((4, 3), (1, 4), 1),
    "as_strided_copy": lambda x, y: A.as_strided_copy(x, (2, 2), (2, 1)),
    "as_strided_scatter": lambda x, y: torch.as_strided_scatter(x, y.reshape(-1)[:4].view(2, 2), (2, 2), (2, 1), 1),
    "as_strided of a slice": lambda x, y: x[1:].as_strided((2, 2), (2, 1)),
    "as_strided of a view": lambda x, y: x.mT.as_strided((3, 2), (2, 1), 1),
    "as_strided twice": lambda x, y: x.as_strided((3, 4), (4, 1)).as_strided((2, 2), (4, 1), 1),
    "as_strided of a result": lambda x, y: (x * 2).as_strided((3, 2), (2, 1)),
    "as_strided of a turned copy": lambda x, y: x.mT.contiguous().as_strided((3, 2), (2, 1)),
    "as_strided of a kept layout": lambda x, y: x.mT.clone().as_strided((3, 2), (2, 1)),
    "as_strided of an unbound one": lambda x, y: x.unbind()[1].as_strided((2,), (2,)),
    "as_strided of a part": lambda x, y: x.split(2)[1].as_strided((2, 2), (2, 1)),
    "as_strided of a sum": lambda x, y: (x + y).as_strided((3, 2), (2, 1)),
    "view dtype halves": lambda x, y: x.view(torch.int16),
    "view dtype halves of rows": lambda x, y: x.mT.view(torch.int16),
    "view_as_complex": lambda x, y: torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2)))),
    "view_as_complex of rows": lambda x, y: torch.view_as_real(torch.view_as_complex(x.mT.unflatten(-1, (-1, 2)))),
    "resize": lambda x, y: A.resize(x * 1, [3, 2]),
    "resize_": lambda x, y: (x * 1).resize_(3, 2),
    "resize_ of a clone": lambda x, y: x.clone().resize_(2, 5),
    "resize_as_": lambda x, y: (x * 1).resize_as_(y[1:]),
}  # fmt: skip

FOUR = {
    "contiguous channels_last": lambda x, y: x.contiguous(memory_format=CL),
    "to channels_last": lambda x, y: x.to(memory_format=CL),
    "to dtype channels_last": lambda x, y: x.to(F32, memory_format=CL),
    "clone channels_last": lambda x, y: x.clone(memory_format=CL),
    "reshape of channels_last": lambda x, y: x.contiguous(memory_format=CL).reshape(-1),
    "convolution": lambda x, y: torch.conv2d(x, torch.ones(2, x.shape[1], 1, 1)).reshape(-1),
    "as_strided of a convolution": lambda x, y: torch.conv2d(x, torch.ones(2, x.shape[1], 1, 1)).as_strided((3, 4), (4, 1)),
    "as_strided of channels_last": lambda x, y: x.contiguous(memory_format=CL).as_strided((3, 4), (4, 1), 2),
    "scatter into channels_last": lambda x, y: torch.as_strided_scatter(
        x.contiguous(memory_format=CL), y.reshape(-1)[:4].view(2, 2), (2, 2), (2, 1), 1),
    "view dtype of channels_last": lambda x, y: x.contiguous(memory_format=CL).permute(0, 2, 3, 1).view(torch.int32),
    "halves of channels_last": lambda x, y: x.contiguous(memory_format=CL).permute(0, 2, 3, 1).view(torch.int16),
    "resize_ of channels_last": lambda x, y: (x * 1).resize_(2, 3, 2, 2),
    "pool": lambda x, y: torch.nn.functional.avg_pool2d(x, 1).flatten(1),
}  # fmt: skip

LAYOUTS = {
    "rows": lambda t: t,
    "turned": lambda t: t.mT.contiguous().mT,
    "channels_last": lambda t: t.contiguous(memory_format=CL),
}


def written(form, side):
    class Module(torch.nn.Module):
        def forward(self, x, y):
            z = form(x, y)
            if side == "result":
                z.mul_(2).add_(1)
            else:
                x.mul_(2).add_(1)
            return z * 1, x * 1

    return Module()


def eager(module, x, y):
    """Outputs and x after the call, or None: PyTorch itself refuses it."""
    x = x.clone()
    try:
        return [*module(x, y), x]
    except RuntimeError:
        return None


def check(exg, form, side, shape, layout):
    torch.manual_seed(1)
    x, y = (layout(torch.rand(shape)) for _ in range(2))
    module = written(form, side)
    want = eager(module, x, y)
    if want is None:
        return
    try:
        program = torch.export.export(module, (x.clone(), y))
        told = eager(program.module(), x, y)
    except Exception:  # noqa: BLE001 - whatever stops PyTorch's own export is nothing to compare with
        return
    if told is None or not all(torch.equal(a, b) for a, b in zip(want, told)):
        return  # the exported program is another one already
    path, given, expected = exg.path(".pt2"), exg.path(".safetensors"), exg.path(".safetensors")
    torch.export.save(program, path)
    exg.command("verify", path)
    safetensors.torch.save_file({"x": x.contiguous().clone(), "y": y.contiguous().clone()}, given)
    results = {"0": want[0], "1": want[1]}
    if not torch.equal(want[2], x):
        results["input:x"] = want[2]
    safetensors.torch.save_file({k: v.detach().contiguous().clone() for k, v in results.items()}, expected)
    exg.command("run", path, "--input", given, "--expect", expected)
    check.compared += 1


check.compared = 0


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exg", required=True, help="the exg binary")
    parser.add_argument("--all", action="store_true", help="of every case both sides are written, not one of them in turn")
    options = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="exg-aliases-") as folder:
        exg = Exg(options.exg, folder)
        cases = [(n, f, (4, 4), l) for n, f in FORMS.items() for l in ("rows", "turned")]
        cases += [(n, f, (4, 3, 4, 4), l) for n, f in {**FORMS, **FOUR}.items() for l in LAYOUTS]
        for i, (name, form, shape, layout) in enumerate(cases):
            both = ("result", "x")
            for side in both if options.all else both[(i + i // 2) % 2 :][:1]:
                report.check(f"{name}, rank {len(shape)}, {layout}, {side} written",
                             lambda: check(exg, form, side, shape, LAYOUTS[layout]))  # fmt: skip
    report.check("most are compared", lambda: check.compared > (600 if options.all else 300) or fail(f"{check.compared} are"))
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
