"""Every test of this folder, as many at once as there are processors. PyTorch is loaded once: each test is a fork, and what
it prints comes when it ends, what failed once more at the very end. See README.md beside this file."""

import argparse
import os
import pathlib
import runpy
import sys
import tempfile
import time

import torch.export.experimental  # noqa: F401 - what most tests spend their first seconds on

FOLDER = pathlib.Path(__file__).resolve().parent
# Those that take longest begin first, or one processor waits for them in the end.
FIRST = ["run_collectives", "run_model", "run_nvrtc", "run_numbers", "run_random", "run_save", "run_stages", "run_tensor"]
# Tables of many programs, a minute or more each: with --all.
LONG = ["run_export_tests", "run_optimizers", "run_reports", "run_stages"]
# Those that have an --all of their own: more rows, or more of each.
FULLER = ["run_aliases", "run_collectives", "run_stages"]


def load_all():
    """What PyTorch loads when a program is first exported: once here, or every test spends a second on it."""
    torch.set_num_threads(1)  # or tests at once get in each other's way
    for strict in (False, True):
        torch.export.export(torch.nn.ReLU(), (torch.ones(2),), strict=strict).run_decompositions()


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--exg", required=True, help="the exg binary")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--all", action="store_true", help=f"also {', '.join(LONG)}; all of {', '.join(FULLER)}")
    options = parser.parse_args()
    load_all()
    waiting = [path for path in FOLDER.glob("run_*.py") if options.all or path.stem not in LONG]
    waiting.sort(key=lambda path: (path.stem not in FIRST, path.stem))
    running, failed, faults = {}, [], []
    while waiting or running:
        if waiting and len(running) < options.jobs:
            script, said = waiting.pop(0), tempfile.TemporaryFile("w+", errors="replace")
            child = os.fork()
            if child == 0:
                os.dup2(said.fileno(), 1)
                os.dup2(said.fileno(), 2)
                more = ["--all"] if options.all and script.stem in FULLER else []
                sys.argv = [str(script), "--exg", options.exg, *more]
                runpy.run_path(str(script), run_name="__main__")
                sys.exit()
            running[child] = (script.stem, said, time.monotonic())
        else:
            child, status = os.wait()
            name, said, begun = running.pop(child)
            said.seek(0)
            lines = said.read().splitlines()
            said.close()
            print(f"== {name}: {time.monotonic() - begun:.0f} s", *lines, sep="\n", flush=True)
            if status != 0:
                failed += [name]
                faults += [line for line in lines if line.startswith("FAIL ")] or lines[-20:]
    print(*faults, f"interop: failed: {', '.join(failed)}" if failed else "interop: all passed", sep="\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
