"""What to know before the offsets of ``coterie undo`` are committed, one line for each group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from coterie.base.times import format_time
from coterie.cli.failures import say
from coterie.insight.groups.causes import counted
from coterie.insight.question_engine import Row
from coterie.insight.questions import undo
from coterie.insight.questions.undo_notes import CREATED_AGAIN, IN_WORDS, SHORTER

WARNINGS_SHOWN = 20
PLACES_NAMED = 3
REWIND_IS_FRESH_MS = 60_000  # people seldom give a time more exactly than to a minute


def say_lines(found: Iterable[str]) -> None:
    """Print what to read before the offsets are committed."""
    lines = list(found)
    for line in lines[:WARNINGS_SHOWN]:
        say(f"coterie: {line}")
    if len(lines) > WARNINGS_SHOWN:
        more = len(lines) - WARNINGS_SHOWN
        say(f"coterie: and {more:,} more warnings of this kind; --group tells")


def by_group(rows: list[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(row["group_id"], []).append(row)
    return groups


def warnings(rows: list[Row], at_ms: int) -> Iterator[str]:
    """Yield the warnings to read before the file is given to Kafka's tool."""
    for group, group_rows in by_group(rows).items():
        state, since = group_rows[0]["state"], group_rows[0]["trusted_from"]
        if since is not None and at_ms < since:
            yield (
                f"group {group!r}: its log was compacted; before {format_time(since)} it may lack "
                "offsets that were current then"
            )
        yield from clock_warnings(group, group_rows, at_ms)
        yield from rewind_warnings(group, group_rows, at_ms)
        yield from removal_warnings(group, group_rows, at_ms)
        yield from made_again_warnings(group, group_rows)
        yield from expiry_warnings(group, group_rows)
        if state not in (None, "Empty"):
            yield (
                f"group {group!r} is {state}: Kafka's tool refuses a group with members; "
                "stop them first"
            )
        counts = Counter(row["change"] for row in group_rows)
        if counts[undo.NEW]:
            yield (
                f"group {group!r}: {partitions(counts[undo.NEW])} without an offset then; a reset "
                "leaves the present one (kafka-consumer-groups --delete-offsets removes it)"
            )
        if counts[undo.UNKNOWN]:
            yield (
                f"group {group!r}: of {partitions(counts[undo.UNKNOWN])} the log has lost whether "
                "there was an offset then; a reset leaves the present one"
            )
        if counts[undo.DELETED]:
            yield (
                f"group {group!r}: {partitions(counts[undo.DELETED])} without an offset now; where "
                "the topic is gone Kafka's tool fails (--without-deleted leaves them out)"
            )
        open_count = sum(row["pending"] for row in group_rows)
        if open_count:
            yield (
                f"group {group!r}: {partitions(open_count)} with an offset in an open transaction, "
                "which may still be committed over a reset"
            )


def clock_warnings(group: str, rows: list[Row], at_ms: int) -> Iterator[str]:
    """Yield a warning if the order of the log and the records' times give different offsets."""
    differing = [row for row in rows if row["offset_by_record_times"] is not None]
    if differing:
        parts = [
            f"{row['topic']}-{row['partition']} {offset_text(row['offset'])} by log order, "
            f"{offset_text(row['offset_by_record_times'])} by record times"
            for row in differing[:PLACES_NAMED]
        ]
        more = len(differing) - PLACES_NAMED
        parts += [f"{more} more"] if more > 0 else []
        yield (
            f"group {group!r}: a clock went back: as of {format_time(at_ms)}, "
            f"{'; '.join(parts)}; the plan is by log order"
        )


def offset_text(offset: int | None) -> str:
    """Return an offset as text; None and -1: there is none."""
    return "none" if offset is None or offset < 0 else str(offset)


def rewind_warnings(group: str, rows: list[Row], at_ms: int) -> Iterator[str]:
    """Yield a warning if the offsets were set back shortly before the requested time."""
    fresh = [
        row
        for row in rows
        if row["rewound_at"] is not None and at_ms - row["rewound_at"] < REWIND_IS_FRESH_MS
    ]
    if fresh:
        first = min(row["rewound_at"] for row in fresh)
        yield (
            f"group {group!r}: {partitions(len(fresh))} had gone back at {format_time(first)}, and "
            f"this restores the rewind; --before {format_time(first)} gives what was before it"
        )


def removal_warnings(group: str, rows: list[Row], at_ms: int) -> Iterator[str]:
    """Yield a warning for each reason for which offsets were removed since the requested time."""
    by_reason: dict[str, list[Row]] = {}
    for row in rows:
        if row["removed_at"] is not None:
            reason = IN_WORDS[row["removal"]] + (SHORTER if SHORTER in (row["note"] or "") else "")
            by_reason.setdefault(reason, []).append(row)
    for reason, removed in by_reason.items():
        first = format_time(min(row["removed_at"] for row in removed))
        yield (
            f"group {group!r}: the offsets of {partitions(len(removed))} were removed since "
            f"{format_time(at_ms)}, first at {first}: {reason}"
        )


def made_again_warnings(group: str, rows: list[Row]) -> Iterator[str]:
    """Yield a warning if offsets are of a topic that is gone, while another has its name."""
    old = [row for row in rows if row["note"] and CREATED_AGAIN in row["note"]]
    if old:
        yield (
            f"group {group!r}: {partitions(len(old))} of a topic that was created again: offsets "
            "of the old topic skip or repeat records of the new one; see the notes"
        )


def expiry_warnings(group: str, rows: list[Row]) -> Iterator[str]:
    """Yield a warning if the restored offsets would expire."""
    times = [row["expires_at"] for row in rows if row["expires_at"] is not None]
    if times:
        yield (
            f"group {group!r} is Empty: restored offsets expire at {format_time(min(times))}, "
            "counted from when it became so, unless a member joins before (--retention)"
        )


def partitions(count: int) -> str:
    return f"{count} partition" if count == 1 else f"{count} partitions"


def risks(group: str, rows: list[Row], at_ms: int) -> Iterator[str]:
    """Yield the warnings of the plan itself that records would be lost or repeated."""
    yield from rewind_warnings(group, rows, at_ms)
    yield from made_again_warnings(group, rows)


def going_back(group: str, steps: Iterable[int]) -> str:
    """Return what it means that offsets go back, as text; empty: none does.

    ``steps``: by how much the offset of each partition changes.
    """
    back = [-step for step in steps if step < 0]
    if not back:
        return ""
    return (
        f"group {group!r} goes back by {counted(sum(back), 'offset')} in "
        f"{counted(len(back), 'partition')}: these records will be read again"
    )
