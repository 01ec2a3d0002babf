"""trace.py EXG - what --trace writes, by the Trace Event Format that Perfetto reads.

Events are complete ones (X: a start and a duration in microseconds) and names (M) of every process and line that has some. On one line
events lie behind one another: Perfetto drops what begins within another and ends after it. That holds over the segments of a program, too.
"""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXG = sys.argv[1]
ROUNDED = 0.0015  # start and duration are rounded to a nanosecond each
# Options, and the lines that there are.
RUNS = {
    "mlp": ((), ["rank 0"]),
    "branch": ((), ["rank 0"]),
    "elements": ((), ["rank 0"]),
    "loops": ((), ["rank 0"]),
    "examples": ((), ["rank 0"]),
    "lm.core.dynamic": (("--fill", "random", "--mesh", "2x2", "--place", "data,tensor", "--repeat", "3"), [f"rank {r}" for r in range(4)]),
    "convbn": (("--mesh", "2", "--place", "data", "--device", "strict"), ["rank 0", "rank 0, strict:0", "rank 1", "rank 1, strict:1"]),
}


def faults_of(event, names):
    kind, line = event.get("ph"), (event.get("pid"), event.get("tid"))
    if not all(isinstance(n, int) and n > 0 for n in line) or not isinstance(event.get("name"), str):
        return ["has no process, line or name"]
    if kind == "M":
        names.setdefault(event["name"], {})[line] = event["args"]["name"]
        return [] if event["name"] in ("process_name", "thread_name") else ["names what nothing reads"]
    if kind != "X":
        return [f"is of phase {kind}"]
    return [f"has the {k} {event.get(k)}" for k in ("ts", "dur") if not isinstance(event.get(k), (int, float)) or event[k] < 0]


def check(path, lines):
    names, faults, events = {}, [], json.loads(path.read_text())["traceEvents"]
    for event in events:
        faults += [f"{event} {fault}" for fault in faults_of(event, names)]
    if sorted(names.get("thread_name", {}).values()) != sorted(lines):
        faults.append(f"lines {sorted(names.get('thread_name', {}).values())}")
    steps = sorted((e for e in events if e["ph"] == "X"), key=lambda e: (e["pid"], e["tid"], e["ts"]))
    faults += [f"line {e['tid']} has no name" for e in steps if (e["pid"], e["tid"]) not in names["thread_name"]]
    if {e["pid"] for e in steps} - {pid for pid, _ in names["process_name"]} or not steps:
        faults.append("a process has no name")
    for a, b in zip(steps, steps[1:]):
        if (a["pid"], a["tid"]) == (b["pid"], b["tid"]) and b["ts"] < a["ts"] + a["dur"] - ROUNDED:
            faults.append(f"{b['name']} begins at {b['ts']}, before {a['name']} of {a['ts']} ends after {a['dur']}")
    return faults


def main():
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "trace.json"
        for name, (options, lines) in RUNS.items():
            subprocess.run([EXG, "run", f"fixtures/{name}.pt2", "--trace", path, *options], cwd=ROOT, capture_output=True, check=True)
            faults += [f"{name}: {fault}" for fault in check(path, lines)]
    print(*faults[:20], f"{len(RUNS)} traces, {len(faults)} faults", sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
