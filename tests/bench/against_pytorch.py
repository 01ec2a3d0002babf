"""against_pytorch.py - the language model's forward pass in exg and in PyTorch eager,
from process start to first output, and the peak memory of a run. Interleaved, medians,
printed, never asserted.

    build/venv/bin/python tests/bench/against_pytorch.py --exg build/release/cli/exg
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
from safetensors.torch import load_file

FIXTURES = os.path.join(os.path.dirname(__file__), "..", "..", "fixtures")
PEAK = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024)")
INPUTS = os.path.join(FIXTURES, "lm.inputs.safetensors")


def exg_median_ns(exg, model, threads, repeat):
    with tempfile.TemporaryDirectory() as folder:
        text = subprocess.run(
            [exg, "run", model, "--input", INPUTS, "--threads", str(threads), "--repeat", str(repeat),
             "--stats", "--json", "--output", os.path.join(folder, "out.safetensors")],
            check=True, capture_output=True, text=True).stdout
    return json.loads(text)["median_ns"]


def torch_median_ns(module, inputs, repeat):
    times = []
    with torch.no_grad():
        for _ in range(repeat):
            start = time.perf_counter()
            module(*inputs)
            times.append((time.perf_counter() - start) * 1e9)
    return statistics.median(times)


def forward(exg, name, threads):
    model = os.path.join(FIXTURES, name)
    torch.set_num_threads(threads)
    module = torch.export.load(model).module()
    inputs = list(load_file(INPUTS).values())
    torch_median_ns(module, inputs, 20)
    ratios, ours, theirs = [], [], []
    for _ in range(7):
        ours.append(exg_median_ns(exg, model, threads, 50))
        theirs.append(torch_median_ns(module, inputs, 50))
        ratios.append(theirs[-1] / ours[-1])
    print(f"{name} {threads} threads: exg {statistics.median(ours) / 1e3:.0f} us, "
          f"PyTorch eager {statistics.median(theirs) / 1e3:.0f} us, ratio {statistics.median(ratios):.2f}")


def first_output(exg):
    model = os.path.join(FIXTURES, "lm.train-ir.static.pt2")
    script = ("import torch; from safetensors.torch import load_file; "
              f"torch.export.load({model!r}).module()(*load_file({INPUTS!r}).values())")
    ours, theirs = [], []
    for _ in range(3):
        start = time.perf_counter()
        subprocess.run([exg, "run", model, "--input", INPUTS], check=True, stdout=subprocess.DEVNULL)
        ours.append(time.perf_counter() - start)
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", script], check=True, stdout=subprocess.DEVNULL)
        theirs.append(time.perf_counter() - start)
    print(f"process start to first output: exg {statistics.median(ours) * 1e3:.0f} ms, "
          f"Python {statistics.median(theirs) * 1e3:.0f} ms, "
          f"ratio {statistics.median(theirs) / statistics.median(ours):.0f}")


def peak_memory(exg):
    """A model of 256 MiB of weights: what a run holds beside them and its arena."""
    layers = [torch.nn.Linear(4096, 4096, bias=False) for _ in range(4)]
    with tempfile.TemporaryDirectory() as folder:
        model = os.path.join(folder, "large.pt2")
        torch.export.save(torch.export.export(torch.nn.Sequential(*layers), (torch.ones(64, 4096),)), model)
        arena = json.loads(subprocess.run([exg, "plan", model, "--json"], check=True, capture_output=True,
                                          text=True).stdout)["arena_bytes"]
        for threads in (1, 2):
            # From a small process of its own: a child's peak begins with that of who forks it.
            peak = int(subprocess.run(
                [sys.executable, "-S", "-c", PEAK, exg, "run", model, "--threads", str(threads)],
                check=True, capture_output=True, text=True).stdout.split()[-1])
            weights = sum(layer.weight.nbytes for layer in layers)
            print(f"peak memory, {threads} threads: weights {weights >> 20} MiB, arena {arena >> 10} KiB, "
                  f"the rest {(peak - weights - arena) / 2**20:.1f} MiB")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--exg", required=True)
    exg = parser.parse_args().exg
    for name in ("lm.train-ir.static.pt2", "lm.core.static.pt2"):
        for threads in (1, 2):
            forward(exg, name, threads)
    first_output(exg)
    peak_memory(exg)


if __name__ == "__main__":
    main()
