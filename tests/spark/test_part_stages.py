"""The stages of a question in parts, as the functions that workers run. No JVM is started."""

from operator import itemgetter
from types import SimpleNamespace

import pytest

from coterie.insight.question_engine import QuestionRequest, find_question, rows_of
from coterie.insight.records.partition_view import read_partitions
from coterie.log.folders import find_segments
from coterie_spark.replay_job import parted, scanning
from support.golden_data import log
from support.segment_cutter import in_small_segments
from support.spark_questions import QUESTIONS

pa = pytest.importorskip("pyarrow")


def shuffled(batches):
    """The rows of a stage in the order that the next one gets them."""
    return map(parted.batch_of, sorted(parted.rows_in(batches), key=itemgetter(0, 1, 2, 3)))


def answered(query, answer):
    """The rows of each partition, by its place."""
    numbers = pa.RecordBatch.from_pydict({"id": range(len(query.parts))})
    rows = shuffled(parted.survey(query, query.read, [numbers]))
    rows = shuffled(parted.aggregate(query, shuffled(parted.join(query, rows))))
    return list(parted.finish(query, answer, rows))


@pytest.mark.parametrize(
    ("name", "case", "parameters"), [one for one in QUESTIONS if one[1] == "transactions"][1:]
)
def test_the_stages_give_the_rows_of_one_reading(tmp_path, monkeypatch, name, case, parameters):
    for limit, size in (("PART_BYTES_MIN", 1), ("PART_BYTES", 1)):
        monkeypatch.setattr(parted, limit, size)
    monkeypatch.setattr(scanning, "CHUNK_BYTES", 2000)  # several chunks of each row
    small = in_small_segments(log(case), tmp_path, 4)
    question = find_question(name)
    request = QuestionRequest(name, question.Parameters(**parameters), (small,))
    session = SimpleNamespace(sparkContext=SimpleNamespace(master="local", defaultParallelism=1))
    partitions = list(find_segments([small]).partitions().items())
    query = parted.in_parts(session, partitions, request)

    def answer(request, place, make_view):
        view = make_view()
        assert view.number == partitions[place][0]
        yield [*rows_of(view, question, request.parameters)]

    expected = [[*rows_of(view, question, request.parameters)] for view in read_partitions([small])]
    assert answered(query, answer) == expected
