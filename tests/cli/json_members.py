"""What the command prints with --json is what cli/json.def says, member by member; docs/json.md is made of that table.

    json_members.py EXG             compares, for every command
    json_members.py --page          prints the page
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

# (object, words): $T is an empty folder. Together they must print every member of the table.
CALLS = [
    ("error", "inspect fixtures/bad/JSN-001.pt2"), ("error", "verify no/such.pt2"),
    ("version", "--version"), ("devices", "devices"),
    ("program", "inspect fixtures/lm.core.dynamic.pt2"), ("program", "inspect fixtures/examples.pt2"),
    ("tables", "inspect fixtures/lm.core.dynamic.pt2 --tree --list-weights"), ("tables", "inspect fixtures/mlp.pt2 --list-weights --values"),
    ("weights", "inspect fixtures/weights/little.gguf"), ("weights", "inspect fixtures/weights/nested.pt"),
    ("weights", "inspect fixtures/weights/later.safetensors --values"),
    ("signature", "inspect fixtures/lm.core.dynamic.pt2 --signature"), ("signature", "inspect fixtures/regression.joint.pt2 --signature"),
    ("graph", "inspect fixtures/lm.core.dynamic.pt2 --graph"), ("one_node", "inspect fixtures/convbn.pt2 --node relu"),
    ("digest", "inspect fixtures/mlp.pt2 --digest xxh3"), ("written", "inspect fixtures/mlp.pt2 --html $T/page.html"),
    ("written", "convert fixtures/mlp.pt2 $T/mlp.exg"),
    ("written", "convert fixtures/mlp.pt2 $T/dry.exg --dry-run"),
    ("written", "convert fixtures/mlp.pt2 $T/mlp.safetensors"),
    ("verify", "verify fixtures/mlp.pt2"), ("verify", "verify fixtures/mlp.pt2 fixtures/archives/several.pt2 fixtures/weights/later.safetensors"), ("verify", "verify fixtures/archives/several.pt2"), ("verify", "verify fixtures/bad/NOD-017.pt2"),
    ("diff", "diff fixtures/mlp.pt2 fixtures/tied.pt2"), ("diff", "diff fixtures/mlp.pt2 fixtures/regression.pt2"),
    ("archive_diff", "diff fixtures/archives/several.pt2 fixtures/archives/named.pt2"),
    ("code", "explain VAL-001"), ("code", "explain CLI-001"), ("codes", "explain --list"),
    ("stage", "explain fixtures/mlp.pt2 --stage simplify"),
    ("plan", "plan fixtures/mlp.pt2 --mesh 2x2 --place data,tensor --check"), ("plan", "plan fixtures/mlp.pt2 --mesh 2 --place pipeline"), ("sweep", "plan fixtures/mlp.pt2 --sweep 4"), ("plan", "plan fixtures/convbn.pt2 --device strict"),
    ("proved", "digest fixtures/mlp.pt2 --check-proof tests/cli/proof.json --root sha256:a157de760be625b9a8ea78388b266981ac181c804aebd95156d447c9e3672d89"),
    ("store_added", "store add $T/s fixtures/mlp.pt2"), ("store_list", "store list $T/s"), ("store_exported", "store export $T/s fixtures/mlp.pt2 $T/o"),
    ("store_verified", "store verify $T/s"), ("store_removed", "store remove $T/s fixtures/mlp.pt2"),
    ("signed", "digest fixtures/signed/model --sign fixtures/signed/p256.pem --bundle $T/model.sig"),
    ("as_signed", "digest fixtures/signed/model --signed-by fixtures/signed/p256.pub --bundle fixtures/signed/p256.sig"),
    ("model_digest", "digest fixtures/mlp.pt2"), ("proof", "digest fixtures/mlp.pt2 --proof up.weight"),
    ("patch", "patch fixtures/mlp.pt2 fixtures/tied.pt2 $T/p"),
    ("run", "run fixtures/mlp.pt2 --input fixtures/mlp.inputs.safetensors --expect fixtures/mlp.expected.safetensors --stats --profile"),
    ("run", "run fixtures/mlp.pt2 --mesh 2 --device strict --stats"), ("run", "run fixtures/constants.pt2"), ("run", "run fixtures/mlp.pt2 --fill zeros"),
    ("benchmark", "bench fixtures/mlp.pt2 --duration 0.05 --warm-up 0 --shape x=3x8"), ("benchmark", "bench fixtures/mlp.pt2 --duration 0.05 --with threads=1"),
    ("operators", "operators aten.add"), ("formats", "formats"),
    ("reduced", "reduce fixtures/mlp.pt2 $T/small.pt2 false"),
    ("comparison", "compare fixtures/mlp.pt2 --with device=strict --fill random"), ("comparison", "compare fixtures/convbn.pt2 fixtures/convbn.eval.pt2"),
    ("comparison", "compare --rank-file fixtures/parallel/splits.{rank}.pt2 --mesh 3 --fill random --rtol 0 --atol 0 --with precision=f64"),
    ("run", "run fixtures/mlp.pt2 --repeat 2 --stats"),
]  # fmt: skip


def read_table(path):
    """{object: (command, what, {key: (type, is optional, meaning)})}"""
    objects, row = {}, re.compile(r'EXG_JSON_(OBJECT|MEMBER)\((\w+|"[^"]*"), "([^"]*)", "([^"]*)"\)$')
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.startswith("EXG_"):
            continue
        match = row.match(line)
        if match is None:
            raise SystemExit(f"{path.name}:{number}: no row: {line}")
        kind, name, second, third = match.groups()
        name = name.strip('"')
        if kind == "OBJECT":
            members = {}
            objects[name] = (second, third, members)
        else:
            members[name.rstrip("?")] = (second, name.endswith("?"), third)
    return objects


def alternatives(kind):
    """"text or null" is one of two; what follows "list of" or "map of" is theirs."""
    if kind.startswith(("list of ", "map of ")):
        return [kind]
    first, _, rest = kind.partition(" or ")
    return [first] + (alternatives(rest) if rest else [])


class Check:
    def __init__(self, objects):
        self.objects, self.seen, self.faults = objects, set(), []

    def fault(self, where, what):
        self.faults.append(f"{where}: {what}")

    def fits(self, value, kind):
        """Could the value be of this kind, as far as its outside tells?"""
        number = not isinstance(value, bool)
        return {"text": isinstance(value, str), "integer": isinstance(value, int) and number,
                "number": isinstance(value, (int, float)) and number, "boolean": isinstance(value, bool), "null": value is None,
                "size": isinstance(value, (int, str)) and number, "constant": not isinstance(value, (dict, list)),
                "list": isinstance(value, list)}.get(kind.split()[0], isinstance(value, dict))  # fmt: skip

    def value(self, value, kind, where):
        kinds = alternatives(kind)
        found = next((k for k in kinds if self.fits(value, k)), None)
        if found is None:
            return self.fault(where, f"no {kind}: {value!r:.60}")
        if found.startswith("list of "):
            for i, item in enumerate(value):
                self.value(item, found.removeprefix("list of "), f"{where}[{i}]")
        elif found.startswith("map of "):
            for key, item in value.items():
                self.value(item, found.removeprefix("map of "), f"{where}.{key}")
        elif isinstance(value, dict):
            self.object(value, found, where)

    def object(self, value, name, where):
        members = self.objects[name][2]
        for key, item in value.items():
            if key not in members:
                self.fault(where, f"cli/json.def has no member {key} of {name}")
                continue
            self.seen.add((name, key))
            self.value(item, members[key][0], f"{where}.{key}")
        for key, (_, is_optional, _) in members.items():
            if key not in value and not is_optional:
                self.fault(where, f"no member {key}")

    def call(self, exg, name, words, folder):
        done = subprocess.run([exg, *words.replace("$T", folder).split(), "--json"], cwd=ROOT, capture_output=True, text=True, timeout=60)
        printed = done.stderr if name == "error" else done.stdout
        where = f"exg {words}"
        try:
            value = json.loads(printed)
        except ValueError:
            return self.fault(where, f"no JSON: {printed!r:.80} {done.stderr!r:.80}")
        if next(iter(value), "") != "format" or value.pop("format") != 1:
            self.fault(where, "the first member is not \"format\": 1")
        self.object(value, name, where)
        if value.get("runs") == 2 and value["median_ns"] != value["min_ns"]:
            self.fault(where, "of two runs the first is no part of the median")


def print_page(objects):
    print("# What `--json` prints\n")
    print("Made by `python3 tests/cli/json_members.py --page` of `cli/json.def`; a test compares what the command prints with it.\n")
    print('Each call prints one object. Its first member is `"format"`, the number of this form, now 1. New members may come without a')
    print("new number; it goes up when a member goes away or changes its meaning. What is marked `?` is not always there. Sizes are")
    print("integers, or expressions as text (`s77 + 1`). Texts are ASCII: other characters are written as `\\uXXXX`.\n")
    for name, (command, what, members) in objects.items():
        if command and not command.startswith("exg"):
            print(f"## {command}\n")
        else:
            print(f"## `{command}`\n" if command else f"### {name}\n")
        print(f"{what[:1].upper()}{what[1:]}.\n\n" if what else "", end="")
        print("| member | type | meaning |\n|---|---|---|")
        for key, (kind, is_optional, meaning) in members.items():
            link = " ".join(f"[{word}](#{word})" if word in objects else word for word in kind.split())
            print(f"| `{key}`{' ?' if is_optional else ''} | {link} | {meaning} |")
        print()


def main():
    objects = read_table(ROOT / "cli/json.def")
    if sys.argv[1] == "--page":
        return print_page(objects)
    check = Check(objects)
    with tempfile.TemporaryDirectory() as folder:
        for name, words in CALLS:
            check.call(sys.argv[1], name, words, folder)
    for name, (_, _, members) in objects.items():
        for key in members:
            if (name, key) not in check.seen and name != "device":  # which depends on the machine
                check.fault("cli/json.def", f"{name}.{key} was printed by no call")
    page = subprocess.run([sys.executable, __file__, "--page"], capture_output=True, text=True, check=True).stdout
    if (ROOT / "docs/json.md").read_text() != page:
        check.fault("docs/json.md", "is not what cli/json.def says: python3 tests/cli/json_members.py --page > docs/json.md")
    print("\n".join(check.faults))
    print(f"{len(check.seen)} members, {len(check.faults)} faults")
    return 1 if check.faults else 0


sys.exit(main())
