"""Answer a question with large partitions in parts, each a task of its own.

There are four stages with a shuffle between each two: survey (a task a part), join (a task a
partition), aggregate (a task a part), answer (a task a partition); see
``coterie.insight.records.log_parts``. A stage passes on rows of at most ``CHUNK_BYTES``, in order
of their task, part, kind and chunk. The memory of a task is bounded by keys and findings. A read
error travels as a row with ``error`` set. For a log at a URL, both tasks of a part get its bytes
and write them into files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple

from coterie.errors import CoterieError
from coterie.insight.question_engine import QuestionRequest, find_question
from coterie.insight.records import log_parts
from coterie.insight.records.partition_view import PartitionView
from coterie.log.folders import Segment
from coterie.log.joined import order_of
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

PART_BYTES = 1 << 30  # at a URL, a part is on its worker's disk
PART_BYTES_MIN = 64 << 20  # below, a task and a merge cost more than they save
ROWS_DDL = "task int, number long, kind int, chunk int, error string, body binary"
ORDER = ("task", "number", "kind", "chunk")
SURVEY, AGGREGATE_INPUT, AGGREGATE = "survey of a part", "question to a part", "answer of a part"
WHOLE = -1  # the number of a partition's joined survey
SPOOLED = -1 << 62  # plus the start of a chunk's split; the kind is the place of its segment

ViewMaker = Callable[[], PartitionView]
Answer = Callable[[QuestionRequest, int, ViewMaker], Iterator["pa.RecordBatch"]]


class PartRow(NamedTuple):
    """A row of ``ROWS_DDL``."""

    task: int
    number: int
    kind: int
    chunk: int
    error: str | None
    body: bytes | None


class PartedQuery(NamedTuple):
    """A question in parts; a part has its partition's place in ``log``, and segments."""

    log: Partitions
    request: QuestionRequest
    parts: list[tuple[int, tuple[Segment, ...]]]
    read: scanning.Reader

    def view(self, place: int) -> PartitionView:
        number, segments = self.log[place]
        groups, at_ms, since_ms = self.request.groups, self.request.at_ms, self.request.since_ms
        return PartitionView(number, segments, groups, at_ms, self.read, since_ms)

    def part_numbers(self, place: int) -> list[int]:
        return [number for number, (at, _) in enumerate(self.parts) if at == place]

    @property
    def part_log(self) -> Partitions:
        return [(self.log[place][0], list(part)) for place, part in self.parts]

    @property
    def question(self) -> Any:
        return find_question(self.request.question)


def in_parts(spark: SparkSession, log: Partitions, request: QuestionRequest) -> PartedQuery | None:
    """Return a question in parts; None if a task for each partition is enough."""
    if log_parts.aggregate_factory(find_question(request.question)) is None:
        return None
    if any(len(order_of(own)) > 1 for _, own in log):
        return None  # a part reads its segments as those of one partition
    size = sum(segment.size for _, own in log for segment in own)
    part_bytes = size // (plan.TASKS_PER_CORE * cores_of(spark))
    part_bytes = min(max(part_bytes, PART_BYTES_MIN), PART_BYTES)
    parts = [
        (place, part)
        for place, (_, own) in enumerate(log)
        for part in log_parts.parts_of(own, part_bytes) or [()]
    ]
    if len(parts) == len(log):
        return None
    return PartedQuery(log, request, parts, scanning.reader())


def answer_in_parts(
    spark: SparkSession, query: PartedQuery, answer: Answer, schema: Any
) -> DataFrame:
    """Return the rows of ``answer`` for each partition, read in parts."""
    from pyspark.sql import functions as f

    def by_task(rows: DataFrame, tasks: int) -> DataFrame:
        dealt = rows.repartition(tasks, in_task(f.col("task"), tasks))
        return dealt.sortWithinPartitions(*ORDER)

    count, partitions = len(query.parts), len(query.log)
    surveys = each_partition(spark, query.part_log, partial(survey, query), ROWS_DDL)
    inputs = by_task(surveys, partitions).mapInArrow(shipped(partial(join, query)), ROWS_DDL)
    if lies_at_urls(query.log):
        columns = ["task", f"start + {SPOOLED}L as number", "segment as kind", "chunk"]
        columns += ["string(null) as error", "body"]
        chunks = chunks_of(spark, query.part_log)
        inputs = union_of([inputs, *(some.selectExpr(*columns) for some in chunks)])
    aggregates = by_task(inputs, count).mapInArrow(shipped(partial(aggregate, query)), ROWS_DDL)
    last = by_task(aggregates, partitions)
    return last.mapInArrow(shipped(partial(finish, query, answer)), schema)


def survey(
    query: PartedQuery, read: scanning.Reader, batches: scanning.Batches
) -> Iterator[pa.RecordBatch]:
    """Survey the parts whose numbers are in column ``id``: read them for the first time."""
    record_filters = log_parts.record_filters_of(
        query.view(0), query.question, query.request.parameters
    )
    for batch in batches:
        for number in batch.column(0).to_pylist():
            place, part = query.parts[number]
            try:
                views = log_parts.survey(part, record_filters, read)
            except CoterieError as error:
                yield error_row(place, number, error)
            else:
                yield from survey_rows(place, number, views)


def join(query: PartedQuery, batches: scanning.Batches) -> Iterator[pa.RecordBatch]:
    """Join the surveys of a partition's parts, and yield the inputs of the second reading."""
    for place, rows in groupby(rows_in(batches), key=lambda row: row.task):
        numbers = query.part_numbers(place)
        view = query.view(place)
        try:
            surveys = (survey_of(own) for _, own in groupby(rows, key=lambda row: row.number))
            joined = log_parts.join(view, surveys)
            inputs = log_parts.second_readings(
                view, query.question, query.request.parameters, len(numbers)
            )
            for number, part_input in zip(numbers, inputs, strict=False):  # there may be none
                yield from body_rows(number, number, 0, pack(AGGREGATE_INPUT, part_input))
            yield from survey_rows(numbers[0], WHOLE, joined)
        except CoterieError as error:
            yield error_row(numbers[0], WHOLE, error)


def aggregate(query: PartedQuery, batches: scanning.Batches) -> Iterator[pa.RecordBatch]:
    """Read parts for the second time; the joined surveys pass through."""
    if lies_at_urls(query.log):
        with spooling(query.part_log) as spool:
            yield from aggregate_by(query, spool.read, without_chunks(batches, spool))
    else:
        yield from aggregate_by(query, query.read, rows_in(batches))


def without_chunks(batches: scanning.Batches, spool: Spool) -> Iterator[PartRow]:
    """Yield the rows of batches, and write chunks of segments into files."""
    for row in rows_in(batches):
        if row.number < WHOLE:  # chunks come before all other rows
            spool.put(row.task, row.kind, row.body or b"")
        else:
            yield row


def aggregate_by(
    query: PartedQuery, read: scanning.Reader, all_rows: Iterable[PartRow]
) -> Iterator[pa.RecordBatch]:
    """Aggregate parts as :func:`aggregate` does, with a reader of segments."""
    for (task, number), rows in groupby(all_rows, key=lambda row: row[:2]):
        place, part = query.parts[task]
        if number == WHOLE:
            for row in rows:
                yield batch_of(row._replace(task=place))
            continue
        try:
            part_input = unpack(AGGREGATE_INPUT, joined_body(rows))
            aggregates = log_parts.aggregate(part, part_input, read)
            yield from body_rows(place, number, 0, pack(AGGREGATE, aggregates))
        except CoterieError as error:
            yield error_row(place, number, error)


def finish(
    query: PartedQuery, answer: Answer, batches: scanning.Batches
) -> Iterator[pa.RecordBatch]:
    for place, rows in groupby(rows_in(batches), key=lambda row: row.task):
        yield from answer(query.request, place, partial(view_of_aggregates, query, place, rows))


def view_of_aggregates(query: PartedQuery, place: int, rows: Iterable[PartRow]) -> PartitionView:
    """Return the view of a partition from its joined survey and the aggregates of its parts."""
    view = query.view(place)
    by_number = groupby(rows, key=lambda row: row.number)
    number, first_rows = next(by_number)
    assert number == WHOLE  # it comes first
    log_parts.join(view, [survey_of(first_rows)])
    aggregates = (unpack(AGGREGATE, joined_body(own)) for _, own in by_number)
    log_parts.finish(view, query.question, query.request.parameters, aggregates)
    return view


def survey_rows(task: int, number: int, views: log_parts.SurveyedLogs) -> Iterator[pa.RecordBatch]:
    """Yield a survey, then the bytes of each view's group records."""
    yield from body_rows(task, number, 0, pack(SURVEY, views))
    for kind, log in enumerate(views.values(), 1):
        for chunk, body in enumerate(log.group_log.chunks()):
            yield batch_of(PartRow(task, number, kind, chunk, None, body))


def survey_of(rows: Iterable[PartRow]) -> log_parts.SurveyedLogs:
    """Join the rows of :func:`survey_rows`."""
    views: log_parts.SurveyedLogs = {}
    for kind, own in groupby(rows, key=lambda row: row.kind):
        if kind == 0:
            views = unpack(SURVEY, joined_body(own))
            continue
        log = list(views.values())[kind - 1]
        for row in own:
            log.group_log.spool.append(row.body or b"")
    return views


def body_rows(task: int, number: int, kind: int, whole: bytes) -> Iterator[pa.RecordBatch]:
    """Yield bytes as rows of at most ``CHUNK_BYTES``, one row a batch."""
    body = memoryview(whole)
    for chunk, start in enumerate(range(0, len(body), scanning.CHUNK_BYTES)):
        part = body[start : start + scanning.CHUNK_BYTES].tobytes()
        yield batch_of(PartRow(task, number, kind, chunk, None, part))


def joined_body(rows: Iterable[PartRow]) -> bytes:
    """Join the bytes of rows; raise if a row has an error."""
    bodies = []
    for row in rows:
        if row.error is not None:
            raise CoterieError(row.error)
        bodies.append(row.body or b"")
    return b"".join(bodies)


def error_row(task: int, number: int, error: Exception) -> pa.RecordBatch:
    return batch_of(PartRow(task, number, 0, 0, str(error), None))


def batch_of(row: PartRow) -> pa.RecordBatch:
    import pyarrow as pa

    kinds = (pa.int32(), pa.int64(), pa.int32(), pa.int32(), pa.string(), pa.binary())
    return scanning.rows_of(pa.schema(list(zip(PartRow._fields, kinds, strict=True))), row)


def rows_in(batches: scanning.Batches) -> Iterator[PartRow]:
    """Yield the rows of batches, one row at a time."""
    for batch in batches:
        for number in range(batch.num_rows):
            yield PartRow(*(column[number].as_py() for column in batch.columns))
