"""Which tests execute which line of the sources, as a run with ``recording.py`` has recorded it.

The table is a SQLite file in ``build/faults``. Each row of lines belongs to a text of its source.
A line of today's text is looked up at the line of the recorded text that it was, so the table still
serves after a change. Only test files that are new or changed must be recorded again.
"""

from __future__ import annotations

import difflib
import hashlib
import sqlite3
import threading
from collections.abc import Iterable
from pathlib import Path

from faults import places
from faults.change import Change

BEFORE = 40  # lines: a block of compiled code that begins further up is another one
TABLES = """
CREATE TABLE IF NOT EXISTS recorded (file TEXT PRIMARY KEY, digest TEXT);
CREATE TABLE IF NOT EXISTS test (id INTEGER PRIMARY KEY, name TEXT UNIQUE, file TEXT, seconds REAL);
CREATE TABLE IF NOT EXISTS version (id INTEGER PRIMARY KEY, source TEXT, text TEXT);
CREATE TABLE IF NOT EXISTS ran (test INTEGER, version INTEGER, lines BLOB);
CREATE INDEX IF NOT EXISTS ran_version ON ran (version);
CREATE INDEX IF NOT EXISTS ran_test ON ran (test);
"""


class TestsByLine:
    """The table; ``path`` is its file, made if it is not there."""

    __test__ = False

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._base = sqlite3.connect(path, check_same_thread=False)
        self._base.executescript(TABLES)
        self._lock = threading.Lock()  # each copy has a thread
        self._load()

    def _load(self) -> None:
        self.seconds: dict[str, float] = dict(self._base.execute("SELECT name, seconds FROM test"))
        self._digests: dict[str, str] = dict(self._base.execute("SELECT * FROM recorded"))
        self._versions: dict[str, list[tuple[int, str]]] = {}
        for number, source, text in self._base.execute("SELECT * FROM version"):
            self._versions.setdefault(source, []).append((number, text))

    def close(self) -> None:
        """Close the file."""
        self._base.close()

    def unrecorded(self, files: Iterable[str], root: Path) -> list[str]:
        """Return the test files that are new or were changed after they were recorded."""
        return [file for file in files if self._digests.get(file) != digest_of(root / file)]

    def add(self, folder: Path, tree: Path, objects: Path, files: Iterable[str]) -> None:
        """Replace what is recorded of test files by what a run left in a folder."""
        with self._base:
            for file in files:
                own = "SELECT id FROM test WHERE file = ?"
                self._base.execute(f"DELETE FROM ran WHERE test IN ({own})", [file])
                self._base.execute("DELETE FROM test WHERE file = ?", [file])
                row = [file, digest_of(tree / file)]
                self._base.execute("INSERT OR REPLACE INTO recorded VALUES (?, ?)", row)
            tests = {}
            for name, seconds in places.seconds_of(folder).items():
                row = [name, name.partition("::")[0], seconds]
                insert = "INSERT OR REPLACE INTO test (name, file, seconds) VALUES (?, ?, ?)"
                tests[name] = self._base.execute(insert, row).lastrowid
            versions: dict[str, int] = {}
            for name, source, lines in places.executed(folder, tree, objects):
                if name in tests and (tree / source).exists():  # it is none of Cython's own C
                    if source not in versions:
                        versions[source] = self._version(source, (tree / source).read_text())
                    row = [tests[name], versions[source], _bits(lines)]
                    self._base.execute("INSERT INTO ran VALUES (?, ?, ?)", row)
        self._load()

    def _version(self, source: str, text: str) -> int:
        for number, known in self._versions.get(source, ()):
            if known == text:
                return number
        insert = "INSERT INTO version (source, text) VALUES (?, ?)"
        number = self._base.execute(insert, [source, text]).lastrowid
        assert number is not None
        return number

    def executing(self, change: Change, text: str) -> set[str]:
        """Return the tests that execute the lines of a change in a source of this text.

        Lines of a module or class run when it is imported. The tests that depend on them are those
        that execute anything in the file.
        """
        if change.file.endswith(".py"):
            lines = places.lines_in_python(change, text)
        else:
            first = change.line(text)
            length = text.count("\n", change.start, change.end)
            lines = set(range(first, first + length + 1)) if change.function else None
        tests = set[str]()
        for version, recorded_text in self._versions.get(change.file, ()):
            rows = [(name, int.from_bytes(bits, "little")) for name, bits in self._rows(version)]
            mask = -1
            if lines is not None:
                old = lines if recorded_text == text else then(lines, recorded_text, text)
                if not change.file.endswith(".py"):
                    old = _with_block(old, rows)
                mask = sum(1 << line for line in old)
            tests.update(name for name, bits in rows if bits & mask)
        return tests

    def _rows(self, version: int) -> list[tuple[str, bytes]]:
        select = "SELECT name, lines FROM ran JOIN test ON ran.test = test.id WHERE version = ?"
        with self._lock:
            return self._base.execute(select, [version]).fetchall()


def digest_of(path: Path) -> str:
    """Return the digest of a file's content."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def then(lines: set[int], before: str, now: str) -> set[int]:
    """Return the lines of the text ``before`` that lines of ``now`` were.

    A line that is new or changed was the lines that it replaces and one on either side.
    """
    matcher = difflib.SequenceMatcher(None, now.splitlines(), before.splitlines(), autojunk=False)
    old = set[int]()
    for kind, start, end, other, other_end in matcher.get_opcodes():
        for line in lines & set(range(start + 1, end + 1)):
            if kind == "equal":
                old.add(line - start + other)
            else:
                old.update(range(max(other, 1), other_end + 2))
    return old


def _with_block(lines: set[int], rows: list[tuple[str, int]]) -> set[int]:
    """Add the two lines before at which a recorded block begins; blocks span several lines."""
    recorded = 0
    for _, bits in rows:
        recorded |= bits
    first = min(lines, default=0)
    above = (line for line in range(first - 1, max(first - BEFORE, 0), -1) if recorded >> line & 1)
    return lines | {line for _, line in zip(range(2), above, strict=False)}


def _bits(lines: Iterable[int]) -> bytes:
    number = 0
    for line in lines:
        number |= 1 << line
    return number.to_bytes((number.bit_length() + 7) // 8, "little")
