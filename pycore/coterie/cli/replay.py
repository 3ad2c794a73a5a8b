"""``coterie replay``: the tables of a log, by Spark or in this process."""

from __future__ import annotations

from time import perf_counter

import click

from coterie.base.extras import missing_module
from coterie.base.times import format_time
from coterie.cli.failures import say
from coterie.cli.group_names import check_present, chosen_groups, known_groups
from coterie.cli.logs import Logs, logs_argument
from coterie.cli.nopandas import without_pandas
from coterie.cli.output_folder import whole_folder
from coterie.cli.params import (
    at_option,
    check_where,
    engine_options,
    group_exclude_option,
    group_option,
    on_fault_option,
)
from coterie.cli.progress import TerminalProgress
from coterie.log.clock_notes import ClockNotes
from coterie.log.folders import Listing, Log, left_alone
from coterie.log.topic_id import topics_note
from coterie.log.trust import trust_lines
from coterie.state.faults import fault_line
from coterie.state.partial import ScanOptions
from coterie.state.replay_engine import (
    AUTO,
    SPARK_FROM_BYTES,
    Conf,
    ReplayRequest,
    Summary,
    Where,
    choose_engine,
    find_engine,
)

FAULTS_SHOWN = 20
READ_AGAIN = SPARK_FROM_BYTES  # a log on Spark is read again here only if it is smaller


@click.command("replay")
@logs_argument
@click.option("--out", required=True, metavar="DIR", help="Folder to create for the tables.")
@engine_options
@at_option
@click.option(
    "--format",
    "form",
    type=click.Choice(["parquet", "json"]),
    default="parquet",
    show_default=True,
    help="A Parquet file for each table, or all groups in groups.json.",
)
@click.option(
    "--history", is_flag=True, help="Also write the table commits: every commit in the log."
)
@on_fault_option
@group_option
@group_exclude_option
@click.option("--overwrite", is_flag=True, help="Replace DIR if it is not empty.")
def command(
    logs: Logs,
    out: str,
    engine: str,
    master: str | None,
    conf: Conf,
    at_ms: int | None,
    form: str,
    history: bool,
    on_fault: str,
    groups: tuple[str, ...],
    excluded: tuple[str, ...],
    overwrite: bool,
) -> None:
    """Replay a log into tables: groups, members, offsets, generations, faults (and commits).

    DIR appears whole or not at all. --at TIME applies the records whose own time is not later than
    TIME; the summary says how far back a compacted log can be trusted, and where the log's order
    gives another state, because its times go back.
    """
    by_url = logs.by_url
    chosen_here = engine == AUTO
    if not chosen_here:
        check_where(Where(engine, master, conf))  # before the log is listed
    if chosen_here:
        engine = choose_engine(engine, master, None if by_url else logs.listing.size)
        check_where(Where(engine, master, conf))
    began = perf_counter()
    try:
        with without_pandas(engine == "local"):
            replay = find_engine(engine)
            # Listing the log reports wrong paths before an engine starts.
            log: Log = logs.paths if by_url else logs.listing
            chosen = chosen_groups(groups, () if by_url else log, excluded=excluded)
            options = ScanOptions(on_fault=on_fault, at_ms=at_ms, groups=chosen, history=history)
            with (
                TerminalProgress() as progress,
                whole_folder(out, overwrite=overwrite, inputs=logs.inputs) as folder,
            ):
                request = ReplayRequest(log, folder, form, options, master, conf)
                summary = replay(request, progress)
                if isinstance(log, Listing) and summary.groups < len(chosen or ()):
                    known = known_groups(log, Where(engine, master, conf), at_ms)
                    check_present(groups, chosen, known, at_ms)
                for line in summary.notes:
                    progress.notice(line)
    except ModuleNotFoundError as error:
        raise missing_module(error) from error
    seconds = perf_counter() - began
    lines = summary_lines(summary, at_ms, seconds)
    if at_ms is not None and not by_url and (engine == "local" or logs.listing.size < READ_AGAIN):
        lines += order_lines(logs.listing, summary, at_ms)
    if not by_url:
        lines += filter(None, [topics_note(logs.listing)])
    for line in lines:
        say(line)
    if chosen_here:
        other = "local: in this process" if engine == "spark" else "spark: on Spark"
        where = "on Spark" if engine == "spark" else "in this process"
        say(f"replayed {where} (--engine {other})")


def summary_lines(summary: Summary, at_ms: int | None, seconds: float) -> list[str]:
    """Return the lines of the summary: what was read, faults, and what to beware of."""
    rate = summary.records / seconds if seconds else 0.0
    lines = [
        f"{count(summary.files, 'file')}, {size(summary.bytes)}: "
        f"{count(summary.batches, 'batch', 'batches')}, {count(summary.records, 'record')}, "
        f"{count(summary.groups, 'group')}, {count(summary.fault_count, 'fault')}; "
        f"{seconds:.1f} s, {rate:,.0f} records/s, {size(summary.bytes / max(seconds, 1e-9))}/s"
    ]
    shown = summary.faults[:FAULTS_SHOWN]
    lines += [f"fault: {fault_line(fault)}" for fault in shown]
    if rest := summary.fault_count - len(shown):
        where = "coterie verify" if summary.more_faults else "the table faults, or coterie verify"
        lines.append(f"fault: and {rest:,} more: see {where}")
    for version, number in summary.unknown_versions.items():
        lines.append(f"key version {version}: {count(number, 'record')} passed over")
    lines += left_alone(summary.passed_over)
    return lines + compaction_lines(summary, at_ms)


def order_lines(listing: Listing, summary: Summary, at_ms: int) -> list[str]:
    """Return the log-order cut as of a time, if timestamps disagree."""
    from coterie.log.clock import cut_at  # with numpy, which --help does not need

    notes = ClockNotes(by_times=True)
    for number, segments in listing.partitions().items():
        notes.take(number, (), cut_at(segments, summary.pieces.get(number, ()), at_ms))
    return list(notes.notes())


def compaction_lines(summary: Summary, at_ms: int | None) -> list[str]:
    """Return since when the state of a compacted log can be trusted."""
    since = summary.trusted_from_ms
    if not since and at_ms is None:
        return []
    if not since:
        return ["no offset is missing: nothing was compacted, the state at any time can be trusted"]
    lines = list(trust_lines(since))
    if at_ms is not None and (untrusted := [ms for ms in since.values() if at_ms < ms]):
        where = count(len(untrusted), "partition")
        lines.append(f"at {format_time(at_ms)} commits may be missing in {where}")
    return lines


def count(number: int, noun: str, plural: str = "") -> str:
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def size(size_bytes: float) -> str:
    """Format a size in decimal units."""
    for unit in ("B", "kB", "MB", "GB"):
        if size_bytes < 1000:
            return f"{size_bytes:.0f} B" if unit == "B" else f"{size_bytes:.1f} {unit}"
        size_bytes /= 1000
    return f"{size_bytes:.1f} TB"
