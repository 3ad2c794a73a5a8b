"""Draw faults by a seed, spread over the rooms by size and over the operators."""

from __future__ import annotations

import ast
import json
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from faults import in_python, in_tokens
from faults.change import Change
from faults.fields import Fields
from faults.rooms import Room

EQUIVALENT = Path(__file__).with_name("equivalent.jsonl")
Key = tuple[str, str, str, str, str]


@dataclass(frozen=True)
class Slot:
    """One fault to be planted: the first of ``changes`` that compiles to something else."""

    room: Room
    changes: Sequence[Change]


def equivalents() -> dict[Key, str]:
    """Return the changes that no test can detect, with the reasons.

    A line of the file is one of them: its file, function and operator, the text before and after
    with single spaces, and the reason. A line number would be out of date with the next edit.
    """
    lines = EQUIVALENT.read_text(encoding="utf-8").splitlines()
    return {tuple(key): reason for *key, reason in map(json.loads, lines)}


def fields_of(rooms: Sequence[Room]) -> Fields:
    """Return the fields of all classes."""
    return Fields.of((file, text) for room in rooms for file, text in room.files.items())


def changes_of(room: Room, fields: Fields) -> list[Change]:
    """Return every possible change in a room."""
    return [change for file, text in room.files.items() for change in _changes(file, text, fields)]


def _changes(file: str, text: str, fields: Fields) -> list[Change]:
    module = in_python if file.endswith(".py") else in_tokens
    return module.changes_of(file, text, fields)


def shares(rooms: Sequence[Room], count: int, seed: int) -> list[int]:
    """Return how many of ``count`` faults each room gets: its share of all lines, rounded.

    This is systematic sampling: ``count`` points at even distances from a random start. So a small
    room with a share below one gets a fault with some seeds.
    """
    step = sum(room.size for room in rooms) / count
    at = random.Random(f"{seed}").random() * step
    counts, end = [], 0
    for room in rooms:
        end += room.size
        in_room = 0
        while at < end:
            in_room, at = in_room + 1, at + step
        counts.append(in_room)
    return counts


def drawn(rooms: Sequence[Room], fields: Fields, count: int, seed: int) -> Iterator[Slot]:
    """Yield the faults of a seed: the same for the same sources."""
    without = equivalents()
    for room, share in zip(rooms, shares(rooms, count, seed), strict=True):
        if share:
            order = shuffled(changes_of(room, fields), f"{seed} {room.name}")
            for i in range(share):  # each has its own candidates, so a skip changes no other
                yield Slot(
                    room, [change for change in order[i::share] if change.key not in without]
                )


def shuffled(changes: Sequence[Change], seed: str) -> list[Change]:
    """Return all changes in a random order in which all operators are equally likely."""
    chance = random.Random(seed)
    by_operator: dict[str, list[Change]] = {}
    for change in changes:
        by_operator.setdefault(change.operator, []).append(change)
    for same in by_operator.values():
        chance.shuffle(same)
    order = []
    while by_operator:
        turn = sorted(by_operator)
        chance.shuffle(turn)
        for operator in turn:
            order.append(by_operator[operator].pop())
            if not by_operator[operator]:
                del by_operator[operator]
    return order


def differs(change: Change, text: str) -> bool:
    """Whether Python accepts the change as different code; True for other languages."""
    after = change.apply(text)
    if not change.file.endswith(".py"):
        return True
    return in_python.compiles(after) and ast.dump(ast.parse(after)) != ast.dump(ast.parse(text))
