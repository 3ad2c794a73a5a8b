"""Findings about records that a group skipped, read twice, or does not get to.

``Losses`` collects removals of offsets, jumps, stalls and open transactions in one reading.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from coterie.base.times import format_duration, format_time
from coterie.insight.groups.causes import client_text, counted
from coterie.insight.groups.members_at import owners_between
from coterie.insight.groups.shared_group_ids import few
from coterie.insight.offsets.commit_findings import REWIND, select
from coterie.insight.offsets.jumps import LONG_MS, Jump, Jumps
from coterie.insight.offsets.key_removals import KeyRemoval, KeyRemovals
from coterie.insight.offsets.open_transactions import OpenTransaction, OpenTransactions
from coterie.insight.offsets.peaks import Peaks
from coterie.insight.offsets.stalls import Stall, Stalls
from coterie.insight.records.aggregates import columns_of
from coterie.insight.records.partition_view import PartitionView
from coterie.insight.records.record_columns import Array, RecordColumns
from coterie.insight.tables import duration, shortened

SKIP, STALL, OPEN_TRANSACTION = "skip", "stall", "open_transaction"
KINDS = (SKIP, STALL, OPEN_TRANSACTION)
READ_AGAIN = "; or read again, if auto.offset.reset was earliest"
AS_OTHERS = ", as other partitions of the topic were"
READ_AGAIN_SEVERITY = "progress"  # of a skip whose records were probably read
END = 1 << 63  # behind every record
Row = dict[str, Any]


@dataclass(frozen=True)
class Thresholds:
    """From when on something is a finding; None: this kind is not looked for.

    Attributes
    ----------
    skip_by : int or None
        The least number of records that a skip passes over.
    skip_rate : int
        The least speed, in records a second, of a skip that only its speed shows.
    rewind_by : int or None
        The least number of records that a commit goes back, across a removal.
    stall_ms : int or None
        The shortest stall.
    open_ms : int or None
        The least age of an open transaction.
    """

    skip_by: int | None = 1
    skip_rate: int = 1000
    rewind_by: int | None = None
    stall_ms: int | None = 60_000
    open_ms: int | None = 10_000


class Losses:
    def __init__(self, view: PartitionView, thresholds: Thresholds) -> None:
        self.thresholds = thresholds
        self.parts: dict[str, Any] = {}
        if thresholds.skip_by is not None or thresholds.rewind_by is not None:
            self.parts["removals"] = KeyRemovals()
        if thresholds.skip_by is not None:
            self.parts["peaks"] = Peaks()
            self.parts[SKIP] = Jumps(view, thresholds.skip_by, thresholds.skip_rate)
        if thresholds.stall_ms is not None:
            self.parts[STALL] = Stalls(thresholds.stall_ms, view.trusted_from_ms)
        if thresholds.open_ms is not None:
            self.parts[OPEN_TRANSACTION] = OpenTransactions()
        self.COLUMNS = columns_of(self.parts.values())

    def take(self, records: RecordColumns) -> None:
        for part in self.parts.values():
            part.take(records)

    def rows(self, view: PartitionView) -> Iterator[Row]:
        """Yield the findings; call it after the last piece."""
        yield from self.skip_rows(view)
        yield from (stall_row(view, stall, owners) for stall, owners in self.owned_stalls(view))
        if self.thresholds.open_ms is not None:
            yield from open_rows(self.open_transactions(), end_of(view), self.thresholds.open_ms)

    def skip_rows(self, view: PartitionView) -> Iterator[Row]:
        """Yield the findings about records that were skipped, or repeated after a removal."""
        limits = self.thresholds
        if "removals" in self.parts:
            removals, peaks = self.parts["removals"], self.parts.get("peaks")
            yield from across_removals(removals, peaks, limits.skip_by, limits.rewind_by)
        if limits.skip_by is not None:
            jumps = list(self.parts[SKIP].jumps(view))
            names = ("key", "log_offset", "previous_offset", "offset")
            columns = [np.array([jump.at[name] for jump in jumps], np.int64) for name in names]
            spans = never_committed(self.parts["peaks"], *columns)
            for jump, span in zip(jumps, spans, strict=True):
                if span.records >= limits.skip_by:
                    yield jump_row(jump, span)

    def owned_stalls(self, view: PartitionView) -> Iterator[tuple[Stall, list[Owner]]]:
        """Yield the stalls of partitions that a member owned meanwhile, with the owners."""
        for stall in self.parts[STALL].stalls(end_of(view)) if STALL in self.parts else ():
            owners = owners_of(view, stall)
            if owners:
                yield stall, owners

    def open_transactions(self) -> Iterator[OpenTransaction]:
        """Yield the open transactions of each group, of any age."""
        yield from self.parts[OPEN_TRANSACTION].transactions()


def end_of(view: PartitionView) -> int:
    """Return the time of the partition's newest record, or of the requested end."""
    return view.newest_ms if view.at_ms is None else min(view.newest_ms, view.at_ms)


def across_removals(
    removals: KeyRemovals, peaks: Peaks | None, skip_by: int | None, rewind_by: int | None
) -> Iterator[Row]:
    """Yield the commits after a removal that are beyond all before it, or lower than the last.

    ``skip_by``, ``rewind_by``: the least difference; None: this kind is not looked for, and skips
    need no ``peaks``.
    """
    columns = removals.in_order()
    if not columns:
        return
    change = columns["after_offset"] - columns["before_offset"]
    resumed = columns["known"] & columns["resumed"] & ~columns["anew"]
    chosen = np.zeros(len(change), np.bool_)
    spans = [Span(0, 0)] * len(change)
    went_back = set()
    if skip_by is not None and peaks is not None:
        names = ("key", "log_offset", "before_offset", "after_offset")
        spans = list(never_committed(peaks, *(columns[name] for name in names)))
        chosen |= np.array([span.records for span in spans], np.int64) >= skip_by
        back = select(columns, resumed & (change < 0))
        went_back = {(*removal.key[:2], removal.removed_ms) for removal in removals.rows(back)}
    if rewind_by is not None:
        chosen |= change <= -rewind_by
    chosen &= resumed
    spans = [spans[at] for at in np.flatnonzero(chosen).tolist()]
    for removal, span in zip(removals.rows(select(columns, chosen)), spans, strict=True):
        yield removal_row(removal, span, (*removal.key[:2], removal.removed_ms) in went_back)


class Span(NamedTuple):
    """The offsets that a step forward passed over and the group never committed.

    They begin at the highest offset before the step, and end where it led, or where the group was
    set back to later: from there on it reads again.
    """

    start: int
    stop: int

    @property
    def records(self) -> int:
        """How many there are; not above 0: none."""
        return self.stop - self.start

    def set_back_text(self, offset: int) -> str:
        """Return that the group was set back after a step to an offset, as text; or nothing."""
        return f"; set back to {self.stop} later" if self.stop < offset else ""


def never_committed(
    peaks: Peaks, keys: Array, log_offset: Array, before: Array, offset: Array
) -> Iterator[Span]:
    """Yield the span of each of some steps from an offset to another."""
    highest, lowest = peaks.before(keys, log_offset, before), peaks.after(keys, log_offset, offset)
    yield from map(Span, highest.tolist(), lowest.tolist())


def removal_row(removal: KeyRemoval, span: Span, others_went_back: bool) -> Row:
    """Return the finding about a commit after a removal.

    ``span``: what it passed over. ``others_went_back``: whether other partitions of the
    topic, removed at the same time, did.
    """
    assert removal.offset is not None  # such a removal is no finding
    assert removal.resumed is not None
    old, new = removal.offset, removal.resumed.offset
    removed = removed_text([removal.removed_ms])
    doubt = READ_AGAIN + (AS_OTHERS if others_went_back else "")
    detail = f"committed {span.start}, {removed}, resumed near {new}: about {span.records} records "
    detail += f"never committed{span.set_back_text(new)}{doubt}"
    if new < old:
        detail = f"from {old}, {removed}, back to {new}, by {old - new}"
    place, ends = removal.resumed, (span.start, span.stop) if new > old else (old, new)
    return {
        "kind": SKIP if new > old else REWIND,
        **({"severity": READ_AGAIN_SEVERITY} if new > old and others_went_back else {}),
        **dict(zip(("group_id", "topic", "partition"), removal.key, strict=True)),
        "detail": detail,
        **moved(*ends, place.file, place.position, "removed"),
        "removed_ms": removal.removed_ms,
        "doubt": doubt,
        "offset": new,
        "previous_offset": old,
        "timestamp": None if place.timestamp < 0 else place.timestamp,
        "log_offset": place.log_offset,
        "file": place.file,
        "position": place.position,
        "previous_log_offset": removal.commit_log_offset,
    }


def removed_text(times: Iterable[int | None]) -> str:
    """Return when offsets were removed as text; a time is None if it is not known."""
    known = sorted({at_ms for at_ms in times if at_ms is not None})
    if not known:
        return "removed"
    if len(known) == 1:
        return f"removed at {format_time(known[0])}"
    return f"removed from {format_time(known[0])} to {format_time(known[-1])}"


def moved(old: int, new: int, file: str, position: int, how: str) -> Row:
    """Return the fields by which the commits of one request are one finding."""
    return {
        "lowest_offset": min(old, new),
        "highest_offset": max(old, new),
        "moved": abs(new - old),
        "loop": (how, file, position),
    }


def jump_row(jump: Jump, span: Span) -> Row:
    """Return the finding about a jump; ``span``: what it passed over."""
    at = jump.at
    old, new, step = at["previous_offset"], at["offset"], at["step"]
    if jump.ordinary is None:
        why = "set by a tool or a consumer outside of the group: it had no members"
    else:
        time = "in an unknown time" if at["ms"] == LONG_MS else f"in {duration(at['ms'])}"
        why = f"{time}; the group's other steps are at most {jump.ordinary}: a seek"
    reason = why if jump.ordinary is None else "a seek"
    if span.start > old:
        why += f"; up to {span.start} all had been committed before"
    why += span.set_back_text(new)
    return {
        "kind": SKIP,
        **dict(zip(("group_id", "topic", "partition"), jump.key, strict=True)),
        "detail": f"from {old} forward to {new}, by {step}, {why}",
        **moved(span.start, span.stop, jump.file, at["position"], reason),
        "why": reason,
        "offset": new,
        "previous_offset": old,
        "timestamp": None if at["timestamp"] < 0 else at["timestamp"],
        "log_offset": at["log_offset"],
        "file": jump.file,
        "position": at["position"],
        "previous_log_offset": at["previous_log_offset"],
    }


def stall_row(view: PartitionView, stall: Stall, owners: list[Owner]) -> Row:
    long, longest = format_duration(stall.ms), format_duration(stall.longest_ms)
    since = format_time(stall.since_ms)
    how = f"stood at {stall.offset} for {long} from {since} on"
    if stall.until_ms is None:
        how = f"stands at {stall.offset} since {since}, {long} before the end of the log"
    return {
        "kind": STALL,
        **dict(zip(("group_id", "topic", "partition"), stall.key, strict=True)),
        "detail": f"{how}, while others of the topic move; owned by {few(list(map(str, owners)))}; "
        f"its longest pause before was {longest}",
        "offset": stall.offset,
        "lowest_offset": stall.offset,
        "highest_offset": stall.offset,
        "first": stall.since_ms,
        "clients": [
            {"client_id": owner.client_id, "client_host": owner.host, "topics": None}
            for owner in owners
        ],
        "timestamp": end_of(view) if stall.until_ms is None else stall.until_ms,
        "log_offset": stall.log_offset,
        "file": stall.file,
        "position": stall.position,
        "previous_log_offset": stall.since_log_offset,
    }


@dataclass(frozen=True)
class Owner:
    client_id: str
    host: str

    def __str__(self) -> str:
        return client_text(self.client_id, self.host)


def owners_of(view: PartitionView, stall: Stall) -> list[Owner]:
    """Return the owners of a partition while it stood, in the order of the log."""
    group, topic, partition = stall.key
    end = END if stall.until_ms is None else stall.log_offset
    owners = (
        Owner(member["client_id"], member["client_host"])
        for member in owners_between(view, group, stall.since_log_offset, end, (topic, partition))
    )
    return list(dict.fromkeys(owners))


def open_rows(transactions: Iterable[OpenTransaction], end_ms: int, open_ms: int) -> Iterator[Row]:
    """Yield a finding for each group whose offsets wait for the end of a transaction.

    A younger transaction counts, too, if the partition has no later record: then its age is not
    known.
    """
    for transaction in transactions:
        since_ms = transaction.since_ms
        if since_ms >= 0 and end_ms - since_ms < open_ms and transaction.until_ms < end_ms:
            continue
        since = "an unknown time" if since_ms < 0 else format_time(since_ms)
        places = [f"{shortened(key[1])}-{key[2]}" for key, _ in transaction.offsets]
        ((_, topic, partition), offset), *more = transaction.offsets
        yield {
            "kind": OPEN_TRANSACTION,
            "always": True,  # a state at the end, whenever it began
            "group_id": transaction.group,
            "topic": None if more else topic,
            "partition": None if more else partition,
            "offset": None if more else offset,
            "detail": f"producer {transaction.producer_id} (epoch {transaction.producer_epoch}) "
            f"holds {counted(len(places), 'offset')} since {since}: {few(places)}",
            "count": transaction.commits,
            "timestamp": None if since_ms < 0 else since_ms,
            "log_offset": transaction.log_offset,
            "file": transaction.file,
            "position": transaction.position,
        }
