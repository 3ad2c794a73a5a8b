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
    live = LivePartition(0, trusted_from_ms, counts_all=counts_all)
    take_generations(live, [b"a"], [b"b"], [b"c"])
    assert live.counts.rebalances.total() == rebalances


def test_a_rebalance_counts_for_the_first_of_its_causes():
    live = LivePartition(0, None, counts_all=False)
    take_generations(live, [b"a"], [b"b", b"c"])  # b in place of a, and c beside it
    assert live.counts.rebalances == {("g", "joined"): 1, ("g", "restarted"): 1}


def take_generations(live, *generations):
    """Let a partition grow by generations of a group; all members are on one host."""
    data = b"".join(
        batch(at, [(1_000 * (at + 1), group_key(b"g"), group_value(at + 1, members))])
        for at, members in enumerate(generations)
    )
    segment = Segment("0.log", 0, 0, len(data), None)
    live.take([Growth(segment, memoryview(data), 0, len(data))])
