"""Opens, asks and rewrites programs in exg, and compares with what PyTorch says of them. See README.md beside this file."""

import argparse
import functools
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

from torch.export.pt2_archive._package import load_pt2, package_pt2

from run_interop import FIXTURES, Exg, Report, fail, program_fixtures, torch, torch_call

ROOT = FIXTURES.parent
DATA = ROOT / "tests" / "export" / "data"
sys.path.insert(0, str(DATA))
import generated  # noqa: E402
import make  # noqa: E402,F401: its operators are in data/kinds.pt2

NAMES = "parameters buffers non_persistent_buffers lifted_tensor_constants lifted_custom_objs input_tokens output_tokens"
MAPS = (
    "inputs_to_parameters inputs_to_buffers buffers_to_mutate parameters_to_mutate user_inputs_to_mutate "
    "inputs_to_lifted_tensor_constants inputs_to_lifted_custom_objs"
)


def equal(what, got, expected):
    if got != expected:
        fail(f"{what} is {str(got)[:300]}, not {str(expected)[:300]}")


def leaves(specs, kinds):
    """What exg shows of user inputs and outputs: {"name": ...} of values, constants as they are."""
    args = [spec.arg for spec in specs if spec.kind.name in kinds]
    return [arg.value if type(arg).__name__ == "ConstantArgument" else {"name": arg.name} for arg in args]


def check_signature(exg, path, signature):
    """Every view is PyTorch's: S004-06, S004-07, S004-52, S004-53, S004-54, S004-55, S004-56, S004-58, S004-59, S004-60,
    S004-61, S004-62, S004-63, S004-64, S004-65, S004-66, S004-70, S004-79, S004-80."""
    views = json.loads(exg.command("inspect", path, "--signature", "--json"))
    for name in NAMES.split():
        equal(name, views[name], list(getattr(signature, name)))
    for name in MAPS.split():
        equal(name, views[name], dict(getattr(signature, name)))
        equal(f"order of {name}", list(views[name]), list(getattr(signature, name)))
    equal("user_inputs", views["user_inputs"], leaves(signature.input_specs, ["USER_INPUT"]))
    equal("user_outputs", views["user_outputs"], leaves(signature.output_specs, ["USER_OUTPUT", "LOSS_OUTPUT"]))
    backward = signature.backward_signature
    equal("backward_signature", views["backward_signature"], backward and vars(backward))
    equal("assertion_dep_token", views["assertion_dep_token"], signature.assertion_dep_token)
    equal("repr", views["repr"], re.sub(r"fake_val=FakeScriptObject\(.*?\)\)", "fake_val=None)", repr(signature)))
    equal("str", exg.command("inspect", path, "--signature"), str(signature))


def check_graph(exg, path, graph):
    """The text of ep.graph (S004-85), but that PyTorch calls what has no result otherwise when it loads it."""
    expected = re.sub(r"_unused\b|_unused(?=_\d)", "", str(graph)) if "predispatch" in str(graph) else str(graph)
    equal("graph", exg.command("inspect", path, "--graph", "--fx"), expected + "\n")


# ---- what a file holds survives --------------------------------------------------------------


def records(path):
    """{record: bytes} of an archive, without its root folder."""
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        root = "" if "serialized_exported_program.json" in names else names[0].split("/")[0] + "/"
        return {name.removeprefix(root): archive.read(name) for name in names}


def model_of(found):
    """The program of an archive as plain values; old files lack keys that have a default."""
    name = next(name for name in ("models/model.json", "serialized_exported_program.json") if name in found)
    model = json.loads(found[name])
    model.setdefault("guards_code", [])
    return model


MARKS = {"archive_format", "archive_version", ".data/version", "version", "byteorder", ".data/serialization_id"}


def extra_of(found):
    """What is beside the program: extra files and sample inputs."""
    known = ("models/", "data/weights/", "data/constants/", "serialized_")
    return {name: data for name, data in found.items() if name not in MARKS and not name.startswith(known)}


def taken_apart(table):
    """A wrapper has no storage: the tensors inside of it stand for it."""
    plain = {}
    for name, value in table.items():
        inner = value.__tensor_flatten__()[0] if hasattr(value, "__tensor_flatten__") else []
        plain.update({f"{name}.{part}": getattr(value, part) for part in inner} if inner else {name: value})
    return plain


def same_weights(got, expected):
    for table in ("state_dict", "constants"):
        a, b = taken_apart(getattr(got, table)), taken_apart(getattr(expected, table))
        equal(f"names of {table}", list(a), list(b))
        for name, value in b.items():
            if not isinstance(value, torch.Tensor):
                continue
            other = a[name]
            for what in ("dtype", "shape", "requires_grad"):
                equal(f"{what} of {name}", getattr(other, what), getattr(value, what))
            equal(f"layout of {name}", (other.stride(), other.storage_offset()), (value.stride(), value.storage_offset()))
            if not torch.equal(*(torch.empty(0, dtype=torch.uint8).set_(t.untyped_storage()) for t in (other, value))):
                fail(f"bytes of {name} differ")
        shared = [
            [[n for n in t if t[n].untyped_storage().data_ptr() == t[name].untyped_storage().data_ptr()] for name in t]
            for t in ({n: v for n, v in table.items() if isinstance(v, torch.Tensor) and v.numel()} for table in (a, b))
        ]
        equal(f"sharing in {table}", shared[0], shared[1])


@functools.lru_cache(maxsize=1)
def original(path):
    """(program, records, outputs of the sample inputs in PyTorch, None where it takes none) of a file, read once."""
    program, outputs = torch.export.load(path), None
    if program.example_inputs is not None and path.stem not in ("kinds", "rich"):
        torch.manual_seed(1)
        outputs = torch_call(program, *program.example_inputs)
    return program, records(path), outputs


def check_rewritten(exg, path, suffix):
    """Into `suffix` and back to .pt2: the same JSON, weights, sample inputs, extra files; same outputs in PyTorch (S004-45,
    S004-81, S004-82, S004-83, S004-84)."""
    between = exg.convert(path, suffix)
    back = exg.convert(between, ".pt2")
    (expected, before, outputs), after = original(path), records(back)
    equal("the program", model_of(after), model_of(before))
    if "serialized_exported_program.json" not in before:
        equal("what is beside it", extra_of(after), extra_of(before))
    got = torch.export.load(back)
    same_weights(got, expected)
    equal("str", str(got), str(expected))
    twice = exg.convert(between, ".pt2")
    equal("bytes of a second writing", records(twice), after)
    if outputs is not None:
        torch.manual_seed(1)
        same_outputs(torch_call(got, *got.example_inputs), outputs)


def same_outputs(got, expected):
    for a, b in zip(got, expected):
        equal("keys", list(a), list(b))
        for name in b:
            if not torch.equal(a[name].reshape(-1).view(torch.uint8), b[name].reshape(-1).view(torch.uint8)):
                fail(f"output {name} differs")


def check_file(report, exg, path):
    report.check(f"{path.stem}: signature", lambda: check_signature(exg, path, original(path)[0].graph_signature))
    report.check(f"{path.stem}: graph", lambda: check_graph(exg, path, original(path)[0].graph))
    report.check(f"{path.stem}: verify", lambda: exg.command("verify", path))
    report.check(f"{path.stem}: .pt2 again", lambda: check_rewritten(exg, path, ".pt2"))
    report.check(f"{path.stem}: .exg and back", lambda: check_rewritten(exg, path, ".exg"))
    report.check(f"{path.stem}: early JSON and back", lambda: check_rewritten(exg, path, ".json"))


# ---- archives with more than a program ------------------------------------------------------


class Scaled(torch.nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.inner = torch.nn.Linear(3, 2)
        self.factor = factor

    def forward(self, x):
        return self.inner(x) * self.factor


def check_several(exg):
    """Two programs, a compiled part and a note in one archive: each comes out alone with what is its own."""
    archive, kernel, code = exg.path(".pt2"), exg.path(".wrapper.so"), exg.path(".cpp")
    pathlib.Path(kernel).write_bytes(b"\x7fELF" + bytes(range(256)))
    pathlib.Path(code).write_text("// made by AOTInductor\n")
    programs = {name: torch.export.export(Scaled(f), (torch.randn(2, 3),)) for name, f in (("first", 2), ("other", 3))}
    plain, extra = exg.path(".pt2"), {"note.txt": "hello"}
    package_pt2(str(plain), exported_programs=programs, extra_files=extra)
    parts = {"first": [str(kernel), str(code)]}
    package_pt2(str(archive), exported_programs=programs, aoti_files=parts, extra_files=extra)
    before = records(archive)
    for name, program in programs.items():
        listed = json.loads(exg.command("inspect", archive, "--program", name, "--json"))
        equal("programs", listed["programs"], list(programs))
        found = {f["name"]: f["bytes"] for f in listed["extra_files"]}
        whole, alone = exg.path(".pt2"), exg.path(".pt2")
        exg.command("convert", archive, whole, "--program", name)
        exg.command("convert", plain, alone, "--program", name)
        after = records(whole)
        for record, data in before.items():
            if record.startswith(("data/aotinductor/", "extra/")):
                equal(record, after.get(record), data)
                equal(f"bytes of {record}", found.get(record), len(data))
        x = torch.randn(2, 3)
        expected = program.module()(x)
        loaded = load_pt2(str(alone)).exported_programs[name]
        torch.testing.assert_close(loaded.module()(x), expected, rtol=0, atol=0)
        for path in (archive, whole):
            torch.testing.assert_close(exg.run(path, {"x": x}, program=name)[0]["0"], expected)


# ---- examples --------------------------------------------------------------------------------


def check_example(exg, mlp):
    """A program built in C: PyTorch loads and calls it and gets what exg gets, within a float's last bits."""
    path = exg.path(".pt2")
    subprocess.run([mlp, path], check=True)
    program = torch.export.load(path)
    x = torch.randn(3, 8)
    up, bias, down = (program.state_dict[name] for name in ("up.weight", "up.bias", "down.weight"))
    equal("parameters", program.graph_signature.parameters, ("up.weight", "up.bias", "down.weight"))
    expected = torch.relu(x @ up.t() + bias) @ down.t()
    torch.testing.assert_close(program.module()(x), expected)
    torch.testing.assert_close(exg.run(path, {"x": x})[0]["0"], expected)
    again = exg.path(".pt2")
    torch.export.save(program, again)
    torch.testing.assert_close(exg.run(again, {"x": x})[0]["0"], expected)
    check_signature(exg, path, program.graph_signature)


def check_docstring(exg, built):
    """The program of the class's docstring, built in C (S004-49): PyTorch reads it as it is printed, and gets 17, 19, 21."""
    path = exg.path(".pt2")
    subprocess.run([built, path], check=True, capture_output=True)
    program = torch.export.load(path)
    check_signature(exg, path, program.graph_signature)
    check_graph(exg, path, program.graph)
    equal("print(ep)", exg.command("inspect", path, "--graph"), str(program))
    state = exg.run(path, {"arg3_1": torch.tensor(1.0), "arg4_1": torch.tensor(2.0)}, state=True)[1]
    equal("my_buffer2 in exg", state["my_buffer2"].item(), 5)
    module = program.module()
    for run in range(3):
        equal("the result", module(torch.tensor(1.0), torch.tensor(2.0)).item(), 17 + 2 * run)
        equal("my_buffer2", module.my_buffer2.item(), 5 + run)


def check_wrapped(exg):
    """The operators to which PyTorch gives numbers for tensors (S004-49) are those of wrapped.def and _conj, _to_copy, to,
    whose number would be all they have; and of exg's own."""
    text = (ROOT / "libexport" / "operators" / "wrapped.def").read_text()
    ours = {name for name in re.findall(r"^EXG_WRAPPED\((\w+)\)", text, re.M) if hasattr(torch.ops.aten, name)}
    names = {schema.name.split("::")[1] for schema in torch._C._jit_get_all_schemas() if schema.name.startswith("aten::")}
    theirs = {name for name in names if torch._C._should_allow_numbers_as_tensors(name)}
    equal("names", ours, {name.removesuffix("_") for name in theirs} - {"_conj", "_to_copy", "to"})


class Words(torch.nn.Module):
    def forward(self, x, mode):
        return {"y": x * 2, "mode": mode, "why": 'a "word"', "none": None, "n": x.shape[0], "half": 0.5, "so": True}


def check_words(exg):
    """What is no tensor comes out as it is, words too (PyTorch saves such a program and does not load it)."""
    path = exg.path(".pt2")
    torch.export.save(torch.export.export(Words(), (torch.ones(2), "sum")), path)
    for file in (path, exg.convert(path, ".exg")):
        outputs = json.loads(exg.command("run", file, "--json"))["outputs"]
        equal("outputs", [o.get("value") for o in outputs[1:]], ["sum", 'a "word"', None, 2, 0.5, True])


def check_branches(exg):
    """An early file whose branches have tensors (S002-49), as .pt2: PyTorch gets what its formulas say, and so does exg."""
    path = exg.path(".pt2")
    exg.command("convert", DATA / "branches.json", path)
    program = torch.export.load(path).module()
    for x, expected in (([1, 2, 3], [3, 8, 19]), ([-1, -2, -3], [-1.5, -2.25, -3.125]), ([-10, -2, -3], [10, 4, 9])):
        given, result = torch.tensor(x, dtype=torch.float32), torch.tensor(expected, dtype=torch.float32)
        for got in (program(given), exg.run(path, {"x": given})[0]["0"], exg.run(DATA / "branches.json", {"x": given})[0]["0"]):
            torch.testing.assert_close(got, result, rtol=0, atol=0)


# ---- figures -------------------------------------------------------------------------------


class Block(torch.nn.Module):
    """Of ResNet-18 (He et al. 2015), as torchvision has it."""

    def __init__(self, inner, outer, stride):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn1 = torch.nn.BatchNorm2d(outer)
        self.conv2 = torch.nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.bn2 = torch.nn.BatchNorm2d(outer)
        self.downsample = None
        if inner != outer:
            self.downsample = torch.nn.Sequential(torch.nn.Conv2d(inner, outer, 1, stride, bias=False), torch.nn.BatchNorm2d(outer))

    def forward(self, x):
        y = self.bn2(self.conv2(torch.relu(self.bn1(self.conv1(x)))))
        return torch.relu(y + (x if self.downsample is None else self.downsample(x)))


def resnet18():
    parts = [torch.nn.Conv2d(3, 64, 7, 2, 3, bias=False), torch.nn.BatchNorm2d(64), torch.nn.ReLU(), torch.nn.MaxPool2d(3, 2, 1)]
    for inner, outer in ((64, 64), (64, 128), (128, 256), (256, 512)):
        parts += [Block(inner, outer, 1 if inner == outer else 2), Block(outer, outer, 1)]
    return torch.nn.Sequential(*parts, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.Linear(512, 1000))


class Tied(torch.nn.Module):
    """One table for both ends, one norm under two names, a part of a module twice."""

    def __init__(self):
        super().__init__()
        self.table, self.head = torch.nn.Embedding(50, 8), torch.nn.Linear(8, 50)
        self.head.weight = self.table.weight
        self.layers = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8)) for _ in range(3))
        self.layers[2][0].bias = self.layers[0][0].bias
        self.layers[1][1] = self.layers[0][1]
        self.register_buffer("scale", torch.ones(8), persistent=False)

    def forward(self, ids):
        x = self.table(ids) * self.scale
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def check_counts(exg, module, inputs, known=None):
    path = exg.path(".pt2")
    torch.export.save(torch.export.export(module.eval(), inputs), path)
    summary = json.loads(exg.command("inspect", path, "--json"))
    shown = {m["path"]: (m["parameters"], m["buffers"]) for m in summary["modules"]}
    for name, part in module.named_modules():
        counts = tuple(sum(t.numel() for t in tensors) for tensors in (part.parameters(), part.buffers()))
        equal(f"count of {name or 'all'}", shown.get(name, (0, 0)), counts)
    equal("count of all", (summary["parameters"], summary["buffers"]), shown[""])
    equal("count known", shown[""][0], known or shown[""][0])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exg", required=True, help="the exg binary")
    parser.add_argument("--only", action="append", help="files whose name begins so")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    report = Report()
    with tempfile.TemporaryDirectory(prefix="exg-interop-") as folder:
        exg = Exg(options.exg, folder)
        for path in program_fixtures() + sorted(DATA.glob("*.pt2")):
            if not options.only or any(path.name.startswith(prefix) for prefix in options.only):
                check_file(report, exg, path)
        mlp = pathlib.Path(options.exg).parents[1] / "tests" / "example_mlp"
        built = mlp.with_name("test_exec_built")
        report.check("the docstring's program", lambda: check_docstring(exg, built))
        report.check("numbers for tensors", lambda: check_wrapped(exg))
        report.check("several programs", lambda: check_several(exg))
        report.check("words", lambda: check_words(exg))
        image, ids = torch.randn(1, 3, 32, 32), torch.tensor([1, 2, 3])
        report.check("counts of resnet18", lambda: check_counts(exg, resnet18(), (image,), 11689512))
        report.check("counts of what is tied", lambda: check_counts(exg, Tied(), (ids,)))
        report.check("branches with tensors", lambda: check_branches(exg))
        report.check("examples/mlp.c", lambda: check_example(exg, mlp))
        for name, (make_program, save_options) in generated.programs().items():
            if not options.only or any(name.startswith(prefix) for prefix in options.only):
                path = pathlib.Path(folder) / f"{name}.pt2"
                torch.export.save(make_program(), path, **save_options)
                check_file(report, exg, path)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
