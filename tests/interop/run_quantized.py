"""Quantised programs: observers that train the grid, torchao's operators on blocks, weights of four bits, scaled products of float8,
and the patterns that torchao and PT2E write, run by exg and compared with PyTorch. See README.md beside this file."""

import itertools
import math
import sys

from run_interop import run_cases, torch
from run_operators import agrees

from torch._higher_order_ops.out_dtype import out_dtype
from torch.ao.quantization.fx import _decomposed  # noqa: F401 - defines operators

A, Q = torch.ops.aten, torch.ops.quantized_decomposed
F = torch.nn.functional
CASES = {}  # name -> (function, inputs)


# ---- observers ------------------------------------------------------------------------------------------------------------------


def observers():
    """What is kept is given back too; with the observer or the quantisation off; after earlier calls; rows; all zero and near it."""
    x = torch.randn(3, 4) * 3
    data = {"both sides": x, "above": x.abs() + 0.1, "below": -x.abs() - 0.1, "tiny": x * 1e-6, "zero": x * 0, "wide": x * 1e20}
    grids = [(0, 255), (-128, 127), (0, 127), (-8, 7)]
    fresh = torch.tensor([math.inf]), torch.tensor([-math.inf])
    seen = torch.tensor([-1.5]), torch.tensor([2.0])

    def observed(x, on, quantizes, *kept, rest):
        kept = [v.clone() for v in kept]
        out = torch.fused_moving_avg_obs_fake_quant(x, on, quantizes, *kept, *rest)
        helped = [v.clone() for v in kept]
        more = A._fused_moving_avg_obs_fq_helper(x, on, quantizes, *helped, *rest)
        return (out, *kept, *more, *helped, *A._fused_moving_avg_obs_fq_helper_functional(x, on, quantizes, *kept, *rest))

    def case(name, x, on, quantizes, extremes, grid, symmetric, axis=0, by_row=False):
        n = extremes[0].numel()
        inputs = (x, torch.tensor([on]), torch.tensor([quantizes]), *extremes, torch.full((n,), 0.3), torch.full((n,), 2, dtype=torch.int32))
        rest = (0.01, *grid, axis, by_row, symmetric)
        CASES[f"observed, {name}{', symmetric' if symmetric else ''}"] = (lambda *v, r=rest: observed(*v, rest=r), inputs)

    for (what, values), grid, symmetric in itertools.product(data.items(), grids, (False, True)):
        case(f"{what}, {grid}", values, 1, 1, fresh, grid, symmetric)
    for on, quantizes, symmetric in itertools.product((0, 1), (0, 1), (False, True)):
        case(f"seen before, {on} {quantizes}", x, on, quantizes, seen, (0, 255), symmetric)
        rows = torch.full((3,), math.inf), torch.full((3,), -math.inf)
        case(f"rows, {on} {quantizes}", x, on, quantizes, rows, (-128, 127), symmetric, 0, True)
    case("rows of a filter", torch.randn(2, 3, 4, 2), 1, 1, (torch.tensor([-0.5, -1]), torch.tensor([0.5, 1.0])), (-128, 127), True, 0, True)


def grids():
    x, scales = torch.randn(4, 32) * 2, torch.rand(4, 4) / 20 + 0.01
    zeros = torch.randint(-5, 5, (4, 4))
    number = (torch.tensor(0.05), torch.tensor(3), torch.tensor(-128), torch.tensor(127))
    CASES["quantize_per_tensor.tensor2"] = (lambda x, *n: (q := Q.quantize_per_tensor.tensor2(x, *n, torch.int8), Q.dequantize_per_tensor.tensor2(q, *n, torch.int8)), (x * 3, *number))
    CASES["quantize_per_channel_group"] = (lambda x, s, z: Q.quantize_per_channel_group(x, s, z, -8, 7, torch.int8, 8), (x, scales, zeros))
    for dtype, low, high in ((torch.int8, -128, 127), (torch.uint8, 0, 255)):
        CASES[f"choose_qparams_symmetric, {dtype}"] = (
            lambda x, d=dtype, lo=low, hi=high: (*Q.choose_qparams_symmetric.tensor(x, lo, hi, 1e-5, d), *Q.choose_qparams_symmetric.tensor(x * 0, lo, hi, 0.25, d)), (x,))
    CASES["fake_quant_per_channel"] = (lambda x, s, z: Q.fake_quant_per_channel(x, s, z, 1, -8, 7), (x, torch.rand(32) / 3 + 0.05, torch.randint(-3, 3, (32,), dtype=torch.int32)))


# ---- four bits -------------------------------------------------------------------------------------------------------------------


def four_bits():
    """Rows in whole blocks of 64, in none, and both; packed in the program, since a processor without AVX-512 packs otherwise."""
    for rows, depth, group in ((64, 64, 32), (128, 128, 128), (32, 64, 64), (160, 96, 32), (48, 32, 32)):
        for dtype in (torch.float32, torch.bfloat16, torch.float16):
            w = torch.randint(0, 16, (rows, depth), dtype=torch.int32)
            inputs = (torch.randn(5, depth).to(dtype), w, torch.randn(depth // group, rows, 2).to(dtype))
            CASES[f"int4 weights, {rows} of {depth} by {group}, {str(dtype)[6:]}"] = (
                lambda x, w, s, g=group: A._weight_int4pack_mm_for_cpu(x, A._convert_weight_to_int4pack_for_cpu(w, 2), g, s), inputs)
    if torch.backends.cpu.get_cpu_capability() == "AVX512":
        CASES["int4 weights, as they are packed"] = (lambda w: A._convert_weight_to_int4pack_for_cpu(w, 2), (torch.randint(0, 16, (208, 64), dtype=torch.int32),))


# ---- scaled products -------------------------------------------------------------------------------------------------------------


def scaled():
    from torch.nn.functional import ScalingType, scaled_mm

    x, w = torch.randint(-15, 16, (16, 32)).float(), torch.randint(-7, 8, (48, 32)).float()
    scales = {"tensors": (torch.tensor(0.25), torch.tensor(3.0), ScalingType.TensorWise),
              "rows": (torch.randint(-3, 3, (16, 1)).exp2(), torch.randint(-3, 3, (1, 48)).exp2(), ScalingType.RowWise)}
    for (name, (s, t, kind)), f8, out in itertools.product(scales.items(), (torch.float8_e4m3fn, torch.float8_e5m2), (torch.float32, torch.bfloat16)):
        for bias in (None, torch.randn(48).to(out)):

            def product(x, w, s, t, *bias, k=kind, f=f8, o=out):
                return scaled_mm(x.to(f), w.to(f).t(), s, k, t, k, bias=bias[0] if bias else None, output_dtype=o).float()

            CASES[f"scaled_mm, {name}, {str(f8)[6:]} to {str(out)[6:]}{', bias' if bias is not None else ''}"] = (product, (x, w, s, t, *([] if bias is None else [bias])))


def in_tiles(scale):
    """Tiles of 128 rows and 4 columns, one after the other; in each, 32 rows of what four rows 32 apart have."""
    scale = F.pad(scale, (0, -scale.shape[1] % 4, 0, -scale.shape[0] % 128))
    return torch.cat([tile[row::32].flatten() for rows in scale.split(128) for tile in rows.split(4, 1) for row in range(32)])


def scaled_by_block():
    """Products whose scales PyTorch takes on GPUs alone: what they mean, computed in float32."""
    f8, m, n, k = torch.float8_e4m3fn, 80, 208, 288

    def whole(x, scale, block):
        down = 1 if len(scale) == len(x) else block
        return x.float() * scale.float().repeat_interleave(down, 0)[: len(x)].repeat_interleave(block, 1)[:, : x.shape[1]]

    def product(a, b, sa, sb, block, *bias):
        return whole(a, sa, block) @ whole(b, sb, block).t() + sum(bias)

    def case(name, call, values, scales, block, *bias):
        x, y = values
        CASES[f"scaled_mm, {name}"] = (call, (x, y, *[given for given, _ in scales], *bias), (), False,
                                       lambda *_: product(x, y, *[scale for _, scale in scales], block, *bias))

    def powers(*sizes):
        return torch.randint(120, 134, sizes, dtype=torch.uint8).view(torch.float8_e8m0fnu)

    def tiled(scale):
        return in_tiles(scale.view(torch.uint8)), scale

    def first(x, y, s, t, *bias):
        if s.dtype is torch.uint8:
            s, t = s.view(torch.float8_e8m0fnu), t.view(torch.float8_e8m0fnu)
        return torch._scaled_mm(x, y.t(), s, t, bias=bias[0] if bias else None, out_dtype=torch.float32)

    x, y = torch.randn(m, k).to(f8), torch.randn(n, k).to(f8)
    mx = tiled(powers(m, k // 32)), tiled(powers(n, k // 32))
    case("MX", first, (x, y), mx, 32)
    case("MX, bias", first, (x, y), mx, 32, torch.randn(n))
    by_row = {rows: torch.rand(rows, 3) for rows in (m, n)}
    square = {rows: torch.rand(-(-rows // 128), 3) for rows in (m, n)}
    for name, s, t in (("rows, squares", by_row[m], square[n]), ("rows", by_row[m], by_row[n]), ("squares, rows", square[m], by_row[n])):
        case(f"blocks of {name}", first, (x, y), ((s, s), (t.t().contiguous(), t)), 128)

    def second(a, b, tiles=0):
        def call(x, y, s, t):
            if tiles:
                s, t = s.view(torch.float8_e8m0fnu), t.view(torch.float8_e8m0fnu)
            else:  # columns lie one after the other
                s, t = s.t(), t.t()
            return A._scaled_mm_v2(x, y.t(), [s], [a], [tiles], [t], [b], [tiles], None, torch.float32)

        return call

    case("of the second form, MX", second(3, 3, 1), (x, y), mx, 32)
    x, y = torch.randn(m, 256).to(f8), torch.randn(256, 256).to(f8)
    s, t, whole_t = torch.rand(m, 2), torch.rand(256, 2), torch.rand(2, 2)
    case("of the second form, blocks of rows", second(4, 4), (x, y), ((s.t().contiguous(), s), (t.t().contiguous(), t)), 128)
    case("of the second form, blocks of squares", second(4, 5), (x, y), ((s.t().contiguous(), s), (F.pad(whole_t, (0, 2)), whole_t)), 128)


# ---- torchao: its operators as their documentation has them ------------------------------------------------------------------------

LIBRARY = torch.library.Library("torchao", "DEF")
ENDS = {torch.int8: (-128, 127), torch.uint8: (0, 255), torch.int16: (-(2**15), 2**15 - 1), torch.int32: (-(2**31), 2**31 - 1)}


def defined(schema):
    def define(function):
        LIBRARY.define(schema)
        LIBRARY.impl(schema.split("(")[0], function, "CompositeExplicitAutograd")
        return function

    return define


def by_block(x, sizes):
    """(n / size, size) for each dim."""
    return x.reshape([n for pair in ((a // s, s) for a, s in zip(x.shape, sizes)) for n in pair])


def of_block(values, x, sizes):
    return values.reshape([n for a, s in zip(x.shape, sizes) for n in (a // s, 1)])


def held(dtype, low, high):
    least, most = ENDS[dtype]
    return least if low is None else low, most if high is None else high


@defined("quantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType output_dtype, Scalar? quant_min=None, Scalar? quant_max=None) -> Tensor")
def quantize_affine(x, sizes, scale, zero, dtype, low=None, high=None):
    levels = torch.round(by_block(x, sizes) * (1.0 / of_block(scale, x, sizes))) + of_block(zero, x, sizes)
    return levels.clamp(*held(dtype, low, high)).to(dtype).reshape(x.shape)


@defined("dequantize_affine(Tensor input, SymInt[] block_size, Tensor scale, Tensor? zero_point, ScalarType input_dtype, Scalar? quant_min=None, Scalar? quant_max=None, ScalarType output_dtype=float32) -> Tensor")
def dequantize_affine(q, sizes, scale, zero, dtype, low=None, high=None, output_dtype=torch.float32):
    x = by_block(q, sizes).to(output_dtype)
    x = x if zero is None else x - of_block(zero, q, sizes).to(output_dtype)
    return (x * of_block(scale, q, sizes)).reshape(q.shape).to(output_dtype)


@defined("choose_qparams_affine(Tensor? input, str mapping_type, SymInt[] block_size, ScalarType target_dtype, Scalar? quant_min=None, Scalar? quant_max=None, float? eps=None, ScalarType? scale_dtype=None, ScalarType? zero_point_dtype=None, bool keepdim=False) -> (Tensor, Tensor)")
def choose_qparams_affine(x, mapping, sizes, dtype, low=None, high=None, eps=None, scale_dtype=None, zero_dtype=None, keepdim=False):
    low, high = held(dtype, low, high)
    dims = list(range(1, 2 * x.dim(), 2))
    least, most = by_block(x, sizes).amin(dims).clamp(max=0), by_block(x, sizes).amax(dims).clamp(min=0)
    eps = torch.finfo(x.dtype).smallest_normal if eps is None else eps
    middle = float(int((high + low + 1) / 2))
    if mapping == "SYMMETRIC":
        scale = torch.maximum(-least, most) / ((high - low) / 2)
        scale, zero = scale.clamp(min=eps), torch.full_like(scale, middle)
    elif mapping == "SYMMETRIC_NO_CLIPPING_ERR":
        scale = torch.maximum(least / float(low), most / float(high))
        scale, zero = scale.clamp(min=eps), torch.full_like(scale, middle)
    else:
        scale = ((most - least) / float(high - low)).clamp(min=eps)
        zero, zero_dtype = (low - torch.round(least / scale)).clamp(low, high), zero_dtype or torch.int32
    left = [n // s for n, s in zip(x.shape, sizes) if keepdim or n != s or s == 1]
    return scale.reshape(left).to(scale_dtype or x.dtype), zero.reshape(left).to(zero_dtype or zero.dtype)


@defined("choose_scale_float8(Tensor tensor, SymInt[] block_size, ScalarType float8_dtype=float8_e4m3fn, ScalarType scale_dtype=float32, float? hp_value_lb=None, float? hp_value_ub=None) -> Tensor")
def choose_scale_float8(x, sizes, float8=torch.float8_e4m3fn, scale_dtype=torch.float32, least=None, most=None):
    top = by_block(x, sizes).abs().amax(list(range(1, 2 * x.dim(), 2)))
    top = top if least is None and most is None else top.clamp(least, most)
    scale = (top / torch.finfo(float8).max).reshape([n // s for n, s in zip(x.shape, sizes)])
    return (scale if scale_dtype == torch.float32 else torch.exp2(torch.round(torch.log2(scale)))).float()


def blocks_beside(x, scale):
    sizes = [n // s for n, s in zip(x.shape, scale.shape)]
    return (by_block(x.float(), sizes), of_block(scale, x, sizes)) if scale.dim() else (x.float(), scale)


@defined("quantize_affine_float8_non_decomposed(Tensor tensor, Tensor scale, ScalarType float8_dtype=float8_e4m3fn) -> Tensor")
def quantize_affine_float8(x, scale, float8=torch.float8_e4m3fn):
    values, scale = blocks_beside(x, scale)
    most = torch.finfo(float8).max
    return (values / scale).clamp(-most, most).to(float8).reshape(x.shape)


@defined("dequantize_affine_float8_non_decomposed(Tensor tensor, Tensor scale, ScalarType output_dtype=float32) -> Tensor")
def dequantize_affine_float8(x, scale, output_dtype=torch.float32):
    values, scale = blocks_beside(x, scale)
    return (values * scale).reshape(x.shape).to(output_dtype)


def torchao():
    a = torch.ops.torchao
    x = torch.randn(8, 32)
    x[3] = 0
    sizes = {"all": (8, 32), "rows": (1, 32), "columns": (8, 1), "groups": (1, 8), "tiles": (4, 16), "each": (1, 1)}
    mappings = ("SYMMETRIC", "SYMMETRIC_NO_CLIPPING_ERR", "ASYMMETRIC")
    for (name, block), mapping, dtype in itertools.product(sizes.items(), mappings, (torch.float32, torch.bfloat16, torch.float16)):

        def both(x, s=block, m=mapping):
            q = {} if m == "ASYMMETRIC" else {"zero_point_dtype": torch.int8}
            scale, zero = a.choose_qparams_affine(x, m, s, torch.int8, -8, 7, 1e-4, torch.float32, **q)
            levels = a.quantize_affine(x, s, scale, zero, torch.int8, -8, 7)
            return scale, zero, levels, a.dequantize_affine(levels, s, scale, zero, torch.int8, -8, 7, output_dtype=x.dtype)

        CASES[f"affine, {name}, {mapping}, {str(dtype)[6:]}"] = (both, (x.to(dtype),))

    def defaults(x):
        scale, zero = a.choose_qparams_affine(x, "ASYMMETRIC", (1, 32), torch.uint8, keepdim=True)
        kept = a.choose_qparams_affine(x, "SYMMETRIC", (8, 4), torch.int16, keepdim=True)
        levels = a.quantize_affine(x, (1, 32), scale, zero, torch.uint8)
        return scale, zero, *kept, levels, a.dequantize_affine(levels, (1, 32), scale, None, torch.uint8)

    CASES["affine, what no one says"] = (defaults, (x,))
    for name, block in sizes.items():
        for f8 in (torch.float8_e4m3fn, torch.float8_e5m2):

            def floats(x, s=block, f=f8):
                scale = a.choose_scale_float8(x + 3, s, f)
                q = a.quantize_affine_float8_non_decomposed(x * 2, scale, f)
                return scale, q.float(), a.dequantize_affine_float8_non_decomposed(q, scale), a.choose_scale_float8(x + 3, s, f, torch.float8_e8m0fnu, 0.5, 1.5)

            CASES[f"float8, {name}, {str(f8)[6:]}"] = (floats, (x,))
    number = (lambda x, s: a.dequantize_affine_float8_non_decomposed(a.quantize_affine_float8_non_decomposed(x, s), s, torch.bfloat16), (x, torch.tensor(0.01)))
    CASES["float8, one number"] = number


def patterns():
    """A linear as they come of torchao: bytes that follow the activation, beside bytes or groups of four bits, and float8."""
    a = torch.ops.torchao
    x, w = torch.randn(2, 5, 64), torch.randn(32, 64)

    def of_bytes(x, w):
        s = (w.abs().amax(1) / 127).clamp(min=1e-5)
        w = (w / s[:, None]).round().clamp(-128, 127).to(torch.int8)
        rows = x.reshape(-1, 64)
        scale, zero = a.choose_qparams_affine(rows, "SYMMETRIC", (1, 64), torch.int8, -127, 127, 1e-5, torch.float32, torch.int32)
        rows = a.quantize_affine(rows, (1, 64), scale, zero, torch.int8, -127, 127)
        return (torch._int_mm(rows, w.t()) * scale[:, None] * s).reshape(2, -1, 32)

    def of_groups(x, w):
        scale, zero = a.choose_qparams_affine(w, "SYMMETRIC", (1, 32), torch.int8, -8, 7, None, torch.float32, torch.int8)
        q = a.quantize_affine(w, (1, 32), scale, zero, torch.int8, -8, 7)
        s, z = a.choose_qparams_affine(x, "ASYMMETRIC", (1, 1, 64), torch.int8, -128, 127, None, torch.float32, torch.int8)
        x = a.dequantize_affine(a.quantize_affine(x, (1, 1, 64), s, z, torch.int8), (1, 1, 64), s, z, torch.int8)
        return F.linear(x, a.dequantize_affine(q, (1, 32), scale, zero, torch.int8, -8, 7))

    def of_float8(x, w):
        rows = x.reshape(-1, 64)
        s, t = (v.abs().amax(1, keepdim=True).float() / 448 for v in (rows, w))
        rows, w = ((v / e).clamp(-448, 448).to(torch.float8_e4m3fn) for v, e in ((rows, s), (w, t)))
        return torch._scaled_mm(rows, w.t(), s, t.t(), out_dtype=torch.bfloat16).reshape(2, -1, 32)

    CASES["linear, int8 by int8"] = (of_bytes, (x, w))
    CASES["linear, int8 by int4 in groups"] = (of_groups, (x, w))
    CASES["linear, float8 by rows"] = (of_float8, (x[:, :4], w))

    def inductor(x, w, b):
        """As X86InductorQuantizer writes a convolution, a residual and a pool."""
        n = (0.04, 120, 0, 255, torch.uint8)
        scales = (w.abs().amax((1, 2, 3)) / 127).clamp(min=1e-5)
        zeros = torch.zeros(4, dtype=torch.int64)
        k = Q.quantize_per_channel(w, scales, zeros, 0, -128, 127, torch.int8)
        x = Q.dequantize_per_tensor(Q.quantize_per_tensor(x, *n), *n)
        y = F.conv2d(x, Q.dequantize_per_channel(k, scales, zeros, 0, -128, 127, torch.int8), b, padding=1)
        y = F.relu(Q.dequantize_per_tensor(Q.quantize_per_tensor(y + x, *n), *n))
        return F.max_pool2d(Q.dequantize_per_tensor(Q.quantize_per_tensor(y, *n), *n), 2)

    CASES["convolution, X86Inductor"] = (inductor, (torch.randn(2, 4, 6, 6), torch.randn(4, 4, 3, 3) / 4, torch.randn(4)))


# ---- weights of fewer bits, as programs write products by them -------------------------------------------------------------------


def weights():
    """Of one row, few and many; the weight an input, and part of the program; every order of cast, zero point, scale and views."""

    def nibbles(w):
        return torch.stack([w & 15, w >> 4], -1).reshape(w.shape[0], -1)

    n, k, group = 48, 96, 32
    groups = k // group
    b8 = torch.randint(-128, 128, (n, k), dtype=torch.int8)
    u8 = torch.randint(0, 256, (n, k), dtype=torch.uint8)
    u4 = torch.randint(0, 256, (n, k // 2), dtype=torch.uint8)
    f8 = (torch.randn(n, k) * 3).to(torch.float8_e4m3fn)
    row, each = torch.rand(n) / 50 + 0.01, torch.rand(n, groups, 1) / 50 + 0.01
    zero, shift = torch.randint(0, 16, (n, groups, 1)).float(), torch.randn(n, groups, 1) / 10
    forms = {
        "cast, linear, scale": (lambda x, w, s: F.linear(x, w.to(x.dtype)) * s.to(x.dtype), b8, row),
        "scale, cast, linear": (lambda x, w, s: F.linear(x, (w.float() * s[:, None]).to(x.dtype)), b8, row),
        "int8pack": (lambda x, w, s: A._weight_int8pack_mm(x, w, s.to(x.dtype)), b8, row),
        "columns": (lambda x, w, s: x @ (w.t().contiguous().to(x.dtype) * s.to(x.dtype)), b8, row),
        "uint8 about 128": (lambda x, w, s: F.linear(x, (w.to(x.dtype) - 128) * s.to(x.dtype)[:, None], s.to(x.dtype)), u8, row),
        "groups": (lambda x, w, s: F.linear(x, (w.view(n, groups, group).to(x.dtype) * s.to(x.dtype)).view(n, k)), b8, each),
        "groups of columns": (lambda x, w, s: x @ (w.t().reshape(groups, group, n).to(x.dtype) * s.to(x.dtype).permute(1, 2, 0)).reshape(k, n), b8, each),
        "nibbles": (lambda x, w, s: F.linear(x, ((nibbles(w).to(x.dtype) - 8).view(n, groups, group) * s.to(x.dtype)).view(n, k)), u4, each),
        "nibbles, zero points": (lambda x, w, s, z: F.linear(x, ((nibbles(w).view(n, groups, group).to(x.dtype) - z.to(x.dtype)) * s.to(x.dtype)).view(n, k)), u4, each, zero),
        "nibbles, shifts": (lambda x, w, s, z: F.linear(x, (nibbles(w).view(n, groups, group).float() * s + z).view(n, k).to(x.dtype)), u4, each, shift),
        "nibbles with a sign": (lambda x, w, s: F.linear(x, nibbles(w.view(torch.int8) << 4 >> 4).to(x.dtype) * s.to(x.dtype)[:, None]), u4, row),
        "float8": (lambda x, w, s: F.linear(x, w.to(x.dtype) * s.to(x.dtype)[:, None]), f8, row),
    }
    for (name, (f, w, *factors)), rows, dtype in itertools.product(forms.items(), (1, 5, 40), (torch.float32, torch.bfloat16, torch.float16)):
        x, factors = torch.randn(rows, k).to(dtype), [v.to(dtype) for v in factors]
        # what PyTorch rounds to the dtype on the way, exg does not but for many rows of bf16
        is_exact = dtype is torch.float16 or dtype is torch.bfloat16 and rows <= 8
        exact = (lambda x, w, *v, f=f, d=dtype: f(x.double(), w, *v).to(d)) if is_exact and name != "int8pack" else None
        CASES[f"weight only, {name}, {rows} rows, {str(dtype)[6:]}"] = (f, (x, w, *factors), (), False, exact)
        if dtype is not torch.float16:
            own = (lambda x, v=(w, *factors), exact=exact: exact(x, *v)) if exact else None
            CASES[f"weight only, {name}, {rows} rows, {str(dtype)[6:]}, constant"] = (lambda x, f=f, v=(w, *factors): f(x, *v), (x,), (), False, own)


for cases in (observers, grids, four_bits, scaled, scaled_by_block, torchao, patterns, weights):
    torch.manual_seed(0)
    cases()


# ---- out_dtype -----------------------------------------------------------------------------------------------------------------


def wider():
    """An operator whose result is of a wider dtype than what it takes."""
    a, w = (torch.randint(-128, 128, shape, dtype=torch.int8) for shape in ((4, 5), (5, 7)))
    for dtype in (torch.int32, torch.int64):
        CASES[f"out_dtype of mm, {dtype}"] = lambda x, y, dtype=dtype: out_dtype(A.mm.default, dtype, x, y), (a, w)
        CASES[f"out_dtype of mul, {dtype}"] = lambda x, y, dtype=dtype: out_dtype(A.mul.Tensor, dtype, x, y), (a, a.flip(0))
    CASES["out_dtype of linear, mixed"] = lambda x, y: out_dtype(A.linear.default, torch.int32, x, y.t()), (a.int(), w)


wider()


def main():
    return run_cases(__doc__, ("", agrees, CASES))


if __name__ == "__main__":
    sys.exit(main())
