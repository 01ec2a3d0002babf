"""Every entry of PyTorch's operator database that has arguments to shard: exported, run by exg under every sharding of
its arguments (each whole or split along any dim, uneven too), beside itself unsharded. Prints a line an entry that is
not right or never keeps a result in shards, and a table at the end; see README.md beside this file.

    build/venv/bin/python tests/interop/shards.py --shards build/release/tests/shards [--ranks 4] [--samples 2] [--only NAME]

Not part of the tests: the same is tried over the operator corpus by exec_shards.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import io
import logging
import pathlib
import subprocess
import sys
import tempfile
import warnings

import safetensors.torch
import torch
from torch.testing._internal.common_methods_invocations import op_db

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import sweep  # noqa: E402
from sweep import program_json  # noqa: E402

DEADLINE = 240
KEPT = "a result kept in shards"


def chosen(op, count):
    """Samples with something to shard, those of most dims first."""
    found = []
    for sample in sweep.samples_of(op, 4 * count, sweep.DTYPES):
        rank = max((t.dim() for t in sweep.make_corpus.tensors_of(sample)), default=0)
        if rank > 0:
            found.append((-rank, len(found), sample))
    return [sample for _, _, sample in sorted(found, key=lambda item: item[:2])][:count]


def export(folder, op, count):
    """Paths of (program, inputs), a sample each."""
    made = []
    for n, sample in enumerate(chosen(op, count)):
        try:
            call = program_json.Call(op.op, (sample.input, *sample.args), sample.kwargs)
            with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
                program = program_json.export(call)
            model, inputs = folder / f"{n}.pt2", folder / f"{n}.safetensors"
            torch.export.save(program, model)
            safetensors.torch.save_file(dict(zip(call.names, (v.contiguous() for v in call.inputs))), inputs)
            made.append((model, inputs))
        except Exception:
            continue
    return made


def run(shards, ranks, model, inputs):
    """(right, wrong, failed, kept, summands, why)"""
    try:
        done = subprocess.run([shards, str(ranks), model, inputs], capture_output=True, text=True, timeout=DEADLINE)
    except subprocess.TimeoutExpired:
        return 0, 0, 1, 0, 0, "it does not end"
    words = done.stdout.split(maxsplit=5)
    if done.returncode != 0 or len(words) < 5:
        return 0, 0, 1, 0, 0, f"ended with {done.returncode}: {sweep.sentence(done.stderr)}"
    return (*(int(word) for word in words[:5]), words[5].strip() if len(words) > 5 else "")


def kind_of(right, wrong, failed, kept, summands):
    if right + wrong + failed == 0:
        return "does not run unsharded"
    if wrong > 0:
        return "wrong under some sharding"
    if failed > 0:
        return "fails under some sharding"
    how = KEPT if kept else "a result kept as summands" if summands else "results always replicated"
    return f"right under every sharding, {how}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shards", required=True)
    parser.add_argument("--ranks", type=int, default=4)
    parser.add_argument("--samples", type=int, default=6, help="of an entry")
    parser.add_argument("--table", help="write a line an entry to this file")
    parser.add_argument("--only", help="entries whose name begins so, or so: a,b")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    counts, table = collections.Counter(), []
    shardings = collections.Counter()

    def finish(name, job):
        result = [sum(column) for column in zip(*(r[:5] for r in job))]
        kind = kind_of(*result)
        counts[kind] += 1
        table.append(f"{name:50s} " + " ".join(f"{n:5d}" for n in result) + "\n")
        for key, value in zip(("right", "wrong", "failed", "kept", "summands"), result):
            shardings[key] += value
        if not kind.endswith(KEPT):
            print(f"{name}: {kind}: {next((r[5] for r in job if r[5]), '')}", flush=True)

    with tempfile.TemporaryDirectory(prefix="exg-shards-") as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = []
        for n, op in enumerate(op_db):
            if options.only and not op.name.startswith(tuple(options.only.split(","))):
                continue
            own = pathlib.Path(folder) / str(n)
            own.mkdir()
            made = export(own, op, options.samples)
            if not made:
                counts["nothing to shard, or not exported by PyTorch"] += 1
                continue
            name = op.name + ("." + op.variant_test_name if op.variant_test_name else "")
            jobs.append((name, [pool.submit(run, options.shards, options.ranks, *pair) for pair in made]))
            while jobs and (len(jobs) > 8 or all(job.done() for job in jobs[0][1])):
                name, done = jobs.pop(0)
                finish(name, [job.result() for job in done])
        for name, done in jobs:
            finish(name, [job.result() for job in done])
    if options.table:
        head = f"# {'entry':48s} right wrong failed kept summands: shardings over {options.ranks} ranks\n"
        pathlib.Path(options.table).write_text(head + "".join(sorted(table)))
    for kind, count in sorted(counts.items()):
        print(f"{count:6d} {kind}")
    print("shardings:", ", ".join(f"{count} {key}" for key, count in shardings.items()))


if __name__ == "__main__":
    main()
