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
    "power in float64": lambda x, y: (x.float_power(2.0) + x.float_power(1 - 1j) + torch.float_power(2.0, y) + torch.float_power(1j, x.real) + y.imag.float_power(2j)).to(x.dtype),
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
    "running product": lambda x, y: x.cumprod(1) + y.cumprod(0),
    "areas": lambda x, y: torch.atanh(x) + torch.atan(y) + torch.atanh(100 * y),
    "rms_norm": lambda x, y: torch.nn.functional.rms_norm(x, (6,), y[0], eps=0.1) + torch.nn.functional.rms_norm(y, (6,)),
    "moved": lambda x, y: torch.cat([x.roll(1, 0), y.flip(1)]).permute(1, 0).contiguous(),
}


def square(x, y):
    """(4, 4), far from singular."""
    return x @ y.mH + 5 * torch.eye(4)


def hermitian(x):
    """(4, 4), positive definite, its eigenvalues apart."""
    return x @ x.mH + torch.diag(torch.arange(1.0, 5.0, dtype=x.real.dtype))


def composed(factors):
    """What a factorisation's parts, which are not unique, are parts of."""
    product = factors[0]
    for factor in factors[1:]:
        product = product @ factor
    return product


def svd(x, full):
    u, s, vh = torch.linalg.svd(x, full_matrices=full)
    k = s.shape[-1]
    return torch.cat([composed((u[:, :k] * s, vh[:k])), u.mH @ u, u @ u.mH, s.repeat(4, 1).to(x.dtype)], 1)


def eig(x):
    values, vectors = torch.linalg.eig(x)
    return torch.cat([x @ vectors - vectors * values, vectors.mH.norm(dim=1, keepdim=True).to(x.dtype)], 1)


def eigh(x, uplo):
    values, vectors = torch.linalg.eigh(x, UPLO=uplo)
    return torch.cat([composed((vectors * values, vectors.mH)), vectors.mH @ vectors, values.repeat(4, 1).to(x.dtype)], 1)


def reflected(x, y):
    """The whole Q of a tall matrix from its reflections, and by it something on either side."""
    factors, tau = torch.geqrf(x.mT)
    other = torch.cat([y.mT, x.mT[:, :2]], 1)
    return torch.ormqr(factors, tau, torch.ormqr(factors, tau, other, True, True), False, False)


def indefinite(x, y, of_adjoint):
    """L D L' of a matrix that is symmetric, or Hermitian, not definite."""
    a = square(x, y)
    a = (a + (a.mH if of_adjoint else a.mT)) * torch.tensor([1, 1, -1, 1]).diag()
    a = a.tril() + (a.tril(-1).mH if of_adjoint else a.tril(-1).mT)
    a = a - 1j * a.imag * torch.eye(4) if of_adjoint else a
    factors, pivots = torch.linalg.ldl_factor(a, hermitian=of_adjoint)
    return torch.cat([factors, torch.linalg.ldl_solve(factors, pivots, y, hermitian=of_adjoint)], 1)


FUNCTIONS |= {
    "cholesky": lambda x, y: torch.linalg.cholesky(hermitian(x)) + torch.linalg.cholesky(hermitian(y), upper=True),
    "cholesky_solve": lambda x, y: torch.cholesky_solve(y, torch.linalg.cholesky(hermitian(x))),
    "cholesky_solve, upper": lambda x, y: torch.cholesky_solve(y, torch.linalg.cholesky(hermitian(x), upper=True), True),
    "cholesky_inverse": lambda x, y: torch.cholesky_inverse(torch.linalg.cholesky(hermitian(x))),
    "lu": lambda x, y: torch.cat(torch.linalg.lu(x), 1),
    "lu of a tall matrix": lambda x, y: composed(torch.linalg.lu(x.mT)),
    "lu_solve": lambda x, y: torch.linalg.lu_solve(*torch.linalg.lu_factor(square(x, y)), y),
    "lu_solve, adjoint": lambda x, y: torch.linalg.lu_solve(*torch.linalg.lu_factor(square(x, y)), y, adjoint=True),
    "lu_solve, right": lambda x, y: torch.linalg.lu_solve(*torch.linalg.lu_factor(square(x, y)), y.mT, left=False),
    "lu_solve, right, adjoint": lambda x, y: torch.linalg.lu_solve(*torch.linalg.lu_factor(square(x, y)), y.mT, left=False, adjoint=True),
    "solve": lambda x, y: torch.linalg.solve(square(x, y), x),
    "inverse": lambda x, y: torch.linalg.inv(square(x, y)),
    "powers": lambda x, y: torch.linalg.matrix_power(square(x, y) / 5, -3),
    "determinant": lambda x, y: torch.linalg.det(square(x, y) / 5),
    "slogdet": lambda x, y: sum(torch.linalg.slogdet(square(x, y))) + torch.logdet(square(y, x)),
    "solve_triangular": lambda x, y: torch.linalg.solve_triangular(square(x, y), y, upper=True),
    "solve_triangular, right": lambda x, y: torch.linalg.solve_triangular(square(x, y) / 5, y.mT, upper=False, left=False, unitriangular=True),
    "triangular_solve": lambda x, y: torch.triangular_solve(y, square(x, y), transpose=True)[0],
    "qr": lambda x, y: torch.cat(torch.linalg.qr(x), 1),
    "qr, complete": lambda x, y: torch.cat(torch.linalg.qr(y.mT, mode="complete"), 1),
    "reflections": reflected,
    "eigh": lambda x, y: eigh(hermitian(x), "L"),
    "eigh, upper": lambda x, y: eigh(hermitian(y), "U"),
    "eigvalsh": lambda x, y: torch.linalg.eigvalsh(hermitian(x)),
    "eig": lambda x, y: eig(square(x, y)),
    "svd": lambda x, y: svd(x, False),
    "svd, full": lambda x, y: svd(y, True),
    "svdvals": lambda x, y: torch.linalg.svdvals(x),
    "pinv": lambda x, y: torch.linalg.pinv(x),
    "pinv, hermitian": lambda x, y: torch.linalg.pinv(hermitian(x), hermitian=True),
    "matrix_rank": lambda x, y: torch.linalg.matrix_rank(x @ y[:2].mH @ y[:2]),
    "cond": lambda x, y: torch.linalg.cond(square(x, y)) + torch.linalg.cond(square(x, y), "nuc"),
    "matrix norms": lambda x, y: sum(torch.linalg.matrix_norm(x, p, keepdim=True) for p in (1, -1, 2, -2, float("inf"), "fro", "nuc")),
    "ldl": lambda x, y: indefinite(x, y, False),
    "ldl, hermitian": lambda x, y: indefinite(x, y, True),
    "matrix_exp": lambda x, y: torch.matrix_exp(square(x, y) / 5),
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
