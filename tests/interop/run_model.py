"""Opens, asks and rewrites programs in exg, and compares with what PyTorch says of them. See README.md beside this file."""

import argparse
import json
import pathlib
import re
import sys
import tempfile

from run_interop import FIXTURES, Exg, Report, fail, torch

ROOT = FIXTURES.parent
DATA = ROOT / "tests" / "export" / "data"
sys.path.insert(0, str(DATA))
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
    equal("repr", views["repr"], re.sub(r"fake_val=FakeScriptObject\(.*?\)\)", "fake_val=None)", repr(signature)))
    equal("str", exg.command("inspect", path, "--signature"), str(signature))


def check_file(report, exg, path):
    program = torch.export.load(path)
    report.check(f"{path.stem}: signature", lambda: check_signature(exg, path, program.graph_signature))


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
        for path in sorted(FIXTURES.glob("*.pt2")) + sorted(DATA.glob("*.pt2")):
            if not options.only or any(path.name.startswith(prefix) for prefix in options.only):
                check_file(report, exg, path)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
