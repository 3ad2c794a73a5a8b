"""Rebalances that follow each other closely, as one episode: a rolling restart, a start, a stop."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from coterie.insight.groups.causes import RESTARTED, client_of, counted
from coterie.insight.groups.flapping import ARRIVALS, DEPARTURES
from coterie.insight.groups.rebalances import is_rebalance

EPISODE = "episode"
APART_MS = 60_000  # a longer time between two rebalances is the end of an episode
LEAST = 3  # rebalances of an episode
Row = dict[str, Any]


def episodes(rows: Sequence[Row]) -> Iterator[Row]:
    """Yield a row for each episode of a group; ``rows``: its timeline."""
    rebalances = [row for row in rows if is_rebalance(row) and row["timestamp"] is not None]
    begins = [
        at
        for at, (before, row) in enumerate(pairwise(rebalances), 1)
        if not 0 <= row["timestamp"] - before["timestamp"] <= APART_MS
    ]
    for begin, end in pairwise([0, *begins, len(rebalances)]):
        if end - begin >= LEAST:
            yield episode_row(rebalances[begin:end])


def episode_row(rebalances: Sequence[Row]) -> Row:
    first, last = rebalances[0], rebalances[-1]
    elapsed_ms = last["timestamp"] - first["timestamp"]
    bounds = unowned_of(rebalances)
    lasted = f"{elapsed_ms / 1000:.0f} s" if elapsed_ms >= 10_000 else f"{elapsed_ms / 1000:.1f} s"
    text = f"{story_of(rebalances)}: {counted(len(rebalances), 'rebalance')} in {lasted}"
    owned = unowned_text(bounds)
    return {
        "event": EPISODE,
        "timestamp": first["timestamp"],
        "until": last["timestamp"],
        "log_offset": first["log_offset"],
        "cause": f"{text}, {owned}" if owned else text,
        "count": len(rebalances),
        **bounds,
    }


def story_of(rebalances: Sequence[Row]) -> str:
    """Return what members did in an episode: restart, start or stop, as text."""
    away: Counter[str] = Counter()  # members of each client that left and are not back
    returned: dict[str, str] = {}  # member id -> client, of those that came back
    joined = left = restarts = 0
    restarted_again = False
    for row in rebalances:
        for cause in row["causes"]:
            client, member = client_of(cause), cause["member_id"]
            if cause["what"] in (*DEPARTURES, *RESTARTED):
                former = cause["detail"] if cause["what"] in RESTARTED else member
                restarted_again = restarted_again or former in returned
                away[client] += 1
                left += 1
            if cause["what"] in (*ARRIVALS, *RESTARTED):
                joined += 1
                if away[client]:
                    away[client] -= 1
                    restarts += 1
                    returned[member] = client
    if restarts > 1 and restarted_again:
        return f"{restarts} restarts of {counted(len(set(returned.values())), 'client')}"
    was_empty = any(row["member_count"] == 0 for row in rebalances[:-1])
    if restarts > 1 and not was_empty:
        return f"rolling restart of {restarts} members"
    if restarts > 1 and joined == left == restarts:
        return f"restart of {restarts} members, with none in between"
    if restarts and joined == left == restarts:
        return "restart of 1 member"
    if joined and left:
        return f"{counted(joined, 'member')} joined, {left} left"
    if joined:
        return f"start of {counted(joined, 'member')}"
    return f"stop of {counted(left, 'member')}" if left else "no member joined or left"


def unowned_of(rows: Sequence[Mapping[str, Any]]) -> Row:
    """Return the sums of partition-milliseconds without an owner; None: not known."""
    names = ("unowned_least_ms", "unowned_most_ms")
    known = [row for row in rows if row.get(names[0]) is not None]
    return {name: sum(row[name] for row in known) if known else None for name in names}


def unowned_text(bounds: Mapping[str, Any]) -> str:
    """Return the partition-seconds without an owner as text; empty: not known."""
    least_ms, most_ms = (bounds.get(name) for name in ("unowned_least_ms", "unowned_most_ms"))
    if least_ms is None or most_ms is None:
        return ""
    least, most = partition_seconds(least_ms), partition_seconds(most_ms)
    if not most_ms:
        return "no partition without an owner"
    if least == most:
        return f"{most} partition-seconds without an owner"
    if least == "0.0":
        return f"at most {most} partition-seconds without an owner"
    return f"{least} to {most} partition-seconds without an owner"


def partition_seconds(ms: int) -> str:
    return f"{ms / 1000:.1f}" if ms < 10_000 else f"{ms / 1000:,.0f}"
