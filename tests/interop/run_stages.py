"""Programs after a stage, as `exg convert --stage` writes them: PyTorch loads and runs them, and they give the same answers; from
functionalize on nothing is written in place, and what is no core ATen operator is what PyTorch's own decomposition leaves too, or
is in LEFT. See README.md beside this file."""

import argparse
import sys
import tempfile

from run_interop import Exg, Mismatch, Report, fail, program_fixtures, same, torch, torch_call
from torch.fx.experimental.symbolic_shapes import free_unbacked_symbols

# No core ATen, as it was: what PyTorch leaves too where it takes the program, what it calls by another name, and what exg has
# kernels for that no operators of core ATen make.
LEFT = {
    f"aten.{name}"
    for name in (
        "unfold.default bitwise_left_shift.Tensor_Scalar bitwise_right_shift.Tensor_Scalar diagonal_scatter.default lstm.input "
        "linalg_cholesky.default linalg_det.default linalg_inv.default view_as_complex.default fft_fft.default fft_rfft.default "
        "fft_irfft.default"
    ).split()
}


def is_core(target):
    return isinstance(target, torch._ops.OpOverload) and torch.Tag.core in target.tags


def targets(program):
    return {node.target for node in program.graph.nodes if node.op == "call_function"}


def is_in_parts(program):
    """Has it branches, loops, or numbers that lie in its data?"""
    names = {"cond", "while_loop", "scan", "map_impl", "_vmap_increment_nesting"}
    sized = {"item", "_local_scalar_dense", "nonzero", "unique_dim", "_unique2", "masked_select"}
    nodes = [node for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule) for node in module.graph.nodes]
    called = {getattr(node.target, "__name__", "").split(".")[0] for node in nodes if node.op == "call_function"}
    unbacked = any(
        free_unbacked_symbols(size)
        for node in nodes
        for size in getattr(node.meta.get("val"), "shape", ())
        if isinstance(size, torch.SymInt)
    )
    return bool(called & (names | sized)) or unbacked


def allowed_beside(program):
    """What PyTorch's own decomposition leaves, where it can take the program apart."""
    try:
        return targets(program.run_decompositions())
    except RuntimeError:
        return set()


def check(exg, path, stage, format):
    if is_in_parts(torch.export.load(path)):
        try:
            exg.command("convert", path, exg.path(".pt2"), "--stage", stage)
        except Mismatch as error:
            if "ended with 5: exg: TRF-004" not in str(error):
                raise
            return
        fail("is not refused")
    staged = exg.path(".pt2")
    if format == "exg":
        through = exg.path(".exg")
        exg.command("convert", path, through, "--stage", stage)
        exg.command("verify", through)
        exg.command("convert", through, staged)
    else:
        exg.command("convert", path, staged, "--stage", stage)
    exg.command("verify", staged, "--data")
    source, made = torch.export.load(path), torch.export.load(staged)
    args, kwargs = source.example_inputs
    (got, state), (expected, expected_state) = torch_call(made, args, kwargs), torch_call(source, args, kwargs)
    same(got, expected)
    same(state, expected_state, "buffer")
    if stage in ("functionalize", "simplify"):
        left = {target for target in targets(made) if not is_core(target)}
        names = {str(target) for target in left - allowed_beside(source)} - LEFT
        if names:
            fail(f"not core ATen: {', '.join(sorted(names))}")
        if any(target._schema.is_mutable for target in targets(made) if isinstance(target, torch._ops.OpOverload)):
            fail("writes in place")


class Function(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


F = torch.nn.functional
X, Y, SQUARE = torch.randn(3, 5, generator=torch.manual_seed(1)), torch.randn(3, 5), torch.randn(2, 4, 4)
WHOLE, MASK, ORDER = torch.arange(-7, 8).reshape(3, 5), torch.arange(15).reshape(3, 5) % 2 == 0, torch.tensor([2, 0, 1])
ODD = torch.tensor([float("nan"), float("inf"), -float("inf"), 1.5, -2.5])

# Each row of libexport/operators/aten.def, and what stays as it is because there is no other way to say it.
FUNCTIONS = {
    "attention": (lambda q, k: F.scaled_dot_product_attention(q, k, k, is_causal=True), SQUARE[None], SQUARE[None]),
    "attention with a mask": (lambda q, k, m: F.scaled_dot_product_attention(q, k, k, attn_mask=m), SQUARE, SQUARE, SQUARE > 0),
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


def check_function(exg, function, *inputs):
    path = exg.path(".pt2")
    torch.export.save(torch.export.export(Function(function), inputs), path)
    for stage in ("decompose", "functionalize", "simplify"):
        check(exg, path, stage, "pt2")


def narrow(inputs):
    return [one.bfloat16() if isinstance(one, torch.Tensor) and one.is_floating_point() else one for one in inputs]


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exg", required=True)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    report = Report()
    with tempfile.TemporaryDirectory(prefix="exg-stages-") as folder:
        exg = Exg(options.exg, folder)
        for path in program_fixtures():
            if not path.stem.startswith(options.only):
                continue
            for stage in ("decompose", "functionalize", "simplify"):
                report.check(f"{path.stem} {stage}", lambda: check(exg, path, stage, "exg" if stage == "simplify" else "pt2"))
        cases = {**FUNCTIONS, **{f"{name}, bfloat16": narrow(FUNCTIONS[name]) for name in NARROW}}
        for name, case in cases.items():
            if name.startswith(options.only):
                report.check(name, lambda: check_function(exg, *case))
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
