"""Random programs in PyTorch and in exg: views, writes, products, rows and formulas in any order, exported, decomposed, over a mesh."""

import argparse
import logging
import math
import random
import sys
import tempfile
import warnings

import torch
from run_interop import Exg, Mismatch, Report, named_inputs, same, torch_call
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.export import Dim, export

STEPS = 18
BATCHES, SIZES, ELEMENTS = (2, 3, 5, 8), (1, 2, 3, 4, 7, 8, 16, 33), 6000  # of a value at most
LARGE = ((64, 130), (1, 3, 16, 33, 128, 200), 600_000)
FLOATS = (torch.float32, torch.float32, torch.float32, torch.bfloat16, torch.float64)
INTEGERS = (torch.int64, torch.int32, torch.uint8)
NUDGES = {torch.float64: 1e-9, torch.float32: 3e-6, torch.bfloat16: 1e-2}


# Names of functions of one value of real numbers, and what goes with it.
SMOOTH = """neg abs square sin cos tanh sigmoid erf expm1 relu exp atan sinh rsqrt log1p sqrt reciprocal""".split()
ACTIVATIONS = """gelu silu softplus hardswish hardtanh leaky_relu elu mish relu6 hardsigmoid softsign logsigmoid selu celu""".split()
WHOLE = "floor ceil round trunc sign frac".split()
PAIRS = "add sub mul maximum minimum atan2".split()
COMPARISONS = "lt le gt ge eq ne".split()
POSITIVE = {"rsqrt", "log1p", "sqrt", "reciprocal"}  # of |x| + 1
BOUNDED = {"exp", "expm1", "sinh"}  # of x held within 3


def replay(steps, inputs, parameters):
    values = list(inputs)
    for function, places in steps:
        values.append(function(parameters, *(values[place] for place in places)))
    return values


def is_tame(x):
    return not x.is_floating_point() or x.numel() == 0 or bool(x.isfinite().all() and x.abs().max() < 1e3)


class Builder:
    """Steps that are possible after those so far; `values` are theirs on the sample inputs."""

    def __init__(self, seed, is_large):
        self.r = random.Random(seed)
        batches, self.sizes, self.elements = LARGE if is_large else (BATCHES, SIZES, ELEMENTS)
        self.steps, self.parameters = [], {}
        torch.manual_seed(seed)
        self.dtype = self.r.choice(FLOATS)
        self.batch = self.r.choice(batches)
        self.inputs = [self.fresh() for _ in range(self.r.randint(1, 3))]
        if self.r.random() < 0.3:
            self.inputs.append(torch.randint(0, 5, (self.batch, self.r.randint(1, 6)), dtype=self.r.choice(INTEGERS)))
        self.values = [x.clone() for x in self.inputs]
        for _ in range(STEPS):
            self.step()

    def fresh(self):
        sizes = [self.batch]
        for _ in range(self.r.randint(0, 3)):
            size = self.r.choice(self.sizes)
            sizes.append(size if math.prod(sizes) * size <= self.elements // 4 else 1)
        return (torch.randint(-16, 17, sizes) / 8).to(self.dtype)

    def parameter(self, *sizes):
        name = f"p{len(self.parameters)}"
        self.parameters[name] = (torch.randn(sizes) / max(sizes[-1], 1) ** 0.5).to(self.dtype)
        return name

    def pick(self, wanted=lambda x: True):
        """The place of a value, late ones first; None where there is none."""
        places = [k for k, x in enumerate(self.values) if wanted(x)]
        if not places:
            return None
        return places[-1 - min(int(self.r.expovariate(0.5)), len(places) - 1)]

    def real(self, rank=0):
        return self.pick(lambda x: x.dtype == self.dtype and x.dim() >= rank and x.numel() > 0)

    def step(self):
        for _ in range(50):
            made = self.r.choice(KINDS)(self)
            if made is None or any(place is None for place in made[1]):
                continue
            try:
                if not self.fits(*made):
                    continue
                values = replay([*self.steps, made], [x.clone() for x in self.inputs], self.parameters)
            except (RuntimeError, IndexError, ValueError, NotImplementedError):
                continue
            if all(x.numel() <= self.elements and is_tame(x) for x in values):
                self.steps.append(made)
                self.values = values
                return

    def fits(self, function, places):
        """Whether the result is small enough to be made."""
        with FakeTensorMode(allow_non_fake_inputs=True) as mode:
            return function(self.parameters, *(mode.from_tensor(self.values[place]) for place in places)).numel() <= self.elements

    def kept(self):
        late = range(max(len(self.values) - 3, 0), len(self.values))
        return sorted({*late, *(self.r.randrange(len(self.values)) for _ in range(3))})


class Program(torch.nn.Module):
    def __init__(self, builder):
        super().__init__()
        self.steps, self.kept = builder.steps, builder.kept()
        for name, value in builder.parameters.items():
            self.register_parameter(name, torch.nn.Parameter(value.clone(), requires_grad=False))

    def forward(self, *inputs):
        values = replay(self.steps, inputs, dict(self.named_parameters()))
        return tuple(values[place].clone() for place in self.kept)


# ---- kinds of steps: (function of the parameters and values, places) ---------------------------------------------------------------


def formula(b):
    name = b.r.choice(SMOOTH)
    if name in POSITIVE:
        return lambda p, x: getattr(torch, name)(x.abs() + 1), [b.real()]
    if name in BOUNDED:
        return lambda p, x: getattr(torch, name)(x.clamp(-3, 3)), [b.real()]
    return lambda p, x: getattr(torch, name)(x), [b.real()]


def activation(b):
    name = b.r.choice(ACTIVATIONS)
    return lambda p, x: getattr(torch.nn.functional, name)(x), [b.real()]


def whole(b):
    name = b.r.choice(WHOLE)
    return lambda p, x: getattr(torch, name)(x), [b.real()]


def with_number(b):
    number, name = b.r.choice((0.5, -1.25, 2, 3)), b.r.choice(("add", "sub", "mul", "div", "rsub"))
    return lambda p, x: getattr(torch, name)(x, number), [b.real()]


def pair(b):
    name = b.r.choice(PAIRS)
    return lambda p, x, y: getattr(torch, name)(x, y), [b.real(), b.real()]


def quotient(b):
    return lambda p, x, y: x / (y.abs() + 1), [b.real(), b.real()]


def choice(b):
    name = b.r.choice(COMPARISONS)
    return lambda p, x, y, z: torch.where(getattr(torch, name)(x, y), x, z), [b.real(), b.real(), b.real()]


def counted(b):
    name = b.r.choice(("add", "sub", "mul", "bitwise_and", "bitwise_or", "maximum"))
    place = b.pick(lambda x: not x.is_floating_point())
    return lambda p, x, y: getattr(torch, name)(x, y), [place, b.pick(lambda x: not x.is_floating_point())]


def converted(b):
    dtype = b.dtype if b.r.random() < 0.7 else torch.float32
    return lambda p, x: x.to(dtype), [b.pick()]


def compared(b):
    name = b.r.choice(COMPARISONS)
    return lambda p, x: getattr(torch, name)(x, 0.5), [b.real()]


def reduced(b):
    name = b.r.choice(("sum", "mean", "amax", "amin", "logsumexp", "norm", "var", "argmax", "any", "prod"))
    keeps, dim = b.r.random() < 0.5, b.r.choice((0, -1))
    if name == "prod":
        return lambda p, x: x.clamp(-1.5, 1.5).prod(dim, keepdim=keeps), [b.real(1)]
    return lambda p, x: getattr(torch, name)(x, dim=dim, keepdim=keeps), [b.real(1)]


def row(b):
    name, dim = b.r.choice(("softmax", "log_softmax", "cumsum")), b.r.choice((0, -1))
    return lambda p, x: getattr(torch, name)(x, dim), [b.real(1)]


def normalised(b):
    place = b.real(1)
    if place is None:
        return None
    size = b.values[place].shape[-1]
    weight, bias = b.parameter(size), b.parameter(size)
    if b.r.random() < 0.3:
        return lambda p, x: torch.nn.functional.rms_norm(x, x.shape[-1:], p[weight], 1e-5), [place]
    return lambda p, x: torch.nn.functional.layer_norm(x, x.shape[-1:], p[weight], p[bias]), [place]


def linear(b):
    place = b.real(1)
    if place is None:
        return None
    out = b.r.choice((1, 4, 16, 24))
    weight, bias = b.parameter(out, b.values[place].shape[-1]), b.parameter(out)
    biased = b.r.random() < 0.6
    return lambda p, x: torch.nn.functional.linear(x, p[weight], p[bias] if biased else None), [place]


def product(b):
    return lambda p, x: x @ x.transpose(-1, -2) / x.shape[-1], [b.real(2)]


def attention(b):
    causal = b.r.random() < 0.5
    return lambda p, x: torch.nn.functional.scaled_dot_product_attention(x, x, x.sin(), is_causal=causal), [b.real(3)]


def convolved(b):
    place = b.pick(lambda x: x.dtype == b.dtype and x.dim() == 4)
    if place is None:
        return None
    channels, kernel, stride = b.values[place].shape[1], b.r.choice((1, 3)), b.r.choice((1, 2))
    weight, bias = b.parameter(b.r.choice((4, 8)), channels, kernel, kernel), None
    return lambda p, x: torch.nn.functional.conv2d(x, p[weight], bias, stride, kernel // 2), [place]


def pooled(b):
    name = b.r.choice(("max_pool2d", "avg_pool2d"))
    return lambda p, x: getattr(torch.nn.functional, name)(x, 2), [b.real(3)]


def looked_up(b):
    table = b.parameter(7, b.r.choice((4, 8)))
    return lambda p, i: torch.nn.functional.embedding(i.long() % 7, p[table]), [b.pick(lambda x: not x.is_floating_point())]


def gathered(b):
    dim = b.r.choice((0, -1))
    return lambda p, x: x.gather(dim, x.argsort(dim=dim, stable=True)), [b.real(1)]


def greatest(b):
    return lambda p, x: x.sort(dim=-1, descending=True, stable=True)[0][..., : (x.shape[-1] + 1) // 2], [b.real(1)]


# Views: later steps may write to what they share.


def reshaped(b):
    ways = (lambda x: x.reshape(x.shape[0], -1), lambda x: x.flatten(), lambda x: x.unsqueeze(b_dim), lambda x: x.reshape(-1, x.shape[-1]),
            lambda x: x.squeeze(), lambda x: x.view(x.shape[0], -1, 1))
    b_dim, way = b.r.choice((0, 1, -1)), b.r.choice(ways)
    return lambda p, x: way(x), [b.pick()]


def turned(b):
    ways = (lambda x: x.transpose(0, -1), lambda x: x.mT, lambda x: x.permute(*range(x.dim() - 1, -1, -1)), lambda x: x.movedim(-1, 0))
    way = b.r.choice(ways)
    return lambda p, x: way(x), [b.pick(lambda x: x.dim() >= 2)]


def sliced(b):
    start, step, ways = b.r.randint(0, 2), b.r.randint(1, 3), b.r.randrange(5)
    table = (lambda x: x[start::step], lambda x: x[..., start::step], lambda x: x[:, -1], lambda x: x.narrow(0, 0, x.shape[0] - 1),
             lambda x: x.diagonal(0, 0, 1))
    return lambda p, x: table[ways](x), [b.pick(lambda x: x.dim() >= 1)]


def widened(b):
    return lambda p, x: x.unsqueeze(1).expand(-1, 3, *x.shape[1:]), [b.pick(lambda x: x.dim() >= 1)]


# Movement into new values.


def joined(b):
    dim = b.r.choice((0, -1))
    if b.r.random() < 0.4:
        return lambda p, x, y: torch.stack([x, y], dim), [b.real(), b.real()]
    return lambda p, x, y: torch.cat([x, y, x], dim), [b.real(1), b.real(1)]


def moved(b):
    ways = (lambda x: x.flip(0), lambda x: x.roll(1, -1), lambda x: torch.nn.functional.pad(x, (1, 2), value=0.5), lambda x: x.tril(),
            lambda x: x.tile(2), lambda x: x.repeat_interleave(2, 0), lambda x: x.contiguous(), lambda x: x.clone(), lambda x: x.triu(1),
            lambda x: x.split(1, 0)[0], lambda x: torch.nn.functional.pad(x, (-1, 1)), lambda x: x.unfold(-1, 2, 1))
    way = b.r.choice(ways)
    return lambda p, x: way(x), [b.real(1)]


# Writes: into a value and whatever shares its memory.


def written(b):
    ways = (lambda x, y: x.add_(y.mean()), lambda x, y: x.mul_(0.5), lambda x, y: x[..., :1].copy_(y.sum().clamp(-4, 4)),
            lambda x, y: x.masked_fill_(x > 1, 0.25), lambda x, y: x[0].fill_(-0.5), lambda x, y: x.clamp_(-1, 1),
            lambda x, y: x.relu_(), lambda x, y: x.select(-1, 0).sub_(0.125), lambda x, y: x.transpose(0, -1).add_(0.25),
            lambda x, y: x.index_fill_(0, torch.tensor([0]), 0.75), lambda x, y: x.zero_(), lambda x, y: x.copy_(y))
    way = b.r.choice(ways)

    def step(p, x, y):
        if any(size > 1 and stride == 0 for size, stride in zip(x.shape, x.stride())):
            raise ValueError("elements share memory")
        way(x, y)
        return x

    return step, [b.real(1), b.real()]


KINDS = [formula, formula, activation, activation, with_number, pair, pair, quotient, choice, whole, counted, converted, compared, reduced,
         reduced, row, normalised, linear, linear, product, attention, convolved, pooled, looked_up, gathered, greatest, reshaped, reshaped,
         turned, turned, sliced, sliced, widened, joined, moved, moved, written, written, written]


# ---- comparing ----------------------------------------------------------------------------------------------------------------------


def is_settled(program, inputs, expected):
    """Does PyTorch itself give this again, when the inputs are a little beside? Else rounding decides, and no one is right."""
    for seed in range(4):
        torch.manual_seed(seed)
        beside = [x * (1 + NUDGES[x.dtype] * torch.randn_like(x).clamp(-1, 1)) if x.dtype in NUDGES else x for x in inputs]
        try:
            same(torch_call(program, beside, {})[0], expected)
        except Mismatch:
            return False
    return True


class Unsettled(Exception):
    pass


def compare(exg, program, inputs, **options):
    expected = torch_call(program, inputs, {})[0]
    path = exg.path(".pt2")
    torch.export.save(program, path)
    try:
        same(exg.run(path, named_inputs(program, inputs, {}), **options)[0], expected)
    except Mismatch as error:
        if str(error).startswith("exg ") or is_settled(program, inputs, expected):
            raise
        raise Unsettled from None


def forms(builder):
    """(name, program, inputs, options of exg run) of all that PyTorch itself can make."""
    module, inputs = Program(builder).eval(), tuple(builder.inputs)

    def exported():
        return export(module, inputs)

    ways = {
        "exported": (exported, {}),
        "open sizes": (lambda: export(module, inputs, dynamic_shapes=(tuple({0: Dim.AUTO} for _ in inputs),)), {}),
        "decomposed": (lambda: exported().run_decompositions(), {}),
        "mesh": (exported, {"mesh": "2", "place": "tensor"}),
    }
    for name, (make, options) in ways.items():
        try:
            program = make()
        except Exception as error:
            print(f"skip {name}: PyTorch: {(str(error).strip().splitlines() or [''])[0][:100]}", flush=True)
        else:
            yield name, program, inputs, options
            if name == "open sizes":
                others = tuple(torch.cat([x, x[:1], x[:1]]) for x in inputs)
                try:
                    torch_call(program, others, {})
                except Exception:  # a size is not open
                    continue
                yield "other sizes", program, others, options


def check(report, exg, seed, is_large):
    """How many runs rounding decides."""
    builder, unsettled = Builder(seed, is_large), []
    for name, program, inputs, options in forms(builder):
        def action(program=program, inputs=inputs, options=options):
            try:
                compare(exg, program, inputs, **options)
            except Unsettled:
                unsettled.append(name)

        report.check(f"{seed} {name}", action)
    return len(unsettled)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exg", required=True, help="the exg binary")
    parser.add_argument("--seed", type=int, default=0, help="of the first program")
    parser.add_argument("--count", type=int, default=12, help="programs")
    parser.add_argument("--large", action="store_true", help="values past the caches")
    options = parser.parse_args()
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    logging.disable()
    report, unsettled = Report(), 0
    with tempfile.TemporaryDirectory(prefix="exg-random-") as folder:
        exg = Exg(options.exg, folder)
        for seed in range(options.seed, options.seed + options.count):
            unsettled += check(report, exg, seed, options.large)
    print(f"{unsettled} runs where rounding decides")
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
