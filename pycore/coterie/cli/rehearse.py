"""``coterie rehearse``: a group's own history under another protocol, release or setting."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import NamedTuple

import click

from coterie.base.atomic_file import check_file
from coterie.base.printable import printable
from coterie.base.progress_bar import ProgressBar
from coterie.base.times import format_time
from coterie.cli import question_command
from coterie.cli.broker_logs import read_logs, request_log_options, server_log_option
from coterie.cli.failures import Failed, say
from coterie.cli.output_file import text_of, whole_file
from coterie.designs.files import error_line, read_json
from coterie.errors import ArgumentError, CoterieError, shown
from coterie.histories.rehearsal import result, scenario
from coterie.histories.rehearsal.history import LoggedHistory, read_history
from coterie.histories.rehearsal.known_bugs import bugs_of
from coterie.histories.rehearsal.variants import (
    KAFKA,
    PLAYABLE,
    Variant,
    read_variant,
    release_in,
    release_named,
    release_of,
)
from coterie.insight import tables
from coterie.insight.groups.causes import counted
from coterie.insight.question_engine import Row
from coterie.insight.questions import generations
from coterie.insight.questions.server_log_lines import BrokerLogLine

HEADINGS = (
    *("VARIANT", "REBALANCES", "UNOWNED", "LONGEST", "SETTLING", "READ AGAIN", "ENDED"),
    *("REQUESTS", "BYTES"),
)
MOMENT_HEADINGS = ("VARIANT", "TIME", "WHAT BEGAN IT", "LASTED", "UNOWNED", "LONGEST", "ENDED")
SCENARIO_OUT = "--scenario-out"
PARTS = {  # a column of ranges -> its unit
    "rebalances": 1,
    "unowned_ms": 1000,
    "longest_unowned_ms": 1000,
    "settling_ms": 1000,
}


@click.command("rehearse")
@question_command.question_options(page=True, documents=True)
@server_log_option
@request_log_options
@click.option(
    "--to",
    "variants",
    multiple=True,
    metavar="KEY=VALUE[,...]",
    help="What to play it under: protocol=consumer, kafka=4.4, assignor=cooperative-sticky, "
    "static=true, deploy=rolling:30s, session.timeout.ms=45000, way=rolling:30s. Several in one "
    "go together; repeatable.",
)
@click.option(
    "--kafka",
    metavar="RELEASE",
    help="The release of the brokers that wrote the log; default: 3.9, or 4.1 if a member speaks "
    "the consumer protocol, or the scenario's.",
)
@click.option(
    SCENARIO_OUT,
    metavar="FILE",
    help="Write the history to FILE.json: edited or not, it can be given in place of LOG...",
)
@click.option(
    "--moments",
    type=click.IntRange(0, 1000),
    default=result.MOMENTS,
    show_default=True,
    help="How many of the moments that are worse than today are shown of each variant, the worst.",
)
@click.option(
    "--plays",
    type=click.IntRange(1, 1000),
    default=3,
    show_default=True,
    help="How often each is played; each time draws anew what the log does not say.",
)
def command(
    server_logs: tuple[str, ...],
    request_logs: tuple[str, ...],
    log_zone: str,
    variants: tuple[str, ...],
    kafka: str | None,
    scenario_out: str | None,
    moments: int,
    plays: int,
    options: question_command.Options,
) -> None:
    """Play the history of groups again: as it was, then under each --to.

    Simulated clients of Kafka's own behaviour start, end and stop polling when the log says. The
    line below the table shows how well that fits the log. Groups of Kafka Connect and Streams are
    not played.
    """
    try:
        kafka = None if kafka is None else release_named(kafka)
        for text in variants:
            read_variant(text, kafka or KAFKA)
    except ArgumentError as error:
        _say_bugs(release_in(text) for text in variants)
        raise click.UsageError(str(error)) from None
    if scenario_out is not None:
        if options.out is not None and os.path.realpath(scenario_out) == os.path.realpath(
            options.out
        ):
            raise click.UsageError("--scenario-out and --out are one file; name two")
        overwrite, inputs = options.overwrite, options.inputs
        check_file(scenario_out, overwrite=overwrite, inputs=inputs, option=SCENARIO_OUT)
    if options.logs.document is None:
        options.files.extend((*server_logs, *request_logs))
        lines = read_logs(server_logs, request_logs, log_zone)
        given = _histories(lines, options, may_overwrite=scenario_out is not None)
    else:
        of_logs = {"--server-log": server_logs, "--request-log": request_logs}
        given = [_scenario(options, of_logs)]
    if kafka is not None:
        given = [one._replace(kafka=kafka) for one in given]
    is_page = options.form == question_command.PAGE
    for option, is_used in ((SCENARIO_OUT, scenario_out is not None), ("--format html", is_page)):
        if is_used:
            _check_one(option, given)
    chosen = [_variants(one, variants) for one in given]  # before any is written or played
    if scenario_out is not None:
        _write_scenario(given, scenario_out, options)
    rows: list[Row] = []
    with ProgressBar(sum(result.play_count(of_group, plays) for of_group in chosen)) as progress:
        for (history, release, trusted), of_group in zip(given, chosen, strict=True):
            progress.stage(f"playing {printable(history.group)}")
            played = list(
                result.outcomes(
                    *(history, of_group),
                    kafka=release,
                    plays=plays,
                    moments=moments,
                    timelines=is_page,
                    on_play=partial(progress.advance, 1),
                )
            )
            rows += [outcome.row | {"trusted_from": trusted} for outcome in played]
    if is_page and given:
        _write_page(history, played, options)
        return
    if not question_command.show(result.FIELDS, rows, options, draw=draw):
        question_command.say_no_group(None)


class Given(NamedTuple):
    """A history to play, the release that it is of, and since when its log is complete."""

    history: LoggedHistory
    kafka: str
    trusted_from: int | None = None


def _histories(
    broker_log_lines: tuple[BrokerLogLine, ...],
    options: question_command.Options,
    *,
    may_overwrite: bool,
) -> list[Given]:
    """Return the histories of the groups of a log; print a line for each that cannot be played.

    ``may_overwrite``: whether --overwrite is also for another file than that of --out.
    """
    if not options.groups:
        raise click.UsageError("name the group to rehearse: --group G")
    ask = generations.Parameters(broker_log_lines=broker_log_lines)
    if may_overwrite and options.out is None:
        options = replace(options, overwrite=False)
    by_group: dict[str, list[list[Row]]] = {}  # those of a partition of the topic together
    for part in question_command.parts_of(generations.NAME, ask, options):
        for group, of_part in itertools.groupby(part.rows, key=itemgetter("group_id")):
            by_group.setdefault(group, []).append(list(of_part))
    given: list[Given] = []
    for group, parts in by_group.items():
        parts.sort(key=lambda part: part[0]["timestamp"] or 0)  # the group may have moved
        history = _history(group, list(itertools.chain.from_iterable(parts)))
        if history is not None:
            given.append(Given(history, release_of(history), parts[0][0]["trusted_from"]))
    if by_group and not given:
        raise Failed("there is no group that can be rehearsed")
    return given


def _scenario(options: question_command.Options, of_logs: Mapping[str, object]) -> Given:
    """Return the history of a scenario's file; ``of_logs``: options that it cannot have."""
    path = options.logs.document
    assert path is not None
    times = {"--since": options.since_ms, "--until": options.until_ms}
    groups = {"--group": options.groups, "--group-exclude": options.excluded}
    for name, value in {**of_logs, **times, **groups}.items():
        if value not in (None, ()):
            raise click.UsageError(f"{name} is for LOG...; {path} is a scenario of one group")
    question_command.check(
        replace(options, overwrite=options.overwrite and options.out is not None)
    )
    try:
        history, kafka = scenario.read(read_json(Path(path)))
        kafka = None if kafka is None else release_named(kafka)
    except (OSError, ValueError, RecursionError, CoterieError) as error:
        raise Failed(f"{path}: {error_line(error)}") from None
    return Given(history, kafka or release_of(history))


def _check_one(option: str, given: list[Given]) -> None:
    """Raise a usage error if there are several groups."""
    if len(given) > 1:
        groups = ", ".join(shown(one.history.group) for one in given[:3])
        raise click.UsageError(f"{option} is for one group; these match: {groups}")


def _write_page(
    history: LoggedHistory, outcomes: list[result.Outcome], options: question_command.Options
) -> None:
    from coterie.histories.rehearsal.page import render

    with question_command.text_out(options.inputs, options.out, options.overwrite) as file:
        file.writelines(render(history, outcomes))


def _write_scenario(given: list[Given], out: str, options: question_command.Options) -> None:
    """Write the file of --scenario-out."""
    overwrite, inputs = options.overwrite, options.inputs
    for one in given:
        with (
            whole_file(out, overwrite=overwrite, inputs=inputs, option=SCENARIO_OUT) as part,
            text_of(part) as file,
        ):
            file.writelines(scenario.write(one.history, one.kafka))


def _variants(given: Given, texts: Iterable[str]) -> list[Variant]:
    """Return the variants of a history; raise a usage error if one does not go with it."""
    history, release, _ = given
    try:
        variants = [read_variant(text, release) for text in texts]
        for variant in (Variant(f"--kafka {release}", release), *variants):
            variant.of(history)
    except ArgumentError as error:
        raise click.UsageError(str(error)) from None
    return variants


def _say_bugs(releases: Iterable[str | None]) -> None:
    """Print what is known of the releases that cannot be played."""
    for release in releases:
        if release is not None and release not in PLAYABLE:
            for bug in bugs_of(release):
                say(f"coterie: Kafka {release}: {bug.ticket}: {bug.when}: {bug.what}")


def _history(group: str, rows: list[Row]) -> LoggedHistory | None:
    """Return the history of a group; print a line if it cannot be played."""
    try:
        return read_history(group, rows)
    except CoterieError as error:
        say(f"coterie: {error}")
        return None


def draw(rows: list[Row]) -> Iterator[tables.Piece]:
    """Yield a table for each group, and what the log does not say."""
    by_group: dict[str, list[Row]] = {}
    for row in rows:
        by_group.setdefault(row["group_id"], []).append(row)
    for group, of_group in by_group.items():
        lines = [_cells(row) for row in of_group]
        columns = [list(column) for column in zip(*lines, strict=True)]
        title = f"group {tables.shortened(printable(group))}"
        kinds = ["string", *["int64"] * 5, "string", "int64", "int64"]
        yield tables.Table(title, HEADINGS, kinds, columns)
        yield "\n".join(_notes(of_group[0])) + "\n"
        yield from _moments(of_group)
        yield "".join(f"{line}\n" for line in (*_findings(of_group), *_cuts(of_group)))


def _moments(rows: list[Row]) -> Iterator[tables.Piece]:
    """Yield a table of the moments that are worse than as it was, and how many are left out."""
    lines = [
        [
            printable(row["variant"]),
            format_time(moment["timestamp"]),
            printable(moment["cause"]),
            _more(moment, "lasted"),
            _more(moment, "unowned"),
            _more(moment, "longest_unowned"),
            _ended(moment["refused"]),
        ]
        for row in rows
        for moment in row["moments"]
    ]
    if lines:
        columns = [list(column) for column in zip(*lines, strict=True)]
        kinds = [tables.NAME, "timestamp", "string", *["int64"] * 3, "string"]
        yield tables.Table("worse than as it was", MOMENT_HEADINGS, kinds, columns)
        yield "in the worst play; (how much more than in any play as it was); all in s\n"
    variants = [row for row in rows if row["worse_moments"] is not None]
    left_out = [
        f"{more:,} of {printable(row['variant'])}"
        for row in variants
        if (more := row["worse_moments"] - len(row["moments"]))
    ]
    if left_out:
        yield f"moments left out, which are less bad: {', '.join(left_out)}\n"
    elif variants and not lines:
        yield "no moment is worse than as it was\n"


def _findings(rows: list[Row]) -> Iterator[str]:
    """Yield a line for each known bug that a variant met."""
    for row in rows:
        for one in row["findings"]:
            times = f", {counted(one['count'], 'time')}" if one["count"] > 1 else ""
            yield (
                f"{printable(row['variant'])}: {one['ticket']} at "
                f"{format_time(one['timestamp'])}{times}: {one['when']}: {one['what']}"
            )


def _cuts(rows: list[Row]) -> Iterator[str]:
    """Yield a line for each variant whose group does not settle."""
    for row in rows:
        if row["cut_at"] is not None:
            yield (
                f"{printable(row['variant'])}: the group goes on to rebalance and does not settle: "
                f"a play ends at {format_time(row['cut_at'])}, and the rest is not played"
            )


def _more(moment: Row, name: str) -> str:
    """Return the seconds of a moment, and how many more they are than in the history."""
    value, more = moment[f"{name}_ms"] / 1000, moment[f"{name}_more_ms"] / 1000
    return f"{value:,.1f} ({more:+,.1f})"


def _cells(row: Row) -> list[str]:
    return [
        printable(row["variant"]),
        *(_range(row, name, unit) for name, unit in PARTS.items()),
        _read_again(row),
        _ended(row["refused"]),
        _range(row, "requests", 1),
        _range(row, "record_bytes", 1),
    ]


def _read_again(row: Row) -> str:
    """Return how many records are read again; "?": of some partitions there is no bound."""
    if not row["uncommitted_most"]:
        return "0"
    if row["read_again_most"] is None:
        return "?"
    return f"0-{row['read_again_most']:,}" + ("+?" if row["unbounded_most"] else "")


def _ended(refused: list[Row]) -> str:
    """Return how many clients ended by an error, and by which."""
    count = sum(one["count"] for one in refused)
    return f"{count}: {', '.join(one['error'] for one in refused)}" if count else tables.MISSING


def _range(row: Row, name: str, unit: int) -> str:
    """Return the least and the most of all plays: one number if they are the same."""
    least, most = (row[f"{name}_{end}"] for end in ("least", "most"))
    if unit == 1:
        texts = f"{least:,}", f"{most:,}"
    else:
        texts = f"{least / unit:,.1f}", f"{most / unit:,.1f}"
    return texts[0] if texts[0] == texts[1] else f"{texts[0]}-{texts[1]}"


def _notes(row: Row) -> Iterator[str]:
    if row["records_in_log"]:  # a scenario may have none
        yield (
            f"the log has {counted(row['in_log'], 'rebalance')} and "
            f"{counted(row['records_in_log'], 'record')} of the group; the play as it was has "
            f"{row['same_members']:,} of these with the same members, {row['same_owners']:,} with "
            "the same owners"
        )
    for one in row["unknown"]:
        yield f"  the log does not say: {printable(one['what'])} ({one['count']:,})"
    yield "UNOWNED: partition-seconds without an owner; LONGEST of one, SETTLING of a rebalance: s"
    yield "READ AGAIN: records between the log's commits when a partition was lost without a commit"
