"""parallel.py EXG STANDIN [MPIEXEC] - programs that are already parallel give what PyTorch's ranks give.

fixtures/parallel/ has the programs, and for each rank its inputs and PyTorch's results. They run over threads, on the device
strict, and where MPIEXEC is given over processes, which write the same bits. On GPUs: over the stand-ins of CUDA and NCCL
in the folder STANDIN, where they are built. Then what is wrong with a mesh, a group, a file or a rank: each fault is told with
its code, by a command that ends.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import zipfile

EXG, STANDIN, MPIEXEC = sys.argv[1], sys.argv[2], sys.argv[3:]
FIXTURES = pathlib.Path("fixtures/parallel")
SECONDS = 60
OVER_NCCL = {"moves2", "splits", "tensor_parallel"}
faults = 0


def fail(*words):
    global faults
    faults += 1
    print("FAILED", *words)


def exg(*words, ranks=0, **environment):
    launched = [*MPIEXEC, "-n", str(ranks)] if ranks else []
    try:
        return subprocess.run([*launched, EXG, *map(str, words)], capture_output=True, text=True, timeout=SECONDS,
                              env=os.environ | environment)
    except subprocess.TimeoutExpired:
        fail("does not end:", *words)
        return subprocess.CompletedProcess(words, -1, "", "")


def expect(code, *words, ranks=0, says=()):
    """One fault, told by its code: by each process its own, or that another failed."""
    done = exg(*words, ranks=ranks)
    if done.returncode == 0 or f"{code}:" not in done.stderr + done.stdout:
        fail(code, "is not told:", *words, "but:", done.returncode, done.stderr.strip())
    for text in says:
        if text not in done.stderr + done.stdout:
            fail(code, "does not say", repr(text), "but:", done.stderr.strip())


class Case:
    def __init__(self, line):
        self.name, self.mesh, own, *groups = line.split()
        self.ranks = 1
        for n in self.mesh.split("x"):
            self.ranks *= int(n)
        self.groups = [word for g in groups for word in ("--group", g)]
        self.own = own == "own"
        self.file = FIXTURES / (f"{self.name}.{{rank}}.pt2" if self.own else f"{self.name}.pt2")
        self.first = str(self.file).replace("{rank}", "0")

    def program(self):
        return ["--rank-file", self.file] if self.own else [self.file]

    def files(self):
        return ["--input", FIXTURES / f"{self.name}.{{rank}}.inputs.safetensors",
                "--expect", FIXTURES / f"{self.name}.{{rank}}.expected.safetensors"]

    def run(self, *words, ranks=0, **environment):
        done = exg("run", *self.program(), "--mesh", self.mesh, *self.groups, *self.files(), *words, ranks=ranks, **environment)
        if done.returncode != 0:
            fail(self.name, *words, "processes" if ranks else "threads", done.stderr.strip())
        return done


def check_case(case, work):
    mesh = ["--mesh", case.mesh, *case.groups] if not case.own else []
    done = exg("verify", case.first, *mesh, "--deny", "warnings")
    if done.returncode != 0:
        fail("verify", case.name, done.stdout)
    done = exg("plan", *case.program(), "--mesh", case.mesh, *case.groups, *case.files()[:2], "--check")
    if done.returncode != 0 or "checked: all ranks issue the same" not in done.stdout:
        fail("plan --check", case.name, done.stdout, done.stderr)
    case.run("--output", work / "threads.{rank}.safetensors")
    case.run("--device", "strict")
    if pathlib.Path(STANDIN, "libcuda.so.1").exists():
        case.run("--device", "cuda", LD_LIBRARY_PATH=STANDIN, XDG_CACHE_HOME=f"{STANDIN}/cache", EXG_STANDIN_DEVICES=str(case.ranks))
    if not MPIEXEC:
        return
    case.run("--output", work / "processes.{rank}.safetensors", ranks=case.ranks)
    if case.name in OVER_NCCL and pathlib.Path(STANDIN, "libnccl.so.2").exists():
        case.run("--device", "cuda", ranks=case.ranks, LD_LIBRARY_PATH=STANDIN, XDG_CACHE_HOME=f"{STANDIN}/cache", EXG_STANDIN_DEVICES=str(case.ranks))
    for rank in range(case.ranks):
        a, b = (work / f"{kind}.{rank}.safetensors" for kind in ("threads", "processes"))
        if not a.exists() or not b.exists() or a.read_bytes() != b.read_bytes():
            fail(case.name, "rank", rank, "has other outputs over processes")


def edited(source, target, change):
    """The archive with its program changed."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for item in old.infolist():
            data = old.read(item)
            if item.filename.endswith("models/model.json"):
                model = json.loads(data)
                for node in model["graph_module"]["graph"]["nodes"]:
                    change(node)
                data = json.dumps(model).encode()
            new.writestr(item.filename, data)
    return target


def argument(node, name):
    return next((i["arg"] for i in node["inputs"] if i["name"] == name), None)


def set_argument(name, kind, value):
    def change(node):
        if "c10d" in node["target"] and argument(node, name) is not None:
            argument(node, name)[kind] = value

    return change


def with_first(path, name, number):
    """The bytes of the file, the first element of an int64 tensor in it replaced."""
    data = bytearray(path.read_bytes())
    length = int.from_bytes(data[:8], "little")
    begin = 8 + length + json.loads(data[8 : 8 + length])[name]["data_offsets"][0]
    data[begin : begin + 8] = number.to_bytes(8, "little", signed=True)
    return data


def check_late(case, work):
    """A rank that goes on and on ends with those that wait for it no longer; one that comes late is waited for."""
    for rank, steps in ((0, 0), (1, 10**12)):
        (work / f"late.{rank}.safetensors").write_bytes(with_first(FIXTURES / f"late.{rank}.inputs.safetensors", "steps", steps))
    words = ["run", case.file, "--input", work / "late.{rank}.safetensors", "--loop-limit", 10**13, "--work-limit", "1e30"]
    for ranks in (0, case.ranks) if MPIEXEC else (0,):
        expect("COM-001", *words, *([] if ranks else ["--mesh", "2"]), "--timeout", "2", ranks=ranks, says=["rank 1", "all_reduce"])
    expect("RUN-004", *words[:-4], "--loop-limit", "5", "--mesh", "2", says=["rank 1"])
    expect("RUN-011", *words, "--mesh", "2", "--time-limit", "1")


def check_faults(cases, work):
    moves, groups, splits, experts = (cases[n] for n in ("moves2", "tensor_parallel", "splits", "experts"))
    alike = ["--input", FIXTURES / "moves2.0.inputs.safetensors"]
    one = [moves.file, *alike]
    expect("COM-013", "run", *one, "--mesh", "3", says=["group '0'", "all_gather_into_tensor", "--mesh"])
    expect("COM-013", "run", *one)
    expect("COM-013", "plan", moves.file, "--mesh", "4")
    expect("COM-013", "verify", moves.file, "--mesh", "4")
    expect("COM-013", "verify", cases["shards"].file, "--mesh", "2", says=["shard_dim_alltoall"])
    expect("COM-013", "verify", cases["deprecated"].file, "--mesh", "2")
    expect("COM-014", "run", *one, "--mesh", "2", "--group", "tp=0", says=["'tp'"])
    expect("COM-014", "run", *one, "--mesh", "2", "--group", "0=1", says=["'0'", "below 1"])
    expect("COM-014", "run", *one, "--mesh", "2x2", "--group", "0=1,0", says=["ascend"])
    expect("COM-014", "run", *one, "--mesh", "2", "--group", "0=0", "--group", "0=0", says=["twice"])
    for wrong in ("0", "=0", "0=", "0=a", "0=0,", "0=99"):
        expect("COM-014", "run", *one, "--mesh", "2", "--group", wrong)
    expect("COM-014", "run", "--rank-file", groups.file, "--mesh", "2x2", *groups.files(), says=["'3'"])
    expect("CLI-009", "plan", "fixtures/mlp.pt2", "--mesh", "2", "--place", "replicate", "--group", "0=0", says=["parallel"])
    expect("COM-015", "run", *one, "--mesh", "2", "--place", "tensor", says=["already parallel"])
    expect("COM-015", "plan", moves.file, "--mesh", "2", "--place", "fsdp")
    expect("CLI-009", "verify", "fixtures/mlp.pt2", "--mesh", "2")
    expect("CLI-009", "run", moves.file, "--rank-file", moves.file, "--mesh", "2")
    for option in ("--output", "--state-output", "--trace"):
        expect("CLI-011", "run", *one, "--mesh", "2", option, work / "out.safetensors", says=["{rank}"])
    # what nodes say
    odd = edited(moves.file, work / "odd.pt2", set_argument("reduce_op", "as_string", "mean"))
    expect("NOD-017", "verify", odd, says=["'mean'"])
    odd = edited(moves.file, work / "odd.pt2", set_argument("src", "as_int", 2))
    expect("COM-013", "verify", odd, "--mesh", "2", says=["from rank 2"])
    odd = edited(moves.file, work / "odd.pt2", set_argument("output_split_sizes", "as_ints", [4]))
    expect("NOD-017", "verify", odd)
    odd = edited(cases["reductions"].file, work / "odd.pt2", lambda n: n.update(target=n["target"].replace("all_reduce", "isend")))
    expect("OPR-003", "run", odd, "--input", FIXTURES / "reductions.0.inputs.safetensors", says=["permute_tensor"])
    # ranks that do not fit together
    shutil.copy(moves.file, work / "mixed.0.pt2")
    edited(moves.file, work / "mixed.1.pt2", lambda n: n["target"].endswith("all_reduce.default")
           and set_argument("reduce_op", "as_string", "avg")(n))
    mixed = ["run", "--rank-file", work / "mixed.{rank}.pt2", *alike]
    expect("COM-009", *mixed, "--mesh", "2", says=["collectives"])
    expect("COM-002", "run", splits.first, "--mesh", "3", "--input", FIXTURES / "splits.0.inputs.safetensors")
    (work / "mixed.1.pt2").unlink()
    expect("IO-OPEN", *mixed, "--mesh", "2", says=["rank 1"])
    # a rank's own fault ends all
    inputs = work / "in.{rank}.safetensors"
    for rank in range(3):
        shutil.copy(FIXTURES / f"experts.{rank}.inputs.safetensors", str(inputs).replace("{rank}", str(rank)))
    shutil.copy(FIXTURES / "moves2.0.inputs.safetensors", work / "in.1.safetensors")
    expect("INP-001", "run", experts.file, "--mesh", "3", "--input", inputs, says=["rank 1"])
    (work / "in.1.safetensors").write_bytes(with_first(FIXTURES / "experts.1.inputs.safetensors", "to", -5))
    expect("RUN-001", "run", experts.file, "--mesh", "3", "--input", inputs, says=["rank 1"])
    if MPIEXEC:
        expect("COM-013", "run", *one, ranks=3)
        expect("IO-OPEN", *mixed, ranks=2)
        expect("CLI-011", "run", *one, "--output", work / "out.safetensors", ranks=2)
        expect("RUN-001", "run", experts.file, "--input", inputs, ranks=3)
        expect("DTN-001", "run", *one, "--mesh", "2", ranks=3)
        expect("COM-002", "run", splits.first, "--input", FIXTURES / "splits.0.inputs.safetensors", ranks=3)


def check_order(case, work):
    """Ranks whose programs do not fit, found without a run: plan --check names the nodes that do not meet."""
    two = ("along0", "along1")
    for n in (0, 1):  # a program of two all_reduces, along either dim first
        def along(node, turned=n):
            if node["target"].endswith(".all_reduce.default") and along.count < 2:
                argument(node, "group_name")["as_string"] = two[(along.count + turned) % 2]
                along.count += 1

        along.count = 0
        edited(case.file, work / f"order.{n}.pt2", along)
    words = ["plan", "--rank-file", work / "rank.{rank}.pt2", "--mesh", "2x2", "--check", "--input", FIXTURES / "reductions.0.inputs.safetensors"]
    words += ["--group", "0=0,1", "--group", "along0=0", "--group", "along1=1"]
    for orders, fits in (((0, 0, 0, 0), True), ((1, 1, 1, 1), True), ((0, 1, 1, 0), False)):
        for rank, n in enumerate(orders):
            shutil.copy(work / f"order.{n}.pt2", work / f"rank.{rank}.pt2")
        done = exg(*words)
        if (done.returncode == 0) != fits:
            fail("order", orders, done.returncode, done.stdout[:200], done.stderr)
        if not fits and ("COM-010: rank " not in done.stderr or " waits for rank " not in done.stderr):
            fail("order", orders, "does not say who waits:", done.stderr)
    for rank in range(4):
        shutil.copy(case.file, work / f"rank.{rank}.pt2")
    edited(case.file, work / "rank.2.pt2", lambda n: n["target"].endswith("all_reduce.default")
           and set_argument("reduce_op", "as_string", "max")(n))
    expect("COM-010", *words[:4], "4", *words[5:8], says=["rank 0 issues all_reduce at", "rank 2 all_reduce at"])
    for rank in range(4):
        shutil.copy(FIXTURES / "reductions.0.inputs.safetensors", work / f"in.{rank}.safetensors")
    shutil.copy(FIXTURES / "moves2.0.inputs.safetensors", work / "in.3.safetensors")
    expect("INP-003", "plan", case.file, "--mesh", "4", "--check", "--input", work / "in.{rank}.safetensors", says=["rank 3"])


def check_one_rank(cases, work):
    """In a group of one they are identities; of ranks alike, groups along either dim give the same."""
    alone = edited(cases["reductions"].file, work / "alone.pt2", lambda n: None)
    for rank, *mesh in ("0",), ("{rank}",), ("{rank}", "--mesh", "1"), ("0", "--mesh", "1x1"), ("0", "--mesh", "2x1", "--group", "0=1"):
        done = exg("run", alone, "--input", FIXTURES / f"reductions.{rank}.inputs.safetensors", *mesh)
        if done.returncode != 0 or "0: float32[3, 5]" not in done.stdout:
            fail("alone", rank, *mesh, done.stderr)
    case = cases["moves2"]
    for dim in ("0", "1"):
        words = ["--mesh", "2x2", "--group", f"0={dim}", "--output", work / f"along{dim}.{{rank}}.safetensors"]
        for rank in range(4): # of rank (i, j) those of rank i, or j, of the line
            along = rank // 2 if dim == "0" else rank % 2
            shutil.copy(FIXTURES / f"moves2.{along}.inputs.safetensors", work / f"in.{rank}.safetensors")
            shutil.copy(FIXTURES / f"moves2.{along}.expected.safetensors", work / f"want.{rank}.safetensors")
        done = exg("run", case.file, *words, "--input", work / "in.{rank}.safetensors", "--expect", work / "want.{rank}.safetensors")
        if done.returncode != 0:
            fail("along dim", dim, done.stderr)


def check_plan(cases):
    done = exg("plan", cases["moves3"].file, "--mesh", "3")
    if done.returncode != 0 or "mesh 3 of threads, already parallel: " not in done.stdout:
        fail("plan", done.stdout, done.stderr)
    done = exg("plan", "--rank-file", cases["tensor_parallel"].file, "--mesh", "2x2", *cases["tensor_parallel"].groups, "--processes")
    if done.returncode != 0 or "mesh 2x2 of processes, already parallel: 1 all_gather, 3 all_reduce" not in done.stdout:
        fail("plan of a rank", done.stdout, done.stderr)
    done = exg("explain", cases["tensor_parallel"].first, "--stage", "plan", "--mesh", "2x2", "--group", "2=0", "--group", "1=0", "--group", "3=1")
    if done.returncode == 0 or "'2'" not in done.stderr:  # is another rank's
        fail("explain", done.stdout, done.stderr)
    case = cases["late"]
    if exg("run", *case.program(), "--mesh", "2", "--place", "replicate", *case.files()).returncode != 0:
        fail("what is replicated is not placed")
    done = exg("run", cases["shards"].file, "--mesh", "3", "--input", FIXTURES / "shards.{rank}.inputs.safetensors", "--stats")
    if "in 3 collectives" not in done.stdout: # of 2 of 3 parts of 36 numbers, three times
        fail("stats", done.stdout, done.stderr)


def main():
    cases = {case.name: case for case in map(Case, (FIXTURES / "cases.txt").read_text().splitlines())}
    with tempfile.TemporaryDirectory(prefix="exg-parallel.") as folder:
        work = pathlib.Path(folder)
        for case in cases.values():
            check_case(case, work)
        check_one_rank(cases, work)
        check_plan(cases)
        check_order(cases["reductions"], work)
        check_faults(cases, work)
        check_late(cases["late"], work)
    print(f"{len(cases)} cases, {faults} faults")
    return faults != 0


if __name__ == "__main__":
    sys.exit(main())
