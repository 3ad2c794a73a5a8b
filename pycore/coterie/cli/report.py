"""``coterie report``: a self-contained page about the groups of a log, or a Markdown summary."""

from __future__ import annotations

import click

from coterie.base.atomic_file import check_file
from coterie.cli import question_command
from coterie.cli.broker_logs import read_logs, request_log_options, server_log_option
from coterie.cli.failures import Failed
from coterie.cli.group_names import chosen_groups
from coterie.cli.lag_notes import say_untimed
from coterie.cli.logs import Logs, logs_argument, say_each, trust_notes
from coterie.cli.newest import log_until, newest_ms
from coterie.cli.params import (
    TIME,
    at_option,
    end_of,
    group_exclude_option,
    group_option,
    log_until_option,
    retention_option,
    since_option,
    until_option,
)
from coterie.cli.progress import TerminalProgress
from coterie.insight.offsets.end_offsets import read_end_offsets
from coterie.insight.question_engine import missing_groups
from coterie.insight.questions import lag
from coterie.insight.questions.expire import DEFAULT_RETENTION_MS
from coterie.log.folders import Listing, Log
from coterie.report import markdown
from coterie.report.gather import gather_log
from coterie.report.page import render
from coterie.report.sections import Basis
from coterie.state.replay_engine import HERE


@click.command("report")
@logs_argument
@group_option
@group_exclude_option
@click.option("-o", "--out", metavar="FILE", help="The file to write.")
@click.option("--overwrite", is_flag=True, help="Replace FILE if it exists.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "markdown"]),
    default="html",
    show_default=True,
    help="A page, or a summary to paste into an incident's document.",
)
@at_option
@since_option
@until_option
@server_log_option
@request_log_options
@click.option(
    "--now", "now_ms", type=TIME, help="Judge expiry as of TIME; by default the newest record's."
)
@retention_option("when offsets expire", DEFAULT_RETENTION_MS)
@click.option(
    "--end-offsets",
    "ends_file",
    metavar="FILE",
    help="End offsets of topics, as for `coterie lag`: adds the lag, as of the last sample.",
)
@log_until_option
@click.option("--title", default="Consumer groups", show_default=True, help="The page's heading.")
def command(
    logs: Logs,
    groups: tuple[str, ...],
    excluded: tuple[str, ...],
    out: str | None,
    overwrite: bool,
    form: str,
    server_logs: tuple[str, ...],
    request_logs: tuple[str, ...],
    log_zone: str,
    at_ms: int | None,
    since_ms: int | None,
    until_ms: int | None,
    now_ms: int | None,
    retention_ms: int,
    ends_file: str | None,
    log_until_ms: int | None,
    title: str,
) -> None:
    """Write one HTML page about the groups of a log, which needs no network.

    An overview with search, and a page for each group: who owned which partitions when, commits
    and offsets over time, rebalances with their causes. FILE#group=ID opens a group. With --format
    markdown the overview, and timeline and findings of the groups that are named, or have any.
    Tables and counts begin at --since; charts show all that was read.
    """
    if out is None and (form == "html" or overwrite):
        raise click.UsageError("the page goes into a file: --out FILE")
    end_ms = end_of(at_ms, since_ms, until_ms)
    if ends_file is None and log_until_ms is not None:
        raise click.UsageError("--log-until is for --end-offsets")
    ends_files = () if ends_file is None else (ends_file,)
    inputs = (*logs.inputs, *server_logs, *request_logs, *ends_files)
    if out is not None:  # before any work
        check_file(out, overwrite=overwrite, inputs=inputs)
    broker_log_lines = read_logs(server_logs, request_logs, log_zone)
    listing = logs.listing
    lags = None if ends_file is None else lag_at(listing, ends_file, end_ms, log_until_ms)
    basis = Basis(now_of(listing, now_ms, end_ms), retention_ms, broker_log_lines, lags)
    chosen = chosen_groups(groups, listing, excluded=excluded)
    with TerminalProgress() as progress:
        whole = gather_log(
            listing, basis, groups=chosen, at_ms=end_ms, since_ms=since_ms, progress=progress
        )
    named = frozenset(groups) & chosen if excluded and chosen else chosen
    missing = missing_groups(named, frozenset(whole.group_ids), end_ms, whole.trusted_from_ms)
    if missing is not None:
        raise missing
    subtitle = f"From {logs.shown}"
    with question_command.text_out(inputs, out, overwrite) as file:
        if form == "markdown":
            file.writelines(markdown.render(whole, title, subtitle, basis, bool(groups)))
        else:
            file.writelines(render(whole, title, subtitle, basis))
    question_command.say_left_out(listing, whole.faults)
    say_each(whole.clocks.notes())
    say_each(trust_notes(listing, dict(whole.compacted)))
    if lags is not None and whole.until_ms is not None:
        say_untimed(lags.ends, end_ms, whole.until_ms)


def lag_at(log: Listing, file: str, end_ms: int | None, log_until_ms: int | None) -> lag.Parameters:
    """Return what asks for the lag at the last end offsets of a file."""
    ends = read_end_offsets(file)
    if ends.timed or end_ms is not None or log_until_ms is not None:
        log_until_ms = log_until(log, HERE, log_until_ms, end_ms)
    return lag.Parameters(ends, end_ms, latest=True, log_until_ms=log_until_ms)


def now_of(log: Log, now_ms: int | None, at_ms: int | None) -> int:
    """Return the time for expiry: ``--now``, ``--at``, or the time of the newest record."""
    if now_ms is not None:
        return now_ms
    if at_ms is not None:
        return at_ms
    try:
        return newest_ms(log)
    except Failed:  # no record has a time, so nothing expires
        return 0
