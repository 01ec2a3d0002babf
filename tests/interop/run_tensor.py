"""What `--place tensor` finds, beside placements written by hand as Megatron has them: on no number of ranks does it move more bytes,
or need more memory a rank. Small programs of the usual kinds, exported here; `--table` prints all numbers. What tensor finds is run, too,
and compared with PyTorch. See README.md beside this file."""

import argparse
import fnmatch
import json
import math
import sys
import tempfile

from run_interop import Exg, Report, fail, safetensors, torch

nn = torch.nn
F = nn.functional

RANKS = (2, 3, 4, 5, 6, 8, 16, 64)
RUN_RANKS = (2, 3, 4, 6, 8)
PIECES = ((2, 2), (2, 3), (3, 2), (2, 4), (4, 2))
COMBINED = (("3x2x2", "tensor,fsdp,expert"), ("2x2x2", "fsdp,sequence,fsdp"), ("2x3", "fsdp,auto"), ("5", "pipeline"))
CORE = (("2", "tensor"), ("3", "tensor"), ("3", "data"), ("2x2", "data,tensor"))
IN_PIECES = ("gqa", "kv2", "kv3", "mha", "gpt2", "joined", "stacked", "turned", "grouped", "torch", "vit", "moe", "conv", "t5")


class RMSNorm(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


def turned(x, cos, sin):
    a, b = x.chunk(2, -1)
    return x * cos + torch.cat([-b, a], -1) * sin


class GroupedAttention(nn.Module):
    def __init__(self, width, heads, groups, fused):
        super().__init__()
        self.heads, self.groups, self.size, self.fused = heads, groups, width // heads, fused
        self.q = nn.Linear(width, width, bias=False)
        self.k = nn.Linear(width, groups * self.size, bias=False)
        self.v = nn.Linear(width, groups * self.size, bias=False)
        self.o = nn.Linear(width, width, bias=False)

    def forward(self, x, cos, sin):
        b, t, _ = x.shape
        q = turned(self.q(x).view(b, t, self.heads, self.size).transpose(1, 2), cos, sin)
        k = turned(self.k(x).view(b, t, self.groups, self.size).transpose(1, 2), cos, sin)
        v = self.v(x).view(b, t, self.groups, self.size).transpose(1, 2)
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        else:
            k = k.repeat_interleave(self.heads // self.groups, 1)
            v = v.repeat_interleave(self.heads // self.groups, 1)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.o(y.transpose(1, 2).reshape(b, t, -1))


class GroupedBlock(nn.Module):
    def __init__(self, width, heads, groups, inner, fused):
        super().__init__()
        self.n1, self.n2 = RMSNorm(width), RMSNorm(width)
        self.a = GroupedAttention(width, heads, groups, fused)
        self.up = nn.Linear(width, inner, bias=False)
        self.gate = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x, cos, sin):
        x = x + self.a(self.n1(x), cos, sin)
        y = self.n2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Grouped(nn.Module):
    """A decoder with grouped heads, turned positions and gated products."""

    def __init__(self, width=128, heads=16, groups=4, inner=352, words=640, fused=False):
        super().__init__()
        self.emb = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(GroupedBlock(width, heads, groups, inner, fused) for _ in range(2))
        self.norm = RMSNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        size = width // heads
        angles = torch.outer(torch.arange(64.0), 1 / 10000 ** (torch.arange(0, size, 2) / size))
        angles = torch.cat([angles, angles], -1)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def forward(self, ids):
        x = self.emb(ids)
        cos, sin = self.cos[: ids.shape[1]], self.sin[: ids.shape[1]]
        for block in self.blocks:
            x = block(x, cos, sin)
        return self.head(self.norm(x))


class Heads(nn.Module):
    """Attention as it is written out, with biases; `memory`: what is attended to, if not x."""

    def __init__(self, width, heads, bias=True):
        super().__init__()
        self.heads, self.size = heads, width // heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=bias) for _ in range(4))

    def split(self, x):
        return x.view(x.shape[0], x.shape[1], self.heads, self.size).transpose(1, 2)

    def forward(self, x, memory=None, position=None, scale=None):
        memory = x if memory is None else memory
        q, k, v = self.split(self.q(x)), self.split(self.k(memory)), self.split(self.v(memory))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=position, scale=scale)
        return self.o(y.transpose(1, 2).reshape(x.shape[0], x.shape[1], -1))


class Block(nn.Module):
    def __init__(self, width, heads, inner):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.a = Heads(width, heads)
        self.fc1, self.fc2 = nn.Linear(width, inner), nn.Linear(inner, width)

    def forward(self, x):
        x = x + self.a(self.n1(x))
        return x + self.fc2(F.gelu(self.fc1(self.n2(x))))


class Plain(nn.Module):
    """An encoder with biases, whose head is the table of its embeddings."""

    def __init__(self, width=120, heads=12, inner=480, words=600):
        super().__init__()
        self.emb, self.pos = nn.Embedding(words, width), nn.Embedding(64, width)
        self.blocks = nn.ModuleList(Block(width, heads, inner) for _ in range(2))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, ids):
        x = self.emb(ids) + self.pos(torch.arange(ids.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Turned(nn.Module):
    """GPT-2's product: the weight is the other way round, rows are one list."""

    def __init__(self, inner, outer):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(inner, outer) / 8), nn.Parameter(torch.randn(outer) / 8)

    def forward(self, x):
        return torch.addmm(self.bias, x.view(-1, x.shape[-1]), self.weight).view(*x.shape[:-1], -1)


class FusedBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.n1, self.n2 = heads, nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.o = Turned(width, 3 * width), Turned(width, width)
        self.fc1, self.fc2 = Turned(width, 4 * width), Turned(4 * width, width)

    def forward(self, x):
        b, t, width = x.shape
        q, k, v = (part.view(b, t, self.heads, -1).transpose(1, 2) for part in self.qkv(self.n1(x)).split(width, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, width))
        return x + self.fc2(F.gelu(self.fc1(self.n2(x)), approximate="tanh"))


class Fused(nn.Module):
    """GPT-2 as transformers exports it: q, k and v are one product, the table of words is the head, and not the first to be read."""

    def __init__(self, width=96, heads=12, layers=4, words=1201):
        super().__init__()
        self.emb, self.pos = nn.Embedding(words, width), nn.Embedding(64, width)
        self.blocks = nn.ModuleList(FusedBlock(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.emb.weight

    def forward(self, ids):
        ids = ids.view(-1, ids.shape[-1])
        x = self.emb(ids) + self.pos(torch.arange(ids.shape[1]).unsqueeze(0))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class JoinedBlock(nn.Module):
    """Queries, keys and values as one product, in the forms in which libraries part it, and a gate with what it lets through. `apart`: each by
    itself."""

    def __init__(self, form, width, heads, groups, inner):
        super().__init__()
        self.form, self.heads, self.groups, self.size, self.inner = form, heads, groups, width // heads, inner
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        sizes = [width, groups * self.size, groups * self.size]
        self.qkv = nn.ModuleList(nn.Linear(width, n) for n in (sizes if form == "apart" else [sum(sizes)]))
        self.gate = nn.ModuleList(nn.Linear(width, n, bias=False) for n in ([inner, inner] if form == "apart" else [2 * inner]))
        self.o, self.down = nn.Linear(width, width), nn.Linear(inner, width)

    def parts(self, x):
        b, t, width = x.shape
        if self.form == "apart":
            return [f(x) for f in self.qkv]
        y = self.qkv[0](x)
        if self.form == "stacked":  # as timm has it
            return y.reshape(b, t, 3, width).permute(2, 0, 1, 3).unbind(0)
        if self.form == "turned":  # as torch.nn.MultiheadAttention has it
            y = y.unflatten(-1, (3, width)).unsqueeze(0).transpose(0, -2).squeeze(-2).contiguous()
            return y[0], y[1], y[2]
        side = self.groups * self.size
        return y[..., :width], y[..., width : width + side], y[..., width + side :]

    def forward(self, x):
        b, t, width = x.shape
        q, k, v = (part.reshape(b, t, -1, self.size).transpose(1, 2) for part in self.parts(self.n1(x)))
        y = F.scaled_dot_product_attention(q, k, v, enable_gqa=self.groups < self.heads)
        x = x + self.o(y.transpose(1, 2).reshape(b, t, width))
        y = self.n2(x)
        gate, up = [f(y) for f in self.gate] if self.form == "apart" else self.gate[0](y).chunk(2, -1)
        return x + self.down(F.silu(gate) * up)


class Joined(nn.Module):
    def __init__(self, form, width=96, heads=12, groups=12, inner=192, words=480):
        super().__init__()
        self.emb = nn.Embedding(words, width)
        self.blocks = nn.ModuleList(JoinedBlock(form, width, heads, groups, inner) for _ in range(2))
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids):
        x = self.emb(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


class Torch(nn.Module):
    """torch.nn's own layers, and what they compute with a product for each part."""

    def __init__(self, apart=False, width=96, heads=12):
        super().__init__()
        layer = (lambda: Apart(width, heads)) if apart else (lambda: nn.MultiheadAttention(width, heads, batch_first=True))
        self.a = nn.ModuleList(layer() for _ in range(2))
        self.apart = apart

    def forward(self, x):
        for a in self.a:
            x = x + (a(x) if self.apart else a(x, x, x, need_weights=False)[0])
        return x


class Apart(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        b, t, width = x.shape
        q, k, v = (f(x).view(b, t, self.heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        return self.o(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, width))


class Vision(nn.Module):
    def __init__(self, width=96, heads=12, inner=384):
        super().__init__()
        self.patch = nn.Conv2d(3, width, 8, stride=8)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.pos = nn.Parameter(torch.randn(1, 17, width))
        self.blocks = nn.ModuleList(Block(width, heads, inner) for _ in range(2))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 100)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.pos
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x)[:, 0])


class Experts(nn.Module):
    """Gated experts in tensors (E, d, f); every token through all, weighted by the router."""

    def __init__(self, width=64, count=8, inner=96):
        super().__init__()
        self.a = Heads(width, 8, bias=False)
        self.n1, self.n2 = RMSNorm(width), RMSNorm(width)
        self.router = nn.Linear(width, count, bias=False)
        self.gate = nn.Parameter(torch.randn(count, width, inner) / 8)
        self.up = nn.Parameter(torch.randn(count, width, inner) / 8)
        self.down = nn.Parameter(torch.randn(count, inner, width) / 8)

    def forward(self, x):
        x = x + self.a(self.n1(x))
        y = self.n2(x).flatten(0, 1)
        weight, index = torch.topk(F.softmax(self.router(y), -1), 2)
        weight = torch.zeros(y.shape[0], self.gate.shape[0]).scatter(1, index, weight)
        inner = F.silu(torch.einsum("nd,edf->enf", y, self.gate)) * torch.einsum("nd,edf->enf", y, self.up)
        out = torch.einsum("enf,efd->end", inner, self.down)
        return x + (out * weight.t().unsqueeze(-1)).sum(0).view_as(x)


class Convolutions(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.c1, self.b1 = nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width)
        self.c2, self.b2 = nn.Conv2d(width, 2 * width, 3, padding=1), nn.BatchNorm2d(2 * width)
        self.c3, self.b3 = nn.Conv2d(2 * width, width, 3, padding=1), nn.BatchNorm2d(width)
        self.wide = nn.Conv2d(width, 4 * width, 1)
        self.deep = nn.Conv2d(4 * width, 4 * width, 3, padding=1, groups=4 * width)
        self.thin = nn.Conv2d(4 * width, width, 1)
        self.fc = nn.Linear(width, 50)

    def forward(self, x):
        x = F.relu(self.b1(self.c1(x)))
        x = x + F.relu(self.b3(self.c3(F.relu(self.b2(self.c2(x))))))
        x = x + self.thin(F.relu(self.deep(self.wide(x))))
        return self.fc(x.mean((2, 3)))


class Relative(nn.Module):
    """T5's: an encoder and a decoder, positions by a table of biases, no other biases."""

    def __init__(self, width=96, heads=12, inner=256, words=500):
        super().__init__()
        self.emb = nn.Embedding(words, width)
        self.bias = nn.Embedding(32, heads)
        self.enc = nn.ModuleList([Heads(width, heads, False) for _ in range(2)])
        self.dec = nn.ModuleList([Heads(width, heads, False) for _ in range(2)])
        self.cross = nn.ModuleList([Heads(width, heads, False) for _ in range(2)])
        self.norms = nn.ModuleList([RMSNorm(width) for _ in range(10)])
        self.wi0 = nn.ModuleList([nn.Linear(width, inner, bias=False) for _ in range(4)])
        self.wi1 = nn.ModuleList([nn.Linear(width, inner, bias=False) for _ in range(4)])
        self.wo = nn.ModuleList([nn.Linear(inner, width, bias=False) for _ in range(4)])
        self.head = nn.Linear(width, words, bias=False)

    def positions(self, t):
        at = torch.arange(t)
        return self.bias((at[:, None] - at[None, :]).clamp(-15, 16) + 15).permute(2, 0, 1).unsqueeze(0)

    def feed(self, i, x):
        return self.wo[i](F.gelu(self.wi0[i](x)) * self.wi1[i](x))

    def forward(self, ids, out):
        norm = iter(self.norms)
        x, there = self.emb(ids), self.positions(ids.shape[1])
        for i in range(2):
            x = x + self.enc[i](next(norm)(x), position=there, scale=1.0)
            x = x + self.feed(i, next(norm)(x))
        y, there = self.emb(out), self.positions(out.shape[1])
        for i in range(2):
            y = y + self.dec[i](next(norm)(y), position=there, scale=1.0)
            y = y + self.cross[i](next(norm)(y), memory=x, scale=1.0)
            y = y + self.feed(2 + i, next(norm)(y))
        return self.head(y)


def ids(words, *shape):
    return torch.randint(0, words, shape)


def column(*names):
    return dict.fromkeys(names, "S(0)")


def row(*names):
    return dict.fromkeys(names, "S(1)")


def attention(name, biased):
    """Megatron's: q, k, v by column, o by row."""
    out = {**column(*(f"{name}.{x}.weight" for x in "qkv")), **row(f"{name}.o.weight")}
    return {**out, **column(*(f"{name}.{x}.bias" for x in "qkv"))} if biased else out


WORDS = column("emb.weight", "head.weight")
BLOCK = {**attention("*.a", True), **column("*.fc1.weight", "*.fc1.bias"), **row("*.fc2.weight")}
GATED = {**column("*.up.weight", "*.gate.weight"), **row("*.down.weight")}



def grouped(**sizes):
    """Keys and values by column too, or whole."""
    by_hand = [attention("*.a", False), {**column("*.a.q.weight"), **row("*.a.o.weight")}]
    return Grouped(**sizes), (ids(640, 2, 24),), [{**hand, **GATED, **WORDS} for hand in by_hand]


def joined(form, **sizes):
    return Joined(form, **sizes), (ids(480, 3, 20),), [], Joined("apart", **sizes)


# Module, inputs, what is written by hand: several where there is more than one usual way; and the same with a product for each part, where
# the module's are joined.
KINDS = {
    "gqa": grouped,
    "gqa-fused": lambda: grouped(fused=True),
    "kv2": lambda: grouped(groups=2),
    "kv2-fused": lambda: grouped(groups=2, fused=True),
    "kv1": lambda: grouped(groups=1),
    "kv3": lambda: grouped(width=192, heads=12, groups=3),
    "kv3-fused": lambda: grouped(width=192, heads=12, groups=3, fused=True),
    "mha": lambda: (Plain(), (ids(600, 3, 20),), [{**BLOCK, **WORDS}]),
    "gpt2": lambda: (
        Fused(),
        (ids(1201, 1, 32),),
        [
            {
                **row("*.qkv.weight", "*.fc1.weight"),
                **column("*.qkv.bias", "*.fc1.bias", "*.o.weight", "*.fc2.weight"),
                **WORDS,
            }
        ],
    ),
    "joined": lambda: joined("split"),
    "stacked": lambda: joined("stacked"),
    "turned": lambda: joined("turned"),
    "grouped": lambda: joined("split", groups=4),
    "torch": lambda: (Torch().train(), (torch.randn(3, 20, 96),), [], Torch(apart=True)),
    "vit": lambda: (
        Vision(),
        (torch.randn(2, 3, 32, 32),),
        [{**BLOCK, **column("patch.weight", "patch.bias", "head.weight", "head.bias")}],
    ),
    "moe": lambda: (
        Experts(),
        (torch.randn(12, 5, 64),),
        [
            {**attention("a", False), **column("gate", "up", "down")},
            {**attention("a", False), "gate": "S(2)", "up": "S(2)", "down": "S(1)"},
        ],
    ),
    "conv": lambda: (
        Convolutions(),
        (torch.randn(2, 3, 16, 16),),
        [
            {
                **column("c2.weight", "c2.bias", "b2.*", "wide.weight", "wide.bias", "deep.weight", "deep.bias"),
                **row("c3.weight", "thin.weight"),
                **column("c1.weight", "c1.bias", "b1.*", "fc.weight", "fc.bias"),
            }
        ],
    ),
    "t5": lambda: (
        Relative(),
        (ids(500, 2, 14), ids(500, 2, 9)),
        [
            {
                **attention("enc.*", False),
                **attention("dec.*", False),
                **attention("cross.*", False),
                **column("wi0.*.weight", "wi1.*.weight"),
                **row("wo.*.weight", "bias.weight"),
                **WORDS,
            }
        ],
    ),
}


def present(placement, module):
    """The patterns that match a weight of the module's; `b2.*` of its buffers too."""
    names = [*dict(module.named_parameters(remove_duplicate=False)), *dict(module.named_buffers())]
    names = [name for name in names if not name.endswith("num_batches_tracked")]
    out = {}
    for pattern, place in placement.items():
        for name in names:
            if fnmatch.fnmatchcase(name, pattern):
                out.setdefault(name, place)
    return out


def plan(exg, path, ranks, place):
    out = json.loads(exg.command("plan", path, "--mesh", str(ranks), "--place", place, "--json"))
    return out["moved_bytes"], out["rank_weight_bytes"], out["rank_value_bytes"], out["predicted_ns"]


def as_vllm(module, inputs, ranks):
    """Bytes that are moved and those of weights, where a head of keys and values is on as many ranks as need it: no placement
    of one mesh dim says so. None where heads of queries do not divide."""
    heads, groups = module.blocks[0].a.heads, module.blocks[0].a.groups
    if heads % ranks != 0:
        return None
    width, words = module.emb.weight.shape[1], module.emb.weight.shape[0]
    summed, logits = 4 * inputs[0].numel() * width, 4 * inputs[0].numel() * words
    moved = ((2 * len(module.blocks) + 1) * 2 * summed + logits) * (ranks - 1) / ranks
    weights = sum(4 * w.numel() / (1 if w.dim() < 2 else math.gcd(groups, ranks) if ".a.k" in name or ".a.v" in name else ranks)
                  for name, w in module.named_parameters())
    return moved, weights + 2 * 4 * inputs[0].shape[1] * width // heads


def no_worse_than_vllm(exg, name, path, module, inputs, ranks, table):
    ideal = as_vllm(module, inputs, ranks)
    if ideal is None:
        return
    found = plan(exg, path, ranks, "tensor")
    if table:
        print(f"{name:10} {ranks:3} {'as vLLM':10} {ideal[0]:9.0f} {ideal[1]:9.0f}")
    if found[0] > ideal[0] * 1.001 or found[1] > ideal[1] * 1.01:
        fail(f"tensor moves {found[0]} bytes and holds {found[1]}, vLLM {ideal[0]:.0f} and {ideal[1]:.0f}")


def agrees(exg, path, inputs, expected, ranks, place="tensor"):
    files = exg.path(".safetensors"), exg.path(".safetensors")
    names = [spec.arg.name for spec in torch.export.load(path).graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    safetensors.torch.save_file(dict(zip(names, inputs)), files[0])
    safetensors.torch.save_file({"0": expected.contiguous()}, files[1])
    words = ["--input", files[0], "--expect", files[1], "--rtol", "1e-3", "--atol", "1e-4"]
    exg.command("run", path, *words, "--mesh", ranks, "--place", place)


def compare(exg, name, path, files, ranks, table):
    found = plan(exg, path, ranks, "tensor")
    hands = [plan(exg, path, ranks, file) for file in files]
    if table:
        for who, (moved, weights, values, ns) in [("tensor", found), *((f"by hand {i + 1}", h) for i, h in enumerate(hands))]:
            print(f"{name:10} {ranks:3} {who:10} {moved:9} {weights:9} {values:9} {ns / 1000:9.1f}")
    for hand in hands:
        moved, memory = (a - b if abs(a - b) > b / 1000 else 0 for a, b in ((found[0], hand[0]), (sum(found[1:3]), sum(hand[1:3]))))
        if (moved > 0 and memory >= 0) or (memory > 0 and moved >= 0):
            fail(f"tensor moves {found[0]} bytes and needs {sum(found[1:3])}, by hand {hand[0]} and {sum(hand[1:3])}")


def as_if_apart(exg, name, path, there, ranks, table):
    found, other = plan(exg, path, ranks, "tensor"), plan(exg, there, ranks, "tensor")
    if table:
        print(f"{name:10} {ranks:3} {'tensor':10} {found[0]:9} {found[1]:9}\n{name:10} {ranks:3} {'apart':10} {other[0]:9} {other[1]:9}")
    if found[0] > other[0] * 1.001 or found[1] > other[1] * 1.01:
        fail(f"tensor moves {found[0]} bytes and holds {found[1]}, of products apart {other[0]} and {other[1]}")


def read_again(module):
    """Bytes of a table as often as it is read after the first time: whole only while it is read, it is gathered each time."""
    tables = {id(m.weight): 4 * m.weight.numel() for m in module.modules() if isinstance(m, nn.Embedding)}
    is_head = [m for m in module.modules() if isinstance(m, nn.Linear) and id(m.weight) in tables]
    return sum(tables[id(m.weight)] for m in is_head) + (4 * module.emb.weight.numel() if isinstance(module, Relative) else 0)


def pieces_of_parts(exg, path, module, data, tensor, table, name):
    """fsdp around tensor: a rank holds a piece of its own part of each weight, and what it gathers is that part, not the whole."""
    mesh = f"{data}x{tensor}"
    found, whole = plan(exg, path, mesh, "fsdp,tensor"), plan(exg, path, mesh, "data,tensor")
    moved, weights = whole[0] + (whole[1] + read_again(module) / tensor) * (data - 1) / data, whole[1] / data
    if table:
        print(f"{name:10} {mesh:>3} {'fsdp':10} {found[0]:9} {found[1]:9}\n{name:10} {mesh:>3} {'by hand':10} {moved:9.0f} {weights:9.0f}")
    if found[0] > moved * 1.01 or found[1] > weights * 1.08:  # vectors are whole
        fail(f"fsdp,tensor moves {found[0]} bytes and holds {found[1]}, by hand {moved:.0f} and {weights:.0f}")


def only_results_move(exg, path, expected, ranks):
    """data: rows are each rank's own, also where rows of products are joined and parted again."""
    moved, result = plan(exg, path, ranks, "data")[0], 4 * expected.numel() * (ranks - 1) / ranks
    if moved > result * 1.01:
        fail(f"data moves {moved} bytes, of a result of {result:.0f}")


def as_if_not_decomposed(exg, path, core, mesh, place):
    """Core ATen operators say the same with more views, and with matrices that are repeated."""
    found, other = plan(exg, core, mesh, place), plan(exg, path, mesh, place)
    if found[0] > other[0] * 1.03 or found[1] > other[1] * 1.01:
        fail(f"{place} over {mesh} moves {found[0]} bytes and holds {found[1]}, not decomposed {other[0]} and {other[1]}")


def check(exg, report, name, table):
    torch.manual_seed(0)
    module, inputs, by_hand, *apart = KINDS[name]()
    module = module if apart else module.eval()  # in training torch.nn writes its layers out
    path = exg.path(".pt2")
    with torch.no_grad():
        program = torch.export.export(module, inputs)
        expected = module(*inputs)
    torch.export.save(program, path)
    files = []
    for placement in by_hand:
        files.append(exg.path(".json"))
        files[-1].write_text(json.dumps({"weights": present(placement, module)}))
    for ranks in RANKS:
        report.check(f"{name} over {ranks}", lambda: compare(exg, name, path, files, ranks, table))
        if isinstance(module, Grouped):
            report.check(f"{name} as vLLM over {ranks}", lambda: no_worse_than_vllm(exg, name, path, module, inputs, ranks, table))
    for other in apart:
        there = exg.path(".pt2")
        torch.export.save(torch.export.export(other, inputs), there)
        for ranks in RANKS:
            report.check(f"{name} as if apart over {ranks}", lambda: as_if_apart(exg, name, path, there, ranks, table))
    core = exg.path(".pt2")
    torch.export.save(program.run_decompositions(), core)
    for mesh, place in CORE:
        report.check(f"{name} of core operators, {place} over {mesh}", lambda: as_if_not_decomposed(exg, path, core, mesh, place))
    for mesh, place in COMBINED:
        report.check(f"{name} run as {place}", lambda: agrees(exg, path, inputs, expected, mesh, place))
        report.check(f"{name} of core operators run as {place}", lambda: agrees(exg, core, inputs, expected, mesh, place))
    for ranks in (2, 3) if inputs[0].shape[0] > 1 else ():
        report.check(f"{name} by rows over {ranks}", lambda: only_results_move(exg, path, expected, ranks))
    for data, tensor in PIECES if name in IN_PIECES else ():
        report.check(f"{name} in pieces over {data}x{tensor}", lambda: pieces_of_parts(exg, path, module, data, tensor, table, name))
    for ranks in RUN_RANKS:
        report.check(f"{name} run over {ranks}", lambda: agrees(exg, path, inputs, expected, ranks))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exg", required=True, help="the exg binary")
    parser.add_argument("--only", default="", help="kinds whose name begins so")
    parser.add_argument("--table", action="store_true", help="bytes moved, weights and values of a rank, predicted microseconds")
    options = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="exg-tensor-") as folder:
        for name in KINDS:
            if name.startswith(options.only):
                check(Exg(options.exg, folder), report, name, options.table)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
