"""Quantized operators with packed weights, and what else PyTorch's own export tests have and few programs: set_, loops that give
what they carried after each iteration. See README.md beside this file."""

import sys

from run_interop import Function, run_cases, same, torch
from torch._higher_order_ops.while_loop import while_loop_stack_output_op
from torch.utils import _pytree as pytree

quantized, wrapped = torch.ops.quantized, torch.ops._quantized
draw = torch.manual_seed(1)
X, W, B, TABLE = torch.randn(4, 8, generator=draw), torch.randn(3, 8), torch.randn(3), torch.randn(10, 16)
BAG = (torch.tensor([1, 2, 4, 5, 9]), torch.tensor([0, 2, 2]))
LARGE = torch.tensor([[1e5, -1e5, 1e-6, 3e-5, 65504, 65519, 0.1, 1]] * 3)


class Buffer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("state", torch.zeros(4, 8))

    def forward(self, x):
        self.state.set_(x * 2)
        return self.state + 1


def number(value):
    return torch.tensor(value)


def linear(x, w, b, scale=0.05, zero=3):
    return wrapped.wrapped_quantized_linear(x, number(scale), number(zero), w, number(0.02), number(0), b, number(0.1), number(2), 3)


def packed_linear(x, w, b):
    packed = wrapped._wrapped_linear_prepack(w, number(0.02), number(0), b)
    return wrapped._wrapped_quantized_linear_prepacked(x, number(0.05), number(3), packed, number(0.1), number(2), 3)


def written_source(x):
    y, z = x.clone(), x * 2
    view = y[0]
    y.set_(z)
    z.add_(1)
    return y, view


def written_self(x):
    y, z = x.clone(), x * 2
    y.set_(z)
    y.mul_(3)
    return z


CASES = {
    "float16 weight": (quantized.linear_dynamic_fp16_unpacked_weight, X, W, B),
    "float16 weight without bias": (lambda x, w: quantized.linear_dynamic_fp16_unpacked_weight(x[None], w, None), X, W),
    "float16 weight that is held": (lambda x, w: quantized.linear_dynamic_fp16_unpacked_weight(x, w, None), X, LARGE),
    "rows of bytes": (quantized.embedding_bag_byte_unpack, quantized.embedding_bag_byte_prepack(TABLE)),
    "rows of nibbles": (quantized.embedding_bag_4bit_unpack, quantized.embedding_bag_4bit_prepack(TABLE)),
    "rows of pairs": (quantized.embedding_bag_2bit_unpack, quantized.embedding_bag_2bit_prepack(TABLE)),
    "packed and unpacked": (lambda w: quantized.embedding_bag_byte_unpack(quantized.embedding_bag_byte_prepack(w)), TABLE),
    "bags of bytes": (lambda w, i, o: quantized.embedding_bag_byte_rowwise_offsets(w, i, o, False, 0, False, None, None, False), quantized.embedding_bag_byte_prepack(TABLE), *BAG),
    "weighted bags of bytes": (lambda w, i, o: quantized.embedding_bag_byte_rowwise_offsets(w, i, o, False, 0, False, i * 0.5, None, False), quantized.embedding_bag_byte_prepack(TABLE), *BAG),
    "wrapped linear": (linear, X, W, B),
    "wrapped linear past its grid": (lambda x, w, b: linear(x * 100, w * 100, b), X, W, B),
    "wrapped linear, prepacked": (packed_linear, X, W, B),
    "set_": (lambda x: x.clone().set_(x * 2) + 1, X),
    "set_, and the source is written": (written_source, X),
    "set_, and the tensor is written": (written_self, X),
    "set_ to other sizes": (lambda x: x.clone().set_(x[:2] * 2) + 1, X),
}


def stacked(times):
    def forward(x):
        i, y = while_loop_stack_output_op(lambda i, y: i < times, lambda i, y: (i + 1, y * 1.5 - i), (torch.tensor(0), x), ())
        return i, y, y.sum(0), y.shape[0] * x

    return forward


LOOPS = {f"{times} iterations": (stacked(times), X) for times in (0, 1, 8, 9, 40)}


def check_loop(exg, function, *inputs):
    check(exg, function, *inputs)
    check(exg, function, *inputs, mesh="2")
    check(exg, function, *inputs, device="strict")


def check(exg, function, *inputs, **options):
    module = function if isinstance(function, torch.nn.Module) else Function(function)
    path = exg.path(".pt2")
    torch.export.save(torch.export.export(module, inputs), path)
    results = pytree.tree_leaves(torch.export.load(path).module()(*inputs))
    same(exg.run(path, **options)[0], {str(i): torch.as_tensor(one) for i, one in enumerate(results)})


if __name__ == "__main__":
    sys.exit(run_cases(__doc__, ("", check, CASES), ("", check, {"set_ of a buffer": (Buffer(), X)}), ("stacked, ", check_loop, LOOPS)))
