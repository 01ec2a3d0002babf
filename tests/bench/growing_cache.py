"""growing_cache.py - a decoder whose cache is an input and a result, and longer by one with every
step, in exg (growing_cache.c), PyTorch eager and ONNX Runtime in turn, one thread: milliseconds of
all steps, medians of the rounds, and the megabytes that exg's process took at most.

    build/venv/bin/python tests/bench/growing_cache.py --bench build/release/tests/bench_growing_cache
        [--steps 400,800] [--rounds 5]      (ONNX Runtime: where onnxruntime and onnx are installed)
"""

import argparse
import importlib.util
import os
import statistics
import subprocess
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import nn

LAYERS, HEADS, DEPTH = 6, 4, 64
WIDTH = HEADS * DEPTH


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.before, self.between = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, x, keys, values):
        batch, length, _ = x.shape
        qkv = self.qkv(self.before(x)).view(batch, length, 3, HEADS, DEPTH).permute(2, 0, 3, 1, 4)
        q, k, v = qkv.unbind(0)
        keys, values = torch.cat([keys, k], 2), torch.cat([values, v], 2)
        attended = F.scaled_dot_product_attention(q, keys, values)
        x = x + self.out(attended.transpose(1, 2).reshape(batch, length, WIDTH))
        return x + self.down(F.gelu(self.up(self.between(x)))), keys, values


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))

    def forward(self, x, cache):
        grown = []
        for i, block in enumerate(self.blocks):
            x, keys, values = block(x, cache[2 * i], cache[2 * i + 1])
            grown += [keys, values]
        return x, torch.stack(grown)


def timed(step, cache, steps):
    start = time.perf_counter()
    for _ in range(steps):
        cache = step(cache)
    return (time.perf_counter() - start) * 1e3


def onnx_step(model, x, cache, folder):
    import onnxruntime
    path = os.path.join(folder, "model.onnx")
    torch.onnx.export(model, (x, cache), path, dynamo=False, opset_version=18, input_names=["x", "cache"],
                      dynamic_axes={"cache": {3: "length"}})
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda cache: session.run(None, {"x": x.numpy(), "cache": cache})[1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bench", required=True)
    parser.add_argument("--steps", default="400,800")
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    torch.manual_seed(7)
    model = Decoder().eval()
    x, cache = torch.randn(1, 1, WIDTH), torch.randn(2 * LAYERS, 1, HEADS, 7, DEPTH)
    with tempfile.TemporaryDirectory() as folder:
        program = os.path.join(folder, "program.pt2")
        length = torch.export.Dim("length", min=1, max=4096)
        torch.export.save(torch.export.export(model, (x, cache), dynamic_shapes=(None, {3: length})), program)
        calls = {"eager": lambda cache: model(x, cache)[1]}
        if importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx"):
            calls["onnxruntime"] = onnx_step(model, x, cache, folder)
        print(f"{'steps':>6}{'exg ms':>10}{'exg MB':>8}" + "".join(f"{name + ' ms':>16}{'ratio':>7}" for name in calls))
        for steps in map(int, args.steps.split(",")):
            times = {name: [] for name in ("exg", *calls)}
            for _ in range(args.rounds):
                ran = subprocess.run([args.bench, program, *map(str, (LAYERS, HEADS, DEPTH, steps))],
                                     capture_output=True, text=True, check=True).stdout.split()
                times["exg"].append(float(ran[0]))
                megabytes = int(ran[1]) / 1024
                for name, step in calls.items():
                    first = cache[:, :, :, :1].contiguous()
                    times[name].append(timed(step, first.numpy() if name == "onnxruntime" else first, steps))
            middle = {name: statistics.median(values) for name, values in times.items()}
            print(f"{steps:>6}{middle['exg']:>10.0f}{megabytes:>8.0f}" + "".join(
                f"{middle[name]:>16.0f}{middle['exg'] / middle[name]:>7.2f}" for name in calls), flush=True)


if __name__ == "__main__":
    main()
