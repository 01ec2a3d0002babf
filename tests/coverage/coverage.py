"""Which lines of the product the tests ran, by directory, as gcov counted them.

    coverage.py BUILD [--files]     BUILD was built by the preset `coverage`, and its tests were run; --files: by file

A line that is compiled more than once (loops, for each instruction set) counts as run where one of them ran.
"""

import argparse
import collections
import json
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = ("libexport", "libexec", "cli")
BATCH = 40  # files a call of gcov


def lines_of(build):
    """{path: {line: times it ran}} of the sources of the product."""
    notes = sorted(str(n) for part in PARTS for n in (build / part).rglob("*.gcno"))
    counts = collections.defaultdict(dict)
    for at in range(0, len(notes), BATCH):
        command = ["gcov", "--json-format", "--stdout", *notes[at : at + BATCH]]
        answer = subprocess.run(command, cwd=build, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        for text in answer.stdout.splitlines():
            for file in json.loads(text)["files"]:
                path = (build / file["file"]).resolve()
                if path.is_relative_to(ROOT) and path.relative_to(ROOT).parts[0] in PARTS:
                    lines = counts[path.relative_to(ROOT)]
                    for line in file["lines"]:
                        number = line["line_number"]
                        lines[number] = max(lines.get(number, 0), line["count"])
    return counts


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--files", action="store_true")
    options = parser.parse_args()
    total = collections.Counter()
    ran = collections.Counter()
    for path, lines in lines_of(options.build.resolve()).items():
        for name in {"all", path.parts[0], str(path.parent), str(path) if options.files else "all"}:
            total[name] += len(lines)
            ran[name] += sum(count > 0 for count in lines.values())
    if not total:
        sys.exit(f"{options.build}: no counts; was it built by `cmake --preset coverage`, and were its tests run?")
    for name in sorted(total):
        print(f"{100 * ran[name] / total[name]:5.1f} %  {ran[name]:6} of {total[name]:6} lines  {name}")


if __name__ == "__main__":
    main()
