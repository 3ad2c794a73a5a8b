"""Questions as DataFrames give the rows that they give in this process."""

import pytest

import coterie_spark
from coterie.errors import CoterieError
from coterie.insight.offsets.end_offsets import EndOffsets, Sample
from coterie.insight.question_engine import fields_of, find_question
from support.golden_data import log, records
from support.spark_questions import QUESTIONS, RESET_CLI, arguments_of, rows_here


@pytest.mark.parametrize(("name", "case", "parameters"), QUESTIONS)
def test_a_question_gives_the_rows_it_gives_in_this_process(spark, name, case, parameters):
    frame = getattr(coterie_spark, name)(spark, log(case), **arguments_of(parameters))
    assert frame.columns == list(fields_of(find_question(name)))
    rows = sorted(map(repr, frame.toArrow().to_pylist()))
    assert rows == rows_here(log(case), name, parameters)


def test_a_time_counts_under_the_name_of_the_command_and_that_of_the_question(spark):
    ends = EndOffsets(False, {("orders", 3): (Sample(None, 9000),)})
    answers = [
        coterie_spark.lag(spark, log("basic"), groups="grp-reset-cli", ends=ends, **at)
        .where("topic = 'orders' and partition = 3")
        .collect()
        for at in ({}, {"at": RESET_CLI}, {"at_ms": RESET_CLI})
    ]
    assert answers[0] != answers[1] == answers[2]
    with pytest.raises(CoterieError, match="at and at_ms say the same; give one of them"):
        coterie_spark.lag(spark, log("basic"), ends=ends, at=RESET_CLI, at_ms=RESET_CLI)


def test_a_url_gives_the_rows_that_its_path_gives(spark):
    case = "compacted"
    by_url, by_path = (
        sorted(map(repr, coterie_spark.growth(spark, place, every_ms=10_000).collect()))
        for place in (log(case).as_uri(), log(case))
    )
    folder = log(case).as_posix()
    assert [row.replace(f"file:{folder}", folder) for row in by_url] == by_path
    assert by_path


def test_a_sample_after_the_newest_record_of_all_is_beyond_the_log(spark):
    newest = max(record["timestamp"] for record in records("basic"))
    samples = (Sample(newest, 9000), Sample(newest + 1, 9000))
    ends = EndOffsets(True, {("orders", 3): samples})
    arguments = {"groups": "grp-reset-cli", "ends": ends}
    frame = coterie_spark.lag(spark, log("basic"), **arguments).where("topic = 'orders'")
    rows = [row for row in frame.collect() if row.partition == 3]
    assert [(row.lag, row.lag_max, row.status) for row in rows] == [
        (9000, None, "ok"),  # reset to 0 by then
        (None, 9000, "beyond_log"),
    ]
    later = coterie_spark.lag(spark, log("basic"), since=newest + 1, **arguments)
    assert {row.status for row in later.where("time is not null").collect()} == {"beyond_log"}
    known = coterie_spark.lag(spark, log("basic"), log_until_ms=newest + 1, **arguments)
    assert {row.status for row in known.where("time is not null").collect()} == {"ok"}
