"""The source of ``coterie_spark.follow``: a growing log as partial states, not as records.

A worker folds the bytes of its piece, so nothing is decoded twice, and faults and transactions are
those of a replay. The rows are chunks of states, as in ``replay_job.scanning``.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceStreamReader
from pyspark.sql.types import StructType

from coterie.state.parallel_scan import resting_collector
from coterie.state.partial import PartialState, ScanOptions
from coterie_spark.replay_job import scanning
from coterie_spark.source.data_source import OPTIONS, partitions_of, paths_of
from coterie_spark.source.positions import bytes_of_piece
from coterie_spark.source.stream_reader import StreamPositions, max_bytes_of, stream_reader

if TYPE_CHECKING:
    import pyarrow as pa

FORMAT = "consumer_offsets_states"


class StatesSource(DataSource):
    """The data source of partial states."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return FORMAT

    def schema(self) -> str:
        """Return the columns of chunks of states."""
        return scanning.STATE_DDL

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Return the streaming reader."""
        options = {name: self.options[name] for name in OPTIONS if self.options.get(name)}
        group, paths = options.get("group"), paths_of(options)
        scan = ScanOptions(history=True, groups=None if group is None else frozenset({group}))
        positions = StreamPositions(paths, partitions_of(options), max_bytes_of(options))
        return stream_reader(positions, partial(states_of_stream, paths, scan))


def states_of_stream(
    paths: list[str], options: ScanOptions, piece: bytes
) -> Iterator[pa.RecordBatch]:
    """Yield the state of a pickled piece as rows."""
    stream_piece = pickle.loads(piece)
    state = PartialState(options)
    fold = state.fold(stream_piece.segment.partition)
    with resting_collector():
        for segment, start, data in bytes_of_piece(paths, stream_piece):
            expected = stream_piece.first if start else -1
            fold.scan(data, file=segment.name, position=start, expected_offset=expected)
    yield from scanning.state_batches(stream_piece.segment.partition, stream_piece.number, state)
