"""Writes tests/exec/dispatch/gradients.txt: operators and PyTorch's gradients of them, one line an item.

  case KEY
  tensor SIZES VALUES...       an argument whose gradient is wanted (SIZES: 2x3, or . of a number)
  index SIZES VALUES...        an argument of integers      mask SIZES VALUES...   of truths
  int N / float X / ints N,N / bool 0|1 / none    other arguments
  list N                       the next N tensors are one argument
  root SIZES VALUES...         the gradient of the first result
  grad VALUES...               of each tensor, in order
"""

import sys

import torch

torch.manual_seed(7)
aten = torch.ops.aten


def t(*sizes, low=None):
    x = torch.randn(*sizes)
    x = x.abs() + low if low is not None else x
    return x.requires_grad_()


def index(top, *sizes):
    return torch.randint(0, top, sizes)


CASES = [
    ("add.Tensor", t(5, 3), t(3)), ("add.Tensor", t(2, 1, 3), t(4, 1)), ("add.Scalar", t(5, 3), 2.0),
    ("sub.Tensor", t(5, 3), t(5, 1)), ("sub.Scalar", t(5, 3), 1.5), ("rsub.Scalar", t(5, 3), 2.0, 3.0),
    ("mul.Tensor", t(5, 3), t(3)), ("mul.Tensor", t(4, 3), t(())), ("mul.Scalar", t(5, 3), -1.5),
    ("div.Tensor", t(5, 3), t(3, low=0.5)), ("div.Scalar", t(5, 3), 4.0), ("neg.default", t(5, 3)),
    ("abs.default", t(5, 3)), ("square.default", t(5, 3)), ("pow.Tensor_Scalar", t(5, 3, low=0.2), 3.0),
    ("sqrt.default", t(5, 3, low=0.2)), ("rsqrt.default", t(5, 3, low=0.2)), ("reciprocal.default", t(5, 3, low=0.2)),
    ("exp.default", t(5, 3)), ("expm1.default", t(5, 3)), ("log.default", t(5, 3, low=0.2)),
    ("log1p.default", t(5, 3, low=0.2)), ("sin.default", t(5, 3)), ("cos.default", t(5, 3)),
    ("tanh.default", t(5, 3)), ("sigmoid.default", t(5, 3)), ("relu.default", t(5, 3)), ("gelu.default", t(5, 3)),
    ("silu.default", t(5, 3)), ("leaky_relu.default", t(5, 3), 0.1), ("elu.default", t(5, 3)),
    ("hardtanh.default", t(5, 3)), ("hardswish.default", t(5, 3)), ("hardsigmoid.default", t(5, 3)),
    ("softplus.default", t(5, 3)), ("maximum.default", t(5, 3), t(5, 3)), ("minimum.default", t(5, 3), t(3)),
    ("where.self", torch.rand(5, 3) > 0.5, t(5, 3), t(3)), ("masked_fill.Scalar", t(5, 3), torch.rand(5, 3) > 0.5, 2.0),
    ("clone.default", t(5, 3)),
    ("sum.default", t(5, 3)), ("sum.dim_IntList", t(5, 3), [0]), ("sum.dim_IntList", t(5, 3), [1], True),
    ("mean.default", t(5, 3)), ("mean.dim", t(5, 3), [0]), ("mean.dim", t(2, 5, 3), [0, 2], True),
    ("amax.default", t(5, 3), [0]), ("amin.default", t(5, 3), [1], True), ("cumsum.default", t(5, 3), 0),
    ("logsumexp.default", t(5, 3), [1]), ("var.correction", t(5, 3), [0]),
    ("_softmax.default", t(5, 3), 0, False), ("softmax.int", t(5, 3), 1), ("_log_softmax.default", t(5, 3), 1, False),
    ("log_softmax.int", t(5, 3), 0),
    ("native_layer_norm.default", t(5, 4), [4], t(4), t(4), 1e-5), ("layer_norm.default", t(3, 5, 4), [5, 4], t(5, 4), t(5, 4)),
    ("layer_norm.default", t(5, 4), [4]), ("rms_norm.default", t(5, 4), [4], t(4), 1e-5),
    ("group_norm.default", t(2, 6, 3), 3, t(6), t(6)),
    ("mm.default", t(5, 4), t(4, 3)), ("bmm.default", t(3, 5, 4), t(3, 4, 2)), ("addmm.default", t(3), t(5, 4), t(4, 3)),
    ("baddbmm.default", t(3, 5, 2), t(3, 5, 4), t(3, 4, 2)),
    ("matmul.default", t(2, 5, 4), t(4, 3)), ("matmul.default", t(4), t(4)), ("matmul.default", t(2, 3, 4), t(2, 4, 5)),
    ("linear.default", t(5, 4), t(3, 4), t(3)), ("linear.default", t(2, 5, 4), t(3, 4)),
    ("convolution.default", t(2, 3, 6), t(4, 3, 3), t(4), [1], [1], [1], False, [0], 1),
    ("view.default", t(4, 6), [2, 12]), ("reshape.default", t(4, 6), [8, 3]), ("t.default", t(5, 3)),
    ("transpose.int", t(5, 3, 2), 0, 2), ("permute.default", t(5, 3, 2), [2, 0, 1]), ("expand.default", t(1, 3), [4, 3]),
    ("expand.default", t(3), [4, 3]), ("slice.Tensor", t(5, 3), 0, 1, 4), ("slice.Tensor", t(5, 4), 1, 0, 4, 2),
    ("select.int", t(5, 3), 0, 2), ("squeeze.dim", t(5, 1, 3), 1), ("unsqueeze.default", t(5, 3), 1),
    ("flatten.using_ints", t(2, 3, 4), 1), ("cat.default", [t(2, 3), t(4, 3), t(1, 3)]), ("cat.default", [t(3, 2), t(3, 3)], 1),
    ("stack.default", [t(2, 3), t(2, 3)], 1), ("flip.default", t(5, 3), [0]), ("tril.default", t(4, 4)), ("triu.default", t(4, 5)),
    ("repeat.default", t(2, 3), [2, 2]),
    ("gather.default", t(5, 3), 0, index(5, 4, 3)), ("index_select.default", t(5, 3), 0, index(5, 4)),
    ("embedding.default", t(7, 3), index(7, 2, 4)), ("embedding.default", t(7, 3), index(7, 5), 2),
    ("nll_loss_nd.default", t(5, 4), index(4, 5)), ("cross_entropy_loss.default", t(5, 4), index(4, 5)),
    ("cross_entropy_loss.default", t(5, 4), index(4, 5), None, 2), ("mse_loss.default", t(5, 3), t(5, 3)),
    ("mse_loss.default", t(5, 3), t(5, 3), 0), ("l1_loss.default", t(5, 3), t(5, 3)), ("smooth_l1_loss.default", t(5, 3), t(5, 3)),
    ("binary_cross_entropy_with_logits.default", t(5, 3), torch.rand(5, 3).requires_grad_()),
    ("dropout.default", t(5, 3), 0.5, False),
    ("scaled_dot_product_attention.default", t(2, 2, 4, 3), t(2, 2, 4, 3), t(2, 2, 4, 3)),
    ("scaled_dot_product_attention.default", t(2, 4, 3), t(2, 4, 3), t(2, 4, 3), None, 0.0, True),
    ("scaled_dot_product_attention.default", t(2, 4, 3), t(2, 5, 3), t(2, 5, 2), t(4, 5)),
    ("max.dim", t(5, 3), 0), ("max.dim", t(5, 3), 1, True), ("min.dim", t(5, 3), -1), ("topk.default", t(5, 6), 2, 1),
    ("topk.default", t(5, 3), 3, 0, False), ("sort.default", t(5, 3), 0, True), ("median.dim", t(5, 3), 0),
    ("kthvalue.default", t(5, 3), 2, 0, True), ("prod.dim_int", t(5, 3), 0), ("prod.dim_int", torch.zeros(3, 4).requires_grad_(), 1, True),
    ("prod.default", t(2, 3)), ("index.Tensor", t(5, 3), [torch.tensor([0, 3, 3])]),
    ("constant_pad_nd.default", t(5, 3), [1, 2]), ("constant_pad_nd.default", t(5, 3), [-1, 2, 1, -2], 3.0),
    ("max_pool2d_with_indices.default", t(2, 3, 6, 5), [3, 3], [2, 2], [1, 1]), ("avg_pool2d.default", t(2, 3, 6, 5), [3, 2], [2, 2]),
    ("adaptive_avg_pool2d.default", t(2, 3, 6, 5), [3, 2]), ("clamp.default", t(5, 3), -0.5, 0.5), ("clamp_min.default", t(5, 3), 0.1),
    ("clamp_max.default", t(5, 3), 0.1), ("clamp_min.Tensor", t(5, 3), t(3)), ("clamp_max.Tensor", t(5, 3), t(5, 1)),
    ("lerp.Scalar", t(5, 3), t(5, 3), 0.3), ("lerp.Tensor", t(5, 3), t(5, 3), t(3)), ("prelu.default", t(5, 3), t(1)),
    ("prelu.default", t(2, 3, 4), t(3)), ("addcmul.default", t(5, 3), t(5, 3), t(3)), ("addcdiv.default", t(5, 3), t(5, 3), t(3, low=0.5)),
    ("index_put.default", t(5, 3), [torch.tensor([0, 2, 1])], t(3, 3)),
    ("index_put.default", t(5, 3), [torch.tensor([0, 2, 2])], t(3), True),
    ("scatter_add.default", t(5, 3), 0, index(5, 2, 3), t(2, 3)), ("roll.default", t(5, 3), [2], [0]), ("roll.default", t(5, 3), [1, -2], [0, 1]),
    ("threshold.default", t(5, 3), 0.1, 3.0), ("relu6.default", t(5, 3)), ("tan.default", t(5, 3)), ("sinh.default", t(5, 3)),
    ("cosh.default", t(5, 3)), ("atan.default", t(5, 3)), ("asin.default", torch.rand(5, 3).mul(0.9).requires_grad_()),
    ("acos.default", torch.rand(5, 3).mul(0.9).requires_grad_()), ("erf.default", t(5, 3)), ("erfc.default", t(5, 3)),
    ("log2.default", t(5, 3, low=0.2)), ("log10.default", t(5, 3, low=0.2)), ("exp2.default", t(5, 3)),
    ("cummax.default", t(5, 3), 0), ("cummin.default", t(5, 3), 1),
    ("cdist.default", t(5, 3), t(4, 3), 1.0), ("cdist.default", t(2, 5, 3), t(4, 3), 2.0),
    ("embedding_bag.default", t(7, 3), index(7, 6), torch.tensor([0, 2, 5])),
    ("embedding_bag.default", t(7, 3), index(7, 6), torch.tensor([0, 2, 2]), False, 0, False, t(6)),
    ("grid_sampler_2d.default", t(2, 3, 4, 5), t(2, 3, 2, 2), 0, 0, False),
    ("grid_sampler_2d.default", t(1, 2, 4, 5), t(1, 3, 2, 2), 0, 1, True),
    ("reflection_pad2d.default", t(1, 2, 4, 5), [2, 1, 1, 0]), ("replication_pad1d.default", t(2, 3, 4), [1, 3]),
]


def numbers(x):
    sizes = "x".join(map(str, x.shape)) or "."
    return " ".join([sizes, *(f"{float(v):.8g}" if x.is_floating_point() else str(int(v)) for v in x.flatten())])


def write(item, out, wanted):
    if isinstance(item, torch.Tensor):
        kind = {torch.float32: "tensor", torch.int64: "index", torch.bool: "mask"}[item.dtype]
        out.append(f"{kind} {numbers(item.detach())}")
        if item.requires_grad:
            wanted.append(item)
    elif isinstance(item, list) and isinstance(item[0], torch.Tensor):
        out.append(f"list {len(item)}")
        for x in item:
            write(x, out, wanted)
    elif isinstance(item, list):
        out.append("ints " + ",".join(map(str, item)))
    elif item is None:
        out.append("none")
    elif isinstance(item, bool):
        out.append(f"bool {int(item)}")
    else:
        out.append(f"{'int' if isinstance(item, int) else 'float'} {item!r}")


out = ["# made by tests/interop/gradients.py with PyTorch 2.13.0"]
for key, *args in CASES:
    wanted = []
    out.append(f"case aten.{key}")
    for item in args:
        write(item, out, wanted)
    name, overload = key.split(".")
    result = getattr(getattr(aten, name), overload)(*args)
    result = result[0] if isinstance(result, tuple) else result
    root = torch.randn(result.shape)
    out.append(f"root {numbers(root)}")
    for x in torch.autograd.grad(result, wanted, root):
        out.append(" ".join(["grad", *(f"{float(v):.8g}" for v in x.flatten())]))
sys.stdout.write("\n".join(out) + "\n")
