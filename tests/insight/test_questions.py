"""Every question goes through every golden log, also the damaged ones, and keeps to its fields."""

import pytest

from coterie.insight.offsets.divergence import Live
from coterie.insight.offsets.end_offsets import EndOffsets, Sample
from coterie.insight.questions import audit, expire, growth, lag, time_range
from coterie.insight.records.partition_view import read_facts
from support.golden_data import cases, corrupt_cases, log

LONGEST = (1 << 63) - 1
ASKED = [
    (audit, audit.Ask(no_progress=2, metadata_bytes=0, live=Live({}, 3))),
    (expire, expire.Ask(now_ms=LONGEST, retention_ms=1, what_if_ms=(LONGEST,))),
    (expire, expire.Ask(now_ms=-LONGEST, retention_ms=LONGEST)),
    (time_range, time_range.Ask()),
    (growth, growth.Ask()),
    (growth, growth.Ask(every_ms=1)),
    (lag, lag.Ask(EndOffsets(True, {("orders", 0): (Sample(0, 5), Sample(LONGEST, LONGEST))}))),
]


@pytest.mark.parametrize("case", [*cases(), *(f"corrupt/{case}" for case in corrupt_cases())])
def test_a_question_keeps_to_its_fields_whatever_the_log(case):
    pa = pytest.importorskip("pyarrow")
    from coterie.insight.render.fields import arrow_table

    for view in read_facts([log(case)]):
        for question, ask in ASKED:
            rows = list(question.rows(view, ask))
            assert all(list(row) == list(question.FIELDS) for row in rows)
            assert isinstance(arrow_table(question.FIELDS, rows), pa.Table)
