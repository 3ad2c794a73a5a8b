"""Which faults are planted: drawn by a seed, spread over the rooms by size and over operators."""

from __future__ import annotations

import ast
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from faults import in_python, in_tokens
from faults.change import Change
from faults.fields import Fields
from faults.rooms import Room

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

EQUIVALENT = Path(__file__).with_name("equivalent.toml")
Key = tuple[str, str, str, str, str]


@dataclass(frozen=True)
class Slot:
    """One fault to be planted: the first of ``changes`` that compiles to something else."""

    room: Room
    changes: Sequence[Change]


def equivalents() -> dict[Key, str]:
    """Return the changes that no test can see, each with the reason."""
    entries = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")).get("equivalent", [])
    return {
        (one["file"], one["function"], one["operator"], one["was"], one["becomes"]): one["reason"]
        for one in entries
    }


def fields_of(rooms: Sequence[Room]) -> Fields:
    """Return the fields of all classes."""
    return Fields.of((file, text) for room in rooms for file, text in room.files.items())


def changes_of(room: Room, fields: Fields) -> list[Change]:
    """Return every change that could be made in a room."""
    return [one for file, text in room.files.items() for one in _changes(file, text, fields)]


def _changes(file: str, text: str, fields: Fields) -> list[Change]:
    module = in_python if file.endswith(".py") else in_tokens
    return module.changes_of(file, text, fields)


def shares(rooms: Sequence[Room], count: int, seed: int) -> list[int]:
    """Return how many of ``count`` faults each room gets: its part of all lines, up or down to 1.

    A wheel with a piece for each room is turned once, and read at ``count`` even distances: so a
    small room, whose part is less than one, has a fault with some seeds.
    """
    step = sum(room.size for room in rooms) / count
    at = random.Random(f"{seed}").random() * step
    found, end = [], 0
    for room in rooms:
        end += room.size
        held = 0
        while at < end:
            held, at = held + 1, at + step
        found.append(held)
    return found


def drawn(rooms: Sequence[Room], fields: Fields, count: int, seed: int) -> Iterator[Slot]:
    """Yield the faults of a seed: the same for the same sources."""
    without = equivalents()
    for room, share in zip(rooms, shares(rooms, count, seed), strict=True):
        if share:
            order = shuffled(changes_of(room, fields), f"{seed} {room.name}")
            for i in range(share):  # each has its own turns: what one skips changes no other
                yield Slot(room, [one for one in order[i::share] if one.key not in without])


def shuffled(changes: Sequence[Change], seed: str) -> list[Change]:
    """Return all changes in an order by chance in which each operator is as likely as another."""
    chance = random.Random(seed)
    by_operator: dict[str, list[Change]] = {}
    for change in changes:
        by_operator.setdefault(change.operator, []).append(change)
    for held in by_operator.values():
        chance.shuffle(held)
    found = []
    while by_operator:
        turn = sorted(by_operator)
        chance.shuffle(turn)
        for operator in turn:
            found.append(by_operator[operator].pop())
            if not by_operator[operator]:
                del by_operator[operator]
    return found


def differs(change: Change, text: str) -> bool:
    """Return whether Python takes the change, and as something else; True for other languages."""
    after = change.apply(text)
    if not change.file.endswith(".py"):
        return True
    return in_python.compiles(after) and ast.dump(ast.parse(after)) != ast.dump(ast.parse(text))
