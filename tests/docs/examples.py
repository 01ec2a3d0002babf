"""What the documents show is true: commands are run and print what is written below them, C stands in an example that is built.

    examples.py EXG [FILE.md...]       README.md, docs/*.md and docs/cookbook/*.md, or these

A block marked `console` has lines "$ COMMAND", each with what it prints; a line "..." stands for any lines. It is run in a folder of its
own in which `exg` is the program under test, and `fixtures` and `examples` are the tree's; blocks of one document share the folder. A
block marked `c` that begins with a line of a file in examples/ stands there as it is, whatever the indentation. Links, and paths and names of
the interface between backticks, are of things that are there. The cookbook has the build of EXG installed in `prefix`, for compilers to find; where that build has
sanitizers, other programs than exg cannot load it, and the cookbook's commands are not run."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def blocks(text):
    """(language, lines) of every fenced block."""
    for match in re.finditer(r"^( *)```(\w*)\n(.*?)^\1```$", text, re.S | re.M):
        indent = len(match[1])
        yield match[2], [line[indent:] for line in match[3].splitlines()]


def sessions(lines):
    """(command, the lines that it prints) of a console block."""
    found = []
    for line in lines:
        if line.startswith("$ "):
            found.append((line[2:], []))
        else:
            found[-1][1].append(line)
    return found


def matches(said, wanted):
    """Are the lines those that are wanted, where "..." is any of them?"""
    if not wanted:
        return not said
    if wanted[0] == "...":
        return any(matches(said[i:], wanted[1:]) for i in range(len(said) + 1))
    return bool(said) and said[0].rstrip() == wanted[0].rstrip() and matches(said[1:], wanted[1:])


def check_console(name, lines, folder, environment):
    faults = []
    for command, wanted in sessions(lines):
        done = subprocess.run(["sh", "-c", command], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        said = done.stdout.splitlines()
        if not matches(said, wanted):
            faults.append(f"{name}: $ {command}\n" + "\n".join(f"    {line}" for line in said))
    return faults


def check_c(name, lines):
    """A block that says where it stands (its first line does) must stand there whole."""
    words = [" ".join(line.split()) for line in lines]
    for path in sorted((ROOT / "examples").glob("*.c")):
        text = [" ".join(line.split()) for line in path.read_text().splitlines()]
        if words[0] in text:
            at = text.index(words[0])
            return [] if text[at : at + len(words)] == words else [f"{name}: the C is not that of examples/{path.name}"]
    return []


def check_links(path, text):
    links = re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", re.sub(r"```.*?```", "", text, flags=re.S))
    return [f"{path.name}: there is no {link}" for link in links if not (path.parent / link).exists()]


def sources():
    """All words of the product's sources."""
    words = set()
    for folder in ("libexport", "libexec", "cli", "bindings"):
        for each in (ROOT / folder).rglob("*.*"):
            if each.suffix in (".c", ".h", ".hpp", ".cpp", ".def", ".txt", ".f90"):
                words.update(re.findall(r"\w+", each.read_text(errors="replace")))
    return words


def check_names(path, text, words):
    if path.name in ("pt2.md", "dtensor.md"):  # which name what is in archives and in PyTorch
        return []
    faults = []
    places = [ROOT / part for part in ("", "libexport", "libexec", "libexport/include", "libexec/include", "cli")] + [path.parent]
    for name in sorted(set(re.findall(r"`([^`\n]+)`", re.sub(r"```.*?```", "", text, flags=re.S)))):
        if re.fullmatch(r"(?=.*/)[\w./-]+(\.(c|h|def|md|py|sh|fbs|cmake)|/)", name) and not re.search("NAME|^[~/]|^build/|^\\w+/$", name):
            if not any((place / name).exists() for place in places):
                faults.append(f"{path.name}: there is no {name}")
        elif re.fullmatch(r"(exg|EXG|cli)_[\w.]+(\(\))?", name):
            lacking = [part for part in re.findall(r"\w+", name) if part not in words]
            faults += [f"{path.name}: {name}: nothing is called {part}" for part in lacking]
    return faults


def check(path, exg, words, prefix):
    text, faults, counts = path.read_text(), [], {"console": 0, "c": 0}
    with tempfile.TemporaryDirectory(prefix="exg-docs-") as name:
        folder = pathlib.Path(name)
        (folder / "bin").mkdir()
        (folder / "bin" / "exg").symlink_to(exg)
        for each in ("fixtures", "examples"):
            (folder / each).symlink_to(ROOT / each)
        environment = os.environ | {"PATH": f"{folder / 'bin'}:{os.environ['PATH']}", "LC_ALL": "C"}
        if path.parent.name == "cookbook":  # whose programs are compiled
            (folder / "prefix").symlink_to(prefix)
            library = prefix / "lib"
            environment |= {"PKG_CONFIG_PATH": str(library / "pkgconfig"), "LD_LIBRARY_PATH": str(library), "OMPI_ALLOW_RUN_AS_ROOT": "1",
                            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "TMPDIR": "/tmp"}  # fmt: skip
        for language, lines in blocks(text):
            if language == "console":
                faults += check_console(path.name, lines, folder, environment)
                counts["console"] += len(sessions(lines))
            elif language == "c":
                faults += check_c(path.name, lines)
                counts["c"] += 1
    return faults + check_links(path, text) + check_names(path, text, words), counts


def main():
    exg, faults, commands, words = pathlib.Path(sys.argv[1]).resolve(), [], 0, sources()
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/cookbook").glob("*.md"))]
    with tempfile.TemporaryDirectory(prefix="exg-prefix-") as prefix:
        subprocess.run(["cmake", "--install", exg.parents[1], "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
        for path in [pathlib.Path(p).resolve() for p in sys.argv[2:]] or pages:
            found, counts = check(path, exg, words, pathlib.Path(prefix))
            faults += found
            commands += counts["console"]
    lines = len((ROOT / "README.md").read_text().splitlines())
    if lines > 150:
        faults.append(f"README.md: {lines} lines, and 150 are enough")
    print(*faults, f"{commands} commands of the documents do as is written", sep="\n")
    return 1 if faults or commands == 0 else 0


if __name__ == "__main__":
    sys.exit(main())
