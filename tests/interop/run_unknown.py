"""Operators that exg does not know: left out where nobody waits for them and they cannot have written anything, refused by name
else. See README.md beside this file."""

import subprocess
import sys

from run_interop import fail, run_cases, torch

from torch.fx.experimental.proxy_tensor import make_fx


def operator(name, compute, fake, mutates=()):
    made = torch.library.custom_op(f"exg_unknown::{name}", mutates_args=mutates)(compute)
    made.register_fake(fake)
    return made


def log(x: torch.Tensor) -> None:
    pass


def count(n: int) -> None:
    pass


def total(x: torch.Tensor) -> torch.Tensor:
    return x.sum()


def total_(x: torch.Tensor) -> torch.Tensor:
    return x.add_(1).sum()


def update(cache: torch.Tensor, x: torch.Tensor) -> None:
    cache.copy_(x)


LOG, COUNT, TOTAL = operator("log", log, lambda x: None), operator("count", count, lambda n: None), operator("total", total, lambda x: x.new_empty(()))
TOTAL_ = operator("total_", total_, lambda x: x.new_empty(()), {"x"})
UPDATE = operator("update", update, lambda cache, x: None, {"cache"})


class Called(torch.nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call = call
        self.register_buffer("cache", torch.zeros(3))

    def forward(self, x):
        y = x * 2
        given = self.call(self, x, y)
        return y + self.cache if given is None else y + given


def unread(value):
    return None


# what is called, and whether exg can leave it out: as exported, and decomposed
CASES = {
    "takes no tensor": (lambda m, x, y: COUNT(x.shape[0]), True, True),
    "gives what nobody reads": (lambda m, x, y: unread(TOTAL(x)), True, True),
    "two of them, one for the other": (lambda m, x, y: unread(TOTAL(TOTAL(x))), True, True),
    "prints": (lambda m, x, y: torch.ops.aten._print("here"), True, True),
    "takes a tensor and gives nothing": (lambda m, x, y: LOG(y), False, True),
    "writes what is read": (lambda m, x, y: UPDATE(y, x), False, False),
    "writes a buffer": (lambda m, x, y: UPDATE(m.cache, x), False, False),
    "says that it writes": (lambda m, x, y: unread(TOTAL_(y)), False, False),
    "is read": (lambda m, x, y: TOTAL(x), False, False),
}


def check(exg, call, *left_out):
    x = torch.rand(3)
    for is_decomposed, runs in enumerate(left_out):
        program = torch.export.export(Called(call), (x,))
        if is_decomposed:
            program = program.run_decompositions()
        path = exg.path(".pt2")
        torch.export.save(program, path)
        exg.command("verify", path)
        if runs:
            outputs, _ = exg.run(path, {"x": x})
            if not torch.equal(outputs["0"], torch.export.load(path).module()(x)):
                fail(f"{outputs['0']}")
            continue
        done = subprocess.run([exg.binary, "run", path], capture_output=True, text=True)
        if done.returncode != 5 or "OPR-003" not in done.stderr or "exg_unknown." not in done.stderr:
            fail(f"exg run ended with {done.returncode}: {done.stderr.strip()}")


def check_forward_mode(exg, function, *inputs):
    """Derivatives forward: refused, with ways out of which one works."""
    program = torch.export.export(Called(lambda m, x, y: function(x, *inputs)), (torch.rand(3, 3),))
    path = exg.path(".pt2")
    torch.export.save(program, path)
    for words in (["run", path], ["convert", path, exg.path(".pt2"), "--stage", "decompose"]):
        done = subprocess.run([exg.binary, *words], capture_output=True, text=True)
        if done.returncode != 5 or "OPR-003" not in done.stderr or "make_fx(function)" not in done.stderr:
            fail(f"exg {words[0]} ended with {done.returncode}: {done.stderr.strip()}")
    x = torch.rand(3, 3)
    traced = torch.export.export(make_fx(function)(x, *inputs), (x, *inputs))
    path = exg.path(".pt2")
    torch.export.save(traced, path)
    outputs, _ = exg.run(path, dict(zip(traced.graph_signature.user_inputs, (x, *inputs))))
    if not torch.allclose(outputs["0"], function(x, *inputs)):
        fail(f"{outputs['0']}")


FORWARD = {
    "jvp": (lambda x, v: torch.func.jvp(lambda t: t.tanh() @ t, (x,), (v,))[1], torch.rand(3, 3)),
    "jvp of jvp": (lambda x, v: torch.func.jvp(lambda y: torch.func.jvp(torch.sin, (y,), (v,))[1], (x,), (v,))[1], torch.rand(3, 3)),
}


if __name__ == "__main__":
    sys.exit(run_cases(__doc__, ("unknown: ", check, CASES), ("forward: ", check_forward_mode, FORWARD)))
