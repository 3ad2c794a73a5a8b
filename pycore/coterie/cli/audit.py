"""``coterie audit``: suspicious records of a log, each with its place."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

import click

from coterie.base.printable import printable, shell_words
from coterie.base.times import format_time
from coterie.cli import question_command
from coterie.cli.broker_logs import read_logs, request_log_options
from coterie.cli.failures import say
from coterie.cli.logs import Since
from coterie.cli.params import parameter_options
from coterie.insight import tables
from coterie.insight.groups.causes import counted
from coterie.insight.offsets.commit_findings import REWIND
from coterie.insight.offsets.divergence import Live, read_live
from coterie.insight.offsets.log_starts import OUT_OF_RANGE
from coterie.insight.question_engine import Row
from coterie.insight.questions import audit

SHOWN = (
    *("kind", "group_id", "topic", "partition", "detail", "timestamp"),
    *("offsets_partition", "log_offset", "file", "position"),
)
SUMMARY = {
    "group_id": "string",
    **dict.fromkeys(audit.SEVERITIES, "int64"),
    **{"first": "timestamp", "last": "timestamp", "kinds": ["string"]},
}
STYLES = {audit.DATA: "bold red", audit.PROGRESS: "bold yellow", audit.COST: "bold cyan"}
BEFORE_MS = 600_000  # of a finding, for what led to it
ONE_REWIND = re.compile(r"from \d+ back to |.* set back at once, by ")
WAYS_SHOWN = 5


@click.command("audit")
@question_command.question_options()
@click.option(
    "--only",
    multiple=True,
    type=click.Choice(list(audit.KINDS)),
    metavar="KIND",
    help=f"Look only for this; repeatable. Kinds: {', '.join(audit.KINDS)}.",
)
@click.option(
    "--except",
    "except_",
    multiple=True,
    type=click.Choice(list(audit.KINDS)),
    metavar="KIND",
    help="Do not look for this; repeatable.",
)
@parameter_options(audit.Parameters)
@click.option(
    "--top",
    type=click.IntRange(min=1),
    metavar="N",
    help="Report only the first N findings, the most severe ones.",
)
@request_log_options
@click.option(
    "--live",
    "live_file",
    metavar="FILE",
    help="JSON of what the Admin client returns, to compare with the log (docs/audit.md).",
)
def command(
    only: tuple[str, ...],
    except_: tuple[str, ...],
    live_file: str | None,
    request_logs: tuple[str, ...],
    log_zone: str,
    top: int | None,
    options: question_command.Options,
    **limits: int,
) -> None:
    """Look for what is wrong in a log; exit 1 if anything is found.

    Records that a group passed over or read again, commits and partitions that do not go on, open
    transactions, members that do not give up partitions, large metadata, generations without a
    record, static members that fence each other (with --request-log: whose), clients that come and
    go, a group id that several protocols or applications share, and, with --live or
    --bootstrap-server, where a live state is not the log's. A loop is one finding. The most severe
    come first: data lost or repeated, then no progress, then cost.
    """
    question_command.check(options)
    options.files.extend(request_logs)
    is_cluster = options.logs.servers is not None
    if audit.DIVERGENCE in only and live_file is None and not is_cluster:
        raise click.UsageError("--only divergence needs --live FILE, or --bootstrap-server")
    if OUT_OF_RANGE in only and not is_cluster:
        raise click.UsageError(f"--only {OUT_OF_RANGE} needs --bootstrap-server")
    kinds = tuple(kind for kind in only or audit.KINDS if kind not in except_)
    if not kinds:
        raise click.UsageError("--except leaves nothing of --only")
    live = None
    if live_file is not None or (is_cluster and {audit.DIVERGENCE, OUT_OF_RANGE} & {*kinds}):
        live = live_of(live_file, options, audit.DIVERGENCE in kinds)
    broker_log_lines = read_logs((), request_logs, log_zone)
    ask = audit.Parameters(only=kinds, live=live, broker_log_lines=broker_log_lines, **limits)
    parts = question_command.parts_of(audit.NAME, ask, options)
    rows = audit.in_order(row for part in parts for row in part.rows)
    question_command.show(
        audit.FIELDS,
        rows[:top],
        options,
        draw=partial(
            draw,
            every_row=rows,
            trusted_from_ms=options.trusted_from_ms,
            log=options.logs.on_command_line,
        ),
    )
    if live is not None and live.partition_count is None and not is_cluster:
        say(
            "coterie: the log has not all partitions of the topic, so a live group without any "
            "record is not told"
        )
    if rows:
        raise click.exceptions.Exit(1)


def live_of(file: str | None, options: question_command.Options, described: bool) -> Live:
    """Return the live state, of ``--live`` or of the cluster, and the topic's partitions.

    ``described``: whether the groups of a cluster are described.
    """
    if file is None:
        from coterie.cli.live_state import live_state  # with asyncio, which takes long to import

        live = live_state(options, described)
    else:
        options.files.append(file)
        live = Live(read_live(file))
    return replace(live, partition_count=options.logs.listing.partition_count())


def draw(
    rows: list[Row], every_row: list[Row], trusted_from_ms: Since, log: str = "LOG"
) -> Iterator[tables.Piece]:
    """Yield a summary by group, the findings, and the first record that a live state contradicts.

    ``every_row``: all findings; ``rows``: those of ``--top``; ``log``: of the commands to go on.
    """
    if not rows:
        since_ms = max(trusted_from_ms.values(), default=None)
        since = "" if since_ms is None else f" since {format_time(since_ms)}; compacted before"
        yield "nothing found" + since
        return
    yield from summary(rows, every_row)
    left_out = len(every_row) - len(rows)
    title = f"the first {len(rows):,} of {len(every_row):,} findings" if left_out else None
    table = tables.table({name: audit.FIELDS[name] for name in SHOWN}, rows, title)
    yield table._replace(blocks=(paragraph(row, log) for row in rows))
    if back := ways_back(rows, log):
        left_out = len(back) - WAYS_SHOWN
        more = [f"and of {counted(left_out, 'more group')}"] if left_out > 0 else []
        yield "\n".join(["the way back from a rewind:", *back[:WAYS_SHOWN], *more, ""])
    differing = [
        row for row in rows if row["kind"] == audit.DIVERGENCE and row["log_offset"] is not None
    ]
    if differing:
        first = min(differing, key=lambda row: (row["timestamp"] or 0, row["log_offset"]))
        time = "-" if first["timestamp"] is None else format_time(first["timestamp"])
        yield printable(
            f"first differing record: {first['file']}, byte {first['position']}, "
            f"offset {first['log_offset']}, {time}"
        )


def ways_back(rows: list[Row], log: str) -> list[str]:
    """Return the command that shows the way back from the first rewind of each group.

    A loop has no way back, nor have offsets that were removed before.
    """
    commands: dict[str, str] = {}
    for row in sorted(rows, key=lambda row: row["timestamp"] or 0):
        if row["kind"] == REWIND and ONE_REWIND.match(row["detail"] or "") and row["timestamp"]:
            before = ["--group", row["group_id"], "--before", format_time(row["timestamp"])]
            commands.setdefault(row["group_id"], f"coterie undo {log} {shell_words(before)}")
    return list(commands.values())


def paragraph(row: Row, log: str) -> tables.Block:
    """Return a finding as a paragraph: what, who, since when, where, the command to go on with."""
    topic = row["topic"] or ""
    topic = topic if row["partition"] is None else f"{topic}-{row['partition']}"
    first, last = row["first"] or row["timestamp"], row["last"] or row["timestamp"]
    times = [f"at {format_time(first)}"] if first is not None else []
    if first != last:
        times = [f"since {format_time(first)}", f"until {format_time(last)}"]
    record = f"offset {row['log_offset']}, byte {row['position']} of {row['file']}"
    since = [] if first is None else ["--since", format_time(max(first - BEFORE_MS, 0))]
    lines = [
        [row["kind"], f"group {row['group_id'] or ''}", topic, audit.SEVERITIES[row["severity"]]],
        [row["detail"] or ""],
        times,
        [record] if row["file"] is not None else [],
    ]
    command = f"coterie explain {log} {shell_words(['--group', row['group_id'], *since])}"
    return tables.Block(
        [list(filter(None, line)) for line in lines], STYLES[row["severity"]], command
    )


def summary(rows: list[Row], every_row: list[Row]) -> Iterator[tables.Piece]:
    """Yield a line for each group: its findings by severity, and their time."""
    counts = Counter(row["kind"] for row in every_row)
    title = ", ".join(f"{counts[kind]} {kind}" for kind in audit.KINDS if counts[kind])
    by_group: dict[str, list[Row]] = {row["group_id"]: [] for row in rows}
    every_group = {row["group_id"] for row in every_row}
    for row in every_row:
        if row["group_id"] in by_group:
            by_group[row["group_id"]].append(row)
    lines = []
    for group, of_group in by_group.items():
        severities = Counter(row["severity"] for row in of_group)
        firsts = [row["first"] for row in of_group if row["first"] is not None]
        lasts = [row["last"] for row in of_group if row["last"] is not None]
        lines.append(
            {
                "group_id": group,
                **{severity: severities[severity] or None for severity in audit.SEVERITIES},
                "first": min(firsts, default=None),
                "last": max(lasts, default=None),
                "kinds": list(dict.fromkeys(row["kind"] for row in of_group)),
            }
        )
    piece = tables.table(SUMMARY, lines, title)
    headings = [audit.SEVERITIES.get(name, tables.heading(name)).upper() for name in SUMMARY]
    yield piece._replace(headings=headings)
    if len(by_group) < len(every_group):
        yield f"and {counted(len(every_group) - len(by_group), 'more group')} with findings\n"
