"""Rows of a table of programs: each is made by PyTorch, run by eager PyTorch and by exg, and told in a line, with the sentence
that a user sees where it is refused. What run_reports.py and run_export_tests.py share."""

import argparse
import collections
import copy
import logging
import os
import subprocess
import tempfile
import types
import warnings

import run_interop
from run_interop import Exg, Mismatch, Report, fail, pytree, safetensors, same, torch

PLACES = ("auto", "tensor", "data")
RUNS, REFUSED, NOT_MADE, NOT_TRIED = "runs", "is refused", "is not made by PyTorch", "is not tried here"


class Rows(dict):
    """The rows of one table, in its order: number -> (what it is about, the function that shows it)."""

    def add(self, number, about):
        def keep(function):
            assert number not in self, number
            self[number] = about, function
            return function

        return keep


class Function(torch.nn.Module):
    """A module of a function alone: of tensors, or of the module first where it holds some."""

    def __init__(self, function, **held):
        super().__init__()
        for name, value in held.items():
            if isinstance(value, torch.nn.Module):
                self.add_module(name, value)
            elif isinstance(value, torch.nn.Parameter):
                self.register_parameter(name, value)
            else:
                self.register_buffer(name, value)
        self.forward = types.MethodType(function, self) if held else function


class Call:
    """Arguments of one call, by name too."""

    def __init__(self, *args, **kwargs):
        self.args, self.kwargs = args, kwargs

    def copied(self):
        return pytree.tree_map_only(torch.Tensor, lambda t: t.detach().clone(), (self.args, self.kwargs))


def call_of(given):
    return given if isinstance(given, Call) else Call(*given) if isinstance(given, tuple) else Call(given)


def tensor_of(leaf):
    if isinstance(leaf, torch.Tensor):
        return leaf.detach().resolve_conj().resolve_neg().clone().contiguous()
    return torch.tensor(leaf, dtype=torch.float64 if isinstance(leaf, float) else None)


def alike(a, b):
    return torch.allclose(a, b, rtol=0, atol=0, equal_nan=True)


def buffers_of(module, program):
    """Those that the program has, and constants that it writes, by name."""
    held = dict(module.named_buffers(remove_duplicate=False))
    return {name: held[name].detach().clone() for name in program.graph_signature.buffers if name in held}


def expected_of(module, program, call):
    """What eager PyTorch gives: outputs, buffers after the call, inputs that were written."""
    module, (args, kwargs) = copy.deepcopy(module), call.copied()
    before = buffers_of(module, program)
    with torch.no_grad():
        results = module(*args, **kwargs)
    leaves = pytree.tree_leaves(results, is_leaf=lambda leaf: leaf is None)
    outputs = {str(i): tensor_of(leaf) for i, leaf in enumerate(leaves) if isinstance(leaf, (torch.Tensor, int, float))}
    after = buffers_of(module, program)
    state = {name: value for name, value in after.items() if not alike(value, before[name])}
    given, left = pytree.tree_leaves((call.args, call.kwargs)), pytree.tree_leaves((args, kwargs))
    names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    written = {
        f"input:{name}": tensor_of(new)
        for name, old, new in zip(names, given, left, strict=True)
        if isinstance(old, torch.Tensor) and not alike(old, new)
    }
    return outputs, state, written


def inputs_of(program, call):
    """{placeholder: tensor}; what export fixed to a constant is given too, as a person would."""
    names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    leaves = pytree.tree_leaves((call.args, call.kwargs), is_leaf=lambda leaf: leaf is None)
    return {name: tensor_of(leaf) for name, leaf in zip(names, leaves, strict=True) if isinstance(leaf, (torch.Tensor, int, float))}


def run(exg, path, program, call, expected, **options):
    outputs, state, written = expected
    got, left = exg.run(path, inputs_of(program, call), state=bool(state), **options)
    same(got, outputs)
    same(left, state, "buffer")
    if written:
        want = exg.path(".safetensors")
        safetensors.torch.save_file({**outputs, **written}, want)
        exg.run(path, inputs_of(program, call), expect=want, **options)


def saved(exg, program):
    path = exg.path(".pt2")
    torch.export.save(program, path)
    return path


def quiet_export(module, call, shapes=None, strict=False):
    args, kwargs = call.copied()
    with torch.no_grad():
        return torch.export.export(copy.deepcopy(module).eval() if not module.training else copy.deepcopy(module), args, kwargs, dynamic_shapes=shapes, strict=strict)


def runs(exg, module, first, *others, shapes=None, strict=False, core=True, meshes=PLACES, eager=None, **options):
    """The program as exported and decomposed, of every call, as .pt2, .exg and what comes back of it, and over a mesh of two.
    `module` is exported, or is a program already; `eager` computes what is expected, else the module or the loaded program."""
    first, others = call_of(first), [call_of(other) for other in others]
    if not isinstance(module, (torch.nn.Module, torch.export.ExportedProgram)):
        module = Function(module).eval()
    is_program = isinstance(module, torch.export.ExportedProgram)
    program = module if is_program else quiet_export(module, first, shapes, strict)
    forms = [program] + ([program.run_decompositions()] if core else [])
    for form in forms:
        path = saved(exg, form)
        loaded = torch.export.load(path)
        exg.command("verify", path)
        judge = eager or (loaded.module() if is_program else module)
        for call in (*others, first):
            expected = expected_of(judge, loaded, call)
            run(exg, path, loaded, call, expected, **options)
        for place in meshes:
            run(exg, path, loaded, first, expected, mesh="2", place=place, **options)
        other = exg.convert(path, ".exg")
        run(exg, other, loaded, first, expected, **options)
        run(exg, exg.convert(other, ".pt2"), loaded, first, expected, **options)
    return RUNS


def refused(exg, path, *words, code=5, command="run", more=()):
    """The command ends with `code` and says all of `words`; the sentence is what the row shows."""
    done = subprocess.run([exg.binary, command, path, *map(str, more)], capture_output=True, text=True, timeout=run_interop.DEADLINE)
    said = " ".join((done.stderr or done.stdout).split())
    if done.returncode != code or not all(word in said for word in words):
        fail(f"exg {command} ended with {done.returncode}: {said}")
    return REFUSED, said


def not_made(make, *words):
    """PyTorch itself refuses to export, to save or to load it."""
    try:
        make()
    except Exception as error:
        said = " ".join(str(error).split())
        if not all(word in said for word in words):
            fail(f"PyTorch refuses it otherwise: {said[:200]}")
        return NOT_MADE, f"{type(error).__name__}: {said[:120]}"
    return fail("PyTorch makes it by now: the row has to say what exg does with it")


def without(package):
    return NOT_TRIED, f"{package} is not installed"


def go(description, rows):
    """The main() of a table: a line a row, then what they came to."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--exg", required=True, help="the exg binary")
    parser.add_argument("--only", default="", help="rows of these numbers: 06,28")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    report, counts = Report(), collections.Counter()
    only = [number for number in options.only.split(",") if number]
    with tempfile.TemporaryDirectory(prefix="exg-rows-") as folder:
        for number, (about, function) in rows.items():
            if only and number not in only:
                continue
            own = os.path.join(folder, str(len(counts)) + "-" + number.replace("/", "-"))
            os.makedirs(own, exist_ok=True)
            told = []

            def show():
                torch.manual_seed(0)
                outcome = function(Exg(options.exg, own)) or RUNS
                told.extend(outcome if isinstance(outcome, tuple) else (outcome,))

            report.check(f"{number:10s} {about}", show)
            if told:
                counts[told[0]] += 1
            if len(told) > 1 and told[0] != RUNS:
                print(f"     {told[0]}: {told[1]}", flush=True)
    for outcome, count in counts.most_common():
        print(f"{count:4d} {'row' if count == 1 else 'rows'}: the program {outcome}")
    return report.end()


__all__ = ["Call", "Function", "Mismatch", "Rows", "fail", "go", "not_made", "refused", "run", "runs", "saved", "torch", "without"]
