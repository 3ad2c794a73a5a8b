"""``coterie explain``: a group's timeline, with the cause of each generation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from functools import partial

import click

from coterie.base.printable import printable
from coterie.base.times import format_time
from coterie.cli import question_command
from coterie.cli.broker_logs import read_logs, request_log_options, server_log_option
from coterie.cli.failures import say
from coterie.cli.params import at_option, parameter_options
from coterie.insight import tables
from coterie.insight.groups.causes import counted
from coterie.insight.question_engine import PartitionAnswer, Row
from coterie.insight.questions import explain, explain_removals
from coterie.insight.questions.explain_text import cause_of, summed, waited
from coterie.insight.questions.server_log import REFUSED
from coterie.insight.questions.server_log_lines import REQUESTS, SERVER, BrokerLogLine

SHOWN = {
    "timestamp": "timestamp",
    "generation": "int32",
    "member_count": "int32",
    "event": "string",
    "cause": "string",
    "duration": "int64",
}
HEADINGS = ("TIME", "GEN", "MEMBERS", "EVENT", "CAUSE", "NO ASSIGNMENT")
GROUPS_NAMED = 5
CLIENTS_NAMED = 20


def number_of_clients(ctx: click.Context, param: click.Parameter, value: str) -> int | None:
    """Return the number of clients in ``N|all``; None: all."""
    try:
        number = None if value == "all" else int(value)
    except ValueError:
        number = -1
    if number is not None and number < 0:
        raise click.BadParameter(f"{value!r} is no number of clients; write 50, or all", ctx, param)
    return number


@click.command("explain")
@question_command.question_options()
@at_option
@server_log_option
@request_log_options
@parameter_options(explain.Parameters)
@click.option(
    "--clients",
    "clients_named",
    default=str(CLIENTS_NAMED),
    show_default=True,
    metavar="N|all",
    callback=number_of_clients,
    help="Lines of clients at the end of a group's table, those with most rebalances first.",
)
def command(
    at_ms: int | None,
    server_logs: tuple[str, ...],
    request_logs: tuple[str, ...],
    log_zone: str,
    flap_count: int,
    flap_window_ms: int,
    clients_named: int | None,
    options: question_command.Options,
) -> None:
    """Show the life of groups: who joined, left or changed what, and what was committed between.

    A record names members, not reasons: of a member that is gone, the log shows only that it "left
    or was evicted". A broker's own logs, if given, show more. NO ASSIGNMENT is how long the
    rebalance took. Without a server log there is at most an upper bound (<), from the group's
    record just before.
    """
    options.files.extend((*server_logs, *request_logs))
    broker_log_lines = read_logs(server_logs, request_logs, log_zone)
    ask = explain.Parameters(flap_count, flap_window_ms, broker_log_lines)
    seen: set[str] = set()
    parts = question_command.parts_of(explain.NAME, ask, options, at_ms=at_ms)
    rows = rows_of(parts, seen)
    if not question_command.show(
        explain.FIELDS, rows, options, draw=partial(draw, clients_named=clients_named)
    ):
        question_command.say_no_group(at_ms)
    for source in (SERVER, REQUESTS):
        say_unmatched(source, [line for line in broker_log_lines if line.source == source], rows)
    if not options.groups:
        say_refused(broker_log_lines, seen)


def rows_of(parts: Iterable[PartitionAnswer], seen: set[str]) -> list[Row]:
    """Return the rows of all parts; add their groups to ``seen``."""
    rows = [row for part in parts for row in part.rows]
    seen.update(row["group_id"] for row in rows)
    explain_removals.compare_partitions(rows)
    return rows


def say_unmatched(source: str, lines: list[BrokerLogLine], rows: list[Row]) -> None:
    """Print a line if a kind of broker's log says nothing about the rows' groups.

    No line is printed if the log has no event that a broker's log could explain, or if the broker's
    log has refused joins.
    """
    known = [row for row in rows if row["event"] not in (*explain.SUMMARIES, explain.COMMITS)]
    times = [row["timestamp"] for row in known if row["timestamp"] is not None]
    is_used = any(is_from(source, row) for row in known)
    if not lines or not times or is_used or any(line.what == REFUSED for line in lines):
        return
    spans = [[line.at_ms for line in lines], times]
    covered, events = (f"{format_time(min(ms))} to {format_time(max(ms))}" for ms in spans)
    say(
        f"coterie: the {source} explains no event: its lines are of {covered}, the events of "
        f"{events}; is it of another cluster or of other hours (--log-zone)?"
    )


def is_from(source: str, row: Row) -> bool:
    """Whether a row has something from a kind of broker's log."""
    if source == SERVER and (row["reason"] or row["duration_source"] == SERVER):
        return True
    return any(cause["source"] == source for cause in row["causes"])


def say_refused(broker_log_lines: Iterable[BrokerLogLine], seen: Collection[str]) -> None:
    """Print the groups that have no record, only refused joins in the broker's logs."""
    refused: dict[str, list[BrokerLogLine]] = {}
    for line in broker_log_lines:
        if line.what == REFUSED and line.group not in seen:
            refused.setdefault(line.group, []).append(line)
    for group, lines in list(refused.items())[:GROUPS_NAMED]:
        errors = Counter((line.detail or "").partition(";")[0] for line in lines)
        names = ", ".join(f"{count} x {name}" for name, count in errors.items())
        times = [line.at_ms for line in lines]
        span = " to ".join(dict.fromkeys(map(format_time, (min(times), max(times)))))
        what = f"group {group!r} has no record, but joins to it were refused: {names}"
        say(f"coterie: {what}, {span}")
    if len(refused) > GROUPS_NAMED:
        say(f"coterie: so it is with {len(refused) - GROUPS_NAMED} more groups")


def draw(rows: list[Row], clients_named: int | None = CLIENTS_NAMED) -> Iterator[tables.Piece]:
    """Yield a table and a summary for each group, with at most so many clients (None: all)."""
    by_group: dict[str, list[Row]] = {}
    for row in rows:
        by_group.setdefault(row["group_id"], []).append(row)
    for group, group_rows in by_group.items():
        yield table_of(group, [row for row in group_rows if row["event"] not in explain.SUMMARIES])
        yield "\n".join(sum_lines(group_rows, clients_named)) + "\n"


def table_of(group: str, rows: list[Row]) -> tables.Table:
    """Return the timeline of a group."""
    lines: list[list[str]] = []
    missing = False
    for row in rows:
        late = row["timestamp"] is None or row["timestamp"] >= (row["trusted_from"] or 0)
        if missing and late:
            whole = f"from here on nothing is missing: since {format_time(row['trusted_from'])}"
            lines.append(["", "", "", "", whole, ""])
        missing = not late
        cells = {**row, "cause": cause_of(row), "duration": waited(row)}
        lines.append([tables.cell(cells[name], kind) for name, kind in SHOWN.items()])
    title = f"group {tables.shortened(printable(group))}"
    columns = [[line[place] for line in lines] for place in range(len(HEADINGS))]
    return tables.Table(title, HEADINGS, list(SHOWN.values()), columns)


def sum_lines(rows: list[Row], clients_named: int | None) -> Iterator[str]:
    """Yield a group's summary: totals, flapping clients, clients that cause rebalances."""
    for row in rows:
        if row["event"] == "summary":
            yield printable(summed(row))
    clients = 0
    for row in rows:
        if row["event"] == "client":
            clients += 1
            if clients_named is None or clients <= clients_named:
                yield f"  {printable(row['cause'])} ({counted(row['count'], 'rebalance')})"
        elif row["event"] in explain.SUMMARIES[:-1]:
            yield f"  {printable(row['cause'])}"
    if clients_named is not None and clients > clients_named:
        yield f"  {counted(clients - clients_named, 'more client')}: --clients all shows them"
