"""speed.py - operators in exg beside PyTorch eager on the same GPU: one program an operator, the time of its kernels as
Nsight Compute (ncu) counts it, beside PyTorch's by events of CUDA, median. Prints a table of microseconds, their ratio,
kernels, the greatest difference of the results, and what exg reaches of bytes or of floating-point operations a second.
Nothing is asserted.

    python3 tests/gpu/speed.py --exg EXG --work FOLDER [--only NAME,...]

PyTorch's times are of calls one after the other; a call takes 5 us or more whatever it does.
"""

import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import sys
import warnings

import torch
from torch.nn import functional as F

warnings.simplefilter("ignore")
BF16, F32, F16, I64, I8 = torch.bfloat16, torch.float32, torch.float16, torch.int64, torch.int8
CASES = {}
RUNS = 3  # the last counts
COUNTER = ["ncu", "--csv", "--clock-control", "none", "--cache-control", "none", "--metrics", "gpu__time_duration.sum"]


def case(name, inputs, bytes_moved=0, operations=0):
    """A function of tensors. inputs: (sizes, dtype) each, or (sizes, I64, bound)."""
    def keep(function):
        CASES[name] = (function, inputs, bytes_moved, operations)
        return function
    return keep


def elementwise():
    n = 1 << 26
    for dtype, label in ((BF16, "bf16"), (F32, "f32")):
        size = dtype.itemsize
        case(f"add {label}, 64M", [((n,), dtype)] * 2, 3 * n * size)(lambda a, b: a + b)
        case(f"silu * up {label}, 64M", [((n,), dtype)] * 2, 3 * n * size)(lambda a, b: F.silu(a) * b)
        case(f"gelu {label}, 64M", [((n,), dtype)], 2 * n * size)(F.gelu)
        case(f"add a row {label}, 16384x4096", [((16384, 4096), dtype), ((4096,), dtype)], 2 * n * size)(lambda a, b: a + b)
    case("f32 to bf16, 64M", [((n,), F32)], 6 * n)(lambda a: a.to(BF16))


def moves():
    n = 1 << 26
    case("transpose bf16, 8192x8192", [((8192, 8192), BF16)], 4 * n)(lambda a: a.t().contiguous())
    case("heads bf16, 4x4096x32x128", [((4, 4096, 32, 128), BF16)], 4 * n)(lambda a: a.transpose(1, 2).contiguous())
    case("cat rows bf16", [((8192, 4096), BF16)] * 2, 4 * n)(lambda a, b: torch.cat([a, b]))
    case("cat columns bf16", [((8192, 4096), BF16)] * 2, 4 * n)(lambda a, b: torch.cat([a, b], -1))


def rows():
    n = 1 << 26
    case("softmax bf16, 16384x4096", [((16384, 4096), BF16)], 4 * n)(lambda a: a.softmax(-1))
    case("softmax f32, 524288x128", [((524288, 128), F32)], 8 * n)(lambda a: a.softmax(-1))
    case("layer_norm bf16, 16384x4096", [((16384, 4096), BF16), ((4096,), BF16), ((4096,), BF16)], 4 * n)(
        lambda a, w, b: F.layer_norm(a, (4096,), w, b))
    case("rms_norm bf16, 16384x4096", [((16384, 4096), BF16), ((4096,), BF16)], 4 * n)(lambda a, w: F.rms_norm(a, (4096,), w, 1e-6))
    case("rms_norm by hand bf16, 16384x4096", [((16384, 4096), BF16), ((4096,), BF16)], 4 * n)(
        lambda a, w: (a.float() * torch.rsqrt(a.float().pow(2).mean(-1, keepdim=True) + 1e-6)).to(BF16) * w)
    case("sum of rows f32, 16384x4096", [((16384, 4096), F32)], 4 * n)(lambda a: a.sum(-1))
    case("sum of columns f32, 16384x4096", [((16384, 4096), F32)], 4 * n)(lambda a: a.sum(0))
    case("sum of all f32, 64M", [((n,), F32)], 4 * n)(lambda a: a.sum())
    case("argmax bf16, 64x128000", [((64, 128000), BF16)], 64 * 256000)(lambda a: a.argmax(-1))
    case("cumsum f32, 16384x4096", [((16384, 4096), F32)], 8 * n)(lambda a: a.cumsum(-1))


def products():
    for m in (1, 16, 512, 4096):
        case(f"linear bf16, {m}x4096x14336", [((m, 4096), BF16), ((14336, 4096), BF16)], 2 * 4096 * 14336, 2 * m * 4096 * 14336)(F.linear)
    case("mm f32, 4096x4096x4096", [((4096, 4096), F32)] * 2, 0, 2 << 36)(torch.mm)
    case("bmm bf16, 32x1024x128x1024", [((32, 1024, 128), BF16), ((32, 128, 1024), BF16)], 0, 2 * 32 * 1024 * 128 * 1024)(torch.bmm)
    case("conv 3x3 bf16, 32x256x56x56", [((32, 256, 56, 56), BF16), ((256, 256, 3, 3), BF16)], 0, 2 * 32 * 56 * 56 * 256 * 256 * 9)(
        lambda a, w: F.conv2d(a, w, padding=1))
    case("conv transposed f32, 8x64x64x64", [((8, 64, 64, 64), F32), ((64, 64, 4, 4), F32)], 0, 2 * 8 * 64 * 64 * 64 * 64 * 16)(
        lambda a, w: F.conv_transpose2d(a, w, stride=2, padding=1))


def attention():
    for length in (512, 1024, 2048, 4096):
        q = ((1, 32, length, 128), BF16)
        case(f"attention causal bf16, 32 heads, {length}", [q] * 3, 0, 2 * 32 * length * length * 128)(
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    case("attention bf16, 16 heads of 64, 8x512", [((8, 16, 512, 64), BF16)] * 3, 0, 4 * 8 * 16 * 512 * 512 * 64)(
        F.scaled_dot_product_attention)
    case("attention causal bf16, 16 heads of 256, 2048", [((1, 16, 2048, 256), BF16)] * 3, 0, 2 * 16 * 2048 * 2048 * 256)(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True))
    for length in (1024, 4096, 8192):
        kv = ((1, 8, length, 128), BF16)
        case(f"attention of 1 row bf16, 32 heads over 8, {length}", [((1, 32, 1, 128), BF16), kv, kv], 2 * 8 * length * 256)(
            lambda q, k, v: F.scaled_dot_product_attention(q, k, v, enable_gqa=True))
    kv = ((1, 8, 4096, 128), BF16)
    case("attention of 1 row masked bf16, 32 heads over 8, 4096", [((1, 32, 1, 128), BF16), kv, kv, ((1, 1, 1, 4096), torch.bool)], 2 * 8 * 4096 * 256)(
        lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, attn_mask=m, enable_gqa=True))


def order():
    case("topk 50 f32, 64x128000", [((64, 128000), F32)], 64 * 128000 * 4)(lambda a: torch.topk(a, 50)[0])
    case("sort f32, 4M", [((1 << 22,), F32)], 4 << 22)(lambda a: torch.sort(a)[0])
    case("embedding bf16, 16384 of 128000x4096", [((128000, 4096), BF16), ((16384,), I64, 128000)], 4 * 16384 * 4096)(
        lambda w, i: F.embedding(i, w))
    case("scatter_add f32, 4M into 1M", [((1 << 20,), F32), ((1 << 22,), I64, 1 << 20), ((1 << 22,), F32)], 16 << 22)(
        lambda a, i, b: a.scatter_add(0, i, b))
    case("scatter_add f32, 1M into 1", [((1,), F32), ((1 << 20,), I64, 1), ((1 << 20,), F32)], 12 << 20)(
        lambda a, i, b: a.scatter_add(0, i, b))


def tensors_of(inputs):
    made = []
    for sizes, dtype, *bound in inputs:
        if dtype is I64:
            made.append(torch.randint(0, bound[0], sizes, device="cuda").cpu())
        elif dtype is torch.bool:
            made.append(torch.rand(sizes, device="cuda").cpu() < 0.9)
        else:
            made.append(torch.randn(sizes, device="cuda").to(dtype).cpu())
    return made


def write_inputs(path, tensors):
    """A safetensors file, without its package."""
    names, header, at, parts = {BF16: "BF16", F32: "F32", F16: "F16", I64: "I64", torch.bool: "BOOL", I8: "I8"}, {}, 0, []
    for i, t in enumerate(tensors):
        data = t.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
        header[f"x{i}"] = {"dtype": names[t.dtype], "shape": list(t.shape), "data_offsets": [at, at + len(data)]}
        at += len(data)
        parts.append(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))


def read_output(path):
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    (about,) = (v for k, v in json.loads(data[8:8 + length]).items() if k != "__metadata__")
    kinds = {"BF16": BF16, "F32": F32, "F16": F16, "I64": I64}
    first, end = about["data_offsets"]
    return torch.frombuffer(bytearray(data[8 + length + first:8 + length + end]), dtype=kinds[about["dtype"]]).reshape(about["shape"])


def error_of(got, want):
    """The greatest difference, as a part of the greatest number."""
    got, want = got.double(), want.double().cpu()
    return float((got - want).abs().max() / want.abs().max().clamp(min=1e-30))


def module_of(function, count):
    names = ", ".join(f"x{i}" for i in range(count))
    space = {"function": function, "torch": torch}
    exec(f"class M(torch.nn.Module):\n    def forward(self, {names}):\n        return function({names})\n", space)  # the names of inputs
    return space["M"]()


def kernel_times(text):
    """Microseconds of each kernel, from Nsight Compute's table."""
    rows = list(csv.reader(line for line in text.splitlines() if line.startswith('"')))
    value, unit = rows[0].index("Metric Value"), rows[0].index("Metric Unit")
    scale = {"ns": 1e-3, "nsecond": 1e-3, "us": 1, "usecond": 1, "ms": 1e3, "msecond": 1e3}
    return [float(row[value].replace(",", "")) * scale[row[unit]] for row in rows[1:]]


def time_exg(options, function, tensors, name):
    stem = options.work / "".join(c if c.isalnum() else "_" for c in name)
    program, inputs = stem.with_suffix(".pt2"), stem.with_suffix(".safetensors")
    torch.export.save(torch.export.export(module_of(function, len(tensors)), tuple(tensors)), program)
    write_inputs(inputs, tensors)
    outputs = stem.with_suffix(".out.safetensors")
    command = [options.exg, "run", program, "--input", inputs, "--device", "cuda", "--repeat", str(RUNS),
               "--output", outputs, "--profile", "--json"]
    try:
        done = subprocess.run(COUNTER + command, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise RuntimeError((done.stderr or done.stdout)[-200:])
        got = read_output(outputs)
    finally:
        for path in (program, inputs, outputs):
            path.unlink(missing_ok=True)
    times = kernel_times(done.stdout)
    return sum(times[len(times) * (RUNS - 1) // RUNS:]), len(times) // RUNS, got


def time_torch(options, function, tensors):
    tensors = [t.to("cuda") for t in tensors]
    times = []
    for _ in range(20):
        first, last = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        first.record()
        function(*tensors)
        last.record()
        torch.cuda.synchronize()
        times.append(1e3 * first.elapsed_time(last))
    return statistics.median(times[5:]), function(*tensors)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--exg", required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    for group in (elementwise, moves, rows, products, attention, order):
        group()
    print(f"{'operator':52} {'exg us':>10} {'torch us':>10} {'ratio':>7} {'kernels':>7}  {'error':>8}  rate")
    for name, (function, inputs, bytes_moved, operations) in CASES.items():
        if options.only and not any(part in name for part in options.only.split(",")):
            continue
        try:
            tensors = tensors_of(inputs)
            own, steps, got = time_exg(options, function, tensors, name)
            peer, want = time_torch(options, function, tensors)
            error = error_of(got, want)
        except (RuntimeError, subprocess.TimeoutExpired) as fault:
            print(f"{name:52} FAILED {str(fault)[:160]!r}", flush=True)
            continue
        rate = f"{operations / own / 1e6:.1f} TFLOP/s" if operations else f"{bytes_moved / own / 1e3:.0f} GB/s"
        print(f"{name:52} {own:10.1f} {peer:10.1f} {own / peer:7.2f} {steps:7}  {error:8.1e}  {rate}", flush=True)


main()
