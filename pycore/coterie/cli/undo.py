"""``coterie undo``: the offsets that a group had, as a file for Kafka's reset tool."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

import click

from coterie.cli import asking, undoing
from coterie.cli.failures import Failed, say
from coterie.cli.params import TIME, retention_option
from coterie.cli.tables import show_tables
from coterie.insight.asking import Row
from coterie.insight.questions import undo
from coterie.insight.questions.undo_notes import CREATED_AGAIN, IN_WORDS
from coterie.insight.render import tables
from coterie.times import format_time

SHOWN = ("topic", "partition", "change", "offset", "latest_offset", "difference")
TIMES = ("commit_timestamp", "latest_commit_timestamp")
RESET = "reset"
ROWS_SHOWN = 2_000  # beside a file; above, a line per group
WARNINGS_SHOWN = 20
PLACES_NAMED = 3
REWIND_IS_FRESH_MS = 60_000  # people seldom give a time more exactly than to a minute


@click.command("undo")
@asking.question_options(first=RESET)
@click.option("--all-groups", is_flag=True, help="Every group that has or had offsets.")
@click.option("--at", "at_ms", type=TIME, help="Go back to TIME.")
@click.option(
    "--before", "before_ms", type=TIME, help="Go back to just before TIME, as that of a reset."
)
@retention_option("when restored offsets would expire")
@click.option(
    "--against-latest",
    is_flag=True,
    help="Only compare: print what differs from the latest; exit 1 if anything does.",
)
@click.option(
    "--execute",
    is_flag=True,
    help="With --bootstrap-server: commit these offsets. It refuses while a group has members.",
)
@click.option(
    "--save",
    "save_file",
    metavar="FILE",
    help="With --execute: where the offsets before go first, as a file for --from-file; by default "
    "offsets-before-TIME.csv.",
)
@click.option(
    "--yes",
    is_flag=True,
    help="With --execute: do not ask when offsets go back or the group has committed since.",
)
@click.option(
    "--without-deleted",
    is_flag=True,
    help="Leave out partitions for which the group has no offset now, as of a deleted topic.",
)
def command(
    at_ms: int | None,
    before_ms: int | None,
    retention_ms: int,
    all_groups: bool,
    against_latest: bool,
    without_deleted: bool,
    execute: bool,
    save_file: str | None,
    yes: bool,
    options: asking.Options,
) -> None:
    """Print the offsets that a group had committed at TIME, or just before it, for a reset.

    Standard output, or FILE, is what `kafka-consumer-groups --reset-offsets --from-file` takes:
    topic,partition,offset for one --group, group,topic,partition,offset for more. Standard error
    shows what it would change. With another --format: that comparison as data. With --execute, the
    output is what was committed instead; exit 1 if anything was not.
    """
    if bool(options.groups) == all_groups:
        raise click.UsageError("give either --group or --all-groups")
    if (at_ms is None) == (before_ms is None):
        raise click.UsageError("give either --at or --before")
    at_ms = before_ms - 1 if before_ms is not None else at_ms
    assert at_ms is not None
    if options.until_ms is not None and options.until_ms < at_ms:
        raise click.UsageError("--until is earlier than the time to go back to")
    if execute and (options.logs.servers is None or against_latest):
        raise click.UsageError("--execute needs --bootstrap-server, and no --against-latest")
    if (save_file is not None or yes) and not execute:
        raise click.UsageError(f"{'--yes' if yes else '--save'} is for --execute")
    parts = asking.parts_of(undo.NAME, undo.Parameters(at_ms, retention_ms), options)
    rows = [row for part in parts for row in part.rows]
    if without_deleted:
        rows = [row for row in rows if row["change"] != undo.DELETED]
    if against_latest:
        rows = [row for row in rows if row["change"] != undo.SAME]
    if execute:
        commit_reset(rows, at_ms, save_file, options, yes=yes)
        return
    steps = (
        (group, [row["difference"] or 0 for row in group_rows])
        for group, group_rows in by_group(rows).items()
    )
    say_lines(line for one in steps if (line := undoing.going_back(*one)))
    if options.form == RESET and not against_latest:
        write_reset(rows, at_ms, options)
    else:
        shown = replace(options, form="table") if options.form == RESET else options
        asking.show(undo.FIELDS, rows, shown, draw=draw)
    say_lines(warnings(rows, at_ms))
    if against_latest and rows:
        raise click.exceptions.Exit(1)


def say_lines(found: Iterable[str]) -> None:
    """Print what to read before the offsets are committed."""
    lines = list(found)
    for line in lines[:WARNINGS_SHOWN]:
        say(f"coterie: {line}")
    if len(lines) > WARNINGS_SHOWN:
        more = len(lines) - WARNINGS_SHOWN
        say(f"coterie: and {more:,} more warnings of this kind; --group tells")


def write_reset(rows: list[Row], at_ms: int, options: asking.Options) -> None:
    """Write the file; print on standard error what it would change."""
    planned = planned_of(rows, at_ms, options)
    single_group = len(set(options.groups)) == 1 and len({row["group_id"] for row in planned}) == 1
    with asking.text_out(options.inputs, options.out, options.overwrite) as out:
        out.writelines(undoing.reset_lines(planned, with_group=not single_group))
    show_tables(draw(rows) if len(rows) <= ROWS_SHOWN else draw_groups(rows), sys.stderr)


def planned_of(rows: list[Row], at_ms: int, options: asking.Options) -> list[Row]:
    """Return the rows with an offset to restore; raise Failed if there is none."""
    planned = [row for row in rows if row["offset"] is not None]
    if not planned:
        raise nothing_planned(rows, at_ms, options)
    return planned


def commit_reset(
    rows: list[Row], at_ms: int, save_file: str | None, options: asking.Options, *, yes: bool
) -> None:
    """Commit the offsets, and output what became of each partition."""
    planned = planned_of(rows, at_ms, options)
    outcomes = undoing.commit_plan(planned, save_file, options, yes=yes)
    say_lines(warnings(rows, at_ms))
    form = "table" if options.form == RESET else options.form
    asking.show(undoing.FIELDS, outcomes, replace(options, form=form))
    if any(row["outcome"] == undoing.FAILED for row in outcomes):
        raise click.exceptions.Exit(1)


def nothing_planned(rows: list[Row], at_ms: int, options: asking.Options) -> Failed:
    """Return the error if there is no offset to restore: none existed, or compaction removed it.

    The rows do not show which: a group that was deleted since then has no rows. If a clock went
    back, the time may be another one than the user means.
    """
    since = [ms for ms in options.trusted_from_ms.values() if at_ms < ms]
    why = f"no offset was committed at {format_time(at_ms)}: nothing to go back to"
    if since:
        why = (
            f"the log was compacted, and of {format_time(at_ms)} no offset is left: which there "
            f"were is not known; it is trusted since {format_time(max(since))} (an older copy, or "
            ".deleted segments with --include-deleted, may have more)"
        )
    by_times = [row for row in rows if row["offset_by_record_times"] is not None]
    found = f"by record times, {partitions(len(by_times))} had an offset then: see --format json"
    return Failed("; ".join([why, *options.clocks.notes(), *([found] if by_times else [])]))


def draw_groups(rows: list[Row]) -> Iterator[tables.Piece]:
    """Yield a table with a line per group, for many partitions."""
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        counts.setdefault(row["group_id"], Counter())[row["change"]] += 1
    fields = {"group": "string", **dict.fromkeys(undo.CHANGES, "int64")}
    lines = [
        {"group": group, **{change: changes[change] for change in undo.CHANGES}}
        for group, changes in counts.items()
    ]
    title = f"{len(rows):,} partitions of {len(counts):,} groups; --against-latest shows each"
    yield tables.table(fields, lines, title)


def draw(rows: list[Row]) -> Iterator[tables.Piece]:
    """Yield a table per group: what a reset would change."""
    notes = ("note",) if any(row["note"] for row in rows) else ()
    fields = asking.with_trust({name: undo.FIELDS[name] for name in (*SHOWN, *TIMES, *notes)}, rows)
    for group, group_rows in by_group(rows).items():
        counts = Counter(row["change"] for row in group_rows)
        summary = ", ".join(
            f"{counts[change]} {change}" for change in undo.CHANGES if counts[change]
        )
        yield tables.table(fields, group_rows, f"group {tables.printable(group)}: {summary}")


def by_group(rows: list[Row]) -> dict[str, list[Row]]:
    """Return the rows of each group."""
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
            by_reason.setdefault(row["removal"], []).append(row)
    for reason, removed in by_reason.items():
        first = format_time(min(row["removed_at"] for row in removed))
        yield (
            f"group {group!r}: the offsets of {partitions(len(removed))} were removed since "
            f"{format_time(at_ms)}, first at {first}: {IN_WORDS[reason]}"
        )
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
    """Return a count of partitions."""
    return f"{count} partition" if count == 1 else f"{count} partitions"
