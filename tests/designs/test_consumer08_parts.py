"""Parts of the 0.8.2 consumer by themselves: brokers, fetchers, the ZooKeeper client, texts."""

import pytest

from coterie.base.schedule import Gate, Schedule, Task, TooManySteps
from coterie.designs import Times
from coterie.designs.consumer08 import Fetchers, Owned
from coterie.designs.consumer08_cluster import (
    OFFSETS_TOPIC,
    Brokers,
    ZkClient,
    consumer_config,
    thread_ids,
    topic_data,
)
from coterie.designs.consumer08_registration import (
    WHITE,
    Unreadable,
    by_filter,
    node_data,
    parse,
    static,
)
from coterie.designs.zookeeper import ZooKeeper


def cluster(*replicas, brokers=(0, 1, 2), deletes=True):
    """Brokers with a topic of partitions with these replicas, and their clock."""
    schedule = Schedule()
    made = Brokers(ZooKeeper(schedule, tick_ms=500), brokers, up=True, deletes=deletes)
    if replicas:
        made.create_topic("t", replicas)
    return schedule, made


# ---- brokers


def leaders(brokers):
    return [partition.leader for partition in brokers.topics["t"].values()]


def test_the_first_live_replica_in_sync_leads_or_else_the_first_that_lives():
    _, brokers = cluster((2, 0, 1), (0, 1))
    assert leaders(brokers) == [2, 0]
    brokers.stop(0)
    assert leaders(brokers) == [2, 1]
    for end in (True, True):
        assert brokers.produce("t", 0, 3) == end
    brokers.stop(2)
    assert leaders(brokers) == [1, 1]
    brokers.stop(1)
    assert leaders(brokers) == [None, None]
    assert not brokers.produce("t", 0, 3)
    brokers.start(0)  # it was not in sync: its log is shorter
    assert leaders(brokers) == [0, 0]
    assert brokers.partition("t", 0).end == 0
    for broker in (1, 2):
        brokers.start(broker)
        brokers.start(broker)  # it runs
    assert leaders(brokers) == [0, 0]
    assert brokers.produce("t", 0, 2)
    assert brokers.partition("t", 0).ends == {2: 2, 0: 2, 1: 2}
    assert not brokers.produce("t", 2, 1)
    assert not brokers.produce("u", 0, 1)


def test_a_topic_is_deleted_once_all_its_replicas_live_and_can_be_made_again():
    _, brokers = cluster((0, 1), (1, 2))
    brokers.stop(2)
    brokers.delete_topic("t")
    brokers.stop(1)
    brokers.start(2)
    assert "t" in brokers.topics
    brokers.start(1)
    assert "t" not in brokers.topics
    assert brokers.partition("t", 0) is None
    brokers.create_topic("t", [(0,)])
    for broker in (0, 1):
        brokers.stop(broker)
        brokers.start(broker)
    assert list(brokers.topics["t"]) == [0]


def test_where_topics_are_not_deleted_a_topic_stays():
    _, brokers = cluster((0,), deletes=False)
    brokers.delete_topic("t")
    brokers.stop(1)
    brokers.start(1)
    assert leaders(brokers) == [0]


def test_offsets_in_kafka_have_replicas_in_turn_on_the_brokers_that_live_at_first():
    _, brokers = cluster(brokers=(4, 0, 7, 2, 5))
    brokers.stop(5)
    manager = brokers.offset_manager("g")
    assert [one.replicas for one in brokers.topics[OFFSETS_TOPIC].values()] == [
        *[(0, 2, 4), (2, 4, 7), (4, 7, 0), (7, 0, 2)] * 12,
        *[(0, 2, 4), (2, 4, 7)],
    ]
    assert brokers.reached(manager)
    brokers.stop(manager[0])
    assert not brokers.reached(manager)
    brokers.start(manager[0])
    assert not brokers.reached(manager)
    assert brokers.reached(brokers.offset_manager("g"))
    assert not brokers.reached(None)


def test_with_two_brokers_offsets_have_two_replicas_and_with_none_no_manager():
    _, brokers = cluster(brokers=(1, 3))
    for broker in (1, 3):
        brokers.stop(broker)
    assert brokers.offset_manager("g") is None
    started = []
    brokers.call_on_start(lambda: started.append(sorted(brokers.alive)))
    for broker in (3, 1):
        brokers.start(broker)
    assert started == [[3]]
    brokers.offset_manager("g")
    assert brokers.topics[OFFSETS_TOPIC][0].replicas == (1, 3)


# ---- fetchers


class Fetching:
    """The fetchers of a consumer of topic t, and what they consume, with its time."""

    def __init__(self, *replicas, reset="smallest", **settings):
        self.schedule, self.brokers = cluster(*replicas)
        config = consumer_config({"auto.offset.reset": reset, **settings})
        self.consumed, self.gate = [], None
        self.fetchers = Fetchers(
            self.schedule, self.brokers, config, self.consume, self.read_brokers
        )

    def consume(self, owned, first, last):
        self.consumed.append((self.schedule.now_ms, owned.number, first, last))

    def read_brokers(self):
        if self.gate is not None:
            yield self.gate

    def own(self, *numbers, offset=0, has_stream=True):
        owned = [Owned(("t", number), offset, has_stream=has_stream) for number in numbers]
        self.fetchers.start(owned)
        return owned

    def at(self, at_ms, **events):
        """Let things happen to brokers at a time: start, stop, or messages of partition 0."""
        self.schedule.run_until(at_ms)
        for name, value in events.items():
            if name == "produce":
                assert self.brokers.produce("t", 0, value)
            else:
                getattr(self.brokers, name)(value)


@pytest.mark.parametrize(
    ("reset", "offset", "first", "requests"),
    [
        ("smallest", 0, 0, 1),
        ("largest", 0, 0, 1),
        ("largest", 3, 3, 1),
        ("smallest", 5, 5, 1),
        ("smallest", 6, 0, 2),
        ("smallest", -1, 0, 2),
        ("largest", 6, 5, 2),
        ("largest", -1, 5, 2),
    ],
)
def test_fetching_begins_at_a_stored_offset_within_the_log_or_where_it_is_reset(
    reset, offset, first, requests
):
    """Messages 0 to 4 are there. To search for the offset takes a request, and so does a fetch."""
    fetching = Fetching((0,), reset=reset)
    fetching.at(5, produce=5)
    (owned,) = fetching.own(0, offset=offset)
    assert fetching.consumed == ([(5, 0, first, 4)] if first < 5 else [])
    assert (owned.offset, fetching.fetchers.requests) == (5, requests)
    fetching.at(9, produce=2)
    assert fetching.consumed[-1] == (9, 0, 5, 6)
    assert (owned.offset, fetching.fetchers.requests) == (7, requests + 1)


def test_without_a_stream_nothing_is_consumed():
    fetching = Fetching((0,))
    (owned,) = fetching.own(0, has_stream=False)
    fetching.at(9, produce=2)
    assert (fetching.consumed, owned.offset, fetching.fetchers.requests) == ([], 0, 2)


def test_a_leader_is_looked_up_at_multiples_of_the_backoff_since_the_start():
    """Source: ConsumerFetcherManager's LeaderFinderThread, which sleeps the backoff."""
    fetching = Fetching((0, 1), **{"refresh.leader.backoff.ms": 1_200})
    fetching.at(1_050)
    fetching.own(0)
    fetching.at(4_000, stop=0, produce=2)  # 1 leads
    fetching.at(4_700, produce=1)
    fetching.at(5_900, start=0)
    fetching.at(7_050, stop=1, produce=4)  # 5 times the backoff: it was looked up just now
    fetching.at(20_000, produce=1)
    assert fetching.consumed == [
        (1_050 + 3 * 1_200, 0, 0, 1),
        (4_700, 0, 2, 2),
        (1_050 + 6 * 1_200, 0, 3, 6),
        (20_000, 0, 7, 7),
    ]
    assert fetching.brokers.seekers == {}


def test_a_partition_without_a_leader_is_looked_up_when_there_is_one():
    fetching = Fetching((0,), (1,))
    fetching.at(1_000, stop=0)
    fetching.own(0, 1)
    assert list(fetching.brokers.seekers) == [fetching.fetchers]
    fetching.at(9_030, start=0, produce=3)
    fetching.at(10_000)
    assert fetching.consumed == [(9_200, 0, 0, 2)]
    assert fetching.brokers.seekers == {}


def test_who_stops_fetches_no_more_and_looks_for_no_leader():
    fetching = Fetching((0,), (1,), (2,))
    fetching.at(1_000, stop=1)
    fetching.own(0, 1, 2)
    fetching.at(1_010, stop=2)
    fetching.fetchers.stop()
    fetching.at(1_020, start=1, produce=1)
    fetching.brokers.produce("t", 1, 1)
    fetching.at(9_000, start=2)
    assert fetching.consumed == []
    assert fetching.brokers.seekers == {}
    fetching.own(0, 2)  # a search for a leader works as before
    fetching.at(9_900, stop=2)
    fetching.brokers.start(2)
    fetching.brokers.produce("t", 2, 2)
    fetching.at(10_000)
    assert fetching.consumed == [(9_000, 0, 0, 0), (10_000, 2, 0, 1)]


def test_a_search_that_waits_for_zookeeper_ends_with_the_fetching():
    fetching = Fetching((0, 1))
    fetching.own(0)
    fetching.gate = Gate()
    fetching.at(10, stop=0, produce=3)
    fetching.at(900)
    assert fetching.consumed == []
    fetching.fetchers.stop()
    fetching.gate.open()
    fetching.at(2_000, produce=1)
    assert fetching.consumed == []


# ---- the ZooKeeper client


class Watching:
    """A client, what its event thread counts, and its listeners that were called."""

    def __init__(self, **times):
        self.schedule = Schedule()
        self.zookeeper = ZooKeeper(self.schedule, tick_ms=500)
        for path in ("/brokers", "/brokers/ids", "/brokers/topics", "/consumers"):
            self.zookeeper.create(path)
        self.counted, self.called = [], []
        self.client = ZkClient(
            *(self.schedule, self.zookeeper, "c", 6_000, Times(**times)),
            new_session=lambda: self.routine("session"),
            counted=self.counted.append,
        )

    def routine(self, name):
        self.called.append(name)
        yield 0

    def done(self, routine):
        """Run a task of the program to its end; return its result."""
        results = []

        def run():
            results.append((yield from routine))

        Task(self.schedule, run())
        return results[0]

    def listen(self, *paths):
        """Listen to the children of paths and, below topics, to the data of a topic."""
        for path in paths:
            if path.startswith("/brokers/topics/"):
                changed, deleted = (
                    lambda kind=kind, path=path: self.called.append(f"{kind} {path}")
                    for kind in ("data", "gone")
                )
                self.done(self.client.listen_to_data(path, changed, deleted))
            else:
                self.done(self.client.listen_to_children(path, lambda p=path: self.routine(p)))

    def pass_ms(self, ms):
        self.schedule.run_until(self.schedule.now_ms + ms)


IDS, TOPICS, BROKER_IDS = "/consumers/g/ids", "/brokers/topics", "/brokers/ids"
TOPIC = f"{TOPICS}/t"


def test_each_request_of_the_client_counts_as_an_operation():
    watching = Watching()
    client, zookeeper = watching.client, watching.zookeeper
    for routine, result, operations in [
        (client.children("/brokers"), ("ids", "topics"), 1),
        (client.children_if_there("/x"), (), 1),
        (client.read("/brokers"), "", 1),
        (client.read_if_there("/x"), None, 1),
        (client.create_ephemeral("/a/b/c", "x"), True, 3),  # each node that is made
        (client.create_ephemeral("/a/b/d", "x"), True, 1),
        (client.create_ephemeral("/a/b/d", "x"), True, 2),  # it is there: its text is read
        (client.create_ephemeral("/a/b/d", "y"), False, 2),
        (client.update("/a/b", "z"), None, 1),
        (client.update("/e/f", "z"), None, 2),  # to write it, and to create it
        (client.delete("/a/b/c"), None, 1),
        (client.delete("/a/b/c"), None, 1),
        (client.ask(zookeeper.tree.exists, "/a", count=7), True, 7),
        (client.reach(), None, 0),
        (client.listen_to_children("/brokers", lambda: None), None, 2),  # is it there, and who
        (client.listen_to_children("/x", lambda: None), None, 1),
        (client.listen_to_data("/a", lambda: None, lambda: None), None, 1),
    ]:
        before = client.operations
        assert watching.done(routine) == result
        assert client.operations - before == operations, (result, operations)
    assert zookeeper.tree.get("/a/b") == "z"
    assert zookeeper.tree.nodes["/e/f"].owner is None


def test_an_event_calls_the_listener_of_its_node_and_is_counted_by_its_kind():
    watching = Watching(delivery_ms=20)
    watching.listen(IDS, TOPICS, BROKER_IDS, TOPIC)
    create, delete = watching.zookeeper.create, watching.zookeeper.delete
    topic_created = f"data {TOPIC}"
    for change, counted, called, operations in [
        (lambda: create("/consumers/g"), [], [], 0),
        (lambda: create(IDS), ["ids_children"], [IDS], 2),
        (lambda: create(f"{IDS}/x"), ["ids_children"], [IDS], 2),
        (lambda: create(TOPIC), ["topic_data", "topics_children"], [topic_created, TOPICS], 4),
        (lambda: watching.zookeeper.set(TOPIC, ""), ["topic_data"], [topic_created], 2),
        (lambda: create(f"{BROKER_IDS}/7"), ["brokers_children"], [BROKER_IDS], 2),
        (lambda: delete(TOPIC), ["topic_data", "topics_children"], [f"gone {TOPIC}", TOPICS], 4),
        (lambda: create(TOPIC), ["topic_data", "topics_children"], [topic_created, TOPICS], 4),
    ]:
        watching.counted.clear()
        watching.called.clear()
        before = watching.client.operations
        change()
        watching.pass_ms(19)
        assert watching.counted == []
        watching.pass_ms(1)
        assert (watching.counted, watching.called) == (counted, called)
        assert watching.client.operations - before == operations


@pytest.mark.parametrize("listens", [True, False])
def test_after_a_session_its_listener_comes_first_then_those_of_children_and_of_data(listens):
    watching = Watching(reconnect_ms=300)
    watching.zookeeper.create(TOPIC)
    watching.listen(TOPIC, TOPICS, BROKER_IDS)
    if listens:
        watching.client.listen_to_sessions()
    watching.client.connection.expire()
    watching.pass_ms(299)
    assert watching.counted == []
    watching.pass_ms(1)
    counted = ["topics_children", "brokers_children", "topic_data"]
    called = [TOPICS, BROKER_IDS, f"data {TOPIC}"]
    assert watching.counted == (["new_session", *counted] if listens else counted)
    assert watching.called == (["session", *called] if listens else called)


@pytest.mark.parametrize("is_deleted", [True, False])
def test_nobody_hears_of_what_happens_after_the_end_of_listening(is_deleted):
    """Not even what the event thread was to handle then, nor a later session."""
    watching = Watching(delivery_ms=5)
    watching.zookeeper.create(TOPIC)
    watching.listen(TOPIC, TOPICS)
    watching.client.listen_to_sessions()
    watching.zookeeper.set(TOPIC, "")
    watching.client.connection.hold()
    watching.client.connection.release()  # the event comes, and its node is looked at later
    watching.client.connection.hold()
    if is_deleted:
        watching.zookeeper.delete(TOPIC)
    watching.pass_ms(100)
    watching.client.stop_listening()
    watching.client.connection.release()
    watching.pass_ms(100)
    watching.zookeeper.create(f"{TOPICS}/u")
    watching.pass_ms(100)
    watching.client.connection.expire()
    watching.pass_ms(10_000)
    assert (watching.counted, watching.called) == ([], [])


# ---- texts of nodes


@pytest.mark.parametrize(
    ("version", "is_read"),
    [(2**31 - 1, True), (2**31, False), (-(2**31), True), (-(2**31) - 1, False), (0, True)],
)
def test_a_number_in_a_registration_has_32_bits(version, is_read):
    data = f'{{"version":{version},"subscription":{{"t":1}},"pattern":"static","timestamp":"1"}}'
    if is_read:
        assert parse(data) == static({"t": 1})
    else:
        with pytest.raises(Unreadable):
            parse(data)


def test_a_filter_is_written_with_its_own_letters():
    """Source: Utils.JSONEscapeString, which escapes no printable letter beyond ASCII."""
    assert '{"é\\/ü":2}' in node_data(by_filter(WHITE, "é/ü", 2), 7)


def test_a_registration_of_a_filter_has_one_expression():
    """Of several, 0.8.2 takes the first of the map."""
    streams = '{"a.*":2,"b.*":5}'
    data = f'{{"version":1,"subscription":{streams},"pattern":"white_list","timestamp":"1"}}'
    taken = parse(data).topics(["a1", "b1"], exclude_internal=True)
    assert taken == {"a1": 2}


def test_a_node_may_name_as_many_streams_as_a_scenario_may_start():
    assert len(thread_ids("g_c", 10_000)) == 10_000
    assert thread_ids("g_c", 2) == ["g_c-0", "g_c-1"]
    with pytest.raises(TooManySteps, match="10001 streams of a topic; 10000 at most"):
        thread_ids("g_c", 10_001)


def test_the_node_of_a_topic_is_written_as_kafka_writes_it():
    """Source: ZkUtils.replicaAssignmentZkData."""
    data = topic_data({0: (1, 0), 10: (2,)})
    assert data == '{"version":1,"partitions":{"0":[1,0],"10":[2]}}'
