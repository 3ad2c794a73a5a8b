"""``coterie explain``: a group's life as a timeline, each generation with its cause."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from coterie.cli import asking
from coterie.cli.failures import Failed, say
from coterie.cli.params import DURATION, at_option
from coterie.errors import CoterieError
from coterie.insight import brokerlog, explain, shapes
from coterie.insight.asking import Row
from coterie.insight.causes import counted
from coterie.insight.timeline import EMPTY, GENERATION
from coterie.times import format_time
from coterie.traces.files import open_text

if TYPE_CHECKING:
    from rich.console import RenderableType

SHOWN = {
    "timestamp": "timestamp",
    "generation": "int32",
    "member_count": "int32",
    "event": "string",
    "cause": "string",
    "duration": "int64",  # drawn as one
}
HEADINGS = ("TIME", "GEN", "MEMBERS", "EVENT", "CAUSE", "NO ASSIGNMENT")
SUMS = ("flapping", "client", "summary")
ZONE = re.compile(r"Z|[+-]\d\d:?\d\d")
# What a coordinator says beside its reason: the random part of a member id, and what is not there.
UNSAID = re.compile(
    r"-[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
    r"|; client reason: not provided| with group instance id None"
)
Reading = Callable[[Iterable[str], str], Iterator[brokerlog.Told]]


def zone_of(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """Check a zone, as wrong usage."""
    if not ZONE.fullmatch(value):
        raise click.BadParameter(f"{value!r} is no zone; write +02:00 or Z", ctx, param)
    return value


@click.command("explain")
@asking.question_options()
@at_option
@click.option(
    "--server-log",
    "server_logs",
    metavar="FILE",
    multiple=True,
    help="The broker's server log (.gz or not): reasons, evictions, times; repeatable.",
)
@click.option(
    "--request-log",
    "request_logs",
    metavar="FILE",
    multiple=True,
    help="kafka.request.logger's at DEBUG: who joined and left, and why (KIP-800); repeatable.",
)
@click.option(
    "--log-zone",
    default="Z",
    show_default=True,
    metavar="ZONE",
    callback=zone_of,
    help="Zone of the times in those logs, as +02:00.",
)
@click.option(
    "--flap-count",
    type=click.IntRange(min=2),
    default=explain.Ask.flap_count,
    show_default=True,
    help="A client that joins and leaves so often within --flap-window is flapping.",
)
@click.option("--flap-window", type=DURATION, default="10m", show_default=True)
def command(
    at_ms: int | None,
    server_logs: tuple[str, ...],
    request_logs: tuple[str, ...],
    log_zone: str,
    flap_count: int,
    flap_window: int,
    options: asking.Options,
) -> None:
    """Show the life of groups: who joined, left or changed what, and what was committed between.

    A record names members, not reasons: "left or was evicted" is all that the log tells of one
    that is gone. A broker's own logs tell more, where they are given. NO ASSIGNMENT is how long
    the group waited for its assignment: at least (>), as records tell only the end of a rebalance.
    """
    told = [
        *read_told(server_logs, brokerlog.read_server_log, log_zone),
        *read_told(request_logs, brokerlog.read_request_log, log_zone),
    ]
    ask = explain.Ask(flap_count, flap_window, tuple(told))
    if not asking.put(explain.NAME, ask, options, at_ms=at_ms, draw=draw):
        asking.say_no_group(at_ms)


def read_told(names: Iterable[str], read: Reading, zone: str) -> Iterator[brokerlog.Told]:
    """Yield what a broker's logs say; fail in one line where one cannot be read."""
    for name in names:
        told = list(read_one(name, read, zone))
        if not told:
            say(f"coterie: {name}: says nothing of any group; is it the log of this option?")
        yield from told


def read_one(name: str, read: Reading, zone: str) -> Iterator[brokerlog.Told]:
    """Yield what one log says."""
    try:
        with open_text(Path(name)) as lines:
            yield from read(lines, zone)
    except (UnicodeDecodeError, EOFError, zlib.error) as error:
        raise Failed(f"{name}: cannot be read as text ({error}); copy it again") from error
    except CoterieError as error:
        raise Failed(f"{name}: {error}") from error


def draw(rows: list[Row]) -> Iterator[RenderableType]:
    """Yield a table and what sums it up for each group."""
    by_group: dict[str, list[Row]] = {}
    for row in rows:
        by_group.setdefault(row["group_id"], []).append(row)
    for group, theirs in by_group.items():
        yield table_of(group, [row for row in theirs if row["event"] not in SUMS])
        yield shapes.text("\n".join(sum_lines(theirs)) + "\n")


def table_of(group: str, rows: list[Row]) -> RenderableType:
    """Return the timeline of a group."""
    table = shapes.plain_table(f"group {shapes.printable(group)}")
    for heading, kind in zip(HEADINGS, SHOWN.values(), strict=True):
        shapes.add_column(table, heading, kind)
    for row in rows:
        cells = {**row, "cause": cause_of(row), "duration": waited(row)}
        table.add_row(
            *(shapes.text(shapes.cell(cells[name], kind)) for name, kind in SHOWN.items())
        )
    return table


def cause_of(row: Row) -> str:
    """Return the cause, with the coordinator's own reason and how long a time without members."""
    text: str = row["cause"]
    if row["reason"]:
        text += f" [server log: {UNSAID.sub('', row['reason'])}]"
    if row["event"] == EMPTY and row["duration_ms"] is not None:
        text += f" for {seconds(row['duration_ms'])}"
    if row["event"] == explain.COMMITS and row["until"] != row["timestamp"]:
        text += f" until {format_time(row['until'])[11:]}"
    return text


def waited(row: Row) -> str | None:
    """Return how long a rebalance left the group without an assignment."""
    if row["event"] != GENERATION or row["duration_ms"] is None:
        return None
    return ("" if row["duration_source"] else "> ") + seconds(row["duration_ms"])


def seconds(duration_ms: int) -> str:
    """Return a duration for people."""
    return f"{duration_ms / 1000:.3f} s" if duration_ms < 60_000 else f"{duration_ms // 1000:,} s"


def sum_lines(rows: list[Row]) -> Iterator[str]:
    """Yield what sums up a group: the whole, who flaps, who causes rebalances."""
    for row in rows:
        if row["event"] == "summary":
            text = shapes.printable(row["cause"])
            if row["duration_ms"]:
                bound = "" if row["duration_source"] else "at least "
                text += f", without an assignment for {bound}{seconds(row['duration_ms'])}"
            yield text
    for row in rows:
        if row["event"] in SUMS[:2]:
            count = f" ({counted(row['count'], 'rebalance')})" if row["event"] == "client" else ""
            yield f"  {shapes.printable(row['cause'])}{count}"
