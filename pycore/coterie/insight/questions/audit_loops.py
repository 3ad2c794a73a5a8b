"""One finding for a loop: merge the findings of a group that are one story.

A finder gives such rows an equal ``loop``. Rows without one stay as they are. A finder may give
further fields that only the text of the merged row needs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from coterie.insight.groups.causes import client_text, counted
from coterie.insight.groups.flapping import flapping_text
from coterie.insight.groups.members_at import owners_at
from coterie.insight.offsets.commit_findings import (
    AGAIN,
    LARGE_METADATA,
    LOOP,
    NO_PROGRESS,
    REWIND,
    again_and_again,
    in_seconds,
)
from coterie.insight.offsets.log_starts import OUT_OF_RANGE, lost_text
from coterie.insight.offsets.loss_findings import SKIP, removed_text
from coterie.insight.questions.audit_groups import FLAPPING, MEMBERS
from coterie.insight.records.partition_view import PartitionView
from coterie.insight.tables import shortened

NAMED = 3  # findings and partitions in a text
PARTITION = {
    "topic": "string",
    "partition": "int32",
    "count": "int64",
    "lowest_offset": "int64",
    "highest_offset": "int64",
}
FIELDS = {
    "first": "timestamp",  # when it began, and when it was last so
    "last": "timestamp",
    "lowest_offset": "int64",
    "highest_offset": "int64",
    "partitions": [PARTITION],  # the partitions involved
    "members": ["string"],  # ids of the members involved, the last 20; if known
}
Row = dict[str, Any]


def merged(rows: Iterable[Row]) -> list[Row]:
    """Return one row for each loop, and the other rows; in no particular order."""
    loops: dict[Any, list[Row]] = {}
    requests: dict[str, list[Any]] = {}  # of each group, those that set offsets back
    for number, row in enumerate(rows):
        loop = row.pop("loop", number)
        key = row["kind"], row["group_id"], loop
        if row["kind"] == REWIND and loop != AGAIN and key not in loops:
            requests.setdefault(row["group_id"], []).append(key)
        loops.setdefault(key, []).append(row)
    for group, keys in requests.items():
        if len(keys) >= LOOP:  # again and again, if not of the same partition
            again = loops.setdefault((REWIND, group, AGAIN), [])
            for key in keys:
                again += loops.pop(key)
    return [merged_row(of_loop) for of_loop in loops.values()]


def merged_row(rows: list[Row]) -> Row:
    """Return one row for several findings of a kind and a group."""
    rows.sort(key=lambda row: row.get("log_offset") or -1)
    row = {**evidence_of(rows), **bounds_of(rows), "partitions": partitions_of(rows)}
    topics = {place["topic"] for place in row["partitions"]}
    if len(row["partitions"]) > 1:
        row["partition"] = None
        row["topic"] = row["topic"] if len(topics) == 1 else None
    if len(rows) == 1:
        return row
    if any("severity" not in one for one in rows):
        row.pop("severity", None)  # the one of the kind is the highest
    row["count"] = sum(one.get("count", 1) for one in rows)
    clients = [client for one in rows for client in one.get("clients", ())]
    row["clients"] = [client for at, client in enumerate(clients) if client not in clients[:at]]
    members = dict.fromkeys(member for one in rows for member in one.get("members", ()))
    row["members"] = list(members)[-MEMBERS:]
    instances = {one.get("group_instance_id") for one in rows}
    row["group_instance_id"] = instances.pop() if len(instances) == 1 else None
    row["detail"] = TEXTS.get(row["kind"], first_details)(rows, row)
    return row


def evidence_of(rows: list[Row]) -> Row:
    """Return the row whose record shows a loop: the first of the largest metadata, or the last."""
    return max(rows, key=lambda row: row["size"]) if "size" in rows[0] else rows[-1]


def bounds_of(rows: list[Row]) -> Row:
    """Return the first and last time, the bounds of the offsets, and the first record."""
    times = [row.get("timestamp") for row in rows]
    firsts = [row.get("first", at_ms) for row, at_ms in zip(rows, times, strict=True)]
    lasts = [row.get("last", at_ms) for row, at_ms in zip(rows, times, strict=True)]
    return {
        "first": least(firsts),
        "last": greatest(lasts),
        "lowest_offset": least(row.get("lowest_offset") for row in rows),
        "highest_offset": greatest(row.get("highest_offset") for row in rows),
        "previous_log_offset": least(row.get("previous_log_offset") for row in rows),
    }


def least(values: Iterable[int | None]) -> int | None:
    """Return the least of the known values; None: none is known."""
    return min((value for value in values if value is not None), default=None)


def greatest(values: Iterable[int | None]) -> int | None:
    """Return the greatest of the known values; None: none is known."""
    return max((value for value in values if value is not None), default=None)


def partitions_of(rows: Iterable[Row]) -> list[Row]:
    """Return what is known of each partition, by topic and number."""
    by_place: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        if row.get("partitions"):
            for place in row["partitions"]:
                by_place.setdefault((place["topic"], place["partition"]), []).append(place)
        elif row.get("topic") is not None and row.get("partition") is not None:
            by_place.setdefault((row["topic"], row["partition"]), []).append(row)
    return [
        {
            "topic": topic,
            "partition": partition,
            "count": sum(row.get("count", 1) for row in of_place),
            "lowest_offset": least(row.get("lowest_offset") for row in of_place),
            "highest_offset": greatest(row.get("highest_offset") for row in of_place),
        }
        for (topic, partition), of_place in sorted(by_place.items())
    ]


def rewinds_text(rows: list[Row], row: Row) -> str:
    places = places_text(row["partitions"])
    moved = sum(one["moved"] for one in rows)
    requests = {(one["file"], one["position"]) for one in rows}
    if len(requests) > 1 or row["count"] > len(rows):
        return f"{places} {again_and_again(row | {'moved': moved})}"
    how = removal_before(rows, "further back") or "set back at once"
    return f"{places} {how}, by {counted(moved, 'offset')} together: {changes_text(rows)}"


def skips_text(rows: list[Row], row: Row) -> str:
    """Return the skips of several partitions by one request as text."""
    passed = counted(sum(one["moved"] for one in rows), "record")
    how = removal_before(rows, "further on") or f"set forward at once, {rows[0]['why']}"
    doubt = max(one.get("doubt", "") for one in rows)
    back = "; set back later" if any(one["highest_offset"] < one["offset"] for one in rows) else ""
    return (
        f"{places_text(row['partitions'])} {how}: about {passed} never committed: "
        f"{changes_text(rows, 'lowest_offset', 'highest_offset')}{back}{doubt}"
    )


def removal_before(rows: list[Row], where: str) -> str:
    """Return the removal before a request, and where it resumed, as text; empty: there is none."""
    if "removed_ms" not in rows[0]:
        return ""
    return f"{removed_text(one['removed_ms'] for one in rows)}, resumed {where}"


def changes_text(rows: list[Row], start: str = "previous_offset", stop: str = "offset") -> str:
    """Return two offsets of the first partitions: by default before and after the change."""
    changes = [
        f"{shortened(one['topic'])}-{one['partition']} {one[start]} to {one[stop]}"
        for one in sorted(rows, key=lambda one: (one["topic"], one["partition"]))[:NAMED]
    ]
    more = [f"{len(rows) - NAMED} more"] if len(rows) > NAMED else []
    return ", ".join([*changes, *more])


def out_of_range_text(rows: list[Row], row: Row) -> str:
    """Return the commits below the log start offset of several partitions as text."""
    lost = lost_text(sum(one["log_start"] - one["offset"] for one in rows))
    commits = [
        f"{shortened(one['topic'])}-{one['partition']} committed {one['offset']}, "
        f"starts at {one['log_start']}"
        for one in sorted(rows, key=lambda one: int(one["partition"]))[:NAMED]
    ]
    more = [f"{len(rows) - NAMED} more"] if len(rows) > NAMED else []
    return f"{places_text(row['partitions'])}: {lost}: {'; '.join([*commits, *more])}"


def no_progress_text(rows: list[Row], row: Row) -> str:
    fewest, most = min(one["fewest"] for one in rows), max(one["most"] for one in rows)
    in_a_row = f"{fewest} to {most}" if fewest < most else f"{most}"
    return (
        f"{places_text(row['partitions'])}: {in_a_row} commits of one offset in a row"
        f"{in_seconds(row['first'], row['last'])}"
    )


def metadata_text(rows: list[Row], row: Row) -> str:
    return (
        f"{max(one['size'] for one in rows)} bytes of metadata in the largest of {row['count']}, "
        f"{places_text(row['partitions'])}"
    )


def places_text(places: list[Row]) -> str:
    """Return partitions as text: their topics, and how many there are of each."""
    topics: dict[str, list[int]] = {}
    for place in places:
        topics.setdefault(place["topic"], []).append(place["partition"])
    texts = [
        f"{shortened(topic)}-{numbers[0]}"
        if len(numbers) == 1
        else f"{counted(len(numbers), 'partition')} of {shortened(topic)}"
        for topic, numbers in list(topics.items())[:NAMED]
    ]
    if len(topics) > NAMED:
        left = sum(map(len, list(topics.values())[NAMED:]))
        texts.append(f"{counted(left, 'partition')} of {len(topics) - NAMED} more topics")
    return ", ".join(texts)


def first_details(rows: list[Row], row: Row) -> str:
    """Return the first texts of several findings, and how many more there are."""
    more = [f"{len(rows) - NAMED} more"] if len(rows) > NAMED else []
    return "; ".join([*(one["detail"] for one in rows[:NAMED]), *more])


TEXTS: Mapping[str, Callable[[list[Row], Row], str]] = {
    REWIND: rewinds_text,
    SKIP: skips_text,
    OUT_OF_RANGE: out_of_range_text,
    NO_PROGRESS: no_progress_text,
    LARGE_METADATA: metadata_text,
    FLAPPING: lambda rows, row: flapping_text(
        [one["client"] for one in rows],
        row["count"],
        [period for one in rows for period in one["periods"]],
    ),
}


def add_owners(view: PartitionView, rows: Iterable[Row]) -> None:
    """Add the members that owned the partitions of a finding at its record, and their clients."""
    for row in rows:
        if row.get("clients") or row.get("log_offset") is None or not row["partitions"]:
            continue
        places = ((place["topic"], place["partition"]) for place in row["partitions"])
        owners = owners_at(view, row["group_id"], row["log_offset"], places)
        row["members"] = [member["member_id"] for member in owners][-MEMBERS:]
        clients = dict.fromkeys((one["client_id"], one["client_host"]) for one in owners)
        row["clients"] = [
            {"client_id": client_id, "client_host": host, "topics": None}
            for client_id, host in clients
        ]
        if row.get("count", 1) > 1 and clients:
            row["detail"] += f"; {clients_text(list(clients))}"


def clients_text(clients: list[tuple[str | None, str | None]]) -> str:
    names = [client_text(name, host) for name, host in clients]
    more = [f"{len(names) - NAMED} more clients"] if len(names) > NAMED else []
    return f"owned by {', '.join([*names[:NAMED], *more])}"
