"""models.py - whole models in exg, PyTorch eager, inductor and ONNX Runtime: medians of interleaved
rounds, ratios, geometric means; printed, never asserted. Results are compared first.

    build/venv/bin/python tests/bench/models.py --exg build/release/cli/exg --cache FOLDER
        [--only bert-b1,resnet50] [--threads 1,2] [--dtype f32,bf16] [--against eager,inductor,ort]
        [--device cuda]

Random weights. Those of the decoder, half a billion, are made where --only names it. The program is what torch.export.export gives, saved by torch.export.save; --core runs
decompositions first. Models, their ONNX files and inductor's code are kept in FOLDER. Each row of the
table is a process of its own. "least": the same two ratios of the shortest times, which say more when
the machine has other work. --device: where exg and PyTorch run; programs are exported on the host.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time

import torch

from decoder import Int4, Int8, decoder, experts
from networks import lstm, mamba, perceptron, unet, whisper

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
TOLERANCE = {"f32": 2e-4, "bf16": 1e-1}
ROUND_SECONDS = 0.6  # of each peer in a round, at least one run


# ---- models -----------------------------------------------------------------------------

def ones(batch):
    return torch.ones(batch, 128, dtype=torch.int64)


def bert(layers, width, batch):
    from transformers import BertConfig, BertModel
    config = BertConfig(num_hidden_layers=layers, hidden_size=width, intermediate_size=4 * width,
                        num_attention_heads=12, attn_implementation="sdpa")
    return BertModel(config, add_pooling_layer=False), (
        torch.randint(0, 30000, (batch, 128)), ones(batch))


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    return GPT2LMHeadModel(GPT2Config(attn_implementation="sdpa", use_cache=False))


class Prefill(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.model = gpt2()

    def forward(self, ids, mask):
        return self.model(input_ids=ids, attention_mask=mask).logits


class Step(torch.nn.Module):
    """One token of GPT-2 over a static cache of 256 positions, held in buffers."""

    def __init__(self, dtype):
        super().__init__()
        self.model = gpt2()
        self.register_buffer("cache", torch.randn(24, 1, 12, 256, 64, dtype=dtype))

    def attention(self, block, x, position, mask, keys, values):
        query, key, value = (t.view(1, 1, 12, 64).transpose(1, 2)
                             for t in block.attn.c_attn(x).split(768, dim=2))
        keys.index_copy_(2, position, key)
        values.index_copy_(2, position, value)
        y = torch.nn.functional.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
        return block.attn.c_proj(y.transpose(1, 2).reshape(1, 1, 768))

    def forward(self, ids, position):
        body = self.model.transformer
        x = body.wte(ids) + body.wpe(position)
        mask = (torch.arange(256) <= position).view(1, 1, 1, 256)
        for i, block in enumerate(body.h):
            x = x + self.attention(block, block.ln_1(x), position, mask, self.cache[2 * i], self.cache[2 * i + 1])
            x = x + block.mlp(block.ln_2(x))
        return self.model.lm_head(body.ln_f(x))


def vision(kind):
    from transformers import ResNetConfig, ResNetForImageClassification, ViTConfig, ViTForImageClassification
    model = (ViTForImageClassification(ViTConfig(num_labels=1000, attn_implementation="sdpa")) if kind == "vit"
             else ResNetForImageClassification(ResNetConfig(num_labels=1000)))
    return model, (torch.randn(1, 3, 224, 224),)


MODELS = {
    "bert-b1": lambda dtype: bert(12, 768, 1),
    "bert-b8": lambda dtype: bert(12, 768, 8),
    "gpt2-prefill": lambda dtype: (Prefill(), (torch.randint(0, 50000, (1, 128)), ones(1))),
    "gpt2-step": lambda dtype: (Step(dtype), (torch.tensor([[17]]), torch.tensor([100]))),
    "vit-b16": lambda dtype: vision("vit"),
    "resnet50": lambda dtype: vision("resnet"),
    "minilm-b32": lambda dtype: bert(6, 384, 32),
    "bert-b32": lambda dtype: bert(12, 768, 32),
    "experts": lambda dtype: experts(16),
    "unet": unet,
    "whisper": whisper,
    "mamba": mamba,
    "lstm-b1": lambda dtype: lstm(1),
    "lstm-b16": lambda dtype: lstm(16),
    "mlp-b1": lambda dtype: perceptron(1),
    "mlp-b16": lambda dtype: perceptron(16),
    "mlp-b64": lambda dtype: perceptron(64),
    "decoder-step": lambda dtype: decoder(None, 1),
    "decoder-prefill": lambda dtype: decoder(None, 512),
    "decoder-int8-step": lambda dtype: decoder(Int8, 1),
    "decoder-int8-prefill": lambda dtype: decoder(Int8, 512),
    "decoder-int4-step": lambda dtype: decoder(Int4, 1),
    "decoder-int4-prefill": lambda dtype: decoder(Int4, 512),
    "gpt2-prefill-b32": lambda dtype: (Prefill(), (torch.randint(0, 50000, (32, 128)), ones(32))),
}


class First(torch.nn.Module):
    """A model's first result."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        y = self.model(*inputs)
        return y if isinstance(y, torch.Tensor) else y[0]


def make(name, dtype):
    torch.manual_seed(7)
    model, inputs = MODELS[name](DTYPES[dtype])
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):  # statistics of something seen
            module.running_mean.normal_(0, 0.1)
            module.running_var.uniform_(0.5, 1.5)
    inputs = tuple(t.to(DTYPES[dtype]) if t.is_floating_point() else t for t in inputs)
    return First(model).eval().to(DTYPES[dtype]), inputs


# ---- peers: each gives a call that runs once ----------------------------------------------

def eager(model, inputs, _):
    return lambda: model(*inputs)


def inductor(model, inputs, _):
    compiled = torch.compile(model)
    compiled(*inputs)
    return lambda: compiled(*inputs)


def ort(model, inputs, row):
    import onnxruntime
    path = row.path("onnx/model.onnx")
    if not os.path.exists(path):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        torch.onnx.export(model, inputs, path, dynamo=False, opset_version=18)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = row.threads
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    feeds = {i.name: t.numpy() for i, t in zip(session.get_inputs(), inputs)}
    return lambda: torch.from_numpy(session.run(None, feeds)[0])


def on_device(call, device):
    """Runs it to its end: work on a device goes on beside the host."""
    def run():
        y = call()
        torch.accelerator.synchronize()
        return y
    return call if device == "cpu" else run


PEERS = {"eager": eager, "inductor": inductor, "ort": ort}


# ---- exg -----------------------------------------------------------------------------------

class Row:
    def __init__(self, args):
        self.exg, self.cache, self.core = args.exg, args.cache, args.core
        self.name, self.dtype, self.threads = args.only, args.dtype, int(args.threads)
        self.rounds, self.device = args.rounds, args.device

    def path(self, suffix):
        return os.path.join(self.cache, f"{self.name}.{self.dtype}.{suffix}")

    def export(self, model, inputs):
        from safetensors.torch import save_file
        path = self.path("core.pt2" if self.core else "pt2")
        if not os.path.exists(path):
            program = torch.export.export(model, inputs, strict=False)
            torch.export.save(program.run_decompositions() if self.core else program, path)
        names = [spec.arg.name for spec in torch.export.load(path).graph_signature.input_specs
                 if spec.kind.name == "USER_INPUT"]
        save_file(dict(zip(names, inputs)), self.path("in.safetensors"))
        return path

    def run(self, program, repeat):
        text = subprocess.run(
            [self.exg, "run", program, "--input", self.path("in.safetensors"), "--threads", str(self.threads),
             "--device", self.device, "--repeat", str(repeat), "--stats", "--json", "--output", self.path("out.safetensors")],
            check=True, capture_output=True, text=True).stdout
        return json.loads(text)


def measure(call, seconds):
    times = []
    while sum(times) < seconds or len(times) < 1:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times), min(times)


def agree(row, want, got):
    scale = want.float().abs().max().item()
    worst = (want.float() - got.float()).abs().max().item() / scale
    if not worst <= TOLERANCE[row.dtype]:
        print(f"{row.name} {row.dtype}: results differ by {worst:.1e} of the largest", file=sys.stderr)
    return worst


def bench(row, against):
    from safetensors.torch import load_file
    torch.set_num_threads(row.threads)
    with torch.no_grad():
        model, inputs = make(row.name, row.dtype)
        program = row.export(model, inputs)
        model, inputs = model.to(row.device), tuple(t.to(row.device) for t in inputs)
        want = model(*inputs).cpu()
        calls, why = {}, {}
        for peer in against:
            try:
                calls[peer] = on_device(PEERS[peer](model, inputs, row), row.device)
                agree(row, want, calls[peer]().cpu())
            except Exception as error:  # what a peer cannot do is part of the table
                calls.pop(peer, None)
                why[peer] = str(error).strip().splitlines()[0][:100]
        first = row.run(program, 2)
        agree(row, want, load_file(row.path("out.safetensors"))["0"])
        repeat = max(3, min(200, int(ROUND_SECONDS * 1e9 / first["min_ns"]) + 1))
        times = {name: [] for name in ["exg", *calls]}
        for _ in range(row.rounds):
            ran = row.run(program, repeat)
            times["exg"].append((ran["median_ns"] / 1e9, ran["min_ns"] / 1e9))
            for peer, call in calls.items():
                times[peer].append(measure(call, ROUND_SECONDS))
    print(json.dumps({"times": {name: statistics.median(t for t, _ in all) for name, all in times.items()},
                      "least": {name: min(t for _, t in all) for name, all in times.items()}, "why": why}))


# ---- table ------------------------------------------------------------------------------------

def ratio(times, of):
    return times["exg"] / of if of else float("nan")


def geometric_mean(values):
    values = [v for v in values if v == v]
    return math.exp(sum(map(math.log, values)) / len(values)) if values else float("nan")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--exg", required=True)
    parser.add_argument("--cache", required=True)
    parser.add_argument("--only", default=",".join(name for name in MODELS if not name.endswith("32") and not name.startswith("decoder") or name == "minilm-b32"))
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--dtype", default="f32,bf16")
    parser.add_argument("--against", default="eager,inductor,ort")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--core", action="store_true")
    parser.add_argument("--row", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.row:
        bench(Row(args), [peer for peer in args.against.split(",") if peer])
        return
    os.makedirs(args.cache, exist_ok=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = os.path.join(args.cache, "inductor")
    peers = [peer for peer in args.against.split(",") if peer]
    print(f"{'model':<22}{'dtype':<6}{'T':<3}" + "".join(f"{n + ' ms':>13}" for n in ["exg", *peers]) +
          f"{'x eager':>9}{'x best':>8}{'least':>12}")
    of_eager, of_best = [], []
    for dtype in args.dtype.split(","):
        for threads in args.threads.split(","):
            for name in args.only.split(","):
                done = subprocess.run(
                    [sys.executable, __file__, "--row", "--exg", args.exg, "--cache", args.cache, "--only", name,
                     "--threads", threads, "--dtype", dtype, "--against", args.against,
                     "--rounds", str(args.rounds), "--device", args.device] +
                    ["--core"] * args.core, capture_output=True, text=True)
                if done.returncode != 0:
                    print(f"{name:<22}{dtype:<6}{threads:<3}  failed: {done.stderr.strip()[-300:]}")
                    continue
                sys.stderr.write("".join(line + "\n" for line in done.stderr.splitlines() if "differ" in line))
                row = json.loads(done.stdout.splitlines()[-1])
                times = row["times"]
                calls = [p for p in peers if p in times]
                best = min((times[p] for p in calls), default=None)
                of_eager.append(ratio(times, times.get("eager")))
                of_best.append(ratio(times, best))
                print(f"{name:<22}{dtype:<6}{threads:<3}" +
                      "".join(f"{times[n] * 1e3:>13.2f}" if n in times else f"{'-':>13}" for n in ["exg", *peers]) +
                      f"{of_eager[-1]:>9.2f}{of_best[-1]:>8.2f}" +
                      f"{ratio(row['least'], row['least'].get('eager')):>7.2f}"
                      f"{ratio(row['least'], min((row['least'][p] for p in calls), default=None)):>5.2f}" +
                      "".join(f"  {p}: {reason}" for p, reason in row["why"].items()), flush=True)
    print(f"geometric mean: {geometric_mean(of_eager):.2f} x eager, {geometric_mean(of_best):.2f} x the best of the others, "
          f"worst {max((r for r in of_best if r == r), default=float('nan')):.2f}")


if __name__ == "__main__":
    main()
