"""ranks.py - what a rank of mpirun holds and reads: peak memory beside its weights and values as `exg plan` counts them, bytes from
a cold disk beside those of its ranges. Printed, never asserted. Linux, with mpirun, and PyTorch to make the program.

    python3 tests/bench/ranks.py --exg build/release/cli/exg [--ranks 4] [--place tensor,fsdp] [--layers 8 --width 1024 --words 32000] [--split 200M]

Memory is the largest a rank had, less what exg and MPI have with a program of a few bytes. Each rank reads the one file; what one
has brought from the disk another does not bring again, so read bytes are of all ranks together. With --split weights are beside the
program, as safetensors of at most that size with an index.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "fixtures"


def make(path, layers, width, words):
    import torch
    from torch import nn
    from torch.nn import functional as F

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            groups = width // 64 // 4
            self.n1, self.n2 = nn.RMSNorm(width), nn.RMSNorm(width)
            self.q, self.o = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
            self.k, self.v = (nn.Linear(width, 64 * groups, bias=False) for _ in range(2))
            self.gate, self.up = (nn.Linear(width, 11 * width // 4, bias=False) for _ in range(2))
            self.down = nn.Linear(11 * width // 4, width, bias=False)

        def forward(self, x):
            y = self.n1(x)
            q, k, v = (f(y).view(*y.shape[:2], -1, 64).transpose(1, 2) for f in (self.q, self.k, self.v))
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = x + self.o(y.transpose(1, 2).flatten(2))
            y = self.n2(x)
            return x + self.down(F.silu(self.gate(y)) * self.up(y))

    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(words, width), *(Block() for _ in range(layers)), nn.RMSNorm(width), nn.Linear(width, words, bias=False))
    with torch.no_grad():
        torch.export.save(torch.export.export(model.eval(), (torch.zeros(4, 64, dtype=torch.int64),)), path)


def drop(path):
    """From the cache of the system, so that it lies on the disk alone."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def watch(report, command):
    """Runs it as one rank, and writes down what it took."""
    child = os.posix_spawnp(command[0], command, os.environ)
    _, status, used = os.wait4(child, 0)
    rank = os.environ.get("OMPI_COMM_WORLD_RANK", os.environ.get("PMI_RANK", "0"))
    pathlib.Path(f"{report}.{rank}").write_text(json.dumps([used.ru_maxrss * 1024, used.ru_inblock * 512]))
    return os.waitstatus_to_exitcode(status)


def run(exg, program, ranks, place, folder, weights=()):
    report = f"{folder}/used"
    for path in (program, *pathlib.Path(folder).glob("*.safetensors")):
        drop(path)
    subprocess.run(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(ranks), sys.executable, __file__, "--watch", report, exg,
                    "run", program, *weights, "--place", place, "--threads", "1", "--output", f"{folder}/out.safetensors"],
                   check=True, stdout=subprocess.DEVNULL)
    return [json.loads(pathlib.Path(f"{report}.{rank}").read_text()) for rank in range(ranks)]


def planned(exg, program, ranks, place):
    said = json.loads(subprocess.run([exg, "plan", program, "--mesh", str(ranks), "--place", place, "--processes", "--json"],
                                     check=True, capture_output=True, text=True).stdout)
    return said["rank_weight_bytes"], said["rank_value_bytes"]


def main():
    if sys.argv[1:2] == ["--watch"]:
        sys.exit(watch(sys.argv[2], sys.argv[3:]))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exg", default="build/release/cli/exg")
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--place", default="tensor,fsdp")
    parser.add_argument("--layers", type=int, default=8)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--words", type=int, default=32000)
    parser.add_argument("--split", help="size of a file of weights")
    options = parser.parse_args()
    exg = os.path.abspath(options.exg)
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        program = f"{folder}/model.pt2"
        make(program, options.layers, options.width, options.words)
        beside = []
        if options.split:
            subprocess.run([exg, "convert", program, f"{folder}/model.safetensors", "--split", options.split], check=True, stdout=subprocess.DEVNULL)
            beside = ["--weights-from", f"{folder}/model.safetensors.index.json"]
        idle = run(exg, str(FIXTURES / "mlp.pt2"), options.ranks, "tensor", folder)
        print(f"{os.path.getsize(program) / 1e6:.0f} MB over {options.ranks} ranks; MB a rank")
        print("place      weights  values    peak  peak/(weights + values)   read  read/weights")
        for place in options.place.split(","):
            weights, values = planned(exg, program, options.ranks, place)
            used = run(exg, program, options.ranks, place, folder, beside)
            peak = max(own[0] - none[0] for own, none in zip(used, idle))
            read = sum(own[1] for own in used) / options.ranks
            print(f"{place:9} {weights / 1e6:8.1f} {values / 1e6:7.1f} {peak / 1e6:7.1f} {peak / (weights + values):24.3f} {read / 1e6:6.1f} {read / weights:13.3f}", flush=True)


if __name__ == "__main__":
    main()
