"""The life of a group as a timeline: generations with their causes, commits between, who flaps.

Rows of a group stand in order of the log, then what sums it up: ``flapping``, ``client`` (those
that cause most rebalances first), ``summary``. What the records do not tell is said so, or told by
a broker's logs (``brokerlog``).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from coterie.insight import brokerlog, causes, epochs, flapping
from coterie.insight.commits import ABORTED, PENDING, Array, Commits
from coterie.insight.facts import Life, PartitionFacts
from coterie.insight.timeline import DELETED, EMPTY, GENERATION, timeline

NAME = "explain"
FIELDS = {
    "group_id": "string",
    "offsets_partition": "int32",
    "event": "string",  # of EVENTS
    "timestamp": "timestamp",  # of the record; the first of several; null: it has none
    "until": "timestamp",  # the last of several; when a time without members ended
    "log_offset": "int64",
    "generation": "int32",  # of newer groups: the epoch
    "previous_generation": "int32",
    "member_count": "int32",
    "protocol": "string",
    "leader": "string",
    "cause": "string",  # in words
    "causes": [causes.CAUSE],
    "reason": "string",  # the coordinator's own, from its log
    "count": "int64",  # commits; joins and leaves; rebalances
    "duration_ms": "int64",  # without an assignment: at least, unless duration_source says whose
    "duration_source": "string",
    "file": "string",
    "position": "int64",
}
EVENTS = (
    *(GENERATION, "static_replacement", "rewritten", EMPTY, DELETED),
    *("commits", "epoch", "flapping", "client", "summary"),
)
COMMITS = "commits"
REBALANCES = (GENERATION, EMPTY, "epoch")
CAUSES_IN_WORDS = 3
Row = dict[str, Any]


@dataclass(frozen=True)
class Ask:
    """What counts as flapping, and what a broker's logs say (``brokerlog.Told``)."""

    flap_count: int = 4
    flap_window_ms: int = 600_000
    told: tuple[brokerlog.Told, ...] = ()


def rows(facts: PartitionFacts, ask: Ask) -> Iterator[Row]:
    """Yield the rows of each group, groups in Java's order of their ids."""
    spans = commits_by_group(facts.commits)
    told: dict[str, list[brokerlog.Told]] = {}
    for one in ask.told:
        told.setdefault(one.group, []).append(one)
    newer = epochs.by_group(facts.newer_records)
    for group in facts.group_ids:
        life = facts.lives.get(group)
        events = [] if life is None else timeline(life)
        if group in told:
            brokerlog.Index(told[group]).tell(events)
            for row in events:
                row["cause"] = row["cause"] if not row["causes"] else in_words(row)
        events += epochs.timeline(newer.get(group, []))
        among = with_commits(events, facts.commits, spans.get(group))
        whole = [*among, *sum_up(among, life, ask)]
        for row in whole:
            yield {name: row.get(name) for name in FIELDS} | {
                "group_id": group,
                "offsets_partition": facts.number,
                "causes": row.get("causes", []),
            }


def in_words(row: Row) -> str:
    """Return a row's causes in words, once a log has told more of them."""
    text = causes.in_words(row["causes"], CAUSES_IN_WORDS)
    return f"{text}; no members" if row["event"] == EMPTY else text


def commits_by_group(commits: Commits) -> dict[str, Array]:
    """Return the rows of each group's commits, in log order."""
    order = np.argsort(commits.group, kind="stable")
    numbers, starts = np.unique(commits.group[order], return_index=True)
    parts = np.split(order, starts[1:]) if len(numbers) else []
    return {commits.groups[number]: part for number, part in zip(numbers, parts, strict=True)}


def with_commits(events: list[Row], commits: Commits, theirs: Array | None) -> list[Row]:
    """Return events in order of the log, with the commits between them as one row each time."""
    events = sorted(events, key=lambda row: int(row["log_offset"]))
    if theirs is None:
        return events
    places = np.searchsorted(
        [row["log_offset"] for row in events], commits.log_offset[theirs], side="left"
    )
    found: list[Row] = []
    for number in range(len(events) + 1):
        part = theirs[places == number]
        if len(part):
            found.append(commit_row(commits, part))
        if number < len(events):
            found.append(events[number])
    return found


def commit_row(commits: Commits, part: Array) -> Row:
    """Return a row that counts neighbouring commits of a group."""
    times = commits.timestamp[part]
    times = times[times >= 0]
    gone = commits.tombstone[part]
    places = np.unique(np.stack([commits.topic[part], commits.partition[part]]), axis=1)
    count = int(np.count_nonzero(~gone))
    topics = sorted(commits.topics[number] for number in np.unique(commits.topic[part]))
    named = ", ".join(topics[:3]) + (f" and {len(topics) - 3} more" if len(topics) > 3 else "")
    to = f"{causes.counted(count, 'commit')} to {causes.counted(places.shape[1], 'partition')}"
    text = [f"{to} of {named}"] if count else []
    for outcome, word in ((ABORTED, "aborted"), (PENDING, "pending")):
        number = int(np.count_nonzero(commits.outcome[part] == outcome))
        text += [f"{number} {word}"] if number else []
    if gone.any():
        number = int(np.count_nonzero(gone))
        text.append(f"{causes.counted(number, 'offset')} deleted or expired")
    return {
        "event": COMMITS,
        "timestamp": int(times.min()) if len(times) else None,
        "until": int(times.max()) if len(times) else None,
        "log_offset": int(commits.log_offset[part[0]]),
        "cause": "; ".join(text),
        "count": count,
        "file": commits.files[int(commits.file[part[0]])],
        "position": int(commits.position[part[0]]),
    }


def sum_up(rows: list[Row], life: Life | None, ask: Ask) -> Iterator[Row]:
    """Yield who flaps, who causes rebalances, and the group's life in one line."""
    moves = flapping.moves_of(rows)
    yield from flapping.flaps(moves, ask.flap_count, ask.flap_window_ms)
    yield from flapping.clients(moves)
    rebalances = [row for row in rows if row["event"] in REBALANCES and row["generation"]]
    times = [row[name] for row in rows for name in ("timestamp", "until") if row.get(name)]
    waited = [row.get("duration_ms") for row in rows if row["event"] == GENERATION]
    known = [ms for ms in waited if ms is not None]
    sure = [row for row in rows if row.get("duration_source")]
    empty = [row for row in rows if row["event"] == EMPTY]
    yield {
        "event": "summary",
        "timestamp": min(times, default=None),
        "until": max(times, default=None),
        "count": len(rebalances),
        "duration_ms": sum(known) if known else None,
        "duration_source": brokerlog.SERVER if known and len(sure) == len(known) else None,
        "cause": summary_text(rows, len(rebalances), empty),
    }


def summary_text(rows: list[Row], rebalances: int, empty: list[Row]) -> str:
    """Return a group's life in one line."""
    commits = sum(row["count"] for row in rows if row["event"] == COMMITS)
    text = [causes.counted(rebalances, "rebalance"), causes.counted(commits, "commit")]
    if empty:
        spent = sum(row.get("duration_ms") or 0 for row in empty)
        ends = [row for row in rows if row["event"] in EVENTS[:5]]
        when = [f"for {spent / 1000:.1f} s"] if spent else []
        when += ["at the end of the log"] if ends[-1] is empty[-1] else []
        text.append(f"without members {' and '.join(when)}")
    return ", ".join(text)
