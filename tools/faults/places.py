"""What a recorded run left in its folder, as lines of the sources."""

from __future__ import annotations

import ast
import pickle
import re
import sqlite3
import subprocess
from array import array
from bisect import bisect
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from faults.change import Change

FUNCTION = ast.FunctionDef | ast.AsyncFunctionDef
# Cython writes the source's line before the code that it becomes.
ORIGIN = re.compile(r'^\s*/\* "([^"]+)":(\d+)$')
CONTEXTS = """SELECT context.context, file.path, numbits FROM line_bits
    JOIN context ON context.id = context_id JOIN file ON file.id = file_id
    WHERE context.context != ''"""
Executed = tuple[str, str, set[int]]  # a test, a source, lines


def seconds_of(folder: Path) -> dict[str, float]:
    """Return how long each test of a recorded run took."""
    seconds: dict[str, float] = {}
    for path in folder.glob("blocks.*"):
        seconds |= pickle.loads(path.read_bytes())["seconds"]
    return seconds


def executed(folder: Path, tree: Path, objects: Path) -> Iterator[Executed]:
    """Yield the lines of each source that each test executed."""
    for path in folder.glob("lines.*"):
        base = sqlite3.connect(path)
        for test, source, bits in base.execute(CONTEXTS):
            if Path(source).is_relative_to(tree):
                name = Path(source).relative_to(tree).as_posix()
                yield test, name, _numbers(bits)
        base.close()
    for path in folder.glob("blocks.*"):
        recorded = pickle.loads(path.read_bytes())
        yield from _of_blocks(recorded["blocks"], recorded["maps"], tree, objects)


def _numbers(bits: bytes) -> set[int]:
    """Return the numbers of coverage's "numbits": the bits that are set, from the lowest byte."""
    return {8 * at + bit for at, byte in enumerate(bits) for bit in range(8) if byte >> bit & 1}


def _of_blocks(
    blocks: dict[str, bytes], maps: str, tree: Path, objects: Path
) -> Iterator[Executed]:
    """Yield the lines of the blocks; ``maps`` says where the process had its modules."""
    modules = []  # start, end, name, where its first byte is
    for row in maps.splitlines():
        span, _, offset, _, _, *name = row.split(None, 5)
        if name and name[0].endswith(".so") and "/coterie/_core/" in name[0]:
            start, end = (int(number, 16) for number in span.split("-"))
            module = "_core/" + name[0].rpartition("/coterie/_core/")[2]
            modules.append((start, end, module, start - int(offset, 16)))
    modules.sort()
    starts = [start for start, *_ in modules]
    by_test = {test: array("Q", places) for test, places in blocks.items()}
    wanted: dict[str, dict[int, int]] = {}  # module -> place -> address in the module
    for place in set().union(*by_test.values()):
        start, end, module, first = modules[bisect(starts, place) - 1]
        if start <= place < end:
            wanted.setdefault(module, {})[place] = place - first - 1
    lines = {}
    for module, addresses in wanted.items():
        lines |= _lines_of(objects / module, addresses, tree)
    for test, places in by_test.items():
        by_source: dict[str, set[int]] = {}
        for place in places:
            if place in lines:
                source, line = lines[place]
                by_source.setdefault(source, set()).add(line)
        for source, numbers in by_source.items():
            yield test, source, numbers


def _lines_of(module: Path, addresses: dict[int, int], tree: Path) -> dict[int, tuple[str, int]]:
    """Return place -> source and line for the addresses of one compiled module."""
    asked = "\n".join(hex(address) for address in addresses.values())
    command = ["addr2line", "-e", module]
    answer = subprocess.run(command, input=asked, capture_output=True, text=True, check=True)
    lines = {}
    for place, row in zip(addresses, answer.stdout.splitlines(), strict=True):
        path, _, number = row.partition(" (")[0].rpartition(":")
        if number.isdigit() and path.endswith(".c"):
            origin = _origins((module.parent / path).resolve()).get(int(number))
            if origin:
                lines[place] = origin
        elif number.isdigit() and "/src/c/" in path:
            lines[place] = "src/c/" + path.rpartition("/src/c/")[2], int(number)
    return lines


@cache
def _origins(path: Path) -> dict[int, tuple[str, int]]:
    """Return line -> source and line for a C file that Cython wrote."""
    origin: tuple[str, int] | None = None
    lines = {}
    if path.is_file():
        for number, row in enumerate(path.read_text(errors="replace").splitlines(), 1):
            named = ORIGIN.match(row)
            if named:
                inside = named[1].rpartition("coterie/_core/")
                origin = (f"src/{inside[1]}{inside[2]}", int(named[2])) if inside[1] else None
            if origin:
                lines[number] = origin
    return lines


def lines_in_python(change: Change, text: str) -> set[int] | None:
    """Return the lines of the statements of a change; ``None`` if they run at the import.

    A fault in the head of a function, such as a default, has the lines of its body.
    """
    first = change.line(text)
    last = first + text.count("\n", change.start, change.end)
    lines = set[int]()
    for number in (first, last):
        inner: ast.stmt | None = None
        functions = 0
        for node in _around(ast.parse(text), number):
            inner = node
            functions += isinstance(node, FUNCTION)
        if inner is None or not functions:
            return None
        if isinstance(inner, FUNCTION):
            if functions == 1 and number < inner.body[0].lineno:
                return set(range(inner.body[0].lineno, (inner.end_lineno or 0) + 1))
            lines |= set(range(inner.lineno, (inner.end_lineno or 0) + 1))
        elif hasattr(inner, "body"):
            lines |= set(range(inner.lineno, max(inner.body[0].lineno, inner.lineno + 1)))
            lines.add(number)
        else:
            lines |= set(range(inner.lineno, (inner.end_lineno or 0) + 1))
    return lines


def _around(tree: ast.AST, line: int) -> Iterator[ast.stmt]:
    """Yield the statements around a line, from the outermost."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt):
            if node.lineno <= line <= (node.end_lineno or 0):
                yield node
                yield from _around(node, line)
        elif isinstance(node, ast.excepthandler | ast.match_case):
            yield from _around(node, line)
