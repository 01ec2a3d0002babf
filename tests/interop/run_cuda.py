"""Programs exported for CUDA, whose operators PyTorch has for the CPU under another name or not at all: attention, norms, cells and
their gradients. No GPU is needed: PyTorch exports with tensors that have a device and no memory. See README.md beside this file."""

import sys

from run_interop import Function, run_cases, same, torch
from torch._subclasses.fake_tensor import FakeTensorMode

A = torch.ops.aten
F = torch.nn.functional
STAND_IN = torch.library.Library("stand_in", "DEF")  # for operators that PyTorch does not export where it finds no GPU
CASES = {}  # name -> (function for CUDA, the same for the CPU, inputs)


def attention():
    """Forward and back, with and without a mask, causal, scaled, with fewer heads of keys."""
    q, k, v = torch.randn(2, 4, 5, 16), torch.randn(2, 4, 7, 16), torch.randn(2, 4, 7, 16)
    mask, square = torch.randn(2, 1, 5, 7), torch.randn(2, 4, 5, 16)
    grad = torch.randn(2, 4, 5, 16)

    def reference(q, k, v, mask=None, **named):
        out, lse = A._scaled_dot_product_flash_attention_for_cpu(q, k, v, attn_mask=mask, **named)
        return out, lse

    def back(g, q, k, v, mask=None, **named):
        leaves = [x.detach().requires_grad_() for x in (q, k, v, *([] if mask is None else [mask]))]
        return torch.autograd.grad(F.scaled_dot_product_attention(*leaves, **named), leaves, g)

    for name, inputs, named in (("plain", (q, k, v), {}), ("causal", (q, square, square), {"is_causal": True}), ("scaled", (q, k, v), {"scale": 0.5})):
        CASES[f"flash attention, {name}"] = (lambda q, k, v, n=named: A._scaled_dot_product_flash_attention(q, k, v, **n)[:2], lambda *x, n=named: reference(*x, **n), inputs)

        def forth(g, q, k, v, n=named):
            out, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = A._scaled_dot_product_flash_attention(q, k, v, **n)
            named = {"scale": n["scale"]} if "scale" in n else {}
            return A._scaled_dot_product_flash_attention_backward(g, q, k, v, out, lse, cum_q, cum_k, max_q, max_k, 0.0, n.get("is_causal", False), seed, offset, **named)

        CASES[f"flash attention back, {name}"] = (forth, lambda *x, n=named: back(*x, **n), (grad, *inputs))
    CASES["flash attention, sizes"] = (lambda q, k, v: A._scaled_dot_product_flash_attention(q, k, v)[4:6], lambda q, k, v: (torch.tensor(5), torch.tensor(7)), (q, k, v))
    for name, mask_of, rest in (("plain", (), {}), ("mask", (mask,), {}), ("mask for each", (torch.randn(2, 4, 5, 7),), {})):
        CASES[f"efficient attention, {name}"] = (
            lambda q, k, v, *m: A._scaled_dot_product_efficient_attention(q, k, v, m[0] if m else None, False)[0], lambda *x: reference(*x)[0], (q, k, v, *mask_of))
        CASES[f"efficient attention, {name}, logsumexp"] = (
            lambda q, k, v, *m: A._scaled_dot_product_efficient_attention(q, k, v, m[0] if m else None, True)[1],
            lambda *x: F.pad(reference(*x)[1], (0, 27), value=float("inf")), (q, k, v, *mask_of))
        CASES[f"cudnn attention, {name}"] = (
            lambda q, k, v, *m: A._scaled_dot_product_cudnn_attention(q, k, v, m[0] if m else None, True)[:2], lambda *x: (reference(*x)[0], reference(*x)[1].unsqueeze(-1)), (q, k, v, *mask_of))

        def efficient(g, q, k, v, *m):
            out, lse, seed, offset = A._scaled_dot_product_efficient_attention(q, k, v, m[0] if m else None, True)
            return A._scaled_dot_product_efficient_attention_backward(g, q, k, v, m[0] if m else None, out, lse, seed, offset, 0.0, [True] * 3 + [bool(m)])[: 3 + len(m)]

        def cudnn(g, q, k, v, *m):
            out, lse, cum_q, cum_k, max_q, max_k, seed, offset, _ = A._scaled_dot_product_cudnn_attention(q, k, v, m[0] if m else None, True)
            return A._scaled_dot_product_cudnn_attention_backward(g, q, k, v, out, lse, seed, offset, m[0] if m else None, cum_q, cum_k, max_q, max_k, 0.0, False)

        CASES[f"efficient attention back, {name}"] = (efficient, back, (grad, q, k, v, *mask_of))
        CASES[f"cudnn attention back, {name}"] = (cudnn, lambda *x: back(*x)[:3], (grad, q, k, v, *mask_of))


def norms():
    x, g, w = torch.randn(2, 3, 8), torch.randn(2, 3, 8), torch.rand(8) + 0.5

    def back(g, x, *w):
        leaves = [v.detach().requires_grad_() for v in (x, *w)]
        return torch.autograd.grad(F.rms_norm(leaves[0], (8,), leaves[1] if w else None, 1e-3), leaves, g)

    def forth(g, x, *w):
        weight = w[0] if w else None
        rstd = A._fused_rms_norm(x, (8,), weight, 1e-3)[1]
        return A._fused_rms_norm_backward(g, x, (8,), rstd, weight, [True, bool(w)])[: 1 + len(w)]

    for name, weight in (("", ()), (", weight", (w,))):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            inputs = tuple(v.to(dtype) for v in (x, *weight))
            CASES[f"rms norm{name}, {str(dtype)[6:]}"] = (
                lambda x, *w: A._fused_rms_norm(x, (8,), w[0] if w else None, None),
                lambda x, *w: (F.rms_norm(x, (8,), *w), x.float().square().mean(-1, True).add(torch.finfo(torch.float32).eps).rsqrt()), inputs)
            CASES[f"rms norm{name}, tiny, {str(dtype)[6:]}"] = (
                lambda x, *w: A._fused_rms_norm(x, (8,), w[0] if w else None, None)[0], lambda x, *w: F.rms_norm(x, (8,), *w), (inputs[0] * 1e-4, *inputs[1:]))
        CASES[f"rms norm back{name}"] = (forth, back, (g, x, *weight))


def cells():
    x, hidden, c = torch.randn(3, 16), torch.randn(3, 16), torch.randn(3, 4)
    bias = torch.randn(16), torch.randn(16)

    def lstm(x, hidden, c, *bias):
        gates = x + hidden + sum(bias)
        i, f, g, o = gates.chunk(4, 1)
        i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
        c = f * c + i * g
        return o * c.tanh(), c, torch.cat([i, f, g, o], 1)

    def gru(x, hidden, h, *bias):
        x, hidden = (v + w for v, w in zip((x, hidden), bias)) if bias else (x, hidden)
        (r, z, n), (rh, zh, nh) = x.chunk(3, 1), hidden.chunk(3, 1)
        r, z = (r + rh).sigmoid(), (z + zh).sigmoid()
        n = (n + r * nh).tanh()
        return n + z * (h - n), torch.cat([r, z, n, h, nh], 1)

    CASES["lstm cell, bias"] = (A._thnn_fused_lstm_cell, lstm, (x, hidden, c, *bias))
    STAND_IN.define("_thnn_fused_gru_cell(Tensor x, Tensor h, Tensor hx, Tensor? input_bias=None, Tensor? hidden_bias=None) -> (Tensor, Tensor)")
    STAND_IN.impl("_thnn_fused_gru_cell", gru, "CompositeExplicitAutograd")
    CASES["gru cell, bias"] = (torch.ops.stand_in._thnn_fused_gru_cell, gru, (x[:, :12], hidden[:, :12], c, *(v[:12] for v in bias)))


attention()
norms()
cells()


def check(exg, cuda, cpu, inputs):
    with FakeTensorMode(allow_non_fake_inputs=True):
        fakes = tuple(torch.empty(x.shape, dtype=x.dtype, device="cuda") for x in inputs)
        program = torch.export.export(Function(cuda), fakes, strict=False)
    for node in program.graph.nodes:
        if str(node.target).startswith("stand_in."):
            node.target = getattr(A, str(node.target).split(".")[1]).default
    program._example_inputs = None  # they have no memory to save
    path = exg.path(".pt2")
    torch.export.save(program, path)
    names = [s.arg.name for s in program.graph_signature.input_specs]
    results = cpu(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    got = exg.run(path, dict(zip(names, inputs)))[0]
    same(got, {str(i): r.detach() for i, r in enumerate(results)})


def main():
    return run_cases(__doc__, ("", check, CASES))


if __name__ == "__main__":
    sys.exit(main())
