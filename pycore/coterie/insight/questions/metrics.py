"""What an exporter would show for each group: offsets, commits, members, rebalances.

There is one row for each group (``topic`` null), then one for each partition that it has an offset
of or committed to. Deleted groups have no rows, as they are no longer scraped. ``prometheus`` maps
the values to metric names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie._core.fold import fold as partial
from coterie._core.fold.fold_state import Committed
from coterie.base.consumer_protocol import owned_partitions
from coterie.base.ordering import java_order, key_order
from coterie.errors import CorruptData
from coterie.insight.groups.epochs import EpochTimeline
from coterie.insight.groups.protocol_switches import epochs_in
from coterie.insight.groups.rebalances import counts, rebalances_of
from coterie.insight.offsets import loss_counts
from coterie.insight.offsets.end_offsets import EndOffsets
from coterie.insight.offsets.loss_findings import Losses
from coterie.insight.questions import lag
from coterie.insight.records.aggregates import Aggregate, aggregates_of
from coterie.insight.records.key_index import Key
from coterie.insight.records.partition_view import PartitionView, RecordFilter
from coterie.state.consumer_protocol_groups import unreconciled
from coterie.state.partial import Tracking
from coterie.state.rows import head_rows, pending_by_group

NAME = "metrics"
LOSSES = "metrics.losses"  # an aggregate
FIELDS = {
    "group_id": "string",
    "offsets_partition": "int32",
    "topic": "string",  # null: the row of the group itself
    "partition": "int32",
    "offset": "int64",  # null: deleted or expired since
    "commit_timestamp": "timestamp",  # of the latest effective commit
    "commits": "int64",  # effective ones since ``trusted_from``; of the group: of all partitions
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
    "skipped": "int64",  # records passed over since ``trusted_from``; see ``audit``
    "stalled": "int64",  # of a group: partitions that stand still
    "stalled_since": "timestamp",  # null: it does not; of a group: the first
    "open_transactions": "int64",  # of a group: those that hold offsets of it
    "open_since": "timestamp",  # the first of them
    "unreconciled": "int64",  # of a consumer group: members that do not have their target yet
    "revoking_since": "timestamp",  # since when a member has not given up partitions, the first
    "revocation_timeouts": "int64",  # members fenced for that since ``trusted_from``
    "rebalances": "int64",  # since ``trusted_from``; see ``coterie.insight.groups.rebalances``
}
Row = dict[str, Any]


@dataclass(frozen=True)
class Parameters:
    """Filters for groups and topics: regular expressions, matched anywhere in the name.

    ``ends``: end offsets of topics for the lag, the last sample of each partition.
    ``log_until_ms``: see ``lag.Parameters``. ``losses``: look for skips, stalls and open
    transactions, which takes a second reading; False: their values are null.
    """

    group_filter: str | None = None
    group_exclude: str | None = None
    topic_filter: str | None = None
    topic_exclude: str | None = None
    ends: EndOffsets | None = None
    log_until_ms: int | None = None
    losses: bool = True


def states(view: PartitionView, parameters: Any) -> tuple[RecordFilter, ...]:
    """Return the state to fold, in which the requested commits are counted.

    Only a folded log shows since when it is complete. Until that is known, the returned state is
    folded to find out.
    """
    tracking = Tracking(view.since_ms)
    if view.is_tracked:
        begin = view.complete_begin
        # Commits of earlier times come later in the log only if its times go back.
        offset = begin.next_offset if begin is not None and begin.earlier else None
        tracking = Tracking(view.complete_from_ms, since_offset=offset)
    return (view.record_filter._replace(tracking=tracking),)


def counted_state(view: PartitionView) -> RecordFilter:
    """Fold a log, twice if it turns out to be compacted; return the filter of the last fold."""
    view.read(*states(view, None))
    return states(view, None)[0]


def aggregates(
    view: PartitionView, parameters: Parameters
) -> dict[str, tuple[RecordFilter, Aggregate]]:
    """Return the aggregates that find offsets for the lag, and losses."""
    needed: dict[str, tuple[RecordFilter, Aggregate]] = {}
    if parameters.ends is not None:
        needed |= lag.aggregates(view, lag_ask(view, parameters))
    if parameters.losses:
        needed[LOSSES] = view.record_filter, Losses(view, loss_counts.DEFAULT)
    return needed


def lag_ask(view: PartitionView, parameters: Parameters) -> lag.Parameters:
    """Return the parameters of the lag: the last sample of each partition."""
    assert parameters.ends is not None  # otherwise no lag is computed
    return lag.Parameters(
        parameters.ends, at_ms=view.at_ms, latest=True, log_until_ms=parameters.log_until_ms
    )


def rows(view: PartitionView, parameters: Parameters) -> Iterator[Row]:
    """Yield the rows of each group, groups in Java's order, then topics and partitions."""
    counted_view = counted_state(view)
    filled = aggregates_of(view, aggregates, parameters)
    offsets = dict(partial.offset_entries(view.fold))
    partitions = partitions_by_group(view, offsets, commit_counts(view, counted_view))
    named = {group for group, _, _ in offsets}.union(pending_by_group(view.fold))
    heads = head_rows(view.fold, named)
    behind = {} if parameters.ends is None else lags_by_key(view, lag_ask(view, parameters), filled)
    losses = loss_counts.loss_counts(view, filled[LOSSES]) if parameters.losses else None
    for group in sorted(heads, key=java_order):
        # Filters only save rows: group names are known after the fold.
        if not passes(group, parameters.group_filter, parameters.group_exclude):
            continue
        partition_rows = [
            row
            for row in partitions.get(group, ())
            if passes(row["topic"], parameters.topic_filter, parameters.topic_exclude)
        ]
        if behind:
            for row in partition_rows:
                row.update(behind.get((group, row["topic"], row["partition"]), {}))
        history = view.histories.get(group)
        switched, of_newer = epochs_in(view, group)
        reconciling = reconciling_of(view, heads[group], of_newer)
        head = head_of(heads[group], rebalances_of(view, history, switched, of_newer))
        if losses is not None:
            head |= losses.fields_of(group, partition_rows)
        yield {
            **dict.fromkeys(FIELDS),
            "group_id": group,
            "offsets_partition": view.number,
            "commits": sum(row["commits"] for row in partition_rows),
            "commit_timestamp": latest(row["commit_timestamp"] for row in partition_rows),
            **head,
            **reconciling,
        }
        yield from partition_rows


def reconciling_of(view: PartitionView, group: Row, timeline: EpochTimeline) -> Row:
    """Return what a consumer group's members have to get and to give up; empty: another group."""
    if group["type"] != "consumer":
        return {}
    since = [
        revocation.record.time_ms
        for revocation in timeline.partitions.revoking.values()
        if revocation.record.time_ms is not None
    ]
    return {
        "unreconciled": len(unreconciled(group)),
        "revoking_since": min(since, default=None),
        "revocation_timeouts": sum(
            revocation.timed_out and counts(view, revocation.record._asdict())
            for revocation in timeline.ended_revocations
        ),
    }


def passes(name: str, pattern: str | None, exclusion: str | None) -> bool:
    """Whether a name matches a filter and is not excluded."""
    if pattern is not None and not re.search(pattern, name):
        return False
    return exclusion is None or not re.search(exclusion, name)


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
    by_group: dict[str, list[Row]] = {}
    blank = dict.fromkeys(FIELDS) | {"offsets_partition": view.number}
    for key in sorted({*counted, *offsets}, key=key_order()):
        count, timestamp = counted.get(key, (0, None))
        committed = offsets.get(key)
        row = {
            **blank,
            "group_id": key[0],
            "topic": key[1],
            "partition": key[2],
            "offset": None if committed is None else committed.offset,
            "commit_timestamp": timestamp if committed is None else committed.commit_timestamp,
            "commits": count,
        }
        by_group.setdefault(key[0], []).append(row)
    return by_group


def lags_by_key(
    view: PartitionView, parameters: lag.Parameters, filled: Mapping[str, Any]
) -> dict[Key, Row]:
    """Return the end offset and lag of each key; ``filled``: the aggregates of ``lag``."""
    return {
        (row["group_id"], row["topic"], row["partition"]): {
            **{name: row[name] for name in ("end_offset", "lag", "lag_max")},
            "lag_status": row["status"],
        }
        for row in lag.rows_of(view, parameters, filled)
    }


def commit_counts(
    view: PartitionView, record_filter: RecordFilter
) -> dict[Key, tuple[int, int | None]]:
    """Return the number of effective commits of each key, and the last one's commit time.

    Commits from ``view.complete_begin`` or ``complete_from_ms`` on count, and those without a time.
    The time is None if the last commit has none.
    """
    log = view.read(record_filter)
    tracks = partial.tracks(log.fold)
    used = np.flatnonzero(tracks["commit"])
    counts, times = (tracks[name][used].tolist() for name in ("count", "commit_timestamp"))
    values = ((count, None if ms < 0 else ms) for count, ms in zip(counts, times, strict=True))
    return dict(zip(log.keys(used), values, strict=True))


def head_of(group: Row, counted: list[Row]) -> Row:
    """Return the fields of a group itself; ``counted``: the number of rebalances."""
    classic = group["type"] == "classic"
    readable = not classic or group["protocol_type"] == "consumer"
    return {
        **{name: group[name] for name in ("state", "protocol_type", "protocol", "generation")},
        "members": len(group["members"]),
        "empty_members": sum(map(is_idle, group["members"])) if readable else None,
        "rebalances": len(counted),
    }


def is_idle(member: Row) -> bool:
    """Whether a member has no assignment; unreadable bytes count as one."""
    if "current_tasks" in member:
        return not any(member["current_tasks"].values())
    if "current_assignment" in member:
        return not any(topic["partitions"] for topic in member["current_assignment"])
    try:
        return not owned_partitions(member["assignment"])
    except CorruptData:
        return False
