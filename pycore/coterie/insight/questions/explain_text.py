"""The texts of ``explain``'s rows, for every output that people read."""

from __future__ import annotations

import re
from typing import Any

from coterie.insight.brokerlogs.lines import SERVER
from coterie.insight.groups.episodes import unowned_text
from coterie.insight.groups.epochs import EPOCH_EVENT
from coterie.insight.groups.timeline import EMPTY, GENERATION
from coterie.insight.questions.explain import COMMITS
from coterie.times import format_time

# Noise in a coordinator's reason: the random part of a member id, and absent values.
NOISE = re.compile(
    r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|; client reason: (?:not provided|need to re-join with the given member-id: \S+)"
    r"| with group instance id (?:None|null)"
)
Row = dict[str, Any]


def cause_of(row: Row) -> str:
    """Return the cause, with the coordinator's reason, and the length of a time without members."""
    text: str = row["cause"]
    if row["event"] == EMPTY and row["duration_ms"] is not None:
        text += f" for {seconds(row['duration_ms'])}"
    if row["reason"]:
        text += f" [{SERVER}: {NOISE.sub('', row['reason'])}]"
    if row["event"] == EPOCH_EVENT and row["until"] and row["until"] > row["timestamp"]:
        text += f"; reconciled after {seconds(row['until'] - row['timestamp'])}"
    if row["event"] == COMMITS and row["until"] != row["timestamp"]:
        text += f" (until {format_time(row['until'])[11:]})"
    return text


def waited(row: Row) -> str | None:
    """Return how long a rebalance left the group without an assignment; None: not known."""
    if row["event"] != GENERATION or row["duration_ms"] is None:
        return None
    bound = "" if row["duration_source"] == SERVER else "< "
    return bound + seconds(row["duration_ms"])


def summed(row: Row) -> str:
    """Return a group's summary, with the time of its rebalances, and of partitions unowned."""
    text: str = row["cause"]
    if row["duration_ms"]:
        bound = "" if row["duration_source"] else "at least "
        text += f", rebalancing for {bound}{seconds(row['duration_ms'])}"
    unowned = unowned_text(row)
    return f"{text}, {unowned}" if unowned else text


def seconds(duration_ms: int) -> str:
    """Format a duration."""
    return f"{duration_ms / 1000:.3f} s" if duration_ms < 60_000 else f"{duration_ms // 1000:,} s"
