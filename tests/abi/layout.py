"""What a compiled program holds of the headers: the values of enumerators, the sizes of structs and where their members lie.

  layout.py CC ROOT [--update]

Written down in tests/abi/layout.txt, with the number EXG_ABI (exg/version.h) that they belong to: what is there stays as it is. A new
enumerator, a struct that grows at its end by its `size`, a new struct may come; anything else needs the next EXG_ABI, and --update.
"""
import os, re, subprocess, sys, tempfile

LIST = "tests/abi/layout.txt"


def headers(root):
    for library in ("libexport", "libexec"):
        folder = os.path.join(root, library, "include", "exg")
        yield from sorted((os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".h")), key=os.path.basename)


def own_text(cc, root, paths):
    """The headers preprocessed, without what they include of others."""
    source = "".join(f"#include <exg/{os.path.basename(p)}>\n" for p in paths)
    flags = [f"-I{root}", f"-I{root}/libexport/include", f"-I{root}/libexec/include"]
    done = subprocess.run([cc, "-E", "-std=c11", *flags, "-xc", "-"], input=source, capture_output=True, text=True, check=True)
    ours, lines = False, []
    for line in done.stdout.split("\n"):
        mark = re.match(r'# \d+ "([^"]*)"', line)
        if mark:
            ours = "/exg/" in mark[1] or "/operators/" in mark[1] or mark[1].endswith(".def")
        elif ours:
            lines.append(line)
    return " ".join(" ".join(lines).split())


def block(text, at):
    """From the brace at `at` to the one that closes it."""
    depth = 0
    for i in range(at, len(text)):
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        if depth == 0:
            return text[at + 1:i], i + 1
    raise ValueError(text[at:at + 60])


def statements(body):
    """Members, those of anonymous structs and unions among them."""
    part, depth, out = "", 0, []
    for c in body:
        depth += {"{": 1, "}": -1, "(": 1, ")": -1}.get(c, 0)
        if c == ";" and depth == 0:
            out.append(part.strip())
            part = ""
        else:
            part += c
    return out


def members(body):
    for one in statements(body):
        inner = re.match(r"(struct|union)\s*\w*\s*\{", one)
        if inner:
            held, end = block(one, one.index("{"))
            name = one[end:].strip(" *")
            yield from members(held) if name == "" else [re.sub(r"\[.*", "", name)]
            continue
        pointer = re.search(r"\(\s*\*\s*(?:const\s+)?(\w+)\s*\)\s*\(", one)
        if pointer:
            yield pointer[1]
            continue
        for name in re.sub(r"\[[^\]]*\]", "", one).split(","):
            yield re.search(r"(\w+)\s*$", name)[1]


def found(cc, root):
    paths = list(headers(root))
    text = own_text(cc, root, paths)
    lines = []
    for kind, name in re.findall(r"\b(enum|struct|union) (\w+) \{", text):
        body, _ = block(text, text.index(f"{kind} {name} {{") + len(f"{kind} {name} "))
        if kind == "enum":
            for item in body.split(","):
                if item.strip():
                    constant = item.split("=")[0].strip()
                    if not constant.endswith("_COUNT"):  # which move
                        lines.append(f'printf("{constant} %lld\\n", (long long){constant});')
        else:
            lines.append(f'printf("sizeof {name} %zu\\n", sizeof({kind} {name}));')
            lines += [f'printf("offsetof {name}.{m} %zu\\n", offsetof({kind} {name}, {m}));' for m in members(body)]
    with tempfile.TemporaryDirectory() as folder:
        source, binary = os.path.join(folder, "layout.c"), os.path.join(folder, "layout")
        with open(source, "w") as f:
            f.write("".join(f"#include <exg/{os.path.basename(p)}>\n" for p in paths))
            f.write("#include <exg/version.h>\n#include <stddef.h>\n#include <stdio.h>\nint main(void)\n{\n")
            f.write('    printf("EXG_ABI %d\\n", EXG_ABI);\n    ' + "\n    ".join(lines) + "\n    return 0;\n}\n")
        subprocess.run([cc, "-std=c11", f"-I{root}", f"-I{root}/libexport/include", f"-I{root}/libexec/include", "-o", binary, source], check=True)
        return subprocess.run([binary], capture_output=True, text=True, check=True).stdout.splitlines()


def may_grow(old, new):
    """A struct that begins with its size is known to the library by it: it may grow at its end."""
    kind, name, size = old.split()
    return kind == "sizeof" and f"offsetof {name}.size 0" in new and int(size) < int(next(l.split()[2] for l in new if l.startswith(f"sizeof {name} ")))


def broken(written, now):
    """What was there and is so no more."""
    there = {line.rsplit(" ", 1)[0]: line for line in now}
    for line in written:
        other = there.get(line.rsplit(" ", 1)[0])
        if other != line and not (other and line.startswith("sizeof") and may_grow(line, now)):
            yield f"was {line}, is {other or 'gone'}"


def main():
    cc, root = sys.argv[1:3]
    path = os.path.join(root, LIST)
    now = found(cc, root)
    with open(path) as f:
        written = f.read().splitlines()
    faults = list(broken(written, now)) if now[0] == written[0] else []
    for fault in faults:
        print(f"{fault}: a compiled program notices; the next EXG_ABI is needed")
    if faults == [] and sys.argv[3:] == ["--update"]:
        with open(path, "w") as f:
            f.write("\n".join(now) + "\n")
    elif faults == [] and now != written:
        print(f"{LIST} is not what the headers say: --update")
        faults = [LIST]
    print(f"{len(written)} facts, {len(faults)} faults")
    return faults != []


if __name__ == "__main__":
    sys.exit(main())
