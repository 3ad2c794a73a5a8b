"""Commands on a running cluster beside a broker of Kafka: lag, audit, undo --execute, watch."""

import csv
import io
import json
import signal

import pytest

from support.broker.kafka_broker import running_broker
from support.commandline import coterie, coterie_ok, fails
from support.watch.watch_process import watching

pytestmark = pytest.mark.slow
VERSIONS = ("3.9.1", "4.1.1")
RECORDS = 40


@pytest.fixture(scope="module")
def kafka():
    return pytest.importorskip("kafka")


@pytest.fixture(scope="module", params=VERSIONS)
def broker(request, kafka, tmp_path_factory):
    """A broker with the topic ``t``, whose two partitions have so many records each."""
    pytest.importorskip("aiokafka")
    admin = pytest.importorskip("kafka.admin")
    with running_broker(tmp_path_factory.mktemp("broker"), version=request.param) as found:
        client = admin.KafkaAdminClient(bootstrap_servers=found.address)
        client.create_topics([admin.NewTopic("t", 2, 1)])
        client.close()
        producer = kafka.KafkaProducer(bootstrap_servers=found.address)
        for number in range(2 * RECORDS):
            producer.send("t", b"x", partition=number % 2)
        producer.flush()
        producer.close()
        yield found


def at(broker):
    return ("--bootstrap-server", broker.address)


def commit(kafka, broker, group, offsets):
    """Commit offsets by partition of ``t``, as a consumer that assigns itself."""
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.address, group_id=group, enable_auto_commit=False
    )
    places = {kafka.TopicPartition("t", number): offset for number, offset in offsets.items()}
    consumer.assign(list(places))
    of = kafka.structs.OffsetAndMetadata
    consumer.commit({place: of(offset, "", -1) for place, offset in places.items()})
    consumer.close(autocommit=False)


def committed(broker, group):
    """What Kafka's own tool says: the offset of each partition."""
    shown = broker.groups_tool("--describe", "--offsets", "--group", group)
    rows = [line.split() for line in shown.splitlines() if line.startswith(group)]
    return {int(row[2]): int(row[3]) for row in rows}


def joined(kafka, broker, group):
    """A consumer that has its assignment."""
    consumer = kafka.KafkaConsumer(
        "t", bootstrap_servers=broker.address, group_id=group, enable_auto_commit=False
    )
    polls = iter(range(20))
    while not consumer.assignment():
        assert next(polls, None) is not None, "the consumer got no assignment"
        consumer.poll(timeout_ms=5000, max_records=1)
    return consumer


def test_the_lag_is_that_of_kafkas_tool(kafka, broker):
    commit(kafka, broker, "lags", {0: 7, 1: RECORDS})
    result = coterie_ok("lag", *at(broker), "--group", "lags", "--format", "csv")
    ours = {
        int(row["partition"]): (int(row["offset"]), int(row["end_offset"]), int(row["lag"]))
        for row in csv.DictReader(io.StringIO(result.stdout))
    }
    shown = broker.groups_tool("--describe", "--offsets", "--group", "lags")
    rows = [line.split() for line in shown.splitlines() if line.startswith("lags")]
    assert ours == {int(row[2]): tuple(map(int, row[3:6])) for row in rows}
    assert len(ours) == 2


def test_groups_as_the_log_has_them_are_no_divergence(kafka, broker):
    commit(kafka, broker, "simple", {0: 3})
    consumer = joined(kafka, broker, "busy")
    result = coterie("audit", *at(broker), "--only", "divergence", "--format", "json")
    consumer.close(autocommit=False)
    assert (json.loads(result.stdout), result.stderr) == ([], "")


def test_a_plan_is_committed_as_kafkas_tool_sees_it_and_refused_with_members(
    kafka, broker, tmp_path
):
    commit(kafka, broker, "g", {0: 7, 1: 8})
    lines = coterie_ok("records", *at(broker), "--group", "g").stdout.splitlines()
    at_ms = max(json.loads(line)["timestamp"] for line in lines)
    broker.groups_tool(
        *("--reset-offsets", "--group", "g", "--to-earliest", "--topic", "t", "--execute")
    )
    assert committed(broker, "g") == {0: 0, 1: 0}
    undo = ("undo", *at(broker), "--group", "g", "--at", at_ms, "--execute", "--save")
    consumer = joined(kafka, broker, "g")
    fails(*undo, tmp_path / "refused.csv", says="with 1 member: stop them first")
    consumer.close(autocommit=False)
    coterie_ok(*undo, tmp_path / "before.csv")
    assert committed(broker, "g") == {0: 7, 1: 8}
    saved = tmp_path / "before.csv"
    assert sorted(saved.read_text().splitlines()) == ["t,0,0", "t,1,0"]
    broker.groups_tool(*("--reset-offsets", "--group", "g", "--from-file", saved, "--execute"))
    assert committed(broker, "g") == {0: 0, 1: 0}


def test_a_watcher_shows_what_groups_commit(kafka, broker, tmp_path):
    commit(kafka, broker, "watched", {0: 3})
    place = 'consumergroup="watched",topic="t",partition="0"'
    options = ("--data", tmp_path / "data", "--sample-end-offsets", 1)
    with watching(*at(broker), *options) as watch:
        commit(kafka, broker, "watched", {0: 9})
        wanted = {
            f"kafka_consumergroup_current_offset{{{place}}} 9",
            f"kafka_consumergroup_lag{{{place}}} {RECORDS - 9}",
        }
        while not wanted <= set(watch.samples()):
            watch.look_again()
        assert watch.end(signal.SIGTERM)[0] == 0


def test_a_consumer_group_as_the_log_has_it_is_no_divergence(broker):
    if broker.version < "4":
        pytest.skip("this broker has no consumer groups")
    confluent = pytest.importorskip("confluent_kafka")
    settings = {"group.protocol": "consumer", "enable.auto.commit": False}
    consumer = confluent.Consumer(
        {"bootstrap.servers": broker.address, "group.id": "newer", **settings}
    )
    consumer.subscribe(["t"])
    while len(consumer.assignment()) < 2:
        consumer.poll(1)
    while "Stable" not in broker.groups_tool("--describe", "--state", "--group", "newer"):
        consumer.poll(1)
    consumer.commit(offsets=[confluent.TopicPartition("t", 0, 5)], asynchronous=False)
    only = ("--only", "divergence", "--format", "json")
    every = coterie("audit", *at(broker), "--group", "newer", *only)
    consumer.close()
    assert (json.loads(every.stdout), every.stderr) == ([], "")
