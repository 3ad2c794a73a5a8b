"""Groups with records in several partitions of the topic: which partition is the later one.

The coordinator finds a group's partition by the hash of its id and the number of partitions. After
the topic was grown, a group begins anew in another partition, and its records in the partition
before are stale: Kafka loads them, and its coordinator there lets the group's members and offsets
expire, but requests no longer reach it. So the newest record of each key counts, and the partition
by the hash is the newest, whatever the times of records that expiry wrote to the older one.

:func:`found` costs a set of the groups of each partition; only where a group is in several,
:func:`joined` copies the states of these partitions.
Sources: GroupMetadataManager.partitionFor, GroupCoordinatorService.partitionFor.
Rules: docs/log.md#a-group-in-several-partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie._core.codec.compression import partition_for
from coterie._core.codec.layout import decode_utf8
from coterie._core.fold import fold as partial
from coterie._core.fold.fold import absorb, dump, restore, settle_removed
from coterie.base.ordering import java_order, partition_order
from coterie.log.joined import STEP_BITS

if TYPE_CHECKING:
    from coterie._core.fold.fold import PartitionFold

LINES = 10  # one for each group; one more stands for the others
Number = int | None
Folds = Sequence[tuple[Number, "PartitionFold"]]
NewFold = Callable[[], "PartitionFold"]
"""Makes an empty state without history and tracks."""


class Times(NamedTuple):
    """When a group last committed in a partition, and when its metadata were last written; ms.

    Metadata do not outweigh a commit: the older partition's coordinator writes some at the end.
    """

    commit_ms: int
    metadata_ms: int


UNKNOWN = Times(-1, -1)
Orders = dict[str, tuple[Number, ...]]
"""The groups in several partitions, each with these, the oldest first."""


def groups_in(fold: PartitionFold) -> set[str]:
    """Return the groups of which a fold has any record."""
    newer = {group_of_newer(key) for key in fold.newer}
    return {decode_utf8(raw) for raw in partial.group_ids(fold) | newer}


def group_of_newer(key: bytes) -> bytes:
    """Return the group's id in a key of a newer protocol: its first field."""
    return key[4 : 4 + int.from_bytes(key[2:4], "big")]


def in_several(groups: Mapping[Number, Collection[str]]) -> dict[str, list[Number]]:
    """Return the partitions of each group that is in several, in order of the groups' ids.

    ``groups``: the groups of each partition.
    """
    first: dict[str, Number] = {}
    several: dict[str, list[Number]] = {}
    for number, names in groups.items():
        for name in names:
            if first.setdefault(name, number) != number:
                several.setdefault(name, [first[name]]).append(number)
    return dict(sorted(several.items()))


def count_of(numbers: Collection[Number]) -> int | None:
    """Return the number of the topic's partitions; None if some may be missing."""
    return len(numbers) if set(numbers) == set(range(len(numbers))) else None


def is_misplaced(group: str, number: Number, count: int | None) -> bool:
    """Whether a group belongs in a partition for no number of partitions up to ``count``."""
    if number is None or count is None:
        return False
    return all(partition_for(group, size) != number for size in range(number + 1, count + 1))


def in_order(
    group: str, numbers: Iterable[Number], count: int | None, newest: Mapping[Number, Times]
) -> tuple[Number, ...]:
    """Return the partitions of a group, the oldest first.

    The last one is where the group's hash puts it; if ``count`` is not known, the one with the
    newest commit. A partition that the topic's growth does not explain precedes the others.
    """
    home = None if count is None else partition_for(group, count)

    def age(number: Number) -> tuple[bool, bool, Times, int]:
        misplaced = is_misplaced(group, number, count)
        return (
            number is not None and number == home,
            not misplaced,
            newest.get(number, UNKNOWN),
            partition_order(number),
        )

    return tuple(sorted(numbers, key=age))


def newest_ms(fold: PartitionFold) -> dict[str, Times]:
    """Return the times of each group's newest commit and metadata record; -1: it has none.

    Removed commits count, too: a group may have been deleted in its newest partition.
    """
    commits: dict[str, int] = {}
    columns, *_ = dump(fold)
    times = (columns[name].tolist() for name in ("commit_timestamp", "won_seq"))
    for (group, _, _), commit_ms, set_at in zip(partial.keys(fold), *times, strict=True):
        if set_at >= 0:
            commits[group] = max(commit_ms, commits.get(group, -1))
    metadata = {decode_utf8(raw): log.last.timestamp for raw, log in fold.groups.items()}
    return {
        group: Times(commits.get(group, -1), metadata.get(group, -1))
        for group in {**commits, **metadata}
    }


def found(folds: Folds, count: int | None) -> Orders:
    """Return the groups in several of these partitions; ``count``: see :func:`in_order`."""
    if len(folds) < 2:
        return {}
    several = in_several({number: groups_in(fold) for number, fold in folds})
    times = {number: newest_ms(fold) for number, fold in folds} if several and not count else {}
    return {
        name: in_order(name, numbers, count, times_of(name, times))
        for name, numbers in several.items()
    }


def times_of(group: str, times: Mapping[Number, Mapping[str, Times]]) -> dict[Number, Times]:
    return {number: of_groups.get(group, UNKNOWN) for number, of_groups in times.items()}


def joined(folds: Folds, new_fold: NewFold, orders: Orders) -> Folds:
    """Return the states of partitions with each group of ``orders`` in one of them: its newest.

    The offsets of a group are the newest of each key. Its members and its state come from the
    newest partition with a record of them. ``folds`` stay as they are.
    """
    by_number = dict(folds)
    whole = {
        number: part_of(
            by_number[number], new_fold, orders, by_number[number].follows_4x, inside=False
        )
        for number in {number for order in orders.values() for number in order}
    }
    for order, names in together(orders).items():
        of_4x = any(by_number[number].follows_4x for number in order)
        older, *newer = (part_of(by_number[number], new_fold, names, of_4x) for number in order)
        for fold in newer:
            forget_members(older, fold)
            forget_pending(older, fold)
            absorb(older, fold)
        absorb(whole[order[-1]], older)
    return [(number, whole.get(number, fold)) for number, fold in folds]


def together(orders: Orders) -> dict[tuple[Number, ...], set[str]]:
    """Return the groups of each order of partitions."""
    groups: dict[tuple[Number, ...], set[str]] = {}
    for name, order in orders.items():
        groups.setdefault(order, set()).add(name)
    return groups


def forget_members(older: PartitionFold, newer: PartitionFold) -> None:
    """Drop the metadata and members of groups of which a newer partition has any."""
    known = {*newer.groups, *map(group_of_newer, newer.newer)}
    for group in known & older.groups.keys():
        del older.groups[group]
    for key in [key for key in older.newer if group_of_newer(key) in known]:
        del older.newer[key]


def forget_pending(older: PartitionFold, newer: PartitionFold) -> None:
    """Drop the pending commits of keys that a newer partition has a record of, also a tombstone.

    The marker of their transaction comes in the older partition, whose offsets count no longer.
    """
    columns, *_ = dump(newer)
    has_record = (columns["flags"] != 0) | (columns["base_seq"] >= 0)
    known, own = set(compress(partial.keys(newer), has_record.tolist())), partial.keys(older)
    for producer in older.producers.values():
        producer.pending = {
            at: value for at, value in producer.pending.items() if own[at] not in known
        }


def forget_older(fold: PartitionFold) -> None:
    """Drop from a joined log what :func:`joined` drops; its log offsets: ``coterie.log.joined``."""
    forget_older_members(fold)
    forget_older_pending(fold)


def forget_older_members(fold: PartitionFold) -> None:
    """Drop the members of groups of which a newer partition has any record.

    Metadata of a classic group replace one another.
    """
    newest = {group: log.last.log_offset >> STEP_BITS for group, log in fold.groups.items()}
    places = [(key, group_of_newer(key), at >> STEP_BITS) for key, (_, at, _) in fold.newer.items()]
    for _, group, place in places:
        newest[group] = max(place, newest.get(group, 0))
    for key, group, place in places:
        if place < newest[group]:
            del fold.newer[key]


def forget_older_pending(fold: PartitionFold) -> None:
    """Drop the pending commits of keys that a newer partition has a record of."""
    import numpy as np  # not at import: see `kept_columns`

    columns, *_ = dump(fold)
    committed_at = columns["batch_offset"] * (columns["flags"] != 0)
    newest = (np.maximum(committed_at, columns["removed_at"]) >> STEP_BITS).tolist()
    for producer in fold.producers.values():
        producer.pending = {
            at: value
            for at, value in producer.pending.items()
            if value is None or value.batch_offset >> STEP_BITS >= newest[at]
        }


def part_of(
    fold: PartitionFold,
    new_fold: NewFold,
    names: Collection[str],
    of_4x: bool,
    *,
    inside: bool = True,
) -> PartitionFold:
    """Return the state of some groups of a partition, or without ``inside`` of all others.

    It is settled: what follows in another partition counts, whatever its log offsets.
    """
    columns, _, producers, groups, newer, *_ = dump(fold)
    keep = [(name in names) == inside for name, _, _ in partial.keys(fold)]
    part = new_fold()
    state: tuple[Any, ...] = (
        kept_columns(columns, keep),
        None,
        kept_producers(producers, keep),
        {raw: log.copy() for raw, log in groups.items() if (decode_utf8(raw) in names) == inside},
        {
            key: record
            for key, record in newer.items()
            if (decode_utf8(group_of_newer(key)) in names) == inside
        },
        *({}, ([], {}), [], None, fold.seq, False, False, False, of_4x),
    )
    restore(part, state)
    settle_removed(part, of_4x)
    return part


def kept_columns(columns: Mapping[str, Any], keep: Sequence[bool]) -> dict[str, Any]:
    """Return the columns of a dump with some of its keys, whose values are settled."""
    import numpy as np  # not at import: a state of one partition does not need it

    mask = np.array(keep, dtype=np.bool_)
    chosen: dict[str, Any] = {"topic_ids": columns["topic_ids"]}
    for name, end in (("keys", "key_end"), ("metadata", "metadata_end")):
        sizes = np.diff(columns[end], prepend=0)
        chosen[name] = columns[name][np.repeat(mask, sizes)]
        chosen[end] = np.cumsum(sizes[mask])
    chosen |= {name: column[mask] for name, column in columns.items() if name not in chosen}
    present = chosen["flags"] != 0
    settled = np.maximum(chosen["base_seq"], chosen["won_seq"])
    chosen["base_seq"] = np.where(present, settled, chosen["base_seq"])
    return chosen


def kept_producers(
    producers: Mapping[int, tuple[Any, ...]], keep: Sequence[bool]
) -> dict[int, tuple[Any, ...]]:
    """Return the open transactions of a dump with some of its keys."""
    places = {old: new for new, old in enumerate(at for at, kept in enumerate(keep) if kept)}
    kept: dict[int, tuple[Any, ...]] = {}
    for producer_id, (*_, pending, _) in producers.items():
        of_keys = {places[at]: value for at, value in pending.items() if at in places}
        if of_keys:
            kept[producer_id] = (-1, False, 0, frozenset(), of_keys, {})
    return kept


def lines_of(several: Orders, count: int | None) -> Iterator[str]:
    """Yield a line for each group in several partitions, given in the order of their age.

    ``count``: the number of the topic's partitions; None: not known.
    """
    names = sorted(several, key=java_order)
    for name in names[:LINES]:
        yield f"group {name!r} has {explanation(name, several[name], count)}"
    if len(names) > LINES:
        yield f"{len(names) - LINES:,} more groups have records in several partitions, too"


def explanation(group: str, order: Sequence[Number], count: int | None) -> str:
    """Return in which partitions a group has records, and which of them counts."""
    text = f"records in {named(order)}"
    misplaced = [str(number) for number in order if is_misplaced(group, number, count)]
    if misplaced:
        those = " and ".join(misplaced)
        return (
            f"{text}; its id leads to {those} for no number of partitions up to {count}: "
            "perhaps a copy of another topic or cluster"
        )
    return f"{text}: the topic was grown, and the newest record of each key counts"


def named(order: Sequence[Number]) -> str:
    *older, newest = ("unknown" if number is None else str(number) for number in order)
    return f"partitions {', '.join(older)} and {newest} (the newest) of __consumer_offsets"
