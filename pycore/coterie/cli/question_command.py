"""The common part of the commands that ask a log a question: options, request, output.

A command is a function with ``@question_options()``. It makes the question's ``Parameters``, gets
the answers of :func:`parts_of` and outputs the rows with :func:`show`.
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

from coterie.base.atomic_file import check_file
from coterie.base.extras import missing_module
from coterie.base.terminal import write_data
from coterie.base.times import format_time
from coterie.cli.failures import say, say_faults
from coterie.cli.group_names import chosen_groups
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
from coterie.cli.output_file import text_of, whole_file
from coterie.cli.params import (
    check_where,
    end_of,
    engine_options,
    group_exclude_option,
    group_option,
    since_option,
    until_option,
)
from coterie.cli.progress import TerminalProgress
from coterie.cli.tables import show_tables
from coterie.insight import tables
from coterie.insight.fields import Fields
from coterie.insight.question_engine import (
    TRUSTED,
    Asker,
    PartitionAnswer,
    QuestionRequest,
    Row,
    find_asker,
    missing_groups,
)
from coterie.log.clock_notes import ClockNotes
from coterie.log.folders import Listing
from coterie.state.redpanda import REDPANDA
from coterie.state.replay_engine import AUTO, Conf, Where, choose_engine

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Draw = Callable[[list[Row]], Iterable[tables.Piece]]
ROWS_AT_ONCE = 20_000
FORMATS = ("table", "json", "csv", "parquet")
PAGE = "html"


@dataclass(frozen=True)
class Options:
    """The common options of a question's command: see :func:`question_options`."""

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
    excluded: tuple[str, ...] = ()  # ids and patterns of groups to leave out
    trusted_from_ms: Since = field(default_factory=dict)  # set by the answer
    clocks: ClockNotes = field(default_factory=ClockNotes)  # set by the answer
    notes: list[str] = field(default_factory=list)  # printed after the answer
    files: list[str] = field(default_factory=list)  # read beside the log

    @property
    def where(self) -> Where:
        """The engine with its settings."""
        return Where(self.engine, self.master, self.conf)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The files and folders that no output may replace, or lie in."""
        return (*self.logs.inputs, *self.files)


def question_options(
    *, first: str | None = None, page: bool = False, excludes: bool = True, documents: bool = False
) -> Callable[[Decorated], Decorated]:
    """Add LOG..., --group, --group-exclude, --since, --until, --format and so on to a command.

    The command gets them as ``options`` and passes them to :func:`parts_of` and :func:`show`.
    ``first`` is a format of the command itself, which becomes the default; ``page``: whether it
    makes html, too; ``excludes``: whether to add --group-exclude; ``documents``: whether the
    command reads a JSON file in place of a log. Without Spark, the command cannot import pandas.
    """
    formats = (*([first] if first else []), *FORMATS, *([PAGE] if page else []))
    in_files = "parquet and html go into a file" if page else "parquet goes into a file"
    options = [
        logs_argument,
        group_option,
        *([group_exclude_option] if excludes else []),
        click.option(
            "--format",
            "form",
            type=click.Choice(formats),
            default=formats[0],
            show_default=True,
            help=f"For people, or as data (times in epoch ms); {in_files}.",
        ),
        since_option,
        until_option,
        click.option("-o", "--out", metavar="FILE", help="Write to FILE, complete or not at all."),
        click.option("--overwrite", is_flag=True, help="Replace FILE if it exists."),
        engine_options,
    ]

    def add(command: Decorated) -> Decorated:
        @functools.wraps(command)
        def run(*args: Any, **arguments: Any) -> Any:
            common = {
                field.name: arguments.pop(field.name)
                for field in fields_of(Options)
                if field.name in arguments
            }
            logs, engine, master = (common[name] for name in ("logs", "engine", "master"))
            if documents and logs.document is not None:
                logs.leave_out()
            if engine == AUTO:
                size_bytes = None if logs.by_url else logs.listing.size
                common["engine"] = choose_engine(engine, master, size_bytes)
            with without_pandas(common["engine"] == "local"):
                options = Options(**common)
                with listed(logs, options.where):
                    try:
                        command(*args, options=options, **arguments)
                    except click.exceptions.Exit:
                        say_notes(options)
                        raise
                    say_notes(options)

        decorated: Any = run
        for option in reversed(options):
            decorated = option(decorated)
        return cast(Decorated, decorated)

    return add


def parts_of(
    name: str,
    ask: Any,
    options: Options,
    *,
    at_ms: int | None = None,
    newest: Newest | None = None,
) -> Iterator[PartitionAnswer]:
    """Ask a question; return the answer of each partition.

    Contradictory options fail before the log is read. At the end of the iteration, lines on
    standard error say which files were skipped and how many corrupt places there are.

    Parameters
    ----------
    name
        The question: a module of ``coterie.insight.questions``.
    ask
        The question's ``Parameters``.
    options
        The options of :func:`question_options`.
    at_ms
        Records with a later timestamp do not count.
    newest
        Gets the time of the newest record, for a command that needs it.

    Raises
    ------
    CoterieError
        The log cannot be listed, or a requested group is not in it; then no answer is yielded.
    """
    check(options)
    listing = options.logs.listing
    if options.out is not None:  # before any work
        check_file(options.out, overwrite=options.overwrite, inputs=options.inputs)
    groups = chosen_groups(options.groups, listing, options.where, options.excluded)
    end_ms = until(options, at_ms)
    since_ms, (_, master, conf) = options.since_ms, options.where
    request = QuestionRequest(name, ask, listing, groups, end_ms, since_ms, master, conf)
    if at_ms is None:
        at_ms = getattr(ask, "at_ms", None)
    asker = find_asker(options.engine)
    return partition_answers(request, listing, asker, options, at_ms, newest)


def say_notes(options: Options) -> None:
    """Print the notes on an answer."""
    say_each(options.notes)
    say_each(trust_notes(options.logs.listing, options.trusted_from_ms))


def until(options: Options, at_ms: int | None) -> int | None:
    """Return the time after which records do not count; see ``coterie.cli.params.end_of``."""
    return end_of(at_ms, options.since_ms, options.until_ms)


def partition_answers(
    request: QuestionRequest,
    listing: Listing,
    answer: Asker,
    options: Options,
    at_ms: int | None = None,
    newest: Newest | None = None,
) -> Iterator[PartitionAnswer]:
    """Yield the answers of the partitions, with progress; see :func:`parts_of`.

    Adds to ``options`` since when compacted partitions can be trusted, and the notes. ``at_ms`` is
    the time of ``--at``, if given.
    """
    faults = 0
    newest_ms = -1
    is_redpandas = False
    with TerminalProgress() as progress:
        parts = answer(request, progress)
        if newest is not None:
            parts = newest.of(parts)
        if request.groups is not None:  # few rows
            answers = list(parts)
            present = frozenset().union(*(part.present_groups for part in answers))
            trusted = [part.trusted_from_ms for part in answers if part.trusted_from_ms is not None]
            # A group that no option names may begin after the requested time.
            named = request.groups & set(options.groups) if options.excluded else request.groups
            missing = missing_groups(named, present, request.at_ms, max(trusted, default=None))
            if missing is not None:
                raise missing
            parts = iter(answers)
        for part in parts:
            faults += part.faults
            newest_ms = max(newest_ms, part.newest_ms)
            is_redpandas |= part.is_redpandas
            if request.groups is None or part.present_groups:
                options.clocks.take(part.number, part.clock_steps, part.cut, part.begin)
                if part.trusted_from_ms is not None:
                    options.trusted_from_ms[part.number] = part.trusted_from_ms
            progress.clear()
            yield part
    say_left_out(listing, faults)
    if is_redpandas:
        options.notes.append(REDPANDA)
    options.notes.extend(options.clocks.notes())
    if at_ms is not None and newest_ms >= 0:
        options.notes.extend(beyond_notes(at_ms, newest_ms))
    if request.since_ms is not None and newest_ms >= 0:
        options.notes.extend(beyond_notes(request.since_ms, newest_ms, is_since=True))


def say_no_group(at_ms: int | None) -> None:
    """Explain an empty output: the log has no group to show."""
    say("coterie: no group to show" + ("" if at_ms is None else f" as of {format_time(at_ms)}"))


def say_left_out(listing: Listing, faults: int) -> None:
    """Print which files of a log were skipped, and the number of corrupt places."""
    say_left_alone(listing)
    say_faults(faults)


def check(options: Options) -> None:
    """Raise a usage error for contradictory options."""
    if options.form in ("parquet", PAGE) and options.out is None:
        raise click.UsageError(f"--format {options.form} needs --out FILE")
    if options.overwrite and options.out is None:
        raise click.UsageError("--overwrite is for --out FILE")
    check_where(options.where)


def show(
    fields: Fields, rows: Iterable[Row], options: Options, *, draw: Draw | None = None
) -> bool:
    """Print rows, or write them to the file of ``--out``; return whether there were any.

    ``fields`` are the fields of the question; ``trusted_from`` is added. ``draw`` makes the output
    of ``--format table`` from all rows; the default is one table of all fields.
    """
    own, fields = fields, {**fields, **TRUSTED}
    noted = Noted(rows)
    with out_file(options.inputs, options.out, options.overwrite) as path:
        if options.form == "parquet":
            assert path is not None  # see `check`
            write_parquet(fields, noted, path)
        else:
            with text_of(path) as out:
                if options.form == "json":
                    write_data(tables.json_lines(noted), out)
                elif options.form == "csv":
                    write_data(tables.csv_lines(fields, noted), out)
                else:
                    drawn = draw or (lambda rows: [tables.table(with_trust(own, rows), rows)])
                    show_tables(drawn(list(noted)), out, path is None)
    return noted.found


def with_trust(fields: Fields, rows: Iterable[Row]) -> Fields:
    """Return the fields of a table, with ``trusted_from`` if a row has it."""
    has_trust = any(row.get("trusted_from") is not None for row in rows)
    return {**fields, **TRUSTED} if has_trust else fields


class Noted:
    """An iterable of rows that notes whether there are any."""

    def __init__(self, rows: Iterable[Row]) -> None:
        self.rows = rows
        self.found = False

    def __iter__(self) -> Iterator[Row]:
        for row in self.rows:
            self.found = True
            yield row


def out_file(
    inputs: Iterable[str], out: str | None, overwrite: bool
) -> contextlib.AbstractContextManager[Path | None]:
    """Yield the temporary file of ``--out``; None for standard output."""
    if out is None:
        return contextlib.nullcontext()
    return whole_file(out, overwrite=overwrite, inputs=inputs)


@contextlib.contextmanager
def text_out(inputs: Iterable[str], out: str | None, overwrite: bool) -> Iterator[TextIO]:
    """Open the file of ``--out``, or standard output, for text."""
    with out_file(inputs, out, overwrite) as path, text_of(path) as file:
        yield file


def write_parquet(fields: Fields, rows: Iterable[Row], path: Path) -> None:
    """Write rows to a Parquet file, in batches."""
    try:
        import pyarrow.parquet as pq
    except ModuleNotFoundError as error:
        raise missing_module(error) from error
    from coterie.insight.fields import arrow_schema, arrow_table

    remaining = iter(rows)
    with pq.ParquetWriter(path, arrow_schema(fields)) as writer:
        while batch := list(itertools.islice(remaining, ROWS_AT_ONCE)):
            writer.write_table(arrow_table(fields, batch))
