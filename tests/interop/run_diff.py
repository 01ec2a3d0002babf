"""Changes modules in PyTorch in known ways and asks `exg diff` what changed. See README.md beside this file."""

import argparse
import copy
import json
import subprocess
import sys
import tempfile

import torch
from run_interop import Exg, Report, fail


class Block(torch.nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.norm, self.up, self.down = torch.nn.LayerNorm(8), torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)
        self.activation = activation

    def forward(self, x):
        return x + self.down(self.activation(self.up(self.norm(x))))


class Model(torch.nn.Module):
    def __init__(self, blocks=4):
        super().__init__()
        self.blocks = torch.nn.ModuleList(Block(torch.nn.functional.gelu) for _ in range(blocks))
        self.register_buffer("scale", torch.ones(8))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x * self.scale


class Renamed(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.layers, self.gain = model.blocks, torch.nn.Buffer(model.scale)

    def forward(self, inputs):
        for layer in self.layers:
            inputs = layer(inputs)
        return inputs * self.gain


def steps(a, b):
    """Floats between two tensors of float32, by their bits."""
    bits = [t.view(torch.int32).to(torch.int64) for t in (a, b)]
    places = [torch.where(t < 0, -(t & 0x7FFFFFFF), t) for t in bits]
    return int((places[0] - places[1]).abs().max())


class Diff:
    def __init__(self, exg):
        self.exg = exg

    def save(self, module, batch=3, dynamic=False, core=False):
        shapes = ({0: torch.export.Dim("batch")},) if dynamic else None
        program = torch.export.export(module, (torch.ones(batch, 8),), dynamic_shapes=shapes)
        path = self.exg.path(".pt2")
        torch.export.save(program.run_decompositions() if core else program, path)
        return path

    def __call__(self, a, b, *words):
        done = subprocess.run(
            [self.exg.binary, "diff", a, b, "--json", *words], capture_output=True, text=True, timeout=60
        )
        found = json.loads(done.stdout)
        if done.returncode != (0 if found["equal"] else 1):
            fail(f"exit status {done.returncode} for equal {found['equal']}")
        return found


def expect(found, room, **counts):
    for name, value in counts.items():
        if found["counts"][room][name] != value:
            fail(f"{room} {name}: {found['counts'][room][name]}, not {value}: {found['differences'][:3]}")


def check(report, diff):
    torch.manual_seed(1)
    model = Model()
    base = diff.save(model)
    nodes = diff(base, base)["counts"]["graph"]["same"]

    def same():
        for other in (diff.save(copy.deepcopy(model)), diff.exg.convert(base, ".exg")):
            found = diff(base, other)
            if not found["equal"] or nodes != 4 * 5 + 1:
                fail(f"{nodes} nodes, {found['differences'][:3]}")

    def renamed():
        found = diff(base, diff.save(Renamed(copy.deepcopy(model))))
        expect(found, "graph", same=nodes, changed=0, removed=0, added=0)
        expect(found, "tensor", same=0, changed=25, removed=0, added=0)
        if any(d["kind"] != "renamed" for d in found["differences"]):
            fail(str(found["differences"][:3]))

    def other_activation():
        other = copy.deepcopy(model)
        other.blocks[2].activation = torch.nn.functional.silu
        found = diff(base, diff.save(other))
        expect(found, "graph", same=nodes - 2, changed=1, removed=1, added=1)
        expect(found, "tensor", changed=0)

    def inserted():
        other = copy.deepcopy(model)
        other.blocks.insert(2, Block(torch.nn.functional.gelu))
        found = diff(base, diff.save(other))
        expect(found, "graph", removed=0, added=5)
        expect(found, "tensor", removed=0, added=6)

    def values():
        other = copy.deepcopy(model)
        weight = other.blocks[1].up.weight
        with torch.no_grad():
            weight[0, :3] += torch.tensor([1e-3, -0.5, 2.0])
            weight[3, 3] = torch.nextafter(weight[3, 3], torch.tensor(9.0))
        old = model.blocks[1].up.weight
        found = diff(base, diff.save(other))
        expect(found, "tensor", same=24, changed=1)
        expect(found, "graph", same=nodes)
        (one,) = found["differences"]
        gap = (old.double() - weight.double()).abs().detach()
        wanted = {
            "a": "blocks.1.up.weight",
            "differing": int((old != weight).sum()),
            "total": old.numel(),
            "max_abs": float(gap.max()),
            "max_rel": float((gap / old.double().abs()).max()),
            "max_ulp": steps(old.detach(), weight.detach()),
        }
        for name, value in wanted.items():
            if one[name] != value:
                fail(f"{name} is {one[name]}, PyTorch says {value}")
        if not diff(base, diff.save(other), "--structure")["equal"]:
            fail("--structure looks at weights")
        if not diff(base, diff.save(other), "--atol", "2.001")["equal"]:
            fail("within the tolerance, yet told")

    def symbols():
        first, second = (diff.save(model, batch=batch, dynamic=True) for batch in (3, 7))
        if not diff(first, second)["equal"]:
            fail("two names of a symbol are told apart")
        found = diff(base, first)
        expect(found, "signature", changed=1)
        expect(found, "graph", same=0, changed=0, following=nodes)

    def dialects():
        found = diff(base, diff.save(model, core=True))
        if not any(d["what"].startswith("dialect: ") for d in found["differences"]):
            fail("the dialect is not told")
        expect(found, "tensor", same=25, changed=0)

    for action in (same, renamed, other_activation, inserted, values, symbols, dialects):
        report.check(f"diff: {action.__name__.replace('_', ' ')}", action)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exg", required=True, help="the exg binary")
    report = Report()
    with tempfile.TemporaryDirectory(prefix="exg-diff-") as folder:
        check(report, Diff(Exg(parser.parse_args().exg, folder)))
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
