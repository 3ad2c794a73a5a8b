"""What the engines of ``coterie replay`` share: the request, the summary, and how one is found.

An engine is a function (request, progress) -> Summary that fills ``request.out``; it registers
under the entry point group ``coterie.engines``, so that nothing here imports Spark. Everything
that can be said of a state alone is said here, so that engines answer alike.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Protocol

from coterie.errors import CoterieError, FaultFound
from coterie.logdir import Listing
from coterie.state import PartialState, ScanOptions
from coterie.trust import Piece, pieces_of, trusted_from

ENGINES = "coterie.engines"
NEEDS = {  # module that may be missing -> what to do
    "pyspark": "pip install 'coterie[spark]', or use --engine local",
    "pandas": "pip install 'coterie[spark]', or use --engine local",
    "coterie_spark": "pip install 'coterie[spark]', or use --engine local",
    "pyarrow": "pip install 'coterie[arrow]', or use --engine local --format json",
}


@dataclass(frozen=True)
class ReplayRequest:
    """What to replay, and where to put the tables.

    Attributes
    ----------
    paths : tuple of str
        LOG..., as given.
    out : Path
        A folder that exists and is empty, to be filled: ``NAME.parquet`` each, or ``groups.json``.
    format : str
        ``parquet`` or ``json``.
    options : ScanOptions
        How to scan.
    master : str or None
        Spark's master URL; None: ``local[*]``.
    """

    paths: tuple[str, ...]
    out: Path
    format: str = "parquet"
    options: ScanOptions = field(default_factory=ScanOptions)
    master: str | None = None


@dataclass(frozen=True)
class Summary:
    """What a replay read and found. Times are epoch ms.

    ``faults`` are those of the folds: (file, position, base_offset, kind, offset, detail).
    ``trusted_from_ms`` has the partitions that were compacted: from when on their state is whole.
    """

    files: int
    bytes: int
    batches: int
    records: int
    groups: int
    faults: tuple[tuple[Any, ...], ...]
    unknown_versions: dict[int, int]
    partitions: int
    trusted_from_ms: dict[int | None, int]
    passed_over: tuple[str, ...] = ()


class Progress(Protocol):
    """Who is told how far a replay is."""

    def total(self, size_bytes: int) -> None:
        """Say how much there is to read."""

    def advance(self, size_bytes: int) -> None:
        """Say that so much more was read."""

    def stage(self, what: str) -> None:
        """Say what is being done, as ``writing offsets``."""


class Silent:
    """A progress that tells nobody."""

    def total(self, size_bytes: int) -> None:
        """Do nothing."""

    def advance(self, size_bytes: int) -> None:
        """Do nothing."""

    def stage(self, what: str) -> None:
        """Do nothing."""


Engine = Callable[[ReplayRequest, Progress], Summary]


def find_engine(name: str) -> Engine:
    """Return the engine of that name.

    Raises
    ------
    CoterieError
        There is none, or a module that it needs is not installed; the message says what to do.
    """
    for entry in entry_points(group=ENGINES, name=name):
        try:
            engine: Engine = entry.load()
        except ModuleNotFoundError as error:
            raise missing_module(error) from error
        return engine
    raise CoterieError(f"no engine {name!r} is installed; use --engine local")


def missing_module(error: ModuleNotFoundError) -> CoterieError:
    """Return what to raise where a module that an extra brings is missing."""
    name = (error.name or "").partition(".")[0]
    if name not in NEEDS:
        raise error
    return CoterieError(f"{name} is not installed; {NEEDS[name]}")


def stop_at_fault(state: PartialState) -> None:
    """Raise for the first fault where ``on_fault`` is ``stop``.

    Raises
    ------
    FaultFound
        Names the place.
    """
    for number in in_order(state):
        fold = state.partitions[number]
        if fold.stopped:
            raise FaultFound(f"{fault_line(fold.faults[0])}; stopped (--on-fault skip goes on)")


def fault_line(fault: tuple[Any, ...]) -> str:
    """Return a fault in words: where, what."""
    file, position, base_offset, kind, offset, detail = fault
    where = f"{file}: byte {position}"
    if offset is not None:
        where += f", offset {offset}"
    elif base_offset is not None:
        where += f", base offset {base_offset}"
    return f"{where}: {kind}: {detail}"


def in_order(state: PartialState) -> list[int | None]:
    """Return the partitions' numbers, the unknown one first."""
    return sorted(state.partitions, key=lambda number: -1 if number is None else number)


def pieces(state: PartialState) -> list[Piece]:
    """Return every piece that was scanned."""
    return [p for number in in_order(state) for p in pieces_of(state.partitions[number].segments)]


def summarize(state: PartialState, listing: Listing, groups: int) -> Summary:
    """Return the summary of a whole log's state."""
    folds = [state.partitions[number] for number in in_order(state)]
    unknown: dict[int, int] = {}
    for fold in folds:
        for version, count in fold.unknown.items():
            unknown[version] = unknown.get(version, 0) + count
    trust = {number: trusted_from(state.partitions[number].segments) for number in in_order(state)}
    read = pieces(state)
    return Summary(
        files=len({piece.file for piece in read}),
        bytes=sum(piece.bytes for piece in read),
        batches=sum(piece.batches for piece in read),
        records=sum(piece.records for piece in read),
        groups=groups,
        faults=tuple(fault for fold in folds for fault in fold.faults),
        unknown_versions=dict(sorted(unknown.items())),
        partitions=len(folds),
        trusted_from_ms={number: since for number, since in trust.items() if since is not None},
        passed_over=listing.passed_over,
    )
