"""Joint graphs: loss and gradients of small modules, exported by PyTorch, run by exg on one core and over meshes, compared with autograd."""

import argparse
import sys
import tempfile

import safetensors.torch
import torch
import torch.export.experimental
from run_interop import Exg, Report, fail
from torch.nn import functional as F


class Loss(torch.nn.Module):
    def __init__(self, body, loss):
        super().__init__()
        self.body, self.loss = body, loss

    def forward(self, x, y):
        return (self.loss(self.body(x), y),)


class Attention(torch.nn.Module):
    def __init__(self, fused=False):
        super().__init__()
        self.fused = fused
        self.table, self.norm = torch.nn.Embedding(11, 16), torch.nn.LayerNorm(16)
        self.mix, self.out = torch.nn.Linear(16, 48), torch.nn.Linear(16, 11)

    def forward(self, x):
        x = self.table(x)
        q, k, v = (t.view(2, 6, 2, 8).transpose(1, 2) for t in self.mix(self.norm(x)).chunk(3, -1))
        if self.fused:
            x = x + F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(2, 6, 16)
        else:
            weights = torch.softmax((q @ k.transpose(-1, -2)) / 8**0.5 + torch.full((6, 6), -1e9).triu(1), -1)
            x = x + (weights @ v).transpose(1, 2).reshape(2, 6, 16)
        return self.out(F.gelu(x)).flatten(0, 1)


N = torch.nn
MODULES = {
    "mlp": (N.Sequential(N.Linear(6, 8), N.Tanh(), N.Linear(8, 3), N.Sigmoid()), F.mse_loss, (4, 6), (4, 3)),
    "silu": (N.Sequential(N.Linear(6, 8), N.SiLU(), N.Linear(8, 3), N.Softplus()), F.mse_loss, (4, 6), (4, 3)),
    "convolution": (
        N.Sequential(N.Conv2d(3, 6, 3, padding=1, stride=2), N.ReLU(), N.MaxPool2d(2), N.Conv2d(6, 6, 3, groups=3, padding=1),
                     N.AvgPool2d(2, padding=1, count_include_pad=False), N.Flatten(), N.Linear(24, 5)),
        F.cross_entropy, (2, 3, 12, 12), 5),
    "adaptive": (N.Sequential(N.Conv2d(2, 4, 3, dilation=2), N.LeakyReLU(), N.AdaptiveAvgPool2d((3, 2)), N.Flatten(), N.Linear(24, 5)),
                 F.cross_entropy, (2, 2, 9, 8), 5),
    "line": (N.Sequential(N.Conv1d(3, 4, 3, padding=1), N.GELU(), N.Flatten(), N.Linear(40, 5)), F.cross_entropy, (2, 3, 10), 5),
    "group norm": (N.Sequential(N.Conv2d(2, 6, 1), N.GroupNorm(3, 6), N.ELU(), N.Flatten(), N.Linear(96, 4)),
                   F.cross_entropy, (2, 2, 4, 4), 4),
    "volume": (
        N.Sequential(N.Conv3d(2, 3, 2), N.BatchNorm3d(3), N.MaxPool3d(2, padding=1), N.AvgPool3d(2, ceil_mode=True), N.Flatten(),
                     N.Linear(24, 4)),
        F.cross_entropy, (2, 2, 6, 5, 5), 4),
    "transposed": (
        N.Sequential(N.ReplicationPad2d(1), N.ConvTranspose2d(2, 4, 3, stride=2, output_padding=1, groups=2), N.BatchNorm2d(4), N.ReLU(),
                     N.AdaptiveMaxPool2d(2), N.Flatten(), N.Linear(16, 5)),
        F.cross_entropy, (2, 2, 4, 4), 5),
    "attention": (Attention(), F.cross_entropy, None, None),
    "fused attention": (Attention(fused=True), F.cross_entropy, None, None),
    "log softmax": (N.Sequential(N.Linear(6, 5), N.LogSoftmax(-1)), F.nll_loss, (4, 6), 5),
    "smooth": (N.Sequential(N.Linear(6, 3), N.Hardtanh()), F.smooth_l1_loss, (4, 6), (4, 3)),
    "layer norm": (N.Sequential(N.Linear(6, 8), N.LayerNorm(8), N.Linear(8, 3)), F.l1_loss, (4, 6), (4, 3)),
}
MESHES = ({}, {"mesh": "2x2", "place": "data,tensor"}, {"mesh": "3", "place": "fsdp"}, {"mesh": "2", "place": "sequence"})


def inputs_of(x, y):
    if x is None:
        tokens = torch.randint(0, 11, (2, 7))
        return tokens[:, :-1].contiguous(), tokens[:, 1:].reshape(-1).contiguous()
    return torch.randn(x, requires_grad=True), torch.randn(y) if isinstance(y, tuple) else torch.randint(0, y, (x[0],))


def joint(exg, body, loss, x, y):
    """S004-22, S004-23: gradients to parameters and to user inputs, by the names that the signature gives them."""
    torch.manual_seed(3)
    module, inputs = Loss(body, loss), inputs_of(x, y)
    program = torch.export.export(module, inputs)
    program = torch.export.experimental._export_forward_backward(program)
    names = [s.arg.name for s in program.graph_signature.input_specs if s.kind.name == "USER_INPUT"]
    for spec in program.graph_signature.output_specs:
        if spec.kind.name == "GRADIENT_TO_USER_INPUT":  # PyTorch names it as it was before the trace, and cannot save that
            spec.target = names[0]
    path = exg.path(".pt2")
    torch.export.save(program, path)
    value = module(*inputs)[0]
    value.backward()
    wanted = {("GRADIENT_TO_PARAMETER", name): parameter.grad for name, parameter in module.named_parameters()}
    wanted |= {("GRADIENT_TO_USER_INPUT", name): leaf.grad for name, leaf in zip(names, inputs) if leaf.grad is not None}
    for mesh in MESHES:
        got, _ = exg.run(path, {name: leaf.detach() for name, leaf in zip(names, inputs)}, **mesh)
        seen = 0
        outputs = [spec for spec in program.graph_signature.output_specs if spec.kind.name != "BUFFER_MUTATION"]
        for index, spec in enumerate(outputs):
            expected = value if spec.kind.name == "LOSS_OUTPUT" else wanted.get((spec.kind.name, spec.target))
            if expected is not None:
                torch.testing.assert_close(got[str(index)], expected.detach().contiguous(), rtol=1e-4, atol=1e-5)
                seen += 1
        if seen != len(wanted) + 1:
            fail(f"{seen} of {len(wanted)} gradients and a loss")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exg", required=True, help="the exg binary")
    options = parser.parse_args()
    report = Report()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="exg-gradients-") as folder:
        exg = Exg(options.exg, folder)
        for name, case in MODULES.items():
            report.check(f"gradients: {name}", lambda case=case: joint(exg, *case))
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
