"""What an exporter would show of each group, from the log: offsets, commits, members, rebalances.

One row a group (``topic`` null), then one a partition that it has an offset of or committed to.
Groups that are gone have no rows: a deleted group stops being scraped. ``prometheus`` puts names
to the numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie._core.fold import partial
from coterie._core.fold.producers import Committed
from coterie.errors import CorruptData
from coterie.insight.groups.rebalances import rebalances
from coterie.insight.offsets.end_offsets import EndOffsets
from coterie.insight.questions import lag
from coterie.insight.records.aggregates import Aggregate, aggregates_of
from coterie.insight.records.key_index import Key
from coterie.insight.records.partition_view import PartitionView, RecordFilter
from coterie.log.consumer_protocol import owned_partitions
from coterie.ordering import java_order, key_order
from coterie.state.partial import Tracking
from coterie.state.rows import head_rows, pending_by_group

NAME = "metrics"
FIELDS = {
    "group_id": "string",
    "offsets_partition": "int32",
    "topic": "string",  # null: the row of the group itself
    "partition": "int32",
    "offset": "int64",  # null: deleted or expired since
    "commit_timestamp": "timestamp",  # the latest commit that counts
    "commits": "int64",  # that count, since ``trusted_from``; of the group: of all partitions
    "end_offset": "int64",  # null: not given
    "lag": "int64",  # null: not known; see ``lag``
    "lag_max": "int64",
    "lag_status": "string",
    "state": "string",
    "protocol_type": "string",
    "protocol": "string",
    "generation": "int32",  # of newer groups: the epoch
    "members": "int64",
    "empty_members": "int64",  # members with no partition; null: a protocol of another kind
    "rebalances": "int64",  # since ``trusted_from``; see ``coterie.insight.groups.rebalances``
}
Row = dict[str, Any]


@dataclass(frozen=True)
class Ask:
    """Which groups and topics: regular expressions, searched for anywhere in the name.

    ``ends``: end offsets of topics, the last sample of each partition, for the lag;
    ``log_until_ms``: see ``lag.Ask``.
    """

    group_filter: str | None = None
    group_exclude: str | None = None
    topic_filter: str | None = None
    topic_exclude: str | None = None
    ends: EndOffsets | None = None
    log_until_ms: int | None = None


def states(view: PartitionView, ask: Any) -> tuple[RecordFilter, ...]:
    """Return the states that are looked at: one with the commits counted that are asked for.

    Since when all is there the state of a whole log tells: where that is not known yet, what is
    returned is folded to find out.
    """
    since_ms = view.since_ms if not view.is_tracked else view.begins_ms
    return (view.record_filter._replace(tracking=Tracking(since_ms)),)


def counted_state(view: PartitionView) -> RecordFilter:
    """Fold a log, a second time if the first says that it was compacted; return the last view."""
    view.read(*states(view, None))
    return states(view, None)[0]


def aggregates(view: PartitionView, ask: Ask) -> dict[str, tuple[RecordFilter, Aggregate]]:
    """Return what finds offsets, for the lag, while the log goes by."""
    return {} if ask.ends is None else lag.aggregates(view, lag_ask(view, ask))


def lag_ask(view: PartitionView, ask: Ask) -> lag.Ask:
    """Return what to ask of the lag: the last sample of each partition."""
    assert ask.ends is not None  # else nobody asks
    return lag.Ask(ask.ends, at_ms=view.at_ms, latest=True, log_until_ms=ask.log_until_ms)


def rows(view: PartitionView, ask: Ask) -> Iterator[Row]:
    """Yield the rows of each group, groups in Java's order, then topics and partitions."""
    counted_view = counted_state(view)
    seen = aggregates_of(view, aggregates, ask)
    offsets = dict(partial.offset_entries(view.fold))
    partitions = partitions_by_group(view, offsets, commit_counts(view, counted_view))
    named = {group for group, _, _ in offsets}.union(pending_by_group(view.fold))
    heads = head_rows(view.fold, named)
    newer = view.newer_records.by_group()
    behind = {} if ask.ends is None else lags_by_key(view, lag_ask(view, ask), seen)
    for group in sorted(heads, key=java_order):
        # A filter saves only rows: names are known once all groups have been folded.
        if not passes(group, ask.group_filter, ask.group_exclude):
            continue
        theirs = [
            row
            for row in partitions.get(group, ())
            if passes(row["topic"], ask.topic_filter, ask.topic_exclude)
        ]
        if behind:
            for row in theirs:
                row.update(behind.get((group, row["topic"], row["partition"]), {}))
        counted = rebalances(view, view.lives.get(group), newer.get(group, ()))
        head = head_of(heads[group], counted)
        yield {
            **dict.fromkeys(FIELDS),
            "group_id": group,
            "offsets_partition": view.number,
            "commits": sum(row["commits"] for row in theirs),
            "commit_timestamp": latest(row["commit_timestamp"] for row in theirs),
            **head,
        }
        yield from theirs


def passes(name: str, wanted: str | None, unwanted: str | None) -> bool:
    """Return whether a name passes a filter and is not excluded."""
    if wanted is not None and not re.search(wanted, name):
        return False
    return unwanted is None or not re.search(unwanted, name)


def latest(times: Iterable[int | None]) -> int | None:
    """Return the last of the times that are known."""
    return max((ms for ms in times if ms is not None), default=None)


def partitions_by_group(
    view: PartitionView,
    offsets: Mapping[Key, Committed],
    counted: Mapping[Key, tuple[int, int | None]],
) -> dict[str, list[Row]]:
    """Return the rows of each group's partitions, without lags.

    ``counted``: of :func:`commit_counts`.
    """
    found: dict[str, list[Row]] = {}
    blank = dict.fromkeys(FIELDS) | {"offsets_partition": view.number}
    for key in sorted({*counted, *offsets}, key=key_order()):
        count, timestamp = counted.get(key, (0, None))
        now = offsets.get(key)
        row = {
            **blank,
            "group_id": key[0],
            "topic": key[1],
            "partition": key[2],
            "offset": None if now is None else now.offset,
            "commit_timestamp": timestamp if now is None else now.commit_timestamp,
            "commits": count,
        }
        found.setdefault(key[0], []).append(row)
    return found


def lags_by_key(view: PartitionView, ask: lag.Ask, seen: Mapping[str, Any]) -> dict[Key, Row]:
    """Return the end offset and lag of each key; ``seen``: what ``lag.aggregates`` keep."""
    return {
        (row["group_id"], row["topic"], row["partition"]): {
            **{name: row[name] for name in ("end_offset", "lag", "lag_max")},
            "lag_status": row["status"],
        }
        for row in lag.rows_of(view, ask, seen)
    }


def commit_counts(
    view: PartitionView, record_filter: RecordFilter
) -> dict[Key, tuple[int, int | None]]:
    """Return how many commits of each key count, and the time that the last one gives.

    Counted are those from ``view.begins_ms`` on, and those without a time. A last commit that
    gives no time has None.
    """
    log = view.read(record_filter)
    found = partial.tracks(log.fold)
    at = np.flatnonzero(found["commit"])
    counts, times = (found[name][at].tolist() for name in ("count", "commit_timestamp"))
    told = ((count, None if ms < 0 else ms) for count, ms in zip(counts, times, strict=True))
    return dict(zip(log.keys(at), told, strict=True))


def head_of(group: Row, counted: list[Row]) -> Row:
    """Return the fields of a group itself; ``counted``: its ``rebalances``."""
    classic = group["type"] == "classic"
    readable = not classic or group["protocol_type"] == "consumer"
    return {
        **{name: group[name] for name in ("state", "protocol_type", "protocol", "generation")},
        "members": len(group["members"]),
        "empty_members": sum(map(is_idle, group["members"])) if readable else None,
        "rebalances": len(counted),
    }


def is_idle(member: Row) -> bool:
    """Return whether a member has nothing assigned; bytes that do not parse are something."""
    if "current_tasks" in member:
        return not any(member["current_tasks"].values())
    if "current_assignment" in member:
        return not any(topic["partitions"] for topic in member["current_assignment"])
    try:
        return not owned_partitions(member["assignment"])
    except CorruptData:
        return False
