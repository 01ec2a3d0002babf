"""Programs that call collectives, exported by each rank of gloo, run by PyTorch's ranks and by exg's, and compared. See README.md
beside this file."""

import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import traceback

from run_interop import fail, run_cases, safetensors, torch

import torch.distributed as dist
import torch.distributed._functional_collectives as fc
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.export import Dim, export
from torch.fx.experimental.proxy_tensor import make_fx

ops = torch.ops._c10d_functional


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def numbers(seed, *sizes, dtype=torch.float32, low=-3, high=4):
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(low, high, sizes, generator=generator).to(dtype)


def world():
    return dist.group.WORLD


# Of each case: called on every rank with (rank, size), gives (module, arguments) and more for export_case().
def as_people_call_them(rank, n):
    def calls(x, y):
        return (fc.all_reduce(x, "sum", world()), fc.all_gather_tensor(x, 1, world()), fc.all_gather_tensor(x, 0, world()),
                fc.reduce_scatter_tensor(y, "sum", 0, world()), fc.reduce_scatter_tensor(y, "max", 1, world()),
                fc.all_to_all_single(y, None, None, world()), fc.broadcast(x, n - 1, world()),
                *fc.all_reduce_coalesced([x, y], "min", world()), *fc.all_gather_into_tensor_coalesced([x, y], world()),
                fc.permute_tensor(x[0], [(r + n - 1) % n for r in range(n)], world()) * 2)

    return Calls(calls), (numbers(rank, 2, 3), numbers(rank + 9, 2 * n, 3 * n))


def written_in_place(rank, n):
    def calls(x, y):
        z = x * 2
        dist.all_reduce(z, op=dist.ReduceOp.MAX)
        gathered = x.new_empty(x.shape[0] * n, x.shape[1])
        dist.all_gather_into_tensor(gathered, z)
        less = y.new_empty(y.shape[0] // n, y.shape[1])
        dist.reduce_scatter_tensor(less, y)
        turned = torch.empty_like(y)
        dist.all_to_all_single(turned, y)
        dist.all_reduce(x)  # an input
        return z, gathered, less, turned + x.sum()

    return Calls(calls), (numbers(rank, 2, 3), numbers(rank + 9, 2 * n, 3))


def written_for_it(rank, n):
    """What decomposing makes auto_functionalized_v2 of, which names the collective in it."""

    def calls(x, y):
        gathered, less = x.new_zeros(x.shape[0] * n, 3), x.new_zeros(2, 3)
        ops.all_gather_into_tensor_out(x, n, "0", out=gathered)
        ops.reduce_scatter_tensor_out(y, "sum", n, "0", out=less)
        return ops.wait_tensor(gathered) + 1, ops.wait_tensor(less)

    return Calls(calls), (numbers(rank, 2, 3), numbers(rank + 9, 2 * n, 3))


def with_gradients(rank, n):
    def calls(x, y):
        return (fc.all_gather_tensor_autograd(x, 0, world()), fc.reduce_scatter_tensor_autograd(y, "sum", 0, world()),
                fc.all_to_all_single_autograd(y, [2] * n, [2] * n, world()))

    return Calls(calls), (numbers(rank, 2, 3), numbers(rank + 9, 2 * n, 3))


def of_any_length(rank, n):
    def calls(x):
        y = fc.all_reduce(x * 2, "sum", world())
        return fc.all_gather_tensor(y, 0, world()).sum(1), fc.reduce_scatter_tensor(y.repeat(n, 1), "sum", 0, world())

    rows = Dim("rows", min=2, max=64)
    return Calls(calls), (numbers(rank, 5, 3),), {"dynamic_shapes": {"args": ({0: rows},)}, "others": [(numbers(rank, 9, 3),)]}


def in_branches(rank, n):
    def calls(x, p):
        return torch.cond(p.sum() > 0, lambda x: fc.all_reduce(x, "sum", world()) + 1, lambda x: fc.all_reduce(x, "max", world()) - 1, (x,))

    return Calls(calls), (numbers(rank, 3, 2), torch.ones(2)), {"others": [(numbers(rank, 3, 2), -torch.ones(2))]}


def in_loops(rank, n):
    def calls(x, i):
        def body(x, i):
            return ops.wait_tensor(ops.all_reduce(x, "max", "0")) + 1, i + 1

        return torch._higher_order_ops.while_loop(lambda x, i: (i < 3).all(), body, (x, i))

    return Calls(calls), (numbers(rank, 3, 2), torch.tensor(0))


def of_all_dtypes(rank, n):
    dtypes = [torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.uint8, torch.int32, torch.int64, torch.bool, torch.complex64]

    def calls(*tensors):
        return tuple(fc.all_gather_tensor(t, 0, world()) for t in tensors) + tuple(fc.broadcast(t, 0, world()) for t in tensors if t.dtype != torch.complex64)

    return Calls(calls), tuple(numbers(rank, 2, 3, dtype=d, low=0) for d in dtypes)


def at_random(seed):
    """Collectives one after the other, of what those before gave."""

    def make(rank, n):
        def calls(x):
            draw = random.Random(seed)
            for _ in range(8):
                way = draw.randrange(6)
                if way == 0:
                    x = fc.all_reduce(x, draw.choice(["sum", "max", "min"]), world())
                elif way == 1:
                    x = fc.all_gather_tensor(x[:2], draw.randrange(2), world())
                elif way == 2:
                    x = fc.reduce_scatter_tensor(x.repeat(n, 1), draw.choice(["sum", "min"]), 0, world())
                elif way == 3:
                    x = fc.all_to_all_single(x.repeat(n, 1), None, None, world())
                elif way == 4:
                    x = fc.broadcast(x + dist.get_rank(), draw.randrange(n), world())
                else:
                    x = ops.wait_tensor(ops.all_to_all_single(x.contiguous(), *splits(x.shape[0], draw), "0"))
                x = (x + 1).remainder(17)
            return x

        def splits(rows, draw):
            shift = draw.randrange(n)  # all rows to one other rank
            sent, received = [0] * n, [0] * n
            sent[(rank + shift) % n] = rows
            received[(rank - shift) % n] = rows
            return received, sent

        return Calls(calls), (numbers(rank, 3, 4),)

    return make


def mesh_of(*sizes):
    mesh = init_device_mesh("cpu", sizes)
    return mesh, {mesh.get_group(d).group_name: str(d) for d in range(len(sizes))}


def on_three_dims(rank, n):
    mesh = init_device_mesh("cpu", (2, 1, 2), mesh_dim_names=("a", "b", "c"))
    flat = mesh["a", "c"]._flatten("ac")
    names = {mesh.get_group(d).group_name: str(d) for d in range(3)} | {flat.get_group().group_name: "0,2"}

    def calls(x):
        y = fc.all_gather_tensor(x, 0, mesh.get_group(2))
        z = fc.all_reduce(y, "sum", mesh.get_group(0)) + fc.all_reduce(y, "sum", mesh.get_group(1))
        return z, fc.all_gather_tensor(x, 0, flat.get_group()), fc.reduce_scatter_tensor(x.repeat(4, 1), "sum", 0, flat.get_group())

    return Calls(calls), (numbers(rank, 2, 3),), {"groups": names}


def redistributed(seed):
    def make(rank, n):
        mesh, names = mesh_of(2, 2)
        draw = random.Random(seed)
        whole = [Replicate(), Shard(0), Shard(1), Partial(), Partial("max")]
        ways = []
        while len(ways) < 6:
            a, b = ([draw.choice(whole[:5 if side == 0 else 3]) for _ in range(2)] for side in range(2))
            if len({p.reduce_op for p in a if p.is_partial()}) < 2:
                ways.append((a, b))

        def redistribute(x):
            return tuple(DTensor.from_local(x, mesh, a, run_check=False).redistribute(mesh, b).to_local().clone() for a, b in ways)

        x = numbers(rank, 4, 8)
        return make_fx(redistribute)(x), (x,), {"groups": names}

    return make


def tensor_parallel_by_pytorch(rank, n):
    from torch.distributed.tensor.experimental._tp_transform import tensor_parallel_transformation
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    torch.manual_seed(0)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.up, self.down = nn.Linear(8, 4 * n), nn.Linear(4 * n, 8)

        def forward(self, x):
            return self.down(torch.relu(self.up(x)))

    x = torch.randn(2, 8, generator=torch.Generator().manual_seed(5))
    program = export(Block().eval(), (x,), strict=False).run_decompositions()
    parallel = tensor_parallel_transformation(program, rank, n, "cpu", {"up": ColwiseParallel, "down": RowwiseParallel})
    return parallel, (x,), {"is_program": True}


def experts(rank, n):
    """Rows to the ranks of their experts, and back; how many, the data say, on each rank others."""

    def calls(x, to):
        order = torch.argsort(to, stable=True)
        counts = torch.bincount(to, minlength=n)[:n]
        theirs = ops.wait_tensor(ops.all_to_all_single(counts, [1] * n, [1] * n, "0"))
        sent, received = counts.tolist(), theirs.tolist()
        for size in sent + received:
            torch._check(size >= 0)
        there = ops.wait_tensor(ops.all_to_all_single(x[order], received, sent, "0"))
        return ops.wait_tensor(ops.all_to_all_single(there @ torch.ones(2, 3), sent, received, "0")), received[0]

    to = torch.arange(9) % (rank + 1) % n
    return Calls(calls), (numbers(rank, 9, 2), to)


def in_groups_of_two(rank, n):
    """Which exg takes for all ranks where nobody says along which dims they lie."""
    groups = [dist.new_group([0, 1]), dist.new_group([2, 3])]
    return Calls(lambda x: fc.all_reduce(x, "sum", groups[rank // 2])), (numbers(rank, 2, 3),)


CASES = {
    f"{name}, {n} ranks": (n, str(n), case)
    for n in (3,)
    for name, case in {
        "as people call them": as_people_call_them, "written in place": written_in_place,
        "written for it": written_for_it, "with gradients": with_gradients,
        "of any length": of_any_length, "in branches": in_branches, "in loops": in_loops, "of all dtypes": of_all_dtypes,
        "experts": experts, "tensor parallel by PyTorch": tensor_parallel_by_pytorch,
    }.items()
}
CASES["experts, 2 ranks"] = (2, "2", experts)
CASES["at random 0"] = (3, "3", at_random(0))
CASES["redistributed 0"] = (4, "2x2", redistributed(0))
CASES["in groups of two"] = (4, "4", in_groups_of_two)
REFUSED = {"in groups of two": "COM-009: rank 2 has not the same as rank 0: names of groups without --group"}
CASES["on three dims"] = (4, "2x1x2", on_three_dims)
MORE = {f"at random {seed}": (3, "3", at_random(seed)) for seed in range(1, 4)}
MORE |= {f"redistributed {seed}": (4, "2x2", redistributed(seed)) for seed in range(1, 3)}
CASES |= MORE


# ---- PyTorch's ranks ------------------------------------------------------------------------


def leaves(result):
    return {str(i): t.detach().clone().contiguous() if isinstance(t, torch.Tensor) else torch.tensor(t)
            for i, t in enumerate(torch.utils._pytree.tree_leaves(result))}


def export_case(name, make, rank, n, folder):
    """The program of this rank, its inputs, and what PyTorch's ranks compute together; twice where it is decomposed too."""
    module, args, *more = make(rank, n)
    more = more[0] if more else {}
    with torch.no_grad():
        program = module if more.get("is_program") else export(module, args, strict=False, dynamic_shapes=more.get("dynamic_shapes"))
        forms = {"": program} if more.get("is_program") else {"": program, ".core": program.run_decompositions()}
        for form, one in forms.items():
            torch.export.save(one, folder / f"p{form}.{rank}.pt2")
            names = one.graph_signature.user_inputs
            for i, given in enumerate([args, *more.get("others", [])]):
                loaded = torch.export.load(folder / f"p{form}.{rank}.pt2").module()
                stem = folder / f"p{form}.{i}.{rank}"
                safetensors.torch.save_file({k: v.clone() for k, v in zip(names, given)}, f"{stem}.inputs.safetensors")
                copies = [v.clone() for v in given]
                results = leaves(loaded(*copies))
                results |= {f"input:{k}": v for k, v, old in zip(names, copies, given) if not torch.equal(v, old)}
                safetensors.torch.save_file(results, f"{stem}.expected.safetensors")
    all_groups = [None] * n
    dist.all_gather_object(all_groups, more.get("groups", {}))
    if rank == 0:
        lines = sorted({f"{group}={dims}" for groups in all_groups for group, dims in groups.items()})
        (folder / "groups").write_text("\n".join(lines))


def be_rank(rank, n, port, name, folder):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    try:
        dist.init_process_group("gloo", rank=rank, world_size=n)
        export_case(name, CASES[name][2], rank, n, folder)
        dist.barrier()
    except BaseException:
        (folder / f"failed.{rank}").write_text(traceback.format_exc())
        os._exit(1)
    os._exit(0)  # gloo's threads may end badly


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


# ---- exg's -------------------------------------------------------------------------------------


def check(exg, name):
    n, mesh, _ = CASES[name]
    with tempfile.TemporaryDirectory(dir=exg.folder) as folder:
        folder = pathlib.Path(folder)
        context = mp.start_processes(be_rank, (n, free_port(), name, folder), nprocs=n, join=False, start_method="fork")
        for process in context.processes:
            process.join()
        for failed in sorted(folder.glob("failed.*")):
            fail("PyTorch: " + failed.read_text().strip().splitlines()[-1])
        groups = [word for line in (folder / "groups").read_text().split() for word in ("--group", line)]
        for inputs in sorted(folder.glob("p*.0.inputs.safetensors")):
            form, call = inputs.name.split(".0.inputs")[0].rsplit(".", 1)
            words = [f"--rank-file={folder}/{form}.{{rank}}.pt2", "--mesh", mesh, *groups]
            files = [f"--{kind}={folder}/{form}.{call}.{{rank}}.{stem}.safetensors" for kind, stem in (("input", "inputs"), ("expect", "expected"))]
            if name in REFUSED:
                done = subprocess.run([exg.binary, "run", *words, *files], capture_output=True, text=True)
                if done.returncode != 9 or REFUSED[name] not in done.stderr:
                    fail(f"it ends with {done.returncode}: {done.stderr}")
                continue
            exg.command("run", *words, *files)
            exg.command("run", *words, *files, "--device", "strict")


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(run_cases(__doc__, ("collectives ", check, {name: (name,) for name in CASES}), more=MORE))
