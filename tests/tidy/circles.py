"""Which files know each other in a circle, by the symbols that their object files define and want.

  circles.py NM BUILD LIST

BUILD is a build that is complete; LIST is tests/tidy/circles.txt. A circle is a set of files each of which wants, by way
of others, a symbol of each other: none can be understood, tested or replaced without the rest. The usual cause is a file
that drives the others and defines what they call; moving that to a file below opens the circle. What is recursion (an
operator made of operators, a loop whose body is a program) stays, and LIST says why:

  circle REASON
    FILE
    FILE

A circle that LIST does not have is a fault, and so is one of LIST that is gone or has other members.
"""
import json, os, re, subprocess, sys
from collections import defaultdict

OBJECT = re.compile(r"(?:^|/)(libexport|libexec|cli)/CMakeFiles/[^/]+\.dir/(.*)\.o$")


def objects(build):
    """The object files of the product, each with its source; a source may have several, one an instruction set."""
    with open(os.path.join(build, "compile_commands.json")) as commands:
        for command in json.load(commands):
            output = re.search(r" -o (\S+)", command["command"])[1]
            found = OBJECT.search(output)
            if found:
                yield os.path.join(command["directory"], output), f"{found[1]}/{found[2]}"


def arrows(nm, build):
    """By source: the sources that it takes symbols from, with these."""
    sources = dict(objects(build))
    missing = [path for path in sources if not os.path.exists(path)]
    if not sources or missing:
        sys.exit(f"circles: not built: {missing[0] if missing else build}")
    defined, wanted = defaultdict(set), defaultdict(set)
    text = subprocess.run([nm, "-A", "-P", "-g", *sources], capture_output=True, text=True, check=True).stdout
    for line in text.splitlines():
        path, _, rest = line.partition(": ")
        name, kind = rest.split()[:2]
        if kind == "U":
            wanted[name].add(sources[path])
        elif kind not in "wvWV":  # weak: inline functions of C++, which every file has
            defined[name].add(sources[path])
    out = {source: defaultdict(set) for source in sources.values()}
    for name, takers in wanted.items():
        for taker in takers:
            for giver in defined[name] - {taker}:
                out[taker][giver].add(name)
    return out


def circles(graph):
    """Strongly connected components of more than one member, by Tarjan, with a stack of its own."""
    number, low, open_, stack, found = {}, {}, set(), [], []
    for root in sorted(graph):
        work = [] if root in number else [(root, None)]
        while work:
            node, rest = work.pop()
            if rest is None:
                number[node] = low[node] = len(number)
                stack.append(node)
                open_.add(node)
                rest = iter(sorted(graph[node]))
            for after in rest:
                if after not in number:
                    work += [(node, rest), (after, None)]
                    break
                if after in open_:
                    low[node] = min(low[node], low[after])
            else:
                if low[node] == number[node]:
                    at = stack.index(node)
                    members = stack[at:]
                    del stack[at:]
                    open_ -= set(members)
                    if len(members) > 1:
                        found.append(frozenset(members))
                elif work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
    return found


def listed(path):
    """The circles of a list."""
    out = []
    with open(path) as lines:
        for at, line in enumerate(lines, 1):
            words = line.split()
            if not words or words[0].startswith("#"):
                continue
            if words[0] == "circle" and len(words) > 1:
                out.append(set())
            elif words[0] != "circle" and len(words) == 1 and out:
                out[-1].add(words[0])
            else:
                sys.exit(f"{path}:{at}: write 'circle REASON', and below it a file a line")
    return [frozenset(members) for members in out]


def main(nm, build, path):
    graph = arrows(nm, build)
    found, want = circles(graph), listed(path)
    for circle in sorted(set(found) - set(want), key=sorted):
        print(f"{len(circle)} files that know each other in a circle, which {path} does not have:")
        for taker in sorted(circle):
            for giver in sorted(circle & set(graph[taker])):
                print(f"  {taker} -> {giver}: {' '.join(sorted(graph[taker][giver]))}")
    for circle in sorted(set(want) - set(found), key=sorted):
        print(f"{path}: gone, or of other members: {' '.join(sorted(circle))}")
    print(f"circles: {len(found)}, of {sum(map(len, found))} of {len(graph)} files")
    return set(found) != set(want)


sys.exit(main(*sys.argv[1:]))
