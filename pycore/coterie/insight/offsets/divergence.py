"""Where a live state is not what the log says, and the first record from which on it is so.

The live state is what the Admin client told (``describeConsumerGroups`` and
``listConsumerGroupOffsets``), as JSON: see :func:`read_live`. A group of the log that the Admin
client does not list (another protocol type, share, streams) is not looked for there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from coterie._core.codec.checksum import partition_for
from coterie._core.fold.record_scan import RecordScan
from coterie.errors import CoterieError
from coterie.insight.offsets.commit_findings import places_of
from coterie.insight.records.key_index import Key, Table
from coterie.insight.records.partition_view import PartitionView
from coterie.insight.records.record_columns import COMMIT, TOMBSTONE, Array, RecordColumns
from coterie.ordering import java_order, place_order
from coterie.state.assignments import assignments
from coterie.user_files import FileTooLarge, read_text

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
        What was told of each group, by id.
    partition_count : int or None
        Of the offsets topic, if the log has all of them: then a group without any record is one
        that the log should have. None: not known.
    """

    groups: dict[str, Row]
    partition_count: int | None = None


def read_live(path: str | os.PathLike[str]) -> dict[str, Row]:
    """Read ``{"groups": [{"group_id", "state", "protocol", "members", "offsets"}]}``.

    Members have ``member_id``, ``group_instance_id``, ``client_id``, ``client_host`` and
    ``assignment`` (``"topic:partition"``), offsets ``topic``, ``partition``, ``offset``,
    ``leader_epoch`` and ``metadata``. A field that is absent is not compared.

    Raises
    ------
    CoterieError
        It cannot be read, or is not that.
    """
    name = os.fspath(path)
    try:
        told = json.loads(read_text(name))
    except OSError as error:
        raise CoterieError(f"{name}: cannot be read: {error.strerror}") from error
    except FileTooLarge as error:
        raise CoterieError(f"{name}: {error}") from None
    except ValueError as error:
        raise CoterieError(f"{name}: not JSON: {error}") from error
    groups = told.get("groups") if isinstance(told, dict) else None
    if not isinstance(groups, list):
        raise CoterieError(f'{name}: no live state: {{"groups": [...]}} is wanted')
    found: dict[str, Row] = {}
    for number, group in enumerate(groups):
        if problem := _wrong(group):
            raise CoterieError(f"{name}: group {number}: {problem}")
        found[group["group_id"]] = group
    return found


def _wrong(group: Any) -> str | None:
    """Return what makes it no group; None: nothing."""
    if not isinstance(group, dict) or not isinstance(group.get("group_id"), str):
        return 'an object with "group_id" is wanted'
    wanted = {"members": ("member_id",), "offsets": ("topic", "partition", "offset")}
    for name, fields in wanted.items():
        rows = group.get(name, [])
        if not isinstance(rows, list):
            return f"{name} must be a list"
        for row in rows:
            if not isinstance(row, dict) or any(field not in row for field in fields):
                return f"one of its {name} lacks {' or '.join(fields)}"
    return None


def divergences(view: PartitionView, live: Live) -> Iterator[Row]:
    """Yield each difference, with the first record that the live state does not follow."""
    found = list(_differences(view, live))
    evidence = Evidence(view, [shown_by for _, shown_by in found])
    for row, shown_by in found:
        yield row | evidence.of(shown_by)


def _differences(view: PartitionView, live: Live) -> Iterator[tuple[Row, ShownBy]]:
    """Yield each difference, and which record to show of it."""
    for group, row in view.group_rows.items():
        if group in live.groups:
            yield from of_group(view, row, live.groups[group])
            yield from of_offsets(row, live.groups[group])
        elif row["type"] in ("classic", "consumer") and row["protocol_type"] in (None, "consumer"):
            yield _found(group, "in the log, not in the live state"), LastOf(group)
    if live.partition_count is None:
        return
    for group in sorted(live.groups.keys() - view.group_rows.keys(), key=java_order):
        here = partition_for(group, live.partition_count) == view.number
        asked = view.groups is None or group in view.groups
        if here and asked:
            state = live.groups[group].get("state", "there")
            yield _found(group, f"live and {state}, the log has no record of it"), None


def _found(group: str, detail: str) -> Row:
    return {"kind": DIVERGENCE, "group_id": group, "detail": detail}


def of_group(view: PartitionView, row: Row, live: Row) -> Iterator[tuple[Row, ShownBy]]:
    """Yield what differs in state, protocol and members."""
    group = row["group_id"]
    if "describe_error" in live:
        return
    told = [
        f"{name}: {ours or 'none'} in the log, {theirs or 'none'} live"
        for name, ours, theirs in (
            ("type", row["type"], str(live.get("type", row["type"])).lower()),
            ("state", row["state"], live.get("state", row["state"])),
        )
        if ours != theirs
    ]
    if (
        not told
        and row["state"] == "Stable"
        and (row["protocol"] or "") != live.get("protocol", row["protocol"] or "")
    ):
        told.append(f"protocol: {row['protocol']} in the log, {live['protocol']} live")
    if "members" in live:
        told += _members(row, {member["member_id"]: member for member in live["members"]})
    if told:
        shown_by = first_differing_record(view, group, live)
        for detail in told:
            yield _found(group, detail), shown_by


def _members(row: Row, live: dict[str, Row]) -> Iterator[str]:
    ours = {member["member_id"]: member for member in row["members"]}
    held = assignments(row)
    for member_id in sorted(ours.keys() | live.keys(), key=java_order):
        if member_id not in live:
            yield f"member {member_id} in the log, not live"
        elif member_id not in ours:
            yield f"member {member_id} live, not in the log"
        else:
            mine, theirs = ours[member_id], live[member_id]
            for name in MEMBER_FIELDS:
                if name in theirs and mine[name] != theirs[name]:
                    yield f"member {member_id}: {name} {mine[name]} in the log, {theirs[name]} live"
            if "assignment" in theirs and not _same_assignment(mine, *held[member_id], theirs):
                yield f"member {member_id}: another assignment"


def _same_assignment(
    mine: Row, partitions: dict[str, list[int]], unreadable: str | None, theirs: Row
) -> bool:
    """Whether two assignments agree as far as the log tells: it may not name a topic's id."""
    if unreadable is not None:
        return True
    told = [text.rpartition(":")[::2] for text in theirs["assignment"]]
    held = [(topic, str(number)) for topic, numbers in partitions.items() for number in numbers]
    if any(topic["topic"] is None for topic in mine.get("current_assignment") or ()):
        return sorted(number for _, number in told) == sorted(number for _, number in held)
    return sorted(told) == sorted(held)


def first_differing_record(view: PartitionView, group: str, live: Row) -> ShownBy:
    """Return the metadata record after the last one that gives the live members; else the last."""
    life = view.lives.get(group)
    if life is None or not life.records:
        return LastOf(group)
    members = {member["member_id"] for member in live.get("members", ())}
    index = len(life.records) - 1
    for number in range(len(life.records) - 2, -1, -1):
        state = life.state(number)
        if state is not None and {member["member_id"] for member in state["members"]} == members:
            index = number + 1
            break
    record = life.records.places[index]
    return _record(record.timestamp, record.log_offset, record.file, record.position)


def of_offsets(row: Row, live: Row) -> Iterator[tuple[Row, ShownBy]]:
    """Yield each partition of a topic whose offset differs."""
    if "offsets" not in live:
        return
    ours = {(one["topic"], one["partition"]): one for one in row["offsets"]}
    theirs = {(one["topic"], one["partition"]): one for one in live["offsets"]}
    for key in sorted(ours.keys() | theirs.keys(), key=place_order):
        mine, told = ours.get(key), theirs.get(key)
        detail = _difference(mine, told)
        if detail is not None:
            known = None if told is None else told["offset"]
            yield (
                {
                    **_found(row["group_id"], detail),
                    "topic": key[0],
                    "partition": key[1],
                    "offset": None if mine is None else mine["offset"],
                    "previous_offset": known,
                },
                CommitAfter((row["group_id"], *key), known),
            )


def _difference(mine: Row | None, told: Row | None) -> str | None:
    if told is None:
        return "an offset in the log, none live"
    if mine is None:
        return "an offset live, none in the log"
    for name in OFFSET_FIELDS:
        if name in told and mine[name] != told[name]:
            return f"{name}: {mine[name]!r} in the log, {told[name]!r} live"
    return None


class LastOf(NamedTuple):
    """To show: the last record of a group, of any kind."""

    group: str


class CommitAfter(NamedTuple):
    """To show: the commit after the last one of an offset, or of no offset (a tombstone).

    Where no commit is of it, or none comes after, the last one.
    """

    key: Key
    offset: int | None


ShownBy = Row | LastOf | CommitAfter | None


class Evidence:
    """Finds the records to show, while the pieces of a log go by.

    Parameters
    ----------
    view
        The partition.
    wanted
        What to find; what is found already, or None, is left alone.
    """

    PLACE = ("timestamp", "log_offset", "file", "position")

    def __init__(self, view: PartitionView, wanted: Iterable[ShownBy]) -> None:
        wanted = list(wanted)
        self.commits = {one.key: one.offset for one in wanted if isinstance(one, CommitAfter)}
        self.groups = {one.group for one in wanted if isinstance(one, LastOf)}
        self.named = {group for group, _, _ in self.commits}
        self.last_of: dict[str, Row] = {}
        self.numbers: dict[Key, int] = {}
        # Of each key: is it shown, and does any record fit: a tombstone, or one of which offset.
        self.asked = Table(
            **dict.fromkeys(("shown", "known", "gone"), (np.bool_, False)), offset=(np.int64, 0)
        )
        places = dict.fromkeys(self.PLACE, (np.int64, 0))
        self.after = Table(
            there=(np.bool_, False), **places
        )  # the record behind the last that fits
        self.last = Table(there=(np.bool_, False), fits=(np.bool_, False), **places)
        self.files: list[str] = []
        if self.commits or self.groups:
            for records in view.pieces({"previous_offset"}):
                self.take(records)

    def take(self, records: RecordColumns) -> None:
        """Look through the next piece."""
        self.files = records.files
        if self.groups:
            self._take_groups(records)
        self._note_keys(records.scan)
        if self.numbers:
            self._take_commits(records)

    def _take_groups(self, records: RecordColumns) -> None:
        rows = np.flatnonzero(records.group >= 0)
        last = np.full(len(records.groups), -1)
        last[records.group[rows]] = rows
        there = np.flatnonzero(last >= 0)
        columns = [column.tolist() for column in self._places(records, last[there]).values()]
        for number, *place in zip(there.tolist(), *columns, strict=True):
            if records.groups[number] in self.groups:
                self.last_of[records.groups[number]] = self._row(place)

    def _note_keys(self, scan: RecordScan) -> None:
        """Find the keys to show among those that are new."""
        first = self.asked.count
        if scan.key_count == first or not self.commits:
            return
        for table in (self.asked, self.after, self.last):
            table.fit(scan.key_count)
        entries = scan.keys(first)
        named = np.array([group in self.named for group in scan.groups], np.bool_)
        chosen = np.flatnonzero(named[entries["group"]])
        columns = [entries[name][chosen].tolist() for name in ("group", "topic", "partition")]
        for at, group, topic, partition in zip(chosen.tolist(), *columns, strict=True):
            key = scan.groups[group], scan.topics[topic], partition
            if key in self.commits:
                self.numbers[key] = first + at
                for name, value in asked_of(self.commits[key]).items():
                    self.asked[name][first + at] = value

    def _take_commits(self, records: RecordColumns) -> None:
        rows = np.flatnonzero(records.counting & self.asked["shown"].take(records.key))
        keys = records.key[rows]
        known, gone, offset = (self.asked[name][keys] for name in ("known", "gone", "offset"))
        fits, follows = (
            known & np.where(gone, kind[rows] == TOMBSTONE, (kind[rows] == COMMIT) & told)
            for kind, told in (
                (np.where(records.tombstone, TOMBSTONE, COMMIT), records.offset[rows] == offset),
                (records.previous, records.previous_offset[rows] == offset),
            )
        )
        self.last["fits"][keys] = fits
        for table, at in ((self.last, np.arange(len(rows))), (self.after, np.flatnonzero(follows))):
            table["there"][keys[at]] = True
            for name, column in self._places(records, rows[at]).items():
                table[name][keys[at]] = column

    def of(self, wanted: ShownBy) -> Row:
        """Return the fields of the record to show."""
        if isinstance(wanted, LastOf):
            return self.last_of.get(wanted.group, {})
        if isinstance(wanted, CommitAfter):
            at = self.numbers.get(wanted.key)
            if at is None or not self.last["there"][at]:
                return {}
            lies_after = self.after["there"][at] and not self.last["fits"][at]
            table = self.after if lies_after else self.last
            return self._row([int(table[name][at]) for name in self.PLACE])
        return wanted or {}

    def _places(self, records: RecordColumns, rows: Array) -> dict[str, Array]:
        places = places_of(records, rows)
        return {name: places[name] for name in self.PLACE}

    def _row(self, place: Sequence[int]) -> Row:
        timestamp, log_offset, file, position = place
        return _record(timestamp, log_offset, self.files[file], position)


def asked_of(offset: Any) -> Row:
    """Return which record of a key fits a live offset, which may be whatever JSON can hold."""
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
