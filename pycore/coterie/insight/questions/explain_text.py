"""The texts of ``explain``'s rows, for every output that people read."""

from __future__ import annotations

import re
from typing import Any

from coterie.base.times import format_time
from coterie.insight.groups.causes import client_text
from coterie.insight.groups.episodes import unowned_text
from coterie.insight.groups.epochs import EPOCH_EVENT, STATIC_LEAVE
from coterie.insight.groups.timeline import EMPTY, GENERATION
from coterie.insight.questions.explain import COMMITS
from coterie.insight.questions.server_log import REFUSED
from coterie.insight.questions.server_log_lines import SERVER
from coterie.insight.tables import TWO_MINUTES_MS, duration

# Noise in a coordinator's reason: the random part of a member id, and absent values.
NOISE = re.compile(
    r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|; client reason: (?:not provided|need to re-join with the given member-id: \S+)"
    r"| with group instance id (?:None|null)"
)
NAMED = 3  # members in a text
Row = dict[str, Any]


def cause_of(row: Row) -> str:
    """Return the cause, with the coordinator's reason, and the length of a time without members."""
    text: str = row["cause"]
    if row["event"] == EMPTY and row["duration_ms"] is not None:
        text += f" for {length(row['duration_ms'])}"
    if row["reason"]:
        text += f" [{SERVER}: {NOISE.sub('', row['reason'])}]"
    if row["event"] == EPOCH_EVENT and row["timestamp"] is not None:
        text += reconciled(row)
    if row["event"] == STATIC_LEAVE and row["until"] is not None:
        text += f", away for {length(row['until'] - row['timestamp'])}"
    if row["event"] in (COMMITS, REFUSED) and row["until"] != row["timestamp"]:
        text += f" (until {format_time(row['until'])[11:]})"
    return text


def reconciled(row: Row) -> str:
    """Return how the members of a newer group got the assignment of an epoch, as text."""
    text, since_ms = "", row["timestamp"]
    target_ms = row["target_at"]
    names = [client_text(who["client_id"], None) for who in row["last_members"][:NAMED]]
    if target_ms is not None and target_ms > since_ms:
        text += f"; target computed after {length(target_ms - since_ms)}"
    if row["until"] is not None and row["until"] > since_ms:
        text += f"; reconciled after {length(row['until'] - since_ms)}"
        text += f", {names[0]} last" if row["member_count"] > 1 else ""
    elif row["until"] is None and row["unreconciled"]:
        more = row["unreconciled"] - len(names)
        names += [f"{more} more"] if more else []
        text += f"; not reconciled: {', '.join(names)}"
    return text


def waited(row: Row) -> str | None:
    """Return how long a rebalance left the group without an assignment; None: not known."""
    if row["event"] != GENERATION or row["duration_ms"] is None:
        return None
    bound = "" if row["duration_source"] == SERVER else "< "
    return bound + length(row["duration_ms"])


def summed(row: Row) -> str:
    """Return a group's summary, with the time of its rebalances, and of partitions unowned."""
    text: str = row["cause"]
    if row["duration_ms"]:
        bound = "" if row["duration_source"] else "at least "
        text += f", rebalancing for {bound}{length(row['duration_ms'])}"
    unowned = unowned_text(row)
    return f"{text}, {unowned}" if unowned else text


def length(duration_ms: int) -> str:
    """Format a duration: with milliseconds below a minute, and as of removals from two on."""
    if duration_ms >= TWO_MINUTES_MS:
        return duration(duration_ms)
    return f"{duration_ms / 1000:.3f} s" if duration_ms < 60_000 else f"{duration_ms // 1000} s"
