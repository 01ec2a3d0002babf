"""Recorded dtypes are notes: strict exports under autocast record what is not computed, and their results go into branches, loops,
lists, buffers and sizes. exg computes what PyTorch computes and says so. See README.md beside this file."""

import sys

from functorch.experimental.control_flow import map as map_of
from run_interop import Mismatch, fail, run_cases, torch
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop


class Layer(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function, self.layer = function, torch.nn.Linear(4, 4)
        self.register_buffer("kept", torch.zeros(2, 4))

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.layer(x)
        return self.function(self, x, y)


def into(view, y):
    view.add_(1)
    return y


CASES = {
    "given": lambda m, x, y: y,
    "norm": lambda m, x, y: torch.nn.functional.layer_norm(y, (4,)).relu(),
    "beside float32": lambda m, x, y: (torch.cat([y, x]), torch.where(x > 0, x, y), y + x),
    "converted": lambda m, x, y: y.to(torch.float64),
    "list": lambda m, x, y: torch.stack([y, y]),
    "view": lambda m, x, y: into(y.view(-1)[2:], y),
    "attention": lambda m, x, y: torch.nn.functional.scaled_dot_product_attention(y[None], y[None], y[None]),
    "element": lambda m, x, y: x * y.sum().item(),
    "size from data": lambda m, x, y: y[y > 0] * 2,
    "branch": lambda m, x, y: torch.cond(x.sum() > 0, lambda y: y * 2, lambda y: y - 1, (y,)),
    "branch by it": lambda m, x, y: torch.cond(y.sum() > 0, lambda y: y * 2, lambda y: y - 1, (y,)) + 1,
    "loop": lambda m, x, y: while_loop(lambda y: y.sum() < 100, lambda y: (y.abs() + 1,), (y,)),
    "loop beside": lambda m, x, y: while_loop(lambda z, y: z < 100, lambda z, y: (z + 1.5, y.abs() + 1), (x.sum(), y)),
    "scan": lambda m, x, y: scan(lambda c, v: (c + v, c * v), y[0].clone(), y, dim=0),
    "map": lambda m, x, y: map_of(lambda v: v * 2, y),
    "added to a buffer": lambda m, x, y: m.kept.add_(y) * 2,
    "copied to a buffer": lambda m, x, y: m.kept.copy_(y) + y,
}

F = torch.nn.functional

# The same within autocast, where what is made of the product is converted, or not.
LABELS = torch.tensor([1, 3])


def square(y):
    return y.t() @ y + torch.eye(4)


def cells(a, h, *weights):
    """Cells of three kinds, whose weights are (4, 4)."""
    tall = [[w.repeat(n, 1) for w in weights] for n in (4, 3)]
    return (*torch.lstm_cell(a, (h, h + 1), *tall[0]), torch.gru_cell(a, h, *tall[1]), torch.rnn_tanh_cell(a, h, *weights))


INSIDE = {
    "losses": lambda m, x, y: (F.mse_loss(y, y * 2), F.cross_entropy(y, LABELS), F.l1_loss(y, x), F.kl_div(y.log_softmax(1), y.softmax(1)), F.smooth_l1_loss(y, x), F.huber_loss(y, x)),
    "losses of one": lambda m, x, y: (F.poisson_nll_loss(y, x), F.soft_margin_loss(y, x.sign()), F.hinge_embedding_loss(y, torch.ones(2, 4)), F.triplet_margin_loss(y, x, y + 1)),
    "losses of classes": lambda m, x, y: (F.nll_loss(y.log_softmax(1), LABELS), F.multi_margin_loss(y, LABELS), F.margin_ranking_loss(y[0], x[0], torch.ones(4)), F.cosine_embedding_loss(y, x, torch.ones(2))),
    "losses of chances": lambda m, x, y: (F.binary_cross_entropy(y.sigmoid(), x), F.binary_cross_entropy_with_logits(y, x)),
    "joined": lambda m, x, y: (torch.cat([y, y]), torch.stack([y, x]), torch.cat([y, x.bfloat16()]), torch.stack([y, y * 2])),
    "copied by an index": lambda m, x, y: (y.index_copy(0, LABELS[:1], x[:1]), x.index_copy(0, LABELS[:1], y[:1]), y.index_copy(0, LABELS[:1], y[:1])),
    "another product": lambda m, x, y: (m.layer(y), y @ y.t(), m.layer(x) + x, torch.addmm(y, y, m.layer.weight), torch.baddbmm(y[None], y[None], m.layer.weight[None])),
    "products of letters": lambda m, x, y: (torch.einsum("ij,kj->ik", y, x), torch.einsum("ij->ji", y), torch.einsum("i,j->ij", y[0], x[0]), torch.einsum("ij,ij->ij", y, y)),
    "powers": lambda m, x, y: (torch.matrix_power(square(y), 2), torch.linalg.matrix_power(square(y), 1), torch.linalg.vecdot(y, x)),
    "convolutions": lambda m, x, y: (F.conv1d(y[None], x[None, :, :2]), F.conv_transpose1d(y[None], x[:, None, :2]), F.prelu(y, x[:1, 0]), F.scaled_dot_product_attention(y[None], x[None], y[None])),
    "cells of the product": lambda m, x, y: cells(y[:, :4], y, m.layer.weight, m.layer.weight),
    "cells beside": lambda m, x, y: (*cells(x, y, m.layer.weight, m.layer.weight), *cells(y, x, m.layer.weight, m.layer.weight)),
    "factors": lambda m, x, y: (square(y).inverse(), torch.linalg.cholesky(square(y)), torch.linalg.solve(square(y), y.t()), torch.linalg.svdvals(y), torch.linalg.eigvalsh(square(y))),
    "spectra": lambda m, x, y: (torch.fft.fft(y).real, torch.fft.rfft(y).abs(), torch.fft.hfft(y), torch.polar(y.abs(), x).real, torch.view_as_complex(y.view(2, 2, 2)).real),
    "quantiles": lambda m, x, y: (y.quantile(0.5), y.nanquantile(torch.tensor([0.2, 0.7]), 1), torch.cdist(y, x), y[:, :2].trace()),
    "sums": lambda m, x, y: (y.cumsum(0), y.prod(1), y.norm(), y.sum(), y.softmax(1), F.layer_norm(y, (4,)), y.exp(), y.pow(2), y.sum(dtype=torch.float32)),
    "padded and resized": lambda m, x, y: (F.pad(y[None], (1, 1), mode="reflect"), F.interpolate(y[None], 7), F.avg_pool1d(y[None], 2), F.pad(y, (1, 1)), F.max_pool3d(y[None, None, None], (1, 1, 2))),
    "after a norm": lambda m, x, y: F.cross_entropy(m.layer(F.layer_norm(m.layer(y).relu() + x, (4,))), LABELS),
    "a loss in another product": lambda m, x, y: F.mse_loss(m.layer(y), x) * y,
    "told": lambda m, x, y: (F.mse_loss(y.float(), y), F.mse_loss(y.half(), y.type_as(x)), torch.zeros_like(y) + F.l1_loss(y.new_ones(2), y[0, :2])),
    "written": lambda m, x, y: y.add_(x).mul_(2),
}


class Inside(Layer):
    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return self.function(self, x, self.layer(x))


def check(exg, function, layer=Layer):
    torch.manual_seed(3)
    module, x, ran = layer(function), torch.rand(2, 4), 0
    for strict in (True, False):
        path = exg.path(".pt2")
        try:
            torch.export.save(torch.export.export(module, (x,), strict=strict), path)
        except torch._dynamo.exc.UserError:
            continue
        try:
            expected = torch.utils._pytree.tree_leaves(torch.export.load(path).module()(x))
        except RuntimeError as error:  # a metadata assertion that does not hold
            try:
                exg.run(path, {"x": x})
            except Mismatch:
                continue
            fail(f"exg runs what PyTorch does not: {error}")
        for options in ({}, {"mesh": "2", "place": "auto"}):
            outputs, _ = exg.run(path, {"x": x}, **options)
            for i, value in enumerate(expected):
                got = outputs[str(i)]
                if got.dtype != value.dtype or not torch.allclose(got.double(), value.double(), rtol=2e-2, atol=2e-2):
                    fail(f"strict={strict} {options}: {got} and not {value}")
        ran += 1
    if ran == 0:
        fail("PyTorch ran none of it")


def scaled(exg, dtype, power):
    class Scaled(torch.nn.Module):
        def forward(self, x, power):
            return torch.ldexp(x, power)

    x = (torch.randn(400) * torch.pow(10.0, torch.randint(-30, 30, (400,)).double())).to(dtype)
    powers = torch.randint(0, 250, (400,)).to(power) - (200 if power != torch.uint8 else 0)
    for arguments in ((x, powers), (x, powers[0]), (x[0], powers)):
        path = exg.path(".pt2")
        program = torch.export.export(Scaled(), arguments)
        torch.export.save(program, path)
        outputs, _ = exg.run(path, dict(zip(("x", "power"), arguments)))
        expected = program.module()(*arguments)
        if outputs["0"].dtype != expected.dtype or not torch.equal(outputs["0"], expected):
            fail(f"{outputs['0']} and not {expected}")


if __name__ == "__main__":
    dtypes = (torch.bfloat16, torch.float16, torch.float32, torch.float64)
    powers = (torch.uint8, torch.int32, torch.int64)
    sys.exit(
        run_cases(
            __doc__,
            ("autocast: ", check, {name: (function,) for name, function in CASES.items()}),
            ("within autocast: ", check, {name: (function, Inside) for name, function in INSIDE.items()}),
            ("ldexp: ", scaled, {f"{d} by {p}".replace("torch.", ""): (d, p) for d in dtypes for p in powers}),
        )
    )
