"""The vote of a group whose members list three protocols, beside Kafka's own.

One group of a size; and for the columns' own sake, a thousand members in as many groups as fit.
"""

import numpy as np
import pytest

import kafka_peer
from coterie import select_protocol, select_protocols

SIZES = {"smoke": [10], "short": [1000], "full": [10, 100, 1000, 10_000, 100_000]}
NAMES = ["range", "roundrobin", "sticky"]
# The same in Groups.java: "sticky" wins in every size from three members on, without a tie.
ORDERS = np.array([[2, 0, 1], [0, 2, 1], [2, 1, 0], [1, 0, 2]], dtype=np.int32)
PEERS = ["coterie", "coterie, many groups", "coterie, names", "kafka"]


def columns(members, groups=1):
    one = ORDERS[np.arange(members) % len(ORDERS)].ravel()
    names = np.tile(one, groups)
    member_start = np.arange(0, len(names) + 1, 3, dtype=np.int64)
    return names, member_start, np.arange(0, members * groups + 1, members, dtype=np.int64)


@pytest.mark.parametrize("peer", PEERS)
@pytest.mark.benchmark(group="votes")
def test_votes(benchmark, note, sizes, peer, size):
    groups = max(1, 1_000_000 // size) if peer == "coterie, many groups" else 1
    if peer == "kafka":
        warm, rounds = (1, 1) if sizes == "smoke" else (20, 15)
        winner = kafka_peer.measure(benchmark, "votes", size, warm=warm, rounds=rounds)
    elif peer == "coterie, names":
        lists = [[NAMES[i] for i in ORDERS[m % len(ORDERS)]] for m in range(size)]
        winner = benchmark(select_protocol, lists)
    else:
        again = max(1, 1_000_000 // (size * groups))  # one alone is as short as reading a clock
        winners, votes = benchmark.pedantic(
            select_protocols, columns(size, groups), iterations=again, rounds=15, warmup_rounds=2
        )
        assert len(set(votes.tolist())) == 1
        (winner,) = {NAMES[i] for i in winners.tolist()}
    assert winner == "sticky"
    note("votes", peer, size, package="coterie", unit="member")
    benchmark.extra_info["count"] = size * groups  # members a call
