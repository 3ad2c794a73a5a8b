"""Rules of the 0.8.2 consumer that no golden scenario here shows, and its costs."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.designs.consumer08_cluster import GroupViews, java_hash, range_share, round_robin_share
from coterie.designs.consumer08_registration import (
    BLACK,
    WHITE,
    Subscription,
    by_filter,
    node_data,
    parse,
    static,
)
from support.designs.scenes08 import owned, played, produce, settle, start, topic


@pytest.mark.parametrize("members", [1, 2, 8, 40])
def test_n_consumers_that_join_one_by_one_rebalance_n_times_n_plus_1_by_2(members):
    joins = [start(f"c{i:02}", at=2000 + 20_000 * i) for i in range(members)]
    ran = played(topic("t", *[(0,)] * members), *joins, settle(2000 + 20_000 * members))
    assert ran.costs["rebalances"] == members * (members + 1) // 2
    assert ran.costs["watch_events"] == members * (members - 1) // 2
    assert ran.counted["failed_rebalances"] == 0
    assert ran.points[0]["partitions_without_owner_node"] == []


def test_a_group_is_read_once_for_each_change_of_it_not_for_each_rebalance(monkeypatch):
    """What keeps a thousand joins cheap: 500,500 rebalances read a thousand registries."""
    read = []
    once = GroupViews._read

    def counted(self, ids, **options):
        read.append(ids)
        return once(self, ids, **options)

    monkeypatch.setattr(GroupViews, "_read", counted)
    joins = [start(f"c{i:02}", at=2000 + 20_000 * i) for i in range(30)]
    ran = played(topic("t", *[(0,)] * 30), *joins, settle(2000 + 20_000 * 30))
    assert ran.costs["rebalances"] == 465
    assert len(read) == 30


def test_a_thread_that_the_program_has_no_stream_for_owns_and_consumes_nothing():
    """Its own node says two streams: it owns for both, and reads only for the one it has."""
    data = '{"version":1,"subscription":{"t":2},"pattern":"static","timestamp":"0"}'
    ran = played(
        topic("t", (0,), (0,)),
        start("c", at=1000),
        {"op": "znode_set", "path": "/consumers/group1/ids/group1_c", "data": data},
        {"op": "touch_topic", "topic": "t"},
        produce(0, 1, at=30_000),
        produce(1, 1),
        settle(60_000),
    )
    assert owned(ran.points[0]) == {"c": ["t/0", "t/1"]}
    assert ran.points[0]["consumers"]["c"]["consumed"] == {"t/0": [[0, 0]]}


CEILING = [(4, 3, [2, 2, 0]), (10, 4, [3, 3, 3, 1]), (6, 4, [2, 2, 2, 0]), (3, 2, [2, 1])]


@pytest.mark.parametrize(("partitions", "threads", "sizes"), CEILING)
def test_the_document_s_rule_is_an_option(partitions, threads, sizes):
    joins = [start(f"c{i}", at=2000 + 20_000 * i) for i in range(threads)]
    ran = played(
        topic("t", *[(0,)] * partitions),
        *joins,
        settle(2000 + 20_000 * threads),
        consumer={"assignment": "ceiling"},
    )
    assert [len(nodes) for nodes in owned(ran.points[0]).values()] == sizes


@given(st.integers(1, 30), st.integers(1, 30))
def test_the_two_rules_agree_exactly_where_the_specification_says(partitions, threads):
    names = [f"c-{i:02}" for i in range(threads)]
    positions = {"t": {name: i for i, name in enumerate(names)}}
    present = {"t": list(range(partitions))}

    def sizes(**rule):
        shares = [range_share({"t": [name]}, present, positions, **rule) for name in names]
        assert sorted(key for share in shares for key in share) == [("t", i) for i in present["t"]]
        return [len(share) for share in shares]

    agree = partitions <= threads or partitions % threads in (0, threads - 1)
    assert (sizes() == sizes(ceiling=True)) == agree


def test_equal_hashes_go_by_the_later_topic_first():
    assert java_hash("Aa") == java_hash("BB") == 2112
    assert java_hash("polygenelubricants") == -(2**31)
    mine = {"Aa": ["c-0"], "BB": ["c-0"]}
    positions = {name: {"c-0": 0, "d-0": 1} for name in mine}
    share = round_robin_share(mine, {"Aa": [0], "BB": [0]}, positions)
    assert list(share) == [("BB", 0)]


names = st.text(alphabet='abc.-_/\\"*', min_size=1, max_size=8)


@given(st.dictionaries(names, st.integers(1, 9), min_size=1, max_size=4))
def test_what_a_consumer_says_of_itself_others_read(streams):
    plain = {name.replace("\\", "").replace('"', "") + "x": n for name, n in streams.items()}
    assert parse(node_data(static(plain), 5)) == static(plain)
    text, count = next(iter(streams.items()))
    for pattern in (WHITE, BLACK):
        try:
            filtered = by_filter(pattern, text, count)
        except ValueError:
            continue  # no regular expression
        if filtered.streams[0][0]:
            assert parse(node_data(filtered, 5)) == filtered


def test_an_id_node_is_written_as_kafka_writes_it():
    assert node_data(static({"t": 2}), 7) == (
        '{"version":1,"subscription":{"t":2},"pattern":"static","timestamp":"7"}'
    )
    assert json.loads(node_data(by_filter(WHITE, "a/b\\.c", 1), 7))["subscription"] == {
        "a/b\\.c": 1
    }
    assert r'{"a\/b\\.c":1}' in node_data(by_filter(WHITE, "a/b\\.c", 1), 7)


def test_filters_leave_out_the_internal_topic_unless_told():
    taken = Subscription(WHITE, ((".*", 1),))
    there = ["a", "__consumer_offsets"]
    assert set(taken.topics(there, exclude_internal=True)) == {"a"}
    assert set(taken.topics(there, exclude_internal=False)) == set(there)


def test_a_consumer_restarted_under_a_dead_one_s_id_waits_for_its_session_to_end():
    ran = played(
        topic("t", (0,)),
        start("c", at=1000),
        {"op": "crash", "consumer": "c", "at": 20_000},
        start("c", at=21_000, **{"as": "again"}),
        settle(26_000),
        settle(60_000, 2),
    )
    assert owned(ran.points[0]) == {"c": ["t/0"], "again": []}
    assert ran.points[0]["consumers"]["again"]["since_last_point"]["rebalances"] == 0
    assert owned(ran.points[1]) == {"c": [], "again": ["t/0"]}


def test_a_leader_that_dies_moves_fetching_not_ownership():
    ran = played(
        topic("t", (0, 1), (1, 0)),
        start("c", at=1000),
        produce(0, 2, at=2000),
        {"op": "broker_stop", "broker": 0},
        produce(0, 3, at=4000),
        settle(30_000),
        {"op": "broker_start", "broker": 0},
        produce(0, 1),
        settle(60_000, 2),
    )
    for point, last in zip(ran.points, (4, 5), strict=True):
        assert point["consumers"]["c"]["consumed"] == {"t/0": [[0, last]]}
    assert ran.costs["rebalances"] == 1


def test_without_a_leader_nothing_is_fetched_and_nothing_can_be_produced():
    ran = played(
        topic("t", (0,), (1,)),
        {"op": "broker_stop", "broker": 1},
        start("c"),
        produce(1, 2),
        settle(30_000),
        {"op": "broker_start", "broker": 1},
        produce(1, 1),
        settle(60_000, 2),
    )
    first, second = (point["consumers"]["c"] for point in ran.points)
    assert first["next_offsets"] == {"t/0": 0, "t/1": -1}
    assert second["next_offsets"] == {"t/0": 0, "t/1": 1}
    assert ran.counted["refused"] == 2


def test_an_unclean_leader_takes_the_log_back_and_the_consumer_resets():
    ran = played(
        topic("t", (0, 1)),
        start("c"),
        produce(0, 2),
        {"op": "broker_stop", "broker": 1},
        produce(0, 3),
        {"op": "broker_stop", "broker": 0},
        {"op": "broker_start", "broker": 1},
        settle(30_000),
    )
    assert ran.points[0]["consumers"]["c"]["consumed"] == {"t/0": [[0, 4], [0, 1]]}


def test_two_consumers_of_one_partition_are_two_lanes_of_the_timeline():
    ran = played(
        topic("t", (0,)),
        start("a", at=1000),
        {"op": "zk_cut", "consumer": "a", "at": 20_000},
        start("b", at=40_000),
        produce(0, 1, at=60_000),
        settle(80_000),
    )
    assert ran.points[0]["partitions_that_several_believe_theirs"] == {"group1 t/0": ["a", "b"]}
    consumed = [(one.consumer, one.details) for one in ran.timeline if one.kind == "consumed"]
    assert consumed == [("a", ("t", 0, 0, 0)), ("b", ("t", 0, 0, 0))]


def test_time_that_a_point_leaves_for_settling_is_no_time_for_periodic_commits():
    every = {"auto.commit.interval.ms": 5000}
    wait = {"op": "wait", "ms": 6000, "at": 60_000}
    ran = played(
        topic("t", (0,)),
        start("c"),
        produce(0, 1),
        settle(50_000),
        wait,
        settle(90_000, 2),
        consumer=every,
    )
    path = "/consumers/group1/offsets/t/0"
    assert path not in ran.points[0]["znodes"]
    assert ran.points[1]["znodes"][path] == {"data": "1"}


@pytest.mark.parametrize(("wait_ms", "commits"), [(3_000, False), (5_000, True)])
def test_a_wait_before_a_point_is_time_for_periodic_commits_in_milliseconds(wait_ms, commits):
    """One is due 5 s after the start at 2 s: 1 s passes until the first point settles, so 4 s
    of the wait are left."""
    ran = played(
        topic("t", (0,), at=1000),
        start("c", at=2000),
        produce(0, 1, at=3000),
        settle(50_000),
        {"op": "wait", "ms": wait_ms, "at": 50_000},
        settle(90_000, 2),
        consumer={"auto.commit.interval.ms": 5000},
    )
    assert ("/consumers/group1/offsets/t/0" in ran.points[1]["znodes"]) == commits


def test_the_coordinator_s_stop_stops_any_broker():
    ran = played(topic("t", (0,), (1,)), {"op": "coordinator_stop"}, start("c"), settle(30_000))
    assert ran.points[0]["consumers"]["c"]["next_offsets"] == {"t/0": -1, "t/1": 0}


@pytest.mark.parametrize("text", ["", "seven", "1_0", "+", "9" * 30, str(2**63)])
def test_a_stored_offset_that_is_no_number_fails_every_try(text):
    path = "/consumers/group1/offsets/t/0"
    node = {"op": "znode_create", "path": path, "data": text, "ephemeral": False}
    ran = played(topic("t", (0,)), node, start("c"), settle(30_000))
    assert ran.points[0]["consumers"]["c"]["state"] == "start_failed"
    assert owned(ran.points[0]) == {"c": []}


def test_a_registration_that_a_foreign_node_keeps_out_fails_the_start():
    node = {"op": "znode_create", "path": "/consumers/group1/ids", "data": ""}
    ran = played(topic("t", (0,)), node, start("c"), settle(30_000))
    consumer = ran.points[0]["consumers"]["c"]
    assert consumer["state"] == "start_failed"
    assert consumer["since_last_point"]["rebalances"] == 0
