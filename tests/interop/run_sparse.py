"""Sparse COO tensors: inputs (given dense), tensors made of indices and values, and their products, also with sizes and numbers of
elements that are open. PyTorch saves no other sparse layout, and no sparse weight. See README.md beside this file."""

import subprocess
import sys

from run_interop import Function, fail, run_cases, same, torch
from torch.utils import _pytree as pytree

X = torch.tensor([[0.0, 2, 0], [3, 0, 4.0]])
PLACES, VALUES = torch.tensor([[0, 1, 1, 1], [1, 0, 2, 2]]), torch.tensor([2.0, 3, 4, 5])
Y, B = torch.randn(3, 4, generator=torch.manual_seed(1)), torch.randn(2, 4)
EDGES = torch.tensor([[0, 1, 2, 2, 4], [1, 2, 0, 3, 4]])
AUTO = torch.export.Dim.AUTO
coo, mm = torch.sparse_coo_tensor, torch.sparse.mm


def made(i, v):
    return coo(i, v, (2, 3))


CASES = {
    "input": (lambda x: x.to_dense() * 2, X.to_sparse()),
    "input of a product": (lambda x, y: mm(x, y), X.to_sparse(), Y),
    "input of @": (lambda x, y: x @ y, X.to_sparse(), Y),
    "made": (lambda i, v, y: made(i, v).to_dense() + y, PLACES, VALUES, X),
    "made, in a product": (lambda i, v, y: mm(made(i, v), y), PLACES, VALUES, Y),
    "made, in @": (lambda i, v, y: made(i, v) @ y, PLACES, VALUES, Y),
    "made, in both": (lambda i, v, y: (made(i, v) @ y, made(i, v).to_dense() @ y), PLACES, VALUES, Y),
    "addmm": (lambda i, v, y, b: torch.sparse.addmm(b, made(i, v), y, beta=0.5, alpha=2), PLACES, VALUES, Y, B),
    "coalesce": (lambda i, v, y: (made(i, v).coalesce().to_dense(), made(i, v).coalesce() @ y), PLACES, VALUES, Y),
    "times a number": (lambda i, v: (made(i, v) * 2).to_dense(), PLACES, VALUES),
    "sums": (lambda i, v: (torch.sparse.sum(made(i, v)), torch.sparse.sum(made(i, v), 1).to_dense()), PLACES, VALUES),
    "hybrid": (lambda i, y: coo(i[:1], y, (3, 4)).to_dense(), torch.tensor([[0, 2, 2]]), Y),
    "vector": (lambda i, v: coo(i[1:], v, (3,)).to_dense(), PLACES, VALUES),
    "integers": (lambda i, v: made(i, v.long()).to_dense(), PLACES, VALUES),
    "to_sparse": (lambda x, y: x.to_sparse() @ y, X, Y),
    "there and back": (lambda x: x.to_sparse().to_dense(), X),
    "softmax": (lambda i, v: (torch.sparse.softmax(made(i, v), 1).to_dense(), torch.sparse.log_softmax(made(i, v), 0).to_dense()), PLACES, VALUES),
    "mask": (lambda i, v, x: x.sparse_mask(made(i, v).coalesce()).to_dense(), PLACES, VALUES, X),
    "parts": (lambda i, v: (made(i, v)._indices(), made(i, v)._values() * 2), PLACES, VALUES),
    "how many, as the exporter says": (
        lambda i, v, x: (made(i, v)._nnz() * v, x._nnz() + x.to_dense(), made(i, v).coalesce()._nnz() - v), PLACES, VALUES, X.to_sparse()),
    "of what kind": (
        lambda i, v, x: (v * 2 if made(i, v).is_coalesced() else v, x.sparse_dim() * x.to_dense() + x.dense_dim()), PLACES, VALUES, X.to_sparse()),
    "sums of an input": (lambda x: (x.sum(), torch.sparse.sum(x), x.sum(1).to_dense(), x.any(), x.norm()), X.to_sparse()),
    "element by element": (lambda x: ((-x).relu().to_dense(), (x / 2).abs().sqrt().to_dense(), (x * x + x).to_dense()), X.to_sparse()),
    "other shapes": (lambda x: (x.t().to_dense(), x[0].to_dense(), torch.cat([x, x]).to_dense(), x.unsqueeze(0).to_dense()), X.to_sparse()),
    "product of two": (lambda i, v, y: (mm(made(i, v), made(i, v).t()).to_dense(), mm(mm(made(i, v), y.to_sparse()), y.t())), PLACES, VALUES, Y),
    "of a size alone": (lambda x: (coo(size=(2, 3)).to_dense() + x, coo(size=(2, 3), dtype=torch.int64).to_dense(), coo(size=(3, 3)) @ x.t()), X),
    "empty": (lambda i, v, y: made(i[:, :0], v[:0]) @ y, PLACES, VALUES, Y),
}


# What is not recorded, and what to do.
REFUSED = {
    "indices": (lambda x: x.indices(), "indices() and values()", X.to_sparse()),
    "values of what was coalesced": (lambda i, v: made(i, v).coalesce().values() * 2, "indices() and values()", PLACES, VALUES),
    "parts of an input": (lambda x: (x._indices(), x._values()), "how many elements", X.to_sparse()),
    "mask of an input": (lambda x, y: y.sparse_mask(x).to_dense(), "which elements", X.to_sparse(), X),
    "softmax of an input": (lambda x: torch.sparse.softmax(x, 1).to_dense(), "which elements", X.to_sparse()),
}


def graph_convolution(edges, weights, x):
    return torch.relu(coo(edges, weights, (5, 5)) @ x)


# PyTorch takes no open number of rows in a product by a sparse matrix.
OPEN = {"graph convolution": (graph_convolution, ({1: AUTO}, {0: AUTO}, None), (EDGES, torch.rand(5), torch.rand(5, 3)), (EDGES[:, :3], torch.rand(3), torch.rand(5, 3)))}


def dense(inputs):
    return [one.to_dense() if one.layout == torch.sparse_coo else one for one in inputs]


def compare(exg, path, inputs):
    program = torch.export.load(path)
    names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    results = pytree.tree_leaves(program.module()(*inputs))
    same(exg.run(path, dict(zip(names, dense(inputs), strict=True)))[0], {str(i): one for i, one in enumerate(results)})


def check(exg, function, *inputs):
    path = exg.path(".pt2")
    torch.export.save(torch.export.export(Function(function), inputs), path)
    unread = any(one.layout == torch.sparse_coo for one in inputs)  # as sample inputs, which verify warns of
    exg.command("verify", path, *([] if unread else ["--deny", "warnings"]))
    compare(exg, path, inputs)


def check_refused(exg, function, says, *inputs):
    path = exg.path(".pt2")
    torch.export.save(torch.export.export(Function(function), inputs), path)
    exg.command("verify", path)
    done = subprocess.run([exg.binary, "plan", path], capture_output=True, text=True)
    if done.returncode != 5 or f"OPR-002: {says}" not in done.stderr or "fix: give indices and values as inputs" not in done.stderr:
        fail(f"it ends with {done.returncode}: {done.stderr}")


def check_open(exg, function, shapes, *calls):
    path = exg.path(".pt2")
    torch.export.save(torch.export.export(Function(function), calls[0], dynamic_shapes=(shapes,)), path)
    for inputs in calls:
        compare(exg, path, inputs)


def check_plan(exg):
    """A product by a matrix of a million rows never has the matrix."""
    path, rows = exg.path(".pt2"), 1_000_000
    torch.export.save(torch.export.export(Function(lambda i, v, y: coo(i, v, (rows, rows)) @ y), (PLACES, VALUES, torch.rand(rows, 2))), path)
    exg.command("plan", path, "--memory-limit", "100M")


if __name__ == "__main__":
    sys.exit(run_cases(__doc__, ("", check, CASES), ("open: ", check_open, OPEN), ("refused: ", check_refused, REFUSED), ("", check_plan, {"memory": ()})))
