"""``coterie metrics``: an exporter's metrics of each group, from the log."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import click

from coterie.base import prometheus
from coterie.base.terminal import write_data
from coterie.cli import question_command
from coterie.cli.lag_notes import Statuses, say_untimed
from coterie.cli.newest import Newest, log_until
from coterie.cli.params import at_option, log_until_option
from coterie.insight.offsets.end_offsets import read_end_offsets
from coterie.insight.questions import metrics

TEXT = "prometheus"


def pattern(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """Compile a regular expression; raise a usage error if it is wrong."""
    if value is not None:
        try:
            re.compile(value)
        except re.error as error:
            raise click.BadParameter(f"{value!r} is no regular expression: {error}") from error
    return value


def pattern_option(flag: str, text: str) -> Callable[[Any], Any]:
    """Return an option that takes a regular expression."""
    return click.option(flag, metavar="REGEX", callback=pattern, help=text)


@click.command("metrics")
@question_command.question_options(first=TEXT, excludes=False)
@at_option
@pattern_option("--group-filter", "Only groups in whose id REGEX is found.")
@pattern_option("--group-exclude", "No group in whose id REGEX is found.")
@pattern_option("--topic-filter", "Only topics in whose name REGEX is found.")
@pattern_option("--topic-exclude", "No topic in whose name REGEX is found.")
@click.option(
    "--end-offsets",
    "file",
    metavar="FILE",
    help="End offsets of topics, as for `coterie lag`: adds the lag, as of the last sample.",
)
@log_until_option
@click.option(
    "--names",
    type=click.Choice(prometheus.NAMES),
    multiple=True,
    default=("kafka_exporter", "braedon", "coterie"),
    show_default=True,
    help="The exporter whose names to use; repeatable.",
)
@click.option(
    "--granularity",
    type=click.Choice(prometheus.GRANULARITIES),
    default=prometheus.PARTITION,
    show_default=True,
    help="topic: no families of single partitions; commits by topic.",
)
def command(
    at_ms: int | None,
    names: tuple[str, ...],
    granularity: str,
    group_filter: str | None,
    group_exclude: str | None,
    topic_filter: str | None,
    topic_exclude: str | None,
    file: str | None,
    log_until_ms: int | None,
    options: question_command.Options,
) -> None:
    """Give each group's offsets, commits, members and rebalances as Prometheus text.

    Names are those of kafka_exporter, braedon's exporter and KMinion. Samples carry no timestamp:
    they are of the end of the log, or of TIME. --format gives the rows behind them as data.
    """
    ends = None
    if file is not None:
        options.files.append(file)
        ends = read_end_offsets(file)
    if ends is not None and ends.timed and at_ms is not None:
        raise click.UsageError("--at is for end offsets without a time; FILE has times")
    if ends is None and log_until_ms is not None:
        raise click.UsageError("--log-until is for --end-offsets")
    newest, end_ms = None, question_command.until(options, at_ms)
    if ends is not None:
        newest = Newest("--log-until")
        if ends.timed or end_ms is not None or log_until_ms is not None:
            question_command.check(options)
            log_until_ms = log_until(options.logs.listing, options.where, log_until_ms, end_ms)
            newest.ms = log_until_ms
    losses = options.form != TEXT or "coterie" in names
    ask = metrics.Parameters(
        *(group_filter, group_exclude, topic_filter, topic_exclude, ends, log_until_ms, losses)
    )
    parts = question_command.parts_of(metrics.NAME, ask, options, at_ms=at_ms, newest=newest)
    statuses = Statuses("lag_status")
    rows = statuses.of(row for part in parts for row in part.rows)
    if options.form == TEXT:
        all_rows = list(rows)
        with question_command.text_out(options.inputs, options.out, options.overwrite) as out:
            write_data(prometheus.text_lines(all_rows, names, granularity), out)
        found = bool(all_rows)
    else:
        found = question_command.show(metrics.FIELDS, rows, options)
    if not found:
        question_command.say_no_group(at_ms)
    if ends is not None:
        assert newest is not None  # set with the end offsets
        say_untimed(ends, end_ms, newest.ms)
        statuses.say_unknown()
