"""Faults of Cython and C, found in the tokens of each statement and made as edits of the text.

Nothing changes in comments, texts, preprocessor lines, declarations (but for what a variable starts
with), the bodies of enums and structs, casts, types and ``raise``. What the compiler refuses is
no fault, so a rule here may be coarse.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import pairwise

from faults.change import Change, named
from faults.fields import Fields, used

COMMON = r"""
    (?P<name>[A-Za-z_]\w*) | (?P<number>0[xX][\da-fA-F]+[uUlL]*|\d[\d_.]*(?:[eE]-?\d+)?[uUlL]*)
  | (?P<op><<=|>>=|\+\+|--|->|&&|\|\||<<|>>|:=|//=?|\*\*|[-+*/%&|^<>=!]=|[^\w\s])
  | (?P<line>\n) | (?P<space>[^\S\n]+|\\\n)"""
TOKENS = {
    "cython": re.compile(
        r"""(?P<comment>\#[^\n]*) | (?P<text>[bcfruBR]{0,2}(?:'''[\s\S]*?'''|\"{3}[\s\S]*?\"{3}
            |'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")) |"""
        + COMMON,
        re.X,
    ),
    "c": re.compile(
        r"""(?P<comment>/\*[\s\S]*?\*/|//[^\n]*|(?m:^)[ \t]*\#(?:\\\n|[^\n])*)
            | (?P<text>'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*") |"""
        + COMMON,
        re.X,
    ),
}
OPPOSITE = {"<": ">=", ">=": "<", ">": "<=", "<=": ">", "==": "!=", "!=": "=="}
BOUND = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
SIGNS = {"+": "-", "-": "+", "+=": "-=", "-=": "+=", "++": "--", "--": "++"}
AND_OR = {"and", "or", "&&", "||"}
WORDS = {  # after these a value begins
    *("and", "or", "not", "in", "is", "if", "elif", "else", "while", "for", "return", "yield"),
    *("assert", "case", "await", "lambda", "del", "print", "from", "import", "with", "except"),
    *("sizeof", "raise", "do", "switch"),
}
PASSED_OVER = {
    *("import", "from", "cimport", "ctypedef", "class", "raise", "@", "include", "assert"),
    *("typedef", "struct", "enum", "union", "extern", "DEF", "global", "try", "except", "finally"),
}
UNIT = re.compile(r"\w_(ms|s|us|ns)$")
UNSEEN = {"free", "coterie_prefetch", "Py_DECREF", "Py_XDECREF"}  # leaks, and what is only quick
NOTHING = {"0", "None", "NULL", "False", "[]", "{}", "-1", '""', 'b""', "()", "set()"}


@dataclass
class Token:
    """``kind`` is name, number, op or text; ``typed`` ones belong to a cast."""

    kind: str
    text: str
    start: int
    typed: bool = False

    @property
    def end(self) -> int:
        """Where it ends in the file."""
        return self.start + len(self.text)


@dataclass
class Statement:
    """The tokens of a statement, in Cython of a logical line; ``scope`` holds it."""

    tokens: list[Token] = field(default_factory=list)
    scope: str = ""
    depth: int = 0

    def __getitem__(self, i: int) -> str:
        return self.tokens[i].text if 0 <= i < len(self.tokens) else ""

    def __len__(self) -> int:
        return len(self.tokens)

    def operand_before(self, i: int) -> bool:
        """Return whether a value ends in front of token ``i``: an operator there is binary."""
        before = self.tokens[i - 1] if i else None
        if before is None or before.typed or before.text in WORDS:
            return False
        return before.kind != "op" or before.text in (")", "]")

    def closing(self, i: int) -> int:
        """Return the index of the bracket that closes the one at ``i``; the end if none does."""
        depth = 0
        for at in range(i, len(self)):
            depth += (self[at] in ("(", "[", "{")) - (self[at] in (")", "]", "}"))
            if depth == 0:
                return at
        return len(self)


def changes_of(file: str, text: str, fields: Fields) -> list[Change]:
    """Return every fault of a Cython or C source, in the order of the text."""
    language = "c" if file.endswith((".h", ".c")) else "cython"
    tokens = list(tokens_of(text, language))
    split = c_statements if language == "c" else cython_statements
    finder = _Finder(file, text, fields, language)
    for block in split(tokens, text):
        for statement in block:
            finder.look(statement)
        for one, other in pairwise(block):
            finder.order(one, other)
    return named(finder.found, text)


def tokens_of(text: str, language: str) -> Iterator[Token]:
    """Yield the tokens; comments and spaces are left out, the ends of lines are not."""
    for found in TOKENS[language].finditer(text):
        if found.lastgroup not in ("comment", "space"):
            yield Token(str(found.lastgroup), found[0], found.start())


def cython_statements(tokens: list[Token], text: str) -> Iterator[list[Statement]]:
    """Yield the statements that follow each other in one block."""
    scopes: list[tuple[int, str]] = []  # (indent, name); "" is a block that is passed over
    block, depth, now = [], 0, Statement()
    for token in [*tokens, Token("line", "\n", len(text))]:
        if token.kind != "line":
            depth += (token.text in ("(", "[", "{")) - (token.text in (")", "]", "}"))
            now.tokens.append(token)
        elif depth <= 0 and now.tokens:
            start = now.tokens[0].start
            now.depth = start - text.rfind("\n", 0, start) - 1
            while scopes and scopes[-1][0] >= now.depth:
                scopes.pop()
            now.scope = ".".join(name for _, name in scopes)
            if block and block[-1].depth != now.depth:
                yield block
                block = []
            opens = now[len(now) - 1] == ":"
            words = {one.text for one in now.tokens[:3]}
            if all(name for _, name in scopes) and not (opens and _is_plain(words)):
                block.append(now)
            if opens and (words & {"def", "cdef", "cpdef", "class", "ctypedef"}):
                scopes.append((now.depth, _cython_name(now, words)))
            now, depth = Statement(), 0
    yield block


def _is_plain(words: set[str]) -> bool:
    """Return whether a block declares, and does nothing."""
    return bool(words & {"enum", "struct", "union", "extern", "ctypedef"})


def _cython_name(head: Statement, words: set[str]) -> str:
    """Return the name that a head gives to its block; "" where nothing in it is done."""
    if _is_plain(words):
        return ""
    names = [one.text for one in head.tokens]
    if "class" in words:
        return names[names.index("class") + 1]
    return names[names.index("(") - 1] if "(" in names else "cdef"


def c_statements(tokens: list[Token], text: str) -> Iterator[list[Statement]]:
    """Yield the statements of functions that follow each other; what is outside is passed over."""
    block: list[Statement] = []
    now, depth, scope, braces = Statement(), 0, "", 0
    for token in tokens:
        if token.kind == "line":
            continue
        word = token.text
        if word in ("{", "}") and depth == 0 and now[len(now) - 1] != "=":
            if word == "{" and braces == 0:
                last = len(now) - 1  # the parameters end the head: what is before may have ( too
                opens = [i for i in range(last) if now[i] == "(" and now.closing(i) == last]
                scope = now[opens[0] - 1] if opens else ""
            elif word == "{" and now.tokens:
                now.scope = scope
                block.append(now)  # the head of a loop or a condition
            braces += 1 if word == "{" else -1
            if scope:
                yield block
            block, now = [], Statement()
            continue
        depth += (word in ("(", "[", "{")) - (word in (")", "]", "}"))
        if word == ";" and depth == 0:
            now.scope, now.depth = scope, braces
            if braces and scope and now.tokens:
                block.append(now)
            now = Statement()
        else:
            now.tokens.append(token)


class _Finder:
    def __init__(self, file: str, text: str, fields: Fields, language: str) -> None:
        self.file, self.text, self.fields = file, text, fields
        self.in_c = language == "c"
        self.classes = fields.classes_in(text)
        self.used = used(text)
        self.found: list[Change] = []
        self.scope = ""

    def _add(self, operator: str, start: int, end: int, new: str) -> None:
        self.found.append(Change(self.file, self.scope, operator, start, end, new))

    def look(self, s: Statement) -> None:
        """Find the faults of one statement."""
        self.scope = s.scope
        if s[0] in PASSED_OVER or s.scope.endswith("__dealloc__"):
            return
        if s[0] in ("def", "cdef", "cpdef") and s[len(s) - 1] == ":":
            self._defaults(s)
            return
        first = self._first(s)
        self._mark_casts(s)
        loops = 0  # whose `in` is to come
        for i in range(first, len(s)):
            token = s.tokens[i]
            loops += token.text == "for"
            if token.text == "in" and loops:
                loops -= 1
            elif not token.typed:
                look = {"op": self._op, "number": self._number, "name": self._name}.get(token.kind)
                if look:
                    look(s, i)
                if token.text in AND_OR:
                    self._terms(s, i)
        if first == 0:
            self._whole(s)

    def _first(self, s: Statement) -> int:
        """Return where a statement's own doing begins: behind the = of a declaration."""
        if self.in_c:
            declares = s.tokens[0].kind == "name" and s[0] not in WORDS
            declares &= len(s) > 2 and (s.tokens[1].kind == "name" or s[1] == "*")
        else:
            declares = s[0] in ("cdef", "def", "cpdef")
        if not declares:
            return 0
        return next((i + 1 for i in range(len(s)) if s[i] == "="), len(s))

    def _mark_casts(self, s: Statement) -> None:
        for i, token in enumerate(s.tokens):
            if self.in_c and token.text == "(" and s.closing(i) < len(s) - 1:
                inside = s.tokens[i + 1 : s.closing(i)]
                types = any(
                    one.text.endswith("_t") or one.text in ("int", "char", "void", "long")
                    for one in inside
                )
                if types and all(one.kind == "name" or one.text == "*" for one in inside):
                    for one in s.tokens[i : s.closing(i) + 1]:
                        one.typed = True
            elif not self.in_c and token.text == "<" and not s.operand_before(i):
                end = next((at for at in range(i, len(s)) if s[at] == ">"), i)
                for one in s.tokens[i : end + 1]:
                    one.typed = True

    def _op(self, s: Statement, i: int) -> None:
        token, word = s.tokens[i], s[i]
        if word in OPPOSITE and s.operand_before(i):
            self._add("comparison", token.start, token.end, OPPOSITE[word])
            if word in BOUND:
                self._add("bound", token.start, token.end, BOUND[word])
        elif word in SIGNS:
            if word not in ("+", "-") or s.operand_before(i):
                if "text" not in [one.kind for one in s.tokens[max(i - 1, 0) : i + 2]]:
                    self._add("sign", token.start, token.end, SIGNS[word])
            elif word == "-":
                self._add("sign", token.start, token.end, "")
        elif word == "!" and self.in_c:
            self._add("comparison", token.start, token.end, "")
        elif word == "(" and i and s.tokens[i - 1].kind == "name" and s[i - 1] not in WORDS:
            self._arguments(s, i)

    def _number(self, s: Statement, i: int) -> None:
        token = s.tokens[i]
        number = re.fullmatch(r"([\d_]+)([uUlL]*)", token.text)
        if number:
            value = int(number[1])
            self._add("off by one", token.start, token.end, f"{value + 1}{number[2]}")
            if value:
                self._add("off by one", token.start, token.end, f"{value - 1}{number[2]}")

    def _name(self, s: Statement, i: int) -> None:
        token, word, after = s.tokens[i], s[i], s[i + 1]
        if word in ("is", "in", "not"):
            end = s.tokens[i + 1].end if (word, after) in (("is", "not"), ("not", "in")) else 0
            if end:
                self._add("comparison", token.start, end, "is" if word == "is" else "in")
            elif word == "not" and s[i - 1] != "is":
                self._add("comparison", token.start, s.tokens[i + 1].start, "")
            elif word != "not" and (s[i - 1], word) != ("not", "in"):
                self._add(
                    "comparison", token.start, token.end, "is not" if word == "is" else "not in"
                )
        elif word in ("min", "max") and after == "(":
            self._add("order", token.start, token.end, {"min": "max", "max": "min"}[word])
        elif word in ("True", "False") and s[i - 1] in ("=", "return"):
            how = "comparison" if s[i - 1] == "return" else "wrong default"
            if how == "comparison" or after in (",", ")"):
                self._add(how, token.start, token.end, {"True": "False", "False": "True"}[word])
        elif s[i - 1] in (".", "->") and after != "(":
            for other in self.fields.beside(word, self.used[s[i - 2]], self.classes):
                self._add("wrong field", token.start, token.end, other)
        if UNIT.search(word) and after not in ("=", "(", "+=", "-=", ".", "->", "[", "++", "--"):
            self._unit(s, i)

    def _unit(self, s: Statement, i: int) -> None:
        first = i
        while s[first - 1] in (".", "->"):
            first -= 2
        before = s.tokens[first - 1] if first else None
        named_so = before is not None and (
            before.text == "&" or (before.kind == "name" and before.text not in WORDS)
        )
        if s.tokens[first].kind == "name" and not named_so:
            start, end = s.tokens[first].start, s.tokens[i].end
            divided = "/" if self.in_c else "//"
            self._add("wrong unit", start, end, f"({self.text[start:end]} {divided} 1000)")

    def _arguments(self, s: Statement, i: int) -> None:
        """Swap neighbours among the arguments of a call."""
        spans, first, depth = [], i + 1, 0
        for at in range(i, min(s.closing(i), len(s) - 1) + 1):
            depth += (s[at] in ("(", "[", "{")) - (s[at] in (")", "]", "}"))
            if (depth == 1 and s[at] == ",") or depth == 0:
                spans.append((first, at))
                first = at + 1
        for (a, b), (c, d) in pairwise(spans):
            one, other = s.tokens[a:b], s.tokens[c:d]
            if (
                not one
                or not other
                or any(each.text in ("=", "*", "**") for each in one[:2] + other[:2])
            ):
                continue
            plain = [len(each) == 1 and each[0].kind in ("number", "text") for each in (one, other)]
            if plain[0] == plain[1] and s[i - 1] not in ("min", "max", "range", "isinstance"):
                between = self.text[one[-1].end : other[0].start]
                texts = [self.text[each[0].start : each[-1].end] for each in (one, other)]
                self._add(
                    "swapped arguments", one[0].start, other[-1].end, between.join(texts[::-1])
                )

    def _terms(self, s: Statement, i: int) -> None:
        """Drop the term on each side of `and` or `or`."""
        tight = s[i] in ("and", "&&")
        stops = {",", ":", ";", "=", ":=", "?", "if", "else", "elif", "while", "return", "for"}
        stops |= AND_OR if tight else {"or", "||"}
        last = i + 1
        while last < len(s) and s[last] not in stops and s[last] not in (")", "]", "}"):
            last = (s.closing(last) if s[last] in ("(", "[", "{") else last) + 1
        self._add("dropped term", s.tokens[i - 1].end, s.tokens[min(last, len(s)) - 1].end, "")
        first, depth = i, 0
        while first > 0:
            before = s[first - 1]
            if depth == 0 and (before in stops or before in ("(", "[", "{")):
                break
            depth += (before in (")", "]", "}")) - (before in ("(", "[", "{"))
            first -= 1
        self._add("dropped term", s.tokens[first].start, s.tokens[i + 1].start, "")

    def _whole(self, s: Statement) -> None:
        """Drop a statement that calls or resets."""
        start, end, nothing = s.tokens[0].start, s.tokens[-1].end, "" if self.in_c else "pass"
        if s[0] in UNSEEN:
            return
        if self._calls(s):
            called = s[next(i for i in range(len(s)) if s[i] == "(") - 1]
            reset = called in ("clear", "pop", "discard", "memset")
            self._add("missing reset" if reset else "dropped call", start, end, nothing)
        elif s[0] == "del":
            self._add("missing reset", start, end, nothing)
        elif self._sets(s) and "init" not in s.scope and not s.scope.startswith("new_"):
            last = max((i for i in range(len(s)) if s[i] == "="), default=-1)
            if "".join(one.text for one in s.tokens[last + 1 :]) in NOTHING:
                self._add("missing reset", start, end, nothing)

    def _calls(self, s: Statement) -> bool:
        """Return whether a statement is one call."""
        at = next((i for i in range(len(s)) if s[i] == "("), 0)
        before = s.tokens[:at]
        named_so = all(one.kind == "name" or one.text in (".", "->") for one in before)
        return bool(at) and named_so and s[0] not in WORDS and s.closing(at) == len(s) - 1

    def _sets(self, s: Statement) -> bool:
        """Return whether a statement changes what others see too."""
        at = next((i for i in range(len(s)) if s[i] in ("=", "+=", "-=", "|=")), 0)
        if s[0] in WORDS or s[0] in ("def", "cdef", "cpdef"):
            return False
        return any(one.text in (".", "->", "[") for one in s.tokens[:at])

    def _defaults(self, s: Statement) -> None:
        for i, token in enumerate(s.tokens):
            if s[i - 1] == "=" and s[i + 1] in (",", ")"):
                if token.text in ("True", "False"):
                    other = {"True": "False", "False": "True"}[token.text]
                    self._add("wrong default", token.start, token.end, other)
                elif token.text.isdigit():
                    self._add(
                        "wrong default", token.start, token.end, str(int(token.text) * 2 or 1)
                    )

    def order(self, one: Statement, other: Statement) -> None:
        """Swap two statements that have to do with the same."""
        if one[0] in UNSEEN or one[0] == other[0] or one.scope.endswith("__dealloc__"):
            return
        first = [self._first(s) for s in (one, other)]
        calls = [self._calls(s) for s in (one, other)]
        if (
            any(first)
            or not any(calls)
            or not all(self._sets(s) or self._calls(s) for s in (one, other))
        ):
            return
        names = [{t.text for t in s.tokens if t.kind == "name"} for s in (one, other)]
        if names[0] & names[1]:
            self.scope = one.scope
            between = self.text[one.tokens[-1].end : other.tokens[0].start]
            texts = [self.text[s.tokens[0].start : s.tokens[-1].end] for s in (one, other)]
            self._add("order", one.tokens[0].start, other.tokens[-1].end, between.join(texts[::-1]))
