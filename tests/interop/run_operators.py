"""Operators where PyTorch's database of samples does not reach: a table of calls whose results agree, and one of calls that
PyTorch refuses when they run and exg then has to refuse with a code. See README.md beside this file."""

import itertools
import math
import subprocess
import sys

from run_interop import DEADLINE, fail, run_cases, same, safetensors, torch

import torch.nn.modules.linear_cross_entropy  # noqa: E402, F401 - its operators

F = torch.nn.functional
nan, inf = math.nan, math.inf


class Call(torch.nn.Module):
    """A function of tensors; of weights too, where gradients are wanted of them."""

    def __init__(self, function, weights=()):
        super().__init__()
        self.function = function
        self.weights = torch.nn.ParameterList(weights)

    def forward(self, *args):
        return self.function(*args, *self.weights)


def tensor(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype)


# ---- agreeing: name -> (function, inputs), or (function, inputs, weights) ------------------------

EDGES = tensor(-2, -1, -1, 0, 0.5, 3)
PLACES = torch.cat([EDGES, EDGES + 0.25, tensor(-inf, inf, nan)])
AGREE = {}


PAIRS = torch.complex(PLACES, PLACES.flip(0))
AGREE["nan_to_num of complex numbers"] = lambda x: (torch.nan_to_num(x), torch.nan_to_num(x, 2.0, 3.0, -4.0), torch.nan_to_num(x.to(torch.complex128), posinf=5.0).to(x.dtype)), (PAIRS,)


def searches():
    """What searchsorted and bucketize find on both sides, in both counts."""
    for right in (False, True):
        for narrow in (False, True):
            name = f"bucketize, {'right' if right else 'left'}, {'int32' if narrow else 'int64'}"
            yield name, (lambda x, e, r=right, n=narrow: torch.bucketize(x, e, right=r, out_int32=n), (PLACES, EDGES))
    for dtype in (torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        edges, values = (x.nan_to_num(0, 5, 0).mul(2).abs().to(dtype) for x in (EDGES.abs().sort()[0], PLACES))
        yield f"bucketize, {str(dtype)[6:]}", (torch.bucketize, (values, edges))
    promoted = {"int and float": (PLACES, EDGES.long()), "float and int": (PLACES.nan_to_num(7).long(), EDGES),
                "half and bfloat16": (PLACES.half(), EDGES.bfloat16()), "a double number": (tensor(0.5).double()[0], EDGES),
                "a number among integers": (tensor(0.5)[0], EDGES.long()), "wide and narrow": (PLACES.double(), EDGES)}
    for name, inputs in promoted.items():
        yield f"bucketize, {name}", (torch.bucketize, inputs)
    yield "bucketize, among nan", (lambda x, e: (torch.bucketize(x, e), torch.bucketize(x, e, right=True)), (PLACES, torch.cat([EDGES, tensor(nan, nan)])))
    yield "bucketize, out of order", (torch.bucketize, (PLACES, EDGES.flip(0)))
    yield "bucketize, nothing", (lambda x, e: (torch.bucketize(x, e[:0]), torch.bucketize(x[:0], e)), (PLACES, EDGES))
    yield "bucketize, a number", (lambda e: (torch.bucketize(0, e), torch.bucketize(0.25, e.long(), right=True)), (EDGES,))
    lines, values = torch.randn(2, 3, 5).sort()[0], torch.randn(2, 3, 7)
    for side in ("left", "right"):
        yield f"searchsorted, lines, {side}", (lambda e, x, s=side: torch.searchsorted(e, x, side=s), (lines, values))
    shuffled = torch.randn(2, 3, 5)
    yield "searchsorted, sorter", (lambda e, x, s: torch.searchsorted(e, x, sorter=s, right=True), (shuffled, values, shuffled.argsort()))
    yield "searchsorted, one line", (lambda e, x: torch.searchsorted(e, x.mT), (EDGES, values))
    yield "searchsorted, a number", (lambda e: torch.searchsorted(e, 0.25, out_int32=True), (EDGES,))


def members():
    """isin among few and among many, which are sorted: NaN equals nothing, infinity only itself."""
    many = torch.cat([torch.arange(20) / 4, tensor(nan, -0.0, nan, -inf)])
    values = torch.cat([PLACES, tensor(0, 1.75, 4.75, 9)])
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64):
        x, tests = ((t if dtype.is_floating_point else t.nan_to_num(3, 7, 0).abs()).to(dtype) for t in (values, many))
        yield f"isin, {str(dtype)[6:]}", (lambda x, t: (torch.isin(x, t), torch.isin(x, t, invert=True), torch.isin(x, t[:5])), (x, tests))
    for name, inputs in {"int and float": (values.nan_to_num(7).long(), many), "float and int": (values, many.nan_to_num(3).long()),
                         "rows": (values[:18].reshape(3, 6), many), "a number's tensor": (tensor(0.5)[0], many), "nan alone": (values, many * nan),
                         "no value": (values[:0], many), "nothing": (values, many[:0])}.items():
        yield f"isin, {name}", (torch.isin, inputs)
    far = 2**53 + torch.arange(20) * 2
    yield "isin, beyond what a double tells apart", (torch.isin, (far + torch.arange(20) % 2, far))
    yield "isin, a number", (lambda x: (torch.isin(x, 0.25), torch.isin(x.long(), 2, invert=True), torch.isin(3, x), torch.isin(4, x, invert=True)), (EDGES,))


def bags():
    index, offsets, rows = tensor(1, 2, 3, 4, 4, dtype=torch.int64), tensor(0, 2, 2, 4, dtype=torch.int64), torch.randn(6, 3)
    orders = {"": offsets, ", first twice": offsets * tensor(0, 0, 1, 1, dtype=torch.int64)}
    for mode, name in enumerate(("sum", "mean", "max")):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            for order, starts in orders.items():
                for last in (False, True):
                    for padding in (None, 4):
                        label = f"{name}, {str(dtype)[6:]}{', short of the last' if last else ''}{order}{'' if padding is None else ', padding'}"

                        def bag(i, o, w, m=mode, x=last, p=padding):
                            """What PyTorch gives has other sizes than it records, now and then."""
                            count = o.shape[0] - x
                            out, of, sizes, at = torch.embedding_bag(w, i, o, False, m, False, None, x, p)
                            of = of[:0] if w.dtype == torch.bfloat16 and m == 0 else of
                            return out, of, sizes[:count], at[:count], sizes if m == 0 else out

                        yield f"embedding_bag, {label}", (bag, (index, starts, rows.to(dtype)))
                        yield f"embedding_bag, trained, {label}", (bag, (index, starts), (rows.to(dtype),))
    descending = tensor(0, 3, 1, dtype=torch.int64)
    yield "embedding_bag, offsets in no order", (lambda i, o, w: torch.embedding_bag(w, i, o)[0], (index, descending, rows.double()))


def roundings():
    """What is rounded once, or after each step, as PyTorch does."""
    x, a, c = torch.randn(5, 10).half() * 3, torch.randn(5, 5, 5).half() * 3, torch.randn(5, 5, 10).half() * 3
    exact = torch.addbmm(x.double(), a.double(), c.double(), beta=0.6, alpha=0.2).half()
    yield "addbmm, half", (lambda x, a, c, e: (torch.addbmm(x, a, c, beta=0.6, alpha=0.2) - e).abs() < 0.03, (x, a, c, exact))
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.int64, torch.int8, torch.complex64):
        for start, end, steps in ((-3, 4.7, 50), (5, -9, 17), (-2.5, 0.3, 33), (2, 9, 1)):
            name = f"{start} to {end} by {steps}, {str(dtype)[6:]}"

            def line(s=start, e=end, n=steps, d=dtype):
                made = torch.linspace(s, e, n, dtype=d)
                return torch.view_as_real(made) if d.is_complex else made

            yield f"linspace, {name}", (line, ())
    for dtype in (torch.int32, torch.uint8, torch.float16):
        one, many = torch.ones(1, 1, 1, dtype=dtype), torch.arange(4).view(2, 1, 2).to(dtype)
        yield f"tensordot, beside 1, {str(dtype)[6:]}", (lambda p, q: torch.tensordot(p, q, ([0, 1], [2, 0])), (one, many))
    z, w = torch.randn(2, 50, 2) * 4

    def power(p, q):
        return torch.view_as_real(torch.view_as_complex(p).pow(torch.view_as_complex(q)).log())

    yield "pow, complex", (power, (z, w))


def bytes_alone():
    """Programs of uint8 and bool alone, which run on bytes, and others that begin so."""
    u8 = lambda *shape: torch.randint(0, 256, shape, dtype=torch.uint8)
    b8 = lambda *shape: torch.randint(0, 2, shape, dtype=torch.bool)
    yield "bytes, wrapped", (lambda x, y: ((x + y) * 3 - x, torch.add(x, y, alpha=7) + torch.sub(x, y, alpha=2), -x, x.square(), ~y), (u8(70, 33), u8(33)))
    yield "bytes, compared", (lambda x, y: ((x < y) & (y < 200) | ~(x == y), (x == -1) | (x > 254)), (u8(7, 1000), u8(7, 1)))
    yield "bytes, bounded", (lambda x, y: (x.clamp(3, 200), x.clamp(min=5), torch.maximum(x, y), torch.where(x > y, x, y).t()), (u8(64, 129), u8(64, 129)))
    yield "bytes, truth", (lambda x, y: (x | y, x ^ y, ~x, x & y, x + y, x * y, torch.where(x, y, ~y), torch.logical_not(x)), (b8(64, 129), b8(129)))
    yield "bytes, masked", (lambda x, m: (x.masked_fill(m, 9), (x & m.to(torch.uint8)) + 1, m.to(torch.uint8) * x), (u8(40, 65), b8(65)))
    yield "bytes, apart", (lambda x, y: (x[:, ::3] + y[:, ::3], x.t() * 2, x[::2] ^ y[1::2]), (u8(20, 300), u8(20, 300)))
    yield "bytes, and what is wider", (lambda x: ((x >= x.mean(dtype=torch.float32)) & (x != 0), (x + 1).int() + 300), (u8(500),))
    yield "bytes, many", (lambda x, y: (x + y, x), (u8(1 << 20), u8(1 << 20)))


AGREE.update(bytes_alone())
AGREE.update(searches())
AGREE.update(members())
AGREE.update(roundings())


def images():
    """Bytes are weighed in whole numbers."""
    image = torch.randint(0, 256, (2, 3, 10, 20), dtype=torch.uint8)
    for mode, sizes, corners in itertools.product(("bilinear", "bicubic", "lanczos"), ((17, 18), (4, 3), (10, 20), (1, 45), (31, 7)), (False, True)):
        if mode == "lanczos" and corners:
            continue  # which PyTorch does not have

        def resized(x, m=mode, s=sizes, c=corners):
            return F.interpolate(x, s, mode=m, align_corners=c, antialias=True)

        yield f"interpolate, antialias, {mode}, {sizes}, {corners}", (resized, (image,))
        yield f"interpolate, antialias, {mode}, {sizes}, {corners}, floats", (resized, (torch.randn(2, 3, 10, 20),))
    for mode in ("bilinear", "bicubic"):

        def scaled(x, m=mode):
            return F.interpolate(x, scale_factor=(1.7, 0.9), mode=m, antialias=True)

        yield f"interpolate, antialias, {mode}, by factors", (scaled, (image,))
    larger = torch.randint(0, 256, (1, 2, 90, 97), dtype=torch.uint8)
    for mode, size, corners in itertools.product(("bilinear", "bicubic"), ((7, 9), (33, 130), (90, 97), (150, 260), (1, 1)), (False, True)):

        def between(x, m=mode, s=size, c=corners):
            return F.interpolate(x, s, mode=m, align_corners=c)

        yield f"interpolate, {mode}, {size}, {corners}", (between, (larger,))
        yield f"interpolate, {mode}, {size}, {corners}, floats", (between, (torch.randn(2, 3, 20, 45),))
    infinite = torch.randn(1, 1, 40, 40)
    infinite[0, 0, 3, 3] = inf
    yield "interpolate, antialias, beside what is infinite", (lambda x: F.interpolate(x, (13, 13), mode="bilinear", antialias=True).isfinite(), (infinite,))


AGREE.update(images())


def chunked():
    """Cross entropy of a linear layer, which makes its gradients while it goes through the batch."""
    x, w, bias, t = torch.randn(7, 4), torch.randn(5, 4), torch.randn(5), tensor(0, 2, -100, 4, 1, 1, 3, dtype=torch.int64)
    classes = torch.rand(5) + 0.5
    whole = torch.ops.torch_nn._linear_cross_entropy_batch_chunked
    for reduction in ("mean", "sum"):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            for weighed in (False, True):
                for wanted in ((True, True, True), (True, False, False), (False, True, False), (False, False, True)):
                    acc = torch.float32 if dtype == torch.bfloat16 else dtype

                    def loss(x, w, t, b, c, r=reduction, a=acc, y=weighed, g=wanted):
                        return whole(x, w, t, b, c if y else None, r, -100, 0.0, 3, "accurate", a, False, *g)

                    name = f"{reduction}, {str(dtype)[6:]}, {'classes weighed, ' if weighed else ''}{wanted}"
                    yield f"linear_cross_entropy, {name}", (loss, (*(v.to(dtype) for v in (x, w)), t, bias.to(dtype), classes.to(dtype)))


AGREE.update(chunked())


def saturates():
    """Whether PyTorch's product of float8 stops at the greatest on this processor; where oneDNN has tiles for it, it is NaN."""
    most = torch.full((16, 16), 100.0).to(torch.float8_e4m3fn)
    one = torch.tensor(1.0)
    return not torch._scaled_mm(most, most.t(), one, one, out_dtype=torch.float8_e4m3fn).float().isnan().any()


def float8():
    """Products of float8, which come and go as what they are cast from and to; of whole numbers, whose sums no order rounds."""
    x, w = torch.randint(-15, 16, (16, 32)).float(), torch.randint(-7, 8, (48, 32)).float()
    one, two = torch.tensor(0.25), torch.tensor(3.0)
    rows, columns, bias = torch.randint(-3, 3, (16, 1)).exp2(), torch.randint(-3, 3, (1, 48)).exp2(), torch.randn(48)
    kinds = {"e4m3fn": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
    for name, kind in kinds.items():
        for out in (None, torch.float32, torch.bfloat16, torch.float16):

            def scaled(x, w, s, t, *rest, k=kind, o=out):
                return torch._scaled_mm(x.to(k), w.to(k).t(), s, t, *rest, out_dtype=o).float()

            label = f"_scaled_mm, {name} to {'itself' if out is None else str(out)[6:]}"
            if name == "e4m3fn" and out is None and not saturates():
                print(f"left out: {label}: PyTorch does not stop at the greatest on this processor")
                continue
            yield label, (scaled, (x, w, one, two))
            yield f"{label}, past its greatest", (scaled, (x, w, two * 8000, two))
            if out is not None:
                yield f"{label}, by rows", (scaled, (x, w, rows, columns))
                yield f"{label}, bias", (scaled, (x, w, one, two, bias.to(out)))
        yield f"_scaled_mm, {name}, result scaled", (
            lambda x, w, s, t, k=kind: torch._scaled_mm(x.to(k), w.to(k).t(), s, s, scale_result=t, out_dtype=k).float(), (x, w, one, two))
        yield f"mm, {name}", (lambda x, w, k=kind: (x.to(k) @ w.to(k).t()).float(), (x, w))
        yield f"mm, {name}, past its greatest", (lambda x, w, k=kind: (x.to(k) @ w.to(k).t()).float(), (x * 20, w * 30))
        yield f"linear, {name}", (lambda x, w, k=kind: F.linear(x.to(k).view(2, 8, 32), w.to(k)).float(), (x, w))
        yield f"addmm, {name}", (lambda b, x, w, k=kind: torch.addmm(b.to(k), x.to(k), w.to(k).t()).float(), (rows * columns, x, w))
        yield f"weights, {name}", (lambda x, w, k=kind: (x.to(k) @ w.to(k).t()).float(), (x,), (w,))


AGREE.update(float8())


def dequantised():
    """By channel, in the scales' own precision."""
    from torch.ao.quantization.fx import _decomposed  # noqa: F401, defines the operators

    q = torch.ops.quantized_decomposed.dequantize_per_channel
    w, zeros = torch.randint(-100, 100, (16, 24), dtype=torch.int8), torch.randint(-5, 5, (16,))
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        scales = (torch.rand(16) / 50 + 0.01).to(dtype)
        for name, zero in {"": zeros, ", float zeros": zeros.float()}.items():
            yield f"dequantize_per_channel, {str(dtype)[6:]}{name}", (lambda w, s, z: q(w, s, z, 0, -128, 127, torch.int8), (w, scales, zero))


def others_named(x):
    """What is written as another operator, and in place, beyond what PyTorch's database calls."""
    i, y = (x * 9).int(), x.clone().double()
    return (
        torch.clip(x, x * 0.5, x + 1), torch.clip(x, min=x.mean()), x.clone().clip_(max=x.mean()), torch.moveaxis(x, 0, 1), torch.range(0, 4), torch.range(5, -2.4, -1.5),
        torch.fill(x, x.mean()), torch.divide(x, 2, rounding_mode="floor"), x.clone().div_(0.3, rounding_mode="trunc"), torch.float_power(2, x),
        torch.conv_tbc(x.view(4, 1, 3).repeat(1, 2, 1), torch.ones(2, 3, 5), x.sum().repeat(5), 1), x.clone().renorm_(2, 0, 1.0), torch.special.xlogy(2.0, x),
        torch.special.xlogy(x, 2.0), torch.special.softmax(x, 0), torch.special.log_softmax(x, 1), i.clone().lcm_(i + 3), y.float_power_(2.5), x.clone().ldexp_(i),
        x.clone().index_reduce_(0, torch.tensor([0]), x[1:2], "amax"), i.clone().__ilshift__(i), i.clone().__irshift__(i % 3),
        x.clone().fill_diagonal_(2.0), x.t().clone().fill_diagonal_(3), torch.zeros(7, 2).fill_diagonal_(5, wrap=True), torch.zeros(3, 3, 3).fill_diagonal_(1),
    )  # fmt: skip


AGREE.update(dequantised())
AGREE["names of others"] = (others_named, (torch.rand(3, 4) + 0.1,))
AGREE["bits of a number first"] = (lambda x: (torch.bitwise_and(5, x), torch.bitwise_or(3, x), torch.bitwise_xor(6, x)), (torch.arange(-9, 9),))
AGREE["pad_sequence"] = (lambda x, i: (torch.nn.utils.rnn.pad_sequence([x[:2], x, x[:1]], padding_value=2.5), torch._C._nn.pad_sequence([i, i[:3]], True, 7.0, "left")), (torch.randn(4, 3), torch.arange(5)))
AGREE["_weight_int8pack_mm"] = (torch._weight_int8pack_mm, (torch.randn(4, 32).bfloat16(), torch.randint(-9, 9, (16, 32), dtype=torch.int8), torch.rand(16).bfloat16()))
AGREE.update(bags())
scores, unseen = torch.randn(2, 3, 4, 4), torch.rand(2, 4) > 0.6
AGREE["_masked_softmax"] = (
    lambda x, k, m: (torch._masked_softmax(x, k, 3, 1), torch._masked_softmax(x, m[0, 0], 3, 0), torch._masked_softmax(x, m, 2, 2), torch._masked_softmax(x[0, 0], m[0, 0], None, 2)),
    (scores, unseen, scores > 0.8))
def without_generator(x):
    """PyTorch takes another overload where a generator is named, even if it is None."""
    g, like = {"generator": None}, x * 0
    return (torch.rand(4, **g) * 0 + x, torch.randn((2, 4), **g) * 0 + x, torch.rand_like(x, **g) * 0, torch.randn_like(x, **g) * 0 + x, torch.randint(3, (4,), **g) * 0,
            torch.randint(2, 5, (4,), **g) * 0, torch.randint_like(x, 5, **g) * 0, torch.randint_like(x, 2, 5, **g) * 0, torch.randperm(4, **g).sort()[0], like)  # fmt: skip


def with_tokens(x):
    a = torch.ops.aten
    token = a._functional_assert_async.msg(x.sum() > -100, "small", a._make_dep_token())
    token = a._functional_sym_constrain_range_for_size(x.shape[0], 2, 9, a._functional_sym_constrain_range(x.shape[0], None, 9, token))
    return x * 2, a._functional_assert_scalar(x.shape[0] > 2, "large", token) * 0


for other in (torch.float64, torch.bfloat16):
    AGREE[f"a transposed convolution, bias {str(other)[6:]}"] = (
        lambda x, w, b: torch.convolution(x, w, b, (1, 1), (0, 0), (1, 1), True, (0, 0), 1), (torch.randn(1, 2, 3, 3), torch.randn(2, 3, 2, 2), torch.randn(3).to(other)))
AGREE["generator=None"] = (without_generator, (torch.randn(4),))
AGREE["assertions with tokens"] = (with_tokens, (torch.randn(4),))
AGREE["_euclidean_dist"] = (torch.ops.aten._euclidean_dist, (torch.randn(2, 5, 3), torch.randn(2, 4, 3)))
for half in (torch.float16, torch.bfloat16, torch.float32):
    AGREE[f"rms_norm, tiny, {str(half)[6:]}"] = (lambda x: F.rms_norm(x, (8,)), (torch.randn(4, 8).mul(1e-4).to(half),))


def windows():
    """A window is written with what its source is in the tensor's own dtype."""
    source = torch.tensor([[1.75, -2.5, 0.25, 100.0]])

    def written(x, s):
        return (torch.slice_scatter(x, s, 0, 1, 2), torch.select_scatter(x, s[0], 0, -1), torch.diagonal_scatter(x, s[0, :3]),
                torch.as_strided_scatter(x, s.view(2, 2), (2, 2), (1, 4), 1))

    for to in (torch.float32, torch.int32, torch.bool, torch.bfloat16, torch.complex64):
        for of in (torch.float64, torch.int64, torch.bool, torch.complex64):
            values = torch.complex(source, -source) if of.is_complex else source.to(of)
            if of != to:
                yield f"windows, {str(of)[6:]} into {str(to)[6:]}", (written, (torch.zeros(3, 4, dtype=to), values))


def wider():
    """Products stored in float32 of narrower operands, which PyTorch has no kernel for on the CPU."""
    for dtype in (torch.float16, torch.bfloat16):
        x, y, z = torch.randint(-9, 9, (2, 3, 4)).to(dtype), torch.randint(-9, 9, (2, 4, 5)).to(dtype), torch.randn(3, 5)
        for out in (torch.float32, dtype):

            def products(x, y, z, o=out):
                return torch.mm(x[0], y[0], out_dtype=o), torch.bmm(x, y, out_dtype=o), torch.addmm(z.to(o), x[1], y[1], out_dtype=o, beta=0.5, alpha=2)

            def plainly(x, y, z, o=out):
                p = (x.double() @ y.double())
                return p[0].to(o), p.to(o), (0.5 * z.to(o).double() + 2 * p[1]).to(o)

            yield f"out_dtype, {str(dtype)[6:]} to {str(out)[6:]}", (products, (x, y, z), (), False, plainly)


def names_of_old(x, i):
    """Operators that PyTorch's own functions no longer call, or call on their way alone."""
    a, w = torch.ops.aten, x[None, None, :2, :2]
    return (
        a.norm.Scalar(x, 3), a.norm.ScalarOpt_dtype(x, None, dtype=torch.float64), a.norm.ScalarOpt_dim(x, 1, [0]), a.frobenius_norm.dim(x, [0, 1]),
        a.norm.ScalarOpt_dim_dtype(x, None, [1], True, dtype=torch.float64), a._stack([x, x]), a.zero(x), a.lift(x), a.split.sizes(x, [1, 3], 1)[1],
        a._convolution(x[None, None], w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, False, False, True, True), a.to.other(x, i),
        a._convolution.deprecated(x[None, None], w, None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1, False, False, True), a._reshape_alias_copy(x, [4, 3], [3, 1]),
        a.nll_loss(x, i), a.nll_loss2d(x[..., None, None], i[:, None, None]), a.embedding_backward(x, i, 5, 1, False, False), a.view_copy.dtype(x, torch.int32),
        a._unsafe_index_put(x, [i[:2]], x[:2], True), a.view_as_real_copy(torch.complex(x, x)), a.view_as_real(a.view_as_complex_copy(x[:, :2])),
        a._addmm_activation(x[0], x, x.mT @ x), a._addmm_activation(x[0], x, x.mT @ x, beta=-2, alpha=0.5, use_gelu=True),
        a._upsample_nearest_exact1d(x[None], [7], 1.8), a.upsample_bilinear2d(x[None, None], [7, 2], False, 2.4, 0.6), a.upsample_bicubic2d(x[None, None], [7, 2], True),
        F.hinge_embedding_loss(x, i[:, None].int() - 1), F.hinge_embedding_loss(i * 3, i - 1, margin=2.5, reduction="none"),
        torch.linalg.solve_triangular(x[:, :3], x.double(), upper=False), torch.linalg.solve_triangular(x[:, :3].double(), x, upper=True),
        *F.adaptive_max_pool2d(x[None], (0, 2), return_indices=True), F.adaptive_max_pool1d(x, 0), F.adaptive_max_pool3d(x[None, None], 0),
        torch.narrow(x, 1, torch.tensor(1), 2), torch.narrow(x, 1, torch.tensor(-3), 2),
    )  # fmt: skip


def written_in_place(x, i):
    """What torch.export takes, and run_decompositions does not."""
    a, p = torch.ops.aten, torch.ops.prims
    z = torch.complex(x, x + 1)
    return (
        a._index_put_impl_(x.clone(), [i[:2]], x[:2], True), x.clone().polygamma_(2), a.as_strided_(x.clone(), [2, 2], [1, 3], 1), a.lift_fresh(x) * 2,
        torch.view_as_real(z.clone().conj_physical_()), p.as_strided(x, [2, 2], [1, 1], 0) * 2, p.resize(x.clone(), [2, 3]) * 1, p.copy_to(x.clone(), x + 1) * 2,
        p.real(z), p.imag(z), p.conj(z).imag, F.conv_transpose1d(x[None], x[:, :, None], x[0].double()),
    )  # fmt: skip


AGREE.update(windows())
AGREE.update(wider())
AGREE["names of old"] = (names_of_old, (torch.rand(3, 4) + 0.5, torch.tensor([1, 2, 0])))
AGREE["names of old, written in place"] = (written_in_place, (torch.rand(3, 4) + 0.2, torch.tensor([1, 2, 0])))


def mixed():
    """Losses of what has another dtype than its target: PyTorch promotes, or keeps the target's. Of huber_loss it records
    what it does not give: its program is asked for what both agree on."""
    steps = torch.arange(20.0).view(4, 5)  # not drawn: PyTorch draws others on another processor, and one may be a tie of bfloat16
    x, y = (steps * 0.37) % 4 - 2, (steps * 0.29) % 0.9 + 0.05

    def losses(x, y):
        found = (
            F.huber_loss(x, y, reduction="none", delta=0.5)[..., None] > torch.linspace(0.03, 1, 9),  # no loss within 1 % of one
            F.smooth_l1_loss(x, y, reduction="none"), F.mse_loss(x, y), F.l1_loss(x, y), F.margin_ranking_loss(x, y, y),
            F.binary_cross_entropy_with_logits(x, y, y.float() + 1, "none", pos_weight=y[0].double() + 2),
        )  # fmt: skip
        if y.dtype == torch.bfloat16:
            return found
        found += (F.kl_div(x, y, reduction="sum"),)
        # e^x of bfloat16, PyTorch rounds to a neighbour of the nearest: what float32 adds up of that is no reference
        return found if x.dtype == torch.bfloat16 else (*found, F.poisson_nll_loss(x, y, full=True))

    for one, other in ((torch.float32, torch.float64), (torch.bfloat16, torch.float32), (torch.float32, torch.bfloat16)):
        yield f"mixed, losses of {str(one)[6:]} and {str(other)[6:]}", (losses, (x.to(one), y.to(other)))
    yield "mixed, rms_norm", (lambda x, w: (F.rms_norm(x, (5,), w), F.rms_norm(x.double(), (5,), w.float())), (x, y[0].double()))


AGREE.update(mixed())


def beside():
    """Numbers beside tensors whose dtype does not hold them: PyTorch computes with the number as it is."""
    def numbers(x, s, wide):
        found = (x + s, x * s, x / s, s / (x + 2), x.clone().add_(s), x.clone().mul_(s), torch.add(x, s, alpha=2), x[0, 1] * s)
        return found + ((torch.div(x, s, rounding_mode="floor"), torch.cumsum(x + s, 0)) if wide else ())

    for dtype, all_of in ((torch.uint8, (300, -1, -200, 70000, 2**40)), (torch.int8, (300, -200, 2**40)), (torch.int32, (2**40, -(2**33))),
                          (torch.float16, (70000, 70000.0, -(2**20))), (torch.float32, (1e300, -1e300))):  # fmt: skip
        x = torch.tensor([[1, 100, 3], [0, 5, 2]]).to(dtype) if dtype != torch.float16 else torch.tensor([[0.25, -1.5, 3], [0, -20000, -0.25]]).half()
        for s in all_of:
            yield f"{s} beside {str(dtype)[6:]}", (lambda x, s=s, w=dtype != torch.float32 and s % 2**32 != 0: numbers(x, s, w), (x,))
    yield "an item beside uint8", (lambda x, n: ((lambda i: (x / i, x + i, x * i, i - x, x // i))(n.item())), (torch.tensor([[1, 100], [0, 5]], dtype=torch.uint8), torch.tensor(-3)))
    yield "1e-10 beside float16", (lambda x: (x / 1e-10, x * 1e-10, x - 1e-10), (torch.tensor([[0.25, -1.5, 3], [0, 0.75, -0.25]]).half(),))
    yield "elu, celu of infinite alpha", (lambda x: (F.elu(x, float("inf")), F.celu(x, float("nan"))), (torch.tensor([1.0, 0, -1, -0.0]),))


AGREE.update(beside())


def by_halves():
    """Floats of 16 bits by numbers and tensors of one element, which PyTorch takes as they are, and whole quotients, which it rounds on the way."""
    x = torch.rand(2000) * 20 + 0.01
    x[0] = -3.5
    y = torch.randn(2000) * 3
    y[1], y[2] = 0, inf

    def by_number(x, s, small):
        halves = torch.empty_like(x), torch.empty_like(x), torch.empty_like(x)
        found = (x * s, s * x, x / s, s / x, x // s, torch.multiply(x, s), torch.divide(x, s), torch.true_divide(x, s), torch.floor_divide(x, s),
                 torch.div(x, s, rounding_mode="trunc"), torch.divide(x, s, rounding_mode="floor"), x.clone().mul_(s), x.clone().div_(s),
                 x.clone().true_divide_(s), x.clone().floor_divide_(s), torch.div(x, s, out=halves[0]), torch.mul(x, s, out=halves[1]),
                 torch.div(x, s, rounding_mode="trunc", out=halves[2]), x[0] * s, x[:1] / s)  # fmt: skip
        return found + ((x + s, x - s, s - x, x % s) if small else ())

    def by_one(x, s):
        return x * s, x / s, s * x, s / x, x // s, s // x, torch.div(x, s, rounding_mode="trunc"), x + s, x - s, x.clone().mul_(s), x.clone().div_(s)

    def by_item(x, n):
        s = n.item()
        return x * s, x / s, x // s, x.clone().mul_(s), x + s

    for dtype in (torch.bfloat16, torch.float16):
        name, half = str(dtype)[6:], x.to(dtype)
        for s in (0.1, 0.3, 3001, 1e5, -1e-6):
            yield f"{name} by {s}", (lambda x, s=s: by_number(x, s, abs(s) < 1e5), (half,))
        for s in (torch.tensor(0.1), torch.tensor(0.7, dtype=torch.float64), torch.tensor(3001), torch.tensor([3001]), torch.tensor(-30001, dtype=torch.int32)):
            yield f"{name} by {str(s.dtype)[6:]} of {s.dim()} dims", (by_one, (half, s))
        for s in (torch.tensor(0.1), torch.tensor(3001)):
            yield f"{name} by an item of {str(s.dtype)[6:]}", (by_item, (half, s))
        for scale in (1, 1000):
            yield f"{name} by {name}, whole, of {scale}", (
                lambda x, y: (x // y, torch.div(x, y, rounding_mode="trunc"), torch.div(x, y, rounding_mode="floor"), x % y, torch.fmod(x, y), x / y),
                ((x * scale).to(dtype), y.to(dtype)))


def after(layer, function):
    """A recurrent layer of one direction, and a function of each element that it gives."""
    torch.manual_seed(3)
    layer = layer(4, 5).eval()
    weights = [w.detach() for w in layer._flat_weights]
    of = {torch.nn.LSTM: torch.lstm, torch.nn.GRU: torch.gru, torch.nn.RNN: torch.rnn_tanh}[type(layer)]

    def forward(x):
        state = torch.zeros(1, x.shape[1], 5)
        return function(of(x, (state, state) if of is torch.lstm else state, weights, True, 1, 0.0, False, False, False)[0])

    return forward


for layer in (torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN):
    for rows in (1, 6):
        AGREE[f"a function of {layer.__name__}, {rows} steps"] = (after(layer, lambda y: torch.relu(y * 2) - 0.25), (torch.randn(rows, 2, 4),))


EXACT = dict(by_halves())


def prims():
    """What the widest tables of decompositions end in."""
    p = torch.ops.prims
    unary = ("abs acos acosh asin asinh atan atanh bessel_i0 bessel_i0e bessel_i1 bessel_i1e bessel_j0 bessel_j1 cbrt ceil cos cosh digamma erf "
             "erf_inv erfc erfcx exp exp2 expm1 floor isfinite lgamma log log10 log1p log2 ndtri neg reciprocal round rsqrt sign sin sinh "
             "spherical_bessel_j0 sqrt tan tanh trunc clone view_of").split()
    binary = "add sub mul div pow atan2 fmod remainder eq ne lt le gt ge fmax fmin maximum minimum hypot igamma igammac nextafter zeta".split()
    whole = "add div remainder gcd bitwise_and bitwise_or bitwise_xor shift_left shift_right_arithmetic eq".split()
    x, y = torch.rand(3, 4) * 0.9 + 0.05, torch.rand(3, 4) * 2 + 1.1
    yield "prims, of one", (lambda x: tuple(getattr(p, name)(x) for name in unary), (x,))
    yield "prims, of two", (lambda x, y: tuple(getattr(p, name)(x, y) for name in binary), (x, y))
    i, j = torch.randint(-90, 90, (3, 4)), torch.randint(1, 6, (3, 4))
    yield "prims, of integers", (lambda i, j: (*(getattr(p, name)(i, j) for name in whole), p.bitwise_not(i)), (i, j))

    def formed(x, i):
        z = p.fft_r2c(x, dim=(1,), onesided=True)
        return (
            p.convert_element_type(x * 9, torch.int64), p.device_put(x, torch.device("cpu")), p.cat([x, x], 1), p.where(x > 0.5, x, -x), p.fill(x, 2.5),
            p.rev(x, (0, 1)), p.reshape(x, (2, 6)), *p.frexp(x * 9), p.svd(x, full_matrices=False)[1], p.transpose(x, (1, 0)), p.squeeze(x[:1], (0,)),
            p.collapse_view(x, 0, 1), p.collapse(x, 0, 1), p.split_dim(x, 1, 2), p.broadcast_in_dim(x, (3, 2, 4), (0, 2)), p.view_of_dtype(x, torch.int32),
            p.iota(5, start=3, step=-2, dtype=torch.int64, device="cpu", requires_grad=False), p.scalar_tensor(2, dtype=torch.float64, device="cpu"),
            p.full((2, 3), 1.5, dtype=torch.float32, device="cpu", requires_grad=False), p.full_like(x, 7, dtype=torch.int64, device="cpu", requires_grad=False),
            p.sum(x, (1,)), p.sum(i, (0, 1)), p.prod(x, (0, 1)), p.amax(x, (0,)), p.amin(x, (0, 1)), p.var(x, (1,), 1), p.var(x, (0, 1), 0.0),
            torch.view_as_real(p.fft_c2c(z, dim=(1,), forward=False)), p.fft_c2r(z, dim=(1,), last_dim_size=4), p.as_strided_scatter(x, x[:2, :2], [2, 2], [1, 2], 0),
            p.normal([30], mean=4.0, std=0.1, dtype=torch.float32, device=torch.device("cpu"), requires_grad=False) > 2,
            p.uniform([30], low=3.0, high=4.0, dtype=torch.float32, device=torch.device("cpu"), stride=[1]) >= 3,
        )  # fmt: skip

    yield "prims, the rest", (formed, (x, i))
    table = torch._decomp.decomposition_table
    layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    yield "prims, a layer of a transformer", (layer, (torch.randn(2, 5, 8),), (), table)


AGREE.update(prims())


def tangents():
    """Derivatives forward, as make_fx writes them."""
    from torch.fx.experimental.proxy_tensor import make_fx

    def one(x):
        return F.softmax(F.gelu(x @ x.T), -1)

    x = torch.randn(3, 3)
    for name, function, inputs in (
        ("jvp", lambda x, t: torch.func.jvp(one, (x,), (t,)), (x, x + 1)),
        ("hessian", torch.func.hessian(lambda x: (x.tanh() * x.sum()).sum()), (x[0],)),
    ):
        yield f"tangents, {name}", (make_fx(function)(*inputs), inputs)


AGREE.update(tangents())


def lists_for_out():
    """Pieces written into tensors that are given, views of one another too."""
    x, A = torch.randn(2, 3), torch.ops.aten

    def rows(x, write):
        whole = x.new_zeros(x.shape)
        write(x, [whole[0], whole[1]])
        return whole * 2

    def given(write, *sizes):
        def function(x):
            out = [x.new_zeros(size) for size in sizes]
            write(x, out)
            return tuple(out)

        return function

    yield "out= of a list, unbind_copy", (given(lambda x, out: torch.unbind_copy(x, out=out), 3, 3), (x,))
    yield "out= of a list, rows of one", (lambda x: rows(x, lambda x, out: torch.unbind_copy(x, 0, out=out)), (x,))
    yield "out= of a list, split_copy", (given(lambda x, out: torch.split_copy(x, 2, 1, out=out), (2, 2), (2, 1)), (x,))
    yield "out= of a list, split_with_sizes_copy", (given(lambda x, out: torch.split_with_sizes_copy(x, [1, 2], -1, out=out), (2, 1), (2, 2)), (x,))
    yield "out= of a list, unsafe_split", (given(lambda x, out: A.unsafe_split.Tensor_out(x, 2, 1, out=out), (2, 2), (2, 1)), (x,))
    yield "out= of a list, unsafe_split_with_sizes", (given(lambda x, out: A.unsafe_split_with_sizes.out(x, [2, 1], 1, out=out), (2, 2), (2, 1)), (x,))


AGREE.update(lists_for_out())

# ---- refused: name -> (function, inputs that run, inputs that PyTorch refuses) --------------------

OFFSETS = tensor(0, 2, 4, dtype=torch.int64)
REFUSED = {}


def refusals():
    chances = tensor(0.25, 0, 0.75)
    for name, bad in {"negative": tensor(0.5, -0.1, 0.75), "nan": tensor(nan, 1, 1), "infinite": tensor(inf, 1, 1), "all 0": chances * 0}.items():
        for count, again in ((1, False), (2, False), (5, True)):
            yield f"multinomial, {name}, {count}", (lambda p, c=count, a=again: torch.multinomial(p, c, a), (chances,), (bad,))
        rows = torch.stack([chances, bad])
        yield f"multinomial, {name} in a row", (lambda p: torch.multinomial(p, 4, True), (torch.stack([chances, chances]),), (rows,))
    index, rows = tensor(1, 2, 3, 4, dtype=torch.int64), torch.randn(6, 3)
    for last in (False, True):
        for mode in range(3):

            def bag(i, o, w, m=mode, x=last):
                return torch.embedding_bag(w, i, o, False, m, False, None, x)[0]

            for name, offsets in {"that begin late": OFFSETS + 1 - (OFFSETS > 3).long(), "past the end": OFFSETS + (OFFSETS > 3).long()}.items():
                yield f"embedding_bag, offsets {name}, {mode}, {last}", (bag, (index, OFFSETS, rows), (index, offsets, rows))
    for name, lengths in {"negative": tensor(-1, 5), "short": tensor(1, 2), "long": tensor(4, 1)}.items():
        yield f"segment_reduce, {name}", (
            lambda x, n: torch.segment_reduce(x, "sum", lengths=n), (rows[:4], tensor(1, 3, dtype=torch.int64)), (rows[:4], lengths.long()))
    square = torch.eye(3)
    for name, bad in {"nan": square * nan, "infinite": square + inf, "negative": -square}.items():
        yield f"cholesky, {name}", (torch.linalg.cholesky, (square,), (bad,))
    yield "lu_factor, singular", (lambda x: torch.linalg.lu_factor(x)[0], (square,), (square * 0,))
    order = torch.arange(4)
    yield "searchsorted, sorter outside", (lambda e, x, s: torch.searchsorted(e, x, sorter=s), (rows[:4, 0], rows[:, 1], order), (rows[:4, 0], rows[:, 1], order + 1))


REFUSED.update(refusals())

# ---- refused whatever the inputs: name -> (function, inputs, code) --------------------------------

WRONG = {
    f"{name} into elements of another kind": (function, inputs, "NOD-017")
    for name, (function, inputs) in {
        "complex": (lambda x, y: torch.view_as_real(torch.complex(x, y, out=torch.empty(4, dtype=torch.complex128))), (EDGES[:4], EDGES[2:])),
        "aminmax": (lambda x: tuple(torch.aminmax(x, out=(torch.empty(()).double(), torch.empty(()).double()))), (EDGES,)),
        "multinomial": (lambda x: torch.multinomial(x, 2, out=torch.empty(2, dtype=torch.float64)), (EDGES.abs(),)),
        "sort": (lambda x: tuple(torch.sort(x, out=(torch.empty(6).double(), torch.empty(6).long()))), (EDGES,)),
        "bucketize": (lambda x, e: torch.bucketize(x, e, out=torch.empty(9, dtype=torch.int32)), (PLACES, EDGES)),
        "linalg.qr": (lambda x: tuple(torch.linalg.qr(x, out=(torch.empty(2, 2).double(), torch.empty(2, 3).double()))), (EDGES.view(2, 3),)),
    }.items()
}



def bools():
    """Operators that PyTorch refuses of bools though torch.export lets them pass, and numbers that float32 does not hold."""
    b, i, x = tensor(1, 0, dtype=torch.bool), tensor(1, 2, dtype=torch.int64), tensor(1, 2)
    for name, function in {
        "b - i": lambda b, i, x: b - i, "i - b": lambda b, i, x: i - b, "x - b": lambda b, i, x: x - b, "b - 1": lambda b, i, x: b - 1, "1 - b": lambda b, i, x: 1 - b,
        "x - True": lambda b, i, x: x - True, "True - i": lambda b, i, x: True - i, "rsub": lambda b, i, x: torch.rsub(i, b),
        "sub_": lambda b, i, x: i.clone().sub_(b), "subtract": lambda b, i, x: torch.subtract(x, b), "sub out": lambda b, i, x: torch.sub(x, b, out=torch.empty(2)),
        "relu": lambda b, i, x: torch.relu(b), "argmax": lambda b, i, x: torch.argmax(b), "argmin": lambda b, i, x: torch.argmin(b, 0),
        "clamp": lambda b, i, x: torch.clamp(b, False, True), "clamp_max": lambda b, i, x: torch.clamp_max(b, True), "threshold": lambda b, i, x: F.threshold(b, 0, 1),
        "remainder": lambda b, i, x: b % True, "fmod": lambda b, i, x: torch.fmod(b, b), "trunc": lambda b, i, x: torch.div(b, True, rounding_mode="trunc"),
        "gcd": lambda b, i, x: torch.gcd(b, b), "floor": lambda b, i, x: torch.floor(b), "round": lambda b, i, x: torch.round(b),
        "addcmul": lambda b, i, x: torch.addcmul(b, b, b), "leaky_relu of 1e300": lambda b, i, x: F.leaky_relu(x, 1e300), "elu of 1e300": lambda b, i, x: F.elu(x, 1e300),
        "celu of 1e300": lambda b, i, x: F.celu(x, 1e300), "softplus of 1e300": lambda b, i, x: F.softplus(x, 1.0, 1e300), "lerp of 1e300": lambda b, i, x: torch.lerp(x, x, 1e300),
        "elu of float16, 1e300": lambda b, i, x: torch.ops.aten.elu(x.half(), 1.0, 1e300),
    }.items():  # fmt: skip
        yield f"of bools, or too large: {name}", (function, (b, i, x), "NOD-017")


WRONG.update(bools())

# ---- run ---------------------------------------------------------------------------------------------


def exported(exg, call, inputs, core):
    """`core`: its own decompositions, or those of a table."""
    program = torch.export.export(call, inputs)
    path = exg.path(".pt2")
    torch.export.save(program.run_decompositions(core or None) if core is not False else program, path)
    names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    return program, path, names


def agrees(exg, function, inputs, weights=(), core=False, otherwise=None):
    """`otherwise`: how to compute what PyTorch cannot."""
    call = Call(function, weights)
    program, path, names = exported(exg, call, inputs, core)
    results = (otherwise or program.module())(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    got = exg.run(path, dict(zip(names, inputs)))[0]
    same(got, {str(i): r.detach() for i, r in enumerate(results)})


def is_exact(exg, function, inputs):
    program, path, names = exported(exg, Call(function), inputs, False)
    got = exg.run(path, dict(zip(names, inputs)))[0]
    for i, wanted in enumerate(program.module()(*inputs)):
        have = got[str(i)]
        wrong = ~((have == wanted) | (have.isnan() & wanted.isnan())) | (have.signbit() != wanted.signbit()) & ~wanted.isnan()
        if have.dtype != wanted.dtype or wrong.any():
            k = wrong.view(-1).nonzero()[0]
            fail(f"result {i}: {int(wrong.sum())} of {wrong.numel()}, {have.view(-1)[k]} for {wanted.view(-1)[k]}")


def refuses(exg, function, good, bad):
    program, path, names = exported(exg, Call(function), good, False)
    try:
        program.module()(*bad)
        fail("PyTorch does not refuse it")
    except RuntimeError:
        pass
    exg.run(path, dict(zip(names, good)))
    file = exg.path(".safetensors")
    safetensors.torch.save_file({name: value.contiguous() for name, value in zip(names, bad)}, file)
    done = subprocess.run([exg.binary, "run", path, "--input", file], capture_output=True, text=True, timeout=DEADLINE)
    if done.returncode != 4 or not done.stderr.startswith("exg: RUN-001: "):
        fail(f"ends with {done.returncode}: {done.stderr.strip().splitlines()[:1]}")


def is_wrong(exg, function, inputs, code):
    program, path, names = exported(exg, Call(function), inputs, False)
    try:
        program.module()(*inputs)
        fail("PyTorch does not refuse it")
    except RuntimeError:
        pass
    file = exg.path(".safetensors")
    safetensors.torch.save_file({name: value.clone() for name, value in zip(names, inputs)}, file)
    done = subprocess.run([exg.binary, "run", path, "--input", file], capture_output=True, text=True, timeout=DEADLINE)
    if not done.stderr.startswith(f"exg: {code}: "):
        fail(f"ends with {done.returncode}: {done.stderr.strip().splitlines()[:1]}")


def main():
    torch.manual_seed(5)
    return run_cases(__doc__, ("", agrees, AGREE), ("", is_exact, EXACT), ("refuses ", refuses, REFUSED), ("refuses ", is_wrong, WRONG))


if __name__ == "__main__":
    sys.exit(main())
