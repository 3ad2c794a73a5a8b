"""Count what happens to the offsets of keys again and again: a row for each key, however often.

A key's row has the number of its occurrences, the bounds of their offsets, and the first and the
last of them. So memory grows with the keys that have any, not with the occurrences.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from coterie.insight.records.key_index import Table
from coterie.insight.records.record_columns import Array

# The fields of an occurrence. ``count`` commits show it; the last one has offset, timestamp,
# log_offset, file and position, and ``began_ms`` is the time of the first. ``previous_offset`` and
# ``previous_log_offset`` are those of the commit before it, or of the first of several.
OCCURRENCE = (
    *("offset", "timestamp", "log_offset", "file", "position"),
    *("previous_offset", "previous_log_offset", "began_ms", "count"),
)
LEAST, GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
SUMS = ("times", "count", "moved")
MINIMA = ("fewest", "lowest")
MAXIMA = ("most", "highest")


class KeyOccurrences(NamedTuple):
    """All occurrences of one key.

    ``times``: their number; ``commits``: those that show them; ``fewest`` and ``most``: commits of
    one occurrence; ``moved``: offsets that they went back, together; ``lowest`` and ``highest``:
    the bounds of their offsets; ``first`` and ``last``: by the fields of ``OCCURRENCE``.
    """

    key: int
    times: int
    commits: int
    moved: int
    fewest: int
    lowest: int
    most: int
    highest: int
    first: dict[str, int]
    last: dict[str, int]


class Occurrences:
    def __init__(self) -> None:
        ends = {f"{end}_{name}": (np.int64, 0) for end in ("first", "last") for name in OCCURRENCE}
        self.slots = Table(slot=(np.int64, -1))  # of each key, its row in `table`
        self.table = Table(
            key=(np.int64, 0),
            **{name: (np.int64, 0) for name in SUMS},
            **{name: (np.int64, GREATEST) for name in MINIMA},
            **{name: (np.int64, LEAST) for name in MAXIMA},
            **ends,
        )

    def fit(self, key_count: int) -> None:
        self.slots.fit(key_count)

    def put(self, keys: Array, occurrences: Mapping[str, Array]) -> None:
        """Add occurrences of keys, in any order.

        ``occurrences``: the fields of ``OCCURRENCE``; each lies between ``offset`` and
        ``previous_offset``.
        """
        if not len(keys):
            return
        order = np.lexsort((occurrences["log_offset"], keys))
        ordered = keys[order]
        begins = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
        lasts = np.append(begins[1:], len(order)) - 1
        count = occurrences["count"][order]
        offset, previous = (occurrences[name][order] for name in ("offset", "previous_offset"))
        columns = {
            "times": lasts - begins + 1,
            "count": np.add.reduceat(count, begins),
            "moved": np.add.reduceat(previous - offset, begins),
            "fewest": np.minimum.reduceat(count, begins),
            "most": np.maximum.reduceat(count, begins),
            "lowest": np.minimum.reduceat(offset, begins),
            "highest": np.maximum.reduceat(previous, begins),
        }
        for name in OCCURRENCE:
            columns[f"first_{name}"] = occurrences[name][order[begins]]
            columns[f"last_{name}"] = occurrences[name][order[lasts]]
        self._merge(ordered[begins], columns)

    def _merge(self, keys: Array, columns: Mapping[str, Array]) -> None:
        slots = self.slots["slot"]
        new = keys[slots[keys] < 0]
        slots[new] = np.arange(self.table.count, self.table.count + len(new))
        self.table.fit(self.table.count + len(new))
        at = slots[keys]
        table = self.table
        table["key"][at] = keys
        unknown = table["times"][at] == 0
        for end, better in (("first", np.less), ("last", np.greater_equal)):
            place = f"{end}_log_offset"
            takes = unknown | better(columns[place], table[place][at])
            for name in OCCURRENCE:
                table[f"{end}_{name}"][at[takes]] = columns[f"{end}_{name}"][takes]
        for names, fold in ((SUMS, np.add), (MINIMA, np.minimum), (MAXIMA, np.maximum)):
            for name in names:
                table[name][at] = fold(table[name][at], columns[name])

    def __iter__(self) -> Iterator[KeyOccurrences]:
        names = ("key", *SUMS, *MINIMA, *MAXIMA)
        ends = [f"{end}_{name}" for end in ("first", "last") for name in OCCURRENCE]
        columns: list[Any] = [self.table[name].tolist() for name in (*names, *ends)]
        for row in zip(*columns, strict=True):
            middle = len(names) + len(OCCURRENCE)
            first = dict(zip(OCCURRENCE, row[len(names) : middle], strict=True))
            last = dict(zip(OCCURRENCE, row[middle:], strict=True))
            fields: tuple[Any, ...] = (*row[: len(names)], first, last)
            yield KeyOccurrences(*fields)
