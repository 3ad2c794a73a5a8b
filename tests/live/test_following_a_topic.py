"""A topic that is followed: it is missing for a moment, made again, or has become old."""

import asyncio
import contextlib

import pytest

pytest.importorskip("aiokafka")

from coterie.live.client_config import ClientConfig
from coterie.live.cluster import Cluster, TopicView, addresses_of
from coterie.live.cluster_errors import ClusterError, Unavailable
from coterie.live.connections import Connection
from coterie.live.copying import CopyObserver, CopyPlan, _Copying, copy_partitions
from coterie.live.segments import CopyLock
from coterie.log.copy_state import read_copy_state
from coterie.server import Broker
from support.server.copies import QUICK, copy, follow_orders
from support.server.groups_of_a_broker import copied, produce, stored
from support.server.sockets import ask, connect

SETTINGS = {"offsets.topic.num.partitions": 4}


@pytest.fixture
def broker():
    with Broker(SETTINGS, topics={"orders": 2}) as made:
        yield made


def test_following_waits_for_a_topic_that_is_missing_for_a_moment(broker, tmp_path):
    produce(broker, "orders", 0, 3)
    size = len(stored(broker, "orders")[0])

    def complete():
        missing = broker.fail("Metadata", error="UNKNOWN_TOPIC_OR_PARTITION", times=2)
        broker.fail("Fetch", error="NOT_LEADER_OR_FOLLOWER")
        while missing.count < 2:
            broker.requests()
        produce(broker, "orders", 0, 3)

    observer = follow_orders(broker, tmp_path, complete, stop_at_bytes=2 * size)
    assert copied(tmp_path, "orders") == stored(broker, "orders")
    assert any("orders" in reasons for reasons in observer.reasons)
    assert observer.reasons[-1] == {}
    (line,) = observer.lines
    assert line.endswith("trying again until it is there")


def grow(broker, count):
    """Give the topic ``orders`` more partitions."""
    body = {"topics": [{"name": "orders", "count": count, "assignments": None}]}
    grown = ask(connect(broker), "CreatePartitions", 3, body | {"timeoutMs": 5000})
    assert grown["results"][0]["errorCode"] == 0


def test_following_copies_partitions_that_a_topic_gets_meanwhile(broker, tmp_path):
    produce(broker, "orders", 0, 3)
    size = len(stored(broker, "orders")[0])

    def complete():
        grow(broker, 4)
        for number in (0, 2, 3):
            produce(broker, "orders", number, 3)

    observer = follow_orders(broker, tmp_path, complete, 4 * size, {"metadata.max.age.ms": "1"})
    assert copied(tmp_path, "orders") == stored(broker, "orders")
    assert read_copy_state(tmp_path / "orders-3").partition == 3
    assert observer.lines == ["topic orders has 4 partitions now; the copy gets 2 of the new ones"]


def test_partitions_that_a_topic_gets_are_believed_once_brokers_name_them_twice(
    tmp_path, monkeypatch
):
    others = 8  # partitions, of another topic of this name
    counts = iter([4, 2, others, 4, None, 6, 6])  # None: no answer

    async def topic(name):
        count = next(counts)
        if count is None:
            raise Unavailable("no broker answers")
        topic_id = "other" if count == others else "id"
        return TopicView(name, topic_id, dict.fromkeys(range(count), 0))

    async def run():
        cluster = Cluster([], ClientConfig({"metadata.max.age.ms": "0"}))
        plan = CopyPlan(tmp_path, "orders", follow=True)
        copying = _Copying(cluster, plan, lambda: 0, CopyObserver(), CopyLock(tmp_path))
        copying._count, copying._topic_id = 2, "id"
        monkeypatch.setattr(cluster, "topic", topic)
        monkeypatch.setattr("coterie.live.copying.CONFIRM_S", 0)
        return await copying._grown()

    assert len(asyncio.run(run()).leaders) == 4
    assert next(counts) == 6


def produce_each(broker, count):
    """Write batches of one record, all of one size."""
    for _ in range(count):
        produce(broker, "orders", 0, 1)


def make_again(broker):
    """Delete the topic ``orders`` and make it again."""
    connection = connect(broker)
    ask(connection, "DeleteTopics", 4, {"topicNames": ["orders"], "timeoutMs": 5000})
    topic = {"name": "orders", "numPartitions": 2, "replicationFactor": 1}
    made = ask(connection, "CreateTopics", 4, {"topics": [topic], "timeoutMs": 5000})
    assert made["topics"][0]["errorCode"] == 0


@pytest.mark.parametrize("records", [2, 5])
def test_following_puts_the_copy_of_a_topic_that_is_made_again_aside(broker, tmp_path, records):
    produce_each(broker, 3)
    old, size = stored(broker, "orders"), len(stored(broker, "orders")[0]) // 3
    called = []

    def complete():
        if not called:
            called.append(1)
            make_again(broker)
            produce_each(broker, records)

    observer = follow_orders(broker, tmp_path, complete, stop_at_bytes=(3 + records) * size)
    assert copied(tmp_path, "orders") == stored(broker, "orders")
    (aside,) = tmp_path.glob("orders.*")
    assert copied(aside, "orders") == old
    state = read_copy_state(aside / "orders-0")
    assert aside.name == f"orders.{state.topic_id}"
    (line,) = [line for line in observer.lines if "made again" in line]
    assert line == f"topic orders was made again; its copy begins anew; the old one is {aside}"


def test_a_topic_that_was_made_again_between_two_copies_is_refused_unless_it_is_followed(
    broker, tmp_path
):
    produce_each(broker, 3)
    old = stored(broker, "orders")
    copy(broker, tmp_path, topic="orders")
    make_again(broker)
    produce_each(broker, 5)
    with pytest.raises(ClusterError, match="made again; fetch into another folder"):
        copy(broker, tmp_path, topic="orders")
    assert copied(tmp_path, "orders") == old
    size = len(old[0]) // 3
    follow_orders(broker, tmp_path, lambda: None, stop_at_bytes=5 * size)
    assert copied(tmp_path, "orders") == stored(broker, "orders")
    (aside,) = tmp_path.glob("orders.*")
    assert copied(aside, "orders") == old


def test_old_segments_of_a_copy_that_is_followed_are_fetched_again_as_one(
    broker, tmp_path, monkeypatch
):
    for _ in range(5):
        produce_each(broker, 2)
        whole = stored(broker, "orders")
        copy(broker, tmp_path, topic="orders", segment_bytes=1)
    monkeypatch.setattr("coterie.live.copying.THIN_EVERY_S", 0.001)

    async def run():
        stop, loop = asyncio.Event(), asyncio.get_running_loop()

        def wait():
            while len(list(tmp_path.glob("orders-0/*.log"))) > 2:
                pass
            loop.call_soon_threadsafe(stop.set)

        observer = CopyObserver()
        observer.complete = lambda at_ms: loop.run_in_executor(None, wait)
        plan = CopyPlan(tmp_path, "orders", follow=True, segment_bytes=1, keep_ms=1_000)
        async with Cluster(addresses_of(broker.bootstrap_servers), ClientConfig(QUICK)) as cluster:
            await copy_partitions(
                cluster, plan, now_ms=lambda: 1 << 50, observer=observer, stop=stop
            )

    asyncio.run(run())
    assert copied(tmp_path, "orders") == whole
    assert sorted(int(path.stem) for path in tmp_path.glob("orders-0/*.log")) == [0, 8]


def sends_no_row(broker, monkeypatch):
    """Let responses to Fetch have no partition; they are requested in a size for a slow link."""
    ask_it = Connection.ask

    async def ask_without_rows(connection, api, body):
        assert api != "Fetch" or body["maxBytes"] == 1 << 20
        answer = await ask_it(connection, api, body)
        return answer | {"responses": []} if api == "Fetch" else answer

    monkeypatch.setattr(Connection, "ask", ask_without_rows)


def makes_it_again(broker, monkeypatch):
    make_again(broker)
    produce_each(broker, 12)


@pytest.mark.parametrize(
    ("turns", "says"),
    [(makes_it_again, []), (sends_no_row, ["the broker sends nothing of its log"])],
)
def test_old_segments_stay_if_the_broker_does_not_have_them(
    broker, tmp_path, monkeypatch, turns, says
):
    for _ in range(5):
        produce_each(broker, 2)
        old = stored(broker, "orders")
        copy(broker, tmp_path, topic="orders", segment_bytes=1)
    notices, observer = [], CopyObserver()
    observer.notice = notices.append

    async def run():
        plan = CopyPlan(tmp_path, "orders", (0,), follow=True, segment_bytes=1, keep_ms=1_000)
        async with Cluster(addresses_of(broker.bootstrap_servers), ClientConfig(QUICK)) as cluster:
            copying = _Copying(cluster, plan, lambda: 1 << 50, observer, CopyLock(tmp_path))
            with contextlib.ExitStack() as files:
                view = await copying._first_view()
                copying._open(view, files)
                turns(broker, monkeypatch)
                await copying._thin_or_say(view, copying._partitions[0], 1 << 50)

    asyncio.run(run())
    assert copied(tmp_path, "orders") == old
    assert len(list(tmp_path.glob("orders-0/*.log"))) == 5
    assert [line.rpartition(": ")[2] for line in notices] == says
