"""The vote of groups, beside Kafka's own: lists alike, and lists of several lengths.

Members that all list three protocols: one group of a size; and for the columns' own sake, as many
groups as make a million members. Members of which some list two and some three, not the same
ones: in one group, and in groups of five.
"""

import itertools
import random

import numpy as np
import pytest

import kafka_peer
from coterie import select_protocol, select_protocols

SIZES = {"smoke": [10], "short": [1000], "full": [10, 100, 1000, 10_000, 100_000]}
NAMES = ["range", "roundrobin", "sticky", "cooperative-sticky"]
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
        (winner,) = kafka_peer.measure(benchmark, "votes", size, warm=warm, rounds=rounds)
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


UNEQUAL = ([1, 0], [0, 1, 2], [3, 1, 0])


def unequal(members, groups):
    """Lists drawn one by one, as a branch could learn no order; an odd number a group: no tie."""
    draw = random.Random(20261122)
    return [[draw.choice(UNEQUAL) for _ in range(members)] for _ in range(groups)]


@pytest.mark.parametrize("peer", ["coterie", "kafka"])
@pytest.mark.parametrize("of", [5, None], ids=["groups of five", "one group"])
@pytest.mark.benchmark(group="votes, unequal lists")
def test_votes_of_unequal_lists(benchmark, note, sizes, peer, of, size, tmp_path):
    members = of or size - 1
    groups = unequal(members, size // 5 if of else 1)
    lists = list(itertools.chain(*groups))
    flat = np.array(list(itertools.chain(*lists)), dtype=np.int32)
    member_start = np.cumsum([0, *map(len, lists)], dtype=np.int64)
    group_start = np.arange(0, len(lists) + 1, members, dtype=np.int64)
    if peer == "kafka":
        file = tmp_path / "lists.txt"
        words = ([",".join(NAMES[i] for i in names) for names in group] for group in groups)
        file.write_text("".join(" ".join(each) + "\n" for each in words))
        warm, rounds = (1, 1) if sizes == "smoke" else (20, 15)
        found = kafka_peer.measure(benchmark, "votes", size, warm=warm, rounds=rounds, files=[file])
        winners, _ = select_protocols(flat, member_start, group_start)
        assert found == [NAMES[i] for i in winners.tolist()]
    else:
        again = max(1, 1_000_000 // size)
        benchmark.pedantic(
            select_protocols, (flat, member_start, group_start), iterations=again, rounds=15,
            warmup_rounds=2,
        )  # fmt: skip
    work = "votes, unequal lists" + ("" if of else ", one group")
    note(work, peer, size, package="coterie", unit="member")
    benchmark.extra_info["count"] = len(lists)
