"""Mutants of a C source: the places where one small change makes another program.

The source is cut into tokens and no further: comments, directives and what macros are made of stay as they are, and brackets
tell blocks from initializers. What is no C after a change, the compiler finds.
"""

import dataclasses
import re

TOKEN = re.compile(
    r"""(?P<comment>/\*.*?\*/|//[^\n]*)
      | (?P<directive>^[ \t]*\#(?:\\\n|[^\n])*)
      | (?P<string>"(?:\\.|[^"\\\n])*")
      | (?P<char>'(?:\\.|[^'\\\n])*')
      | (?P<number>\.?[0-9](?:[eEpP][-+]|[A-Za-z0-9_.])*)
      | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
      | (?P<mark><<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|[-+*/%&|^~!<>=?:;,.(){}\[\]])
      | (?P<space>\s+)
    """,
    re.S | re.M | re.X,
)
INTEGER = re.compile(r"(0[xX][0-9a-fA-F]+|[0-9]+)([uUlL]*)$")
HEADS = {"if", "for", "while", "switch"}
KEYWORDS = HEADS | set(
    "return goto break continue case default else do sizeof static const struct union enum typedef extern register inline "
    "void int char bool float double long short unsigned signed size_t _Static_assert".split()
)
OTHER = {
    "comparison": {"<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "=="},
    "logic": {"&&": "||", "||": "&&"},
    "arithmetic": {"+": "-", "-": "+", "/": "*", "%": "*", "<<": ">>", ">>": "<<", "+=": "-=", "-=": "+=", "++": "--", "--": "++",
                   "|=": "&=", "&=": "|="},
}  # fmt: skip
ALIKE = re.compile(r"strcmp|strncmp|memcmp|EXG_REQUIRE|assert")  # calls whose arguments say the same in any order
FAULT = re.compile(r"\w*_FAIL|exg_found|DIFFER")  # calls that tell a fault
KINDS = ("constant", "comparison", "logic", "arithmetic", "dropped", "swapped", "negated", "early", "string")


@dataclasses.dataclass
class Token:
    kind: str
    text: str
    start: int
    end: int
    function: str = ""  # that it stands in, "" outside
    gives: str = ""  # that function's type
    statement: bool = False  # a statement begins here
    twin: int = -1  # the bracket that closes this one, or is closed by it


@dataclasses.dataclass(frozen=True)
class Mutant:
    file: str
    line: int
    kind: str
    start: int
    end: int
    text: str  # that stands there then

    def apply(self, source):
        """The line count stays, so that no other line's number changes."""
        old = source[self.start : self.end]
        return source[: self.start] + self.text + "\n" * (old.count("\n") - self.text.count("\n")) + source[self.end :]

    def lines(self, source):
        """(as it was, as it is then): the lines that change, joined."""
        first = source.rfind("\n", 0, self.start) + 1
        last = source.find("\n", self.end)
        before, after = source[first:last], source[first : self.start] + self.text + source[self.end : last]
        return tuple(" ".join(part.split()) for part in (before, after))


def tokens_of(source):
    found = []
    for match in TOKEN.finditer(source):
        if match.lastgroup not in ("comment", "directive", "space"):
            found.append(Token(match.lastgroup, match.group(), match.start(), match.end()))
    return found


def is_block(tokens, at, depth):
    """Does this brace hold statements? Those of initializers and types do not."""
    before = tokens[at - 1] if at > 0 else None
    if before is None:
        return False
    if before.text == ")":
        head = tokens[before.twin - 1].text if before.twin > 0 else ""
        return depth == 0 or head in HEADS
    return depth > 0 and (before.text in {"else", "do", ";", "{", "}"} or before.text == ":")


def mark(tokens):
    """Fills in the functions, the statements and the twins of the tokens."""
    open_, function, gives = [], "", ""
    for i, token in enumerate(tokens):
        if token.text in {")", "]", "}"} and open_:
            twin, _ = open_.pop()
            token.twin, tokens[twin].twin = twin, i
        token.function, token.gives = function, gives
        inside = bool(open_) and open_[-1][1]
        before = tokens[i - 1].text if i > 0 else ""
        closes_head = before == ")" and tokens[tokens[i - 1].twin - 1].text in HEADS
        token.statement = inside and (before in {";", "{", "}", "else", "do"} or closes_head) and token.text not in {"{", "}", ";"}
        if token.text in {"(", "[", "{"}:
            block = token.text == "{" and is_block(tokens, i, len(open_))
            if block and not open_:
                name = tokens[i - 1].twin - 1
                k = name
                while k > 0 and tokens[k - 1].text not in {";", "}"}:
                    k -= 1
                function, gives = tokens[name].text, " ".join(t.text for t in tokens[k:name])
            open_.append((i, block))
        elif not open_:
            function, gives = "", ""
    return tokens


def end_of(tokens, i):
    """The semicolon that ends the statement at i, or None."""
    while i < len(tokens) and tokens[i].text != ";":
        if tokens[i].text in {"(", "[", "{"}:
            i = tokens[i].twin
        elif tokens[i].text == "}":
            return None
        i += 1
    return i if 0 <= i < len(tokens) else None


def is_droppable(tokens, i, end):
    """A call or an assignment, not a declaration; or a way out of a loop or a switch."""
    words = tokens[i:end]
    if not words:
        return False
    if words[0].text in {"break", "continue"}:
        return True
    if words[0].kind != "name" and words[0].text not in {"*", "++", "--", "("}:
        return False
    if words[0].text in KEYWORDS or len(words) < 2 or words[1].kind == "name":
        return False
    if words[1].text == "*" and len(words) > 2 and words[2].kind == "name":
        return False
    return any(t.text in {"=", "++", "--", "("} or t.text.endswith("=") for t in words)


def arguments(tokens, i):
    """The (first, behind the last) token of each argument of the call whose bracket is at i."""
    found, first, k = [], i + 1, i + 1
    while k < tokens[i].twin:
        if tokens[k].text in {"(", "[", "{"}:
            k = tokens[k].twin
        elif tokens[k].text == ",":
            found.append((first, k))
            first = k + 1
        k += 1
    return [*found, (first, tokens[i].twin)] if tokens[i].twin > i + 1 else []


class Finder:
    def __init__(self, file, source):
        self.file, self.source, self.found = file, source, []
        self.tokens = mark(tokens_of(source))

    def add(self, kind, start, end, text):
        if self.source[start:end] != text:
            self.found.append(Mutant(self.file, self.source.count("\n", 0, start) + 1, kind, start, end, text))

    def constant(self, i):
        token = self.tokens[i]
        if i > 2 and self.tokens[i - 1].text == "[" and self.tokens[i - 2].kind == self.tokens[i - 3].kind == "name":
            return  # the size of an array
        if token.text in {"true", "false"}:
            self.add("constant", token.start, token.end, "false" if token.text == "true" else "true")
        match = INTEGER.match(token.text) if token.kind == "number" else None
        if match:
            value = int(match[1], 0) if not re.match(r"0[0-7]", match[1]) else int(match[1], 8)
            self.add("constant", token.start, token.end, {0: "1", 1: "0"}.get(value, str(value + 1)) + match[2])

    def operator(self, i):
        token, before = self.tokens[i], self.tokens[i - 1]
        is_binary = before.kind in {"number", "name", "string", "char"} or before.text in {")", "]"}
        for kind, other in OTHER.items():
            if token.text in other and (is_binary or token.text in {"++", "--"}) and before.text not in KEYWORDS:
                self.add(kind, token.start, token.end, other[token.text])
        if token.text == "!" and self.tokens[i + 1].text != "=":
            self.add("negated", token.start, token.end, "")

    def string(self, token):
        """Words, codes, keys and names: a text with blanks is for people, whose wording no test need keep."""
        text = token.text[1:-1]
        if " " not in text and "%" not in text and "\\" not in text:
            self.add("string", token.start, token.end, f'"{text}~"')

    def statement(self, i):
        end = end_of(self.tokens, i)
        token = self.tokens[i]
        if end is None:
            return
        if is_droppable(self.tokens, i, end):
            self.add("dropped", token.start, self.tokens[end].start, "")
        if token.text not in {"return", "case", "default", "break", "continue", "goto"} and token.text not in KEYWORDS - HEADS - {"do"}:
            if "exg_status" in token.gives.split():
                self.add("early", token.start, token.start, "return EXG_OK; ")
            elif token.gives.split()[-1:] == ["void"]:
                self.add("early", token.start, token.start, "return; ")

    def call(self, i):
        tokens = self.tokens
        if tokens[i].text == "(" and tokens[i - 1].text in {"if", "while"}:
            inner = self.source[tokens[i].end : tokens[tokens[i].twin].start]
            self.add("negated", tokens[i].end, tokens[tokens[i].twin].start, f"!({inner})")
        elif tokens[i].text == "(" and tokens[i - 1].kind == "name" and tokens[i - 1].text not in KEYWORDS:
            if ALIKE.fullmatch(tokens[i - 1].text):
                return
            given = arguments(tokens, i)
            for a, b in zip(given, given[1:]):
                if a[0] < a[1] and b[0] < b[1]:
                    x, y = (self.source[tokens[s].start : tokens[e - 1].end] for s, e in (a, b))
                    between = self.source[tokens[a[1] - 1].end : tokens[b[0]].start]
                    self.add("swapped", tokens[a[0]].start, tokens[b[1] - 1].end, y + between + x if x != y else x + between + y)

    def worded(self):
        """The tokens that only word a message: behind a text with blanks in a call that tells a fault."""
        found = set()
        for i, token in enumerate(self.tokens):
            if token.text == "(" and FAULT.fullmatch(self.tokens[i - 1].text):
                texts = [k for k in range(i, token.twin) if self.tokens[k].kind == "string" and " " in self.tokens[k].text]
                found.update(range(texts[0], token.twin) if texts else ())
        return found

    def find(self):
        worded = self.worded()
        for i, token in enumerate(self.tokens):
            if i in worded:
                continue
            self.constant(i)
            if token.kind == "string":
                self.string(token)
            if token.function:
                if token.kind == "mark":
                    self.operator(i)
                    self.call(i)
                if token.statement:
                    self.statement(i)
        return self.found


def mutants_of(file, source):
    return Finder(file, source).find()
