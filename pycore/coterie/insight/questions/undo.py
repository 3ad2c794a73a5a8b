"""Where a group was: its own committed offsets as of a time, beside the latest ones.

This differs from a reset by timestamp, which looks for records of the topic. Both states are folds
of the same log, so transactions, tombstones and deletions apply as they do for a broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie._core.codec.layout import decode_utf8
from coterie._core.fold import fold as partial
from coterie.base.ordering import key_order
from coterie.base.times import MAX_MS
from coterie.insight.offsets.key_removals import KeyRemovals
from coterie.insight.offsets.last_rewinds import LastRewinds
from coterie.insight.offsets.outside_spans import OutsideSpans, TakenBack
from coterie.insight.offsets.removal_reasons import expiry_of, is_of_4x
from coterie.insight.offsets.topic_ids import TopicIds
from coterie.insight.questions.expire import DEFAULT_RETENTION_MS
from coterie.insight.questions.undo_notes import note, removed_since
from coterie.insight.records.aggregates import Aggregate, aggregates_of
from coterie.insight.records.key_index import Key
from coterie.insight.records.partition_view import PartitionView, RecordFilter
from coterie.state.partial import Tracking
from coterie.state.rows import head_rows, pending_rows

NAME = "undo"
REMOVALS, TOPIC_IDS, REWINDS = "undo.removals", "undo.topic_ids", "undo.rewinds"  # aggregates
FIELDS = {
    "group_id": "string",
    "offsets_partition": "int32",
    "topic": "string",
    "partition": "int32",
    "change": "string",  # of CHANGES
    "offset": "int64",  # as of the time; null: there was none, or it is not known
    "latest_offset": "int64",  # as of the end of the log; null: there is none any more
    "difference": "int64",  # what a reset would add to the latest; null without both
    "leader_epoch": "int32",
    "metadata": "string",  # of then; Kafka's tool commits none
    "commit_timestamp": "timestamp",
    "latest_commit_timestamp": "timestamp",
    "pending": "bool",  # an open transaction holds another offset for the partition
    "state": "string",  # of the group at the end of the log; null: it is gone
    "rewound_from": "int64",  # the commit of then had gone back, from here; null: it had not
    "rewound_at": "timestamp",  # when it did
    "offset_by_record_times": "int64",  # where it differs from `offset`; -1: there is none
    "expires_at": "timestamp",  # when it would go as the group stands; null: that is not known
    "removed_at": "timestamp",  # the first removal since the time; null: it was not removed
    "removal": "string",  # its reason, of undo_notes.REASONS
    "note": "string",  # what to know before it is restored, as text; null: nothing
}
SAME, MOVED, NEW, DELETED, UNKNOWN = CHANGES = ("same", "moved", "new", "deleted", "unknown")


@dataclass(frozen=True)
class Parameters:
    """The time to go back to (epoch ms), and the broker's retention (ms)."""

    at_ms: int
    retention_ms: int = DEFAULT_RETENTION_MS


def states(view: PartitionView, parameters: Parameters) -> tuple[RecordFilter, ...]:
    """Return the states to fold: as of the end, and as of the time."""
    end = view.record_filter._replace(tracking=Tracking(until_ms=parameters.at_ms))
    return end, RecordFilter(view.groups, parameters.at_ms)


def aggregates(
    view: PartitionView, parameters: Parameters
) -> dict[str, tuple[RecordFilter, Aggregate]]:
    """Return the aggregates that find removals of offsets, topics that were made again, rewinds."""
    return {
        REMOVALS: (view.record_filter, KeyRemovals()),
        TOPIC_IDS: (view.record_filter, TopicIds(parameters.at_ms)),
        REWINDS: (view.record_filter, LastRewinds(TakenBack(OutsideSpans(view)), parameters.at_ms)),
    }


def rows(view: PartitionView, parameters: Parameters) -> Iterator[dict[str, Any]]:
    """Yield one row for each group, topic and partition with an offset at the time or at the end.

    Rows are sorted by group in Java's order, topic, partition. ``change`` is ``same``; ``moved``;
    ``new``: no offset at the time; ``deleted``: none at the end; ``unknown``: the log has none for
    the time, but it was compacted, so there may have been one.
    """
    _, then_view = states(view, parameters)
    places = last_places(view, parameters)
    is_whole = view.trusted_from_ms is None or view.trusted_from_ms <= parameters.at_ms
    then = dict(partial.offset_entries(view.read(then_view).fold))
    by_times = offsets_by_record_times(view, then_view)
    latest = dict(partial.offset_entries(view.fold))
    heads = head_rows(view.fold, ())
    simple = {group for group, _, _ in latest}
    pending = {(group, row["topic"], row["partition"]) for group, _, row in pending_rows(view.fold)}
    held = pending if is_of_4x(view) else set()
    found = aggregates_of(view, aggregates, parameters)
    removed = removed_since(view, found[REMOVALS], parameters.at_ms, parameters.retention_ms)
    renewed = found[TOPIC_IDS].changed()
    rewound = found[REWINDS].of_last_commits()
    for key in sorted({*then, *latest}, key=key_order()):
        group, topic, partition = key
        before, last = then.get(key), latest.get(key)
        offset, latest_offset = (
            None if committed is None else committed.offset for committed in (before, last)
        )
        gone = removed.get(key)
        rewound_from, rewound_at = rewound.get(key, (None, None))
        head = heads.get(group)
        newest: Any = last or before
        if not is_since(view, newest.commit_timestamp, places.get(key, -1)):
            continue
        yield {
            "group_id": group,
            "offsets_partition": view.number,
            "topic": topic,
            "partition": partition,
            "change": change_of(offset, latest_offset, is_whole),
            "offset": offset,
            "latest_offset": latest_offset,
            "difference": difference(offset, latest_offset),
            "leader_epoch": None if before is None else before.leader_epoch,
            "metadata": None if before is None else decode_utf8(before.metadata),
            "commit_timestamp": None if before is None else before.commit_timestamp,
            "latest_commit_timestamp": None if last is None else last.commit_timestamp,
            "pending": key in pending,
            "state": head["state"] if head else "Empty" if group in simple else None,
            "rewound_from": rewound_from,
            "rewound_at": rewound_at,
            "offset_by_record_times": other_offset(key, offset, by_times),
            "expires_at": None
            if offset is None or head is None
            else expires_at_ms(head, topic, parameters, pending=key in held),
            "removed_at": None if gone is None else gone.at_ms,
            "removal": None if gone is None else gone.reason,
            "note": note(gone, before, last, has_new_id=key in renewed),
        }


def offsets_by_record_times(view: PartitionView, then_view: RecordFilter) -> dict[Key, int] | None:
    """Return the offsets as of the time by record times; None: the log's order gives the same."""
    log = view.logs_by_times.get(then_view)
    if log is None:
        return None
    return {key: entry.offset for key, entry in partial.offset_entries(log.fold)}


def other_offset(key: Key, offset: int | None, by_times: dict[Key, int] | None) -> int | None:
    """Return the offset by record times if it differs, -1 if there is none; else None."""
    if by_times is None or by_times.get(key) == offset:
        return None
    return by_times.get(key, -1)


def expires_at_ms(
    head: dict[str, Any], topic: str, parameters: Parameters, *, pending: bool
) -> int | None:
    """Return when a restored offset would expire, given the group's state at the end of the log.

    Known only for an Empty group whose record has the time since when it is empty. Its offsets
    expire by that time, even if they were committed later (``GroupMetadata.removeExpiredOffsets``).
    """
    restored = {"topic": topic, "commit_timestamp": MAX_MS, "expire_timestamp": None}
    rule, since_ms, _ = expiry_of(head, restored, pending=pending)
    return since_ms + parameters.retention_ms if rule == "empty_since" else None


def last_places(view: PartitionView, parameters: Parameters) -> dict[Key, int]:
    """Return the log offset of each key's last record, up to the requested time."""
    log = view.read(states(view, parameters)[0])
    tracks = partial.tracks(log.fold)
    rows = np.flatnonzero(tracks["last"])
    return dict(zip(log.keys(rows), tracks["last_log_offset"][rows].tolist(), strict=True))


def is_since(view: PartitionView, commit_ms: int, log_offset: int) -> bool:
    """Whether a commit is of ``--since``, by its time or by its place in the log (-1: unknown)."""
    if view.since_ms is None or commit_ms >= view.since_ms:
        return True
    begin = view.since_begin
    return begin is not None and log_offset >= begin.next_offset


def change_of(offset: int | None, latest: int | None, is_whole: bool) -> str:
    """Return how the latest offset differs from the offset at the time."""
    if offset is None and not is_whole:
        return UNKNOWN
    if offset is None:
        return NEW
    if latest is None:
        return DELETED
    return SAME if offset == latest else MOVED


def difference(offset: int | None, latest: int | None) -> int | None:
    """Return what a reset would add to the latest offset; None without both."""
    return None if offset is None or latest is None else offset - latest
