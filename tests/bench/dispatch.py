"""What one operator on PyTorch's DTensor costs: the peer of tests/bench/dispatch.c.

    python tests/bench/dispatch.py [RANKS]

The same operators on the same tensors of 4x4, S(0), gloo, one thread a rank; fastest round, and median of
first calls.
"""
import os
import statistics
import sys
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Replicate, Shard, zeros

CALLS, ROUNDS, MISSES = 500, 11, 50


def calls(x, y, whole, rows):
    aten = torch.ops.aten
    return {
        "add.Tensor": lambda: aten.add.Tensor(x, y),
        "relu": lambda: aten.relu.default(x),
        "view": lambda: aten.view.default(x, [rows, 4]),
        "add_.Tensor": lambda: aten.add_.Tensor(x, y),
        "mm": lambda: aten.mm.default(x, whole),
        "native_layer_norm": lambda: aten.native_layer_norm.default(x, [4], None, None, 1e-5),
    }


def work(rank, ranks):
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29617")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    mesh = init_device_mesh("cpu", (ranks,))

    def tensors(rows):
        make = lambda n, p: zeros(n, 4, device_mesh=mesh, placements=[p])
        return calls(make(rows, Shard(0)), make(rows, Shard(0)), make(4, Replicate()), rows)

    with torch.no_grad():
        for name in tensors(4):
            call = tensors(4)[name]
            call()
            cached, missed = [], []
            for _ in range(ROUNDS):
                start = time.perf_counter_ns()
                for _ in range(CALLS):
                    call()
                cached.append((time.perf_counter_ns() - start) / CALLS)
            for i in range(MISSES):
                call = tensors(4 * (i + 2))[name]
                start = time.perf_counter_ns()
                call()
                missed.append(time.perf_counter_ns() - start)
            if rank == 0:
                print(f"{ranks} ranks  {name:18}  cached {min(cached):7.0f} ns   "
                      f"miss {statistics.median(missed) / 1000:8.1f} us", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    processes.spawn(work, args=(count,), nprocs=count)
