"""Programs after a stage, as `exg convert --stage` writes them: PyTorch loads and runs them, and they give the same answers, at
several sizes where they have symbols; from functionalize on nothing is written in place, and what is no core ATen operator is what
PyTorch's own decomposition leaves too, or is in LEFT. Without --all fixtures after functionalize and the programs of this file, in
float32, after one stage each. See README.md beside this file."""

import argparse
import functools
import itertools
import sys
import tempfile

from run_interop import LENGTHS, Exg, Function, Mismatch, Report, allows, fail, fresh, is_dynamic, program_fixtures, same, torch, torch_call
from torch._higher_order_ops.map import map as over_slices
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.export import Dim

STAGES = ("functionalize", "decompose", "simplify")

# No core ATen, as it was: what PyTorch leaves too where it takes the program, what it calls by another name, and what exg has
# kernels for that no operators of core ATen make; and what would be written out otherwise for other sizes, where those are open.
LEFT = {
    f"aten.{name}"
    for name in (
        "unfold.default bitwise_left_shift.Tensor_Scalar bitwise_right_shift.Tensor_Scalar diagonal_scatter.default lstm.input "
        "linalg_cholesky.default linalg_det.default linalg_inv.default view_as_complex.default fft_fft.default fft_rfft.default "
        "fft_irfft.default _assert_scalar.default nonzero_numpy.default tensor_split.indices repeat_interleave.self_Tensor "
        "sort.stable lerp.Tensor lerp.Scalar pad.default cdist.default grid_sampler.default linalg_vector_norm.default roll.default upsample_bicubic2d.vec gru.input stft.default"
    ).split()
}


# With torch.vmap of no examples: as a map PyTorch has no sizes to give.
NOT_CALLED = ("examples",)


def is_core(target):
    return isinstance(target, torch._ops.OpOverload) and torch.Tag.core in target.tags


def targets(program):
    """Of the program's graph and of those in it."""
    modules = [module for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    return {node.target for module in modules for node in module.graph.nodes if node.op == "call_function"}


class Source:
    """A program as it is exported: loaded, decomposed by PyTorch and called once, whatever the stages."""

    def __init__(self, path, calls=None):
        self.path, self.program = path, torch.export.load(path)
        lengths = [length for length in LENGTHS if allows(self.program, length)] if is_dynamic(self.program) else []
        self.calls = calls or [self.program.example_inputs, *(fresh(self.program, length) for length in lengths)]

    @functools.cached_property
    def answers(self):
        return [torch_call(self.program, *call) for call in self.calls]

    @functools.cached_property
    def allowed(self):
        """What PyTorch's own decomposition leaves, where it can take the program apart."""
        try:
            return targets(self.program.run_decompositions())
        except Exception:  # of its internals, most often
            return set()


def symbols(program):
    """The symbols in sizes of what it is called with."""
    values = [node.meta.get("val") for node in program.graph.nodes if node.op == "placeholder"]
    sizes = [size for value in values for size in getattr(value, "shape", ()) if isinstance(size, torch.SymInt)]
    return {str(size) for size in sizes} | {str(value) for value in values if isinstance(value, torch.SymInt)}


def check(exg, source, stage):
    staged = exg.path(".pt2")
    if stage == "simplify":  # by way of .exg
        through = exg.path(".exg")
        exg.command("convert", source.path, through, "--stage", stage)
        exg.command("convert", through, staged)
    else:
        exg.command("convert", source.path, staged, "--stage", stage)
    exg.command("verify", staged, "--data")
    made = torch.export.load(staged)
    for call, (expected, expected_state) in zip(source.calls, source.answers, strict=True) if source.path.stem not in NOT_CALLED else ():
        got, state = torch_call(made, *call)
        same(got, expected)
        same(state, expected_state, "buffer")
    if symbols(made) != symbols(source.program):
        fail(f"has sizes {symbols(made)}, not {symbols(source.program)}")
    if stage != "decompose":
        left = {target for target in targets(made) if isinstance(target, torch._ops.OpOverload) and not is_core(target)}
        if any(target._schema.is_mutable for target in left):
            fail("writes in place")
        left = left and {str(target) for target in left - source.allowed if target.namespace == "aten"} - LEFT
        if left:
            fail(f"not core ATen: {', '.join(sorted(left))}")


F = torch.nn.functional
X, Y, SQUARE = torch.randn(3, 5, generator=torch.manual_seed(1)), torch.randn(3, 5), torch.randn(2, 4, 4)
WHOLE, MASK, ORDER = torch.arange(-7, 8).reshape(3, 5), torch.arange(15).reshape(3, 5) % 2 == 0, torch.tensor([2, 0, 1])
ODD = torch.tensor([float("nan"), float("inf"), -float("inf"), 1.5, -2.5])

# Each row of libexport/operators/aten.def, and what stays as it is because there is no other way to say it.
FUNCTIONS = {
    "attention": (lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True), SQUARE[None], SQUARE[None]),
    "attention with a mask": (lambda q, k, m: F.scaled_dot_product_attention(q, k, k, attn_mask=m), SQUARE, SQUARE, SQUARE > 0),
    "heads of attention joined again": (
        lambda v: F.scaled_dot_product_attention(v * 0, v * 0, v, attn_mask=torch.zeros(8, 8, dtype=v.dtype)).transpose(1, 2).reshape(2, 8, 16),
        torch.arange(256.0).reshape(2, 8, 4, 4).remainder(5).bfloat16().transpose(1, 2)),
    "softmax attention": (lambda q, k: torch.softmax(q @ k.mT * 0.5, -1) @ k, SQUARE[None], SQUARE[None]),
    "rms_norm": (lambda x, w: F.rms_norm(x, (5,), w, 1e-5), X, Y[0]),
    "index_put": (lambda x, i, y: torch.ops.aten.index_put(x, [None, i], y[:, :3]), X, ORDER, Y),
    "index_put that adds": (lambda x, i, y: x.index_put((i,), y, accumulate=True), X, ORDER, Y),
    "scatter_reduce": (lambda x, y: [x.scatter_reduce(1, WHOLE.abs() % 5, y, r) for r in ("prod", "amax", "amin", "mean", "sum")], X, Y),
    "gelu": (lambda x: [F.gelu(x), F.gelu(x, approximate="tanh")], X),
    "quotients": (lambda x, y: [torch.div(x, y, rounding_mode=m) for m in ("floor", "trunc")] + [x // 0.3, torch.div(x, 0.3, rounding_mode="trunc")], X, Y),
    "quotients of integers": (lambda x: [x // 3, x // (x.abs() + 1), torch.div(x, 3, rounding_mode="trunc"), x % 3], WHOLE),
    "limits": (lambda x, y: [x.clamp(-0.5, 0.5), x.clamp_min(0.1), x.clamp_max(0.1), torch.clamp(x, min=y), torch.clamp(x, max=y), F.relu6(x)], X, Y),
    "nan_to_num": (lambda x: [x.nan_to_num(), x.nan_to_num(1.0, 2.0, 3.0), x.isposinf(), x.isneginf(), x.isfinite()], ODD),
    "powers": (lambda x: [x**3, x.square(), x**2, x.frac(), 2**x, x.exp2()], X),
    "differences": (lambda x, y: [1 - x, torch.rsub(x, y, alpha=2), torch.rsub(x, 3, alpha=2), torch.sub(x, y, alpha=3)], X, Y),
    "differences of integers": (lambda x: [1 - x, torch.rsub(x, 3, alpha=2)], WHOLE),
    "linear": (lambda x, w, b: [F.linear(x, w, b), F.linear(x, w), F.linear(x[None, :, None], w, b), F.linear(x[0], w, b)], X, Y, Y[:, 0]),
    "baddbmm": (lambda a, b: [torch.baddbmm(a, a, b, beta=0.5, alpha=2), torch.baddbmm(a, b, a, beta=0)], SQUARE, SQUARE.flip(0)),
    "addcmul": (lambda x, y: [torch.addcmul(x, y, y, value=0.5), torch.addcdiv(x, y, y + 4, value=2), torch.lerp(x, y, 0.3)], X, Y),
    "activations": (lambda x: [f(x) for f in (F.silu, F.mish, F.softplus, F.logsigmoid, F.hardsigmoid, F.hardswish, F.celu, F.selu, F.elu)], 3 * X),
    "shrinks": (lambda x: [F.softshrink(x), F.hardshrink(x), F.threshold(x, 0.1, 2), F.prelu(x, torch.full((1,), 0.2, dtype=x.dtype))], X),
    "choices": (lambda x, m: [x.masked_fill(m, 2), torch.where(m, x, 0.5), torch.where(m, 1, x), torch.where(m, 1.0, 2.0), torch.where(m, 1, 2)], X, MASK),
    "choices of integers": (lambda x, m: [x.masked_fill(m, 2), torch.where(m, x, 1), torch.where(m, x, 1.5)], WHOLE, MASK),
    "triangles": (lambda x: [x.tril(), x.triu(1), x.tril(-1), torch.tril(x > 0)], X),
    "all": (lambda m: [m.all(), m.all(1), m.all(0, keepdim=True), m.any((0, 1))], MASK),
    "deviations": (lambda x: [x.std(), x.std(1), x.var(0, keepdim=True), x.std(1, correction=0), *torch.var_mean(x, 1)], X),
    "of complex numbers": (
        lambda x, y: (lambda z, w: [z.std(0), z.std(), torch.std_mean(w, 1)[0], *(torch.lerp(z, w, weight).abs() for weight in (0.3, 0.3j, 0.9 - 0.2j))])(
            torch.complex(x, x.flip(0)), torch.complex(y, y.flip(1))),
        X,
        Y,
    ),
    "degrees": (lambda x: [torch.deg2rad(x), torch.rad2deg(x)], X),
    "index_copy": (lambda x, i, y: [x.index_copy(0, i, y), x.index_add(0, i, y), x.index_fill(1, i, 2.0)], X, ORDER, Y),
    "embedding": (lambda x, i: F.embedding(i, x), X, ORDER),
    "written": (lambda x: x.clone().t().add_(1).mul_(2).flatten(), X),
    "layouts": (lambda x: [x.t().reshape(-1), (x.t() * 2).reshape(5, 3), x[:, ::2].reshape(-1), x.t().contiguous().view(-1), x[:, [1, 0]].reshape(-1)], X),
    "convolution in channels_last": (lambda x, w: F.conv2d(x.contiguous(memory_format=torch.channels_last), w).flatten(1), torch.randn(1, 3, 5, 5), torch.randn(2, 3, 3, 3)),
    "norms": (lambda x: [F.layer_norm(x, (4,)), F.group_norm(x, 2), F.batch_norm(x, None, None, training=True), F.normalize(x)], SQUARE),
    "pools": (lambda x: [F.max_pool2d(x, 2), F.avg_pool2d(x, 2), F.adaptive_avg_pool2d(x, 2), F.interpolate(x[None], scale_factor=2.0)], SQUARE),
    "losses": (lambda x, i: [F.cross_entropy(x, i), F.mse_loss(x, x * 2), F.binary_cross_entropy_with_logits(x, x.sigmoid())], X, ORDER),
    "factorisations": (lambda x: [torch.linalg.inv(x), torch.linalg.cholesky(x @ x.mT + torch.eye(4)), torch.linalg.det(x)], SQUARE + 3 * torch.eye(4)),
    "cell": (lambda x: torch.lstm(x, (torch.zeros(1, 4, 4),) * 2, [torch.ones(16, 4) / 9] * 2, False, 1, 0.0, False, False, False)[0], SQUARE),
    "sorted": (lambda x: [*x.sort(), *x.sort(stable=True, descending=True), *x.topk(2), x.argsort(), x.cumsum(1), x.cummax(0)[0], x.logcumsumexp(1)], X),
    "special": (lambda x: [torch.special.erfcx(x), torch.special.i0(x), x.abs().lgamma(), torch.xlogy(x, x.abs()), x.logit(0.1), torch.sinc(x)], X),
    "complex": (lambda x: [torch.view_as_real(torch.fft.fft(x)), torch.polar(x.abs(), x).abs(), torch.fft.irfft(torch.fft.rfft(x), 5)], X),
    "moves": (lambda x: [x.roll(1, 1), x.flip(0), x.rot90(), x.repeat(2, 1), x.tile(2), x.unfold(1, 2, 1), *x.split(2, 1), *x.unbind(), x.diag_embed()], X),
    "asserted": (lambda x: (torch._assert_async((x < 100).all(), "small"), x * 2)[1], X),
}
NARROW = ("rms_norm", "gelu", "activations", "addcmul", "shrinks", "differences", "limits", "linear", "deviations", "powers")




# ---- of symbolic sizes --------------------------------------------------------------------------------------------------------

LINEAR, CONVOLUTION = torch.nn.Linear(8, 6), torch.nn.Conv2d(3, 4, 3, stride=2, padding=1)
ATTENTION = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()


def rows(*sizes, dtype=torch.float32):
    """Tensors of these sizes, the same each time."""
    generator = torch.Generator().manual_seed(sum(sizes))
    return torch.randn(sizes, generator=generator).to(dtype)


def count_up(x):
    return while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, F.gelu(y) * 1.5), (torch.tensor(0), x))[1]


def counted(x):
    n = (x > 0).sum().item()
    torch._check(n >= 1)
    return torch.ones(n) * 2, x[x > 0] * 2


def cut(x):
    n = (x[:, 0] > -9).sum().item()
    torch._check(n <= x.shape[0])
    torch._check(n >= 1)
    return F.gelu(x[:n])


def written(x):
    own = x.clone()
    own[1:].mul_(2)
    own.view(-1)[::2].add_(1)
    return torch.cond(own.sum() > 0, lambda y: F.silu(y), lambda y: y - 1, (own,)), own.add_(1)


class Statistics(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.linear = torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 8)
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        self.calls.add_(1)
        return torch.cond(x.shape[0] > 6, lambda y: self.linear(y), lambda y: y * self.calls, (self.norm(x),))


class Normed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.BatchNorm2d(3)

    def forward(self, x):
        return self.norm(x) * 2


B, N = Dim("b", min=2, max=64), Dim("n", min=2, max=64)
# By name: a function or a module, sizes, and calls: the first is exported.
SYMBOLIC = {
    "linear": (lambda x: F.relu(LINEAR(x)), ({0: B, 1: N},), [(rows(3, 5, 8),), (rows(7, 2, 8),), (rows(20, 31, 8),)]),
    "attention": (lambda x: ATTENTION(x), ({0: B, 1: N},), [(rows(3, 5, 8),), (rows(2, 9, 8),), (rows(6, 33, 8),)]),
    "masked attention": (
        lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m),
        ({0: B, 2: N}, {0: N, 1: N}),
        [(rows(2, 2, 5, 8), rows(5, 5) > 0), (rows(3, 2, 9, 8), rows(9, 9) > 0)],
    ),
    "heads": (
        lambda x: F.softmax(x.view(x.shape[0], x.shape[1], 2, 4).transpose(1, 2).flatten(2), -1).reshape(x.shape[0] * 2, -1),
        ({0: B, 1: N},),
        [(rows(3, 5, 8),), (rows(7, 11, 8),)],
    ),
    "convolution": (
        lambda x: F.max_pool2d(F.gelu(CONVOLUTION(x)), 2),
        ({0: B, 2: Dim("h", min=8, max=99), 3: Dim("w", min=8, max=99)},),
        [(rows(2, 3, 12, 16),), (rows(3, 3, 33, 17),), (rows(5, 3, 9, 64),)],
    ),
    "batch norm": (Normed(), ({0: B, 2: N},), [(rows(2, 3, 4, 4),), (rows(5, 3, 7, 4),)]),
    "means": (
        lambda x: [x.mean(), x.mean(1), x.std(0), x.var(), F.layer_norm(x, (8,)), F.normalize(x), x.sum() / x.shape[0]],
        ({0: B},),
        [(rows(3, 8),), (rows(11, 8),)],
    ),
    "joined": (
        lambda x, y: [torch.cat([x, y]), torch.stack([x, x]).sum(0), x.repeat(2, 1), F.pad(x, (1, 2)), x.flip(0), x.roll(1, 0)],
        ({0: B}, {0: N}),
        [(rows(3, 8), rows(5, 8)), (rows(9, 8), rows(4, 8))],
    ),
    "moves": (
        lambda x: [x.unfold(0, 2, 1), x.tril(), x[1:-1], x[::2], x.expand(3, -1, -1).reshape(-1, 8), x.split(3, 1)[1], x[:, None] - x],
        ({0: Dim("b", min=4, max=64)},),
        [(rows(6, 8),), (rows(17, 8),)],
    ),
    "made": (
        lambda x: [torch.arange(x.shape[0]), torch.zeros(x.shape[0], 3), x.new_ones(2, x.shape[0]), torch.full_like(x, 2), torch.eye(x.shape[0])],
        ({0: B},),
        [(rows(3, 8),), (rows(12, 8),)],
    ),
    "positions": (
        lambda i, w: F.embedding(i, w) + F.embedding(torch.arange(i.shape[1]), w) * i.shape[1] ** 0.5,
        ({0: B, 1: N}, None),
        [(WHOLE.abs() % 3, rows(70, 4)), (WHOLE.abs().repeat(2, 3) % 3, rows(70, 4))],
    ),
    "losses": (
        lambda x, i: [F.cross_entropy(x, i), F.mse_loss(x, x * 2), F.nll_loss(F.log_softmax(x, 1), i, reduction="sum")],
        ({0: B}, {0: B}),
        [(rows(3, 8), ORDER), (rows(6, 8), ORDER.repeat(2))],
    ),
    "sorted": (lambda x: [*x.topk(2, 0), *x.sort(1), x.cumsum(0), x.argmax(0), F.one_hot(x.argmax(1), 8)], ({0: B},), [(rows(3, 8),), (rows(9, 8),)]),
    "quantile": (lambda x: x.quantile(0.3, 0), ({0: Dim.AUTO},), [(rows(4, 3),), (rows(9, 3),), (rows(100, 3),)]),
    "windows": (
        lambda x: [
            F.adaptive_avg_pool2d(x, (3, 2)),
            F.interpolate(x, size=(8, 9), mode="bicubic"),
            F.interpolate(x, scale_factor=2, mode="bilinear"),
            F.unfold(x, 3, padding=1),
            F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
            F.pad(x, (1, 1, 1, 1), mode="circular"),
        ],
        ({0: Dim.AUTO, 2: Dim.AUTO, 3: Dim.AUTO},),
        [(rows(2, 3, 12, 16),), (rows(1, 3, 7, 9),), (rows(4, 3, 30, 31),)],
    ),
    "parts": (lambda x: x.chunk(2, 0), ({0: Dim.AUTO},), [(rows(12, 3),), (rows(7, 3),)]),
    "derived": (
        lambda x, y: F.gelu(x.view(-1, 2, 8).sum(1)) + y[1:],
        ({0: 2 * N}, {0: N + 1}),
        [(rows(6, 8), rows(4, 8)), (rows(20, 8), rows(11, 8))],
    ),
    "half": (lambda x: F.silu(x.view(-1, 2, 8).sum(1)), ({0: 2 * N},), [(rows(6, 8),), (rows(20, 8),)]),
    "numbers": (
        lambda x, n: [x * n, x.sum(0) / n, torch.zeros(n, 2), n + x.shape[0]],
        ({0: B}, Dim.DYNAMIC),
        [(rows(3, 8), 5), (rows(9, 8), 7)],
    ),
    "branch by size": (
        lambda x: torch.cond(x.shape[0] > 5, lambda y: F.gelu(LINEAR(y)), lambda y: LINEAR(y).softmax(0), (x,)),
        ({0: B},),
        [(rows(3, 8),), (rows(9, 8),)],
    ),
    "branch by data": (
        lambda x: torch.cond(x.sum() > 0, lambda y: (F.rms_norm(y, (8,)), y * 2), lambda y: (y + 1, y - y.shape[0]), (x,)),
        ({0: B},),
        [(rows(3, 8),), (rows(9, 8),), (-rows(9, 8).abs(),)],
    ),
    "branch in a branch": (
        lambda x: torch.cond(
            x.sum() > 0,
            lambda y: torch.cond(y[0, 0] > 0, lambda z: F.gelu(z), lambda z: z + z.shape[0], (y,)),
            lambda y: y - 1,
            (x,),
        ),
        ({0: B},),
        [(rows(3, 8).abs(),), (rows(9, 8),), (-rows(9, 8).abs(),)],
    ),
    "loop": (count_up, ({0: B},), [(rows(3, 8),), (rows(9, 8),)]),
    "map": (lambda x, y: over_slices(lambda a, b: F.gelu(a) + b.sum(0), x, y), ({0: B}, {0: N}), [(rows(3, 8), rows(2, 8)), (rows(5, 8), rows(9, 8))]),
    "scan": (
        lambda x: scan(lambda carry, row: (carry + F.silu(row), carry * 2), torch.zeros(8), x),
        ({0: B},),
        [(rows(3, 8),), (rows(9, 8),)],
    ),
    "vmap": (lambda x, y: torch.vmap(lambda a: F.gelu(a) @ y.mT)(x), ({0: B}, {0: N}), [(rows(3, 8), rows(4, 8)), (rows(9, 8), rows(5, 8))]),
    "vmap that makes a tensor": (lambda x, y: torch.vmap(lambda a: a.clone().index_fill_(0, torch.tensor([0, 2]), 9.0).mul_(y.sum()))(x), ({0: B}, {0: N}), [(rows(4, 3), rows(4, 8)), (rows(9, 3), rows(5, 8))]),
    "counted": (counted, ({0: B},), [(rows(3, 8),), (rows(9, 8),)]),
    "cut by data": (cut, ({0: B},), [(rows(3, 8),), (rows(9, 8),)]),
    "places": (lambda x: [x.nonzero() * 2, torch.unique(x.round()), torch.masked_select(x, x > 0).sum()], ({0: B},), [(rows(3, 8),), (rows(9, 8),)]),
    "unique": (
        lambda x: [*torch.ops.aten._unique(x.round(), True, True), torch.ops.aten._unique(x.long())[0], *torch._unique2(x.round(), True, True, True)],
        ({0: B},),
        [(rows(3, 8),), (rows(9, 8) * 3,)],
    ),
    "unique rows, and one after another": (
        lambda x: [
            *torch.unique(x.round().clamp(0, 1)[:, :2], dim=0, return_inverse=True, return_counts=True),
            *torch.unique_consecutive(x.round().clamp(0, 1), return_inverse=True, return_counts=True),
            *torch.unique_consecutive(x.round().clamp(0, 1)[:, :1], dim=0, return_counts=True),
            x.bool().unique(),
        ],
        ({0: B},),
        [(rows(3, 8),), (rows(9, 8) * 3,)],
    ),
    "written": (written, ({0: Dim.DYNAMIC},), [(rows(3, 8),), (rows(9, 8),)]),
    "written by a mask": (lambda x: x.clone().masked_fill_(x > 0, 1).index_put_((x < -1,), torch.tensor(3.0)), ({0: B},), [(rows(3, 8),), (rows(9, 8),)]),
    "statistics": (Statistics(), ({0: B},), [(rows(3, 8),), (rows(9, 8),)]),
    "bfloat16": (lambda x: F.gelu(F.linear(x, x[:2])) / x.shape[0], ({0: B},), [(rows(3, 8, dtype=torch.bfloat16),), (rows(9, 8, dtype=torch.bfloat16),)]),
}


def split_by_data(x, n):
    sizes = n.tolist()
    for size in sizes:
        torch._check(size >= 0)
    torch._check(sum(sizes) == x.shape[0])
    return torch.split(x * 2, sizes)


def between(x, i, j):
    first, last = i.item(), j.item()
    torch._check(first >= 0)
    torch._check(last >= first)
    torch._check(last <= x.shape[0])
    return x[first:last], x[first:last].sum()


GRU = torch.nn.GRU(4, 5)
# What is written out otherwise for other sizes stays as it is; sizes that the exporter's own forms do not say are found.
SYMBOLIC |= {
    "windows of many sizes": (
        lambda x: [*F.adaptive_max_pool2d(x * 2, 2, return_indices=True), F.adaptive_avg_pool2d(x, (3, 2)), F.adaptive_max_pool2d(x[:, :, :3, :3], 2)],
        ({2: Dim.AUTO, 3: Dim.AUTO},),
        [(rows(2, 3, 12, 16),), (rows(2, 3, 7, 9),), (rows(2, 3, 33, 5),)],
    ),
    "running sums": (lambda x: x.logcumsumexp(0) + x.cumsum(0).cummax(0)[0], ({0: B},), [(rows(3, 8),), (rows(9, 8),)]),
    "turned": (lambda x: x.roll((-2, x.shape[1] // 2), (0, 1)) + x.roll(1), ({0: B, 1: N},), [(rows(3, 8),), (rows(9, 5),)]),
    "resampled to a size": (
        lambda x: [F.interpolate(x, size=(x.shape[2] * 2 - 1, 4), mode=mode) for mode in ("bilinear", "nearest", "bicubic")],
        ({2: Dim.AUTO},),
        [(rows(1, 2, 6, 5),), (rows(1, 2, 9, 5),)],
    ),
    "a layer of steps": (lambda x: GRU(x)[0] * 2, ({0: Dim.AUTO},), [(rows(6, 2, 4),)]),
    "a spectrum": (lambda x: torch.stft(x, 8, 4, window=torch.ones(8), return_complex=True).abs(), ({1: Dim.AUTO},), [(rows(2, 64),), (rows(2, 100),)]),
    "split by data": (
        split_by_data,
        (None, None),
        [(rows(6, 2), torch.tensor([1, 2, 3])), (rows(6, 2), torch.tensor([0, 6, 0]))],
    ),
    "between places in the data": (
        between,
        ({0: B}, None, None),
        [(rows(8, 2), torch.tensor(2), torch.tensor(5)), (rows(9, 2), torch.tensor(0), torch.tensor(9)), (rows(8, 2), torch.tensor(3), torch.tensor(3))],
    ),
    "operators between sizes": (
        lambda x: [torch.div(x.shape[0], 4, rounding_mode="trunc") * x, torch.floor_divide(x.shape[0], 3) + x, torch.mul(x.shape[0], x.shape[0]) + x],
        ({0: B},),
        [(rows(3, 8),), (rows(9, 8),)],
    ),
    "two sizes, one of eights": (
        lambda x, y: [x.view(x.shape[0] // 8, 8).sum(1), y[: y.shape[0] // 8] * 2, y[: (y.shape[0] + 7) // 8] * 2],
        ({0: Dim.DYNAMIC}, {0: Dim.DYNAMIC}),
        [(rows(16), rows(9)), (rows(32), rows(15))],
    ),
    "one and none": (
        lambda x: [F.layer_norm((x @ x.mT @ x).relu().softmax(1), (8,)), x.sum(0), x.transpose(0, 1).reshape(-1) * 2, torch.cat([x, x])],
        ({0: Dim("z")},),
        [(rows(5, 8),), (rows(1, 8),), (rows(0, 8),)],
    ),
    "a real number of the data": (
        lambda x, t: [torch.clamp(x, max=t.item()), x / t.item(), x.add(x, alpha=t.item()), F.gelu(x * (127.0 / x.abs().max().item())), t.item() * x.shape[0] * x],
        ({0: B}, None),
        [(rows(3, 8), torch.tensor(0.5)), (rows(9, 8), torch.tensor(-0.0)), (rows(1, 8), torch.tensor(1.0))],
    ),
    "real numbers that operators are written out by": (
        lambda x, t: [
            F.leaky_relu(x, t[0].item()),
            F.softplus(x, t[1].item()),
            F.elu(x, t[0].item()),
            F.threshold(x, t[0].item(), t[1].item()),
            x.abs() ** t[0].item(),
            torch.addmm(x, x @ x.mT, x, alpha=t[1].item()),
            torch.lerp(x, x * x, t[0].item()),
        ],
        None,
        [(rows(3, 8), torch.tensor([0.5, 2.5])), (rows(3, 8), torch.tensor([2.0, 1.0])), (rows(3, 8), torch.tensor([0.0, 0.25]))],
    ),
    "a real number that fills": (
        lambda x, t, m: [x.masked_fill(m, t.item()), torch.where(m, x, t.item()), torch.full((2, x.shape[0]), t.item()), x.clone().fill_(t.item())],
        ({0: B}, None, {0: B}),
        [(rows(3, 8), torch.tensor(1.5), rows(3, 8) > 0), (rows(9, 8), torch.tensor(float("inf")), rows(9, 8) > 0)],
    ),
    "a real number within a branch": (
        lambda x, t: torch.cond(x.sum() > 0, lambda x: F.silu(x) / t.max().item(), lambda x: F.gelu(x) * (t.sum().item() + 1), (x,)),
        ({0: B}, None),
        [(rows(3, 8).abs(), torch.tensor([1.5, 2.0])), (-rows(9, 8).abs(), torch.tensor([1.5, 2.0]))],
    ),
    "a real number that is given, and asserted": (
        lambda x, t: [(torch._check(t.sum().item() > -99), x * 2)[1], t.max().item() * 2, (t.max().item() ** 2 - 1) * x],
        ({0: B}, None),
        [(rows(4, 8), torch.tensor([1.5, 2.0])), (rows(8, 8), torch.tensor([0.25, -3.0]))],
    ),
    "a real number of integers": (
        lambda x, n: [x * (n.item() / 3), x * (n.double().mean().item() + n.item()), F.softplus(x, n.item() / 3)],
        ({0: B}, None),
        [(rows(3, 8), torch.tensor(3)), (rows(9, 8), torch.tensor(7))],
    ),
    "a list of sizes": (lambda x: torch.tensor([[x.shape[0], 1.5], [x.shape[0] / 2, True]]) * 2, ({0: B},), [(rows(3, 8),), (rows(9, 8),)]),
}


@torch.library.custom_op("exgstages::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


twice.register_fake(torch.empty_like)


def export_custom(exg):
    """An operator that is not PyTorch's, where nothing is written: it stays."""
    path = exg.path(".pt2")
    model = Function(lambda x: F.gelu(twice(F.silu(x))) + x.shape[0])
    program = torch.export.export(model, (rows(3, 8),), dynamic_shapes=(({0: B},),))
    torch.export.save(program.run_decompositions({}), path)
    return path


def split_and_written(x, n):
    sizes = n.tolist()
    for size in sizes:
        torch._check(size >= 0)
    torch._check(sum(sizes) == x.shape[0])
    copy = x.clone()
    torch.split(copy, sizes)[1].add_(1)
    return copy


def written_between(x, i, j):
    first, last = i.item(), j.item()
    torch._check(first >= 0)
    torch._check(last >= first)
    torch._check(last <= x.shape[0])
    copy = x.clone()
    copy[first:last].add_(1)
    return copy


def check_refused(exg):
    """Views of sizes that the data decide, written through."""
    for function, inputs in ((split_and_written, (torch.tensor([1, 2, 1]),)), (written_between, (torch.tensor(1), torch.tensor(3)))):
        path = export(exg, function, (rows(4, 8), *inputs))
        try:
            exg.command("convert", path, exg.path(".pt2"), "--stage", "functionalize")
        except Mismatch as error:
            if "ended with 5: exg: TRF-004" not in str(error):
                raise
        else:
            fail(f"{function.__name__} is not refused")


def export(exg, function, inputs, sizes=None):
    path = exg.path(".pt2")
    module = function if isinstance(function, torch.nn.Module) else Function(function)
    sizes = (sizes,) if sizes is not None and module is not function else sizes  # those of *inputs
    torch.export.save(torch.export.export(module, inputs, dynamic_shapes=sizes), path)
    return path


def narrow(inputs):
    return [one.bfloat16() if isinstance(one, torch.Tensor) and one.is_floating_point() else one for one in inputs]


def sources(exg, narrower):
    """(name, what makes it a Source, is it a fixture) of each program; `narrower`: those of bfloat16 too."""
    for path in program_fixtures():
        yield path.stem, functools.partial(Source, path), True
    functions = {**FUNCTIONS, **({f"{name}, bfloat16": narrow(FUNCTIONS[name]) for name in NARROW} if narrower else {})}
    for name, (function, *inputs) in functions.items():
        yield name, lambda function=function, inputs=inputs: Source(export(exg, function, tuple(inputs))), False
    for name, (function, sizes, calls) in SYMBOLIC.items():
        each = [(call, {}) for call in calls]
        yield f"symbolic {name}", lambda f=function, s=sizes, e=each: Source(export(exg, f, e[0][0], s), e), False
    yield "custom operator", lambda: Source(export_custom(exg), [((rows(n, 8),), {}) for n in (3, 9)]), False


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exg", required=True)
    parser.add_argument("--only", default="", help="programs whose name begins so")
    parser.add_argument("--all", action="store_true", help="all stages of all programs")
    options = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="exg-stages-") as folder:
        exg = Exg(options.exg, folder)
        turn = itertools.cycle(STAGES)
        for name, make, is_fixture in sources(exg, options.all):
            if not name.startswith(options.only):
                continue
            source = functools.cache(make)
            for stage in STAGES if options.all else STAGES[:1] if is_fixture else (next(turn),):
                report.check(f"{name}, {stage}", lambda: check(exg, source(), stage))
        if "refused".startswith(options.only):
            report.check("refused", lambda: check_refused(exg))
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
