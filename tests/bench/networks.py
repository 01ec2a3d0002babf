"""networks.py - models for models.py that are no transformer of text: a UNet of a diffusion model,
speech to text, a state space model, a recurrent network and a perceptron over batches."""

import torch
import torch.nn.functional as F
from torch import nn


class Residual(nn.Module):
    def __init__(self, come, go, time):
        super().__init__()
        self.first, self.second = nn.GroupNorm(8, come), nn.GroupNorm(8, go)
        self.into, self.out = nn.Conv2d(come, go, 3, padding=1), nn.Conv2d(go, go, 3, padding=1)
        self.time, self.skip = nn.Linear(time, go), nn.Conv2d(come, go, 1) if come != go else nn.Identity()

    def forward(self, x, time):
        y = self.into(F.silu(self.first(x))) + self.time(time)[:, :, None, None]
        return self.skip(x) + self.out(F.silu(self.second(y)))


class Attention(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.heads, self.norm = heads, nn.GroupNorm(8, width)
        self.qkv, self.out = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x):
        batch, width, rows, columns = x.shape
        q, k, v = (t.reshape(batch, self.heads, width // self.heads, -1).transpose(2, 3)
                   for t in self.qkv(self.norm(x)).chunk(3, 1))
        y = F.scaled_dot_product_attention(q, k, v).transpose(2, 3).reshape(x.shape)
        return x + self.out(y)


class UNet(nn.Module):
    def __init__(self, width=64, time=256):
        super().__init__()
        self.embed = nn.Sequential(nn.Linear(64, time), nn.SiLU(), nn.Linear(time, time))
        self.into, self.out = nn.Conv2d(4, width, 3, padding=1), nn.Conv2d(width, 4, 3, padding=1)
        widths = (width, 2 * width, 4 * width)
        self.down = nn.ModuleList(Residual(a, b, time) for a, b in zip((width, *widths), widths))
        self.halve = nn.ModuleList(nn.Conv2d(w, w, 3, 2, 1) for w in widths[:2])
        self.middle = nn.ModuleList([Residual(widths[2], widths[2], time), Attention(widths[2])])
        self.up = nn.ModuleList(Residual(a + b, b, time) for a, b in ((widths[2], widths[2]), (widths[2], widths[1]), (widths[1], width)))

    def forward(self, x, step):
        angles = step[:, None] * torch.exp(torch.arange(32, dtype=x.dtype) * -0.3)
        time = self.embed(torch.cat([angles.sin(), angles.cos()], 1).to(x.dtype))
        x, kept = self.into(x), []
        for i, block in enumerate(self.down):
            kept.append(x := block(x, time))
            x = self.halve[i](x) if i < 2 else x
        x = self.middle[1](self.middle[0](x, time))
        for i, block in enumerate(self.up):
            x = F.interpolate(x, scale_factor=2.0, mode="nearest") if i > 0 else x
            x = block(torch.cat([x, kept.pop()], 1), time)
        return self.out(x)


def unet(dtype):
    return UNet(), (torch.randn(1, 4, 64, 64), torch.tensor([17.0]))


class Whisper(nn.Module):
    def __init__(self):
        super().__init__()
        from transformers import WhisperConfig, WhisperModel
        self.model = WhisperModel(WhisperConfig(attn_implementation="sdpa", use_cache=False))

    def forward(self, features, ids):
        return self.model(input_features=features, decoder_input_ids=ids).last_hidden_state


def whisper(dtype):
    return Whisper(), (torch.randn(1, 80, 3000), torch.randint(0, 50000, (1, 16)))


class Mamba(nn.Module):
    """A block of Mamba: a convolution along the sequence, and a scan whose steps depend on the input."""

    def __init__(self, width=512, states=16):
        super().__init__()
        inner = 2 * width
        self.states, self.rank, self.norm = states, width // 16, nn.RMSNorm(width)
        self.into, self.out = nn.Linear(width, 2 * inner, bias=False), nn.Linear(inner, width, bias=False)
        self.along = nn.Conv1d(inner, inner, 4, groups=inner, padding=3)
        self.chosen = nn.Linear(inner, self.rank + 2 * states, bias=False)
        self.step = nn.Linear(self.rank, inner)
        self.decay = nn.Parameter(torch.arange(1.0, states + 1).log().repeat(inner, 1))
        self.kept = nn.Parameter(torch.ones(inner))

    def forward(self, x):
        length = x.shape[1]
        y, gate = self.into(self.norm(x)).chunk(2, -1)
        y = F.silu(self.along(y.transpose(1, 2))[..., :length].transpose(1, 2))
        step, write, read = self.chosen(y).split([self.rank, self.states, self.states], -1)
        step = F.softplus(self.step(step))[..., None]
        decay = (step * -self.decay.exp()).exp()
        added = step * y[..., None] * write[:, :, None]
        state, rows = torch.zeros_like(added[:, 0]), []
        for t in range(length):
            state = decay[:, t] * state + added[:, t]
            rows.append((state * read[:, t, None]).sum(-1))
        y = torch.stack(rows, 1) + y * self.kept
        return x + self.out(y * F.silu(gate))


def mamba(dtype):
    return nn.Sequential(*(Mamba() for _ in range(4))), (torch.randn(1, 64, 512),)


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells = nn.LSTM(256, 256, 2, batch_first=True)

    def forward(self, x):
        return self.cells(x)[0]


def lstm(batch):
    return Lstm(), (torch.randn(batch, 64, 256),)


def perceptron(batch):
    return nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 64)), (
        torch.randn(batch, 512),)
