"""The public headers, as cffi reads C: what a compiler makes of them, without system headers, attributes and bodies."""

import re
import subprocess


def declarations(compiler, folders):
    """Of exg/exec.h, in the order of the headers."""
    include = [word for folder in folders for word in ("-I", folder)]
    text = subprocess.run([compiler, "-E", *include, "-x", "c", "-"], input="#include <exg/exec.h>\n#include <exg/http.h>\n",
                          check=True, capture_output=True, text=True).stdout  # fmt: skip
    kept, ours = [], False
    for line in text.split("\n"):
        marker = re.match(r'# \d+ "([^"]*)"', line)
        if marker:
            ours = "/exg/" in marker[1]
        elif ours:
            kept.append(line)
    return without(without("\n".join(kept), "__attribute__", "()"), "static inline", "{}")  # which is C for C's callers


def without(text, word, pair):
    """No `word`, with what stands behind it in a pair of parentheses or braces, however deep."""
    at = text.find(word)
    while at >= 0:
        end, depth = text.index(pair[0], at), 0
        while True:
            depth += {pair[0]: 1, pair[1]: -1}.get(text[end], 0)
            end += 1
            if depth == 0:
                break
        text = text[:at] + text[end:]
        at = text.find(word)
    return text
