"""Every entry of PyTorch's operator database: exported, run by exg, compared. Prints a line an entry that does not
agree and a table at the end; see README.md beside this file.

    build/venv/bin/python tests/interop/sweep.py --exg build/release/cli/exg [--samples 2] [--core] [--only NAME] [--dtype complex64]

Not part of the tests: an entry that nothing here speaks of is work, not a fault.
"""

import argparse
import collections
import copy
import logging
import pathlib
import re
import subprocess
import sys
import tempfile
import warnings

import mpmath
import safetensors.torch
import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils import _pytree as pytree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "fixtures" / "operators"))
import make_corpus  # noqa: E402
import program_json  # noqa: E402

DTYPES = (torch.float32, torch.int64, torch.bool, torch.float64, torch.bfloat16, torch.float16, torch.complex64)
RANDOM = re.compile(r"rand|normal(?!ize)|bernoulli|poisson(?!_nll)|dropout|multinomial|exponential|geometric|cauchy|uniform|empty|rrelu|lowrank|fractional_max_pool")
SIGNS = {"linalg.eigh", "linalg.eig"}  # eigenvectors are as good with the other sign
PHASES = {"logcumsumexp"}  # imaginary parts are angles, as good a turn on
BESSEL = {"special.bessel_j0": ("besselj", 0), "special.bessel_j1": ("besselj", 1), "special.bessel_y0": ("bessely", 0), "special.bessel_y1": ("bessely", 1)}
PAIRS = (torch.complex32, torch.complex128)  # not in safetensors: they come and go as pairs of real numbers
TIES = {"sort", "argsort", "topk", "kthvalue", "mode"}  # of equal elements PyTorch may name any
DEADLINE = 60


def sentence(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[0][:150] if lines else "no message"


def in_pairs(function):
    """Of inputs and results whose dtype safetensors lacks, as pairs of real numbers."""

    def run(*args, **kwargs):
        return pytree.tree_map_only(torch.Tensor, lambda x: torch.view_as_real(x) if x.dtype in PAIRS else x, function(*args, **kwargs))

    return run


def call_of(op, sample):
    """The sample's call, complex128 inside where it is so."""
    args, kwargs = (sample.input, *sample.args), sample.kwargs
    leaves, spec = pytree.tree_flatten((args, kwargs))
    paired = [isinstance(leaf, torch.Tensor) and leaf.dtype in PAIRS for leaf in leaves]
    if not any(paired):
        return program_json.Call(in_pairs(op.op), args, kwargs)

    def joined(*given, **named):
        flat = pytree.tree_leaves((given, named))
        flat = [torch.view_as_complex(x) if pair else x for x, pair in zip(flat, paired)]
        given, named = pytree.tree_unflatten(flat, spec)
        return in_pairs(op.op)(*given, **named)

    # conjugates and negatives have storage of another sign, which no file keeps
    leaves = [torch.view_as_real(x.resolve_conj().resolve_neg()) if pair else x for x, pair in zip(leaves, paired)]
    args, kwargs = pytree.tree_unflatten(leaves, spec)
    return program_json.Call(joined, args, kwargs)


def turned(x):
    """e to the complex number, which may come as a pair."""
    x = torch.view_as_complex(x) if x.dtype == torch.float64 and x.shape[-1:] == (2,) else x
    return x.exp() if x.is_complex() else x


class Sweep:
    def __init__(self, exg, folder, core):
        self.exg, self.folder, self.core = exg, pathlib.Path(folder), core
        self.random = self.signs = self.ties = self.phases = False
        self.bessel = None

    def export(self, call):
        program = program_json.export(call)
        return program_json.decompose(program) if self.core else program

    def start(self, call, program, values):
        """(what exg run ends with, where its outputs are)"""
        model, inputs = self.folder / "p.pt2", self.folder / "in.safetensors"
        torch.export.save(program, model)
        safetensors.torch.save_file(dict(zip(call.names, (v.contiguous() for v in values))), inputs)
        output = self.folder / "out.safetensors"
        words = [self.exg, "run", model, "--input", inputs, "--output", output]
        return subprocess.run(words, capture_output=True, text=True, timeout=DEADLINE), output

    def refuse(self, call, program, values):
        """None when exg says no with a code to what PyTorch refuses, and never crashes; else what happened."""
        try:
            program.module()(*(v.clone() for v in values))
            wanted = None
        except Exception as error:
            wanted = sentence(str(error))
        try:
            done, _ = self.start(call, program, values)
        except subprocess.TimeoutExpired:
            return wanted, f"no end within {DEADLINE} s"
        if done.returncode < 0 or "Sanitizer" in done.stderr:
            return wanted, f"ended by signal {-done.returncode}: {sentence(done.stderr)}"
        if wanted and done.returncode == 0:
            return wanted, f"runs; PyTorch: {wanted}"
        if done.returncode != 0 and not re.match(r"exg: [A-Z]{3}-[0-9A-Z]+: ", done.stderr):
            return wanted, f"no code: {sentence(done.stderr)}"
        return wanted, None

    def run(self, call, program, expected):
        """None when exg agrees, else why not."""
        done, output = self.start(call, program, call.inputs)
        if done.returncode != 0 and self.refused_too(call, program):
            return None
        if done.returncode != 0:
            return sentence(done.stderr) if done.returncode > 0 else f"ended by signal {-done.returncode}"
        got = safetensors.torch.load_file(output)
        rtol, atol = make_corpus.tolerance(call, expected)
        for key, value in expected.outputs.items():
            if key not in got:
                return f"output {key} is not there"
            if self.signs:
                got[key], value = got[key].abs(), value.abs()
            if self.random:  # sizes and dtypes; tests/exec/session/random.c looks at the numbers
                value = torch.zeros_like(value)
                got[key] = torch.zeros_like(got[key])
            if self.phases:
                got[key], value = turned(got[key]), turned(value)
            try:
                torch.testing.assert_close(got[key], value, rtol=rtol, atol=atol, equal_nan=True)
            except AssertionError as error:
                fits = (
                    (self.ties and self.names_the_same(call, got[key], value))
                    or self.nearer(call, key, got[key], value, rtol, atol)
                    or self.nearer_than_pytorch(call, got[key], value)
                    or (self.core and self.rounds_so(call, program, key, got[key], rtol, atol))
                )
                if not fits:
                    return "differs: " + sentence(str(error))
        return None

    @staticmethod
    def refused_too(call, program):
        """Does PyTorch refuse to run its own program on these inputs? (masked_select with a mask that broadcasts)"""
        try:
            program.module()(*call.inputs)
        except Exception as error:
            return "Runtime assertion failed" in str(error)
        return False

    @staticmethod
    def names_the_same(call, got, expected):
        """Are these indices of equal elements, along one dim?"""
        x = call.inputs[0]
        if got.dtype != torch.int64 or got.numel() == 0:
            return False
        for dim in range(x.dim()):
            ours, theirs = (i if i.dim() == x.dim() else i.unsqueeze(dim) for i in (got, expected))
            fits = ours.dim() == x.dim() and all(a == b or d == dim for d, (a, b) in enumerate(zip(x.shape, ours.shape)))
            if fits and 0 <= ours.min() and ours.max() < x.shape[dim]:
                if torch.equal(x.gather(dim, ours).nan_to_num(7), x.gather(dim, theirs).nan_to_num(7)):
                    return True
        return False

    @staticmethod
    def nearer(call, key, got, expected, rtol, atol):
        """Is exg's answer what PyTorch computes in float64, or no further from it than PyTorch's is?"""
        wide = {torch.bfloat16: torch.float64, torch.float16: torch.float64, torch.float32: torch.float64, torch.complex64: torch.complex128}
        if expected.dtype not in wide:
            return False
        try:
            inputs = [x.to(wide.get(x.dtype, x.dtype)) for x in call.inputs]
            exact = program_json.answer(call, inputs, call.names).outputs[key]
            if expected.is_complex() and not exact.is_complex():  # it came as pairs
                exact = torch.view_as_complex(exact)
            exact = exact.to(wide[expected.dtype])
        except Exception:
            return False
        if exact.shape != got.shape:  # pairs are counted apart
            return False
        if torch.isclose(got, exact.to(got.dtype), rtol=rtol, atol=atol, equal_nan=True).all():
            return True
        if not exact.isfinite().all() or not got.isfinite().all():
            return False
        return Sweep.is_as_near(got, expected, exact)

    @staticmethod
    def is_as_near(got, expected, exact):
        """Is exg's largest error at most PyTorch's, or its mean square at most 1.2 times (another order of sums)?"""
        off = [(x.to(exact.dtype) - exact).abs().nan_to_num(float("inf")) for x in (got, expected)]
        return bool(off[0].max() <= off[1].max() or off[0].square().mean().sqrt() <= 1.2 * off[1].square().mean().sqrt())

    def nearer_than_pytorch(self, call, got, expected):
        """PyTorch's Bessel functions are some 4e-7 off in float64: judged by digits without end."""
        if self.bessel is None or expected.dtype != torch.float64:
            return False
        name, order = self.bessel
        exact = [float(getattr(mpmath, name)(order, mpmath.mpf(x)).real) if x == x and abs(x) < 1e8 else float("nan") for x in call.inputs[0].flatten().tolist()]
        exact = torch.tensor(exact, dtype=torch.float64).reshape(expected.shape)
        known = exact.isfinite()
        return torch.equal(got[~known].nan_to_num(7), expected[~known].nan_to_num(7)) and self.is_as_near(got[known], expected[known], exact[known])

    @staticmethod
    def rounds_so(call, program, key, got, rtol, atol):
        """Does PyTorch compute the same of the decomposed program? It may round otherwise than the call."""
        again = program_json.answer(program.module(), call.inputs, call.names).outputs[key]
        return bool(torch.isclose(got, again, rtol=rtol, atol=atol, equal_nan=True).all())


def samples_of(op, count, dtypes):
    """Up to `count` samples of the first of the dtypes the entry has."""
    for dtype in dtypes:
        if not op.supports_dtype(dtype, "cpu"):
            continue
        try:
            taken = []
            for sample in op.sample_inputs("cpu", dtype, requires_grad=False):
                tensors = make_corpus.tensors_of(sample)
                if all(t.layout == torch.strided for t in tensors) and make_corpus.elements(sample) < 100000:
                    taken.append(sample)
                if len(taken) == 4 * count:
                    break
            if taken:
                step = max(1, len(taken) // count)
                return taken[::step][:count]
        except Exception:
            continue
    return []


def calls_of(op, samples, mixes):
    """Their calls; with `mixes` those with one tensor after the other of another dtype, where there are several."""
    for sample in samples:
        try:
            call = call_of(op, sample)
        except Exception:
            continue
        if not mixes:
            yield call
            continue
        for i, value in enumerate(call.inputs):
            for dtype in (torch.float64, torch.bfloat16, torch.int32):
                if len(call.inputs) > 1 and value.is_floating_point() and value.dtype != dtype:
                    other = copy.copy(call)
                    other.inputs = (*call.inputs[:i], value.to(dtype), *call.inputs[i + 1 :])
                    yield other


def entry(sweep, op, count, dtypes, mixes):
    """(agreeing samples, exportable samples, all samples, first reason)"""
    agreed = exported = 0
    reason = None
    samples = samples_of(op, count, dtypes)
    for call in calls_of(op, samples, mixes):
        try:
            expected = program_json.answer(call, call.inputs, call.names)
            program = sweep.export(call)
        except Exception:
            continue
        if not expected.outputs:
            continue
        exported += 1
        why = sweep.run(call, program, expected)
        agreed += why is None
        reason = reason or why
    return agreed, exported, len(samples), reason


def spoiled(values):
    """The inputs with one integer tensor after the other far out of any range."""
    for i, value in enumerate(values):
        if value.dtype in (torch.int64, torch.int32) and value.numel() > 0:
            for number in (1 << 20, -(1 << 20)):
                yield [*values[:i], torch.full_like(value, number), *values[i + 1 :]]


def refusals(sweep, op, count, dtypes):
    """(what PyTorch refuses, what exg answers as it should, first of what it does not)"""
    wanted = right = 0
    reason = None
    bad = []
    for sample in samples_of(op, count, dtypes):
        try:
            call = call_of(op, sample)
            program = sweep.export(call)
            bad += [(call, program, values) for values in spoiled(call.inputs)]
        except Exception:
            continue
    try:
        errors = list(op.error_inputs("cpu"))
    except Exception:
        errors = []
    for error in errors:
        try:  # most are refused at export already
            call = call_of(op, error.sample_input)
            bad.append((call, sweep.export(call), call.inputs))
        except Exception:
            continue
    for call, program, values in bad:
        refused, why = sweep.refuse(call, program, values)
        wanted += refused is not None
        right += refused is not None and why is None
        reason = reason or why
    return wanted, right, reason


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exg", required=True)
    parser.add_argument("--samples", type=int, default=1, help="of an entry")
    parser.add_argument("--core", action="store_true", help="decomposed before")
    parser.add_argument("--only", help="entries whose name begins so, or so: a,b")
    parser.add_argument("--dtype", help="samples of this one alone: complex64")
    parser.add_argument("--mixed", action="store_true", help="one tensor after the other of another dtype, where PyTorch takes it")
    parser.add_argument("--errors", action="store_true", help="what PyTorch refuses at run time: refused with a code, and no crash")
    options = parser.parse_args()
    dtypes = (getattr(torch, options.dtype),) if options.dtype else DTYPES
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    sys.unraisablehook = lambda _: None  # generators of samples that are dropped half way
    counts = collections.Counter()
    with tempfile.TemporaryDirectory(prefix="exg-sweep-") as folder:
        sweep = Sweep(options.exg, folder, options.core)
        for op in op_db:
            if options.only and not op.name.startswith(tuple(options.only.split(","))):
                continue
            sweep.random, sweep.signs, sweep.ties = bool(RANDOM.search(op.name)), op.name in SIGNS, op.name in TIES
            sweep.phases = op.name in PHASES
            sweep.bessel = BESSEL.get(op.name)
            if options.errors:
                refused, right, reason = refusals(sweep, op, options.samples, dtypes)
                counts["refused by PyTorch"] += refused
                counts["refused by exg too"] += right
                if reason is not None:
                    print(f"{op.name}{'.' + op.variant_test_name if op.variant_test_name else ''}: {reason}", flush=True)
                continue
            agreed, exported, offered, reason = entry(sweep, op, options.samples, dtypes, options.mixed)
            kind = (
                "without a dense sample of the dtype" if offered == 0
                else "not exported by PyTorch" if exported == 0
                else "random: sizes and dtypes agree" if reason is None and sweep.random
                else "agrees" if reason is None
                else "does not agree"
            )
            counts[kind] += 1
            counts["samples"] += exported
            counts["samples that agree"] += agreed
            if kind == "does not agree":
                print(f"{op.name}{'.' + op.variant_test_name if op.variant_test_name else ''}: {reason}", flush=True)
    for kind, count in counts.items():
        print(f"{count:6d} {kind}")


if __name__ == "__main__":
    main()
