"""Copies of partitions: the broker's bytes, where a copy goes on, and what it records."""

import asyncio
import json

import pytest

pytest.importorskip("aiokafka")

from coterie import ConfigError
from coterie.errors import LogError
from coterie.live.client_config import ClientConfig
from coterie.live.cluster import Cluster, addresses_of
from coterie.live.cluster_errors import ClusterError
from coterie.live.copying import CopyPlan, copy_partitions
from coterie.live.segments import CopyLock
from coterie.log.copy_state import STATE_FILE, read_copy_state
from coterie.log.folders import find_segments
from coterie.messages import LogReader, partition_for
from coterie.server import Broker
from support.server.copies import Recorded, copy
from support.server.groups_of_a_broker import TOPIC, commit_offsets, copied, stored

SETTINGS = {"offsets.topic.num.partitions": 4}


@pytest.fixture
def broker():
    with Broker(SETTINGS, topics={"orders": 2}) as made:
        yield made


def test_a_copy_has_the_bytes_that_the_broker_stores(broker, tmp_path):
    for group in ("a", "b", "c", "d", "e"):
        commit_offsets(broker, group, 20)
    observer = Recorded()
    results = copy(broker, tmp_path, observer=observer)
    assert copied(tmp_path) == stored(broker)
    assert {n: data for n, data in stored(broker).items() if data} == observer.data
    assert sum(result.next_offset for result in results.values()) == 100
    assert find_segments([tmp_path]).partition_count() == 4


def test_compressed_and_transactional_batches_are_as_they_are_stored(broker, tmp_path):
    kafka = pytest.importorskip("aiokafka")

    async def fill():
        producer = kafka.AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap_servers,
            transactional_id="t",
            compression_type="gzip",
        )
        await producer.start()
        for outcome in (producer.commit_transaction, producer.abort_transaction):
            await producer.begin_transaction()
            for number in range(50):
                await producer.send("orders", b"value" * number, partition=0)
            await outcome()
        await producer.stop()

    asyncio.run(fill())
    copy(broker, tmp_path, topic="orders", partitions=(0,))
    data = copied(tmp_path, "orders")[0]
    assert data == stored(broker, "orders")[0]
    batches = list(LogReader(data))
    assert sum(batch.is_control for batch in batches) == 2
    assert {b.compression for b in batches if not b.is_control} == {"gzip"}


def test_a_second_copy_adds_what_is_new(broker, tmp_path):
    commit_offsets(broker, "a", 30)
    copy(broker, tmp_path)
    commit_offsets(broker, "a", 7)
    results = copy(broker, tmp_path, now_ms=lambda: 2_000)
    number = partition_for("a", 4)
    batch_bytes = len(stored(broker)[number]) // 37
    assert copied(tmp_path) == stored(broker)
    assert results[number].fetched_bytes == 7 * batch_bytes
    state = read_copy_state(tmp_path / f"{TOPIC}-{number}")
    assert (state.complete_until_ms, state.complete_until_offset) == (2_000, 37)
    assert (state.begun_at_ms, state.first_offset, state.moves) == (1_000, 0, ())


@pytest.mark.parametrize("torn", ["half a batch", "zeros", "a batch with a wrong checksum"])
def test_a_torn_tail_is_cut_and_the_copy_goes_on_at_a_batch(broker, tmp_path, torn):
    commit_offsets(broker, "a", 30)
    number = partition_for("a", 4)
    copy(broker, tmp_path)
    (segment,) = (tmp_path / f"{TOPIC}-{number}").glob("*.log")
    data = segment.read_bytes()
    size = len(data) // 30
    damaged = {
        "half a batch": data[: 20 * size + size // 2],
        "zeros": data[: 20 * size] + bytes(3 * size),
        "a batch with a wrong checksum": data[: 21 * size - 1] + b"\xff",
    }[torn]
    segment.write_bytes(damaged)
    observer = Recorded()
    results = copy(broker, tmp_path, observer=observer)
    assert copied(tmp_path) == stored(broker)
    assert results[number].fetched_bytes == 10 * size
    cut = len(damaged) - 20 * size
    assert observer.lines == [f"{TOPIC}-{number}: {cut} bytes of an incomplete batch were cut"]


def test_segments_roll_by_size_and_each_is_named_by_its_first_offset(broker, tmp_path):
    commit_offsets(broker, "a", 40)
    number = partition_for("a", 4)
    size = len(stored(broker)[number]) // 40
    small = {"max.partition.fetch.bytes": str(3 * size)}
    copy(broker, tmp_path, segment_bytes=10 * size, config=small)
    segments = find_segments([tmp_path]).partitions()[number]
    assert [segment.base_offset for segment in segments] == [0, 9, 18, 27, 36]
    for segment in segments:
        with open(segment.path, "rb") as file:
            assert next(LogReader(file.read())).base_offset == segment.base_offset
    assert copied(tmp_path) == stored(broker)
    copy(broker, tmp_path, segment_bytes=10 * size)  # finds the end in the last one
    assert copied(tmp_path) == stored(broker)


def test_only_the_partitions_of_the_groups_are_copied(broker, tmp_path):
    commit_offsets(broker, "a", 3)
    assert set(copy(broker, tmp_path, groups=("a",))) == {partition_for("a", 4)}
    assert set(copy(broker, tmp_path, partitions=(1, 3))) == {1, 3}


def test_a_partition_that_is_not_there_is_an_error(broker, tmp_path):
    commit_offsets(broker, "a", 1)
    with pytest.raises(ClusterError, match="has no partition 9: it has 0 to 3"):
        copy(broker, tmp_path, partitions=(9,))


def test_following_appends_what_comes_until_it_is_stopped(broker, tmp_path):
    commit_offsets(broker, "a", 5)
    number = partition_for("a", 4)
    size = len(stored(broker)[number]) // 5

    async def run():
        observer = Recorded(stop_at_bytes=12 * size)

        def complete(at_ms):  # then more comes
            asyncio.get_running_loop().run_in_executor(None, commit_offsets, broker, "a", 7)

        observer.complete = complete
        async with Cluster(addresses_of(broker.bootstrap_servers), ClientConfig()) as cluster:
            plan = CopyPlan(tmp_path, follow=True)
            return await copy_partitions(
                cluster, plan, now_ms=lambda: 5, observer=observer, stop=observer.stop
            )

    results = {result.partition: result for result in asyncio.run(run())}
    assert results[number].next_offset == 12
    assert copied(tmp_path) == stored(broker)


def test_following_goes_on_after_the_broker_was_away(broker, tmp_path):
    commit_offsets(broker, "a", 5)
    number = partition_for("a", 4)
    size = len(stored(broker)[number]) // 5
    lines = []

    def restart():
        broker.kill()
        broker.start()
        commit_offsets(broker, "a", 7)

    async def run():
        observer = Recorded(stop_at_bytes=12 * size)
        observer.complete = lambda at_ms: asyncio.get_running_loop().run_in_executor(None, restart)
        lines.append(observer.lines)
        config = ClientConfig({"retry.backoff.ms": "1", "retry.backoff.max.ms": "5"})
        async with Cluster(addresses_of(broker.bootstrap_servers), config) as cluster:
            plan = CopyPlan(tmp_path, follow=True)
            return await copy_partitions(
                cluster, plan, now_ms=lambda: 5, observer=observer, stop=observer.stop
            )

    asyncio.run(run())
    assert copied(tmp_path) == stored(broker)
    assert any("trying again until it is there" in line for line in lines[0])


def delete_records(broker, number, offset):
    """Move the start of a partition's log, as retention does."""
    broker._thread_here().call(
        lambda running: running.cluster.topics.partition(TOPIC, number)._start_at(offset)
    )


def test_a_start_of_the_log_that_moved_past_the_copy_is_recorded_and_shown(broker, tmp_path):
    commit_offsets(broker, "a", 10)
    number = partition_for("a", 4)
    copy(broker, tmp_path)
    before = copied(tmp_path)[number]
    commit_offsets(broker, "a", 20)
    whole = stored(broker)[number]
    delete_records(broker, number, 25)
    observer = Recorded()
    copy(broker, tmp_path, observer=observer, now_ms=lambda: 3_000)
    size = len(before) // 10
    assert copied(tmp_path)[number] == before + whole[25 * size :]
    (move,) = read_copy_state(tmp_path / f"{TOPIC}-{number}").moves
    assert (move.at_ms, move.before, move.after, move.lost) == (3_000, 0, 25, 15)
    assert observer.lines == [
        f"{TOPIC}-{number}: the log's start moved from offset 0 to 25: "
        "15 offsets are gone that were not copied"
    ]
    segments = find_segments([tmp_path]).partitions()[number]
    assert [segment.base_offset for segment in segments] == [0, 25]


def test_a_start_of_the_log_that_moved_within_the_copy_loses_nothing(broker, tmp_path):
    commit_offsets(broker, "a", 10)
    number = partition_for("a", 4)
    copy(broker, tmp_path)
    before = copied(tmp_path)[number]
    delete_records(broker, number, 5)
    observer = Recorded()
    copy(broker, tmp_path, observer=observer)
    assert copied(tmp_path)[number] == before
    (move,) = read_copy_state(tmp_path / f"{TOPIC}-{number}").moves
    assert (move.before, move.after, move.lost) == (0, 5, 0)
    assert observer.lines == [f"{TOPIC}-{number}: the log's start moved from offset 0 to 5"]


@pytest.mark.parametrize("start", [1, 4])
def test_a_copy_of_a_log_whose_beginning_is_gone_says_so(broker, tmp_path, start):
    commit_offsets(broker, "a", 10)
    number = partition_for("a", 4)
    delete_records(broker, number, start)
    observer = Recorded()
    results = copy(broker, tmp_path, observer=observer)
    assert results[number].state.first_offset == start
    assert observer.lines == [
        f"{TOPIC}-{number}: the log begins at offset {start}; what was before is gone"
    ]
    first = next(LogReader(copied(tmp_path)[number]))
    assert first.base_offset == start
    assert observer.shown[-1] == (10 - start, 10 - start)  # of all records that are there


def test_a_copy_that_is_ahead_of_the_broker_is_refused_and_stays(broker, tmp_path):
    commit_offsets(broker, "a", 10)
    copy(broker, tmp_path)
    before = copied(tmp_path)
    for folder in tmp_path.iterdir():  # as if it were a copy of the other broker
        state = json.loads((folder / STATE_FILE).read_text())
        of_any = state | {"cluster_id": None, "topic_id": None}
        assert of_any != state
        (folder / STATE_FILE).write_text(json.dumps(of_any))
    with Broker(SETTINGS, topics={"orders": 1}) as other:
        commit_offsets(other, "a", 3)
        with pytest.raises(ClusterError, match=r"ends at offset 3, before the copy \(10\)"):
            copy(other, tmp_path)
    assert copied(tmp_path) == before


def test_a_copy_of_another_cluster_is_refused(broker, tmp_path):
    commit_offsets(broker, "a", 3)
    copy(broker, tmp_path)
    with Broker(SETTINGS, topics={"orders": 1}) as other:
        commit_offsets(other, "a", 5)
        with pytest.raises(LogError, match="is a copy of cluster"):
            copy(other, tmp_path)


def test_segments_that_fetch_did_not_write_are_never_appended_to(broker, tmp_path):
    commit_offsets(broker, "a", 3)
    copy(broker, tmp_path)
    folder = tmp_path / f"{TOPIC}-{partition_for('a', 4)}"
    (folder / STATE_FILE).unlink()
    before = copied(tmp_path)
    with pytest.raises(LogError, match="segments that coterie fetch did not write"):
        copy(broker, tmp_path)
    assert copied(tmp_path) == before


def test_a_folder_that_another_process_writes_is_refused(broker, tmp_path):
    commit_offsets(broker, "a", 3)
    copy(broker, tmp_path)
    path = next(tmp_path.glob(f"{TOPIC}-{partition_for('a', 4)}/*.log"))
    half = path.read_bytes()[:-30]  # it has written so much of a batch yet
    path.write_bytes(half)
    with CopyLock(tmp_path) as lock:
        lock.take()
        with pytest.raises(LogError, match="another process fetches into it"):
            copy(broker, tmp_path)
    assert path.read_bytes() == half
    assert copy(broker, tmp_path)


def test_a_leader_that_has_changed_is_looked_up_again(broker, tmp_path):
    commit_offsets(broker, "a", 30)
    broker.fail("Fetch", error="NOT_LEADER_OR_FOLLOWER", times=2)
    broker.fail("ListOffsets", error="LEADER_NOT_AVAILABLE", times=1)
    copy(broker, tmp_path, config={"default.api.timeout.ms": "60000"})
    assert copied(tmp_path) == stored(broker)


def test_a_connection_that_breaks_is_made_again(broker, tmp_path):
    commit_offsets(broker, "a", 30)
    for api in ("Metadata", "ListOffsets", "Fetch"):
        broker.fail(api, disconnect=True)
    copy(broker, tmp_path, config={"default.api.timeout.ms": "60000"})
    assert copied(tmp_path) == stored(broker)


@pytest.mark.parametrize("api", ["Metadata", "ListOffsets", "Fetch"])
def test_what_does_not_pass_ends_the_copy_and_leaves_what_was_written(broker, tmp_path, api):
    commit_offsets(broker, "a", 10)
    copy(broker, tmp_path)
    before = copied(tmp_path)
    commit_offsets(broker, "a", 10)
    broker.fail(api, error="TOPIC_AUTHORIZATION_FAILED", times=None)
    with pytest.raises(
        ClusterError, match=r"no permission: the user needs [A-Z and]+ on the topic"
    ):
        copy(broker, tmp_path)
    assert copied(tmp_path) == before


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"security.protocol": "TLS"}, "security.protocol must be one of PLAINTEXT, SSL"),
        ({"request.timeout.ms": "soon"}, "request.timeout.ms must be a number"),
        (
            {"security.protocol": "SASL_SSL", "sasl.mechanism": "CRAM-MD5"},
            "sasl.mechanism must be one of PLAIN",
        ),
        (
            {
                "security.protocol": "SASL_SSL",
                "sasl.mechanism": "PLAIN",
                "sasl.jaas.config": "Module required username=a password;",
            },
            "cannot be read after option 1",
        ),
    ],
)
def test_a_wrong_property_is_named(properties, message):
    with pytest.raises(ConfigError, match=message) as raised:
        ClientConfig(properties).check()
    assert "password" not in str(raised.value)


def test_a_second_lane_for_a_leader_has_a_connection_of_its_own(broker, tmp_path):
    commit_offsets(broker, "a", 5)
    places = []

    class Electing(Cluster):
        """The first view has no leader of partition 0."""

        has_elected = False

        async def topic(self, name):
            view = await super().topic(name)
            if not self.has_elected:
                view.leaders[0] = None
            self.has_elected = True
            return view

        async def connection(self, node, lane=0):
            places.append((node, lane))
            return await super().connection(node, lane)

    async def run():
        observer = Recorded()
        observer.complete = lambda at_ms: observer.stop.set()
        async with Electing(addresses_of(broker.bootstrap_servers), ClientConfig()) as cluster:
            plan = CopyPlan(tmp_path, follow=True)
            await copy_partitions(
                cluster, plan, now_ms=lambda: 5, observer=observer, stop=observer.stop
            )

    asyncio.run(run())
    assert copied(tmp_path) == stored(broker)
    assert len(places) == len(set(places)) == 2
