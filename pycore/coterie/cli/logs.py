"""The argument LOG... of a command, and the notes on a log beside an answer."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, cast

import click

from coterie.base.printable import shell_words
from coterie.base.times import format_time
from coterie.cli.failures import say
from coterie.cli.params import bootstrap_options
from coterie.cli.progress import TerminalProgress
from coterie.errors import CoterieError
from coterie.log.folders import Listing, find_segments, is_url, left_alone
from coterie.log.topic_id import topics_note
from coterie.log.trust import trust_lines
from coterie.state.replay_engine import LISTERS, Where, find_entry

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
Since = dict["int | None", int]
DOCUMENTS = (".json", ".json.gz")
READ = ("offsets_partition", "start_offset", "end_offset")


class Logs:
    """LOG..., listed once, at the first use.

    Attributes
    ----------
    paths : tuple of str
        The paths of the command line.
    include_deleted : bool
        See ``coterie.log.folders.find_segments``.
    servers, client_file : str or None
        ``--bootstrap-server`` and ``--command-config``: the path is then a copy of the cluster's.
    """

    def __init__(
        self,
        paths: tuple[str, ...],
        include_deleted: bool = False,
        servers: str | None = None,
        client_file: str | None = None,
    ) -> None:
        self.paths = paths
        self.include_deleted = include_deleted
        self.servers, self.client_file = servers, client_file

    @property
    def by_url(self) -> bool:
        """Whether a path is a URL, which only Spark reads."""
        return any(map(is_url, self.paths))

    @functools.cached_property
    def listing(self) -> Listing:
        """The segments; raises what ``find_segments`` raises."""
        listing = find_segments(self.paths, include_deleted=self.include_deleted)
        if self.servers is None:
            return listing
        segments = (replace(segment, origin=self.servers) for segment in listing.segments)
        return replace(listing, segments=tuple(segments))

    @property
    def document(self) -> str | None:
        """The path of a JSON file, if that is all there is: a command's own document."""
        is_one = len(self.paths) == 1 and self.paths[0].endswith(DOCUMENTS)
        return self.paths[0] if is_one else None

    def leave_out(self) -> None:
        """List no segments: the command reads the path in its own way."""
        vars(self)["listing"] = Listing((), ())

    @property
    def shown(self) -> str:
        """The paths, or the cluster, as text."""
        return ", ".join(self.paths) if self.servers is None else self.servers

    @property
    def on_command_line(self) -> str:
        """The paths, or the options of the cluster, for another command."""
        if self.servers is None:
            return shell_words(self.paths)
        config = [] if self.client_file is None else ["--command-config", self.client_file]
        return shell_words(["--bootstrap-server", self.servers, *config])

    def list_again(self) -> None:
        """List the segments anew at the next use."""
        vars(self).pop("listing", None)

    @property
    def inputs(self) -> tuple[str, ...]:
        """The files and folders that no output may replace, or lie in; none for URLs."""
        if self.by_url:
            return ()
        segments = [segment.path for segment in self.listing.segments]
        folders = {os.path.dirname(path) for path in segments if path not in self.paths}
        return (*self.paths, *folders, *segments)


@contextlib.contextmanager
def listed(logs: Logs, where: Where) -> Iterator[None]:
    """List URLs with Spark, in the session that the command then uses.

    Raises
    ------
    click.UsageError
        There are URLs, and the engine is not Spark or an option does not support URLs.
    """
    if not logs.by_url:
        yield
        return
    if where.engine != "spark":
        raise click.UsageError("URLs are for --engine spark")
    if logs.include_deleted:
        raise click.UsageError("--include-deleted is for plain paths")
    lister = find_entry(LISTERS, where.engine)
    with TerminalProgress() as progress, lister(logs.paths, where, progress) as listing:
        progress.clear()
        vars(logs)["listing"] = listing
        yield


def logs_argument(command: Decorated) -> Decorated:
    """Add LOG... (or a cluster) and ``--include-deleted``, as ``logs``: a :class:`Logs`."""

    @functools.wraps(command)
    def run(
        *args: Any,
        logs: tuple[str, ...],
        include_deleted: bool,
        servers: str | None,
        client_file: str | None,
        offsets_file: str | None,
        **others: Any,
    ) -> Any:
        with _paths(logs, servers, client_file, others.get("groups") or ()) as paths:
            found = Logs(paths, include_deleted, servers, client_file)
            try:
                return command(*args, logs=found, **others)
            finally:
                if offsets_file is not None:  # while there is the copy of a cluster
                    _write_offsets(found, Path(offsets_file))

    run_any: Any = click.option("--offsets-file", hidden=True)(run)
    run_any = click.option(
        "--include-deleted",
        is_flag=True,
        help="Read .deleted segments in place of what the cleaner made of them: Kafka keeps them "
        "for a minute, and they hold what compaction took.",
    )(bootstrap_options(required=False)(run_any))
    argument = click.argument("logs", metavar="LOG...", nargs=-1, type=click.Path())
    return cast(Decorated, argument(run_any))


def _write_offsets(logs: Logs, file: Path) -> None:
    """Write as JSON which offsets each partition of the log has; empty ones are left out."""
    from coterie.insight.records.partition_copy import PartitionCopy  # with numpy

    rows = []
    with contextlib.suppress(CoterieError):  # it is the command's, and has its line
        for number, segments in logs.listing.partitions().items():
            place = number, segments[0].base_offset, PartitionCopy("", segments[-1:]).end_offset
            if place[1] != place[2]:
                rows.append(dict(zip(READ, place, strict=True)))
    file.write_text(json.dumps(rows), encoding="utf-8")


def check_source(
    logs: tuple[str, ...], servers: str | None, of_cluster: Mapping[str, object]
) -> None:
    """Raise a usage error unless either LOG... or a cluster is given."""
    if servers is None:
        for name, value in of_cluster.items():
            if value is not None:
                raise click.UsageError(f"{name} is for --bootstrap-server")
        if not logs:
            raise click.UsageError("Missing argument 'LOG...'; or give --bootstrap-server.")
    elif logs:
        raise click.UsageError("give either LOG... or --bootstrap-server")


@contextlib.contextmanager
def _paths(
    logs: tuple[str, ...], servers: str | None, client_file: str | None, groups: Iterable[str]
) -> Iterator[tuple[str, ...]]:
    """Yield LOG..., or a copy from a cluster, which is removed at the end."""
    check_source(logs, servers, {"--command-config": client_file})
    if servers is None:
        yield logs
        return
    from coterie.cli.clusters import fetched  # with asyncio, which takes long to import

    with tempfile.TemporaryDirectory(prefix="coterie-") as folder:
        fetched(servers, client_file, groups, Path(folder))
        yield (folder,)


def say_each(notes: Iterable[str]) -> None:
    """Print notes, a line each."""
    for line in notes:
        say(f"coterie: {line}")


def say_left_alone(listing: Listing) -> None:
    """Print which files and folders were skipped, and why, and whether there are two topics."""
    say_each(left_alone(listing.passed_over))
    say_each(filter(None, [topics_note(listing)]))


def beyond_notes(at_ms: int, newest_ms: int, *, is_since: bool = False) -> list[str]:
    """Return a note if a time is after the newest record of the log; ``is_since``: of --since."""
    if at_ms <= newest_ms:
        return []
    effect = "what is shown is as of that, and may have changed since"
    if is_since:
        effect = "the log has nothing since"
    return [
        f"{format_time(at_ms)} is after the newest record of the log, {format_time(newest_ms)}: "
        f"{effect}"
    ]


def trust_notes(listing: Listing, since: Mapping[int | None, int]) -> list[str]:
    """Return the notes on compacted partitions: since when each can be trusted.

    ``since``: epoch ms by partition.
    """
    return list(trust_lines(since, deleted_hint(listing)))


def deleted_hint(listing: Listing) -> str:
    """Return a hint if the log has ``.deleted`` segments that were not read."""
    count = len(listing.deleted)
    if not count:
        return ""
    files = "1 .deleted segment lies" if count == 1 else f"{count} .deleted segments lie"
    return f"{files} there: --include-deleted reads what compaction took"
