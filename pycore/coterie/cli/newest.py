"""The time range of a log: the defaults of ``--now`` and ``--log-until``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import click

from coterie.base.times import format_time
from coterie.cli.failures import Failed
from coterie.cli.progress import TerminalProgress
from coterie.insight.question_engine import PartitionAnswer, QuestionRequest, find_asker
from coterie.insight.questions import time_range
from coterie.log.copy_state import complete_until_ms
from coterie.log.folders import Listing, Log
from coterie.state.replay_engine import HERE, Where


class Newest:
    """Finds the time of a log's newest record while the answers of its partitions are read.

    Parameters
    ----------
    option
        The option to suggest if no record has a time.

    Attributes
    ----------
    ms : int
        Epoch ms; -1: no record with a time so far.
    """

    def __init__(self, option: str) -> None:
        self.option = option
        self.ms = -1

    def of(self, parts: Iterable[PartitionAnswer]) -> Iterator[PartitionAnswer]:
        """Yield the parts, once a record has a time; raise Failed if none has."""
        pending = []
        for part in parts:
            self.ms = max(self.ms, part.newest_ms)
            pending.append(part)
            if self.ms >= 0:
                yield from pending
                pending.clear()
        if self.ms < 0:
            raise without_time(self.option)


def without_time(option: str) -> Failed:
    """Return the error for a log in which no record has a time."""
    return Failed(f"the log has no record with a time; give {option} TIME")


def newest_ms(log: Log, where: Where = HERE) -> int:
    """Return the time of the newest record of any group; raise Failed if none has a time."""
    return time_range_ms(log, where, "--now")[1]


def time_range_ms(log: Log, where: Where, option: str) -> tuple[int, int]:
    """Return the time of the first batch and of the newest record of a log, of any partition.

    Raises
    ------
    Failed
        No record has a time; the message suggests ``option``.
    """
    engine, master, conf = where
    request = QuestionRequest(
        time_range.NAME, time_range.Parameters(), log, frozenset(), master=master, conf=conf
    )
    with TerminalProgress() as progress:
        rows = [row for part in find_asker(engine)(request, progress) for row in part.rows]
    first = [row["first_timestamp"] for row in rows if row["first_timestamp"] is not None]
    newest = [row["newest_timestamp"] for row in rows if row["newest_timestamp"] is not None]
    if not newest:
        raise without_time(option)
    return min(first, default=min(newest)), max(newest)


def log_until(log: Log, where: Where, until_ms: int | None, at_ms: int | None) -> int:
    """Return the time up to which a log is complete.

    That is ``--log-until``, or until when a copy that was fetched is complete, or the newest
    record. ``at_ms`` is the time of ``--at``, if given.

    Raises
    ------
    click.UsageError
        A time is outside the log's time range; the message says the range.
    """
    first, newest = time_range_ms(log, where, "--log-until")
    covers = f"the log covers {format_time(first)} to {format_time(newest)}"
    if until_ms is not None and until_ms < newest:
        raise click.UsageError(f"--log-until {format_time(until_ms)} is too early: {covers}")
    fetched_ms = complete_until_ms(log) if isinstance(log, Listing) else None
    end_ms = max(newest, fetched_ms or newest) if until_ms is None else until_ms
    if at_ms is not None and at_ms > end_ms:
        at = f"--at {format_time(at_ms)}"
        if until_ms is not None:
            raise click.UsageError(f"{at} is after --log-until {format_time(until_ms)}")
        hint = "--log-until TIME says when the copy was made"
        raise click.UsageError(f"{at} is after the log ends: {covers}; {hint}")
    return end_ms
