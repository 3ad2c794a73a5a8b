"""A question over partitions in parts, so that a large one is not one task's work.

Four stages, a shuffle between each two: survey (a task a part), join (a task a partition),
aggregate (a task a part), answer (a task a partition); see ``coterie.insight.records.log_parts``.
Of a question that only looks at states the answer follows on the survey. A stage hands on rows of
at most ``CHUNK_BYTES``, which come in order of their task, part, kind and chunk. What a task holds
is bounded by keys and findings. What cannot be read travels as a row with ``error`` set. Of a log
at a URL the bytes of a part come to both of its tasks, which put them into files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.errors import CoterieError
from coterie.insight.asking import QuestionRequest, find_question
from coterie.insight.records import log_parts
from coterie.insight.records.partition_view import PartitionView
from coterie.log.folders import Segment
from coterie.state.pickling import pack, unpack
from coterie_spark.replay_job import plan, scanning
from coterie_spark.replay_job.closures import shipped
from coterie_spark.replay_job.driver import cores_of, in_task
from coterie_spark.replay_job.hadoop import union_of
from coterie_spark.replay_job.spool import (
    Partitions,
    Spool,
    chunks_of,
    each_partition,
    lies_at_urls,
    spooling,
)

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

PART_BYTES = 1 << 30  # at a URL a part lies on its worker's disk
PART_BYTES_MIN = 64 << 20  # below, a task and a merge cost more than they bring
ROWS_DDL = "task int, number long, kind int, chunk int, error string, body binary"
ORDER = ("task", "number", "kind", "chunk")
JOINED, WHOLE = "survey of a part", -1  # the number of what was joined
SPOOLED = -1 << 62  # behind it where a chunk's split begins; its segment's place is its kind
BEGUN, TALLIED = "question to a part", "answer of a part"

Facts = Callable[[], PartitionView]
Answer = Callable[[QuestionRequest, int, Facts], Iterator["pa.RecordBatch"]]
JoinedFacts = Callable[["Plan", int, "Iterable[Row]"], PartitionView]


class Row(NamedTuple):
    """A row of ``ROWS_DDL``."""

    task: int
    number: int
    kind: int
    chunk: int
    error: str | None
    body: bytes | None


class Plan(NamedTuple):
    """What is asked; ``dealt`` has each part: its partition's place in ``log``, and segments."""

    log: Partitions
    request: QuestionRequest
    dealt: list[tuple[int, tuple[Segment, ...]]]
    read: scanning.Reader

    def view(self, place: int) -> PartitionView:
        """Return the facts of a partition, nothing read yet."""
        number, segments = self.log[place]
        asked = self.request
        return PartitionView(number, segments, asked.groups, asked.at_ms, self.read, asked.since_ms)

    def firsts(self, place: int) -> list[int]:
        """Return the numbers of a partition's parts."""
        return [number for number, (at, _) in enumerate(self.dealt) if at == place]

    @property
    def parts(self) -> Partitions:
        """The parts, each as a partition of its own."""
        return [(self.log[place][0], list(part)) for place, part in self.dealt]

    @property
    def question(self) -> Any:
        """The module that answers."""
        return find_question(self.request.question)


def planned(spark: SparkSession, log: Partitions, request: QuestionRequest) -> Plan | None:
    """Return how a question is asked in parts; None: a task for each partition will do."""
    if log_parts.aggregate_factory(find_question(request.question)) is None:
        return None
    size = sum(segment.size for _, theirs in log for segment in theirs)
    wanted = size // (plan.TASKS_PER_CORE * cores_of(spark))
    part_bytes = min(max(wanted, PART_BYTES_MIN), PART_BYTES)
    found = [
        (place, part)
        for place, (_, theirs) in enumerate(log)
        for part in log_parts.parts_of(theirs, part_bytes) or [()]
    ]
    return None if len(found) == len(log) else Plan(log, request, found, scanning.reader())


def answered(spark: SparkSession, asked: Plan, answer: Answer, schema: Any) -> DataFrame:
    """Return what ``answer`` gives of each partition, read in parts."""
    from pyspark.sql import functions as f

    def dealt(rows: DataFrame, tasks: int) -> DataFrame:
        there = rows.repartition(tasks, in_task(f.col("task"), tasks))
        return there.sortWithinPartitions(*ORDER)

    count, partitions = len(asked.dealt), len(asked.log)
    found = each_partition(spark, asked.parts, partial(survey, asked), ROWS_DDL)
    if log_parts.reads_states_only(asked.question):
        last = partial(finish, asked, answer, joined_facts)
        return dealt(found, partitions).mapInArrow(shipped(last), schema)
    begun = dealt(found, partitions).mapInArrow(shipped(partial(join, asked)), ROWS_DDL)
    if lies_at_urls(asked.log):
        columns = ["task", f"start + {SPOOLED}L as number", "segment as kind", "chunk"]
        columns += ["string(null) as error", "body"]
        chunks = chunks_of(spark, asked.parts)
        begun = union_of([begun, *(some.selectExpr(*columns) for some in chunks)])
    kept = dealt(begun, count).mapInArrow(shipped(partial(aggregate, asked)), ROWS_DDL)
    last = partial(finish, asked, answer, facts_of)
    return dealt(kept, partitions).mapInArrow(shipped(last), schema)


def survey(
    asked: Plan, read: scanning.Reader, batches: scanning.Batches
) -> Iterator[pa.RecordBatch]:
    """Read the parts whose number comes in column ``id`` for the first time."""
    record_filters = log_parts.record_filters_of(
        asked.view(0), asked.question, asked.request.parameters
    )
    for batch in batches:
        for number in batch.column(0).to_pylist():
            place, part = asked.dealt[number]
            try:
                found = log_parts.survey(part, record_filters, read)
            except CoterieError as error:
                yield error_row(place, number, error)
            else:
                yield from found_rows(place, number, found)


def join(asked: Plan, batches: scanning.Batches) -> Iterator[pa.RecordBatch]:
    """Join what was found in the parts of a partition; say what each is read with next."""
    for place, rows in groupby(rows_in(batches), key=lambda row: row.task):
        numbers = asked.firsts(place)
        view = asked.view(place)
        try:
            each = (found_of(those) for _, those in groupby(rows, key=lambda row: row.number))
            joined = log_parts.join(view, each)
            begun = log_parts.second_readings(
                view, asked.question, asked.request.parameters, len(numbers)
            )
            for number, one in zip(numbers, begun, strict=False):  # there may be none
                yield from body_rows(number, number, 0, pack(BEGUN, one))
            yield from found_rows(numbers[0], WHOLE, joined)
        except CoterieError as error:
            yield error_row(numbers[0], WHOLE, error)


def aggregate(asked: Plan, batches: scanning.Batches) -> Iterator[pa.RecordBatch]:
    """Read parts for the second time; what was joined passes through."""
    if lies_at_urls(asked.log):
        with spooling(asked.parts) as spool:
            yield from aggregate_by(asked, spool.read, without_chunks(batches, spool))
    else:
        yield from aggregate_by(asked, asked.read, rows_in(batches))


def without_chunks(batches: scanning.Batches, spool: Spool) -> Iterator[Row]:
    """Yield the rows of batches, and put chunks of segments into files."""
    for row in rows_in(batches):
        if row.number < WHOLE:  # it comes before all else
            spool.put(row.task, row.kind, row.body or b"")
        else:
            yield row


def aggregate_by(
    asked: Plan, read: scanning.Reader, rows_there: Iterable[Row]
) -> Iterator[pa.RecordBatch]:
    """As :func:`aggregate`, with what reads a segment."""
    for (task, number), rows in groupby(rows_there, key=lambda row: row[:2]):
        place, part = asked.dealt[task]
        if number == WHOLE:
            for row in rows:
                yield batch_of(row._replace(task=place))
            continue
        try:
            begun = unpack(BEGUN, joined_body(rows))
            kept = log_parts.aggregate(part, begun, read)
            yield from body_rows(place, number, 0, pack(TALLIED, kept))
        except CoterieError as error:
            yield error_row(place, number, error)


def finish(
    asked: Plan, answer: Answer, view: JoinedFacts, batches: scanning.Batches
) -> Iterator[pa.RecordBatch]:
    """Put together what was found in the parts of a partition, and answer."""
    for place, rows in groupby(rows_in(batches), key=lambda row: row.task):
        yield from answer(asked.request, place, partial(view, asked, place, rows))


def joined_facts(asked: Plan, place: int, rows: Iterable[Row]) -> PartitionView:
    """Return the facts of a partition of which states were asked for, in parts."""
    view = asked.view(place)
    log_parts.join(
        view, (found_of(those) for _, those in groupby(rows, key=lambda row: row.number))
    )
    return view


def facts_of(asked: Plan, place: int, rows: Iterable[Row]) -> PartitionView:
    """Return the facts of a partition that was read in parts."""
    view = asked.view(place)
    each = groupby(rows, key=lambda row: row.number)
    number, those = next(each)
    assert number == WHOLE  # it comes first
    log_parts.join(view, [found_of(those)])
    kept = (unpack(TALLIED, joined_body(those)) for _, those in each)
    log_parts.finish(view, asked.question, asked.request.parameters, kept)
    return view


def found_rows(task: int, number: int, found: log_parts.SurveyedLogs) -> Iterator[pa.RecordBatch]:
    """Yield what was found, and behind it the bytes of the records of groups of each view."""
    yield from body_rows(task, number, 0, pack(JOINED, found))
    for kind, log in enumerate(found.values(), 1):
        for chunk, body in enumerate(log.group_log.chunks()):
            yield batch_of(Row(task, number, kind, chunk, None, body))


def found_of(rows: Iterable[Row]) -> log_parts.SurveyedLogs:
    """Put what :func:`found_rows` gave together again."""
    found: log_parts.SurveyedLogs = {}
    for kind, those in groupby(rows, key=lambda row: row.kind):
        if kind == 0:
            found = unpack(JOINED, joined_body(those))
            continue
        log = list(found.values())[kind - 1]
        for row in those:
            log.group_log.spool.append(row.body or b"")
    return found


def body_rows(task: int, number: int, kind: int, whole: bytes) -> Iterator[pa.RecordBatch]:
    """Yield bytes that may be many as rows, one a batch."""
    body = memoryview(whole)
    for chunk, start in enumerate(range(0, len(body), scanning.CHUNK_BYTES)):
        part = body[start : start + scanning.CHUNK_BYTES].tobytes()
        yield batch_of(Row(task, number, kind, chunk, None, part))


def joined_body(rows: Iterable[Row]) -> bytes:
    """Put bytes together again; raise what could not be read instead."""
    found = []
    for row in rows:
        if row.error is not None:
            raise CoterieError(row.error)
        found.append(row.body or b"")
    return b"".join(found)


def error_row(task: int, number: int, error: Exception) -> pa.RecordBatch:
    """Return the row that stands for what could not be read."""
    return batch_of(Row(task, number, 0, 0, str(error), None))


def batch_of(row: Row) -> pa.RecordBatch:
    """Return a row as a batch."""
    import pyarrow as pa

    kinds = (pa.int32(), pa.int64(), pa.int32(), pa.int32(), pa.string(), pa.binary())
    return scanning.rows_of(pa.schema(list(zip(Row._fields, kinds, strict=True))), row)


def rows_in(batches: scanning.Batches) -> Iterator[Row]:
    """Yield the rows of batches, one in memory beside its batch."""
    for batch in batches:
        for number in range(batch.num_rows):
            yield Row(*(column[number].as_py() for column in batch.columns))
