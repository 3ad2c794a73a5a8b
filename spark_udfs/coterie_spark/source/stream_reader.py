"""The streaming side of the data source: positions, admission control, pieces for workers.

The reader runs in a process of Spark's beside the driver, and stays for the whole query. What its
pieces become on a worker is a function that the source hands in: decoded rows, or partial states.
Spark has admission control and a prepared Trigger.AvailableNow for Python sources since 4.2.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pyspark
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from coterie.errors import CoterieError
from coterie_spark.replay_job.closures import on_worker
from coterie_spark.source.positions import LogPositions, Offsets, StreamPiece

if TYPE_CHECKING:
    import pyarrow as pa

HAS_ADMISSION = find_spec("pyspark.sql.streaming.datasource") is not None  # since Spark 4.2
MAX_BYTES = "maxBytesPerTrigger"
TOPIC_IDS = "topic_ids"  # the key of a position's topic ids, beside those of its partitions
Position = Mapping[str, Any]
"""The next log offset of each partition, and their topic ids as far as they are known."""
ReadPiece = Callable[[bytes], "Iterator[pa.RecordBatch]"]
"""From a pickled ``StreamPiece`` to rows."""


def max_bytes_of(options: Mapping[str, str]) -> int | None:
    """Return the option ``maxBytesPerTrigger``.

    Raises
    ------
    CoterieError
        It is not a number above 0, or Spark is too old for it.
    """
    text = options.get(MAX_BYTES)
    if text is None:
        return None
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise CoterieError(f"{MAX_BYTES} must be a number of bytes above 0, not {text!r}")
    if not HAS_ADMISSION:
        raise CoterieError(
            f"{MAX_BYTES} needs Spark 4.2 or later, and this is {pyspark.__version__}: leave it"
            " out, and each trigger reads all new batches"
        )
    return int(text)


class StreamPositions:
    """The driver's part of a stream: where it may read to, and which pieces lie before that."""

    def __init__(
        self, paths: Sequence[str], partitions: frozenset[int] | None, max_bytes: int | None
    ) -> None:
        self.log = LogPositions(paths, partitions)
        self.max_bytes = max_bytes
        self.target: dict[str, int] | None = None  # of Trigger.AvailableNow
        self.latest: dict[str, int] | None = None

    def advance(self, position: Position, max_bytes: int | None) -> dict[str, Any]:
        """Return the position after the next trigger.

        Raises
        ------
        CoterieError
            The log ends before the position, or is that of another topic.
        """
        start, known = parted(position)
        topic_ids = known | self.log.topic_ids(known)
        reached = self._advance(start, max_bytes)
        topic_ids = {key: topic_ids[key] for key in reached if key in topic_ids}
        return reached | ({TOPIC_IDS: topic_ids} if topic_ids else {})

    def _advance(self, start: Offsets, max_bytes: int | None) -> dict[str, int]:
        ends = self.latest = self.log.ends(start)
        if self.target is not None:
            target = self.target
            ends = {key: min(end, target.get(key, 0)) for key, end in ends.items()}
            ends = {key: max(end, start.get(key, 0)) for key, end in ends.items()}
        return ends if max_bytes is None else self.log.advance(start, ends, max_bytes)

    def prepare(self) -> None:
        """Let the present end of the log be that of the stream."""
        self.target = self.log.ends({})

    def pieces(self, position: Position, until: Position) -> list[StreamPiece]:
        """Return the pieces between two positions.

        Raises
        ------
        CoterieError
            The log is that of another topic than one of them.
        """
        (start, known), (end, later) = parted(position), parted(until)
        for topic_ids in (known, later):
            self.log.topic_ids(topic_ids)
        return self.log.pieces(start, end)


def parted(position: Position) -> tuple[Offsets, dict[str, str]]:
    """Return the offsets and the topic ids of a position."""
    offsets = dict(position)
    topic_ids: dict[str, str] = offsets.pop(TOPIC_IDS, {})
    return offsets, topic_ids


def stream_reader(positions: StreamPositions, read: ReadPiece) -> DataSourceStreamReader:
    """Return a reader that can be sent to any worker; see ``data_source.portable``."""
    body, read_on_worker = pickle.dumps(positions), on_worker(read)
    base: Any = DataSourceStreamReader  # its latestOffset has arguments since Spark 4.2

    class Portable(base):  # type: ignore[misc]
        def driver(self) -> StreamPositions:
            """Return the positions, which only the driver's process makes."""
            import pickle

            if "positions" not in vars(self):
                self.positions = pickle.loads(body)
            positions: StreamPositions = self.positions
            return positions

        def initialOffset(self) -> dict[str, Any]:
            return {}

        def partitions(self, start: Position, end: Position) -> Sequence[InputPartition]:
            import pickle

            pieces = self.driver().pieces(start, end)
            return [InputPartition(pickle.dumps(piece)) for piece in pieces]

        def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
            return read_on_worker(partition.value)

        def latestOffset(self) -> dict[str, Any]:
            return self.driver().advance({}, None)

    made: DataSourceStreamReader = (limited(Portable) if HAS_ADMISSION else Portable)()
    return made


def limited(reader: Any) -> Any:
    """Return the class of a reader with admission control."""
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadMaxBytes,
        SupportsTriggerAvailableNow,
    )

    class Limited(reader, SupportsTriggerAvailableNow):  # type: ignore[misc]
        def latestOffset(self, start: Position, limit: Any) -> dict[str, Any]:
            most = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
            reached: dict[str, Any] = self.driver().advance(start, most)
            return reached

        def getDefaultReadLimit(self) -> Any:
            most = self.driver().max_bytes
            return ReadAllAvailable() if most is None else ReadMaxBytes(most)

        def reportLatestOffset(self) -> dict[str, int] | None:
            latest: dict[str, int] | None = self.driver().latest
            return latest

        def prepareForTriggerAvailableNow(self) -> None:
            self.driver().prepare()

    return Limited
