"""Steps of optimizers in programs: fused ones, those on lists, and what scales losses. See README.md beside this file."""

import itertools
import pathlib
import sys

import safetensors.torch
from run_interop import fail, run_cases, torch

A = torch.ops.aten

# PyTorch 2.14 can trace them.
for name in ("sgd_", "adagrad_", "sgd_.tensor_lr", "adagrad_.tensor_lr", "adam_.tensor_lr", "adamw_.tensor_lr"):
    torch.library.register_fake(f"aten::_fused_{name}")(lambda *args, **options: None)

COMMON = {"maximize": False}
ADAM = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.01, "eps": 1e-8, "amsgrad": False} | COMMON
SGD = {"lr": 0.1, "weight_decay": 0.01, "momentum": 0.9, "dampening": 0.2, "nesterov": False, "is_first_step": False} | COMMON
ADAGRAD = {"lr": 0.1, "lr_decay": 0.05, "weight_decay": 0.01, "eps": 1e-8} | COMMON


class Step(torch.nn.Module):
    """One step of `op` on two parameters, whose gradients are inputs; `states` lists of states, and the steps that were made."""

    def __init__(self, op, states, dtype, options, scale=None, found=None, lr=False, empty=()):
        super().__init__()
        self.op, self.options, self.empty, self.is_adam = op, options, empty, states > 1
        self.names = [f"state{i}" for i in range(states)]
        for k, shape in enumerate(((3, 4), (5,))):
            for name in ("parameter", *self.names):
                self.register_buffer(f"{name}_{k}", torch.rand(shape).to(dtype))
            self.register_buffer(f"step_{k}", torch.tensor(float(k * 3 + 1)))
        for name, value in (("scale", scale), ("found", found)):
            self.register_buffer(name, None if value is None else torch.tensor(value))
        self.register_buffer("lr", torch.tensor(options["lr"]) if lr else None)

    def listed(self, name):
        return [] if name in self.empty else [getattr(self, f"{name}_{k}") for k in range(2)]

    def forward(self, x, y):
        gradients = [x * 1, y * 1]
        lists = [self.listed("parameter"), gradients, *(self.listed(name) for name in self.names)]
        if "momentum" not in self.options:
            lists.append(self.listed("step"))
        options = self.options | ({} if self.lr is None else {"lr": self.lr})
        made = self.op(*lists, **options, grad_scale=self.scale, found_inf=self.found)
        return (*gradients, *(item for one in made or () for item in one), self.parameter_0.sum())


def check(exg, module, args, decomposes=True):
    given = exg.path(".safetensors")
    safetensors.torch.save_file(dict(zip(("x", "y"), args)), given)
    whole = torch.export.export(module, args)
    for program in (whole, whole.run_decompositions()) if decomposes else (whole,):
        path = exg.path(".pt2")
        torch.export.save(program, path)
        loaded = torch.export.load(path).module()
        before = {name: value.clone() for name, value in loaded.named_buffers()}
        with torch.no_grad():
            expected = {str(i): value for i, value in enumerate(loaded(*(arg.clone() for arg in args)))}
        expected |= {name: value for name, value in loaded.named_buffers() if not torch.equal(value, before[name])}
        exg.command("verify", path, "--deny", "NOD-001")
        for file, more in ((path, ()), (exg.convert(path, ".exg"), ()), (path, ("--mesh", "2", "--place", "auto"))):
            outputs, state = exg.path(".safetensors"), exg.path(".safetensors")
            exg.command("run", file, "--input", given, "--output", outputs, "--state-output", state, *more)
            got = safetensors.torch.load_file(outputs) | safetensors.torch.load_file(state)
            for name, value in expected.items():
                coarse = value.dtype in (torch.bfloat16, torch.float16)
                if got[name].dtype != value.dtype or got[name].shape != value.shape:
                    fail(f"{pathlib.Path(file).suffix} '{name}': {got[name].dtype} {tuple(got[name].shape)}")
                if not torch.allclose(got[name], value, rtol=1e-2 if coarse else 1e-5, atol=1e-6, equal_nan=True):
                    fail(f"{pathlib.Path(file).suffix} {more} '{name}': {got[name].flatten()[:4]}, not {value.flatten()[:4]}")


def step(exg, op, states, options, dtype=torch.float32, **more):
    torch.manual_seed(1)
    args = (torch.randn(3, 4).to(dtype), torch.randn(5).to(dtype))
    writes_none = op._schema.name.endswith("_") and len(more.get("empty", ())) > 0  # which PyTorch does not decompose
    check(exg, Step(op, states, dtype, options, **more), args, not writes_none)


class Call(torch.nn.Module):
    def __init__(self, call):
        super().__init__()
        self.call = call
        self.register_buffer("found", torch.tensor(0.0))
        self.register_buffer("scale", torch.tensor(8.0))
        self.register_buffer("tracker", torch.tensor(1, dtype=torch.int32))

    def forward(self, x, y):
        return self.call(self, [x * 1, y * 1], [y + 2, x + 3])


def call(exg, function, dtype=torch.float32, last=None):
    torch.manual_seed(1)
    x, y = torch.rand(3, 4).to(dtype), torch.rand(3, 4).to(dtype)
    if last is not None:
        y[-1, -1] = last
    check(exg, Call(function), (x, y))


def write(made, *results):
    return tuple(results)


def steps():
    """Name, operator with its number of states and its options, and what Step is given more."""
    makers = {
        "adam": (A._fused_adam, A._fused_adam_, 3, ADAM, ({}, {"amsgrad": True}, {"maximize": True}, {"weight_decay": 0.0}, {"beta1": 0.2})),
        "adamw": (A._fused_adamw, A._fused_adamw_, 3, ADAM, ({}, {"amsgrad": True, "maximize": True}, {"weight_decay": 0.0})),
        "sgd": (A._fused_sgd, A._fused_sgd_, 1, SGD,
                ({}, {"nesterov": True, "dampening": 0.0}, {"is_first_step": True}, {"momentum": 0.0}, {"maximize": True, "weight_decay": 0.0})),
        "adagrad": (A._fused_adagrad, A._fused_adagrad_, 1, ADAGRAD, ({}, {"maximize": True, "weight_decay": 0.0}, {"lr_decay": 0.0})),
    }
    for name, (returning, writing, states, base, changes) in makers.items():
        for (kind, op), change in itertools.product((("", returning), ("_", writing)), changes):
            words = " ".join(f"{k}={v}" for k, v in change.items())
            options = base | change
            empty = ("state2",) if states == 3 and not options["amsgrad"] else ("state0",) if options.get("momentum") == 0 else ()
            yield f"{name}{kind} {words}", (op.default, states, options), {"empty": empty}
        empty = {"empty": ("state2",)} if states == 3 else {}
        for kind, op in (("", returning), ("_", writing)):
            yield f"{name}{kind}, a rate that is a tensor", (op.tensor_lr, states, base), {"lr": True} | empty
            yield f"{name}{kind}, scaled", (op.default, states, base), {"scale": 4.0, "found": 0.0} | empty
            yield f"{name}{kind}, something found", (op.default, states, base), {"scale": 4.0, "found": 1.0} | empty
            for dtype in (torch.float64, torch.bfloat16, torch.float16):
                yield f"{name}{kind} of {dtype}", (op.default, states, base), {"dtype": dtype} | empty


CALLS = {
    "sums of powers": lambda m, a, b: (A._foreach_powsum.Scalar(a, 3), A._foreach_powsum.Scalar(b), A._foreach_powsum.Scalar(b, 1, dtype=torch.float64)),
    "unscaled": lambda m, a, b: write(A._amp_foreach_non_finite_check_and_unscale_(a, m.found, m.scale), *a, m.found + 1),
    "scale grows": lambda m, a, b: (A._amp_update_scale_(m.scale, m.tracker, m.found, 2.0, 0.5, 2) + 1, m.tracker + 0),
    "scale stays": lambda m, a, b: (A._amp_update_scale_(m.scale, m.tracker, m.found, 2.0, 0.5, 20) + 1, m.tracker + 0),
    "scale shrinks": lambda m, a, b: (A._amp_update_scale_(m.scale, m.tracker, m.found + 1, 2.0, 0.5, 2) + 1, m.tracker + 0),
    "scale does not pass the largest": lambda m, a, b: A._amp_update_scale(m.scale, m.tracker, m.found, 1e38, 0.5, 2),
}


def flat(function):
    def run(m, a, b):
        made = function(m, a, b)
        return tuple(x for one in made for x in (one if isinstance(one, (list, tuple)) else (one,))) if isinstance(made, tuple) else made

    return run


if __name__ == "__main__":
    cases = {name: (flat(function),) for name, function in CALLS.items()}
    narrow = {f"{name}, of bfloat16": (flat(CALLS[name]), torch.bfloat16) for name in list(CALLS)[:2]}
    infinite = {f"unscaled, with {last}": (flat(CALLS["unscaled"]), torch.float32, last) for last in (float("inf"), float("nan"))}
    stepped = {name: (args, more) for name, args, more in steps()}
    sys.exit(run_cases(__doc__, ("", call, cases | narrow | infinite), ("", lambda exg, args, more: step(exg, *args, **more), stepped)))
