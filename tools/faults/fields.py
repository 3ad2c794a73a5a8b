"""Fields of a class or struct with the same type, which are easily confused."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, field

NAME = re.compile(r"[A-Za-z_]\w*")
USE = re.compile(r"(\w*)(?:\.|->)(?=([A-Za-z_]\w*))")
C_STRUCT = re.compile(r"struct\s*(\w*)\s*\{([^}]*)\}\s*(\w*)")
C_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.S)
CYTHON_CLASS = re.compile(
    r"^( *)(?:c(?:type)?def )?(?:packed )?(?:class|struct) (\w+)[^\n]*:[^\n]*\n", re.M
)
CYTHON_FIELD = re.compile(
    r"(?:cdef )?(?:readonly |public )?(?:const )?(\w+(?: \w+)*\*?) \*?(\w+(?:, ?\w+)*)\s*(?:#.*)?"
)
C_FIELD = re.compile(r"\s*(?:const )?([\w ]+?\*?) \*?(\w+(?:, ?\w+)*)\s*")


@dataclass
class Fields:
    """The fields of each class, by type; classes of the same name are merged."""

    by_class: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    names: dict[str, set[str]] = field(default_factory=dict)  # of all types, by class

    @classmethod
    def of(cls, sources: Iterable[tuple[str, str]]) -> Fields:
        """Read the classes of sources: (file, text)."""
        fields = cls()
        for file, text in sources:
            for owner, kind, name in _declared(file, text):
                fields.by_class.setdefault(owner, {}).setdefault(kind, []).append(name)
                fields.names.setdefault(owner, set()).add(name)
        return fields

    def classes_in(self, text: str) -> Set[str]:
        """Return the classes that a text names; only their fields count."""
        return self.by_class.keys() & set(NAME.findall(text))

    def beside(self, name: str, used: Set[str], classes: Set[str]) -> list[str]:
        """Return the other fields with the type of a field.

        Of ``classes``, only those count that have most of the fields ``used`` with it.
        """
        fits = {c: len(used & self.names[c]) for c in classes if name in self.names[c]}
        others: set[str] = set()
        for owner, fit in fits.items():
            if fit == max(fits.values()):
                others.update(*(same for same in self.by_class[owner].values() if name in same))
        return sorted(others - {name})


def used(text: str) -> dict[str, set[str]]:
    """Return the fields that a text reads, by the name before the dot or arrow."""
    found: dict[str, set[str]] = defaultdict(set)
    for owner, name in USE.findall(text):
        found[owner].add(name)
    return found


def _declared(file: str, text: str) -> Iterator[tuple[str, str, str]]:
    if file.endswith(".py"):
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef):
                for one in node.body:
                    if isinstance(one, ast.AnnAssign) and isinstance(one.target, ast.Name):
                        yield node.name, ast.unparse(one.annotation), one.target.id
    elif file.endswith(".h"):
        for found in C_STRUCT.finditer(C_COMMENT.sub("", text)):
            for line in found[2].split(";"):
                if declared := C_FIELD.fullmatch(line):
                    for name in declared[2].split(","):
                        yield found[1] or found[3], declared[1], name.strip()
    else:
        for found in CYTHON_CLASS.finditer(text):
            for line in _block(text[found.end() :], len(found[1])):
                if declared := CYTHON_FIELD.fullmatch(line):
                    for name in declared[2].split(","):
                        yield found[2], declared[1], name.strip()


def _block(text: str, indent: int) -> Iterator[str]:
    """Yield the lines of a class or struct, up to its first method."""
    for line in text.splitlines():
        text = line.strip()
        if text and (len(line) - len(line.lstrip()) <= indent or text.startswith(("def ", "@"))):
            return
        yield text
