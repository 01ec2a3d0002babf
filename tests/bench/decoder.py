"""decoder.py - a language model of Llama's form with half a billion weights, for models.py: grouped
queries, rotary positions, SwiGLU, a static cache of 1024 positions in buffers; its linear layers of
bf16 or f32, or of int8 or four bits as programs write them. And a layer of experts whose weights are gathered.
"""

import torch
import torch.nn.functional as F
from torch import nn

WIDTH, LAYERS, HEADS, KV_HEADS, HEAD, HIDDEN, WORDS, CACHE, GROUP = 1536, 16, 24, 8, 64, 4096, 32000, 1024, 32


class Int8(nn.Module):
    """A scale a row, after the product."""

    def __init__(self, weight):
        super().__init__()
        scale = weight.abs().amax(1) / 127
        self.register_buffer("weight", (weight / scale[:, None]).round().to(torch.int8))
        self.register_buffer("scale", scale)

    def forward(self, x):
        return F.linear(x, self.weight.to(x.dtype)) * self.scale


class Int4(nn.Module):
    """Two numbers a byte, a scale a group."""

    def __init__(self, weight):
        super().__init__()
        rows, columns = weight.shape
        groups = weight.reshape(rows, columns // GROUP, GROUP)
        scale = groups.abs().amax(2, keepdim=True) / 7
        q = ((groups / scale).round().clamp(-8, 7) + 8).to(torch.uint8).reshape(rows, columns)
        self.register_buffer("weight", q[:, 0::2] | (q[:, 1::2] << 4))
        self.register_buffer("scale", scale)

    def forward(self, x):
        rows = self.weight.shape[0]
        q = torch.stack([self.weight & 15, self.weight >> 4], -1).reshape(rows, -1, GROUP)
        return F.linear(x, ((q.to(x.dtype) - 8) * self.scale).reshape(rows, -1))


class Block(nn.Module):
    def __init__(self):
        super().__init__()

        def linear(inner, outer):
            return nn.Linear(inner, outer, bias=False)

        self.q, self.k, self.v = linear(WIDTH, HEADS * HEAD), linear(WIDTH, KV_HEADS * HEAD), linear(WIDTH, KV_HEADS * HEAD)
        self.o, self.gate, self.up, self.down = linear(HEADS * HEAD, WIDTH), linear(WIDTH, HIDDEN), linear(WIDTH, HIDDEN), linear(HIDDEN, WIDTH)
        self.before, self.after = nn.RMSNorm(WIDTH, 1e-5), nn.RMSNorm(WIDTH, 1e-5)
        self.register_buffer("keys", torch.zeros(1, KV_HEADS, CACHE, HEAD))
        self.register_buffer("values", torch.zeros(1, KV_HEADS, CACHE, HEAD))

    def forward(self, x, position, cos, sin, mask):
        count = x.shape[1]
        y = self.before(x)
        q, k, v = (f(y).view(1, count, -1, HEAD).transpose(1, 2) for f in (self.q, self.k, self.v))
        q, k = (t * cos + torch.cat([-t[..., HEAD // 2 :], t[..., : HEAD // 2]], -1) * sin for t in (q, k))
        self.keys.index_copy_(2, position, k)
        self.values.index_copy_(2, position, v)
        y = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=mask, enable_gqa=True)
        x = x + self.o(y.transpose(1, 2).reshape(1, count, WIDTH))
        y = self.after(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    def __init__(self, kind=None):
        super().__init__()
        self.embed, self.blocks = nn.Embedding(WORDS, WIDTH), nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = nn.RMSNorm(WIDTH, 1e-5), nn.Linear(WIDTH, WORDS, bias=False)
        for weight in self.parameters():
            if weight.dim() > 1:
                weight.data.normal_(0, 0.02)
        for module in list(self.modules()):
            for name, child in list(module.named_children()):
                if kind is not None and isinstance(child, nn.Linear):
                    setattr(module, name, kind(child.weight.data))

    def forward(self, ids, position):
        x = self.embed(ids)
        angles = position[:, None].float() / 10000 ** (torch.arange(0, HEAD, 2).float() / HEAD)
        angles = torch.cat([angles, angles], -1)
        mask = (torch.arange(CACHE) <= position[:, None])[None, None]
        for block in self.blocks:
            x = block(x, position, angles.cos().to(x.dtype), angles.sin().to(x.dtype), mask)
        return self.head(self.norm(x[:, -1:]))


def decoder(kind, count):
    """One token at position 600, or the first ones."""
    ids = torch.randint(0, WORDS, (1, count))
    return Decoder(kind), (ids, torch.tensor([600]) if count == 1 else torch.arange(count))


class Experts(nn.Module):
    """Two experts a token, whose weights are gathered."""

    def __init__(self, experts=8, width=256, hidden=512):
        super().__init__()
        self.gate = nn.Linear(width, experts)
        self.up = nn.Parameter(torch.randn(experts, hidden, width) * 0.05)
        self.down = nn.Parameter(torch.randn(experts, width, hidden) * 0.05)

    def forward(self, x):
        weights, chosen = self.gate(x).softmax(-1).topk(2, -1)
        y = F.silu(torch.einsum("td,tkfd->tkf", x, self.up[chosen]))
        return (torch.einsum("tkf,tkdf->tkd", y, self.down[chosen]) * weights[..., None]).sum(1)


def experts(tokens):
    return Experts(), (torch.randn(tokens, 256),)
