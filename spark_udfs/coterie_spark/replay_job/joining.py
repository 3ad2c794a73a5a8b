"""Groups with records in several partitions of the topic: one group in the tables, too.

Workers make the tables of each partition on its own, and report hashes of its groups. If partitions
share a hash, the driver gets the states of these partitions, joins them
(``coterie.state.several_partitions``), and replaces their tables of groups, members and offsets.
Rows of single records stay where they are. Cost: eight bytes a group; where groups are in several
partitions, these are read again, and their states come into the driver.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from coterie.state.partial import PartialState
from coterie.state.partial import joined as joined_of
from coterie.state.several_partitions import Number, found, groups_in, lines_of
from coterie_spark.replay_job.merging import GROUPS, PartitionMerge

if TYPE_CHECKING:
    import pyarrow as pa

    from coterie.state.replay_engine import Summary

TABLES = ("groups", "members", "offsets")  # of a group as a whole
Sharing = Mapping[Number, int]
"""The partitions that share groups, each with its number of groups."""


def sharing(about: Iterable[tuple[str, str | bytes]]) -> Sharing:
    """Return the partitions that share groups, from the names and bodies of products."""
    partitions = [json.loads(body) for name, body in about if name == GROUPS]
    hashes = [np.frombuffer(b64decode(text), np.uint64) for *_, text in partitions]
    values, counts = np.unique(np.concatenate([*hashes, []]), return_counts=True)
    shared = values[counts > 1]
    return {
        number: groups
        for (number, groups, _), own in zip(partitions, hashes, strict=True)
        if len(shared) and np.isin(own, shared).any()
    }


class Joined(NamedTuple):
    """The tables of partitions that share groups.

    ``group_ids`` are those before, ``group_count`` is how many groups are left, and ``lines`` name
    the groups in several.
    """

    tables: list[tuple[Number, str, pa.Table]]
    numbers: list[Number]
    group_ids: frozenset[str]
    group_count: int
    lines: tuple[str, ...]

    def products(self) -> Iterator[pa.RecordBatch]:
        for number, name, table in self.tables:
            yield from PartitionMerge(number, "parquet").put_table(name, table)

    def counted_in(self, summary: Summary, shared: Sharing) -> Summary:
        """Return a summary with each group once, and the lines as notes."""
        groups = summary.groups - sum(shared.values()) + self.group_count
        return replace(summary, groups=groups, notes=self.lines)


def joined_tables(state: PartialState, count: int | None) -> Joined:
    """Join the partitions of a state; ``count``: the number of the topic's partitions, if known."""
    from coterie.state.tables import group_tables

    orders = found(state.live(), count)
    folds = joined_of(state, orders)
    tables = [(n, *table) for n, fold in folds for table in group_tables(n, fold).items()]
    return Joined(
        tables,
        numbers=[number for number, _ in folds],
        group_ids=frozenset().union(*(groups_in(fold) for _, fold in state.live())),
        group_count=sum(table.num_rows for _, name, table in tables if name == "groups"),
        lines=tuple(lines_of(orders, count)),
    )
