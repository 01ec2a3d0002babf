"""strategies.py - what `auto` chooses on a mesh of threads, beside every strategy that has a name: predicted times by
costs measured here, measured ones by interleaved rounds. Printed, never asserted; needs no PyTorch.

    python3 tests/bench/strategies.py --exg build/release/cli/exg [--mesh 2,4] [--rounds 5] [FILE.pt2 ...]

"auto/best" is the measured time of what auto chose over that of the fastest: by medians, and by the shortest times,
which say more when the machine has other work.
"""

import argparse
import json
import os
import statistics
import subprocess
import tempfile

NAMED = ["replicate", "data", "tensor", "fsdp", "sequence"]
FIXTURES = [("mlp", "mlp"), ("convbn.eval.core", "convbn.eval"), ("places.core", "places"), ("bf16.core", "bf16"),
            ("lm.core.static", "lm"), ("lm.core.dynamic", "lm.t200"), ("lm.core.dynamic", "lm.t1")]
ROUND_NS = 2e8  # of a strategy in a round


def call(command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Strategies:
    def __init__(self, exg, folder, program, inputs, mesh):
        self.mesh, self.costs = mesh, f"{folder}/costs-{mesh}.json"
        self.exg, self.program, self.output = exg, program, f"{folder}/out.safetensors"
        self.inputs = ["--input", inputs] if inputs else []
        if not os.path.exists(self.costs):
            self.command("plan", "auto", "--calibrate", self.costs)

    def command(self, verb, place, *more):
        return call([self.exg, verb, self.program, *self.inputs, "--mesh", str(self.mesh), "--place", place, *more])

    def plan(self, place):
        said = json.loads(self.command("plan", place, "--costs", self.costs, "--json"))
        return said["placement"], said["predicted_ns"]

    def run(self, place, repeat):
        said = json.loads(self.command("run", place, "--repeat", str(repeat), "--stats", "--json",
                                       "--output", self.output))
        return said["median_ns"], said["min_ns"]

    def measure(self, rounds):
        repeat = {place: max(3, int(ROUND_NS / self.run(place, 3)[0])) for place in NAMED}
        times = {place: [] for place in NAMED}
        for i in range(rounds):
            for place in NAMED if i % 2 == 0 else NAMED[::-1]:
                times[place].append(self.run(place, repeat[place]))
        return {place: (statistics.median(t[0] for t in times[place]), min(t[1] for t in times[place]))
                for place in NAMED}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exg", default="build/release/cli/exg")
    parser.add_argument("--mesh", default="2,4")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("programs", nargs="*")
    options = parser.parse_args()
    programs = [(path, None) for path in options.programs] or [
        (f"fixtures/{program}.pt2", f"fixtures/{inputs}.inputs.safetensors") for program, inputs in FIXTURES]
    print(f"{'program':34} ranks " + "".join(f"{place + ' us':>22}" for place in NAMED) + "  auto      auto/best")
    with tempfile.TemporaryDirectory() as folder:
        for program, inputs in programs:
            for mesh in options.mesh.split(","):
                s = Strategies(options.exg, folder, program, inputs, int(mesh))
                chosen, predicted = s.plan("auto")
                measured = s.measure(options.rounds)
                ratios = [measured[chosen][i] / min(t[i] for t in measured.values()) for i in range(2)]
                columns = "".join(f"{s.plan(place)[1] / 1e3:8.1f} {measured[place][0] / 1e3:7.1f}/{measured[place][1] / 1e3:.1f}".rjust(22)
                                  for place in NAMED)
                name = os.path.basename(inputs or program).replace(".inputs.safetensors", "")
                print(f"{name:34} {mesh:>5} {columns}  {chosen:9} {ratios[0]:.2f} {ratios[1]:.2f}", flush=True)
    print("us: predicted, measured median/shortest")


if __name__ == "__main__":
    main()
