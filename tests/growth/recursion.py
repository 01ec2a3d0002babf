"""Which functions call themselves, by way of others or not: recursion.py FOLDER

FOLDER holds what GCC wrote down of who calls whom (-fcallgraph-info). Every circle of calls must be a line of recursion.txt, with
what bounds it: a circle as deep as a program, a list or a name overflows the stack that a caller gives. Calls through pointers are
not seen, nor what is inlined away. A line without a circle is a fault too.
"""
import glob, os, re, sys

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.dirname(os.path.dirname(here)) + "/"


def read_calls(folder):
    calls = {}
    for path in glob.glob(os.path.join(folder, "**", "*.ci"), recursive=True):
        for a, b in re.findall(r'^edge: \{ sourcename: "([^"]*)" targetname: "([^"]*)"', open(path, errors="replace").read(), re.M):
            # What GCC makes of a part or a copy of a function is that function.
            a, b = (re.sub(r"\.(part|constprop|isra|cold)\.?\d*|'\d+", "", x).replace(root, "").replace("../../", "") for x in (a, b))
            calls.setdefault(a, set()).add(b)
    return calls


def circles(calls):
    """Tarjan's strongly connected components, without calling itself."""
    number, low, on, stack, found = {}, {}, set(), [], []
    for start in calls:
        work = [] if start in number else [(start, iter(calls[start]))]
        if work:
            number[start] = low[start] = len(number)
            stack.append(start)
            on.add(start)
        while work:
            at, rest = work[-1]
            for to in rest:
                if to not in number:
                    number[to] = low[to] = len(number)
                    stack.append(to)
                    on.add(to)
                    work.append((to, iter(calls.get(to, ()))))
                    break
                if to in on:
                    low[at] = min(low[at], number[to])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[at])
                if low[at] == number[at]:
                    circle = []
                    while not circle or circle[-1] != at:
                        circle.append(stack.pop())
                        on.discard(circle[-1])
                    if len(circle) > 1 or at in calls.get(at, ()):
                        found.append(" ".join(sorted(circle)))
    return set(found)


def main():
    calls = read_calls(sys.argv[1])
    known = {}
    for line in open(os.path.join(here, "recursion.txt")):
        if line.strip() and not line.startswith("#"):
            circle, _, bound = line.partition(" -- ")
            known[circle.strip()] = bound.strip()
    found = circles(calls)
    faults = [f"{c}: calls itself; what bounds it?" for c in sorted(found - set(known))]
    faults += [f"{c}: calls itself no more" for c in sorted(set(known) - found)]
    faults += [f"{c}: without a bound" for c, bound in known.items() if bound == ""]
    faults += [] if len(calls) > 1000 else [f"{sys.argv[1]}: calls of {len(calls)} functions alone"]
    print("\n".join(faults + [f"{len(found)} circles of calls, {len(faults)} faults"]))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
