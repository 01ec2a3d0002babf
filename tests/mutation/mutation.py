"""Mutation testing: does a test fail when the product is wrong?

    mutation.py --room libexport/program --count 100            100 mutants of each room, drawn by --seed
    mutation.py --file libexport/program/rename.c --list        what could be changed there
    mutation.py --again verdicts.json                           once more what survived then, wherever its line stands now
    mutation.py --table tests/mutation/audit.txt                named changes, each of which its named test must find

Each mutant is the product with one change. It meets the tests that the acceptance tables (tests/seeds-*.md) name for its room, and
what else of the suite is about it. README.md beside this file says more.
"""

import argparse
import collections
import concurrent.futures
import dataclasses
import difflib
import functools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

from build import Build, calls_of, run
from mutants import KINDS, Mutant, mutants_of

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
# Which tables speak of a room, where its tests are, and which cases of the command line are about it.
ROOMS = {
    "libexport/formats/early": ("002", "tests/export tests/exec/nulls.c", "*early*"),
    "libexport/program": ("004 002", "tests/export tests/exec/nulls.c", "inspect*"),
    "libexport/verify": ("002 004", "tests/export tests/exec/nulls.c", "verify*"),
    "libexec/dtensor": ("000 001 003", "tests/exec/dtensor tests/exec/dispatch tests/exec/comm tests/exec/nulls.c", ""),
    "libexec/dispatch": ("001 003 000", "tests/exec/dispatch tests/exec/dtensor tests/exec/nulls.c", "operators*"),
}
CASES = "tests/cli/cases/"
SLOW, QUICK = 30, 15  # seconds of a processor: a test of more is left out, named or (also in other ways than the plain one) not
TOO_LONG = (-signal.SIGXCPU, -signal.SIGKILL)  # how a program ends after its seconds of a processor


# ---- tests ------------------------------------------------------------------------------------


@dataclasses.dataclass
class Check:
    """A program and how it is called; `cases` of the command line, where it is that."""

    target: str
    arguments: list
    environment: dict
    cases: tuple = ()
    named: bool = False  # by the tables
    seconds: float = 0.0
    work: float = 0.0  # of a processor
    calls: dict = dataclasses.field(default_factory=dict, repr=False)  # of the sources' functions: {source: [(first, last line, calls)]}

    def reaches(self, mutant):
        """Does it call the function that the mutant is in? Outside of functions, any of the source."""
        calls = self.calls.get(mutant.file)
        around = [n for first, last, n in calls or [] if first <= mutant.line <= last]
        return calls is None or any(around or [n for _, _, n in calls])

    def name(self):
        return " ".join([self.target, *self.cases, *self.arguments, *(f"{k}={v}" for k, v in sorted(self.environment.items()))])

    def command(self, program, source):
        if self.cases:
            return ["sh", str(source / "tests/cli/run.sh"), str(program), *self.cases]
        return [str(program), *self.arguments]


def tables_of(path):
    tests = "tests/" + path.split("/")[0].removeprefix("lib")
    return next((row for room, row in ROOMS.items() if path.startswith(room + "/")), ("", tests, ""))


def named_by(source, tables):
    """The files that the tables name, in their order."""
    found = {}
    for table in tables.split():
        for line in (source / f"tests/seeds-{table}.md").read_text().splitlines():
            if line.startswith("| S0"):
                for entry in re.findall(r"`([^`]+)`", line.rsplit(" | ", 1)[1]):
                    found[entry.split(":")[0]] = True
    return list(found)


class Suite:
    """The checks of a library, timed once on the product as it is, where each must pass."""

    def __init__(self, build, work, jobs, files):
        self.build, self.work, self.jobs, self.files, self.lock = build, work, jobs, files, threading.Lock()
        self.checks = {}  # (target, cases, number of the run) -> Check, or None: it does not pass, or is slow

    @functools.lru_cache(maxsize=None)
    def counting(self, path):
        folder = self.work / "counting"
        folder.mkdir(exist_ok=True)
        return self.build.compile_counting(path, folder)

    def check(self, target, cases=(), run_number=0):
        key = (target, cases, run_number)
        with self.lock:
            if key in self.checks:
                return self.checks[key]
        arguments, environment = ([], {}) if cases else self.build.runs_of(target)[run_number]
        check = Check(target, arguments, environment, cases)
        # linked and placed as mutants are: what fails for that is no mutant that was caught; with counts of calls
        with tempfile.TemporaryDirectory(dir=self.work) as folder:
            counting = {path: self.counting(path) for path in self.files if self.build.has(target, path)}
            program = self.build.link(target, counting, self.build.place(pathlib.Path(folder)), ["--coverage"])
            most, command = SLOW if run_number == 0 else QUICK, check.command(program, self.build.source)
            counts = {"GCOV_PREFIX": folder + "/counts"}
            status, check.seconds, check.work = run(command, 300, self.build.source, os.environ | environment | counts, most)
            if status not in (0, *TOO_LONG) and check.work < most:  # where memory runs out on purpose, counts need some too: it may call anything
                plain = check.command(self.build.link(target, {}, self.build.place(pathlib.Path(folder))), self.build.source)
                status, check.seconds, check.work = run(plain, 300, self.build.source, os.environ | environment, most)
                counting = {}
            for made in counting.values():
                notes = made.with_suffix(".gcno")
                beside = pathlib.Path(folder + "/counts" + str(notes.parent))
                if beside.exists():
                    (beside / notes.name).symlink_to(notes)
            calls = calls_of(folder + "/counts")
            check.calls = {path: calls[str(self.build.source / path)] for path in counting if str(self.build.source / path) in calls}
        with self.lock:
            if status not in (0, *TOO_LONG) and check.work < most:
                print(f"mutation: left out, it fails as it is: {target} {' '.join(cases)} {environment or ''}", file=sys.stderr)
            self.checks[key] = check if status == 0 and check.work < most else None
            return self.checks[key]

    def wanted(self, path):
        """What to run for a source: ([(target, cases)] that its tables name, [the others of its folders])."""
        tables, folders, pattern = tables_of(path)
        named = named_by(self.build.source, tables)
        targets = [self.build.target_of(f) for f in named if f.endswith(".c")]
        first = [(t, ()) for t in dict.fromkeys(targets) if t]
        cases = tuple(f[len(CASES) : -len(".cmd")] for f in named if f.startswith(CASES))
        first += [("cli/exg", cases)] if cases else []
        rest = [(t, ()) for folder in folders.split() for t in self.build.targets_in(folder)]
        more = tuple(sorted(p.stem for p in (self.build.source / CASES).glob(f"{pattern}.cmd"))) if pattern else ()
        rest += [("cli/exg", more)] if more else []
        return first, [w for w in dict.fromkeys(rest) if w not in first]

    def targets(self, files, table):
        """What has to be built for them."""
        if table:
            tests = (test for _, _, test in read_table(table, self.build.source))
            return sorted({self.build.target_of(t) if t.endswith(".c") else "cli/exg" for t in tests})
        found = {target for path in files for part in self.wanted(path) for target, _ in part}
        return sorted(found | set(self.build.libraries() if any(p.startswith("libexec/") for p in files) else ()))

    def of(self, path):
        """The checks of a source: those that its tables name, and the others of its folders."""
        first, rest = self.wanted(path)

        def checks(wanted):
            return [(t, cases, n) for t, cases in wanted for n in range(1 if cases else len(self.build.runs_of(t)))]

        for source in self.files:
            self.counting(source)
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            first = [c for c in pool.map(lambda w: self.check(*w), checks(first)) if c]
            rest = [c for c in pool.map(lambda w: self.check(*w), checks(rest)) if c and c.work < QUICK]
        return [dataclasses.replace(c, named=True) for c in first] + rest


# ---- one mutant --------------------------------------------------------------------------------


@dataclasses.dataclass
class Verdict:
    mutant: Mutant
    outcome: str  # caught, survived; same: as the product; broken: no C; explained: a survivor that is right
    by: str = ""
    named: bool = False
    before: str = ""
    after: str = ""
    row: str = ""
    source: str = dataclasses.field(default="", repr=False)

    def data(self):
        m = self.mutant
        return {"file": m.file, "line": m.line, "kind": m.kind, "outcome": self.outcome, "by": self.by, "named": self.named,
                "row": self.row, "before": self.before, "after": self.after, "diff": self.diff()}  # fmt: skip

    def diff(self):
        new = self.mutant.apply(self.source)
        name = self.mutant.file
        return "\n".join(difflib.unified_diff(self.source.splitlines(), new.splitlines(), name, name, n=1, lineterm=""))


class Found:
    """How often each check found a mutant of each source, in this run and those before: what did comes first the next time."""

    def __init__(self, path):
        self.path, self.counts = path, collections.defaultdict(collections.Counter)
        if path.exists():
            self.counts.update({source: collections.Counter(names) for source, names in json.loads(path.read_text()).items()})

    def note(self, source, check):
        self.counts[source][check.name()] += 1
        self.path.write_text(json.dumps(self.counts))

    def order(self, source, checks):
        """By how much a second of each finds: of the source, less so of its room."""
        room = os.path.dirname(source)
        of_room = sum((names for path, names in self.counts.items() if os.path.dirname(path) == room), collections.Counter())

        def finds(check):
            likely = 4 * self.counts[source][check.name()] + of_room[check.name()] + (0.2 if check.named else 0.1)
            return likely / (check.seconds + 0.5)

        return sorted(checks, key=finds, reverse=True)


class Runner:
    def __init__(self, build, folder, work, jobs, files):
        self.build, self.work, self.jobs, self.found = build, work, jobs, Found(folder / "found.json")
        self.suite, self.sources, self.lists, self.assembly = Suite(build, work, jobs, files), {}, {}, {}
        self.lock, self.local = threading.Lock(), threading.local()
        self.explained = read_survivors(HERE / "survivors.md")

    def source(self, path):
        return self.sources.setdefault(path, (self.build.source / path).read_text())

    def folder(self):
        if not hasattr(self.local, "folder"):
            self.local.folder = pathlib.Path(tempfile.mkdtemp(dir=self.work))
        return self.local.folder

    def product_assembly(self, path):
        key = (path, self.folder())  # whose name stands in it
        if key not in self.assembly:
            made = self.build.compile(path, self.source(path), self.folder(), "product")
            if made is None:
                raise SystemExit(f"mutation: {path} does not compile as it is")
            self.assembly[key] = made.read_bytes()
        return self.assembly[key]

    def made(self, mutant):
        """(outcome or None, object)"""
        product = self.product_assembly(mutant.file)
        assembly = self.build.compile(mutant.file, mutant.apply(self.source(mutant.file)), self.folder(), "mutant")
        if assembly is None:
            return "broken", None
        if assembly.read_bytes() == product:
            return "same", None
        return None, self.build.assemble(assembly)

    def finds(self, check, mutant, made):
        """Does the check fail? So does one that takes ten times as long, or ends by a signal."""
        program = self.build.link(check.target, {mutant.file: made}, self.build.place(self.folder()))
        temporary = self.folder() / "tmp"
        temporary.mkdir(exist_ok=True)
        environment = os.environ | check.environment | {"TMPDIR": str(temporary)}
        command = check.command(program, self.build.source)
        status, _, _ = run(command, max(10.0, 10 * check.seconds), self.build.source, environment)
        shutil.rmtree(temporary, ignore_errors=True)
        return status != 0

    def judge(self, mutant, checks=None):
        before, after = mutant.lines(self.source(mutant.file))
        verdict = Verdict(mutant, "", before=before, after=after, source=self.source(mutant.file))
        verdict.outcome, made = self.made(mutant)
        if verdict.outcome:
            return verdict
        with self.lock:
            if checks is None and mutant.file not in self.lists:
                self.lists[mutant.file] = self.suite.of(mutant.file)
            tried = checks if checks is not None else self.lists[mutant.file]
            tried = self.found.order(mutant.file, [check for check in tried if check.reaches(mutant)])
        for check in tried:
            if self.finds(check, mutant, made):
                with self.lock:
                    self.found.note(mutant.file, check)
                verdict.outcome, verdict.by, verdict.named = "caught", check.target.split("/")[-1], check.named
                return verdict
        verdict.outcome = "explained" if (mutant.file, before, after) in self.explained else "survived"
        return verdict


def read_survivors(path):
    """{(file, line as it is, line as it is then)} of the table of survivors that are explained."""
    found = set()
    if path.exists():
        for line in path.read_text().splitlines():
            cells = [c.strip() for c in re.split(r"(?<!\\)\|", line)[1:-1]]
            if len(cells) == 4 and cells[0].startswith("`"):
                text = [re.sub(r"\\\|", "|", c.strip("`").strip()) for c in cells[:3]]
                found.add((text[0], " ".join(text[1].split()), " ".join(text[2].split())))
    return found


# ---- many --------------------------------------------------------------------------------------


def draw(files, sources, seed):
    """All mutants of the files, kinds in turn, in an order that follows from the seed."""
    chance = random.Random(seed)
    by_kind = collections.defaultdict(list)
    for path in files:
        for mutant in mutants_of(path, sources(path)):
            by_kind[mutant.kind].append(mutant)
    for kind in KINDS:
        chance.shuffle(by_kind[kind])
    while any(by_kind.values()):
        for kind in KINDS:
            if by_kind[kind]:
                yield by_kind[kind].pop()


def survived(path, sources):
    """The mutants that survived by a file of verdicts, and are possible still."""
    for then in json.loads(path.read_text()):
        if then["outcome"] == "survived":
            text = sources(then["file"])
            same = [
                m for m in mutants_of(then["file"], text) if m.kind == then["kind"] and m.lines(text) == (then["before"], then["after"])
            ]
            if same:
                yield min(same, key=lambda m: abs(m.line - then["line"]))


def fresh(runner, mutants, count, report):
    """The verdicts of `count` mutants that are C and another program."""
    verdicts, waiting = [], set()
    lines = set()  # one change a line: of two the second says little
    with concurrent.futures.ThreadPoolExecutor(runner.jobs) as pool:
        while True:
            counted = sum(v.outcome in ("caught", "survived", "explained") for v in verdicts)
            while len(waiting) < runner.jobs and counted + len(waiting) < count:
                mutant = next((m for m in mutants if (m.file, m.line) not in lines), None)
                if mutant is None:
                    break
                lines.add((mutant.file, mutant.line))
                waiting.add(pool.submit(runner.judge, mutant))
            if not waiting:
                return verdicts
            done, waiting = concurrent.futures.wait(waiting, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                verdicts.append(future.result())
                report(verdicts[-1])


def read_table(path, root):
    """(row, mutant, test) of a table: "row file test", then the text that stands there ("- ") and the text instead ("+ ")."""
    blocks, found = re.split(r"\n\s*\n", re.sub(r"^#.*\n", "", path.read_text(), flags=re.M).strip()), []
    for block in blocks:
        head, *lines = block.split("\n")
        row, file, test = head.split()
        old = "\n".join(line[2:] for line in lines if line.startswith("-"))
        new = "\n".join(line[2:] for line in lines if line.startswith("+"))
        source = (root / file).read_text()
        # However the lines are wrapped today.
        stands = list(re.finditer(r"\s+".join(re.escape(word) for word in old.split()), source)) if old else []
        if len(stands) != 1:
            raise SystemExit(f"mutation: {path.name}: {row}: the text stands {len(stands)} times in {file}, not once:\n{old}")
        start, end = stands[0].span()
        found.append((row, Mutant(file, source.count("\n", 0, start) + 1, "table", start, end, new), test))
    return found


def table(runner, path, report):
    verdicts = []

    def one(entry):
        row, mutant, test = entry
        target = runner.build.target_of(test) if test.endswith(".c") else "cli/exg"
        if target is None:
            raise SystemExit(f"mutation: {row}: no program is made of {test}")
        cases = () if test.endswith(".c") else (test[len(CASES) : -len(".cmd")],)
        check = runner.suite.check(target, cases)
        if check is None:
            raise SystemExit(f"mutation: {row}: {test} does not pass as it is")
        verdict = runner.judge(mutant, [dataclasses.replace(check, named=True)])
        verdict.row = row
        return verdict

    with concurrent.futures.ThreadPoolExecutor(runner.jobs) as pool:
        for verdict in pool.map(one, read_table(path, runner.build.source)):
            verdicts.append(verdict)
            report(verdict)
    return verdicts


# ---- the tree and its build ----------------------------------------------------------------------


def snapshot(root, tree):
    """A copy of the tree's files, so that neither is changed by the other; what did not change stays."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=root, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    for name in listed:
        source, copy = root / name, tree / name
        if not source.is_file():
            continue
        same = copy.exists() and copy.stat().st_size == source.stat().st_size and copy.read_bytes() == source.read_bytes()
        if not same:
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source, copy)
    for copy in [p for p in tree.rglob("*") if p.is_file() and p.relative_to(tree).parts[0] != "build"]:
        if str(copy.relative_to(tree)) not in set(listed):
            copy.unlink()


def make(root, folder):
    tree = folder / "tree"
    tree.mkdir(parents=True, exist_ok=True)
    snapshot(root, tree)
    if subprocess.run(["cmake", "--preset", "release", "-DEXG_TESTS=ON", "-DEXG_LOOPS_FOR_HERE=ON"], cwd=tree, stdout=subprocess.DEVNULL).returncode != 0:
        raise SystemExit("mutation: it cannot be configured")
    return Build(tree, tree / "build" / "release")


# ---- the command ---------------------------------------------------------------------------------


def say(verdict):
    m = verdict.mutant
    by = f" by {verdict.by}{'' if verdict.named else ' (not named)'}" if verdict.by else ""
    print(f"{verdict.outcome:9} {m.file}:{m.line}: {verdict.row or m.kind}{by}", flush=True)
    if verdict.outcome == "survived":
        print("\n".join("    " + line for line in verdict.diff().splitlines()[2:]), flush=True)


def summary(what, verdicts):
    """Says how many of them were caught; gives the percentage."""
    count = collections.Counter(v.outcome for v in verdicts)
    named = sum(v.named for v in verdicts)
    judged = count["caught"] + count["survived"]
    rate = 100 * count["caught"] / judged if judged else 100.0
    print(f"{what}: {judged} mutants, {count['caught']} caught ({rate:.1f} %), {named} of them by a named test, "
          f"{count['survived']} survived; {count['explained']} explained, {count['same']} the same program, {count['broken']} no C",
          flush=True)  # fmt: skip
    return rate


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--room", action="append", default=[], help="a folder of the product")
    parser.add_argument("--file", action="append", default=[], help="a source of the product")
    parser.add_argument("--count", type=int, default=100, help="mutants to judge of each room, or of the files (100)")
    parser.add_argument("--seed", type=int, default=1, help="what they are drawn from (1)")
    parser.add_argument("--again", type=pathlib.Path, metavar="JSON", help="the survivors of these verdicts instead")
    parser.add_argument("--table", type=pathlib.Path, help="named changes instead; each must be found by its test")
    parser.add_argument("--list", action="store_true", help="list what would be changed, and do nothing")
    parser.add_argument("--least", type=float, default=0.0, metavar="PERCENT", help="fail when fewer are caught")
    parser.add_argument("--json", type=pathlib.Path, metavar="OUT", help="write the verdicts there too")
    parser.add_argument("--folder", type=pathlib.Path, default=ROOT / "build" / "mutation", help="where it works (build/mutation)")
    parser.add_argument("--built", type=pathlib.Path, help="take this build of the tree as it is, instead of making one")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    folder = options.folder.resolve()
    if not (options.table or options.again or options.room or options.file):
        parser.error("name a --room, a --file, an --again or a --table")
    rooms = {room: [str(p.relative_to(ROOT)) for p in sorted((ROOT / room).rglob("*.c"))] for room in options.room}
    if options.file:
        rooms[" ".join(options.file)] = options.file
    files = [path for paths in rooms.values() for path in paths]
    if options.again:
        files = sorted({v["file"] for v in json.loads(options.again.read_text()) if v["outcome"] == "survived"})
    if options.list:
        for paths in rooms.values():
            for n, mutant in zip(range(options.count), draw(paths, lambda p: (ROOT / p).read_text(), options.seed)):
                before, after = mutant.lines((ROOT / mutant.file).read_text())
                print(f"{mutant.file}:{mutant.line}: {mutant.kind}\n  - {before}\n  + {after}")
        return 0
    build = Build(ROOT, options.built.resolve()) if options.built else make(ROOT, folder)
    work = folder / "work"
    work.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=work) as place:
        runner = Runner(build, folder, pathlib.Path(place), options.jobs, files)
        if not options.built:
            print("mutation: building the product and its tests", file=sys.stderr)
            build.build(runner.suite.targets(files, options.table), options.jobs, (folder / "build.log").open("w"))
        if options.table:
            verdicts = table(runner, options.table, say)
        elif options.again:
            verdicts = fresh(runner, survived(options.again, runner.source), options.count, say)
        else:
            verdicts = []
            for room, paths in rooms.items():
                of_room = fresh(runner, draw(paths, runner.source, options.seed), options.count, say)
                summary(room, of_room)
                verdicts += of_room
    if options.json:
        options.json.write_text(json.dumps([v.data() for v in verdicts], indent=1) + "\n")
    rate = summary("all", verdicts)
    return 0 if rate >= (100.0 if options.table else options.least) else 1


if __name__ == "__main__":
    sys.exit(main())
