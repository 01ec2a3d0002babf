"""Runs every fixture in PyTorch and in exg, and compares. See README.md beside this file."""

import argparse
import copy
import importlib.util
import pathlib
import subprocess
import sys
import tempfile

FIXTURES = pathlib.Path(__file__).resolve().parents[2] / "fixtures"
DEADLINE = 120  # seconds for one exg command
LENGTHS = (1, 2, 37, 256)  # tried where an input has a symbolic length
MESHES = ({"mesh": "4", "place": "tensor"}, {"mesh": "4", "place": "replicate"})

# Values an integer input may take; others keep the range of the archive's sample inputs.
RANGES = {"tokens": (0, 127), "position": (0, 63)}

# Whole programs add up more error than one operator: these are wider than torch.testing's defaults.
TOLERANCES = {"float64": (1e-7, 1e-7), "float32": (1e-4, 1e-5), "bfloat16": (3.2e-2, 1e-2), "float16": (4e-3, 1e-3)}

try:
    import numpy
    import safetensors.torch
    import torch
    import torch._export.verifier
    from torch.utils import _pytree as pytree
except ImportError as error:
    print(f"FAIL interop: {error}")
    print("0 passed, 1 failed")
    sys.exit(1)

# What PyTorch itself does not export again, and how it says so: a loop's operand that is a size.
REFUSED_AGAIN = {"suppress": torch._export.verifier.SpecViolationError}


class Mismatch(Exception):
    """What a check found wrong, in one line."""


class Exg:
    """The command under test; every call gets files of its own in `folder`."""

    def __init__(self, binary, folder):
        self.binary, self.folder, self.calls = binary, pathlib.Path(folder), 0

    def path(self, suffix):
        self.calls += 1
        return self.folder / f"{self.calls}{suffix}"

    def command(self, *words):
        try:
            done = subprocess.run([self.binary, *map(str, words)], capture_output=True, text=True, timeout=DEADLINE)
        except subprocess.TimeoutExpired:
            raise Mismatch(f"exg {words[0]} took more than {DEADLINE} s") from None
        if done.returncode != 0:
            said = (done.stderr or done.stdout).strip().splitlines()
            raise Mismatch(f"exg {words[0]} ended with {done.returncode}: {said[0] if said else 'no message'}")

        return done.stdout

    def run(self, path, inputs=None, state=False, **options):
        """(outputs, buffers) of one call; inputs=None takes the archive's sample inputs."""
        output, words = self.path(".safetensors"), []
        if inputs:
            words += ["--input", self.path(".safetensors")]
            safetensors.torch.save_file({name: value.contiguous().clone() for name, value in inputs.items()}, words[-1])
        if state:
            words += ["--state-output", self.path(".safetensors")]
        for name, value in options.items():
            words += [f"--{name}", value]
        self.command("run", path, *words, "--output", output)
        return safetensors.torch.load_file(output), (
            safetensors.torch.load_file(words[words.index("--state-output") + 1]) if state else {}
        )

    def run_npy(self, program, inputs):
        """The same call with one .npy file an input."""
        output, words = self.path(".safetensors"), []
        for name, value in inputs.items():
            file = self.path(".npy")
            numpy.save(file, value.numpy())
            words += ["--input", f"{name}={file}"]
        self.command("run", program, *words, "--output", output)
        return safetensors.torch.load_file(output)

    def convert(self, program, suffix):
        path = self.path(suffix)
        self.command("convert", program, path)
        return path


class Report:
    def __init__(self):
        self.passed = self.failed = 0

    def check(self, name, action):
        try:
            action()
        except Exception as error:  # any surprise is a failed check; the others still run
            self.failed += 1
            kind = "" if isinstance(error, Mismatch) else f"{type(error).__name__}: "
            print(f"FAIL {name}: {kind}{(str(error).strip().splitlines() or [''])[0]}", flush=True)
        else:
            self.passed += 1
            print(f"ok   {name}", flush=True)

    def end(self):
        print(f"{self.passed} passed, {self.failed} failed")
        return 1 if self.failed or not self.passed else 0


class Function(torch.nn.Module):
    """A module of a function alone."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def run_cases(description, *tables, more=()):
    """The main() of a test of named cases. Of a table: what stands before its names, what is called with an Exg and a case's
    values, and the cases by name. Those named in `more` run with --all."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--exg", required=True, help="the exg binary")
    parser.add_argument("--only", default="", help="cases whose name begins so")
    if more:
        parser.add_argument("--all", action="store_true", help="every case")
    options = parser.parse_args()
    left_out = () if not more or options.all or options.only else more
    report = Report()
    with tempfile.TemporaryDirectory(prefix="exg-cases-") as folder:
        exg = Exg(options.exg, folder)
        for title, check, cases in tables:
            for name, case in cases.items():
                if name.startswith(options.only) and name not in left_out:
                    report.check(title + name, lambda: check(exg, *case))
    return report.end()


def program_fixtures():
    """Those that PyTorch can load: one has tensors of torchao's classes."""
    has_torchao = importlib.util.find_spec("torchao") is not None
    return [path for path in sorted(FIXTURES.glob("*.pt2")) if has_torchao or path.stem != "subclass"]


def fail(reason):
    raise Mismatch(reason)


def module_of(program):
    """A runnable copy: program.module() alone would share, and change, the buffers of the program."""
    return copy.deepcopy(program).module()


def joint_call(program, args):
    """torch_call of a program that has its gradients among its outputs: its out_spec is the forward's, so PyTorch cannot call it."""
    signature, given = program.graph_signature, iter(args)
    buffers = {name: value.detach().clone() for name, value in program.state_dict.items() if name in signature.buffers}
    state = {**program.constants, **program.state_dict, **buffers}
    values = [next(given) if spec.kind.name == "USER_INPUT" else state[spec.target] for spec in signature.input_specs]
    with torch.no_grad():
        results = torch.fx.Interpreter(program.graph_module).run(*(value.detach().clone() for value in values))
    outputs = []
    for spec, value in zip(signature.output_specs, results):
        if spec.kind.name == "BUFFER_MUTATION":
            buffers[spec.target] = value
        else:
            outputs.append(value)
    return {str(i): value for i, value in enumerate(outputs)}, buffers


def torch_call(program, args, kwargs):
    """({flat position: tensor}, {fqn: buffer}) of one call in PyTorch, on copies of everything."""
    if program.graph_signature.backward_signature is not None:
        return joint_call(program, args)
    module = module_of(program)
    args, kwargs = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
    with torch.no_grad():
        leaves = pytree.tree_leaves(module(*args, **kwargs), is_leaf=lambda leaf: leaf is None)
    outputs = {str(i): leaf.clone() for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)}
    return outputs, {name: value.clone() for name, value in module.named_buffers()}


def named_inputs(program, args, kwargs):
    """{placeholder name: tensor}; specialized inputs are left out, a symbolic int becomes a 0-d tensor."""
    names = [spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT"]
    symbolic = {node.name for node in program.graph.nodes if isinstance(node.meta.get("val"), torch.SymInt)}
    leaves = pytree.tree_leaves((args, kwargs), is_leaf=lambda leaf: leaf is None)
    inputs = {}
    for name, leaf in zip(names, leaves, strict=True):
        if isinstance(leaf, torch.Tensor):
            inputs[name] = leaf
        elif name in symbolic:
            inputs[name] = torch.tensor(leaf)
    return inputs


def fresh(program, length=None):
    """(args, kwargs) of the kind of the sample inputs with other values, and `length` for symbolic sizes."""
    args, kwargs = program.example_inputs
    names = iter(spec.arg.name for spec in program.graph_signature.input_specs if spec.kind.name == "USER_INPUT")
    nodes = {node.name: node for node in program.graph.nodes}

    def other(leaf):
        name = next(names)
        if not isinstance(leaf, torch.Tensor):
            return leaf
        shape = nodes[name].meta["val"].shape
        sizes = [length if length and isinstance(size, torch.SymInt) else old for size, old in zip(shape, leaf.shape)]
        if leaf.is_floating_point():
            return torch.randn(sizes).to(leaf.dtype)
        if leaf.dtype == torch.bool:
            return torch.rand(sizes) > 0.5
        low, high = RANGES.get(name, (int(leaf.min()), int(leaf.max())))
        values = torch.randint(low, high + 1, sizes).to(leaf.dtype)
        return values if (leaf == 0).any() or name in RANGES else values.where(values != 0, torch.ones_like(values))

    return pytree.tree_map(other, (args, kwargs), is_leaf=lambda leaf: leaf is None)


def is_dynamic(program):
    return any(
        isinstance(size, torch.SymInt)
        for node in program.graph.nodes
        if node.op == "placeholder" and isinstance(node.meta.get("val"), torch.Tensor)
        for size in node.meta["val"].shape
    )


def allows(program, length):
    """Does PyTorch run the program at `length`? Lower bounds up to 2 do not bind."""
    return all((bounds.lower <= 2 or bounds.lower <= length) and length <= bounds.upper
               for bounds in program.range_constraints.values())


def writes_buffers(program, args, kwargs):
    before = {name: value.clone() for name, value in module_of(program).named_buffers()}
    after = torch_call(program, args, kwargs)[1]
    return [name for name in after if not torch.equal(before[name], after[name])]


def same(got, expected, what="output"):
    missing = expected.keys() - got.keys()
    if missing:
        raise Mismatch(f"{what} {', '.join(sorted(missing))} is missing")
    for name, value in expected.items():
        other = got[name]
        if other.dtype != value.dtype or other.shape != value.shape:
            raise Mismatch(f"{what} {name} is {other.dtype} {list(other.shape)}, not {value.dtype} {list(value.shape)}")
        rtol, atol = TOLERANCES.get(str(value.dtype).removeprefix("torch."), (0, 0))
        if value.dtype == torch.float32 and value.numel() > 0:
            # sums round at the size of their largest terms, in PyTorch as here: 32 ulp of the largest value
            largest = value.abs().nan_to_num(0, 0, 0).max().item()
            atol = max(atol, 4e-6 * largest)
            if any(one.dtype == torch.bfloat16 for one in expected.values()):  # it may come of those
                rtol, atol = TOLERANCES["bfloat16"]
        try:
            torch.testing.assert_close(other, value, rtol=rtol, atol=atol, equal_nan=True)
        except AssertionError as error:
            raise Mismatch(f"{what} {name}: " + " ".join(str(error).split())) from None


def same_bits(got, expected):
    if got.keys() != expected.keys():
        raise Mismatch(f"outputs {sorted(got)} instead of {sorted(expected)}")
    for name, value in expected.items():
        if got[name].dtype != value.dtype or got[name].shape != value.shape:
            raise Mismatch(f"output {name} changed its form")
        if not torch.equal(got[name].reshape(-1).view(torch.uint8), value.reshape(-1).view(torch.uint8)):
            raise Mismatch(f"output {name} differs in bits")


def check_fixture(report, exg, path, write_pt2):
    name = path.stem
    loaded = []
    report.check(f"{name}: torch loads", lambda: loaded.append(torch.export.load(path)))
    if not loaded:
        return
    program = loaded[0]

    def compare(args, kwargs, file=path, inputs=True, **options):
        expected, _ = torch_call(program, args, kwargs)
        same(exg.run(file, named_inputs(program, args, kwargs) if inputs else None, **options)[0], expected)

    report.check(f"{name}: sample inputs", lambda: compare(*program.example_inputs, inputs=False))
    lengths = [length for length in LENGTHS if allows(program, length)] if is_dynamic(program) else [None]
    for length in lengths:
        args, kwargs = fresh(program, length)
        suffix = f", length {length}" if length else ""
        report.check(f"{name}: random inputs{suffix}", lambda: compare(args, kwargs))
    args, kwargs = fresh(program)
    for options in MESHES:
        report.check(f"{name}: mesh {options['mesh']}, {options['place']}", lambda: compare(args, kwargs, **options))
    inputs = named_inputs(program, args, kwargs)
    if not any(value.dtype == torch.bfloat16 for value in inputs.values()):
        report.check(
            f"{name}: npy inputs", lambda: same(exg.run_npy(path, inputs), torch_call(program, args, kwargs)[0])
        )

    written = writes_buffers(program, args, kwargs)
    if written:

        def buffers():
            expected = torch_call(program, args, kwargs)[1]
            state = exg.run(path, inputs, state=True)[1]
            unknown = state.keys() - expected.keys()
            if unknown:
                raise Mismatch(f"state has {', '.join(sorted(unknown))}, which is no buffer")
            same(
                state,
                {buffer: expected[buffer] for buffer in expected if buffer in state or buffer in written},
                "buffer",
            )

        report.check(f"{name}: buffers after the call", buffers)

    def again():
        copied = pytree.tree_map_only(torch.Tensor, torch.clone, (args, kwargs))
        if name in REFUSED_AGAIN:
            try:
                torch.export.export(module_of(program), *copied, strict=False)
            except REFUSED_AGAIN[name]:
                return
            fail("PyTorch exports it by now: take it out of REFUSED_AGAIN")
        exported = torch.export.export(module_of(program), *copied, strict=False)
        file = exg.path(".pt2")
        torch.export.save(exported, file)
        same(exg.run(file, named_inputs(exported, args, kwargs))[0], torch_call(program, args, kwargs)[0])

    if program.graph_signature.backward_signature is None:
        report.check(f"{name}: exported again", again)

    def converted():
        same_bits(exg.run(exg.convert(path, ".exg"), inputs)[0], exg.run(path, inputs)[0])

    report.check(f"{name}: convert to .exg keeps every bit", converted)

    if write_pt2:

        def back():
            rewritten = torch.export.load(exg.convert(exg.convert(path, ".exg"), ".pt2"))
            same(torch_call(rewritten, args, kwargs)[0], torch_call(program, args, kwargs)[0])

        report.check(f"{name}: torch runs what exg wrote", back)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exg", required=True, help="the exg binary")
    parser.add_argument("--only", action="append", help="fixtures whose name begins so")
    parser.add_argument("--write-pt2", action="store_true", help="also convert back to .pt2 and load that in PyTorch")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    report = Report()
    with tempfile.TemporaryDirectory(prefix="exg-interop-") as folder:
        exg = Exg(options.exg, folder)
        paths = [
            path
            for path in program_fixtures()
            if not options.only or any(path.name.startswith(prefix) for prefix in options.only)
        ]
        if not paths:
            report.check("fixtures", lambda: fail("no such .pt2 in fixtures/"))
        for path in paths:
            check_fixture(report, exg, path, options.write_pt2)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
