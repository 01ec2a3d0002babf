"""cli/example.def, a real example of each fault code that has one: what exg says of fixtures/bad, and of the simplest case in
tests/cli/cases.

    code_examples.py EXG             is the table current?
    code_examples.py EXG --update    writes it
"""

import concurrent.futures
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TABLE = ROOT / "cli/example.def"
HEAD = """/* example.def - a call that ends with a fault, and what it says. Written by tests/docs/code_examples.py.
 *   EXG_EXAMPLE(code, command, message) */
"""


def of_bad_file(exg, path):
    """(code, command, message) of a file that breaks the rule it is called after."""
    code = path.name.split(".")[0]
    command = ["verify", str(path.relative_to(ROOT))]
    for more in ([], ["--data"], ["--values"]):
        done = subprocess.run([exg, *command, *more, "--json"], cwd=ROOT, capture_output=True, text=True, check=False)
        said = [json.loads(text) for text in (done.stdout, done.stderr) if text]
        found = [d for one in said for d in one.get("diagnostics", []) + ([one["error"]] if "error" in one else [])]
        for one in found:
            if one["code"] == code:
                return code, " ".join(["exg", *command, *more]), one["message"]
    return None


def of_cases():
    """Of each code the shortest case that is one plain call and has it."""
    best = {}
    for path in sorted((ROOT / "tests/cli/cases").glob("*.cmd")):
        command, said = path.read_text().strip(), path.with_suffix(".err")
        if not command.startswith("exg ") or re.search(r"[;&|$\n]", command) or not said.exists():
            continue
        match = re.match(r"exg: ([A-Z0-9]+-[A-Z0-9]+): (.*)", said.read_text())
        if match and "TMP" not in match[2] and len(command) < len(best.get(match[1], (None, "x" * 999))[1]):
            best[match[1]] = (match[1], command, match[2])
    return best


def table(exg):
    rows = of_cases()
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for row in pool.map(lambda path: of_bad_file(exg, path), sorted((ROOT / "fixtures/bad").glob("*-*.*"))):
            if row:
                rows[row[0]] = row
    quoted = [", ".join('"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"' for word in rows[code]) for code in sorted(rows)]
    return HEAD + "".join(f"EXG_EXAMPLE({row})\n" for row in quoted)


def main():
    made = table(sys.argv[1])
    if "--update" in sys.argv:
        TABLE.write_text(made)
    elif TABLE.read_text() != made:
        print(f"{TABLE} is old: python3 tests/docs/code_examples.py EXG --update")
        return 1
    print(f"{made.count('EXG_EXAMPLE(')} codes have an example")
    return 0


if __name__ == "__main__":
    sys.exit(main())
