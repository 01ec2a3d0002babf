"""A build of the tree by CMake and Ninja, asked what it is made of: how a source is compiled, what a program is linked from,
which tests there are and what they run. Nothing in it is changed: mutants are compiled and linked beside it."""

import functools
import json
import os
import pathlib
import re
import resource
import shlex
import signal
import subprocess
import time

MEMORY, FILE = 8 << 30, 1 << 30  # that a test may take: a mutant asks for anything
# Faults that make a mutant no C; what is only odd is compiled.
FLAGS = ["-w", "-Werror=int-conversion", "-Werror=incompatible-pointer-types", "-Werror=implicit-function-declaration", "-Werror=format"]


def calls_of(counts):
    """{file: [(first line, last line, calls)]} of its functions by the counts in a folder; {} where a program left none."""
    files, found = [str(path) for path in pathlib.Path(counts).rglob("*.gcda")], {}
    for line in subprocess.run(["gcov", "--json-format", "--stdout", *files], capture_output=True, text=True).stdout.splitlines():
        for file in json.loads(line)["files"]:
            for function in file["functions"]:
                found.setdefault(file["file"], []).append((function["start_line"], function["end_line"], function["execution_count"]))
    return found


def limits(work):
    if work is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (work, work))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE, FILE))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def run(command, limit, cwd, environment=None, most=None):
    """(exit status or None past the time limit, seconds, seconds of a processor); its children end with it, and it ends by a
    signal after `most` seconds of a processor."""
    begun, status, work = time.monotonic(), None, 0.0
    with subprocess.Popen(
        command, cwd=cwd, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True, preexec_fn=lambda: limits(most),
    ) as process:  # fmt: skip
        while status is None and time.monotonic() < begun + limit:
            ended, code, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                status = process.returncode = os.waitstatus_to_exitcode(code)
                work = usage.ru_utime + usage.ru_stime
            else:
                time.sleep(0.005)
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    return status, time.monotonic() - begun, work


class Build:
    def __init__(self, source, folder):
        self.source, self.folder = pathlib.Path(source), pathlib.Path(folder)
        commands = json.loads(self.ask("ninja", "-t", "compdb"))
        self.compiled = {}  # source -> [(command, object)]
        for entry in commands:
            if entry["file"].endswith(".c") and " -c " in entry["command"]:
                path = os.path.relpath(os.path.join(entry["directory"], entry["file"]), self.source)
                self.compiled.setdefault(path, []).append((entry["command"], entry["output"]))

    @functools.cached_property
    def tests(self):
        """Those of ctest. It names the program of a test only once that is built, so it is asked when the first is wanted."""
        return json.loads(self.ask("ctest", "--show-only=json-v1"))["tests"]

    def ask(self, *words):
        return subprocess.run(words, cwd=self.folder, check=True, capture_output=True, text=True).stdout

    def own(self, path):
        """(command, object) of a source as it is compiled into the product: not into a tool of the tests, not several times."""
        found = [c for c in self.compiled.get(path, []) if c[1].split("/")[0] == path.split("/")[0]]
        if len(found) != 1:
            raise SystemExit(f"mutation: {path} is compiled {len(found)} times into the product, not once")
        return found[0]

    def words(self, path):
        """How the source is compiled, without what is made of it, what warns and how far it is optimized."""
        words = shlex.split(self.own(path)[0])
        while not os.path.basename(words[0]).endswith(("cc", "gcc", "clang")) or "ccache" in words[0]:
            words.pop(0)
        kept, skip = [], 0
        for word in words:
            if skip:
                skip -= 1
            elif word in ("-o", "-c", "-MT", "-MF"):
                skip = 1
            elif word != "-MD" and not word.startswith("-W") and word != "-O3":
                kept.append(word)
        return [*kept, "-O2"]

    def compile(self, path, text, folder, name):
        """The assembly of the source with this text, or None where it is no C; the same file name for all texts."""
        at, out = folder / pathlib.Path(path).name, folder / f"{name}.s"
        at.write_text(text)
        command = [*self.words(path), *FLAGS, "-S", "-o", out, str(at)]
        done = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        return out if done.returncode == 0 else None

    def compile_counting(self, path, folder):
        """The object of the source as it is, which counts the calls of its functions."""
        out = folder / (path.replace("/", "_") + ".o")
        subprocess.run([*self.words(path), "-O1", "-w", "--coverage", "-c", "-o", out, str(self.source / path)], cwd=self.folder, check=True)
        return out

    def assemble(self, assembly):
        subprocess.run(["cc", "-c", assembly, "-o", assembly.with_suffix(".o")], check=True)
        return assembly.with_suffix(".o")

    @functools.lru_cache(maxsize=None)
    def link_command(self, target):
        last = self.ask("ninja", "-t", "commands", target).splitlines()[-1]
        # a shell takes \$ in double quotes for $, shlex does not
        return [w.replace("\\$", "$") for w in shlex.split(last) if w not in (":", "&&")]

    def link(self, target, made, out, more=()):
        """The program with objects in the place of its own: {source: object}; with none, as it is."""
        words = list(self.link_command(target))
        words[words.index("-o") + 1] = str(out)
        for path, new in made.items():
            own = self.own(path)[1]
            if own in words:
                words[words.index(own)] = str(new)
            else:  # before the archives, of which the same member is not taken then
                words.insert(words.index("-o") + 2, str(new))
        subprocess.run([*words, *more], cwd=self.folder, check=True, capture_output=True)
        return out

    def has(self, target, path):
        """Is the program made of the source, or of its library?"""
        library = path.split("/")[0].removeprefix("lib")
        return any(word == self.own(path)[1] or f"libexg_{library}." in word for word in self.link_command(target))

    def place(self, folder):
        """Where a program is put in a folder of its own: it finds the libraries of the build beside it, as where it is built."""
        (folder / "tests").mkdir(exist_ok=True)
        for room in ("libexport", "libexec"):
            if not (folder / room).is_symlink():
                (folder / room).symlink_to(self.folder / room)
        return folder / "tests/program"

    def target_of(self, test_source):
        """The test program that a source is compiled into, or None of one that several share."""
        for _, made in self.compiled.get(test_source, []):
            name = made.split("CMakeFiles/")[1].split(".dir/")[0]
            if name.startswith("test_"):
                return f"tests/{name}"
        return None

    def targets_in(self, folder):
        """The test programs that are made of the sources of a folder, or of one source."""
        found = (self.target_of(path) for path in sorted(self.compiled) if path == folder or path.startswith(folder + "/"))
        return [target for target in dict.fromkeys(found) if target]

    def libraries(self):
        """What is opened when a program runs: stand-ins, plugins."""
        lines = self.ask("ninja", "-t", "targets", "all").splitlines()
        return [line.split(":")[0] for line in lines if re.search(r": C\w*_(MODULE|SHARED)_LIBRARY_LINKER", line)]

    def build(self, targets, jobs, log):
        if subprocess.run(["ninja", "-j", str(jobs), *targets], cwd=self.folder, stdout=log, stderr=log).returncode != 0:
            raise SystemExit(f"mutation: it does not build: {log.name}")

    def runs_of(self, target):
        """How the tests of ctest run this program: [(arguments, environment)], the plainest first. Other levels of instructions
        are the same program to a room that has no kernels."""
        found = []
        for test in self.tests:
            command = test.get("command", [""])
            if os.path.realpath(command[0]) == os.path.realpath(self.folder / target):
                properties = {p["name"]: p["value"] for p in test.get("properties", [])}
                environment = dict(e.split("=", 1) for e in properties.get("ENVIRONMENT", []))
                if "EXG_ISA" not in environment:
                    found.append((command[1:], environment))
        return sorted(found, key=lambda f: (len(f[1]), len(f[0]), str(f)))
