"""operators.py - single operators of models in exg and in PyTorch eager, one thread, at the sizes
models have them: medians and shortest times of interleaved rounds; printed, never asserted, the
slowest beside PyTorch first. What comes out is compared too.

    build/venv/bin/python tests/bench/operators.py --exg build/release/cli/exg
        [--only REGEX] [--rounds 5] [--seconds 0.1]
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile
import time

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import nn

DTYPES = {"f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16,
          "i64": torch.int64, "i32": torch.int32, "u8": torch.uint8, "bool": torch.bool}
TOLERANCE = {torch.bfloat16: 4e-2, torch.float16: 1e-2}


def randn(*sizes, dtype="f32"):
    return torch.randn(*sizes).to(DTYPES[dtype])


def randint(high, *sizes, dtype="i64"):
    return torch.randint(0, high, sizes).to(DTYPES[dtype])


def positive(*sizes):
    return torch.rand(*sizes) + 0.1


ROWS = {}


def row(name, function, *inputs):
    """`inputs` gives them, or is a call that does."""
    ROWS[name] = (function, inputs)


# ---- reductions ---------------------------------------------------------------------------

X = lambda dtype="f32": lambda: randn(8, 512, 768, dtype=dtype)  # hidden states of a transformer
IMAGE = lambda dtype="f32": lambda: randn(8, 64, 56, 56, dtype=dtype)  # of a convolutional network

for d in (0, 1, 2):
    row(f"sum dim {d}", lambda x, d=d: x.sum(d), X())
    row(f"amax dim {d}", lambda x, d=d: x.amax(d), X())
    row(f"argmax dim {d}", lambda x, d=d: x.argmax(d), X())
    row(f"max dim {d}", lambda x, d=d: x.max(d), X())
    row(f"var dim {d}", lambda x, d=d: x.var(d), X())
    row(f"cumsum dim {d}", lambda x, d=d: x.cumsum(d), X())
    row(f"softmax dim {d}", lambda x, d=d: x.softmax(d), X())
for dtype in ("bf16", "f16", "i64"):
    row(f"sum dim 1 {dtype}", lambda x: x.sum(1), lambda dtype=dtype: randint(100, 8, 512, 768, dtype=dtype))
    row(f"sum dim 2 {dtype}", lambda x: x.sum(2), lambda dtype=dtype: randint(100, 8, 512, 768, dtype=dtype))
    row(f"amax dim 2 {dtype}", lambda x: x.amax(2), lambda dtype=dtype: randint(100, 8, 512, 768, dtype=dtype))
    row(f"argmax dim 2 {dtype}", lambda x: x.argmax(2), lambda dtype=dtype: randint(100, 8, 512, 768, dtype=dtype))
    row(f"cumsum dim 1 {dtype}", lambda x: x.cumsum(1), lambda dtype=dtype: randint(100, 64, 4096, dtype=dtype))
row("sum all", lambda x: x.sum(), X())
row("max all", lambda x: x.max(), X())
row("sum dims of image", lambda x: x.sum((2, 3)), IMAGE())
row("mean dims 0 2 3", lambda x: x.mean((0, 2, 3)), IMAGE())
row("var_mean dims 0 2 3", lambda x: torch.var_mean(x, (0, 2, 3)), IMAGE())
row("norm dim 2", lambda x: x.norm(dim=2), X())
row("normalize", lambda x: F.normalize(x, dim=-1), X())
row("logsumexp dim 2", lambda x: x.logsumexp(2), X())
row("log_softmax vocabulary", lambda x: x.log_softmax(-1), lambda: randn(32, 50257))
row("argmax vocabulary", lambda x: x.argmax(-1), lambda: randn(32, 50257))
row("prod dim 1", lambda x: x.prod(1), lambda: positive(512, 1024))
row("all dim 1", lambda x: x.all(1), lambda: torch.ones(4096, 512, dtype=torch.bool))
row("any dim 0", lambda x: x.any(0), lambda: torch.zeros(4096, 512, dtype=torch.bool))
row("count of mask", lambda x: x.sum(1), lambda: randint(2, 4096, 512, dtype="bool"))
row("std_mean dim 1 f64", lambda x: torch.std_mean(x, 1), lambda: randn(2048, 512, dtype="f64"))

# ---- scans, sorting ------------------------------------------------------------------------

row("cumsum mask", lambda x: x.cumsum(1), lambda: randint(2, 32, 512))
row("cumsum long", lambda x: x.cumsum(0), lambda: randn(1 << 20))
row("cumprod dim 1", lambda x: x.cumprod(1), lambda: positive(64, 4096))
row("logcumsumexp dim 1", lambda x: x.logcumsumexp(1), lambda: randn(64, 4096))
row("cummax dim 1", lambda x: x.cummax(1), lambda: randn(64, 4096))
row("sort dim 1", lambda x: x.sort(1), lambda: randn(64, 4096))
row("sort vocabulary", lambda x: x.sort(1, descending=True), lambda: randn(4, 50257))
row("sort i64", lambda x: x.sort(1), lambda: randint(1 << 40, 64, 4096))
row("sort dim 0", lambda x: x.sort(0), lambda: randn(256, 1024))
row("argsort long", lambda x: x.argsort(), lambda: randn(1 << 18))
row("sort small i64", lambda x: x.sort(), lambda: randint(64, 1 << 17))
row("topk 5", lambda x: x.topk(5), lambda: randn(32, 50257))
row("topk 50", lambda x: x.topk(50), lambda: randn(32, 50257))
row("topk 2 of 64", lambda x: x.topk(2), lambda: randn(4096, 64))
row("topk 1000", lambda x: x.topk(1000), lambda: randn(8, 16384))
row("topk 50 bf16", lambda x: x.topk(50), lambda: randn(32, 50257, dtype="bf16"))
row("kthvalue", lambda x: x.kthvalue(100), lambda: randn(64, 4096))
row("median dim 1", lambda x: x.median(1), lambda: randn(64, 4096))
row("quantile", lambda x: x.quantile(0.9, dim=1), lambda: randn(64, 4096))
row("searchsorted", lambda s, x: torch.searchsorted(s, x), lambda: randn(1024).sort()[0], lambda: randn(1 << 17))
row("bucketize", lambda x, s: torch.bucketize(x, s), lambda: randn(1 << 17), lambda: randn(32).sort()[0])
row("histc", lambda x: x.histc(100, -3, 3), lambda: randn(1 << 18))
row("bincount", lambda x: x.bincount(minlength=1000), lambda: randint(1000, 1 << 18))

# ---- indices ---------------------------------------------------------------------------------

TABLE = lambda: randn(30522, 768)
row("embedding", lambda w, i: F.embedding(i, w), TABLE, lambda: randint(30522, 8, 512))
row("embedding bf16", lambda w, i: F.embedding(i, w), lambda: randn(30522, 768, dtype="bf16"), lambda: randint(30522, 8, 512))
row("embedding_bag", lambda w, i: F.embedding_bag(i, w, mode="sum"), lambda: randn(100000, 64), lambda: randint(100000, 512, 32))
row("index_select dim 1", lambda x, i: x.index_select(1, i), X(), lambda: randint(512, 256))
row("index_select dim 2", lambda x, i: x.index_select(2, i), X(), lambda: randint(768, 256))
row("gather dim 1", lambda x, i: x.gather(1, i), lambda: randn(64, 4096), lambda: randint(4096, 64, 4096))
row("gather dim 0", lambda x, i: x.gather(0, i), lambda: randn(4096, 64), lambda: randint(4096, 4096, 64))
row("take_along_dim", lambda x, i: x.take_along_dim(i, 1), X(), lambda: randint(512, 8, 64, 1).expand(8, 64, 768).contiguous())
row("index rows", lambda x, i: x[i], lambda: randn(16384, 128), lambda: randint(16384, 16384))
row("index pairs", lambda x, i, j: x[i, j], lambda: randn(512, 512), lambda: randint(512, 1 << 17), lambda: randint(512, 1 << 17))
row("index mask", lambda x, m: x[m], lambda: randn(4096, 256), lambda: randint(2, 4096, dtype="bool"))
row("masked_select", lambda x, m: x.masked_select(m), lambda: randn(1024, 1024), lambda: randint(2, 1024, 1024, dtype="bool"))
row("index_put", lambda x, i, v: x.index_put((i,), v), lambda: randn(16384, 128), lambda: torch.randperm(16384)[:4096], lambda: randn(4096, 128))
row("index_put accumulate", lambda x, i, v: x.index_put((i,), v, accumulate=True), lambda: randn(16384, 128), lambda: randint(16384, 16384), lambda: randn(16384, 128))
row("index_add", lambda x, i, v: x.index_add(0, i, v), lambda: randn(4096, 128), lambda: randint(4096, 16384), lambda: randn(16384, 128))
row("index_copy", lambda x, i, v: x.index_copy(2, i, v), lambda: randn(8, 12, 512, 64), lambda: torch.arange(64), lambda: randn(8, 12, 64, 64))
row("scatter", lambda x, i, v: x.scatter(1, i, v), lambda: randn(64, 4096), lambda: randint(4096, 64, 1024), lambda: randn(64, 1024))
row("scatter value", lambda x, i: x.scatter(1, i, 1.0), lambda: torch.zeros(4096, 64), lambda: randint(64, 4096, 2))
row("scatter_add", lambda x, i, v: x.scatter_add(0, i, v), lambda: randn(4096, 64), lambda: randint(4096, 16384, 1).expand(16384, 64).contiguous(), lambda: randn(16384, 64))
row("scatter_reduce amax", lambda x, i, v: x.scatter_reduce(0, i, v, "amax"), lambda: randn(4096, 64), lambda: randint(4096, 16384, 1).expand(16384, 64).contiguous(), lambda: randn(16384, 64))
row("one_hot", lambda i: F.one_hot(i, 1000), lambda: randint(1000, 4096))
row("unique", lambda x: x.unique(), lambda: randint(1000, 1 << 16))
row("unique inverse", lambda x: x.unique(return_inverse=True, return_counts=True), lambda: randint(1000, 1 << 16))
row("nonzero", lambda x: x.nonzero(), lambda: randint(2, 1024, 512))
row("nonzero sparse", lambda x: x.nonzero(), lambda: torch.rand(1024, 1024) > 0.99)
row("isin", lambda x, y: torch.isin(x, y), lambda: randint(1 << 20, 1 << 16), lambda: randint(1 << 20, 64))

# ---- moving ------------------------------------------------------------------------------------

row("cat dim 1", lambda x, y: torch.cat((x, y), 1), IMAGE(), IMAGE())
row("cat dim 2", lambda x, y: torch.cat((x, y), 2), X(), X())
row("cat halves", lambda x: torch.cat((-x[..., 32:], x[..., :32]), -1), lambda: randn(8, 12, 512, 64))
row("stack last", lambda x, y: torch.stack((x, y), -1), X(), X())
row("permute heads", lambda x: x.view(8, 512, 12, 64).permute(0, 2, 1, 3).contiguous(), X())
row("permute to last", lambda x: x.permute(0, 2, 3, 1).contiguous(), IMAGE())
row("transpose", lambda x: x.mT.contiguous(), X())
row("transpose bf16", lambda x: x.mT.contiguous(), X("bf16"))
row("transpose i64", lambda x: x.mT.contiguous(), lambda: randint(9, 1024, 1024))
row("roll windows", lambda x: x.roll((-3, -3), (1, 2)), lambda: randn(8, 56, 56, 96))
row("flip dim 1", lambda x: x.flip(1), X())
row("flip last", lambda x: x.flip(2), X())
row("pad zeros", lambda x: F.pad(x, (1, 1, 1, 1)), IMAGE())
row("pad reflect", lambda x: F.pad(x, (3, 3, 3, 3), mode="reflect"), IMAGE())
row("pad replicate", lambda x: F.pad(x, (1, 1, 1, 1), mode="replicate"), IMAGE())
row("pad circular", lambda x: F.pad(x, (1, 1, 1, 1), mode="circular"), IMAGE())
row("repeat", lambda x: x.repeat(1, 4, 1), lambda: randn(8, 128, 768))
row("repeat_interleave", lambda x: x.repeat_interleave(4, 1), lambda: randn(8, 8, 512, 64))
row("expand contiguous", lambda x: x[:, :, None].expand(8, 8, 4, 512, 64).reshape(8, 32, 512, 64), lambda: randn(8, 8, 512, 64))
row("tril", lambda x: x.tril(), lambda: randn(12, 512, 512))
row("pixel_shuffle", lambda x: F.pixel_shuffle(x, 2), lambda: randn(4, 64, 64, 64))
row("pixel_unshuffle", lambda x: F.pixel_unshuffle(x, 2), lambda: randn(4, 16, 128, 128))
row("channel_shuffle", lambda x: x.view(8, 2, 32, 56, 56).transpose(1, 2).reshape(8, 64, 56, 56), IMAGE())
row("unfold", lambda x: F.unfold(x, 3, padding=1), lambda: randn(4, 32, 56, 56))
row("fold", lambda x: F.fold(x, (56, 56), 3, padding=1), lambda: randn(4, 288, 3136))
row("window partition", lambda x: x.view(8, 8, 7, 8, 7, 96).transpose(2, 3).reshape(-1, 49, 96), lambda: randn(8, 56, 56, 96))
row("meshgrid", lambda x, y: torch.stack(torch.meshgrid(x, y, indexing="ij"), -1), lambda: randn(512), lambda: randn(512))
row("split and sum", lambda x: sum(x.split(256, 2)), X())

# ---- elementwise ----------------------------------------------------------------------------------

row("where", lambda c, x, y: torch.where(c, x, y), lambda: randint(2, 8, 512, 768, dtype="bool"), X(), X())
row("masked_fill", lambda x, m: x.masked_fill(m, float("-inf")), lambda: randn(8, 12, 256, 256), lambda: randint(2, 8, 1, 256, 256, dtype="bool"))
for dtype in ("f32", "bf16", "f16", "i64", "i32", "u8"):
    row(f"add {dtype}", lambda x, y: x + y, lambda dtype=dtype: randint(100, 1 << 21, dtype=dtype), lambda dtype=dtype: randint(100, 1 << 21, dtype=dtype))
    row(f"compare {dtype}", lambda x, y: x < y, lambda dtype=dtype: randint(100, 1 << 21, dtype=dtype), lambda dtype=dtype: randint(100, 1 << 21, dtype=dtype))
for source, target in (("f32", "bf16"), ("bf16", "f32"), ("f32", "f16"), ("f16", "f32"), ("i64", "f32"), ("f32", "i64"),
                       ("u8", "f32"), ("bool", "f32"), ("f32", "bool"), ("i64", "i32"), ("i32", "i64"), ("f32", "f64"), ("bool", "i64")):
    row(f"cast {source} {target}", lambda x, t=DTYPES[target]: x.to(t), lambda s=source: randint(100, 1 << 21, dtype=s))
row("multiply i64", lambda x, y: x * y, lambda: randint(100, 1 << 20), lambda: randint(100, 1 << 20))
row("floor divide i64", lambda x: x // 16, lambda: randint(1 << 30, 1 << 20))
row("floor divide i64 tensors", lambda x, y: x // y, lambda: randint(1 << 30, 1 << 20), lambda: randint(100, 1 << 20) + 1)
row("remainder i64", lambda x: x % 16, lambda: randint(1 << 30, 1 << 20))
row("floor divide", lambda x, y: x // y, lambda: randn(1 << 20), lambda: positive(1 << 20))
row("remainder", lambda x, y: x % y, lambda: randn(1 << 20), lambda: positive(1 << 20))
row("fmod", lambda x, y: x.fmod(y), lambda: randn(1 << 20), lambda: positive(1 << 20))
row("shift i64", lambda x: (x >> 3) & 7, lambda: randint(1 << 30, 1 << 20))
for name, function in (("gelu", F.gelu), ("gelu tanh", lambda x: F.gelu(x, approximate="tanh")), ("silu", F.silu), ("tanh", torch.tanh),
                       ("sigmoid", torch.sigmoid), ("exp", torch.exp), ("erf", torch.erf), ("sin", torch.sin), ("softplus", F.softplus),
                       ("mish", F.mish), ("elu", F.elu), ("hardswish", F.hardswish), ("leaky_relu", F.leaky_relu), ("rsqrt", torch.rsqrt),
                       ("round", torch.round), ("isnan", torch.isnan), ("sign", torch.sign), ("lgamma", torch.lgamma), ("atan", torch.atan)):
    row(name, function, X())
for name, function in (("log", torch.log), ("log1p", torch.log1p), ("sqrt", torch.sqrt), ("pow 2.5", lambda x: x ** 2.5), ("digamma", torch.digamma),
                       ("reciprocal", torch.reciprocal)):
    row(name, function, lambda: positive(8, 512, 768))
row("pow tensors", torch.pow, lambda: positive(1 << 20), lambda: randn(1 << 20))
row("atan2", torch.atan2, lambda: randn(1 << 20), lambda: randn(1 << 20))
row("clamp i64", lambda x: x.clamp(3, 60), lambda: randint(100, 1 << 20))
row("relative positions", lambda p: (p[None, :] - p[:, None]).clamp(-128, 127) + 128, lambda: torch.arange(1024))
row("causal mask", lambda p: torch.where(p[None, :] <= p[:, None], 0.0, float("-inf")), lambda: torch.arange(1024))
row("add row", lambda x, y: x + y, X(), lambda: randn(768))
row("add channel", lambda x, y: x + y, IMAGE(), lambda: randn(1, 64, 1, 1))
row("mul column", lambda x, y: x * y, X(), lambda: randn(8, 512, 1))
row("gelu bf16", F.gelu, X("bf16"))
row("exp f64", torch.exp, lambda: randn(1 << 20, dtype="f64"))

# ---- norms, pooling, resampling ---------------------------------------------------------------------

row("layer_norm", lambda x, w, b: F.layer_norm(x, (768,), w, b), X(), lambda: randn(768), lambda: randn(768))
row("layer_norm bf16", lambda x, w, b: F.layer_norm(x, (768,), w, b), X("bf16"), lambda: randn(768, dtype="bf16"), lambda: randn(768, dtype="bf16"))
row("rms_norm", lambda x, w: F.rms_norm(x, (768,), w), X(), lambda: randn(768))
row("group_norm", nn.GroupNorm(32, 64), IMAGE())
row("instance_norm", lambda x: F.instance_norm(x), IMAGE())
row("batch_norm", nn.BatchNorm2d(64).eval(), IMAGE())
row("batch_norm training", lambda x: F.batch_norm(x, None, None, training=True), IMAGE())
row("batch_norm 1d", nn.BatchNorm1d(768).eval(), lambda: randn(4096, 768))
row("local_response_norm", lambda x: F.local_response_norm(x, 5), lambda: randn(4, 64, 56, 56))
row("max_pool2d", lambda x: F.max_pool2d(x, 3, 2, 1), lambda: randn(4, 64, 112, 112))
row("max_pool2d 2", lambda x: F.max_pool2d(x, 2), IMAGE())
row("max_pool2d indices", lambda x: F.max_pool2d(x, 2, return_indices=True), IMAGE())
row("max_pool2d bf16", lambda x: F.max_pool2d(x, 3, 2, 1), lambda: randn(4, 64, 112, 112, dtype="bf16"))
row("max_pool1d", lambda x: F.max_pool1d(x, 2), lambda: randn(8, 256, 2048))
row("max_pool3d", lambda x: F.max_pool3d(x, 2), lambda: randn(2, 32, 16, 56, 56))
row("avg_pool1d", lambda x: F.avg_pool1d(x, 4), lambda: randn(8, 256, 2048))
row("avg_pool2d", lambda x: F.avg_pool2d(x, 2), IMAGE())
row("avg_pool2d 3", lambda x: F.avg_pool2d(x, 3, 1, 1), IMAGE())
row("avg_pool3d", lambda x: F.avg_pool3d(x, 2), lambda: randn(2, 32, 16, 56, 56))
row("adaptive_avg_pool2d 1", lambda x: F.adaptive_avg_pool2d(x, 1), lambda: randn(8, 512, 14, 14))
row("adaptive_avg_pool2d 7", lambda x: F.adaptive_avg_pool2d(x, 7), lambda: randn(8, 512, 14, 14))
row("adaptive_avg_pool2d 6 of 13", lambda x: F.adaptive_avg_pool2d(x, 6), lambda: randn(8, 256, 13, 13))
row("adaptive_max_pool2d", lambda x: F.adaptive_max_pool2d(x, 7), lambda: randn(8, 256, 14, 14))
row("adaptive_avg_pool1d", lambda x: F.adaptive_avg_pool1d(x, 10), lambda: randn(8, 256, 2048))
row("lp_pool2d", lambda x: F.lp_pool2d(x, 2, 2), IMAGE())
row("max_unpool2d", lambda x, i: F.max_unpool2d(x, i, 2), lambda: randn(8, 64, 28, 28), lambda: F.max_pool2d(randn(8, 64, 56, 56), 2, return_indices=True)[1])
row("upsample nearest", lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), lambda: randn(4, 64, 56, 56))
row("upsample nearest odd", lambda x: F.interpolate(x, size=(77, 91), mode="nearest"), lambda: randn(4, 64, 56, 56))
row("upsample nearest 1d", lambda x: F.interpolate(x, scale_factor=2, mode="nearest"), lambda: randn(8, 256, 1024))
row("upsample bilinear", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), lambda: randn(4, 64, 56, 56))
row("upsample bilinear image", lambda x: F.interpolate(x, size=(512, 512), mode="bilinear", align_corners=True), lambda: randn(1, 21, 128, 128))
row("downsample bilinear", lambda x: F.interpolate(x, size=(224, 224), mode="bilinear"), lambda: randn(4, 3, 480, 640))
row("upsample bilinear bf16", lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), lambda: randn(4, 64, 56, 56, dtype="bf16"))
row("upsample bicubic", lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), lambda: randn(4, 64, 56, 56))
row("resize bicubic antialias", lambda x: F.interpolate(x, size=(224, 224), mode="bicubic", antialias=True), lambda: randn(1, 3, 480, 640))
row("upsample linear", lambda x: F.interpolate(x, scale_factor=2, mode="linear"), lambda: randn(8, 256, 1024))
row("upsample trilinear", lambda x: F.interpolate(x, scale_factor=2, mode="trilinear"), lambda: randn(1, 32, 16, 28, 28))
GRID = lambda: torch.rand(4, 56, 56, 2) * 2.2 - 1.1
row("grid_sample", lambda x, g: F.grid_sample(x, g, align_corners=False), lambda: randn(4, 64, 56, 56), GRID)
row("grid_sample border", lambda x, g: F.grid_sample(x, g, padding_mode="border", align_corners=True), lambda: randn(4, 64, 56, 56), GRID)
row("grid_sample nearest", lambda x, g: F.grid_sample(x, g, mode="nearest", align_corners=False), lambda: randn(4, 64, 56, 56), GRID)
row("grid_sample points", lambda x, g: F.grid_sample(x, g, align_corners=False), lambda: randn(8, 32, 64, 64), lambda: torch.rand(8, 900, 4, 2) * 2 - 1)
row("grid_sample 3d", lambda x, g: F.grid_sample(x, g, align_corners=False), lambda: randn(1, 16, 16, 32, 32), lambda: torch.rand(1, 16, 32, 32, 3) * 2 - 1)
row("affine_grid", lambda t: F.affine_grid(t, (4, 3, 224, 224), align_corners=False), lambda: randn(4, 2, 3))

# ---- convolutions, products, recurrent layers -----------------------------------------------------------

row("conv1d wav2vec2 first", nn.Conv1d(1, 512, 10, 5, bias=False), lambda: randn(1, 1, 16000))
row("conv1d 512 k3 s2", nn.Conv1d(512, 512, 3, 2, bias=False), lambda: randn(1, 512, 1600))
row("conv1d grouped", nn.Conv1d(768, 768, 128, padding=64, groups=16), lambda: randn(1, 768, 100))
row("conv1d depthwise", nn.Conv1d(512, 512, 31, padding=15, groups=512), lambda: randn(1, 512, 1024))
row("conv1d causal depthwise", nn.Conv1d(1536, 1536, 4, padding=3, groups=1536), lambda: randn(1, 1536, 512))
row("conv1d whisper", nn.Conv1d(80, 384, 3, padding=1), lambda: randn(1, 80, 3000))
row("conv1d vocoder", nn.Conv1d(64, 64, 7, dilation=3, padding=9), lambda: randn(1, 64, 4096))
row("conv1d to one", nn.Conv1d(32, 1, 7, padding=3), lambda: randn(1, 32, 16384))
row("conv2d first", nn.Conv2d(3, 64, 7, 2, 3), lambda: randn(1, 3, 224, 224))
row("conv2d patches", nn.Conv2d(3, 768, 16, 16), lambda: randn(1, 3, 224, 224))
row("conv2d 3x3", nn.Conv2d(64, 64, 3, padding=1), lambda: randn(1, 64, 56, 56))
row("conv2d 1x1", nn.Conv2d(256, 64, 1), lambda: randn(1, 256, 56, 56))
row("conv2d one channel", nn.Conv2d(1, 32, 3, padding=1), lambda: randn(8, 1, 28, 28))
row("conv2d to rgb", nn.Conv2d(64, 3, 3, padding=1), lambda: randn(1, 64, 128, 128))
row("conv2d 5x5 s2", nn.Conv2d(32, 64, 5, 2, 2), lambda: randn(1, 32, 112, 112))
row("conv2d depthwise", nn.Conv2d(144, 144, 3, padding=1, groups=144), lambda: randn(1, 144, 56, 56))
row("conv2d depthwise s2", nn.Conv2d(144, 144, 3, 2, 1, groups=144), lambda: randn(1, 144, 56, 56))
row("conv2d depthwise 7x7", nn.Conv2d(96, 96, 7, padding=3, groups=96), lambda: randn(1, 96, 56, 56))
row("conv2d dilated", nn.Conv2d(256, 256, 3, padding=2, dilation=2), lambda: randn(1, 256, 28, 28))
row("conv2d groups 32", nn.Conv2d(128, 128, 3, padding=1, groups=32), lambda: randn(1, 128, 56, 56))
row("conv2d bf16", nn.Conv2d(64, 64, 3, padding=1).to(torch.bfloat16), lambda: randn(1, 64, 56, 56, dtype="bf16"))
row("conv3d", nn.Conv3d(3, 64, 3, padding=1), lambda: randn(1, 3, 8, 56, 56))
row("conv3d 32", nn.Conv3d(32, 32, 3, padding=1), lambda: randn(1, 32, 8, 28, 28))
row("conv3d patches", nn.Conv3d(3, 768, (2, 16, 16), (2, 16, 16)), lambda: randn(1, 3, 8, 112, 112))
row("conv3d depthwise", nn.Conv3d(64, 64, 3, padding=1, groups=64), lambda: randn(1, 64, 8, 28, 28))
row("conv_transpose2d", nn.ConvTranspose2d(128, 64, 4, 2, 1), lambda: randn(1, 128, 28, 28))
row("conv_transpose2d k2", nn.ConvTranspose2d(128, 64, 2, 2), lambda: randn(1, 128, 56, 56))
row("conv_transpose2d depthwise", nn.ConvTranspose2d(64, 64, 4, 2, 1, groups=64), lambda: randn(1, 64, 56, 56))
row("conv_transpose2d groups", nn.ConvTranspose2d(64, 64, 4, 2, 1, groups=8), lambda: randn(1, 64, 28, 28))
row("conv_transpose1d", nn.ConvTranspose1d(256, 128, 16, 8, 4), lambda: randn(1, 256, 128))
row("conv_transpose3d", nn.ConvTranspose3d(32, 16, 2, 2), lambda: randn(1, 32, 8, 28, 28))
row("lstm", nn.LSTM(256, 256, batch_first=True), lambda: randn(8, 64, 256))
row("lstm bidirectional", nn.LSTM(128, 128, 2, bidirectional=True, batch_first=True), lambda: randn(1, 128, 128))
row("gru", nn.GRU(256, 256, batch_first=True), lambda: randn(8, 64, 256))
row("rnn tanh", nn.RNN(128, 128, batch_first=True), lambda: randn(8, 64, 128))
row("lstm_cell", nn.LSTMCell(512, 512), lambda: randn(16, 512))
row("linear", nn.Linear(768, 3072), lambda: randn(128, 768))
row("linear one row", nn.Linear(768, 3072), lambda: randn(1, 768))
row("linear narrow", nn.Linear(768, 2), lambda: randn(4096, 768))
row("linear wide of few", nn.Linear(4, 256), lambda: randn(16384, 4))
row("bilinear", nn.Bilinear(64, 64, 32), lambda: randn(512, 64), lambda: randn(512, 64))
row("bmm heads", torch.bmm, lambda: randn(96, 128, 64), lambda: randn(96, 64, 128))
row("bmm small", torch.bmm, lambda: randn(4096, 8, 8), lambda: randn(4096, 8, 8))
row("bmm vectors", torch.bmm, lambda: randn(512, 1, 64), lambda: randn(512, 64, 256))
row("matmul 4x4 points", lambda x, y: x @ y, lambda: randn(65536, 3), lambda: randn(3, 3))
row("einsum bhqd bhkd", lambda q, k: torch.einsum("bhqd,bhkd->bhqk", q, k), lambda: randn(8, 12, 128, 64), lambda: randn(8, 12, 128, 64))
row("einsum bqhd bkhd", lambda q, k: torch.einsum("bqhd,bkhd->bhqk", q, k), lambda: randn(8, 128, 12, 64), lambda: randn(8, 128, 12, 64))
row("einsum outer", lambda x, y: torch.einsum("bi,bj->bij", x, y), lambda: randn(512, 64), lambda: randn(512, 64))
row("einsum nctv vw", lambda x, a: torch.einsum("nctv,vw->nctw", x, a), lambda: randn(2, 64, 150, 25), lambda: randn(25, 25))
row("matmul i64", lambda x, y: x @ y, lambda: randint(9, 128, 128), lambda: randint(9, 128, 128))
row("mm f64", torch.mm, lambda: randn(256, 256, dtype="f64"), lambda: randn(256, 256, dtype="f64"))
row("mv", torch.mv, lambda: randn(2048, 1024), lambda: randn(1024))
row("attention", F.scaled_dot_product_attention, *[lambda: randn(2, 12, 256, 64)] * 3)
row("attention mask", lambda q, k, v, m: F.scaled_dot_product_attention(q, k, v, m), *[lambda: randn(2, 12, 256, 64)] * 3, lambda: randn(2, 1, 256, 256))
row("cdist", torch.cdist, lambda: randn(512, 64), lambda: randn(512, 64))
row("cdist points", torch.cdist, lambda: randn(1024, 3), lambda: randn(1024, 3))
row("cdist l1", lambda x, y: torch.cdist(x, y, 1), lambda: randn(900, 4), lambda: randn(100, 4))
row("pairwise_distance", F.pairwise_distance, lambda: randn(4096, 256), lambda: randn(4096, 256))
row("cosine_similarity", F.cosine_similarity, lambda: randn(4096, 256), lambda: randn(4096, 256))
row("cross", torch.cross, lambda: randn(65536, 3), lambda: randn(65536, 3))

# ---- Fourier transforms, linear algebra, losses ------------------------------------------------------------

row("rfft 512", lambda x: torch.view_as_real(torch.fft.rfft(x)), lambda: randn(512, 512))
row("fft2 14", lambda x: torch.view_as_real(torch.fft.rfft2(x)), lambda: randn(512, 14, 14))
row("rfft2 irfft2 56", lambda x: torch.fft.irfft2(torch.fft.rfft2(x)), lambda: randn(64, 56, 56))
row("filter 14", lambda x, w: torch.fft.irfft2(torch.fft.rfft2(x, dim=(1, 2), norm="ortho") * torch.view_as_complex(w), s=(14, 14), dim=(1, 2), norm="ortho"),
    lambda: randn(8, 14, 14, 384), lambda: randn(14, 8, 384, 2))
row("stft", lambda x: torch.view_as_real(torch.stft(x, 400, 160, window=torch.hann_window(400), return_complex=True)), lambda: randn(1, 64000))
row("fft 1000", lambda x: torch.view_as_real(torch.fft.fft(x)), lambda: randn(256, 1000))
row("inv 4x4", torch.linalg.inv, lambda: randn(1024, 4, 4) + 4 * torch.eye(4))
row("inv 64", torch.linalg.inv, lambda: randn(16, 64, 64) + 16 * torch.eye(64))
row("det 3x3", torch.linalg.det, lambda: randn(4096, 3, 3))
row("solve 8", torch.linalg.solve, lambda: randn(512, 8, 8) + 8 * torch.eye(8), lambda: randn(512, 8, 1))
row("cholesky 32", torch.linalg.cholesky, lambda: (lambda a: a @ a.mT + torch.eye(32))(randn(64, 32, 32)))
row("qr 16", lambda x: torch.linalg.qr(x)[1].abs(), lambda: randn(256, 16, 16))
row("svd 3x3", lambda x: torch.linalg.svdvals(x), lambda: randn(512, 3, 3))
row("eigh 16", lambda x: torch.linalg.eigvalsh(x), lambda: (lambda a: a + a.mT)(randn(128, 16, 16)))
row("cross_entropy", F.cross_entropy, lambda: randn(512, 30522), lambda: randint(30522, 512))
row("nll_loss 2d", F.nll_loss, lambda: randn(4, 21, 128, 128), lambda: randint(21, 4, 128, 128))
row("mse_loss", F.mse_loss, X(), X())
row("smooth_l1_loss", F.smooth_l1_loss, X(), X())
row("binary_cross_entropy_with_logits", F.binary_cross_entropy_with_logits, lambda: randn(1 << 20), lambda: torch.rand(1 << 20))
row("kl_div", lambda x, y: F.kl_div(x, y, reduction="batchmean"), lambda: randn(512, 4096).log_softmax(1), lambda: randn(512, 4096).softmax(1))
row("ctc_loss", lambda x, y: F.ctc_loss(x, y, (128,) * 8, (20,) * 8), lambda: randn(128, 8, 32).log_softmax(2), lambda: randint(31, 8, 20) + 1)
row("bincount loss weights", lambda x: 1 / (x.bincount(minlength=21) + 1.0), lambda: randint(21, 1 << 16))


# ---- measuring -------------------------------------------------------------------------------------------------

class Call(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        y = self.function(*inputs)
        return y if isinstance(y, torch.Tensor) else tuple(flat(y))


def flat(y):
    return [y] if isinstance(y, torch.Tensor) else [t for part in y for t in flat(part)]


def measure(call, inputs, seconds):
    times = []
    while sum(times) < seconds:
        start = time.perf_counter()
        call(*inputs)
        times.append(time.perf_counter() - start)
    return statistics.median(times), min(times)


def difference(want, got):
    """The worst of the first result, of the greatest element; "" where it is within the tolerance. A
    second one may be indices, which are others of equal elements."""
    worst = 0.0
    for k, t in enumerate(want[:1]):
        other = got[str(k)]
        if t.shape != other.shape or t.dtype != other.dtype:
            return f"  {t.dtype} {tuple(t.shape)}, not {other.dtype} {tuple(other.shape)}"
        a, b = t.double(), other.double()
        finite = a.isfinite()
        scale = a[finite].abs().max().item() if finite.any() else 1.0
        off = (a - b)[finite].abs().max().item() / (scale or 1.0) if finite.any() else 0.0
        worst = max(worst, off if torch.equal(finite, b.isfinite()) else float("inf"))
    return "" if worst <= TOLERANCE.get(want[0].dtype, 1e-4) else f"  differs by {worst:.0e}"


def bench(args, name, folder):
    torch.manual_seed(7)
    function, inputs = ROWS[name]
    inputs = tuple(make() for make in inputs)
    program, given, out = (os.path.join(folder, f) for f in ("program.pt2", "in.safetensors", "out.safetensors"))
    exported = torch.export.export(Call(function), inputs, strict=False)
    torch.export.save(exported, program)
    names = [spec.arg.name for spec in exported.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    save_file(dict(zip(names, inputs)), given)

    def run(repeat):
        done = subprocess.run([args.exg, "run", program, "--input", given, "--threads", "1", "--repeat", str(repeat),
                               "--stats", "--json", "--output", out], capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip()[-200:])
        return json.loads(done.stdout)

    with torch.no_grad():
        want = flat(function(*inputs))
        first = run(2)
        note = difference(want, load_file(out))
        repeat = max(3, min(2000, int(args.seconds * 1e9 / first["min_ns"]) + 1))
        ours, theirs = [], []
        for _ in range(args.rounds):
            ran = run(repeat)
            ours.append((ran["median_ns"] / 1e9, ran["min_ns"] / 1e9))
            theirs.append(measure(function, inputs, args.seconds))
    medians = [statistics.median(median for median, _ in times) for times in (ours, theirs)]
    least = [min(shortest for _, shortest in times) for times in (ours, theirs)]
    return medians, least, note


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--exg", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.1)
    args = parser.parse_args()
    torch.set_num_threads(1)
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for name in ROWS:
            if not re.search(args.only, name):
                continue
            try:
                medians, least, note = bench(args, name, folder)
                lines.append((least[0] / least[1], f"{name:<34}{medians[0] * 1e6:>11.1f}{medians[1] * 1e6:>11.1f}"
                              f"{medians[0] / medians[1]:>8.2f}{least[0] / least[1]:>8.2f}{note}"))
            except Exception as error:  # what does not run is part of the table
                lines.append((float("inf"), f"{name:<34}  {str(error).strip().splitlines()[0][:100]}"))
    print(f"{'operator':<34}{'exg us':>11}{'eager us':>11}{'medians':>8}{'least':>8}")
    for _, line in sorted(lines, reverse=True):
        print(line)


if __name__ == "__main__":
    main()
