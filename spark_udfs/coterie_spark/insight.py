"""The questions of ``coterie.insight`` on Spark, with the rows of the local answers.

A task takes a partition of the topic. Each question is a function that returns a DataFrame; a new
one needs a line at the end. Workers read plain paths by their absolute names, and need coterie
installed. Imports no Spark.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from coterie.base.times import Time
from coterie.errors import CoterieError
from coterie.insight.answering import each_group_once, needs_each_group_once, orders_in
from coterie.insight.fields import arrow_schema, arrow_table
from coterie.insight.question_engine import (
    PartitionAnswer,
    QuestionRequest,
    fields_of,
    find_question,
    partition_answer,
    question_request,
    rows_of,
)
from coterie.insight.questions import group_names, time_range
from coterie.insight.records.partition_view import PartitionView
from coterie.log.folders import Listing, Log
from coterie.state.pickling import pack, unpack
from coterie.state.replay_engine import Progress
from coterie.state.several_partitions import Orders, together
from coterie_spark.replay_job import scanning
from coterie_spark.replay_job.arrow import spark_schema, to_spark
from coterie_spark.replay_job.listing import listing_of_paths
from coterie_spark.replay_job.settings import CHUNK_ROWS, bounded_batches
from coterie_spark.replay_job.spool import Partitions, each_partition, lies_at_urls

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, Row, SparkSession
    from pyspark.sql.types import StructType

ROWS_AT_ONCE = 20_000
PART = "part of an answer"
ViewMaker = Callable[[], PartitionView]
Answer = Callable[[QuestionRequest, int, ViewMaker], Iterator["pa.RecordBatch"]]
Frame = Callable[..., "DataFrame"]


def question_frame(spark: SparkSession, request: QuestionRequest) -> DataFrame:
    """Return the rows of each partition as a DataFrame with the fields of the question."""
    log = log_of(spark, request.log)
    return answers_over(spark, log, request, row_batches, frame_schema(request))


def frame_schema(request: QuestionRequest) -> StructType:
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(spark_schema(arrow_schema(fields_of(find_question(request.question)))))


def frame_of_each_group_once(
    spark: SparkSession, request: QuestionRequest, listing: Listing
) -> DataFrame:
    """Return a question's rows, those of a group in several partitions from all of them.

    See ``coterie.insight.answering``. A log with several partitions is read once at the call, for
    the names of its groups.
    """
    from pyspark.sql import functions as f

    frame = question_frame(spark, request)
    orders = orders_of(spark, request, listing)
    if not orders:
        return frame
    is_of_one = f.coalesce(~frame["group_id"].isin(*orders), f.lit(True))
    log, requests = [], []
    for order, names in together(orders).items():
        log.append((order[-1], list(listing.joined(order).segments)))
        requests.append(replace(request, groups=frozenset(names)))
    work = partial(answer_whole, row_batches, log, requests)
    of_several = each_partition(spark, log, work, frame_schema(request))
    return frame.where(is_of_one).union(of_several)


def orders_of(spark: SparkSession, request: QuestionRequest, listing: Listing) -> Orders:
    if not needs_each_group_once(request, listing):
        return {}
    ask = partial(collected, spark)
    names = replace(request, question=group_names.NAME, parameters=group_names.Parameters())
    groups = {part.number: part.present_groups for part in ask(names)}
    return orders_in(groups, listing, lambda request, _: ask(request), request.at_ms)


def answer(request: QuestionRequest, progress: Progress) -> Iterator[PartitionAnswer]:
    """Answer a question of the command line in a session of its own."""
    from coterie_spark.replay_job.engine import session_of_command

    with session_of_command(request.master, progress, request.conf) as spark:
        listing = listing_of_paths(spark, request.log)
        request, ask = replace(request, log=listing), partial(answer_in, spark)
        answers = each_group_once(request, listing, ask, ask(request, progress), progress)
        at_once = deque(answers)  # before the session ends
    while at_once:
        yield at_once.popleft()


def answer_in(
    spark: SparkSession, request: QuestionRequest, progress: Progress
) -> Iterator[PartitionAnswer]:
    """Answer for each partition in a session, as if no group were in several."""
    from coterie_spark.replay_job.engine import JobProgress

    if getattr(request.parameters, "now_ms", 0) is None:
        now_ms = newest_ms(spark, request.log)
        ask = replace(request.parameters, now_ms=-1 if now_ms is None else now_ms)
        request = replace(request, parameters=ask)
    size = sum(segment.size for _, own in log_of(spark, request.log) for segment in own)
    progress.total(size)
    progress.stage("reading")
    yield from collected(spark, request, JobProgress(spark, size, progress).run)


def collected(
    spark: SparkSession,
    request: QuestionRequest,
    run: Callable[[Callable[[], list[Row]]], list[Row]] = lambda job: job(),
) -> Iterator[PartitionAnswer]:
    """Answer for each partition in a session of any kind; ``run`` runs the job."""
    log = log_of(spark, request.log)
    frame = answers_over(spark, log, request, part_batches, scanning.STATE_DDL)
    with bounded_batches(spark, CHUNK_ROWS if lies_at_urls(log) else 1):
        rows = run(frame.collect)
    return answers_of(rows)


def answers_of(rows: Iterable[Any]) -> Iterator[PartitionAnswer]:
    """Yield the answers in rows of ``scanning.STATE_DDL``, in order of the partitions."""
    chunks: dict[int, list[bytes]] = {}
    for row in sorted(rows, key=lambda row: (row.number, row.chunk)):
        if row.error is not None:
            raise CoterieError(row.error)
        chunks.setdefault(row.number, []).append(bytes(row.body))
    for bodies in chunks.values():
        yield unpack(PART, b"".join(bodies))


def log_of(spark: SparkSession, log: Log) -> Partitions:
    listing = log if isinstance(log, Listing) else listing_of_paths(spark, list(log))
    return list(listing.partitions().items())


def view_of(
    log: Partitions, request: QuestionRequest, read: scanning.Reader, task: int
) -> PartitionView:
    """Return the view of a task's partition, nothing read yet."""
    number, segments = log[task]
    return PartitionView(number, segments, request.groups, request.at_ms, read, request.since_ms)


def answers_over(
    spark: SparkSession,
    log: Partitions,
    request: QuestionRequest,
    answer: Answer,
    schema: Any,
) -> DataFrame:
    """Return the rows of ``answer`` for each partition."""
    requests = [request] * len(log)
    return each_partition(spark, log, partial(answer_whole, answer, log, requests), schema)


def answer_whole(
    answer: Answer,
    log: Partitions,
    requests: Sequence[QuestionRequest],
    read: scanning.Reader,
    batches: scanning.Batches,
) -> Iterator[pa.RecordBatch]:
    """Answer for the partitions whose numbers are in column ``id``, each as a whole."""
    for batch in batches:
        for task in batch.column(0).to_pylist():
            request = requests[task]
            yield from answer(request, task, partial(view_of, log, request, read, task))


def row_batches(request: QuestionRequest, task: int, view: ViewMaker) -> Iterator[pa.RecordBatch]:
    """Answer for a partition: rows in Spark's types."""
    question = find_question(request.question)
    columns = fields_of(question)
    schema = spark_schema(arrow_schema(columns))
    rows: list[dict[str, Any]] = []
    for row in rows_of(view(), question, request.parameters):
        rows.append(row)
        if len(rows) == ROWS_AT_ONCE:
            yield from to_spark(arrow_table(columns, rows), schema).to_batches()
            rows = []
    yield from to_spark(arrow_table(columns, rows), schema).to_batches()


def part_batches(request: QuestionRequest, task: int, view: ViewMaker) -> Iterator[pa.RecordBatch]:
    """Answer for a partition: its ``PartitionAnswer`` as bytes."""
    question = find_question(request.question)
    try:
        part = partition_answer(view(), question, request.parameters)
    except CoterieError as error:
        yield scanning.error_batch(None, task, error)
    else:
        yield from scanning.chunk_batches(part.number, task, pack(PART, part))


def newest_ms(spark: SparkSession, log: Log) -> int | None:
    """Return the time of a log's newest record; None if no record has a time."""
    frame = question_frame(
        spark, QuestionRequest(time_range.NAME, time_range.Parameters(), log, frozenset())
    )
    newest: int | None = frame.selectExpr("max(unix_millis(newest_timestamp))").collect()[0][0]
    return newest


def question(name: str) -> Frame:
    """Return the function that answers a question of ``coterie.insight`` on Spark."""

    def ask(
        spark: SparkSession,
        paths: scanning.Paths,
        *,
        groups: str | Iterable[str] | None = None,
        at: Time = None,
        since: Time = None,
        until: Time = None,
        **parameters: Any,
    ) -> DataFrame:
        request = question_request(
            name,
            partial(listing_of_paths, spark, paths),
            partial(newest_ms, spark),
            groups=groups,
            at=at,
            since=since,
            until=until,
            parameters=parameters,
        )
        return frame_of_each_group_once(spark, request, cast(Listing, request.log))

    ask.__name__ = ask.__qualname__ = name
    ask.__doc__ = f"""Answer ``coterie {name}`` as a DataFrame; a task takes a partition.

    Parameters
    ----------
    spark : SparkSession
        Its workers need coterie installed, and reach plain paths by the same absolute names.
    paths
        Folders that hold ``__consumer_offsets-N`` folders, such folders, or segment files; plain
        paths or URLs, as for :func:`coterie_spark.replay`. A worker copies the segments of a
        partition at a URL into local files while it answers.
    groups
        Only these groups; None: all.
    at, since, until
        As ``--at``, ``--since``, ``--until``: epoch ms, ISO 8601 with zone, or a datetime with
        zone.
    **parameters
        Fields of ``coterie.insight.{name}.Parameters``. The default of ``now_ms`` and
        ``log_until_ms`` is the time of the log's newest record, as for the command.

    Returns
    -------
    DataFrame
        The columns of ``coterie.insight.{name}.FIELDS``, and ``trusted_from``.
    """
    return ask


audit = question("audit")
expire = question("expire")
explain = question("explain")
growth = question("growth")
lag = question("lag")
undo = question("undo")
metrics = question("metrics")
