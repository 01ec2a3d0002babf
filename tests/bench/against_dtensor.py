"""against_dtensor.py - a decoder's step and prefill in parts over two ranks: exg's ranks as threads and as processes
beside PyTorch's DTensor on gloo, placed alike (weights by column, then by row). One thread a rank; interleaved,
medians, printed, never asserted.

    build/venv/bin/python tests/bench/against_dtensor.py --exg build/release/cli/exg
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import torch
from safetensors.torch import save_file

WIDTH, HEADS, LAYERS, POSITIONS = 512, 8, 4, 128
MPI = ["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", "2"]


class Block(torch.nn.Module):
    """q, k, v and up are split by column, out and down by row."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(WIDTH), torch.nn.LayerNorm(WIDTH)
        self.q, self.k, self.v, self.out = (torch.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(4))
        self.up = torch.nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = torch.nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        y = self.norm1(x)
        heads = [f(y).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2) for f in (self.q, self.k, self.v)]
        y = torch.nn.functional.scaled_dot_product_attention(*heads)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm2(x))))


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(*(Block() for _ in range(LAYERS))).eval()


def sample(positions):
    return torch.randn(1, positions, WIDTH, generator=torch.Generator().manual_seed(positions))


def rank(positions, repeat):
    """One process of torch's two; rank 0 prints a median in ns."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    torch.set_num_threads(1)
    mesh = init_device_mesh("cpu", (2,))
    by = {"q": ColwiseParallel, "k": ColwiseParallel, "v": ColwiseParallel, "up": ColwiseParallel,
          "out": RowwiseParallel, "down": RowwiseParallel}
    split = model()
    for block in split:
        parallelize_module(block, mesh, {name: style() for name, style in by.items()})
    x, times = sample(positions), []
    with torch.no_grad():
        for i in range(repeat + 5):
            start = time.perf_counter()
            split(x)
            times.append((time.perf_counter() - start) * 1e9)
    if torch.distributed.get_rank() == 0:
        print(json.dumps({"median_ns": statistics.median(times[5:])}))
    torch.distributed.destroy_process_group()


def torch_median(positions, repeat):
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    text = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--standalone",
                           __file__, "--rank", str(positions), "--repeat", str(repeat)],
                          check=True, capture_output=True, text=True, env=environment).stdout
    return json.loads(text.strip().splitlines()[-1])


def exg_median(command, folder, positions, repeat):
    text = subprocess.run(command + ["run", f"{folder}/{positions}.pt2", "--input", f"{folder}/{positions}.safetensors",
                                     "--mesh", "2", "--place", "tensor", "--repeat", str(repeat), "--stats", "--json",
                                     "--output", f"{folder}/out.safetensors"],
                          check=True, capture_output=True, text=True).stdout
    return json.loads(text)["median_ns"]


def compare(exg, what, positions, repeat, rounds):
    ratios, times = [], {"threads": [], "processes": [], "gloo": []}
    with tempfile.TemporaryDirectory() as folder:
        program = torch.export.export(model(), (sample(positions),))
        torch.export.save(program, f"{folder}/{positions}.pt2")
        save_file({program.graph_signature.user_inputs[0]: sample(positions)}, f"{folder}/{positions}.safetensors")
        for _ in range(rounds):
            times["threads"].append(exg_median([exg], folder, positions, repeat))
            times["processes"].append(exg_median(MPI + [exg], folder, positions, repeat))
            times["gloo"].append(torch_median(positions, repeat)["median_ns"])
            ratios.append(times["gloo"][-1] / times["threads"][-1])
    of = {name: statistics.median(values) / 1e3 for name, values in times.items()}
    print(f"{what}: exg {of['threads']:.0f} us on threads, {of['processes']:.0f} us on MPI, "
          f"PyTorch DTensor on gloo {of['gloo']:.0f} us, ratio {statistics.median(ratios):.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exg", default="build/release/cli/exg")
    parser.add_argument("--rank", type=int)
    parser.add_argument("--repeat", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if options.rank is not None:
        rank(options.rank, options.repeat)
        return
    compare(options.exg, "a decoder's step (1 position)", 1, options.repeat, options.rounds)
    compare(options.exg, f"prefill ({POSITIONS} positions)", POSITIONS, max(options.repeat // 3, 5), options.rounds)


if __name__ == "__main__":
    main()
