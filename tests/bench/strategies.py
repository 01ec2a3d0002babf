"""strategies.py - every strategy that has a name on a mesh of threads: predicted times by costs measured here beside measured ones,
and what `auto` chose beside the fastest. Printed, never asserted; needs no PyTorch.

    python3 tests/bench/strategies.py --exg build/release/cli/exg [--mesh 2,4] [--rounds 5] [--costs FILE] [FILE.pt2 ...]

Measured are the shortest times of interleaved rounds, which say most where the machine has other work. A cell is predicted/measured,
in us, and the ratio; "auto/best" the measured time of what auto chose over that of the fastest. Programs worth it: mesh_models.py.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import tempfile

NAMED = ["replicate", "data", "tensor", "fsdp", "sequence", "context", "expert", "pipeline"]
FIXTURES = [("mlp", "mlp"), ("convbn.eval.core", "convbn.eval"), ("places.core", "places"), ("bf16.core", "bf16"),
            ("lm.core.static", "lm"), ("lm.core.dynamic", "lm.t200"), ("lm.core.dynamic", "lm.t1")]
ROUND_NS = 8e7  # of a strategy in a round
WITHIN = 1.5    # what a prediction is taken to be right within


def call(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def least(a, b):
    if isinstance(a, list):
        return [least(x, y) for x, y in zip(a, b)]
    return {key: least(a[key], b[key]) for key in a} if isinstance(a, dict) else min(a, b)


class Strategies:
    def __init__(self, exg, folder, program, inputs, mesh, costs=None):
        self.mesh, self.by_processor = int(mesh), False
        self.costs = costs or f"{folder}/costs-{mesh}.json"
        self.exg, self.program, self.output = exg, program, f"{folder}/out.safetensors"
        self.inputs = ["--input", inputs] if inputs else []
        if costs is None:
            self.calibrate()

    def command(self, verb, place, *more):
        return call([self.exg, verb, self.program, *self.inputs, "--mesh", str(self.mesh), "--place", place, *more])

    def plan(self, place):
        said = json.loads(self.command("plan", place, "--costs", self.costs, "--json"))
        return said["placement"], said["predicted_ns"]

    def calibrate(self):
        """Of all times that were measured the shortest, as of runs."""
        before = json.loads(pathlib.Path(self.costs).read_text()) if os.path.exists(self.costs) else None
        self.command("plan", "replicate", "--calibrate", self.costs)
        if before is not None:
            now = json.loads(pathlib.Path(self.costs).read_text())
            pathlib.Path(self.costs).write_text(json.dumps(least(before, now)))

    def run(self, place, repeat):
        return json.loads(self.command("run", place, "--repeat", str(repeat), "--stats", "--json", "--output", self.output))["min_ns"]

    def processor_ns(self, place, repeat):
        """Of a run, as long as it takes where the machine has nothing else to do, ranks have a core each or share those there are, and
        never wait: the processor's time of runs less that of starting."""
        def used(count):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            self.run(place, count)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        at_once = 1 if place == "pipeline" else min(self.mesh, len(os.sched_getaffinity(0)))
        return 1e9 * (used(3 * repeat) - used(repeat)) / (2 * repeat) / at_once

    def measure(self, places, rounds, calibrates=False):
        repeat = {place: max(3, int(ROUND_NS / self.run(place, 3))) for place in places}
        times = {place: [] for place in places}
        for i in range(rounds):
            if calibrates:
                self.calibrate()
            for place in places if i % 2 == 0 else places[::-1]:
                times[place].append((self.processor_ns if self.by_processor else self.run)(place, repeat[place]))
        return {place: min(times[place]) for place in places}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exg", default="build/release/cli/exg")
    parser.add_argument("--mesh", default="2,4")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--processor", action="store_true", help="measure the time of processors, where the machine has other work")
    parser.add_argument("--costs", help="a table of costs; default: measured now")
    parser.add_argument("programs", nargs="*")
    options = parser.parse_args()
    programs = [(path, None) for path in options.programs] or [
        (f"fixtures/{program}.pt2", f"fixtures/{inputs}.inputs.safetensors") for program, inputs in FIXTURES]
    ratios = []
    print(f"{'program':16} ranks " + "".join(f"{place:>22}" for place in NAMED) + "  auto         auto/best")
    with tempfile.TemporaryDirectory() as folder:
        for program, inputs in programs:
            for mesh in options.mesh.split(","):
                s = Strategies(options.exg, folder, program, inputs, mesh, options.costs)
                s.by_processor = options.processor
                measured = s.measure(NAMED, options.rounds, calibrates=options.costs is None)
                chosen = s.plan("auto")[0]
                predicted = {place: s.plan(place)[1] for place in NAMED}
                cells = "".join(f"{predicted[p] / 1e3:.0f}/{measured[p] / 1e3:.0f} {predicted[p] / measured[p]:.2f}".rjust(22) for p in NAMED)
                ratios += [predicted[p] / measured[p] for p in NAMED]
                name = pathlib.Path(inputs or program).name.split(".inputs")[0].split(".pt2")[0]
                print(f"{name:16} {mesh:>5} {cells}  {chosen:12} {measured[chosen] / min(measured.values()):.2f}", flush=True)
    inside = sum(1 / WITHIN <= ratio <= WITHIN for ratio in ratios)
    print(f"{inside} of {len(ratios)} predictions within {WITHIN} times, all from {min(ratios):.2f} to {max(ratios):.2f}")


if __name__ == "__main__":
    main()
