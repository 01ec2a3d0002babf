"""against_pytorch.py - the language model's forward pass in exg and in PyTorch eager,
and from process start to first output. Interleaved, medians, printed, never asserted.

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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--exg", required=True)
    exg = parser.parse_args().exg
    for name in ("lm.train-ir.static.pt2", "lm.core.static.pt2"):
        for threads in (1, 2):
            forward(exg, name, threads)
    first_output(exg)


if __name__ == "__main__":
    main()
