"""Programs written after public bug reports about torch.export and what reads its files: a row a report, made by PyTorch, compared
with eager PyTorch, alone, over a mesh and in every form of file; what is refused with the sentence that says so. See README.md
beside this file."""

import dataclasses
import json
import math
import sys
import typing
import zipfile

import reports_of_others
from rows import Call, Function, Rows, fail, go, not_made, refused, run, runs, saved, torch, without
from run_interop import safetensors
from torch import nn
from torch.export import Dim, export
from torch.nn import functional as F

ROWS = Rows()
row = ROWS.add
AUTO = Dim.AUTO


# ---- memory and views ---------------------------------------------------------------------------


@row("01", "google-ai-edge/litert-torch#1238: constants that are views")
def _(exg):
    base = torch.randn(4, 6)
    held = {"turned": base.t(), "repeated": torch.randn(1, 6).expand(4, 6), "part": base[1:3, 2:], "images": torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last)}
    inline = base.t()[1:3]

    def forward(m, x):
        return x @ m.turned.t(), x * m.repeated[:2, :4] + m.part, m.images.flatten(1) + inline.sum(), m.images * 2, x.t() @ x[:, :2], inline * x[:, :1]

    return runs(exg, Function(forward, **held), torch.randn(2, 4))


@row("02", "pytorch/pytorch#163587: weights that are slices of one storage")
def _(exg):
    flat = torch.randn(60)
    held = {name: flat[a : a + 20].view(4, 5) for name, a in (("a", 0), ("b", 15), ("c", 40))}
    held["odd"] = flat[1::3][:16].view(4, 4)
    return runs(exg, Function(lambda m, x: ((x @ m.a) * m.b[0] + m.c.sum(), m.odd @ m.a), **held), torch.randn(3, 4))


@row("03", "pytorch/pytorch#161705: slices past the end of a size that is open")
def _(exg):
    def forward(x):
        return x[:, :5], x[:, -3:], x[:, 2:100], x[:, -100:2], x[:, 7:]

    return runs(exg, forward, torch.randn(2, 9), torch.randn(2, 12), shapes=({1: AUTO},)), runs(exg, lambda x: x[:, :5], torch.randn(2, 3))


@row("04", "pytorch/pytorch#154647: a mask that is a constant, and sizes that data say")
def _(exg):
    mask = torch.tensor([True, False, True, True])

    def forward(x):
        chosen = x[:, mask]
        return chosen, chosen.sum(1), x[x > 0].sum(), x[x > 0].mean()

    return runs(exg, forward, torch.randn(3, 4), torch.rand(3, 4) + 1)


@row("05", "pytorch/pytorch#121000: attention over cache[:, :position + 1]")
def _(exg):
    def forward(m, q, position):
        n = position.item()
        torch._check(n >= 0)
        torch._check(n < 128)
        return F.scaled_dot_product_attention(q, m.k[:, :, : n + 1], m.v[:, :, : n + 1])

    held = {"k": torch.randn(1, 2, 128, 8), "v": torch.randn(1, 2, 128, 8)}
    q = torch.randn(1, 2, 1, 8)
    return runs(exg, Function(forward, **held), *((q, torch.tensor(n)) for n in (5, 0, 126)))


class Cache(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(8, 8)
        self.register_buffer("keys", torch.zeros(1, 32, 8))

    def forward(self, x, position):
        n = position.item()
        torch._check(n >= 0)
        torch._check(n + x.shape[1] <= 32)
        self.keys.narrow(1, n, x.shape[1]).copy_(self.proj(x))
        return (self.keys * 2).sum(1)


@row("06", "pytorch/executorch#1933: a cache written where data say, token by token by the command")
def _(exg):
    module = Cache().eval()
    x = torch.randn(1, 3, 8)
    runs(exg, module, (x, torch.tensor(4)), (torch.randn(1, 7, 8), torch.tensor(20)), shapes=({1: AUTO}, None))
    path = saved(exg, export(module, (x, torch.tensor(4)), dynamic_shapes=({1: AUTO}, None)))
    state, words = exg.path(".safetensors"), ()
    for position in range(5):
        token = torch.randn(1, 1, 8)
        given, output = exg.path(".safetensors"), exg.path(".safetensors")
        safetensors.torch.save_file({"x": token, "position": torch.tensor(position)}, given)
        exg.command("run", path, "--input", given, *words, "--state-output", state, "--output", output)
        words = ("--state", state)
        with torch.no_grad():
            expected = module(token, torch.tensor(position))
        torch.testing.assert_close(safetensors.torch.load_file(output)["0"], expected, rtol=1e-4, atol=1e-5)


@row("07", "pytorch/TensorRT#3174: booleans broadcast with open sizes")
def _(exg):
    def forward(x, lengths):
        mask = torch.arange(x.shape[1])[None] < lengths[:, None]
        return (x * mask[..., None]).sum(1), mask & mask.flip(0), ~mask

    calls = [(torch.randn(b, n, 3), torch.randint(1, n + 1, (b,))) for b, n in ((3, 5), (4, 9))]
    return runs(exg, forward, *calls, shapes=({0: AUTO, 1: AUTO}, {0: AUTO}))


@row("08", "pytorch/pytorch#147475: positions resampled to an image of any size")
def _(exg):
    parts = {"patch": nn.Conv2d(3, 8, 14, 14), "grid": torch.randn(1, 8, 4, 4), "up": nn.ConvTranspose2d(8, 3, 2, 2)}

    def forward(m, x):
        y = m.patch(x)
        return m.up(y + F.interpolate(m.grid, size=y.shape[-2:], mode="bicubic", antialias=True, align_corners=False))

    h, w = Dim("h", min=2, max=9), Dim("w", min=2, max=9)
    return runs(exg, Function(forward, **parts), torch.randn(1, 3, 42, 56), torch.randn(1, 3, 70, 28), shapes=({2: 14 * h, 3: 14 * w},))


@row("09", "pytorch/pytorch#131897: resampled down and up, sizes open")
def _(exg):
    def forward(x):
        y = F.interpolate(F.interpolate(x, scale_factor=0.5, mode="bilinear"), scale_factor=2.0, mode="bilinear")
        return y, F.interpolate(x, scale_factor=1.7, mode="nearest"), F.interpolate(x, scale_factor=1.5, mode="bicubic", recompute_scale_factor=True)

    return runs(exg, forward, torch.randn(1, 2, 8, 12), torch.randn(1, 2, 14, 10), shapes=({2: AUTO, 3: AUTO},))


@row("10", "iree-org/iree-turbine#1226: *args that share a size, nested names")
def _(exg):
    class Sum(nn.Module):
        def forward(self, *xs, more):
            return xs[0] + xs[1] * more["a"][0], more["b"]["c"] - xs[2]

    n = Dim("n")
    more = {"a": [{0: n}], "b": {"c": {0: n}}}
    calls = [Call(*(torch.randn(k, 2) for _ in range(3)), more={"a": [torch.randn(k, 2)], "b": {"c": torch.randn(k, 2)}}) for k in (3, 5)]
    return runs(exg, Sum(), *calls, shapes={"xs": tuple({0: n} for _ in range(3)), "more": more})


@row("11", "llvm/torch-mlir#3118: broadcast_to a size of another input, sizes as results")
def _(exg):
    calls = [(torch.randn(1, 3), torch.randn(n, 3)) for n in (4, 6)]
    return runs(exg, lambda x, y: (x.broadcast_to(y.shape[0], 3), y.shape[0], y.shape[0] * 2 + 1, y.numel()), *calls, shapes=(None, {0: AUTO}))


@row("12", "pytorch/pytorch#112429: an input written through views of it")
def _(exg):
    def forward(x):
        x.view(-1)[3:7].add_(1)
        x.t()[0].mul_(2)
        x.diagonal().sub_(1)
        x.select(1, 1).zero_()
        return x.sum(0)

    return runs(exg, forward, torch.randn(3, 4))


@row("13", "pytorch/pytorch#195993: what is written is also given back")
def _(exg):
    def forward(m, x):
        m.count.add_(1)
        m.kept[:, 1:].copy_(x[:, :-1])
        return m.count, m.kept, m.kept + m.count

    return runs(exg, Function(forward, count=torch.zeros(()), kept=torch.randn(2, 4)), torch.randn(2, 4))


@row("14", "pytorch/pytorch#197096: running statistics, written behind the schema")
def _(exg):
    def forward(m, x):
        return F.instance_norm(x, m.mean, m.var, use_input_stats=True) + F.batch_norm(x, m.mean2, m.var2, training=True)

    held = {"mean": torch.zeros(3), "var": torch.ones(3), "mean2": torch.zeros(3), "var2": torch.ones(3)}
    return runs(exg, Function(forward, **held), torch.randn(4, 3, 5))


@row("15", "pytorch/pytorch#166572: one cache under two names, and a view of it")
def _(exg):
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("a", torch.zeros(3, 2))
            self.register_buffer("b", self.a)

        def forward(self, x):
            self.a[1].copy_(x)
            self.b[2].add_(1)
            return self.a.sum(0) + self.b[1]

    return runs(exg, Twice().eval(), torch.randn(2), core=False)


# ---- control flow -------------------------------------------------------------------------------


def loop(*arguments):
    return torch._higher_order_ops.while_loop(*arguments)


@row("16", "pytorch/pytorch#121453: a loop in a loop")
def _(exg):
    def forward(i, x):
        def outer(i, x):
            return i + 1, loop(lambda j, y: j < i + 2, lambda j, y: (j + 1, y * 1.1 + 1), (torch.zeros((), dtype=torch.int64), x))[1]

        return loop(lambda i, x: i < 4, outer, (i, x))

    return runs(exg, forward, *((torch.tensor(i), torch.randn(2, 3)) for i in (0, 3, 9)))


@row("17", "pytorch/pytorch#169197: branches that hold layers")
def _(exg):
    def forward(m, x):
        for _ in range(3):
            x = torch.cond(x.sum() > 0, lambda x: m.a(x) - 0.5, lambda x: m.b(x).relu(), (x,))
        return x

    calls = [torch.rand(3, 4), -torch.rand(5, 4)]
    return runs(exg, Function(forward, a=nn.Linear(4, 4), b=nn.Linear(4, 4)), *calls, shapes=({0: AUTO},), core=False)


@row("18", "pytorch/pytorch#154559: experts by counts.tolist(), some of them empty")
def _(exg):
    def forward(m, x, to):
        order = to.argsort(stable=True)
        counts = (to[:, None] == torch.arange(3)).sum(0).tolist()
        for count in counts:
            torch._check(count >= 0)
        torch._check(sum(counts) == 6)
        parts = x[order].split(counts)
        done = torch.cat([part @ m.w[i] for i, part in enumerate(parts)])
        return done, torch.zeros(6, 5).index_put((order,), done)

    calls = [(torch.randn(6, 4), torch.tensor(to)) for to in ([0, 2, 1, 1, 0, 2], [2, 2, 2, 2, 2, 2])]
    return runs(exg, Function(forward, w=torch.randn(3, 4, 5)), *calls)


@row("19, 20", "huggingface/transformers#42697, #38518: grouped products of experts")
def _(exg):
    ends = torch.tensor([2, 2, 6, 8], dtype=torch.int32)

    def forward(m, x, ends):
        return torch._grouped_mm(x, m.w, offs=ends), F.grouped_mm(x * 2, m.w.transpose(1, 2).contiguous().transpose(1, 2), offs=ends)

    x = torch.randn(8, 16, dtype=torch.bfloat16)
    return runs(exg, Function(forward, w=torch.randn(4, 16, 8, dtype=torch.bfloat16)), (x, ends), meshes=("auto", "data"))


def generation(exg, family, **more):
    try:
        import transformers
    except ImportError:
        return without("transformers")
    sizes = dict(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=64, vocab_size=99, head_dim=8)
    config = getattr(transformers, f"{family}TextConfig" if family == "Gemma3" else f"{family}Config")(**sizes, attn_implementation="eager", **more)
    model = getattr(transformers, f"{family}ForCausalLM")(config).eval()
    module = Function(lambda m, ids: m.model(input_ids=ids, use_cache=False).logits, model=model)
    return runs(exg, module, torch.randint(3, 99, (2, 9)), core=False)


@row("21", "huggingface/transformers#47900: Gemma 3, layers that see a window")
def _(exg):
    return generation(exg, "Gemma3", layer_types=["sliding_attention", "full_attention"], sliding_window=4)


@row("22", "huggingface/optimum-executorch#218: a cache past its window")
def _(exg):
    def forward(m, x, position):
        m.keys.index_copy_(1, position % 4, x)
        seen = torch.arange(4)[None] <= position[:, None]
        return F.scaled_dot_product_attention(x, m.keys, m.keys, attn_mask=seen)

    calls = [(torch.randn(1, 1, 8), torch.tensor([p])) for p in (2, 9)]
    return runs(exg, Function(forward, keys=torch.zeros(1, 4, 8)), *calls)


@row("23, 24", "pytorch/pytorch#151010, #121761, #152130: made on GPUs, run on a processor")
def _(exg):
    module, x = Function(lambda m, x: m.b(m.a(x).relu().to("cpu")) + torch.arange(3, device="cpu"), a=nn.Linear(4, 5), b=nn.Linear(5, 3)), torch.randn(2, 4)
    path, other = saved(exg, export(module, (x,))), exg.path(".pt2")
    cuda = [0]

    def on_gpu(match):
        cuda[0] += 1
        return {"type": "cuda", "index": cuda[0] % 2}

    with zipfile.ZipFile(path) as source, zipfile.ZipFile(other, "w") as target:
        for name in source.namelist():
            data = source.read(name)
            if name.endswith("model.json"):
                data = json.dumps(json.loads(data, object_hook=lambda o: on_gpu(o) if o.keys() == {"type", "index"} else o)).encode()
            target.writestr(name, data)
    if cuda[0] == 0:
        fail("no device was found")
    from rows import expected_of

    program = torch.export.load(path)
    run(exg, other, program, Call(x), expected_of(module, program, Call(x)))


@row("25", "pytorch/pytorch#126674: regions of autocast and no_grad in each other")
def _(exg):
    def forward(x, y):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            a = x @ y
            with torch.autocast("cpu", enabled=False):
                b = x @ y
        with torch.autocast("cuda", dtype=torch.float16):
            c = y @ x
        with torch.no_grad():
            return a, b, c, a.float() + b

    return runs(exg, forward, (torch.randn(3, 3), torch.randn(3, 3)), meshes=("data",), core=False)


@dataclasses.dataclass
class Pair:
    x: torch.Tensor
    y: torch.Tensor


class Named(typing.NamedTuple):
    first: torch.Tensor
    number: int


torch.export.register_dataclass(Pair, serialized_type_name="exg_rows.Pair")
torch.utils._pytree._register_namedtuple(Named, serialized_type_name="exg_rows.Named")


@row("26", "huggingface/transformers#27871, pytorch/pytorch#145956: dataclasses, named tuples, None and numbers")
def _(exg):
    def forward(pair, more=None, scale=2.0):
        return {"named": Named(pair.x * scale, 3), "none": None, "pair": Pair(pair.y, pair.x + 1)}, [True, 2.5]

    return runs(exg, Function(forward), Call(Pair(torch.randn(2), torch.randn(3)), None, scale=0.5), core=False)


@row("27", "pytorch/pytorch#122618: example inputs lie in the file")
def _(exg):
    module = Function(lambda x, *, by: x * by)
    x, by = torch.randn(3).bfloat16(), torch.randn(3)
    path = saved(exg, export(module, (x,), {"by": by}))
    if not torch.allclose(exg.run(path)[0]["0"], x * by):
        fail("other inputs were taken")


# ---- numbers ------------------------------------------------------------------------------------


@row("39", "pytorch/pytorch#160749, pytorch/xla#9215, apple/coremltools#2258: complex numbers")
def _(exg):
    turn = torch.polar(torch.ones(5, 4), torch.outer(torch.arange(5.0), 1 / 100 ** (torch.arange(4) / 4)))

    def forward(m, x):
        y = torch.view_as_complex(x.reshape(2, 5, 4, 2)) * m.turn
        z = torch.fft.ifft(y * 1j + m.weight[:, None].mH.sum()) * turn
        return torch.view_as_real(y).flatten(2), z.real, z.abs(), z.mH.angle()

    return runs(exg, Function(forward, turn=turn, weight=nn.Parameter(torch.randn(3, dtype=torch.complex64))), torch.randn(2, 5, 8), meshes=("auto", "data"))


@row("40", "pytorch/pytorch#113504, #126618, #147854: STFT and back")
def _(exg):
    def forward(m, x):
        y = torch.stft(x, 64, 16, window=m.window, return_complex=True)
        return y.abs(), torch.istft(y, 64, 16, window=m.window, length=x.shape[-1])

    return runs(exg, Function(forward, window=torch.hann_window(64)), torch.randn(2, 400))


@row("41", "pytorch/pytorch#118740: a packed LSTM")
def _(exg):
    def forward(m, x, lengths):
        return m.lstm(nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True))[1][0]

    return not_made(lambda: saved(exg, export(Function(forward, lstm=nn.LSTM(3, 4, batch_first=True)), (torch.randn(2, 5, 3), torch.tensor([5, 3])))))


@row("42", "pytorch/pytorch#134137: func.grad in a module")
def _(exg):
    return not_made(lambda: saved(exg, export(Function(lambda x: torch.func.grad(lambda y: (y**3).sum())(x)), (torch.randn(3),))))


@row("43", "pytorch/pytorch#134137: forces as gradients, written out by make_fx")
def _(exg):
    from torch.fx.experimental.proxy_tensor import make_fx

    def forces(x, edges, weight):
        x = x.detach().requires_grad_()
        far = (x[edges[0]] - x[edges[1]]).norm(dim=-1, keepdim=True)
        energy = (torch.tanh(torch.exp(-far * torch.arange(1, 5)) @ weight)).sum()
        return energy.detach(), -torch.autograd.grad(energy, x)[0]

    weight = torch.randn(4, 8)
    calls = [(torch.randn(n, 3), torch.stack([torch.arange(n), torch.arange(1, n + 1) % n]), weight) for n in (5, 8)]
    traced = make_fx(forces, tracing_mode="symbolic")(*calls[0])
    return runs(exg, traced, *calls, shapes=[{0: AUTO}, {1: AUTO}, None], core=False)


@row("44", "sizes as numbers, and a tensor of three of them")
def _(exg):
    def forward(x, y):
        n, m = x.shape[0], y.shape[0]
        return (x[: n // 3 + 1], torch.zeros(max(n, m) - min(n, m) + 2), torch.ones(n // 4, m // 3 + 1), x * (n**2) + n**-1,
                torch.arange(n % 5 + 1) * (m / n), torch.full((n * 3 // 2,), m // 3), y[: m // 2 + 1], torch.tensor([n, m * 2, n - m]), n * m, n / m)

    return runs(exg, forward, *((torch.randn(n, 3), torch.randn(m)) for n, m in ((13, 9), (14, 8))), shapes=({0: AUTO}, {0: AUTO}))


@row("71", "a tensor of sizes, floats and what data say")
def _(exg):
    def forward(x, n):
        k = n.item()
        torch._check(k >= 0)
        return x.sum() * torch.tensor([x.shape[0], 3.5, x.shape[0] / 2]), torch.tensor([k, x.shape[0]]) * 2

    return runs(exg, forward, (torch.randn(6, 3), torch.tensor(4)), (torch.randn(3, 3), torch.tensor(9)), shapes=({0: AUTO}, None))


@row("73", "rows of sizes, and booleans among them")
def _(exg):
    return runs(exg, lambda x: (torch.tensor([[x.shape[0], 1], [2, x.shape[1]]]), torch.tensor([True, x.shape[0]])), torch.randn(4, 5), torch.randn(6, 7), shapes=({0: AUTO, 1: AUTO},))


@row("70", "the same with dtype=")
def _(exg):
    return runs(exg, lambda x: torch.tensor([x.shape[0], 2.5], dtype=torch.float32) * x[0], torch.randn(4, 2), torch.randn(7, 2), shapes=({0: AUTO},))


@row("45", "pytorch/pytorch#91990: sizes that data say")
def _(exg):
    def forward(x, n):
        some = x.nonzero()
        values, back, counts = torch.unique(x, return_inverse=True, return_counts=True)
        return some, x.masked_select(x > 0), values, back, counts, torch.arange(4).repeat_interleave(n), x.sum() * n[0].item()

    calls = [(torch.tensor(x), torch.tensor(n)) for x, n in (([[1, 0], [2, 2]], [1, 0, 2, 3]), ([[0, 0], [0, 0]], [0, 0, 0, 0]), ([[-1, -2], [3, 3]], [5, 1, 1, 1]))]
    return runs(exg, forward, *calls)


@row("46", "microsoft/onnxscript#2479, pytorch/pytorch#103749, onnx/onnx#8068: attention whose rows are masked away")
def _(exg):
    def forward(q, k, mask):
        call = F.scaled_dot_product_attention
        away = torch.zeros(5, 7).masked_fill(~mask, float("-inf"))
        return (call(q, k, k, attn_mask=mask), call(q, k, k, attn_mask=away), call(q, k, k, is_causal=True), call(q[0, 0], k[0, 0], k[0, 0]),
                call(q, k[:, :2], k[:, :2], enable_gqa=True), call(q.bfloat16(), k.bfloat16(), k.bfloat16(), attn_mask=mask))

    mask = torch.rand(5, 7) > 0.4
    mask[2] = False
    return runs(exg, forward, (torch.randn(1, 4, 5, 8), torch.randn(1, 4, 7, 8), mask))


@row("47, 48", "pytorch/pytorch#130150: a state-space layer, and linear attention")
def _(exg):
    def forward(m, x):
        y = m.conv(x.mT)[..., : x.shape[1]].mT
        decay, into = torch.exp(-F.softplus(m.dt(y))), m.b(y)
        state, given = torch.zeros(x.shape[0], 6), []
        for i in range(x.shape[1]):
            state = state * decay[:, i] + into[:, i]
            given.append(state)
        chunks = torch.stack(given, 1).unflatten(1, (2, -1))
        return torch.einsum("bcik,bcjk->bcij", chunks, chunks).tril() @ chunks

    parts = {"conv": nn.Conv1d(6, 6, 4, padding=3, groups=6), "dt": nn.Linear(6, 6), "b": nn.Linear(6, 6)}
    return runs(exg, Function(forward, **parts), torch.randn(2, 8, 6))


@row("49", "names with hyphens, slashes, spaces, letters of other alphabets, 200 letters")
def _(exg):
    class Names(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleDict({"a-b": nn.Linear(3, 3), "c/d e": nn.Linear(3, 3), "\u00fc\u4e2d": nn.Linear(3, 3), "z" * 200: nn.Linear(3, 3)})
            self.more = nn.ParameterDict({"x y": nn.Parameter(torch.randn(3))})
            self.register_buffer("bu-ffer", torch.zeros(3))

        def forward(self, x):
            for layer in self.layers.values():
                x = layer(x)
            getattr(self, "bu-ffer").add_(x.sum(0))
            return x * self.more["x y"]

    return runs(exg, Names().eval(), torch.randn(2, 3))


@row("50", "what is given back as it came, twice, empty, infinite, the ends of int64")
def _(exg):
    def forward(m, x, y):
        return x, x, y[:0], m.odd * 2, m.ends + 0, m.odd, torch.cat([y[:0], y])

    held = {"odd": torch.tensor([math.inf, -math.inf, math.nan, -0.0]), "ends": torch.tensor([2**63 - 1, -(2**63)])}
    return runs(exg, Function(forward, **held), (torch.randn(2, 0), torch.randn(3)))


@row("51", "pytorch/TensorRT#2533: embedding_bag")
def _(exg):
    def forward(m, i, offsets):
        return tuple(F.embedding_bag(i, m.w, offsets, mode=mode) for mode in ("sum", "mean", "max"))

    calls = [(torch.randint(0, 10, (n,)), torch.tensor(o)) for n, o in ((6, [0, 2, 2]), (9, [0, 0, 5, 9]))]
    return runs(exg, Function(forward, w=torch.randn(10, 4)), *calls, shapes=({0: AUTO}, {0: AUTO}))


@row("52", "PyTorch Geometric: convolutions on graphs of any size")
def _(exg):
    try:
        from torch_geometric import nn as geometric
    except ImportError:
        geometric = None

    def forward(m, x, edges):
        source, target = edges
        heat = F.leaky_relu(m.a(x)[source] + m.b(x)[target], 0.2).exp()
        total = torch.zeros(x.shape[0], 1).index_add(0, target, heat)
        spread = torch.zeros_like(x).scatter_add(0, target[:, None].expand(-1, 3), x[source] * heat / total[target])
        most = torch.zeros_like(x).scatter_reduce(0, target[:, None].expand(-1, 3), x[source], "amax", include_self=False)
        return spread, most

    calls = [(torch.randn(n, 3), torch.stack([torch.arange(2 * n) % n, torch.arange(2 * n) * 3 % n])) for n in (5, 8)]
    shapes = ({0: AUTO}, {1: AUTO})
    if geometric:
        for layer in (geometric.GATConv(3, 2, heads=2), geometric.SAGEConv(3, 4), geometric.GINConv(nn.Linear(3, 4))):
            runs(exg, layer.eval(), *calls, shapes={"x": {0: AUTO}, "edge_index": {1: AUTO}}, core=False)
    return runs(exg, Function(forward, a=nn.Linear(3, 1), b=nn.Linear(3, 1)), *calls, shapes=shapes)


@row("53", "weight_norm, and spectral_norm that is trained")
def _(exg):
    module = nn.Sequential(nn.utils.parametrizations.weight_norm(nn.Linear(4, 5)), nn.utils.parametrizations.spectral_norm(nn.Linear(5, 3)))
    return runs(exg, module.train(), torch.randn(2, 4), meshes=("data",))


@row("54", "a region that is compiled once")
def _(exg):
    @torch.compiler.nested_compile_region
    def twice(x):
        return x.sin() + 1

    return runs(exg, lambda x: twice(twice(x)) * twice(x * 2), torch.randn(3))


@row("55", "numbers as inputs, symbolic")
def _(exg):
    return runs(exg, lambda x, n: x[:n] * n, (torch.randn(6), 3), (torch.randn(6), 5), shapes=(None, AUTO))


@row("74", "huggingface/transformers#27871: inputs that export fixed, given by name; others are refused")
def _(exg):
    def forward(x, scale, flag, n):
        return (x * scale if flag else x)[:n]

    call = (torch.randn(5, 2), 0.5, True, 3)
    runs(exg, forward, call)
    path, given = saved(exg, export(Function(forward), call)), exg.path(".safetensors")
    safetensors.torch.save_file({"x": call[0], "n": torch.tensor(4)}, given)
    refused(exg, path, "fixed to 3", code=2, more=("--input", given))
    path = saved(exg, export(Function(lambda x, mode, mask: x if mode == "mean" and mask is None else x + 1), (call[0], "mean", None)))
    safetensors.torch.save_file({"x": call[0], "mask": torch.ones(2)}, given)
    refused(exg, path, "'mask' is fixed to None", code=2, more=("--input", given))
    safetensors.torch.save_file({"x": call[0], "mode": torch.ones(2)}, given)
    return refused(exg, path, "'mode' is fixed to 'mean'", code=2, more=("--input", given))


@row("56", "pytorch/pytorch#95408: scan and associative_scan")
def _(exg):
    from torch._higher_order_ops.associative_scan import associative_scan
    from torch._higher_order_ops.scan import scan

    def forward(m, x):
        carry, given = scan(lambda c, row: ({"a": c["a"] * 0.5 + m.w * row}, c["a"] + row), {"a": torch.zeros(3)}, x, reverse=True)
        return carry["a"], given, associative_scan(lambda a, b: a * b + 0.0, x, 0, combine_mode="generic")

    return runs(exg, Function(forward, w=torch.randn(3)), torch.randn(5, 3))


@row("57", "narrow dtypes, and one seen as another")
def _(exg):
    def forward(x):
        nibbles = torch.stack([(x & 15).to(torch.uint8), (x >> 4).to(torch.uint8)], -1)
        half = x.to(torch.float32)
        return (half.view(torch.int32), half.to(torch.float8_e4m3fn).float(), nibbles[..., 0] | (nibbles[..., 1] << 4), half.half().view(torch.int16),
                half.view(torch.uint8).long(), x.to(torch.uint16).long(), x.to(torch.uint32).long())

    return runs(exg, forward, torch.arange(256, dtype=torch.int64).reshape(16, 16))


@row("58", "a sparse buffer")
def _(exg):
    return not_made(lambda: saved(exg, export(Function(lambda m, x: m.s @ x, s=torch.eye(3).to_sparse()), (torch.randn(3, 2),))))


@row("76", "tokens until one says stop; norms that are trained")
def _(exg):
    def forward(m, x):
        def step(i, token, x):
            scores = m.out(x)
            return i + 1, scores.argmax(), torch.tanh(x + m.table(scores.argmax()))

        return m.norm(x[None, :, None].expand(4, 6, 2) * torch.arange(1.0, 5)[:, None, None]), loop(lambda i, t, x: (i < 20) & (t != 3), step, (torch.tensor(0), torch.tensor(-1), x))

    parts = {"out": nn.Linear(6, 5), "table": nn.Embedding(5, 6), "norm": nn.BatchNorm1d(6)}
    return runs(exg, Function(forward, **parts), *(torch.randn(6) for _ in range(3)), core=False, meshes=("data",))


@row("hf", "huggingface/transformers#41992: families as transformers exports them")
def _(exg):
    done = [generation(exg, family) for family in ("Llama", "Qwen3", "Mistral")]
    return done[0]


if __name__ == "__main__":
    sys.exit(go(__doc__, {**ROWS, **reports_of_others.ROWS}))
