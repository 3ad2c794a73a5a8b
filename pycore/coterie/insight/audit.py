"""What looks wrong in a log: each finding with the record that shows it.

Findings about commits are numpy over all of them; those about groups go through their metadata
records. A live state to compare with is another matter: ``coterie.insight.divergence``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from coterie.insight.commits import COMMITTED, Array, Commits
from coterie.insight.divergence import Live, divergences
from coterie.insight.facts import Life, PartitionFacts
from coterie.insight.keys import by_key
from coterie.ordering import java_order
from coterie.state.newer import TYPE_OF

NAME = "audit"
FIELDS = {
    "kind": "string",  # of KINDS
    "group_id": "string",
    "offsets_partition": "int32",
    "topic": "string",
    "partition": "int32",
    "detail": "string",  # what was found, in words
    "count": "int64",  # records that show it
    "offset": "int64",  # committed by the record
    "previous_offset": "int64",  # committed before it, or by the live state
    "group_instance_id": "string",
    "timestamp": "timestamp",
    "log_offset": "int64",  # the record that shows it, and where it lies
    "file": "string",
    "position": "int64",
    "previous_log_offset": "int64",  # the record before it, or the first of several
}
KINDS = {
    "rewind": "a commit that goes back behind the one before it",
    "no_progress": "the same offset committed again and again",
    "large_metadata": "commits that carry much metadata",
    "generation_gap": "generations that no record tells of, or that go back",
    "static_fight": "a static member's id taken over again and again",
    "protocols": "one group id, several protocols",
    "divergence": "a live state that is not the log's",
}
REWIND, NO_PROGRESS, LARGE_METADATA, GENERATION_GAP, STATIC_FIGHT, PROTOCOLS, DIVERGENCE = KINDS
NEW_PROTOCOL = "(new protocol)"
Row = dict[str, Any]


@dataclass(frozen=True)
class Ask:
    """What to look for, and from what on it counts.

    Attributes
    ----------
    only : tuple of str
        Kinds to look for; empty: all.
    rewind_by : int
        A rewind goes back by so much at least.
    no_progress : int
        So many commits of one offset, one after another, are a finding.
    metadata_bytes : int
        Metadata of more bytes is large (a broker refuses more than 4096 by default).
    takeovers, window_ms : int
        A static id is fought over if it is taken over so many times within so many ms.
    live : Live or None
        The state to compare with.
    """

    only: tuple[str, ...] = ()
    rewind_by: int = 1
    no_progress: int = 10
    metadata_bytes: int = 1024
    takeovers: int = 3
    window_ms: int = 600_000
    live: Live | None = None


def rows(facts: PartitionFacts, ask: Ask) -> Iterator[Row]:
    """Yield one row a finding, by group as Java sorts them, kind, and place in the log."""
    found: list[Row] = []
    if any(wanted(ask, kind) for kind in (REWIND, NO_PROGRESS, LARGE_METADATA)):
        found += commit_findings(facts, ask)
    if any(wanted(ask, kind) for kind in (GENERATION_GAP, STATIC_FIGHT, PROTOCOLS)):
        found += group_findings(facts, ask)
    if ask.live is not None and wanted(ask, DIVERGENCE):
        found += divergences(facts, ask.live)
    order = {kind: number for number, kind in enumerate(KINDS)}
    found.sort(
        key=lambda row: (java_order(row["group_id"]), order[row["kind"]], row.get("log_offset", -1))
    )
    for row in found:
        yield dict.fromkeys(FIELDS) | {"offsets_partition": facts.number, "count": 1} | row


def wanted(ask: Ask, kind: str) -> bool:
    """Whether a kind is looked for."""
    return not ask.only or kind in ask.only


def evidence(commits: Commits, row: int) -> Row:
    """Return the fields that name a record of a commit."""
    time = int(commits.timestamp[row])
    return {
        "group_id": commits.groups[commits.group[row]],
        "topic": commits.topics[commits.topic[row]],
        "partition": int(commits.partition[row]),
        "offset": int(commits.offset[row]),
        "timestamp": None if time < 0 else time,
        "log_offset": int(commits.log_offset[row]),
        "file": commits.files[commits.file[row]],
        "position": int(commits.position[row]),
    }


def commit_findings(facts: PartitionFacts, ask: Ask) -> Iterator[Row]:
    """Yield what the commits of each partition of a topic show, in log order."""
    commits = facts.commits
    held = by_key(commits, np.flatnonzero(commits.outcome == COMMITTED))
    gone = commits.tombstone[held.order]
    # A tombstone ends what was before it: the next commit follows on nothing.
    fresh = held.first | gone | np.append(True, gone[:-1])[: len(gone)]
    offset = commits.offset[held.order]
    change = np.diff(offset, prepend=offset[:1])
    if wanted(ask, REWIND):
        yield from rewinds(commits, held.order, np.flatnonzero(~fresh & (change <= -ask.rewind_by)))
    if wanted(ask, NO_PROGRESS):
        yield from standstills(commits, held.order, fresh | (change != 0), gone, ask.no_progress)
    if wanted(ask, LARGE_METADATA):
        yield from large_metadata(commits, ask.metadata_bytes)


def rewinds(commits: Commits, order: Array, at: Array) -> Iterator[Row]:
    """Yield each commit that goes back."""
    for place in at.tolist():
        row, before = int(order[place]), int(order[place - 1])
        was, now = int(commits.offset[before]), int(commits.offset[row])
        yield evidence(commits, row) | {
            "kind": REWIND,
            "detail": f"from {was} back to {now}, by {was - now}",
            "previous_offset": was,
            "previous_log_offset": int(commits.log_offset[before]),
        }


def standstills(
    commits: Commits, order: Array, begins: Array, gone: Array, fewest: int
) -> Iterator[Row]:
    """Yield each run of commits of one offset that is long enough."""
    starts = np.flatnonzero(begins)
    lengths = np.diff(np.append(starts, len(order)))
    for which in np.flatnonzero((lengths >= fewest) & ~gone[starts]).tolist():
        first, count = int(order[starts[which]]), int(lengths[which])
        last = int(order[starts[which] + count - 1])
        passed = int(commits.timestamp[last] - commits.timestamp[first])
        yield evidence(commits, last) | {
            "kind": NO_PROGRESS,
            "detail": f"{count} commits of offset {int(commits.offset[last])} in {passed} ms",
            "count": count,
            "previous_offset": int(commits.offset[first]),
            "previous_log_offset": int(commits.log_offset[first]),
        }


def large_metadata(commits: Commits, limit: int) -> Iterator[Row]:
    """Yield one row a partition that has commits with more metadata: the largest of them."""
    sizes = commits.metadata_size
    for run in by_key(commits, np.flatnonzero(sizes > limit)).runs():
        largest = int(run[np.argmax(sizes[run])])
        yield evidence(commits, largest) | {
            "kind": LARGE_METADATA,
            "detail": f"{int(sizes[largest])} bytes of metadata in the largest of {len(run)}",
            "count": len(run),
            "previous_log_offset": int(commits.log_offset[run[0]]),
        }


def group_findings(facts: PartitionFacts, ask: Ask) -> Iterator[Row]:
    """Yield what the metadata records of each group show."""
    for life in facts.lives.values():
        if wanted(ask, GENERATION_GAP):
            yield from generation_gaps(life, facts.trusted_from_ms)
        if wanted(ask, STATIC_FIGHT):
            yield from static_fights(life, ask)
    if wanted(ask, PROTOCOLS):
        yield from several_protocols(facts)


def time_of(row: Row) -> int | None:
    """Return a metadata record's own timestamp; None: it has none (message format 0)."""
    time: int | None = row["timestamp"]
    return None if time is None or time < 0 else time


def record_of(row: Row, before: Row | None = None) -> Row:
    """Return the fields that name a metadata record, and the one before."""
    return {
        "timestamp": time_of(row),
        "log_offset": row["log_offset"],
        "file": row["file"],
        "position": row["position"],
        "previous_log_offset": None if before is None else before["log_offset"],
    }


def generation_gaps(life: Life, trusted_from_ms: int | None) -> Iterator[Row]:
    """Yield where generations are missing between two records, or go back.

    Where the log was compacted, a record may be gone: what lies before says nothing.
    """
    for before, row in pairwise(life.generations):
        if row["tombstone"] or before["tombstone"]:
            continue
        if trusted_from_ms is not None and (time_of(before) or 0) < trusted_from_ms:
            continue
        was, now = before["generation"], row["generation"]
        if was <= now <= was + 1:
            continue
        told = f"from generation {was} back to {now}"
        if now > was:
            first, last = was + 1, now - 1
            told = f"generation {first} has no record"
            if last > first:
                told = f"generations {first} to {last} have no record"
        yield {
            "kind": GENERATION_GAP,
            "group_id": life.group,
            "detail": told,
            "count": abs(now - was - 1),
            **record_of(row, before),
        }


def static_fights(life: Life, ask: Ask) -> Iterator[Row]:
    """Yield each static id that is taken over too often: the takeover that makes it so."""
    taken: dict[str, list[tuple[Row, str]]] = {}
    for row in life.generations:
        for instance, _, new in row["replaced"]:
            taken.setdefault(instance, []).append((row, new))
    for instance, takeovers in taken.items():
        times = [time_of(row) or 0 for row, _ in takeovers]
        spans = [
            index
            for index in range(ask.takeovers - 1, len(times))
            if times[index] - times[index - ask.takeovers + 1] <= ask.window_ms
        ]
        if not spans:
            continue
        row, first = takeovers[spans[0]][0], takeovers[spans[0] - ask.takeovers + 1][0]
        clients = {
            f"{client.client_id} {client.client_host}"
            for _, member in takeovers
            if (client := life.clients.get(member)) is not None
        }
        yield {
            "kind": STATIC_FIGHT,
            "group_id": life.group,
            "detail": f"{instance} taken over {len(takeovers)} times: {', '.join(sorted(clients))}",
            "count": len(takeovers),
            "group_instance_id": instance,
            **record_of(row, first),
        }


def several_protocols(facts: PartitionFacts) -> Iterator[Row]:
    """Yield each group whose records name several protocols: the first that is another.

    A classic group that was deleted and came back as one begins anew.
    """
    told: dict[str, list[tuple[str | None, Row]]] = {}
    for life in facts.lives.values():
        for row in life.generations:
            if row["tombstone"] or row["protocol"] is not None:
                name = None if row["tombstone"] else f"{row['protocol_type']}/{row['protocol']}"
                told.setdefault(life.group, []).append((name, row))
    for record in facts.newer_records:
        kind = TYPE_OF.get(record.version)
        if kind is not None and record.value is not None:
            name = f"{kind} {NEW_PROTOCOL}"
            told.setdefault(record.group, []).append((name, record._asdict()))
    for group, seen in told.items():
        yield from _protocols_of(group, sorted(seen, key=lambda one: one[1]["log_offset"]))


def _protocols_of(group: str, seen: list[tuple[str | None, Row]]) -> Iterator[Row]:
    names: list[str] = []
    deleted = False
    other = before = None
    for name, row in seen:
        if name is None:
            deleted = True
            continue
        if deleted and not name.endswith(NEW_PROTOCOL) and len(names) < 2:
            names, before = [], None
        deleted = False
        if name not in names:
            names.append(name)
            if len(names) == 2:
                other = record_of(row, before)
        before = row
    if other is not None:
        told = ", then ".join(names)
        yield {"kind": PROTOCOLS, "group_id": group, "detail": told, "count": len(names), **other}
