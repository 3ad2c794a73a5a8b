"""The second step of workers: merge the states of a partition in log order into products.

The states of a partition come sorted by their place in the log, so one merged state and one piece
are in memory. Commits of the history are passed on once they are decided. A *product* is a row of
bytes: a table's rows as an Arrow stream, the state itself, lines of text, or the report about the
partition. So the shuffled states are merged once, however many tables are then read.
"""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Callable, Collection, Generator, Iterator
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING

from coterie.state.document import commit_lines
from coterie.state.parallel_scan import resting_collector
from coterie.state.partial import PartialState
from coterie.state.pickling import pack
from coterie.state.replay_engine import Read
from coterie.state.replay_pieces import join_pieces
from coterie.state.several_partitions import groups_in
from coterie_spark.replay_job.arrow import row_with_body, to_spark
from coterie_spark.replay_job.scanning import CHUNK_BYTES, Batches, Worker

if TYPE_CHECKING:
    import pyarrow as pa
    from typing_extensions import Buffer

    from coterie._core.fold.fold import PartitionFold
    from coterie._core.fold.history import History

PRODUCT_DDL = "partition int, name string, part int, body binary"
REPORT = "-"  # begins the names of the products that the driver reads, all of them
ABOUT, ERROR = "-about", "-error"
GROUPS = "-groups"  # of a partition that Kafka loads: its number, number of groups, their hashes
HASH_BYTES = 8  # a collision only costs time
STATE, LINES = "state", "lines"  # of format json, in place of the tables


def merge_worker(form: str) -> Worker:
    """Return the worker that merges states into tables (``parquet``), or a state and lines."""

    def work(batches: Batches) -> Iterator[pa.RecordBatch]:
        with resting_collector():
            yield from merged(batches, lambda partition: PartitionMerge(partition, form))

    return work


def merged(
    batches: Batches, begin: Callable[[int | None], PartitionMerge]
) -> Iterator[pa.RecordBatch]:
    """Yield the products of states that come in the order of their partition and place.

    An empty state adds nothing.
    """
    for partition, states in groupby(states_in(batches), key=itemgetter(0)):
        merge = begin(partition)
        for _, error, body in states:
            if error is not None:
                yield product(partition, ERROR, 0, error.encode())
            elif body:
                yield from merge.add(PartialState.from_bytes(body))
        if merge.state is not None:
            yield from merge.finish()


def states_in(batches: Batches) -> Iterator[tuple[int | None, str | None, bytes]]:
    """Join the chunks of states, which come in order: (partition, error, the state's bytes)."""
    chunks: list[pa.Buffer] = []
    for batch in batches:
        partitions, errors, lasts = (
            batch.column(name).to_pylist() for name in ("partition", "error", "last")
        )
        for partition, error, last, body in zip(
            partitions, errors, lasts, batch.column("body"), strict=True
        ):
            if error is None:
                chunks.append(body.as_buffer())
            if last:
                yield partition, error, b"".join(chunks)
                chunks = []


class PartitionMerge:
    """The merged state of one partition, up to the current piece."""

    def __init__(self, partition: int | None, form: str) -> None:
        self.partition = partition
        self.form = form
        self.state: PartialState | None = None
        self.parts: dict[str, int] = {}

    def add(self, later: PartialState) -> Iterator[pa.RecordBatch]:
        """Merge the next piece, which adds nothing if a fault has ended the partition's log."""
        if self.state is None:
            self.state = later
        else:
            self.state.absorb(later)
        fold = self.state.partitions[self.partition]
        if fold.history:
            yield from self.put_commits(fold.history)
            fold.history.clear()

    def finish(self) -> Iterator[pa.RecordBatch]:
        assert self.state is not None
        fold = self.state.partitions[self.partition]
        if fold.history is not None:
            yield from self.put_commits(fold.history.pending())
        groups = 0
        if self.form == "json":
            body = memoryview(self.state.to_bytes())
            for start in range(0, len(body), CHUNK_BYTES):
                yield self.put(STATE, body[start : start + CHUNK_BYTES])
        else:
            groups = yield from self.put_tables(fold)
        faults = list(fold.faults), dict(fold.more_faults)
        read = Read(join_pieces(fold.segments), dict(fold.unknown), *faults)
        about = pack(ABOUT, (self.partition, read, groups, bool(fold.stopped)))
        yield self.put(ABOUT, about)

    def put(self, name: str, body: Buffer) -> pa.RecordBatch:
        """Return one row of ``PRODUCT_DDL``, numbered by name."""
        part = self.parts[name] = self.parts.get(name, -1) + 1
        return product(self.partition, name, part, body)

    def put_tables(
        self, fold: PartitionFold, begun: Collection[bytes] = ()
    ) -> Generator[pa.RecordBatch, None, int]:
        """Yield the tables and the report about the groups; return the number of groups."""
        from coterie.state.faults import known_faults
        from coterie.state.tables import faults_table, fold_tables

        tables = {} if fold.failed else fold_tables(self.partition, fold, begun)
        groups = tables["groups"].num_rows if tables else 0
        tables["faults"] = faults_table(self.partition, known_faults(fold))
        for name, table in tables.items():
            yield from self.put_table(name, table)
        if not fold.failed:
            yield self.put_groups(fold, groups)
        return groups

    def put_groups(self, fold: PartitionFold, count: int) -> pa.RecordBatch:
        """Return the report by which the driver finds groups in several partitions."""
        names = (name.encode("utf-8", "surrogatepass") for name in groups_in(fold))
        hashes = (hashlib.blake2b(name, digest_size=HASH_BYTES).digest() for name in names)
        text = b64encode(b"".join(hashes)).decode()
        return self.put(GROUPS, json.dumps([self.partition, count, text]).encode())

    def put_commits(self, history: History) -> Iterator[pa.RecordBatch]:
        from coterie.state.tables import commits_table

        if history and self.form == "json":
            yield self.put(LINES, "".join(commit_lines(self.partition, history)).encode())
        elif history:
            yield from self.put_table("commits", commits_table(self.partition, history))

    def put_table(self, name: str, table: pa.Table) -> Iterator[pa.RecordBatch]:
        """Yield a table's rows as Arrow streams of about ``CHUNK_BYTES``."""
        import pyarrow as pa

        rows = max(1, table.num_rows * CHUNK_BYTES // max(table.nbytes, 1))
        for batch in table.to_batches(max_chunksize=rows):
            # Room first: a stream that grows copies what it has, and takes the time of the rest.
            size = pa.MockOutputStream()
            write_stream(size, batch)
            body = pa.allocate_buffer(size.size())
            write_stream(pa.FixedSizeBufferWriter(body), batch)
            yield self.put(name, body)


def write_stream(sink: pa.NativeFile, batch: pa.RecordBatch) -> None:
    import pyarrow as pa

    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)


def product(partition: int | None, name: str, part: int, body: Buffer) -> pa.RecordBatch:
    """Return one row of ``PRODUCT_DDL``."""
    import pyarrow as pa

    kinds = {"partition": pa.int32(), "name": pa.string(), "part": pa.int32(), "body": pa.binary()}
    return row_with_body(pa.schema(kinds), (partition, name, part), body)


def table_worker(schema: pa.Schema) -> Worker:
    """Return the worker that decodes products of a table into rows of Spark's types."""

    def work(batches: Batches) -> Iterator[pa.RecordBatch]:
        import pyarrow as pa

        for batch in batches:
            for body in batch.column(0):
                table = pa.ipc.open_stream(body.as_buffer()).read_all()
                yield from to_spark(table, schema).to_batches()

    return work
