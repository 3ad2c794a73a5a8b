"""Every question reads every golden log, damaged ones too, and gives only its declared fields."""

import pytest

from coterie.insight.offsets.divergence import Live
from coterie.insight.offsets.end_offsets import EndOffsets, Sample
from coterie.insight.questions import audit, expire, growth, lag, time_range
from coterie.insight.records.partition_view import read_partitions
from support.golden_data import cases, corrupt_cases, log

LONGEST = (1 << 63) - 1
QUESTIONS = [
    (audit, audit.Parameters(no_progress=2, metadata_bytes=0, live=Live({}, 3))),
    (expire, expire.Parameters(now_ms=LONGEST, retention_ms=1, what_if_ms=(LONGEST,))),
    (expire, expire.Parameters(now_ms=-LONGEST, retention_ms=LONGEST)),
    (time_range, time_range.Parameters()),
    (growth, growth.Parameters()),
    (growth, growth.Parameters(every_ms=1)),
    (
        lag,
        lag.Parameters(EndOffsets(True, {("orders", 0): (Sample(0, 5), Sample(LONGEST, LONGEST))})),
    ),
]


@pytest.mark.parametrize("case", [*cases(), *(f"corrupt/{case}" for case in corrupt_cases())])
def test_a_question_keeps_to_its_fields_whatever_the_log(case):
    pa = pytest.importorskip("pyarrow")
    from coterie.insight.fields import arrow_table

    for view in read_partitions([log(case)]):
        for question, parameters in QUESTIONS:
            rows = list(question.rows(view, parameters))
            assert all(list(row) == list(question.FIELDS) for row in rows)
            assert isinstance(arrow_table(question.FIELDS, rows), pa.Table)
