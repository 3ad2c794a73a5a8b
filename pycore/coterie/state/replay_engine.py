"""The interface of the engines of ``coterie replay``: request, summary, progress, look-up.

An engine is a function (request, progress) -> Summary that fills ``request.out``. It is registered
under the entry point group ``coterie.engines``, so this module does not import Spark. Results that
depend on the state alone are computed here, so that they do not depend on the engine.
"""

from __future__ import annotations

import importlib.util
import pkgutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from coterie._core.fold.fold_state import Fault, Scanned
from coterie.base.extras import missing_module
from coterie.errors import CoterieError, FaultFound
from coterie.log.folders import Log
from coterie.log.trust import trusted_from
from coterie.state.faults import fault_line
from coterie.state.partial import PartialState, ScanOptions

ENGINES = "coterie.engines"
LISTERS = "coterie.listers"  # (paths, where, progress) -> context manager of a Listing
OWN = {  # the entry points of this project, because searching all installed packages is slow
    (ENGINES, "local"): "coterie.state.local_replay:replay",
    (ENGINES, "spark"): "coterie_spark.replay_job.engine:replay",
    ("coterie.askers", "local"): "coterie.insight.answering:answer",
    ("coterie.askers", "spark"): "coterie_spark.insight:answer",
    (LISTERS, "spark"): "coterie_spark.replay_job.engine:listed",
}
AUTO = "auto"
ENGINE_NAMES = (AUTO, *(name for group, name in OWN if group == ENGINES))
SPARK_FROM_BYTES = 2 << 30  # below, this process finishes before Spark has started

Conf = tuple[tuple[str, str], ...]
"""Settings of Spark: (name, value) pairs."""


class Where(NamedTuple):
    """The engine of a command, with Spark's master and settings."""

    engine: str = "local"
    master: str | None = None
    conf: Conf = ()


HERE = Where()


@dataclass(frozen=True)
class ReplayRequest:
    """The log to replay, the output folder, and the options.

    Attributes
    ----------
    log : Listing or tuple of str
        The listed log; the paths, if they include URLs, which the engine lists.
    out : Path
        An existing empty folder, for ``NAME.parquet`` of each table, or ``groups.json``.
    format : str
        ``parquet`` or ``json``.
    options : ScanOptions
        The options of the scan.
    master : str or None
        Spark's master URL; None: ``local[*]``.
    conf : tuple of (str, str)
        Settings of Spark.
    """

    log: Log
    out: Path
    format: str = "parquet"
    options: ScanOptions = field(default_factory=ScanOptions)
    master: str | None = None
    conf: Conf = ()


@dataclass(frozen=True)
class Summary:
    """The summary of a replay.

    ``trusted_from_ms`` has the compacted partitions: the time, epoch ms, since which the state is
    complete. ``pieces`` are the pieces of each partition, in log order. ``notes`` are lines about
    groups in several partitions of the topic. ``more_faults`` counts by kind the faults that are
    not in ``faults``, which has the first 10,000 of each partition.
    """

    files: int
    bytes: int
    batches: int
    records: int
    groups: int
    faults: tuple[Fault, ...]
    unknown_versions: dict[int, int]
    partitions: int
    trusted_from_ms: dict[int | None, int]
    passed_over: tuple[str, ...] = ()
    pieces: dict[int | None, Sequence[Scanned]] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()
    more_faults: dict[str, int] = field(default_factory=dict)

    @property
    def fault_count(self) -> int:
        return len(self.faults) + sum(self.more_faults.values())


class Progress(Protocol):
    def total(self, size_bytes: int) -> None:
        """Set the number of bytes to read."""

    def advance(self, size_bytes: int) -> None:
        """Add to the number of bytes read."""

    def stage(self, what: str) -> None:
        """Set the description of the current work, as ``writing offsets``."""

    def notice(self, line: str) -> None:
        """Show a line to the user."""


class Silent:
    """A progress without output."""

    def total(self, size_bytes: int) -> None:
        """Do nothing."""

    def advance(self, size_bytes: int) -> None:
        """Do nothing."""

    def stage(self, what: str) -> None:
        """Do nothing."""

    def notice(self, line: str) -> None:
        """Do nothing."""


Engine = Callable[[ReplayRequest, Progress], Summary]


def find_engine(name: str) -> Engine:
    """Return the engine of that name; see :func:`find_entry`."""
    engine: Engine = find_entry(ENGINES, name)
    return engine


def choose_engine(name: str, master: str | None, size_bytes: int | None) -> str:
    """Return the engine of ``auto``; any other name unchanged.

    Parameters
    ----------
    name
        The name of ``--engine``.
    master
        Spark's master; if given, the engine is Spark.
    size_bytes
        The size of the log; None: only Spark can read it.
    """
    if name != AUTO:
        return name
    if master is not None or size_bytes is None:
        return "spark"
    has_spark = importlib.util.find_spec("pyspark") is not None
    return "spark" if has_spark and size_bytes > SPARK_FROM_BYTES else "local"


def is_registered(name: str) -> bool:
    """Return whether an installed package brings an engine of that name."""
    from importlib.metadata import entry_points

    return bool(entry_points(group=ENGINES, name=name))


def find_entry(group: str, name: str) -> Any:
    """Return an engine's object in a group of entry points.

    Raises
    ------
    CoterieError
        No object is registered, or a module is not installed; the message says what to do.
    """
    try:
        if (group, name) in OWN:
            return pkgutil.resolve_name(OWN[group, name])
        from importlib.metadata import entry_points

        for entry in entry_points(group=group, name=name):
            return entry.load()
        raise CoterieError(f"no engine {name!r} is installed; use --engine local")
    except ModuleNotFoundError as error:
        raise missing_module(error) from error


def stop_at_fault(state: PartialState) -> None:
    """Raise for the first fault, if ``on_fault`` is ``stop``.

    Raises
    ------
    FaultFound
        The message has the place.
    """
    for number in state.numbers():
        fold = state.partitions[number]
        if fold.stopped:
            raise FaultFound(f"{fault_line(fold.faults[0])}; stopped (--on-fault skip goes on)")


class Read(NamedTuple):
    segments: Sequence[Scanned]
    unknown: Mapping[int, int]
    faults: Sequence[Fault]
    more_faults: Mapping[str, int]


def read_of(state: PartialState) -> dict[int | None, Read]:
    """Return a :class:`Read` for each partition, in order of their numbers."""
    folds = {number: state.partitions[number] for number in state.numbers()}
    return {
        n: Read(fold.segments, fold.unknown, fold.faults, fold.more_faults)
        for n, fold in folds.items()
    }


def summarize(
    partitions: Mapping[int | None, Read],
    groups: int,
    passed_over: tuple[str, ...] = (),
    notes: tuple[str, ...] = (),
) -> Summary:
    unknown: Counter[int] = Counter()
    more_faults: Counter[str] = Counter()
    for read in partitions.values():
        unknown.update(read.unknown)
        more_faults.update(read.more_faults)
    trust = {number: trusted_from(read.segments) for number, read in partitions.items()}
    pieces = [piece for read in partitions.values() for piece in read.segments]
    return Summary(
        files=len({piece.file for piece in pieces}),
        bytes=sum(piece.bytes for piece in pieces),
        batches=sum(piece.batches for piece in pieces),
        records=sum(piece.records for piece in pieces),
        groups=groups,
        faults=tuple(fault for read in partitions.values() for fault in read.faults),
        unknown_versions=dict(sorted(unknown.items())),
        partitions=len(partitions),
        trusted_from_ms={number: since for number, since in trust.items() if since is not None},
        passed_over=passed_over,
        pieces={number: read.segments for number, read in partitions.items()},
        notes=notes,
        more_faults=dict(more_faults),
    )
