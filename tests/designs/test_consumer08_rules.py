"""Rules of the 0.8.2 consumer, read in its source: sessions, registrations, topics, offsets.

Each states what ``ZookeeperConsumerConnector``, ``TopicCount``, ``ZkUtils``, ``zkclient`` 0.3 or
``ConsumerFetcherManager`` of 0.8.2.2 do.
"""

import pytest

from coterie.designs import Times
from coterie.designs.consumer08_registration import Unreadable, parse
from support.designs.scenes08 import node, owned, played, produce, settle, since, start, topic

IDS = "/consumers/group1/ids"
OWNERS = "/consumers/group1/owners"
STORED = "/consumers/group1/offsets/t/0"
KAFKA = {"offsets.storage": "kafka"}


def test_a_session_that_ends_while_a_consumer_waits_for_its_id_is_none_that_it_hears_of():
    """It listens to sessions only once it is registered: nothing registers it a second time."""
    ran = played(
        topic("t", (0,)),
        start("c", at=1000),
        {"op": "crash", "consumer": "c", "at": 20_000},
        start("c", at=21_000, **{"as": "again"}),
        {"op": "expire", "consumer": "again"},
        settle(60_000),
    )
    assert owned(ran.points[0]) == {"c": [], "again": ["t/0"]}
    assert since(ran.points[0], "again")["rebalances"] == 1
    assert since(ran.points[0], "again")["watch_events"] == {}


def test_a_consumer_that_is_cut_off_as_it_starts_registers_once_it_is_back():
    ran = played(
        topic("t", (0,)),
        start("c", at=1000),
        {"op": "zk_cut", "consumer": "c", "at": 1000},
        {"op": "zk_heal", "consumer": "c", "at": 30_000},
        {"op": "touch_topic", "topic": "t", "at": 40_000},
        settle(60_000),
    )
    assert owned(ran.points[0]) == {"c": ["t/0"]}
    assert since(ran.points[0], "c")["rebalances"] == 2


def test_a_filter_whose_session_ends_before_it_hears_of_sessions_is_registered_no_more():
    """It reads the topics in between: there it waits, cut off, and its new session is unheard of.

    It fails at its own id node, and so does whatever an event makes it do later.
    """
    ran = played(
        topic("t", (0,)),
        start("c", at=1000, whitelist="t"),
        {"op": "zk_cut", "consumer": "c", "at": 1005},
        {"op": "zk_heal", "consumer": "c", "at": 20_000},
        settle(40_000),
        {"op": "touch_topic", "topic": "t"},
        settle(60_000, 2),
        times=Times(watch_ms=15),
    )
    first, second = ran.points
    assert first["consumers"]["c"]["state"] == "start_failed"
    assert f"{IDS}/group1_c" not in second["znodes"]
    assert since(second, "c")["failed_rebalances"] == since(second, "c")["rebalances"] == 1


@pytest.mark.parametrize(
    ("data", "fails"),
    [
        ("", 0),
        ("junk", 0),
        ("5", 0),
        ('{"version":1}', 0),
        ('{"version":1,"partitions":{}}', 0),
        ('{"version":1,"partitions":[0]}', 1),
        ('{"version":1,"partitions":{"x":[0]}}', 1),
        ('{"version":1.5,"partitions":{"0":[0]}}', 1),
        ("[0]", 1),
    ],
)
def test_a_topic_s_node_that_names_no_partitions_has_none_and_one_that_is_wrong_fails(data, fails):
    ran = played(
        topic("t", (0,)),
        start("c", at=1000),
        {"op": "znode_set", "path": "/brokers/topics/t", "data": data, "at": 20_000},
        settle(40_000),
    )
    assert owned(ran.points[0]) == {"c": []}
    assert since(ran.points[0], "c")["rebalances"] == 2
    assert since(ran.points[0], "c")["failed_rebalances"] == fails


@pytest.mark.parametrize(
    "data",
    [
        "",
        "7",
        "[]",
        '{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":1447000000000}',
        '{"version":1,"subscription":{"t":1.5},"pattern":"static","timestamp":"1"}',
        '{"version":1,"subscription":{"t":"1"},"pattern":"static","timestamp":"1"}',
        '{"version":1,"subscription":{"t":true},"pattern":"static","timestamp":"1"}',
        '{"version":1,"subscription":{"t":0},"pattern":"static","timestamp":"1"}',
        '{"version":1,"subscription":["t"],"pattern":"static","timestamp":"1"}',
        '{"version":1,"subscription":{"t":1},"timestamp":"1"}',
        '{"version":1,"subscription":{"(":1},"pattern":"white_list","timestamp":"1"}',
    ],
)
def test_what_is_no_registration_is_read_by_nobody(data):
    """Numbers are whole and of 32 bits: ``kafka.utils.Json`` reads them with ``toInt``."""
    with pytest.raises(Unreadable):
        parse(data)
    ran = played(
        topic("t", (0,)), start("c"), node(f"{IDS}/group1_ghost", data, at=20_000), settle(40_000)
    )
    assert owned(ran.points[0]) == {"c": []}
    assert since(ran.points[0], "c")["failed_rebalances"] == 1


def test_a_filter_in_an_id_node_is_read_as_one_that_a_program_gives():
    data = '{"version":1,"subscription":{"\' t , u \'":1},"pattern":"white_list","timestamp":"1"}'
    ran = played(topic("t", (0,), (0,)), node(f"{IDS}/group1_a", data), start("c"), settle(40_000))
    assert owned(ran.points[0]) == {"c": ["t/1"]}


def test_a_group_whose_ids_node_is_made_anew_is_read_anew():
    ran = played(
        topic("t", (0,)),
        start("c1"),
        {"op": "close", "consumer": "c1", "at": 20_000},
        {"op": "znode_delete", "path": IDS},
        start("c2"),
        settle(40_000),
    )
    assert owned(ran.points[0]) == {"c1": [], "c2": ["t/0"]}


def test_an_owner_node_that_cannot_be_deleted_fails_each_try_at_the_release():
    """Its text is the consumer's own: it counts as claimed, also if another client made it."""
    ran = played(
        topic("t", (0,)),
        node(f"{OWNERS}/t/0", "group1_c-0", ephemeral=False),
        start("c"),
        node(f"{OWNERS}/t/0/below", at=20_000),
        {"op": "touch_topic", "topic": "t"},
        settle(40_000),
    )
    assert since(ran.points[0], "c")["rebalances"] == 2
    assert since(ran.points[0], "c")["failed_rebalances"] == 1
    assert ran.points[0]["consumers"]["c"]["next_offsets"] == {"t/0": 0}


def test_a_read_of_a_topic_in_a_new_session_sets_its_watch_before_the_event_for_it_comes():
    """The rebalance of a new session runs on the event thread: here it fails for two seconds."""
    ran = played(
        topic("t", (0,)),
        start("c", at=1000),
        settle(20_000),
        {"op": "expire", "consumer": "c", "at": 21_000},
        node(f"{OWNERS}/t/0", "foreign", at=21_100),
        {"op": "touch_topic", "topic": "t", "at": 22_000},
        settle(60_000, 2),
        times=Times(reconnect_ms=500),
    )
    assert since(ran.points[1], "c")["watch_events"]["topic_data"] == 2


def test_topics_that_come_while_a_filter_takes_up_others_are_taken_up_together():
    """One change of topics at a time; the list is read when the one before is over."""
    ran = played(
        start("f", at=1000, whitelist=".*"),
        topic("a", (0,), at=1020),
        node(f"{OWNERS}/a/0", "foreign", at=1030),
        topic("b", (0,), at=1500),
        topic("d", (0,), at=1600),
        {"op": "znode_delete", "path": f"{OWNERS}/a/0", "at": 3500},
        settle(40_000),
        times=Times(delivery_ms=5, claim_ms=10, watch_ms=15),
    )
    assert owned(ran.points[0]) == {"f": ["a/0", "b/0", "d/0"]}
    assert since(ran.points[0], "f")["rebalances"] == 3
    assert since(ran.points[0], "f")["watch_events"] == {"topics_children": 2}


@pytest.mark.parametrize(
    ("text", "offset"), [("-5", -5), ("+2", 2), ("007", 7), (str(2**63 - 1),) * 2]
)
def test_a_stored_offset_is_any_number_of_64_bits(text, offset):
    """Without a leader it stays as it was read."""
    ran = played(
        topic("t", (1,)),
        {"op": "broker_stop", "broker": 1},
        node(STORED, text, ephemeral=False),
        start("c"),
        settle(40_000),
    )
    assert ran.points[0]["consumers"]["c"]["next_offsets"] == {"t/0": int(offset)}


def test_with_offsets_in_kafka_one_in_zookeeper_that_cannot_be_read_is_waited_for():
    ran = played(
        topic("t", (0,)),
        node(STORED, "seven", ephemeral=False),
        start("c", **{"async": True}),
        settle(40_000),
        {"op": "znode_set", "path": STORED, "data": "0"},
        settle(80_000, 2),
        consumer=KAFKA,
    )
    assert [owned(point) for point in ran.points] == [{"c": []}, {"c": ["t/0"]}]
    assert since(ran.points[1], "c")["failed_rebalances"] == 0


def test_who_closes_while_no_broker_keeps_offsets_waits_for_one_and_commits():
    ran = played(
        topic("t", (0,)),
        start("c"),
        produce(0, 2, at=20_000),
        {"op": "broker_stop", "broker": 0},
        {"op": "close", "consumer": "c", "async": True},
        settle(40_000),
        {"op": "broker_start", "broker": 0},
        settle(80_000, 2),
        brokers=(0,),
        consumer=KAFKA,
    )
    states = [point["consumers"]["c"]["state"] for point in ran.points]
    assert states == ["running", "closed"]
    assert ran.points[1]["kafka_offsets"] == {"group1 t/0": 2}


def test_the_first_commit_after_the_offset_manager_died_stores_nothing():
    """It goes to a closed connection; the manager is looked for by the next."""
    stop, start_again = ({"op": op, "broker": 0} for op in ("broker_stop", "broker_start"))
    ran = played(
        topic("t", (0,)),
        start("c"),
        produce(0, 2, at=20_000),
        stop,
        start_again,
        {"op": "commit", "consumer": "c"},
        settle(30_000),
        {"op": "commit", "consumer": "c"},
        settle(40_000, 2),
        brokers=(0,),
        consumer=KAFKA,
    )
    kept = [point["kafka_offsets"] for point in ran.points]
    assert kept == [{}, {"group1 t/0": 2}]
    assert ran.points[0]["partitions_without_owner_node"] == []


def test_offsets_are_kept_as_long_as_one_lives_of_those_that_did_when_their_topic_was_made():
    ran = played(
        topic("t", (1,)),
        {"op": "broker_stop", "broker": 1},
        start("c"),
        {"op": "broker_start", "broker": 1},
        {"op": "broker_stop", "broker": 0},
        start("d", **{"async": True}),
        settle(40_000),
        {"op": "broker_start", "broker": 0},
        settle(80_000, 2),
        consumer=KAFKA,
    )
    assert since(ran.points[0], "d")["rebalances"] == 0
    assert since(ran.points[1], "d")["rebalances"] == 1


def test_who_is_cut_off_from_zookeeper_finds_no_new_leader_until_it_is_back():
    """The consumer asks a broker for the leader, and finds the brokers in ZooKeeper."""
    ran = played(
        topic("t", (0, 1), (1,)),
        start("c"),
        {"op": "zk_cut", "consumer": "c", "at": 20_000},
        {"op": "broker_stop", "broker": 0},
        produce(0, 1),
        produce(1, 2),
        settle(23_500),
        {"op": "zk_heal", "consumer": "c"},
        settle(60_000, 2),
    )
    consumed = [point["consumers"]["c"]["consumed"] for point in ran.points]
    assert consumed == [{"t/1": [[0, 1]]}, {"t/0": [[0, 0]], "t/1": [[0, 1]]}]
    assert ran.costs["rebalances"] == 1


def test_what_a_rebalance_claims_in_a_new_session_before_its_event_is_never_released():
    """The event makes it forget its registry; the nodes name threads that are to own others now.

    The rebalance lasts on the event thread, at an offset that cannot be read, while the session
    ends and partitions come: b/2 stays with the thread that was to own it before.
    """
    ran = played(
        start("f", at=1000, whitelist="b", streams=2),
        node("/consumers/group1/offsets/b/0", "x", ephemeral=False, at=10_000),
        topic("b", (0,), (0,), (0,)),
        {"op": "add_partitions", "topic": "b", "replicas": [[0], [0]], "at": 15_000},
        {"op": "expire", "consumer": "f"},
        {"op": "znode_set", "path": "/consumers/group1/offsets/b/0", "data": "0", "at": 20_000},
        settle(60_000),
        {"op": "touch_topic", "topic": "b"},
        settle(90_000, 2),
        consumer=KAFKA,
    )
    for point in ran.points:
        assert point["consumers"]["f"]["next_offsets"] == {}
        assert point["znodes"][f"{OWNERS}/b/2"] == {"data": "group1_f-1", "session_of": "f"}
    assert since(ran.points[1], "f")["failed_rebalances"] == 1


def test_a_filter_whose_start_failed_never_hears_of_new_topics():
    """It watches the list of topics only after a start that succeeded.

    Another event makes it claim the new topic too, for which its program has no stream.
    """
    ran = played(
        topic("t", (0,)),
        node(f"{IDS}/group1_ghost", "poison"),
        start("f", whitelist="t|u"),
        {"op": "znode_delete", "path": f"{IDS}/group1_ghost", "at": 20_000},
        topic("u", (0,)),
        settle(40_000),
        {"op": "touch_topic", "topic": "t"},
        {"op": "produce", "topic": "u", "partition": 0, "count": 1, "at": 50_000},
        produce(0, 1),
        settle(60_000, 2),
    )
    assert [owned(point)["f"] for point in ran.points] == [["t/0"], ["t/0", "u/0"]]
    assert since(ran.points[0], "f")["watch_events"] == {"ids_children": 1}
    assert ran.points[1]["consumers"]["f"]["consumed"] == {"t/0": [[0, 0]]}


def test_a_consumer_that_crashes_before_it_has_closed_leaves_its_session_to_its_timeout():
    """Its shutdown waits for the rebalance that is under way."""
    ran = played(
        topic("t", (0,)),
        start("c", at=2000),
        {"op": "close", "consumer": "c", "async": True, "at": 2016},
        {"op": "crash", "consumer": "c", "at": 2020},
        settle(7000),
        settle(20_000, 2),
        times=Times(watch_ms=15, claim_ms=10),
    )
    first, second = ran.points
    assert first["consumers"]["c"]["state"] == "crashed"
    assert [f"{IDS}/group1_c" in point["znodes"] for point in (first, second)] == [True, False]
    assert [one.kind for one in ran.timeline if one.kind in ("closed", "crashed")] == ["crashed"]
