"""Compare a live state with the log; show the first record at which they differ.

The live state is what the Admin client returned (``describeConsumerGroups`` and
``listConsumerGroupOffsets``), as JSON: see :func:`read_live`. A group of the log that the Admin
client does not list (another protocol type, share, streams) is not expected in the live state.
"""

from __future__ import annotations

import json
import os
from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from coterie._core.codec.compression import partition_for
from coterie._core.fold.record_scan import RecordScan
from coterie.base.ordering import java_order, place_order
from coterie.base.user_files import read_text
from coterie.errors import CoterieError
from coterie.insight.offsets.commit_findings import places_of
from coterie.insight.records.key_index import Key, Table
from coterie.insight.records.partition_view import PartitionView
from coterie.insight.records.record_columns import COMMIT, Array, RecordColumns
from coterie.state.assignments import assignments

DIVERGENCE = "divergence"
Row = dict[str, Any]
LIMIT = 1 << 63  # of an int64
OFFSET_FIELDS = ("offset", "leader_epoch", "metadata")
MEMBER_FIELDS = ("group_instance_id", "client_id", "client_host")


@dataclass(frozen=True)
class Live:
    """A live state.

    Attributes
    ----------
    groups : dict
        The live state of each group, by id.
    partition_count : int or None
        The number of partitions of the offsets topic, if the log has all of them: then a live group
        without any record is a divergence. None: not known.
    hidden_topics : frozenset of str
        Topics whose offsets the user may not see; they are not compared.
    log_starts : dict
        (topic, partition) -> its log start offset, from before the log ends.
    """

    groups: dict[str, Row]
    partition_count: int | None = None
    hidden_topics: frozenset[str] = frozenset()
    log_starts: dict[tuple[str, int], int] = field(default_factory=dict)


def read_live(path: str | os.PathLike[str]) -> dict[str, Row]:
    """Read ``{"groups": [{"group_id", "state", "protocol", "members", "offsets"}]}``.

    Members have ``member_id``, ``group_instance_id``, ``client_id``, ``client_host`` and
    ``assignment`` (``"topic:partition"``), offsets ``topic``, ``partition``, ``offset``,
    ``leader_epoch`` and ``metadata``. A field that is absent is not compared.

    Raises
    ------
    CoterieError
        The file cannot be read, or has another form.
    """
    name = os.fspath(path)
    try:
        document = json.loads(read_text(name))
    except OSError as error:
        raise CoterieError(f"{name}: cannot be read: {error.strerror}") from error
    except CoterieError as error:
        raise CoterieError(f"{name}: {error}") from None
    except ValueError as error:
        raise CoterieError(f"{name}: not JSON: {error}") from error
    groups = document.get("groups") if isinstance(document, dict) else None
    if not isinstance(groups, list):
        raise CoterieError(f'{name}: no live state: {{"groups": [...]}} is wanted')
    by_id: dict[str, Row] = {}
    for number, group in enumerate(groups):
        if problem := _group_problem(group):
            raise CoterieError(f"{name}: group {number}: {problem}")
        by_id[group["group_id"]] = group
    return by_id


def _group_problem(group: Any) -> str | None:
    """Return the problem of a group in the file; None: it is valid."""
    if not isinstance(group, dict) or not isinstance(group.get("group_id"), str):
        return 'an object with "group_id" is wanted'
    required = {"members": ("member_id",), "offsets": ("topic", "partition", "offset")}
    for name, fields in required.items():
        rows = group.get(name, [])
        if not isinstance(rows, list):
            return f"{name} must be a list"
        for row in rows:
            if not isinstance(row, dict) or any(field not in row for field in fields):
                return f"one of its {name} lacks {' or '.join(fields)}"
    return None


def divergences(view: PartitionView, live: Live) -> Iterator[Row]:
    """Yield each difference, with the first record that the live state does not reflect."""
    yield from with_evidence(view, _differences(view, live))


def with_evidence(
    view: PartitionView, found: Iterable[tuple[Row, EvidenceSource]]
) -> Iterator[Row]:
    """Yield findings with the fields of the record that shows each."""
    findings = list(found)
    evidence = Evidence(view, [source for _, source in findings])
    for row, source in findings:
        yield row | evidence.of(source)


def _differences(view: PartitionView, live: Live) -> Iterator[tuple[Row, EvidenceSource]]:
    """Yield each difference, and the record to show as its evidence."""
    for group, row in view.group_rows.items():
        if group in live.groups:
            yield from of_group(view, row, live.groups[group])
            yield from of_offsets(row, live.groups[group], live.hidden_topics)
        elif row["type"] in ("classic", "consumer") and row["protocol_type"] in (None, "consumer"):
            yield _divergence_row(group, "in the log, not in the live state"), LastRecordOf(group)
    if live.partition_count is None:
        return
    for group in sorted(live.groups.keys() - view.group_rows.keys(), key=java_order):
        in_partition = partition_for(group, live.partition_count) == view.number
        is_requested = view.groups is None or group in view.groups
        if in_partition and is_requested:
            state = live.groups[group].get("state", "there")
            yield _divergence_row(group, f"live and {state}, the log has no record of it"), None


def _divergence_row(group: str, detail: str) -> Row:
    return {"kind": DIVERGENCE, "group_id": group, "detail": detail}


def of_group(view: PartitionView, row: Row, live: Row) -> Iterator[tuple[Row, EvidenceSource]]:
    group = row["group_id"]
    if "describe_error" in live:
        return
    details = [
        f"{name}: {logged or 'none'} in the log, {live_value or 'none'} live"
        for name, logged, live_value in (
            ("type", row["type"], str(live.get("type", row["type"])).lower()),
            ("state", row["state"], live.get("state", row["state"])),
        )
        if logged != live_value
    ]
    if (
        not details
        and row["state"] == "Stable"
        and (row["protocol"] or "") != live.get("protocol", row["protocol"] or "")
    ):
        details.append(f"protocol: {row['protocol']} in the log, {live['protocol']} live")
    if "members" in live:
        details += _members(row, {member["member_id"]: member for member in live["members"]})
    if details:
        source = first_differing_record(view, group, live)
        for detail in details:
            yield _divergence_row(group, detail), source


def _members(row: Row, live: dict[str, Row]) -> Iterator[str]:
    logged = {member["member_id"]: member for member in row["members"]}
    assigned = assignments(row)
    for member_id in sorted(logged.keys() | live.keys(), key=java_order):
        if member_id not in live:
            yield f"member {member_id} in the log, not live"
        elif member_id not in logged:
            yield f"member {member_id} live, not in the log"
        else:
            own, other = logged[member_id], live[member_id]
            for name in MEMBER_FIELDS:
                if name in other and own[name] != other[name]:
                    yield f"member {member_id}: {name} {own[name]} in the log, {other[name]} live"
            if "assignment" in other and not _same_assignment(own, *assigned[member_id], other):
                yield f"member {member_id}: another assignment"


def _same_assignment(
    member: Row, partitions: dict[str, list[int]], unreadable: str | None, live_member: Row
) -> bool:
    """Whether two assignments agree, as far as the log shows: it may lack a topic id's name."""
    if unreadable is not None:
        return True
    live = [text.rpartition(":")[::2] for text in live_member["assignment"]]
    logged = [(topic, str(number)) for topic, numbers in partitions.items() for number in numbers]
    if any(topic["topic"] is None for topic in member.get("current_assignment") or ()):
        return sorted(number for _, number in live) == sorted(number for _, number in logged)
    return sorted(live) == sorted(logged)


def first_differing_record(view: PartitionView, group: str, live: Row) -> EvidenceSource:
    """Return the first record after the last one with the live members, or else the last record."""
    history = view.histories.get(group)
    if history is None or not history.records:
        return LastRecordOf(group)
    members = {member["member_id"] for member in live.get("members", ())}
    index = len(history.records) - 1
    for number in range(len(history.records) - 2, -1, -1):
        state = history.state(number)
        if state is not None and {member["member_id"] for member in state["members"]} == members:
            index = number + 1
            break
    record = history.records.places[index]
    return _record(record.timestamp, record.log_offset, record.file, record.position)


def of_offsets(
    row: Row, live: Row, hidden_topics: Container[str] = ()
) -> Iterator[tuple[Row, EvidenceSource]]:
    if "offsets" not in live:
        return
    logged = {(offset["topic"], offset["partition"]): offset for offset in row["offsets"]}
    live_offsets = {(offset["topic"], offset["partition"]): offset for offset in live["offsets"]}
    for key in sorted(logged.keys() | live_offsets.keys(), key=place_order):
        if key[0] in hidden_topics:
            continue
        own, live_offset = logged.get(key), live_offsets.get(key)
        detail = _difference(own, live_offset)
        if detail is not None:
            live_value = None if live_offset is None else live_offset["offset"]
            yield (
                {
                    **_divergence_row(row["group_id"], detail),
                    "topic": key[0],
                    "partition": key[1],
                    "offset": None if own is None else own["offset"],
                    "previous_offset": live_value,
                },
                CommitAfter((row["group_id"], *key), live_value),
            )


def _difference(logged: Row | None, live: Row | None) -> str | None:
    if live is None:
        return "an offset in the log, none live"
    if logged is None:
        return "an offset live, none in the log" if "offset" in live else None
    for name in OFFSET_FIELDS:
        if name in live and logged[name] != live[name]:
            return f"{name}: {logged[name]!r} in the log, {live[name]!r} live"
    return None


class LastRecordOf(NamedTuple):
    """The evidence is the last record of a group, of any kind."""

    group: str


class CommitAfter(NamedTuple):
    """The evidence is the commit after the last one with this offset (None: a tombstone).

    If no commit has the offset, or none comes after, it is the last commit.
    """

    key: Key
    offset: int | None


EvidenceSource = Row | LastRecordOf | CommitAfter | None


class Evidence:
    """Finds the records to show, in the pieces of a partition's log.

    Parameters
    ----------
    view
        The partition.
    sources
        The evidence to find; rows and None need no search.
    """

    PLACE = ("timestamp", "log_offset", "file", "position")

    def __init__(self, view: PartitionView, sources: Iterable[EvidenceSource]) -> None:
        sources = list(sources)
        self.commits = {
            source.key: source.offset for source in sources if isinstance(source, CommitAfter)
        }
        self.groups = {source.group for source in sources if isinstance(source, LastRecordOf)}
        self.named = {group for group, _, _ in self.commits}
        self.last_of: dict[str, Row] = {}
        self.numbers: dict[Key, int] = {}
        # For each key: is it searched for, and which record fits: a tombstone, or which offset.
        self.targets = Table(
            **dict.fromkeys(("shown", "known", "gone"), (np.bool_, False)), offset=(np.int64, 0)
        )
        places = dict.fromkeys(self.PLACE, (np.int64, 0))
        self.after = Table(
            found=(np.bool_, False), **places
        )  # the record behind the last that fits
        self.last = Table(found=(np.bool_, False), fits=(np.bool_, False), **places)
        self.files: list[str] = []
        if self.commits or self.groups:
            for records in view.pieces({"previous_offset"}):
                self.take(records)

    def take(self, records: RecordColumns) -> None:
        self.files = records.files
        if self.groups:
            self._take_groups(records)
        self._add_keys(records.scan)
        if self.numbers:
            self._take_commits(records)

    def _take_groups(self, records: RecordColumns) -> None:
        rows = np.flatnonzero(records.group >= 0)
        last = np.full(len(records.groups), -1)
        last[records.group[rows]] = rows
        found = np.flatnonzero(last >= 0)
        columns = [column.tolist() for column in self._places(records, last[found]).values()]
        for number, *place in zip(found.tolist(), *columns, strict=True):
            if records.groups[number] in self.groups:
                self.last_of[records.groups[number]] = self._row(place)

    def _add_keys(self, scan: RecordScan) -> None:
        """Find the keys to search for among the new ones."""
        first = self.targets.count
        if scan.key_count == first or not self.commits:
            return
        for table in (self.targets, self.after, self.last):
            table.fit(scan.key_count)
        entries = scan.keys(first)
        named = np.array([group in self.named for group in scan.groups], np.bool_)
        chosen = np.flatnonzero(named[entries["group"]])
        columns = [entries[name][chosen].tolist() for name in ("group", "topic", "partition")]
        for at, group, topic, partition in zip(chosen.tolist(), *columns, strict=True):
            key = scan.groups[group], scan.topics[topic], partition
            if key in self.commits:
                self.numbers[key] = first + at
                for name, value in comparable_offset(self.commits[key]).items():
                    self.targets[name][first + at] = value

    def _take_commits(self, records: RecordColumns) -> None:
        rows = np.flatnonzero(records.effective & self.targets["shown"].take(records.key))
        keys = records.key[rows]
        known, gone, offset = (self.targets[name][keys] for name in ("known", "gone", "offset"))
        fits, follows = (
            known & np.where(gone, removed[rows], committed[rows] & is_offset)
            for removed, committed, is_offset in (
                (records.tombstone, ~records.tombstone, records.offset[rows] == offset),
                (
                    records.after_tombstone,
                    records.previous >= COMMIT,
                    records.previous_offset[rows] == offset,
                ),
            )
        )
        self.last["fits"][keys] = fits
        for table, at in ((self.last, np.arange(len(rows))), (self.after, np.flatnonzero(follows))):
            table["found"][keys[at]] = True
            for name, column in self._places(records, rows[at]).items():
                table[name][keys[at]] = column

    def of(self, source: EvidenceSource) -> Row:
        if isinstance(source, LastRecordOf):
            return self.last_of.get(source.group, {})
        if isinstance(source, CommitAfter):
            number = self.numbers.get(source.key)
            if number is None or not self.last["found"][number]:
                return {}
            lies_after = self.after["found"][number] and not self.last["fits"][number]
            table = self.after if lies_after else self.last
            return self._row([int(table[name][number]) for name in self.PLACE])
        return source or {}

    def _places(self, records: RecordColumns, rows: Array) -> dict[str, Array]:
        places = places_of(records, rows)
        return {name: places[name] for name in self.PLACE}

    def _row(self, place: Sequence[int]) -> Row:
        timestamp, log_offset, file, position = place
        return _record(timestamp, log_offset, self.files[file], position)


def comparable_offset(offset: Any) -> Row:
    """Return which record fits a live offset, which may be any JSON value."""
    is_offset = isinstance(offset, int | float) and -LIMIT <= offset < LIMIT
    known = is_offset and offset == int(offset)
    return {
        "shown": True,
        "known": known or offset is None,
        "gone": offset is None,
        "offset": int(offset) if known else 0,
    }


def _record(timestamp: int, log_offset: int, file: str, position: int) -> Row:
    return {
        "timestamp": None if timestamp < 0 else timestamp,
        "log_offset": log_offset,
        "file": file,
        "position": position,
    }
