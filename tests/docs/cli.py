"""docs/cli.md, made of what the command says of itself (cli/command.def, option.def, fault.def).

    cli.py EXG             is the page current?
    cli.py EXG --update    writes it
"""

import json
import pathlib
import re
import subprocess
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "cli.md"
HEAD = """# The command line

Written by `tests/docs/cli.py` of the tables in `cli/`; `exg COMMAND --help` says the same. An option's value follows it, or an `=`; no word
after `--` is an option. Results go to stdout, faults to stderr, with a stable code, what, where and the fix.

"""


def cell(text):
    return text.replace("|", "\\|")


def command(help_text):
    """One command's part of the page."""
    title, summary = help_text.split("\n", 1)[0].split(" - ", 1)
    options, examples = help_text.split("\noptions:\n")[1].split("\nexamples:\n")
    lines = [f"## {title}", "", summary[0].upper() + summary[1:] + ".", ""]
    if options.strip("\n"):
        lines += ["| option | meaning | where |", "|---|---|---|"]
    for line in options.strip("\n").split("\n") if options.strip("\n") else []:
        name, rest = re.fullmatch(r"  (--\S+(?: \S+)?)  +(\S.*)", line).groups()
        meaning, where = re.fullmatch(r"(.*?)(?: \[([a-z!-].*)\])?", rest).groups()
        lines.append(f"| `{cell(name)}` | {cell(meaning)} | {cell(where or '')} |")
    return lines + [""] * (lines[-1] != "") + ["```sh", *(line.strip() for line in examples.strip("\n").split("\n")), "```", ""]


def page(exg):
    def say(*words):
        return subprocess.run([exg, *words], check=True, capture_output=True, text=True).stdout

    top = say("--help")
    listed = re.search(r"usage:.*?\n\n(.*?)\n\n", top, re.S)[1].split("\n")
    names = [line.split()[0] for line in listed]
    lines = ["| command | does |", "|---|---|"]
    for line in listed:
        call, does = re.fullmatch(r"  ([a-z]+ +(?:[A-Z|.]+|[a-z]+(?:\|[a-z]+)+)?(?: [A-Z\[\].]+)*) +(\S.*)", line).groups()
        lines.append(f"| `exg {cell(' '.join(call.split()))}` | {does} |")
    lines += ["", "| option of every command | meaning |", "|---|---|"]
    shared = top.split("options of all commands; exg help COMMAND has the others, and with --man a page of the manual:\n")[1].split("\n\n")[0]
    for line in shared.split("\n"):
        name, does = re.fullmatch(r"  (\S.*?)  +(\S.*)", line).groups()
        lines.append(f"| `{cell(name)}` | {cell(does)} |")
    lines += ["", "| exit code | means |", "|---|---|"]
    lines += [f"| {number} | {means} |" for number, means in re.findall(r"^  (\d)  (.*)$", top, re.M)] + [""]
    for name in names:
        lines += command(say("help", name))
    lines += ["## Codes", "", "Codes of faults that are no rule of a program file; those are in [schema/rules.md](../schema/rules.md).", "",
              "| code | means | fix |", "|---|---|---|"]  # fmt: skip
    for row in json.loads(say("explain", "--list", "--json"))["codes"]:
        if row["kept_by"] == "running":
            lines.append(f"| {row['code']} | {cell(row['meaning'])} | {cell(row['fix'])} |")
    return HEAD + "\n".join(lines) + "\n"


def main():
    text = page(sys.argv[1])
    if "--update" in sys.argv:
        PAGE.write_text(text)
    elif not PAGE.exists() or PAGE.read_text() != text:
        print(f"{PAGE} is old: python3 tests/docs/cli.py {sys.argv[1]} --update")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
