"""A fault hides no other: two rules are broken in one archive, and exg verify tells both.

    pairs.py EXG [--all]       a sixth of all pairs, or all

The makers are those of fixtures/bad/break_program.py; needs nothing but Python. A pair counts in the order in which
both are told, if there is one; where the makers write the same place, there may be none. HIDES has the pairs where one fault takes away what the
other is seen by.
"""

import itertools
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "fixtures" / "bad"))
sys.dont_write_bytecode = True
import break_program  # noqa: E402 - fills BREAKS
from sound import BREAKS, Archive  # noqa: E402

SHARE = 6

# code: those beside which it is not told, and why.
HIDES = {
    # nothing is known of the operator, so nothing of its arguments
    **dict.fromkeys(["NOD-004", "NOD-008"], {"NOD-001", "NOD-002", "NOD-014"}),
    "NOD-017": {"GRF-006", "SYM-001", "NOD-006", "SYM-013"},  # the size has no number, the argument no use, no size is admitted
    "SYM-013": {"SIG-001", "MCG-007"},  # what guards call the inputs is not known
    "NOD-018": {"SYM-010", "SYM-011", "GRF-006", "SYM-012"}, "NOD-022": {"SYM-010", "SYM-011", "GRF-006", "SYM-012", "VAL-002", "VAL-004", "VAL-010", "NOD-001", "NOD-002", "NOD-003", "NOD-004",
                "NOD-007", "NOD-008", "NOD-014"},
    "GRF-006": {"NOD-001", "NOD-002", "NOD-014", "VAL-010"},  # it may make any size
    "SYM-006": {"NOD-001", "NOD-002", "NOD-003", "NOD-004", "NOD-007", "NOD-008", "NOD-014", "VAL-002", "VAL-004", "VAL-010"}
    | {"SYM-007"},  # which sizes are admitted is not known
    # specs and graph values cannot be paired
    "SIG-004": {"SIG-001"}, "SIG-010": {"SIG-001"}, "SIG-018": {"SIG-002"}, "SIG-023": {"SIG-002"},
    "SIG-024": {"SIG-001", "SIG-002"}, "MCG-002": {"SIG-001"}, "MCG-003": {"SIG-002"},
    # where nothing may be written, a write is told as such
    "NOD-019": {"NOD-013", "NOD-021"}, "NOD-020": {"NOD-013", "NOD-021"},
    # a pickle has no meta
    "WGT-007": {"WGT-013"}, "WGT-008": {"WGT-013"}, "WGT-009": {"WGT-013"}, "WGT-012": {"WGT-009", "WGT-013"},
    # what one maker does, the other goes by: names of weights, uses, values, one node
    "SIG-030": {"SIG-019", "SIG-020"},
    "SIG-011": {"SIG-005", "SIG-006", "SIG-007", "SIG-008", "SIG-013"},
    "SIG-015": {"SIG-006"}, "SIG-016": {"SIG-005"}, "SIG-020": {"SIG-005"},
    "SIG-027": {"SIG-005", "SIG-006", "SIG-007", "SIG-008", "SIG-013", "SIG-015", "SIG-016", "SIG-020", "SIG-021", "SIG-023",
                "SIG-024", "SIG-030"},
    "VAL-002": {"VAL-003", "VAL-010"}, "VAL-003": {"VAL-010"}, "NOD-003": {"NOD-001", "NOD-002", "NOD-014", "NOD-004"},
    "NOD-007": {"NOD-001", "NOD-002", "NOD-014", "NOD-008"}, "DIA-001": {"NOD-013", "NOD-021"}, "MCG-001": {"MCG-004"},
    "MET-001": {"MET-002"},
}  # fmt: skip


def changes(code):
    """The places that a maker writes; what it only adds to a list is in nobody's way."""
    before, after, found = Archive(), Archive(), set()
    BREAKS[code](after)

    def compare(a, b, path):
        if isinstance(a, dict) and isinstance(b, dict):
            for key in a.keys() | b.keys():
                compare(a.get(key), b.get(key), (*path, key))
        elif isinstance(a, list) and isinstance(b, list) and len(b) >= len(a):
            for i, item in enumerate(a):
                compare(item, b[i], (*path, i))
        elif a != b:
            found.update(path[:n] for n in range(2, len(path) + 1))

    for part in ("model", "weights", "constants"):
        compare(getattr(before, part), getattr(after, part), (part,))
    return found


def hidden(a, b):
    return b in HIDES.get(a, ()) or a in HIDES.get(b, ())


def meet(a, b):
    """Does one maker write what the other does, or something around it?"""
    ends = [{p for p in places if not any(q[: len(p)] == p and q != p for q in places)} for places in (a, b)]
    return any(p in b for p in ends[0]) or any(p in a for p in ends[1])


def told(exg, path, first, second):
    """The codes that are told of an archive broken twice; None: the makers do not get along."""
    archive = Archive()
    try:
        BREAKS[first](archive)
        BREAKS[second](archive)
    except (IndexError, KeyError, StopIteration, TypeError):
        return None
    path.write_bytes(archive.write("pair"))
    done = subprocess.run([exg, "verify", path, "--json"], capture_output=True, text=True, timeout=60)
    if done.returncode not in (0, 4):
        return {f"exit code {done.returncode}"}
    return {d["code"] for d in json.loads(done.stdout).get("diagnostics", [])}


def main():
    exg, share = sys.argv[1], 1 if "--all" in sys.argv else SHARE
    rules = (ROOT / "libexport" / "verify" / "rule.def").read_text()
    keeper = dict(re.findall(r'EXG_RULE\("([A-Z0-9-]+)", *\w+, *(\w+)', rules))
    codes = [c for c in BREAKS if keeper[c] == "VERIFYING" and BREAKS[c].__module__ == "break_program"]
    passed = failed = 0
    with tempfile.TemporaryDirectory(prefix="exg-pairs-") as folder:
        path = pathlib.Path(folder) / "pair.pt2"
        places = {code: changes(code) for code in codes}
        for number, (a, b) in enumerate(itertools.combinations(codes, 2)):
            if hidden(a, b) or number % share:
                continue
            found = [told(exg, path, a, b), told(exg, path, b, a)]
            if any(f is not None and {a, b} <= f for f in found):
                passed += 1
            elif found != [None, None] and not meet(places[a], places[b]):
                failed += 1
                print(f"FAIL {a} and {b}: told are {[sorted(f or []) for f in found]}")
    print(f"{passed} passed, {failed} failed")
    return failed > 0 or passed == 0


if __name__ == "__main__":
    sys.exit(main())
