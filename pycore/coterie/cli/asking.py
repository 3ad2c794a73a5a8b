"""What every question's command has alike: its options, how it is put, how its rows come out.

A command is ``@question_options()`` over a function that makes the question's ``Parameters`` and
calls :func:`put`; or, where it says more than rows, :func:`parts_of` and :func:`show`.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from dataclasses import fields as fields_of
from pathlib import Path
from typing import Any, TextIO, TypeVar, cast

import click

from coterie.cli.failures import say, say_faults
from coterie.cli.groupnames import chosen_groups
from coterie.cli.logs import (
    Logs,
    Since,
    beyond_notes,
    listed,
    logs_argument,
    say_each,
    say_left_alone,
    trust_notes,
)
from coterie.cli.newest import Newest
from coterie.cli.nopandas import without_pandas
from coterie.cli.outfile import text_of, whole_file
from coterie.cli.params import (
    check_where,
    end_of,
    engine_options,
    group_option,
    since_option,
    until_option,
)
from coterie.cli.progress import TerminalProgress
from coterie.cli.tables import show_tables
from coterie.extras import missing_module
from coterie.insight.asking import (
    TRUSTED,
    Asker,
    PartitionAnswer,
    QuestionRequest,
    Row,
    find_asker,
    find_question,
    missing_groups,
)
from coterie.insight.render import tables
from coterie.insight.render.fields import Fields
from coterie.log.folders import Listing
from coterie.replay.engine import AUTO, Conf, Where, choose_engine
from coterie.times import format_time

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Draw = Callable[[list[Row]], Iterable[tables.Piece]]
ROWS_AT_ONCE = 20_000
FORMATS = ("table", "json", "csv", "parquet")


@dataclass(frozen=True)
class Options:
    """What every question's command is given: see :func:`question_options`."""

    logs: Logs
    groups: tuple[str, ...]
    form: str
    out: str | None
    overwrite: bool
    engine: str
    master: str | None
    conf: Conf = ()
    since_ms: int | None = None
    until_ms: int | None = None
    trusted_from_ms: Since = field(default_factory=dict)  # of what was compacted, once answered
    notes: list[str] = field(default_factory=list)  # to be said once the command is done

    @property
    def where(self) -> Where:
        """Where the command works."""
        return Where(self.engine, self.master, self.conf)


def question_options(*, first: str | None = None) -> Callable[[Decorated], Decorated]:
    """LOG..., --group, --since, --until, --format, --out, --engine and so on, for a command.

    It takes them as ``options`` and hands them on to :func:`put` or :func:`parts_of`. ``first`` is
    a format of its own, then its default. While the command works here, without Spark, nothing
    imports pandas.
    """
    formats = FORMATS if first is None else (first, *FORMATS)
    options = [
        logs_argument,
        group_option,
        click.option(
            "--format",
            "form",
            type=click.Choice(formats),
            default=formats[0],
            show_default=True,
            help="For people, or as data (times in epoch ms); parquet goes into a file.",
        ),
        since_option,
        until_option,
        click.option("-o", "--out", metavar="FILE", help="Write to FILE, complete or not at all."),
        click.option("--overwrite", is_flag=True, help="Replace FILE if it exists."),
        engine_options,
    ]

    def add(command: Decorated) -> Decorated:
        @functools.wraps(command)
        def run(*args: Any, **given: Any) -> Any:
            taken = {
                field.name: given.pop(field.name)
                for field in fields_of(Options)
                if field.name in given
            }
            logs, engine, master = (taken[name] for name in ("logs", "engine", "master"))
            if engine == AUTO:
                size_bytes = None if logs.by_url else logs.listing.size
                taken["engine"] = choose_engine(engine, master, size_bytes)
            with without_pandas(taken["engine"] == "local"):
                options = Options(**taken)
                with listed(logs, options.where):
                    try:
                        command(*args, options=options, **given)
                    except click.exceptions.Exit:
                        say_notes(options)
                        raise
                    say_notes(options)

        decorated: Any = run
        for option in reversed(options):
            decorated = option(decorated)
        return cast(Decorated, decorated)

    return add


def put(
    name: str,
    ask: Any,
    options: Options,
    *,
    at_ms: int | None = None,
    draw: Draw | None = None,
) -> int:
    """Put a question, print or write its rows, and return how many there are.

    Parameters
    ----------
    name
        Of the question, a module of ``coterie.insight``.
    ask
        Its ``Parameters``.
    options
        Those of :func:`question_options`.
    at_ms
        Only records whose own timestamp is not after this.
    draw
        Gives what to print for ``--format table``; by default one table of all fields.
    """
    parts = parts_of(name, ask, options, at_ms=at_ms)
    rows = itertools.chain.from_iterable(part.rows for part in parts)
    return show(find_question(name).FIELDS, rows, options, draw=draw)


def parts_of(
    name: str,
    ask: Any,
    options: Options,
    *,
    at_ms: int | None = None,
    newest: Newest | None = None,
) -> Iterator[PartitionAnswer]:
    """Yield the answer of each partition; say at the end what was left alone or out.

    Options that do not go together fail here, before anything is asked or written. ``newest`` finds
    the time of the newest record, if the command has to know it.

    Raises
    ------
    CoterieError
        What ``find_segments`` raises, or a group that was named is not in the log: then nothing
        is yielded before.
    """
    check(options)
    listing = options.logs.listing
    groups = chosen_groups(options.groups, listing, options.where)
    end_ms = until(options, at_ms)
    since_ms, (_, master, conf) = options.since_ms, options.where
    request = QuestionRequest(name, ask, listing, groups, end_ms, since_ms, master, conf)
    if at_ms is None:
        at_ms = getattr(ask, "at_ms", None)
    asker = find_asker(options.engine)
    return told_parts(request, listing, asker, options, at_ms, newest)


def say_notes(options: Options) -> None:
    """Say what stands beside an answer that was given."""
    say_each(options.notes)
    say_each(trust_notes(options.logs.listing, options.trusted_from_ms))


def until(options: Options, at_ms: int | None) -> int | None:
    """Return the time up to which records count; see ``coterie.cli.params.end_of``."""
    return end_of(at_ms, options.since_ms, options.until_ms)


def told_parts(
    request: QuestionRequest,
    listing: Listing,
    answer: Asker,
    options: Options,
    at_ms: int | None = None,
    newest: Newest | None = None,
) -> Iterator[PartitionAnswer]:
    """Yield the parts of an answer, with progress; see :func:`parts_of`.

    ``options`` gets what to say at the end: since when each partition can be trusted that was
    compacted. ``at_ms`` is the time that the answer is of, if one was given.
    """
    faults = 0
    newest_ms = -1
    with TerminalProgress() as progress:
        parts = answer(request, progress)
        if newest is not None:
            parts = newest.of(parts)
        if request.groups is not None:  # all of a group lies in one partition: few rows
            held = list(parts)
            found = frozenset().union(*(part.present_groups for part in held))
            whole = [part.trusted_from_ms for part in held if part.trusted_from_ms is not None]
            missing = missing_groups(request.groups, found, request.at_ms, max(whole, default=None))
            if missing is not None:
                raise missing
            parts = iter(held)
        for part in parts:
            faults += part.faults
            newest_ms = max(newest_ms, part.newest_ms)
            if part.trusted_from_ms is not None and (request.groups is None or part.present_groups):
                options.trusted_from_ms[part.number] = part.trusted_from_ms
            progress.clear()
            yield part
    say_left_out(listing, faults)
    if at_ms is not None and newest_ms >= 0:
        options.notes.extend(beyond_notes(at_ms, newest_ms))


def say_no_group(at_ms: int | None) -> None:
    """Say that there is nothing to show, so that an empty output is not taken for a failure."""
    say("coterie: no group to show" + ("" if at_ms is None else f" as of {format_time(at_ms)}"))


def say_left_out(listing: Listing, faults: int) -> None:
    """Say what of a log was left alone, and how many corrupt places were left out."""
    say_left_alone(listing)
    say_faults(faults)


def check(options: Options) -> None:
    """Refuse options that do not go together, as wrong usage."""
    if options.form == "parquet" and options.out is None:
        raise click.UsageError("--format parquet needs --out FILE")
    if options.overwrite and options.out is None:
        raise click.UsageError("--overwrite is for --out FILE")
    check_where(options.where)


def show(fields: Fields, rows: Iterable[Row], options: Options, *, draw: Draw | None = None) -> int:
    """Print rows, or write them into the file of ``--out``; return how many there are.

    ``fields`` are the question's own; ``trusted_from`` follows them.
    """
    own, fields = fields, {**fields, **TRUSTED}
    counted = Counted(rows)
    with out_file(options.logs.listing, options.out, options.overwrite) as path:
        if options.form == "parquet":
            assert path is not None  # `check` holds it
            write_parquet(fields, counted, path)
        else:
            with text_of(path) as out:
                if options.form == "json":
                    out.writelines(tables.json_lines(counted))
                elif options.form == "csv":
                    out.writelines(tables.csv_lines(fields, counted))
                else:
                    drawn = draw or (lambda held: [tables.table(with_trust(own, held), held)])
                    show_tables(drawn(list(counted)), out, path is None)
    return counted.count


def with_trust(fields: Fields, rows: Iterable[Row]) -> Fields:
    """Return the fields of a table, with ``trusted_from`` where any row has it."""
    told = any(row.get("trusted_from") is not None for row in rows)
    return {**fields, **TRUSTED} if told else fields


class Counted:
    """Rows that are counted as they pass."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = rows
        self.count = 0

    def __iter__(self) -> Iterator[Row]:
        for row in self.rows:
            self.count += 1
            yield row


def out_file(
    listing: Listing, out: str | None, overwrite: bool
) -> contextlib.AbstractContextManager[Path | None]:
    """Give the file of ``--out`` to write, which is no segment; None for standard output."""
    if out is None:
        return contextlib.nullcontext()
    keep = [segment.path for segment in listing.segments]
    return whole_file(out, overwrite=overwrite, keep=keep)


@contextlib.contextmanager
def text_out(listing: Listing, out: str | None, overwrite: bool) -> Iterator[TextIO]:
    """Give the file of ``--out``, or standard output, to write text to."""
    with out_file(listing, out, overwrite) as path, text_of(path) as file:
        yield file


def write_parquet(fields: Fields, rows: Iterable[Row], path: Path) -> None:
    """Write rows into a Parquet file, so many at once."""
    try:
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise missing_module(error) from error
    from coterie.insight.render.fields import arrow_schema, arrow_table

    remaining = iter(rows)
    with pq.ParquetWriter(path, arrow_schema(fields)) as writer:
        while held := list(itertools.islice(remaining, ROWS_AT_ONCE)):
            writer.write_table(arrow_table(fields, held))
