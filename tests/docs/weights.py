"""The tables of docs/weights.md, made of those of the library.

    weights.py             is the page current?
    weights.py --update    writes them
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "weights.md"
TEXT = r'"((?:[^"\\]|\\.)*)"'


def rows(path, macro):
    """The arguments that are texts, and the others, of every row."""
    text = re.sub(r"/\*.*?\*/", "", (ROOT / path).read_text(), flags=re.S)
    for found in re.finditer(rf"^{macro}\((.*?)\)$", text, re.M | re.S):
        yield [text or word for text, word in re.findall(rf"{TEXT}|([A-Za-z0-9_]+)", found[1])]


def table(head, lines):
    return "\n".join(["| " + " | ".join(head) + " |", "|" + "---|" * len(head)] + ["| " + " | ".join(c.replace("|", "\\|") for c in line) + " |" for line in lines])


def tables():
    """Each by its name on the page."""
    read = [(name, files, summary, carries) for _, name, files, summary, carries in rows("libexport/include/exg/weights_format.def", "EXG_WEIGHTS_FORMAT")]
    foreign = dict.fromkeys(tuple(row[-2:]) for row in rows("libexport/formats/foreign.def", "EXG_FOREIGN_(?:MAGIC|SHAPE)")) # one line for kinds that are told alike
    folders = []
    for line in re.findall(rf"^EXG_MODEL_(NAME|OR)\({TEXT}\)", (ROOT / "libexport/formats/model_folder.def").read_text(), re.M):
        if line[0] == "NAME":
            folders.append([])
        folders[-1].append(f"`{line[1]}`")
    return {
        "read": table(("format", "files", "what is read", "and carries"), read),
        "folders": table(("", "names"), [(str(i + 1), " or ".join(names)) for i, names in enumerate(folders)]),
        "foreign": table(("this is", "what to do"), [(name.replace("%s", "...").replace(": ...", ""), fix) for name, fix in foreign]),
    }


def main():
    text = PAGE.read_text()
    made = text
    for name, lines in tables().items():
        made, count = re.subn(rf"(<!-- {name} -->\n).*?(<!-- /{name} -->)", lambda m, t=lines: m[1] + t + "\n" + m[2], made, flags=re.S)
        if count != 1:
            sys.exit(f"docs/weights.md: no place for the table '{name}'")
    if "--update" in sys.argv:
        PAGE.write_text(made)
    elif made != text:
        sys.exit("docs/weights.md is not what the tables say: tests/docs/weights.py --update")


if __name__ == "__main__":
    main()
