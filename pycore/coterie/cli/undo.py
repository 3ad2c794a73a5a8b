"""``coterie undo``: the offsets that a group had, as a file for Kafka's reset tool."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace

import click

from coterie.base.terminal import write_data
from coterie.base.times import format_time
from coterie.cli import question_command, undo_execute
from coterie.cli.failures import Failed, discard_output, explain, say
from coterie.cli.params import TIME, retention_option
from coterie.cli.tables import show_tables
from coterie.cli.undo_warnings import (
    by_group,
    going_back,
    partitions,
    risks,
    say_lines,
    warnings,
)
from coterie.insight import tables
from coterie.insight.question_engine import Row
from coterie.insight.questions import undo

SHOWN = ("topic", "partition", "change", "offset", "latest_offset", "difference")
TIMES = ("commit_timestamp", "latest_commit_timestamp")
RESET = "reset"
ROWS_SHOWN = 2_000  # beside a file; above, a line per group


@click.command("undo")
@question_command.question_options(first=RESET)
@click.option("--all-groups", is_flag=True, help="Every group that has or had offsets.")
@click.option("--at", "at_ms", type=TIME, help="Go back to TIME.")
@click.option(
    "--before", "before_ms", type=TIME, help="Go back to just before TIME, as that of a reset."
)
@retention_option("when restored offsets would expire", undo.Parameters.retention_ms)
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
    help="With --execute: do not ask, also when records would be lost or repeated.",
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
    options: question_command.Options,
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
    parts = question_command.parts_of(undo.NAME, undo.Parameters(at_ms, retention_ms), options)
    rows = [row for part in parts for row in part.rows]
    if without_deleted:
        rows = [row for row in rows if row["change"] != undo.DELETED]
    if against_latest:
        rows = [row for row in rows if row["change"] != undo.SAME]
    if execute:
        commit_reset(rows, at_ms, save_file, options, yes=yes)
        return
    say_lines(
        line
        for group, group_rows in by_group(rows).items()
        if (line := going_back(group, [row["difference"] or 0 for row in group_rows]))
    )
    if options.form == RESET and not against_latest:
        write_reset(rows, at_ms, options)
    else:
        shown = replace(options, form="table") if options.form == RESET else options
        question_command.show(undo.FIELDS, rows, shown, draw=draw)
    say_lines(warnings(rows, at_ms))
    if against_latest and rows:
        raise click.exceptions.Exit(1)


def write_reset(rows: list[Row], at_ms: int, options: question_command.Options) -> None:
    """Write the file; print on standard error what it would change."""
    planned = planned_of(rows, at_ms, options)
    single_group = len(set(options.groups)) == 1 and len({row["group_id"] for row in planned}) == 1
    with question_command.text_out(options.inputs, options.out, options.overwrite) as out:
        write_data(undo_execute.reset_lines(planned, with_group=not single_group), out)
    _show_beside(draw(rows) if len(rows) <= ROWS_SHOWN else draw_groups(rows))


def planned_of(rows: list[Row], at_ms: int, options: question_command.Options) -> list[Row]:
    """Return the rows with an offset to restore; raise Failed if there is none."""
    planned = [row for row in rows if row["offset"] is not None]
    if not planned:
        raise nothing_planned(rows, at_ms, options)
    return planned


def commit_reset(
    rows: list[Row],
    at_ms: int,
    save_file: str | None,
    options: question_command.Options,
    *,
    yes: bool,
) -> None:
    """Commit the offsets, and output what became of each partition.

    The exit status says whether all were committed, whatever becomes of the output.
    """
    planned = planned_of(rows, at_ms, options)
    agreed = {
        line for group, some in by_group(rows).items() for line in risks(group, some, at_ms)
    }  # what has to be agreed to comes with what the cluster has
    notes = [line for line in warnings(rows, at_ms) if line not in agreed]
    outcomes = undo_execute.commit_plan(planned, at_ms, save_file, options, notes=notes, yes=yes)
    form = "table" if options.form == RESET else options.form
    try:
        question_command.show(undo_execute.FIELDS, outcomes, replace(options, form=form))
        sys.stdout.flush()
    except Exception as error:
        if options.out is None:
            discard_output()
        why = explain(error)[1] or "its reader is gone"
        say(f"coterie: the output was not written: {why}; it follows here")
        _show_beside([tables.table(undo_execute.FIELDS, outcomes)])
    if any(row["outcome"] == undo_execute.FAILED for row in outcomes):
        raise click.exceptions.Exit(1)


def _show_beside(drawn: Iterable[tables.Piece]) -> None:
    """Show tables on standard error; without room there, the exit status is that of the rest."""
    with contextlib.suppress(OSError):
        show_tables(drawn, sys.stderr)


def nothing_planned(rows: list[Row], at_ms: int, options: question_command.Options) -> Failed:
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
    fields = question_command.with_trust(
        {name: undo.FIELDS[name] for name in (*SHOWN, *TIMES, *notes)}, rows
    )
    for group, group_rows in by_group(rows).items():
        counts = Counter(row["change"] for row in group_rows)
        summary = ", ".join(
            f"{counts[change]} {change}" for change in undo.CHANGES if counts[change]
        )
        yield tables.table(fields, group_rows, f"group {group}: {summary}")
