"""record.py - the benchmarks of this folder on this machine, kept as a page: results/KIND.md, so
that a loss is seen where a page of the same kind of machine was before.

    build/venv/bin/python tests/bench/record.py --exg build/release/cli/exg [--only operators,products]
        [--cache FOLDER] [--kind NAME]      (--cache: models, decoder too; strategies and regret, of what mesh_models.py wrote
                                            to FOLDER/mesh)

Each part of a page is what one command printed. --only: those parts alone; the others stay as they
are. --kind: the page's name; else the vendor, the widest instructions and the cores of the machine.
"""

import argparse
import datetime
import os
import pathlib
import re
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
WIDEST = (("amx_tile", "amx"), ("avx512_bf16", "avx512-bf16"), ("avx512_vnni", "avx512-vnni"),
          ("avx512f", "avx512"), ("avx2", "avx2"))


def parts(args):
    """The commands by name; those of models want a folder that keeps them."""
    python, products = sys.executable, os.path.join(os.path.dirname(args.exg), "../tests/bench_weight_product")
    commands = {
        "operators": [python, FOLDER / "operators.py", "--exg", args.exg, "--rounds", "3", "--seconds", "0.05"],
        "products": [products, "1"],
        "growing_cache": [python, FOLDER / "growing_cache.py", "--bench",
                          os.path.join(os.path.dirname(args.exg), "../tests/bench_growing_cache")],
    }
    if args.cache:
        placed = sorted(pathlib.Path(args.cache).glob("mesh/*.pt2"))  # of mesh_models.py
        commands["strategies"] = [python, FOLDER / "strategies.py", "--exg", args.exg, "--rounds", "2", *placed]
        commands["regret"] = [python, FOLDER / "regret.py", "--exg", args.exg, "--tries", "200", *placed]
        models = [python, FOLDER / "models.py", "--exg", args.exg, "--cache", args.cache, "--against", "eager"]
        commands["models"] = models
        commands["decoder"] = [*models, "--only", "decoder-step,decoder-int8-step,decoder-int4-step",
                               "--dtype", "bf16", "--threads", "1"]
    return commands


def processor():
    lines = dict(re.findall(r"^([\w ]+?)\s*: (.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.M))
    flags = lines.get("flags", lines.get("Features", "")).split()
    vendor = re.sub("Authentic|Genuine", "", lines.get("vendor_id", "arm")).lower()
    return (lines.get("model name", "unknown").strip(), vendor,
            next((name for flag, name in WIDEST if flag in flags), "baseline"))


def kept(page):
    """What the page holds, by part."""
    text = page.read_text() if page.exists() else ""
    return dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.M | re.S))


def shown(command, cache):
    """As it is typed in the root of the sources."""
    words = ["python3" if w == sys.executable else "FOLDER" if w == cache else os.path.relpath(w) if pathlib.Path(w).is_relative_to(FOLDER) or w.startswith("build") else w
             for w in map(str, command)]
    return " ".join(words)


def record(command, cache):
    load = os.getloadavg()[0]
    ran = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"{shown(command, cache)}: {ran.stderr.strip()[-400:]}")
    day = datetime.date.today().isoformat()
    return f"\n`{shown(command, cache)}`, {day}, load before it {load:.1f}:\n\n```\n{ran.stdout.rstrip()}\n```\n\n"


def main():
    model, vendor, widest = processor()
    parser = argparse.ArgumentParser()
    parser.add_argument("--exg", required=True)
    parser.add_argument("--only", default="")
    parser.add_argument("--cache", default="")
    parser.add_argument("--kind", default=f"{vendor}-{widest}-{os.cpu_count()}")
    args = parser.parse_args()
    page = FOLDER / "results" / f"{args.kind}.md"
    commands = parts(args)
    names = args.only.split(",") if args.only else list(commands)
    for name in names:
        if name not in commands:
            parser.error(f"no part is called {name}: there are {', '.join(commands)}")
    page.parent.mkdir(exist_ok=True)
    for name in names:
        found = kept(page)
        found[name] = record(commands[name], args.cache)
        page.write_text(f"# {model}, {widest}, {os.cpu_count()} cores\n\n"
                        "Made by `tests/bench/record.py`. Ratios below 1: exg is faster.\n\n" +
                        "".join(f"## {part}\n{text}" for part, text in found.items()).rstrip() + "\n")
        print(f"{page}: {name}", flush=True)


if __name__ == "__main__":
    main()
