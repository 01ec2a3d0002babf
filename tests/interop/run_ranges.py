"""Range constraints and layouts as other tools might write them: `exg verify` says of each what PyTorch does with it, and exg runs
the sizes that PyTorch runs, and names those that are allowed. See README.md beside this file."""

import json
import subprocess
import sys
import zipfile

from run_interop import Mismatch, fail, run_cases, safetensors, same, torch

SIZES = (1, 2, 3, 7, 8)


class Sized(torch.nn.Module):
    def forward(self, x):
        return x * 2 + x.shape[0]


def bound(**bounds):
    return lambda model: next(iter(model["range_constraints"].values())).update(bounds)


def named(name):
    return lambda model: model["range_constraints"].update({name: {"min_val": 0, "max_val": 8}})


def layout(number):
    return lambda model: model["graph_module"]["graph"]["tensor_values"]["x"].update(layout=number)


def reversed_arguments(model):
    """PyTorch goes by their names."""
    for node in model["graph_module"]["graph"]["nodes"]:
        if node["target"].startswith("torch.ops.aten."):
            node["inputs"].reverse()


CASES = {
    "arguments in another order": (reversed_arguments,),
    "a lower bound with a point": (bound(min_val=2.0),),
    "a lower bound that is no whole number": (bound(min_val=2.5),),
    "an upper bound that is no whole number": (bound(max_val=7.9),),
    "an infinite upper bound": (bound(max_val=float("inf")),),
    "a bound that is a text": (bound(max_val="7/2"),),
    "a range of no symbol": (named("s99"),),
    "a range of no unbacked symbol": (named("u9"),),
    "a name that begins as an unbacked symbol": (named("ufoo"),),
    "an expression of an unbacked symbol": (named("u0 + 1"),),
    "a name that begins as an unbacked float": (named("zuff"),),
    "a number with an underscore": (named("u1_2"),),
    "a layout that is none": (layout(0),),
}


def write(exg, change):
    source, path = exg.path(".pt2"), exg.path(".pt2")
    rows = torch.export.Dim("rows", max=64)
    torch.export.save(torch.export.export(Sized(), (torch.randn(6, 4),), dynamic_shapes={"x": {0: rows}}), source)
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w") as new:
        for record in old.namelist():
            data = old.read(record)
            if record.endswith("models/model.json"):
                model = json.loads(data)
                change(model)
                data = json.dumps(model).encode()
            new.writestr(record, data)
    return path


def runs(call):
    try:
        call()
    except Exception:
        return False
    return True


def check(exg, change):
    path = write(exg, change)
    try:
        module = torch.export.load(path).module()
    except Exception:
        module = None
    try:
        loads = "PyTorch reads" not in exg.command("verify", path)
    except Mismatch:
        loads = False
    if loads != (module is not None):
        fail(f"PyTorch {'loads' if module else 'does not load'} it")
    for size in SIZES if module else ():
        x = torch.ones(size, 4)
        if runs(lambda: module(x)) != runs(lambda: exg.run(path, {"x": x})):
            fail(f"{size} rows")
        if runs(lambda: module(x)):
            same(exg.run(path, {"x": x})[0], {"0": module(x)})


HALF = torch.export.Dim("half", min=2, max=10)
# A dim, rows at export, rows that exg does not take (the last of them PyTorch neither), and what is said to be allowed.
STEPS = {
    "even": (2 * HALF, 8, (7, 40), "4 to 20, even"),
    "odd": (2 * HALF + 1, 9, (6, 40), "5 to 21, odd"),
    "of three": (3 * HALF, 9, (7, 60), "6 to 30, a multiple of 3"),
    "one more than of three": (3 * HALF + 1, 10, (9, 61), "7 to 31, 1 more than a multiple of 3"),
    "any": (HALF + 1, 5, (20,), "3 to 11"),
}


def check_step(exg, dim, rows, refused, allowed):
    path, inputs = exg.path(".pt2"), exg.path(".safetensors")
    torch.export.save(torch.export.export(Sized(), (torch.randn(rows, 4),), dynamic_shapes={"x": {0: dim}}), path)
    module = torch.export.load(path).module()
    for size in refused:
        if size == refused[-1] and runs(lambda: module(torch.ones(size, 4))):
            fail(f"PyTorch takes {size}")
        safetensors.torch.save_file({"x": torch.ones(size, 4)}, inputs)
        done = subprocess.run([exg.binary, "run", path, "--input", inputs], capture_output=True, text=True)
        if done.returncode == 0 or not done.stderr.rstrip().endswith(f"fix: allowed: {allowed}"):
            fail(f"{size}: {done.stderr}")


if __name__ == "__main__":
    sys.exit(run_cases(__doc__, ("", check, CASES), ("step: ", check_step, STEPS)))
