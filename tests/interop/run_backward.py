"""Gradients as make_fx writes them when nothing is decomposed: operators of the way back, which op_db does not call, run by exg
and compared with PyTorch. See README.md beside this file."""

import math
import sys

from run_interop import fail, run_cases, torch
from run_operators import agrees
from torch.fx.experimental.proxy_tensor import make_fx

F = torch.nn.functional


def back(functions):
    """Of all functions what comes back to every input of floats, as one function."""

    def run(*inputs):
        floats = [i for i, x in enumerate(inputs) if x.is_floating_point()]
        found = []
        for function in functions:

            def of_floats(*values, f=function):
                given = list(inputs)
                for i, value in zip(floats, values):
                    given[i] = value
                return f(*given)

            out, pull = torch.func.vjp(of_floats, *(inputs[i] for i in floats))
            found += pull(torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape))
        return tuple(found)

    return run


CASES = {}  # name -> (names of operators that the program has to have, functions, inputs)


def case(name, wanted, functions, *inputs):
    CASES[name] = (wanted.split(), functions, inputs)


def losses():
    x, y, chance = torch.randn(3, 4) * 2, torch.randn(3, 4), torch.rand(3, 4) * 0.9 + 0.05
    weight, classes = torch.rand(3, 4), torch.tensor([1, 3, 0])
    for r in ("none", "mean", "sum"):
        number = {"none": 0, "mean": 1, "sum": 2}[r]
        case(f"losses, {r}", "smooth_l1_loss_backward huber_loss_backward soft_margin_loss_backward", [
            lambda a, b, r=r: F.smooth_l1_loss(a, b, reduction=r, beta=0.7), lambda a, b, n=number: torch.ops.aten.smooth_l1_loss(a, b, n, 0.0),
            lambda a, b, r=r: F.huber_loss(a, b, reduction=r, delta=0.7), lambda a, b, r=r: F.soft_margin_loss(a, b.detach().sign(), reduction=r)], x, y)  # fmt: skip
        case(f"losses of chances, {r}", "binary_cross_entropy_backward", [
            lambda a, r=r: F.binary_cross_entropy(a, weight, reduction=r), lambda a, r=r: F.binary_cross_entropy(a, weight, weight, reduction=r)], chance)  # fmt: skip
        case(f"multi_margin_loss, {r}", "multi_margin_loss_backward", [
            lambda a, t, r=r, p=p, w=w: F.multi_margin_loss(a, t, p, 0.8, w, reduction=r) for p in (1, 2) for w in (None, weight[0])], x, classes)  # fmt: skip
        labels = torch.tensor([[1, 2, -1, 0], [0, -1, 1, 1], [3, 2, 1, 0], [2, 2, 2, -1], [-1, 0, 1, 2]])
        case(f"multilabel_margin_loss, {r}", "multilabel_margin_loss_forward multilabel_margin_loss_backward", [lambda a, t, r=r: F.multilabel_margin_loss(a, t, reduction=r)], torch.randn(5, 4), labels)
    case("multilabel_margin_loss, one row", "multilabel_margin_loss_backward", [F.multilabel_margin_loss], x[0], labels[0])
    case("multi_margin_loss, one row", "multi_margin_loss_backward", [F.multi_margin_loss], x[0], classes[0])


def functions():
    x = torch.randn(3, 4) * 2
    names = "glu_backward log_sigmoid_backward hardshrink_backward softshrink_backward rrelu_with_noise_backward"
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        case(f"functions, {str(dtype)[6:]}", names, [
            lambda a: F.glu(a, 1), F.logsigmoid, F.mish, F.hardshrink, lambda a: F.softshrink(a, 0.3), lambda a: torch.logit(a, 0.2),
            lambda a: F.rrelu(a, 0.1, 0.4, False), lambda a: F.rrelu(a, 0.25, 0.25, True)], x.to(dtype))  # fmt: skip
    case("prelu", "_prelu_kernel_backward", [F.prelu], x, torch.rand(4))
    case("glu of rows", "glu_backward", [lambda a: F.glu(a, 0)], torch.randn(4, 3))
    case("weight_norm", "_weight_norm_interface", [lambda v, g: torch._weight_norm(v, g, 0)], torch.randn(3, 4, 2), torch.rand(3, 1, 1) + 0.5)
    case("weight_norm, the last dim", "_weight_norm_interface", [lambda v, g: torch._weight_norm(v, g, 2)], torch.randn(3, 4, 2), torch.rand(1, 1, 2) + 0.5)


def places():
    plain = "donot_use_mm_for_euclid_dist"
    case("cdist", "_cdist_backward", [lambda a, b, p=p: torch.cdist(a, b, p, plain) for p in (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf"))], torch.randn(2, 3, 4), torch.randn(2, 5, 4))
    case("cdist, places at 0", "_cdist_backward", [lambda a, p=p: torch.cdist(a, a * 1, p, plain) for p in (1.5, 2.0)], torch.randn(3, 4))
    case("pdist", "_pdist_backward", [lambda a, p=p: F.pdist(a, p) for p in (1.0, 2.0, 3.0)], torch.randn(4, 3))
    case("unfold", "unfold_backward", [lambda a: a.unfold(1, 3, 2), lambda a: a.unfold(-1, 1, 1), lambda a: a.unfold(1, 4, 1)], torch.randn(2, 8, 3))
    case("diagonal", "diagonal_backward", [lambda a: a.diagonal(), lambda a: a.diagonal(-1, 2, 0)], torch.randn(3, 4, 5))
    mask = torch.rand(3, 4) > 0.5
    case("masked_scatter", "masked_scatter_backward", [lambda a, b: a.masked_scatter(mask, b), lambda a, b: a.masked_scatter(mask[:1], b)], torch.randn(3, 4), torch.randn(15))
    lengths, holes = torch.tensor([3, 2, 2, 0, 3, 1]), torch.tensor([1.0, 2, 2, 0, 3, 0, 0, 5, math.nan, 1, -2])
    for how in ("sum", "mean", "max", "min", "prod"):
        case(f"segment_reduce, {how}", "_segment_reduce_backward", [
            lambda a, n, h=how, i=i: torch.segment_reduce(a, h, lengths=n, initial=i) for i in (None, 1.5)], torch.randn(11, 2, 3), lengths)  # fmt: skip
        case(f"segment_reduce, {how}, zeros and nan", "_segment_reduce_backward", [lambda a, n, h=how: torch.segment_reduce(a, h, lengths=n, unsafe=True)], holes, lengths)
        case(f"segment_reduce, {how}, offsets", "_segment_reduce_backward", [lambda a, n, h=how: torch.segment_reduce(a, h, offsets=n, axis=0)], torch.randn(7, 2), torch.tensor([0, 2, 2, 7]))
    case("segment_reduce, along dim 1", "_segment_reduce_backward", [lambda a, n: torch.segment_reduce(a, "mean", lengths=n, axis=1, unsafe=True)], torch.randn(3, 5, 2), torch.tensor([[2, 3], [4, 1], [1, 1]]))
    for count, size in ((1, (2, 3, 5)), (2, (2, 3, 5, 4)), (3, (1, 2, 4, 5, 3))):
        pad = (1, 2, 2, 1, 1, 2)[: 2 * count]
        case(f"reflection, {count} dims", f"reflection_pad{count}d_backward", [lambda a, p=pad: F.pad(a, p, mode="reflect"), lambda a, p=pad: F.pad(a, (-1, *p[1:]), mode="reflect")], torch.randn(size))
    drawn = torch.rand(1, 2, 2), torch.rand(1, 2, 3)
    case("fractional_max_pool2d", "fractional_max_pool2d_backward", [lambda a: F.fractional_max_pool2d(a, 2, (3, 2), _random_samples=drawn[0])], torch.randn(1, 2, 6, 5))
    case("fractional_max_pool3d", "fractional_max_pool3d_backward", [lambda a: F.fractional_max_pool3d(a, 2, (3, 2, 2), _random_samples=drawn[1])], torch.randn(1, 2, 6, 5, 4))


def images():
    for mode, count in (("nearest", 1), ("nearest", 2), ("nearest", 3), ("nearest-exact", 1), ("nearest-exact", 2), ("nearest-exact", 3), ("linear", 1), ("bilinear", 2), ("trilinear", 3), ("bicubic", 2)):
        image = torch.randn((2, 2, 4, 6, 5)[: 2 + count])
        ways = [{"size": (7, 5, 3)[:count]}, {"scale_factor": (1.7, 2.3, 0.6)[:count]}, {"scale_factor": (0.5, 2.0, 1.5)[:count], "recompute_scale_factor": True}]
        corners = (None,) if mode.startswith("nearest") else (False, True)
        name = f"_upsample_nearest_exact{count}d" if mode == "nearest-exact" else f"upsample_{mode}{count}d"
        case(f"interpolate, {mode}, {count} dims", f"{name} {name}_backward", [lambda a, m=mode, c=c, w=w: F.interpolate(a, mode=m, align_corners=c, **w) for c in corners for w in ways], image)
    for mode in ("bilinear", "bicubic", "lanczos"):
        case(f"interpolate, antialias, {mode}", f"_upsample_{mode}2d_aa_backward", [lambda a, m=mode, c=c: F.interpolate(a, (3, 7), mode=m, align_corners=c, antialias=True) for c in (False, True)[: 1 + (mode != "lanczos")]], torch.randn(1, 2, 6, 5))
    modes = [(m, p, c) for m in ("bilinear", "nearest") for p in ("zeros", "border", "reflection") for c in (False, True)]
    for count, size in ((2, (2, 3, 5, 4)), (3, (2, 2, 3, 4, 5))):
        grid = torch.rand(2, *(6, 3, 2)[:count], count) * 3.6 - 1.8
        case(f"grid_sample, {count} dims", f"grid_sampler_{count}d_backward", [lambda a, g, m=m, p=p, c=c: F.grid_sample(a, g, m, p, c) for m, p, c in modes], torch.randn(size), grid)
        if count == 2:
            case("grid_sample, bicubic", "grid_sampler_2d_backward", [lambda a, g, p=p, c=c: F.grid_sample(a, g, "bicubic", p, c) for _, p, c in modes[:6]], torch.randn(size), grid)
        case(f"grid_sample, {count} dims, the grid alone", f"grid_sampler_{count}d_backward", [lambda g, s=size: F.grid_sample(torch.ones(s).cumsum(-1), g, align_corners=True)], grid)


losses()
functions()
places()
images()


def named(g, x, scale):
    """Those that torch.func writes out by itself, and other tracers do not."""
    a = torch.ops.aten
    norm = a._weight_norm_interface(x, scale, 0)[1]
    return (
        a.mish_backward(g, x), a.logit_backward(g, x, 0.2), a.logit_backward(g, x), a.mish_backward(g.bfloat16(), x.bfloat16()),
        *a._weight_norm_interface_backward(g, x, scale, norm, 0),
        a._masked_softmax_backward(g, torch.softmax(x, 1), x < 0.5, 1), a._masked_softmax_backward(g, torch.softmax(x, 1), x < 0.5),
    )  # fmt: skip


def check(exg, wanted, written, inputs):
    traced = make_fx(back(written))(*inputs)
    there = {str(node.target).split(".")[1] for node in traced.graph.nodes if str(node.target).startswith("aten.")}
    if not there >= set(wanted):
        fail(f"the program has no {', '.join(sorted(set(wanted) - there))}")
    agrees(exg, lambda *values: tuple(traced(*values)), inputs)


def check_names(exg):
    agrees(exg, named, (torch.randn(3, 4), torch.tensor([[0.25, 0.9, 1.5, -1.0]]).repeat(3, 1), torch.rand(3, 1) + 0.5))


def main():
    return run_cases(__doc__, ("", check, CASES), ("", check_names, {"operators by their names": ()}))


if __name__ == "__main__":
    sys.exit(main())
