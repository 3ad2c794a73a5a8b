"""Faults of Python sources, found in the syntax tree and made as edits of the text.

Docstrings, annotations, f-strings (mostly messages), ``raise`` (the condition before it changes),
imports and code for type checkers get no faults.
"""

from __future__ import annotations

import ast
import re
from itertools import pairwise

from faults.change import Change, named
from faults.fields import Fields, used

COMPARISONS = {
    ast.Lt: ("<", ">=", "<="),  # as written, the opposite, the other bound
    ast.LtE: ("<=", ">", "<"),
    ast.Gt: (">", "<=", ">="),
    ast.GtE: (">=", "<", ">"),
    ast.Eq: ("==", "!=", ""),
    ast.NotEq: ("!=", "==", ""),
    ast.Is: ("is", "is not", ""),
    ast.IsNot: ("is not", "is", ""),
    ast.In: ("in", "not in", ""),
    ast.NotIn: ("not in", "in", ""),
}
FACTORS = {1000, 1_000_000, 60, 3600, 60_000, 3_600_000}
UNIT = re.compile(r"\w_(ms|s|us|ns|seconds)$")
OTHER_UNIT = {"s": "* 1000", "seconds": "* 1000"}  # all others become 1,000 times smaller
CONVERSIONS = {"sorted": "list", "reversed": "iter"}
TRIMS = {"strip", "lstrip", "rstrip", "lower", "upper", "casefold"}
SAME_WITHOUT = {  # dropping these calls changes nothing, or only causes a type error
    *("bool", "dict", "frozenset", "int", "iter", "len", "list", "print", "repr", "set", "str"),
    *("super", "tuple", "type", "next", "callable", "open", "vars", "range", "getattr"),
}
OUTPUT_CALLS = {"warn", "echo", "secho", "print", "log", "debug", "info", "warning", "say"}
Span = tuple[int, int]


def changes_of(file: str, text: str, fields: Fields) -> list[Change]:
    """Return every fault of a Python source, in the order of the text."""
    walk = _Walk(file, text, fields)
    walk.visit(ast.parse(text))
    return named(walk.found, text)


def compiles(text: str) -> bool:
    """Whether Python compiles the text."""
    try:
        compile(text, "fault", "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        return False
    return True


class _Walk(ast.NodeVisitor):
    def __init__(self, file: str, text: str, fields: Fields) -> None:
        self.file, self.text, self.fields = file, text, fields
        self.classes = fields.classes_in(text)
        self.used = used(text)
        self.starts = [0]
        self.lines = text.splitlines(keepends=True)
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))
        self.scope: list[str] = []
        self.in_class = False
        self.found: list[Change] = []

    # ---- places in the text
    def _at(self, line: int, column: int) -> int:
        """Return the character of a line and a column, which counts bytes of UTF-8."""
        return self.starts[line - 1] + len(self.lines[line - 1].encode()[:column].decode())

    def _span(self, node: ast.AST) -> Span:
        return (
            self._at(node.lineno, node.col_offset),
            self._at(node.end_lineno, node.end_col_offset),
        )

    def _source(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self.text[start:end]

    def _wide(self, node: ast.AST, within: ast.AST) -> Span:
        """Return the span of a node with the parentheses around it, inside another node."""
        start, end = self._span(node)
        least, most = self._span(within)
        while True:
            before = len(self.text[least:start].rstrip()) + least - 1
            after = end + len(self.text[end:most]) - len(self.text[end:most].lstrip())
            if (
                before < least
                or after >= most
                or (self.text[before], self.text[after]) != tuple("()")
            ):
                return start, end
            start, end = before, after + 1

    def _add(self, operator: str, span: Span, new: str) -> None:
        self.found.append(Change(self.file, ".".join(self.scope), operator, *span, new))

    # ---- nodes that are skipped or entered
    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave texts alone."""

    visit_Raise = visit_Assert = visit_Import = visit_ImportFrom = visit_JoinedStr

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Enter the value, not the type."""
        if node.value:
            if self.in_class:
                self._default(node.value)
            else:
                self._reset(node, node.target, node.value)
            self.visit(node.value)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Enter the body."""
        self._enter(node, in_class=True)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        """Enter defaults and body, unless it only overloads."""
        if any("overload" in ast.dump(one) for one in node.decorator_list):
            return
        self.scope.append(node.name)
        for value in [*node.args.defaults, *node.args.kw_defaults]:
            if value:
                self._default(value)
        self.scope.pop()
        self._enter(node, in_class=False)

    visit_AsyncFunctionDef = visit_FunctionDef

    def _enter(self, node: ast.ClassDef | ast.FunctionDef, in_class: bool) -> None:
        around, self.in_class = self.in_class, in_class
        self.scope.append(node.name)
        self._statements(node.body)
        for one in node.body:
            self.visit(one)
        self.scope.pop()
        self.in_class = around

    def visit_If(self, node: ast.If) -> None:
        """Leave alone what only type checkers read."""
        if "TYPE_CHECKING" not in ast.dump(node.test):
            self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> None:
        """Look at the pairs of statements in each block."""
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                self._statements(block)
        super().generic_visit(node)

    # ---- conditions
    def visit_Compare(self, node: ast.Compare) -> None:
        """Find the opposite of each comparison, and the other bound."""
        for one, other, op in zip(
            [node.left, *node.comparators], node.comparators, node.ops, strict=False
        ):
            source, opposite, bound = COMPARISONS[type(op)]
            start, end = self._wide(one, node)[1], self._wide(other, node)[0]
            place = re.search(source.replace(" ", r"\s+"), self.text[start:end])
            if place:
                span = (start + place.start(), start + place.end())
                self._add("comparison", span, opposite)
                if bound:
                    self._add("bound", span, bound)
        before = len(self.found)
        self.generic_visit(node)
        if _asks_for_sign_or_none(node):  # which no unit changes
            self.found[before:] = [
                one for one in self.found[before:] if one.operator != "wrong unit"
            ]

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        """Drop each term."""
        terms = [self._wide(one, node) for one in node.values]
        for one, other in pairwise(terms):
            self._add("dropped term", (one[0], other[0]), "")
        self._add("dropped term", (terms[-2][1], terms[-1][1]), "")
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        """Drop ``not`` and the minus."""
        operator = {ast.Not: "comparison", ast.USub: "sign"}.get(type(node.op))
        if operator:
            start, _ = self._span(node)
            self._add(operator, (start, self._wide(node.operand, node)[0]), "")
        self.generic_visit(node)

    # ---- numbers
    def visit_Constant(self, node: ast.Constant) -> None:
        """Find integers that can be one more or less."""
        if type(node.value) is int:
            source = self._source(node)
            if source.replace("_", "").isdigit():  # masks in hex are of another kind
                self._add("off by one", self._span(node), str(node.value + 1))
                if node.value > 0:
                    self._add("off by one", self._span(node), str(node.value - 1))

    def visit_BinOp(self, node: ast.BinOp) -> None:
        """Swap + and -, and * and / by a factor of time."""
        if isinstance(node.op, ast.LShift) and not self.scope and _bounds_memory(node):
            return
        start, end = self._wide(node.left, node)[1], self._wide(node.right, node)[0]
        source = self.text[start:end]
        texts = (ast.Constant, ast.JoinedStr, ast.List, ast.Tuple, ast.ListComp)
        whole = not any(
            isinstance(side, texts) and not isinstance(getattr(side, "value", None), int)
            for side in (node.left, node.right)
        )
        factor = isinstance(node.right, ast.Constant) and node.right.value in FACTORS
        if isinstance(node.op, ast.Add | ast.Sub) and whole:
            self._swap("sign", start, source, {"+": "-", "-": "+"})
        if isinstance(node.op, ast.Mult | ast.Div | ast.FloorDiv) and factor:
            self._swap("wrong unit", start, source, {"//": "*", "/": "*", "*": "//"})
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Swap += and -=."""
        start, end = self._span(node.target)[1], self._span(node.value)[0]
        self._swap("sign", start, self.text[start:end], {"+=": "-=", "-=": "+="})
        self.generic_visit(node)

    def _swap(self, operator: str, start: int, source: str, other: dict[str, str]) -> None:
        for one, instead in other.items():
            if one in source:
                at = start + source.index(one)
                self._add(operator, (at, at + len(one)), instead)
                return

    def visit_Subscript(self, node: ast.Subscript) -> None:
        """Find the first and the last of a sequence, and the bounds of slices."""
        if isinstance(node.slice, ast.Slice):
            for bound in (node.slice.lower, node.slice.upper):
                if bound and not isinstance(bound, ast.Constant | ast.UnaryOp):
                    self._add("off by one", self._span(bound), f"{self._source(bound)} + 1")
        elif self._source(node.slice) in ("0", "-1"):
            other = "-1" if self._source(node.slice) == "0" else "0"
            self._add("order", self._span(node.slice), other)
        self.generic_visit(node)

    # ---- values
    def visit_Name(self, node: ast.Name) -> None:
        """Find a time that is read."""
        unit = UNIT.search(node.id if isinstance(node, ast.Name) else node.attr)
        if unit and isinstance(node.ctx, ast.Load):
            factor = OTHER_UNIT.get(unit[1], "// 1000")
            self._add("wrong unit", self._span(node), f"({self._source(node)} {factor})")

    def visit_Attribute(self, node: ast.Attribute) -> None:
        """Find fields that have others of their type beside them, and times."""
        self.visit_Name(node)
        end = self._span(node)[1]
        owner = re.search(r"\w*$", self._source(node.value))[0]
        for other in self.fields.beside(node.attr, self.used[owner], self.classes):
            self._add("wrong field", (end - len(node.attr), end), other)
        self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> None:
        """Find options."""
        if isinstance(node.value, ast.Constant) and node.arg != "strict":
            self._default(node.value)
        self.generic_visit(node)

    def _default(self, value: ast.expr) -> None:
        if not isinstance(value, ast.Constant) or isinstance(value.value, str | bytes):
            return
        instead = {True: "False", False: "True"}.get(value.value)
        if type(value.value) is bool:
            self._add("wrong default", self._span(value), str(instead))
        elif isinstance(value.value, int | float):
            self._add("wrong default", self._span(value), str(value.value * 2 or 1))

    # ---- calls
    def visit_Call(self, node: ast.Call) -> None:
        """Swap neighbours among the arguments, drop conversions, change what a look-up falls to."""
        name = node.func.attr if isinstance(node.func, ast.Attribute) else self._source(node.func)
        if name in OUTPUT_CALLS:
            return
        plain = [one for one in node.args if not isinstance(one, ast.Starred)]
        if len(plain) == len(node.args) and name not in ("min", "max"):
            for one, other in pairwise(plain):
                if isinstance(one, ast.Constant) != isinstance(other, ast.Constant):
                    continue  # hardly of one type
                (start, after), (before, end) = self._span(one), self._span(other)
                new = self._source(other) + self.text[after:before] + self._source(one)
                self._add("swapped arguments", (start, end), new)
        if name in ("get", "pop", "getattr") and len(plain) > 1:
            self._default(plain[-1])
        if name in ("min", "max") and isinstance(node.func, ast.Name):
            self._add("order", self._span(node.func), {"min": "max", "max": "min"}[name])
        if len(plain) == 1 and (name in CONVERSIONS):
            new = f"{CONVERSIONS[name]}({self._source(plain[0])})"
            self._add("order", self._span(node), new)
        elif name == "range" and plain:
            self._add("off by one", self._span(plain[-1]), f"{self._source(plain[-1])} - 1")
        elif len(plain) == len(node.args) == 1 and isinstance(node.func, ast.Name):
            if name.islower() and name not in SAME_WITHOUT and not node.keywords:
                self._add("dropped call", self._span(node), self._source(plain[0]))
        elif name in TRIMS and isinstance(node.func, ast.Attribute):
            self._add("dropped call", self._span(node), self._source(node.func.value))
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        """Find the opposite of an answer."""
        if isinstance(node.value, ast.Constant) and type(node.value.value) is bool:
            self._add("comparison", self._span(node.value), str(not node.value.value))
        self.generic_visit(node)

    # ---- statements
    def visit_Expr(self, node: ast.Expr) -> None:
        """Drop a call, or a reset by one."""
        value = node.value.value if isinstance(node.value, ast.Await) else node.value
        if not isinstance(value, ast.Call):
            return
        name = (
            value.func.attr if isinstance(value.func, ast.Attribute) else self._source(value.func)
        )
        if name in OUTPUT_CALLS:
            return
        reset = name in ("clear", "discard", "pop")
        self._add("missing reset" if reset else "dropped call", self._span(node), "pass")
        before = len(self.found)
        self.generic_visit(node)
        whole = self._span(value)  # a call whose value is unused: remove it or not
        self.found[before:] = [
            one
            for one in self.found[before:]
            if (one.operator, one.start, one.end) != ("dropped call", *whole)
        ]

    def visit_Assign(self, node: ast.Assign) -> None:
        """Leave what is to be reset."""
        self._reset(node, node.targets[0], node.value)
        self.generic_visit(node)

    def visit_Delete(self, node: ast.Delete) -> None:
        """Leave what is to be deleted."""
        self._add("missing reset", self._span(node), "pass")

    def _reset(self, node: ast.stmt, target: ast.expr, value: ast.expr) -> None:
        nothing = re.fullmatch(
            r"0|-1|None|False|\[\]|\{\}|\(\)|b?\"\"|set\(\)", self._source(value)
        )
        made = self.scope and self.scope[-1] in ("__init__", "__post_init__", "__new__")
        if nothing and not made and isinstance(target, ast.Attribute | ast.Subscript):
            self._add("missing reset", self._span(node), "pass")

    def _statements(self, block: list[ast.stmt]) -> None:
        for one, other in pairwise(block):
            if not (_acts(one) and _acts(other) and ast.Expr in (type(one), type(other))):
                continue
            if _names(one) & _names(other):
                (start, after), (before, end) = self._span(one), self._span(other)
                new = self._source(other) + self.text[after:before] + self._source(one)
                self._add("order", (start, end), new)


def _asks_for_sign_or_none(node: ast.Compare) -> bool:
    """Return whether a comparison asks whether a number is negative, or there at all."""
    op, other = node.ops[-1], node.comparators[-1]
    if not isinstance(other, ast.Constant):
        return False
    return (isinstance(op, ast.Lt | ast.GtE) and other.value == 0) or other.value is None


def _bounds_memory(node: ast.BinOp) -> bool:
    """Return whether a constant is a size as 16 << 20: no answer depends on it."""
    return isinstance(node.right, ast.Constant) and int(node.right.value) < 31


def _acts(statement: ast.stmt) -> bool:
    """Return whether a statement calls, or changes what others see too."""
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Call)
    if isinstance(statement, ast.AugAssign):
        return True
    return isinstance(statement, ast.Assign) and not isinstance(statement.targets[0], ast.Name)


def _names(statement: ast.stmt) -> set[str]:
    return {one.id for one in ast.walk(statement) if isinstance(one, ast.Name)}
