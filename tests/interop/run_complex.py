"""Complex numbers: arithmetic, functions, products, sums and norms, transforms, in one program a dtype, as exported and
decomposed. See README.md beside this file."""

import argparse
import sys
import tempfile

from run_interop import Exg, Report, fail, torch

FUNCTIONS = {
    "arithmetic": lambda x, y: x * y + x / y - 2j * x,
    "conjugate": lambda x, y: x.conj() * y.mH.mT,
    "functions": lambda x, y: torch.exp(x) + torch.sin(y) + torch.sqrt(x) + torch.log(y) + torch.tanh(x),
    "power": lambda x, y: x**2 + torch.pow(x, y),
    "parts": lambda x, y: x.real * y.imag + x.angle() + x.abs(),
    "polar": lambda x, y: torch.polar(x.abs(), y.angle()),
    "product": lambda x, y: x @ y.mT,
    "sum": lambda x, y: x.sum(0) + y.mean(0),
    "where": lambda x, y: torch.where(x.real > 0, x, y),
    "norm": lambda x, y: torch.linalg.vector_norm(x, dim=1) + torch.norm(y, p=1, dim=1),
    "infinite norm": lambda x, y: torch.linalg.vector_norm(x, float("inf")),
    "matrix norm": lambda x, y: torch.linalg.matrix_norm(x),
    "deviation": lambda x, y: x.std(1) + y.var(1, correction=0),
    "mean beside": lambda x, y: torch.var_mean(x, 0)[1] + torch.var_mean(y, 0)[0],
    "transform": lambda x, y: torch.fft.fft(x) + torch.fft.ifft2(y),
    "real transform": lambda x, y: torch.fft.irfft(torch.fft.rfft(x.real), n=x.shape[-1]),
    "inner": lambda x, y: torch.linalg.vecdot(x, y) + torch.vdot(x[0], y[0]),
    "outer": lambda x, y: torch.addr(x, x[:, 0], y[0], beta=0.4 + 0.6j, alpha=0.1 + 0.3j),
    "batches": lambda x, y: torch.addbmm(x, x.view(2, 2, 6).mT.reshape(2, 4, 3), y.view(2, 3, 4)[:, :, :1].expand(2, 3, 6), beta=1 + 2j, alpha=2j),
    "convolution": lambda x, y: torch.nn.functional.conv1d(x, y[:, None, :3], y[:, 3], groups=4),
    "transposed": lambda x, y: torch.nn.functional.conv_transpose1d(x, y[:, :3, None].expand(4, 3, 2), y[0, :3]),
    "real": lambda x, y: torch.isreal(torch.complex(x.real, x.imag.relu())),
    "close": lambda x, y: torch.isclose(x, x + y * 1e-7) ^ torch.isclose(x, y),
    "sinc": lambda x, y: torch.sinc(x),
    "logarithm of a sum": lambda x, y: torch.logsumexp(x, 1) + torch.logaddexp(x, y).sum(1),
    "added by index": lambda x, y: x.index_add(0, torch.tensor([0, 2]), y[:2]).scatter_add(-1, torch.tensor([[1, 1], [0, 2]]), y),
    "put by index": lambda x, y: x.index_put((torch.tensor([1, 1]), torch.tensor([2, 2])), y[0, :2], accumulate=True),
    "distance": lambda x, y: torch.dist(x, y) + torch.nn.functional.pairwise_distance(x, y),
    "moved": lambda x, y: torch.cat([x.roll(1, 0), y.flip(1)]).permute(1, 0).contiguous(),
}


class All(torch.nn.Module):
    def forward(self, x, y):
        results = [function(x, y) for function in FUNCTIONS.values()]
        return tuple(torch.view_as_real(r.resolve_conj()) if r.is_complex() else r for r in results)


def check(exg, dtype, core):
    x, y = (torch.randn(4, 6, dtype=dtype) for _ in range(2))
    program = torch.export.export(All(), (x, y))
    program = program.run_decompositions() if core else program
    path = exg.path(".pt2")
    torch.export.save(program, path)
    expected = All()(x, y)
    exg.command("verify", path)
    got = exg.run(path)[0]
    for index, name in enumerate(FUNCTIONS):
        try:
            torch.testing.assert_close(got[str(index)], expected[index], rtol=2e-5, atol=2e-5)
        except AssertionError as error:
            fail(f"{name}: {str(error).splitlines()[-2]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exg", required=True, help="the exg binary")
    options = parser.parse_args()
    torch.manual_seed(3)
    report = Report()
    with tempfile.TemporaryDirectory(prefix="exg-complex-") as folder:
        exg = Exg(options.exg, folder)
        for dtype in (torch.complex64, torch.complex128):
            for core in (False, True):
                name = f"{str(dtype)[6:]}, {'decomposed' if core else 'as exported'}"
                report.check(name, lambda: check(exg, dtype, core))
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
