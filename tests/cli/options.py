"""options.py EXG - what option.def says of each option is so.

Every option is tried in every command that takes it, on every kind of FILE and OUT: where the table says that it has
no meaning the call is refused and names it, and where it is taken it changes something. So are all pairs of options.
The table is read and judged here by itself; a new row needs a value below, and nothing else.
"""

import concurrent.futures
import itertools
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import typing

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXG = str(pathlib.Path(sys.argv[1]).resolve())
OPTION = re.compile(r'^EXG_(FLAG|TEXT_OPTION|LIST_OPTION|NUMBER_OPTION|WHOLE_OPTION)\((.*)\)$')
COMMAND = re.compile(r"^EXG_COMMAND\((\w+), '(\w)'", re.M)

# A value that makes a difference, of each option that takes one: in all commands, or by command.
VALUES = {
    "--select": "nosuch", "--exclude": "nosuch", "--prefix-strip": "nosuch", "--rename": "$=s", "--dtype": "f16",
    "--transpose": "nosuch", "--metadata": "a=b", "--merge": "fixtures/mlp.inputs.safetensors", "--concat": "nosuch=0",
    "--for": "fixtures/mlp.pt2", "--expect-digest": "sha256:00",
    "--shard": "2", "--preset": "tests/cli/number.preset", "--set": "n=1",
    "--program": "nosuch", "--kind": "xxh3", "--proof": "nosuch", "--rows": "0:1", "--check-proof": "nosuch", "--root": "sha256:00", "--as": "nosuch", "--sign": "fixtures/signed/p256.pem", "--signed-by": "fixtures/signed/p256.pub", "--bundle": "{T}/model.sig",
    "--node": "linear",
    "--html": "{T}/page.html", "--annotate": "docs/nosuch.json", "--exg": "{T}/nosuch",
    "--sort": "size",
    "--filter": "nosuch",
    "--deny": "notes",
    "--allow": "notes",
    "--compress": "zstd",
    "--weights": "external",
    "--digest": "sha256",
    "--weights-from": "fixtures/mlp.inputs.safetensors",
    "--byte-order": "big",
    "--split": "100",
    "--align": "1M",
    "--input": "fixtures/tied.inputs.safetensors", "--ops": "./none.so",
    "--output": "{T}/out.safetensors",
    "--state": "fixtures/mlp.inputs.safetensors",
    "--state-output": "{T}/state.safetensors",
    "--expect": "fixtures/mlp.expected.safetensors",
    "--trace": "{T}/trace.json",
    "--device": "nosuch",
    "--isa": "nosuch",
    "--precision": "f64",
    "--mesh": "2",
    "--rank-file": "fixtures/mlp.pt2",
    "--group": "nosuch=7",
    "--place": "data",
    "--sweep": "2", "--memory": "1G", "--microbatches": "2", "--schedule": "interleaved",
    "--memory-limit": "1",
    "--costs": "{T}/costs.json",
    "--calibrate": "{T}/calibrated.json",
    "--stage": "plan",
    "--rtol": "1e-30",
    "--atol": "1e-30",
    "--depth": "0",
    "--threads": "1",
    "--seed": "1", "--shape": "x=3x9", "--dump": "{T}/dump.safetensors", "--nodes": "nosuch", "--with": "device=nosuch", "--duration": "0.02", "--warm-up": "0.01", "--sessions": "2", "--splat": "0.5", "--size": "nosuch=3", "--fill": "zeros",
    "--loop-limit": "1",
    "--timeout": "9",
    "--time-limit": "900",
    "--work-limit": "1e15",
    "--repeat": "3",
}
# What may be seen in nothing that a call on these files writes: it is about time, damage, chance or what is there
# already; in all commands, or in some.
SILENT = dict.fromkeys(("--no-check", "--strict", "--follow-links", "--model-only", "--values", "--partial", "--resume", "--force", "--expand", "--timeout", "--time-limit", "--work-limit", "--seed", "--loop-limit", "--repeat"), "")
SILENT |= dict.fromkeys(("--threads", "--data", "--ignore-carry", "--ignore-guards", "--rtol", "--atol", "--rows", "--link"), "")
SILENT |= {"--mesh": "run explain compare", "--place": "run compare", "--costs": "run explain", "--precision": "compare"}
PROGRAM, EARLY, WEIGHTS = "fixtures/mlp.pt2", "{T}/early.json", "fixtures/many.inputs.safetensors"
NOTED = "fixtures/views.pt2"  # of which there is something to tell; and it has equal weights
SILENT_EARLY = {"--deny", "--allow", "--deduplicate"}  # as the early file here is of another program
PARALLEL = {"verify": "fixtures/parallel/moves3.pt2", "plan": "fixtures/parallel/reductions.pt2"}
RUN_INPUT = ["--input", "fixtures/mlp.inputs.safetensors"]


class Row:
    def __init__(self, kind, words):
        self.name, self.commands, self.needs, self.is_flag = words[1], words[-3], words[-2], kind == "FLAG"

    def value(self, call):
        """None of a flag. What is big endian already is made little."""
        if self.name == "--byte-order" and EARLY in call.files:
            return "little"
        if call.command in ("convert", "compare") and self.name == "--stage":
            return "decompose"
        if call.command == "convert" and self.name == "--for" and "FILE=program" in call.facts:
            return "2.9"
        return None if self.is_flag else VALUES[self.name]


def parse(line):
    """The arguments of a row: strings as they are, the rest stripped."""
    parts, at = [], 0
    while at < len(line):
        if line[at] == '"':
            end = at + 1
            while line[end] != '"':
                end += 2 if line[end] == "\\" else 1
            parts.append(line[at + 1 : end])
            at = end + 1
        elif line[at] in ", ":
            at += 1
        else:
            end = line.index(",", at)
            parts.append(line[at:end].strip())
            at = end
    return parts


class Call:
    """A command on files, and what is so of it."""

    def __init__(self, command, letter, files, facts, base=()):
        self.command, self.letter, self.files, self.facts, self.base = command, letter, files, facts, list(base)

    def has(self, word, given):
        if word.startswith("--"):
            name, _, value = word.partition("=")
            return name in given and (not value or given[name] == value)
        return word in self.facts or (word == "FILE=parallel" and "--program" in given)  # which is not there

    def refused(self, given, table):
        """Is a call with these options (name -> value) without meaning? Those of the first fault, or none."""
        faults = []
        for name in given:
            for term in table[name].needs.split():
                letters, colon, rest = term.rpartition(":")
                if colon and self.letter not in letters:
                    continue
                wrong = rest.startswith("!")
                words = rest.lstrip("!").split("|")
                if any(self.has(word, given) for word in words) == wrong:
                    faults.append((name, words))
        return faults


def calls():
    """Every command on every kind of file."""
    letter = dict(COMMAND.findall((ROOT / "cli/command.def").read_text()))
    assert len(set(letter.values())) == len(letter), "two commands have one letter"
    found = []
    files = {PROGRAM: {"FILE", "FILE=program"}, NOTED: {"FILE", "FILE=program"}, EARLY: {"FILE", "FILE=program", "FILE=.json"}, WEIGHTS: {"FILE", "FILE=weights"}}
    for name in ("inspect", "verify", "digest", "run", "plan", "explain"):
        for file, facts in files.items():
            if (file != WEIGHTS or name in ("inspect", "verify", "digest")) and file != (PROGRAM if name == "verify" else NOTED):
                base = RUN_INPUT if name == "run" else ()
                found.append(Call(name, letter[name], [file], facts, base))
    for name, file in PARALLEL.items():
        found.append(Call(name, letter[name], [file], files[PROGRAM] | {"FILE=parallel"}))
    found.append(Call("explain", letter["explain"], ["VAL-004"], {"FILE"}))
    found.append(Call("explain", letter["explain"], [], set(), ["--list"]))
    found.append(Call("diff", letter["diff"], [PROGRAM, PROGRAM], files[PROGRAM]))
    found.append(Call("diff", letter["diff"], [PROGRAM, EARLY], files[EARLY]))
    found.append(Call("compare", letter["compare"], [PROGRAM, PROGRAM], files[PROGRAM], RUN_INPUT))
    found.append(Call("bench", letter["bench"], [PROGRAM], files[PROGRAM], ["--shape", "x=3x8"]))
    for name in ("devices", "operators", "formats"):
        found.append(Call(name, letter[name], [], set()))
    found.append(Call("completion", letter["completion"], ["bash"], set()))
    for name in ("convert", "repack"):
        for file, facts in files.items():
            for end in (".exg", ".pt2", ".json", ".safetensors"):
                if file != PROGRAM and (file != WEIGHTS or end == ".safetensors"):
                    found.append(Call(name, letter[name], [file, "{T}/out/o" + end], facts | {"OUT=" + end} | ({"OUT=weights"} if end == ".safetensors" else set())))
    found.append(Call("patch", letter["patch"], [PROGRAM, NOTED, "{T}/out/o"], set()))
    found.append(Call("reduce", letter["reduce"], [PROGRAM, "{T}/out/o.pt2", "false"], files[PROGRAM]))
    found.append(Call("store", letter["store"], ["add", "{T}/out/store", WEIGHTS], {"ACTION=add"}))
    found.append(Call("store", letter["store"], ["export", "{T}/out/store", "a", "{T}/out/o"], {"ACTION=export"}))
    found.append(Call("store", letter["store"], ["verify", "{T}/out/store"], {"ACTION=verify"}))
    assert {c.command for c in found} == set(letter), "a command has no call here"
    return found


class Result(typing.NamedTuple):
    code: int
    out: bytes
    err: bytes
    files: dict

    def refuses(self, faults):
        """Is it refused for one of these?"""
        return self.code == 2 and b"CLI-009" in self.err and any(f"{name} ".encode() in self.err for name, _ in faults)


def run(call, given, folder):
    """What the call gives: code, output, and all files it writes."""
    here = pathlib.Path(tempfile.mkdtemp(dir=folder))
    (here / "out").mkdir()
    for name in ("early.json", "costs.json"):
        shutil.copy(folder / name, here / name)
    words = [EXG, call.command, *call.files, *call.base]
    for name, value in given.items():
        words += [name] if value is None else [name, value]
    words = [word.replace("{T}", str(here)) for word in words]
    done = subprocess.run(words, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, check=False)
    files = {p.name: p.read_bytes() for p in here.rglob("*") if p.is_file()}
    shutil.rmtree(here)
    return Result(done.returncode, *(text.replace(str(here).encode(), b"T") for text in (done.stdout, done.stderr)), files)


def companions(call, name, table, given):
    """The options that `name` needs beside it, as far as the call itself has not what is needed; None: in vain."""
    made = {**given, name: table[name].value(call)}
    for _ in range(5):
        faults = call.refused(made, table)
        if not faults:
            return {k: v for k, v in made.items() if k not in call.base}
        options = [w for w in faults[0][1] if w.startswith("--") and w.partition("=")[0] not in made]
        option, _, value = (options or [""])[0].partition("=")
        if option not in table or call.letter not in table[option].commands:
            return None
        made[option] = value or table[option].value(call)
    return None


class Test:
    def __init__(self, folder):
        self.folder, self.table, self.faults, self.count = folder, {r.name: r for r in read_rows()}, [], 0

    def fault(self, call, given, what):
        self.faults.append(f"{call.command} {' '.join([*call.files, *call.base])} {given}: {what}")

    def result(self, call, given):
        self.count += 1
        return run(call, given, self.folder)

    def of_base(self, call):
        return {"--list": None} if "--list" in call.base else {}

    def alone(self, call, name):
        """One option: refused by name, or taken and seen."""
        given = {name: self.table[name].value(call)}
        faults = call.refused({**self.of_base(call), **given}, self.table)
        if faults:
            got = self.result(call, given)
            if not got.refuses(faults):
                self.fault(call, given, f"has no meaning, and gives {got.code} {got.err[-200:]}")
        given = companions(call, name, self.table, self.of_base(call))
        if given is None:
            return
        got = self.result(call, given)
        silent = name in SILENT and call.command in (SILENT[name] or call.command)
        silent = silent or (name in SILENT_EARLY and EARLY in call.files)
        silent = silent or (name in ("--allow", "--deny", "--depth") and (WEIGHTS in call.files or "FILE=parallel" in call.facts))  # nothing is found in it
        silent = silent or (name == "--dtype" and "--weights-from" in given)  # which do not fit in any dtype
        silent = silent or (name == "--deduplicate" and call.files[-1].endswith(".safetensors"))  # no two are equal
        if got.code == 2 and (b"CLI-009" in got.err or b"CLI-001" in got.err):
            self.fault(call, given, f"is refused: {got.err[-200:]}")
        elif not silent and got == self.result(call, {k: v for k, v in given.items() if k != name}):
            self.fault(call, given, f"{name} changes nothing")

    def pair(self, call, a, b):
        """Two options, that know of each other or not."""
        given = {n: self.table[n].value(call) for n in (a, b)}
        faults = call.refused({**self.of_base(call), **given}, self.table)
        got = self.result(call, given)
        if b"LIB-001" in got.err:  # what the program is, is known once the library is there
            return
        if faults and not got.refuses(faults):
            self.fault(call, given, f"has no meaning, and gives {got.code} {got.err[-200:]}")
        elif not faults and got.code == 2 and b"CLI-009" in got.err:
            self.fault(call, given, f"has a meaning, and is refused: {got.err[-200:]}")


def read_rows():
    found = []
    for line in (ROOT / "cli/option.def").read_text().splitlines():
        match = OPTION.match(line)
        if match:
            found.append(Row(match[1], parse(match[2])))
    return found


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        subprocess.run([EXG, "convert", PROGRAM, folder / "early.json"], cwd=ROOT, check=True)
        (folder / "costs.json").write_text('{"ns_per_flop": 1000, "links": [{"message_ns": 1e9}]}')
        test = Test(folder)
        missing = [r.name for r in test.table.values() if not r.is_flag and r.name not in VALUES]
        if missing:
            print(f"give a value here for {missing}")
            return 1
        jobs = []
        for call in calls():
            takes = [n for n, r in test.table.items() if call.letter in r.commands and n not in call.base]
            jobs += [(test.alone, call, name) for name in takes]
            quick = call.files[:1] != [EARLY] and call.command not in ("repack", "bench", "compare")
            jobs += [(test.pair, call, a, b) for a, b in itertools.combinations(takes, 2) if quick]
        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            for done in [pool.submit(*job) for job in jobs]:
                done.result()
        print(*test.faults, f"{test.count} calls, {len(test.faults)} faults", sep="\n")
        return 1 if test.faults else 0


if __name__ == "__main__":
    sys.exit(main())
