"""Records taken as objects give the state that their bytes give."""

import pytest

from coterie._core.codec.batch import LogReader
from coterie._core.fold.fold import PartitionFold, take
from coterie.state.rows import group_rows
from support.golden_data import cases, segments


@pytest.mark.parametrize("case", cases())
def test_batches_taken_as_records_give_the_same_groups(case):
    for path in segments(case):
        data = path.read_bytes()
        scanned, taken = PartitionFold(), PartitionFold()
        scanned.scan(data)
        for batch in LogReader(data):
            records = [(r.offset, r.timestamp, r.key, r.value) for r in batch.records]
            take(
                taken,
                records,
                producer_id=batch.producer_id,
                transactional=batch.is_transactional,
                control=batch.is_control,
            )
        assert group_rows(0, taken) == group_rows(0, scanned)
        assert taken.seq == scanned.seq
