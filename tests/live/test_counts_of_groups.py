"""What is counted of the groups of a partition that is watched."""

import pytest

from coterie.live.live_partition import LivePartition
from coterie.live.log_growth import Growth
from coterie.log.folders import Segment
from support.log_writer import batch, group_key, group_value


@pytest.mark.parametrize(
    ("trusted_from_ms", "counts_all", "rebalances"),
    [(None, False, 3), (2_000, False, 2), (2_001, False, 1), (2_001, True, 3)],
)
def test_rebalances_are_counted_from_when_on_the_log_is_complete(
    trusted_from_ms, counts_all, rebalances
):
    data = b"".join(
        batch(at, [(1_000 * (at + 1), group_key(b"g"), group_value(at + 1, [member]))])
        for at, member in enumerate((b"a", b"b", b"c"))
    )
    live = LivePartition(0, trusted_from_ms, counts_all=counts_all)
    segment = Segment("0.log", 0, 0, len(data), None)
    live.take([Growth(segment, memoryview(data), 0, len(data))])
    assert live.counts.rebalances.total() == rebalances
