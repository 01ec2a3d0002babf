"""regret.py - what `auto` chose beside the best placement file that a search finds: random files and what changes of them, an entry at a
time, are predicted to take less. A pattern stands for a weight of all layers. Printed, never asserted; needs no PyTorch.

    python3 tests/bench/regret.py --exg build/release/cli/exg [--mesh 2,4] [--tries 300] [--costs FILE|NAME] [--measure] FILE.pt2 ...

Regret is auto's predicted time over that of the best file, less 1; below 0: no file is as good. --measure runs both, in turn, and
compares the shortest times as well. Programs worth it: mesh_models.py.
"""

import argparse
import json
import pathlib
import random
import re
import tempfile

from strategies import Strategies, call

KEPT = 4  # files that are changed


def entries(exg, program):
    """Each weight of two dims or more, and each input, with its rank."""
    said = json.loads(call([exg, "inspect", program, "--json"]))
    weights = {re.sub(r"\.\d+\.", ".*.", i["target"]): len(i["shape"]) for i in said["inputs"] if i["kind"] == "PARAMETER" and len(i["shape"]) > 1}
    inputs = {i["name"]: len(i["shape"]) for i in said["inputs"] if i["kind"] == "USER_INPUT"}
    return [("weights", name, rank) for name, rank in weights.items()] + [("inputs", name, rank) for name, rank in inputs.items()]


class Search:
    def __init__(self, s, folder, seed):
        self.s, self.path, self.random = s, f"{folder}/place.json", random.Random(seed)
        self.entries = entries(s.exg, s.program)
        self.known = {}

    def drawn(self, rank):
        return self.random.choice(["R", *(f"S({d})" for d in range(min(rank, 3)))])

    def write(self, words):
        said = {"weights": {}, "inputs": {}}
        for (kind, name, _), word in zip(self.entries, words):
            said[kind][name] = word
        pathlib.Path(self.path).write_text(json.dumps(said))

    def ns(self, words):
        if words not in self.known:
            self.write(words)
            self.known[words] = self.s.plan(self.path)[1]
        return self.known[words]

    def changed(self, words):
        words = list(words)
        for at in self.random.sample(range(len(words)), self.random.choice([1, 1, 2, 3])):
            words[at] = self.drawn(self.entries[at][2])
        return tuple(words)

    def best(self, tries):
        """Whole, by rows and by columns first, then random ones; half of the tries change the best."""
        for word in ("R", "S(0)", "S(1)"):
            for given in ("R", "S(0)", "S(1)"):
                self.ns(tuple(given if kind == "inputs" else word for kind, _, rank in self.entries))
        while len(self.known) < tries // 4:
            self.ns(tuple(self.drawn(rank) for _, _, rank in self.entries))
        for _ in range(3 * tries):
            if len(self.known) >= tries:
                break
            self.ns(self.changed(self.random.choice(sorted(self.known, key=self.known.get)[:KEPT])))
        return min(self.known, key=self.known.get)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exg", default="build/release/cli/exg")
    parser.add_argument("--mesh", default="2,4")
    parser.add_argument("--tries", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--costs", help="a table of costs; default: measured now")
    parser.add_argument("--measure", action="store_true")
    parser.add_argument("programs", nargs="+")
    options = parser.parse_args()
    print(f"{'program':10} ranks {'auto':>12} {'us':>10} {'best file us':>13} {'regret':>8}" + ("  measured" if options.measure else ""))
    with tempfile.TemporaryDirectory() as folder:
        for program in options.programs:
            for mesh in options.mesh.split(","):
                s = Strategies(options.exg, folder, program, None, mesh, options.costs)
                chosen, ns = s.plan("auto")
                search = Search(s, folder, options.seed)
                words = search.best(options.tries)
                line = f"{pathlib.Path(program).stem:10} {mesh:>5} {chosen:>12} {ns / 1e3:10.1f} {search.ns(words) / 1e3:13.1f} {ns / search.ns(words) - 1:8.1%}"
                if options.measure:
                    search.write(words)
                    measured = s.measure([chosen, search.path], 9)
                    line += f" {measured[chosen] / 1e3:9.1f} {measured[search.path] / 1e3:9.1f} {measured[chosen] / measured[search.path] - 1:8.1%}"
                print(line, flush=True)


if __name__ == "__main__":
    main()
