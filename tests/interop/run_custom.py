"""Custom objects: a class of C++, as an attribute, called, and as an input; constants of five kinds as inputs. See README.md
beside this file."""

import argparse
import logging
import pathlib
import subprocess
import sys
import tempfile
import warnings

from run_interop import Exg, Report, fail, torch
from run_model import check_rewritten, check_signature
from torch.utils import cpp_extension

CLASS = r"""
#include <torch/custom_class.h>
#include <torch/library.h>
#include <ATen/ATen.h>

struct Scale : torch::CustomClassHolder {
    at::Tensor by;
    explicit Scale(at::Tensor by_) : by(std::move(by_)) {}
    at::Tensor apply(at::Tensor x) { return x * by; }
    std::tuple<std::tuple<std::string, at::Tensor>> flatten() { return {{"by", by}}; }
};

TORCH_LIBRARY(exg_test, library) {
    library.class_<Scale>("Scale")
        .def(torch::init<at::Tensor>())
        .def("apply", &Scale::apply)
        .def("__obj_flatten__", &Scale::flatten)
        .def_pickle([](const c10::intrusive_ptr<Scale>& scale) { return scale->by; },
                    [](at::Tensor by) { return c10::make_intrusive<Scale>(std::move(by)); });
    library.def("scale(__torch__.torch.classes.exg_test.Scale scale, Tensor x) -> Tensor");
}

TORCH_LIBRARY_IMPL(exg_test, CompositeExplicitAutograd, library) {
    library.impl("scale", [](const c10::intrusive_ptr<Scale>& scale, at::Tensor x) { return scale->apply(x); });
}
"""


def build_class(folder):
    """The class compiled and loaded; ~30 s."""
    source, library = folder / "scale.cpp", folder / "scale.so"
    source.write_text(CLASS)
    words = ["-O0", "-std=c++20", "-shared", "-fPIC", f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}"]
    words += [f"-I{path}" for path in cpp_extension.include_paths()]
    words += [str(source), "-o", str(library), f"-L{cpp_extension.library_paths()[0]}", "-ltorch", "-ltorch_cpu", "-lc10"]
    subprocess.run(["g++", *words], check=True)
    torch.ops.load_library(str(library))

    @torch._library.register_fake_class("exg_test::Scale")
    class FakeScale:
        def __init__(self, by):
            self.by = by

        @classmethod
        def __obj_unflatten__(cls, flat):
            return cls(**dict(flat))

        def apply(self, x):
            return x * self.by

    @torch.library.register_fake("exg_test::scale")
    def fake_scale(scale, x):
        return scale.apply(x)


def make_scale(*values):
    return torch.classes.exg_test.Scale(torch.tensor(values))


class Holder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.held = make_scale(1.0, 2.0, 3.0)
        self.linear = torch.nn.Linear(3, 3)


class Operand(Holder):
    def forward(self, x):
        return torch.ops.exg_test.scale(self.held, self.linear(x))


class Called(Holder):
    def forward(self, x):
        return self.held.apply(self.linear(x)) + 1


class Given(torch.nn.Module):
    def forward(self, held, x):
        return torch.ops.exg_test.scale(held, x) - 1


class Constants(torch.nn.Module):
    def forward(self, x, none, flag, whole, real, text):
        return x * whole + real if flag and none is None and text == "both" else x


def programs():
    x = torch.randn(2, 3)
    return {
        "operand": (Operand(), (x,)),
        "called": (Called(), (x,)),
        "given": (Given(), (make_scale(2.0, 2.0, 4.0), x)),
        "constants": (Constants(), (x, None, True, 3, 0.25, "both")),
    }


def save(exg, module, arguments):
    path = exg.path(".pt2")
    torch.export.save(torch.export.export(module, arguments, strict=False), path)
    return path


def check_run(exg, module, arguments):
    outputs, _ = exg.run(save(exg, module, arguments))
    torch.testing.assert_close(next(iter(outputs.values())), module(*arguments))


def check_views(exg, module, arguments):
    """S004-06, S004-82: objects with their class, constants of five kinds. (S004-83: files with an object as an input.)"""
    program = torch.export.export(module, arguments, strict=False)
    path = exg.path(".pt2")
    torch.export.save(program, path)
    check_signature(exg, path, torch.export.load(path).graph_signature)


def check_refused(exg, module, arguments):
    """What only PyTorch's class can do is told, not run."""
    path = save(exg, module, arguments)
    done = subprocess.run([exg.binary, "run", path], capture_output=True, text=True)
    if done.returncode != 5 or "OPR-003" not in done.stderr:
        fail(f"exg run ended with {done.returncode}: {done.stderr.strip()}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exg", required=True)
    options = parser.parse_args()
    report = Report()
    torch.manual_seed(0)
    warnings.simplefilter("ignore", FutureWarning)
    logging.disable(logging.WARNING)  # PyTorch warns when it loads an object among the sample inputs
    with tempfile.TemporaryDirectory() as folder:
        exg = Exg(options.exg, folder)
        build_class(pathlib.Path(folder))
        for name, (module, arguments) in programs().items():
            if name != "given":  # which PyTorch loads as a constant that is no number
                report.check(f"{name}: signature", lambda: check_views(exg, module, arguments))
            for suffix in (".pt2", ".exg", ".json"):
                report.check(f"{name}: {suffix} and back", lambda: check_rewritten(exg, save(exg, module, arguments), suffix))
            if name == "constants":
                report.check(f"{name}: runs", lambda: check_run(exg, module, arguments))
            elif name != "given":  # whose sample inputs nothing but PyTorch can make
                report.check(f"{name}: is refused", lambda: check_refused(exg, module, arguments))
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
