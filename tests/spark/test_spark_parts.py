"""A partition that is read in parts by several tasks gives the rows of one that is read as one."""

import pytest

import coterie_spark
from coterie.insight.question_engine import QuestionRequest, find_question
from coterie_spark.replay_job import parted
from support.golden_data import log
from support.segment_cutter import in_small_segments
from support.spark_questions import QUESTIONS, RESET_CLI, arguments_of, rows_here


@pytest.fixture(scope="module")
def cut(tmp_path_factory):
    """Logs whose partitions have several segments, by case."""
    home = tmp_path_factory.mktemp("parts")
    for case in {case for _, case, _ in QUESTIONS}:
        in_small_segments(log(case), home / case, 4)
    return home


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Make each segment a part."""
    monkeypatch.setattr(parted, "PART_BYTES_MIN", 1)
    monkeypatch.setattr(parted, "PART_BYTES", 1)


# By a path and by a URL the first; the others in the slow run, and on a stand-in for Spark in
# test_questions_in_process.py.
IN_PARTS = [
    pytest.param(*question, scheme, marks=[pytest.mark.slow] if number else [])
    for number, question in enumerate(QUESTIONS)
    for scheme in ("", "file:")
]


@pytest.mark.parametrize(("name", "case", "parameters", "scheme"), IN_PARTS)
def test_a_question_in_parts_gives_the_rows_it_gives_in_this_process(
    spark, cut, name, case, parameters, scheme
):
    where = f"{scheme}{cut / case}"
    frame = getattr(coterie_spark, name)(spark, where, **arguments_of(parameters))
    rows = [repr(row).replace(where, str(cut / case)) for row in frame.toArrow().to_pylist()]
    assert sorted(rows) == rows_here(cut / case, name, parameters)


@pytest.mark.parametrize("scheme", ["", "file:"])
def test_large_partitions_are_cut_and_others_are_not(spark, cut, monkeypatch, scheme):
    from coterie_spark.insight import log_of

    request = QuestionRequest(
        "undo", find_question("undo").Parameters(RESET_CLI), (f"{scheme}{cut / 'basic'}",)
    )
    partitions = log_of(spark, request.log)
    query = parted.in_parts(spark, partitions, request)
    assert [part for _, part in query.parts] == [
        (segment,) for _, segments in partitions for segment in segments
    ]
    monkeypatch.setattr(parted, "PART_BYTES_MIN", 1 << 30)
    monkeypatch.setattr(parted, "PART_BYTES", 1 << 30)
    assert parted.in_parts(spark, partitions, request) is None


def test_a_part_that_cannot_be_read_is_one_line(spark, cut, tmp_path, monkeypatch):
    in_small_segments(log("basic"), tmp_path / "gone", 4)
    frame = coterie_spark.undo(spark, tmp_path / "gone", at=RESET_CLI)
    (first, *_) = sorted(tmp_path.glob("gone/*/*.log"))
    first.unlink()
    with pytest.raises(Exception, match=first.name) as raised:
        frame.collect()
    assert "CoterieError" in str(raised.value)
