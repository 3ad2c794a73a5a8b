"""``coterie undo`` on a running broker's log, and Kafka's own tool taking the file."""

import json

import pytest

from support.broker.kafka_broker import running_broker
from support.commandline import coterie, coterie_ok

pytestmark = pytest.mark.slow
PARTITIONS, RECORDS = 3, 40


@pytest.fixture(scope="module")
def kafka():
    return pytest.importorskip("kafka")


@pytest.fixture(scope="module")
def broker(kafka, tmp_path_factory):
    """A broker with the topics ``t`` and ``u``, each partition with so many records."""
    from kafka.admin import KafkaAdminClient, NewTopic

    with running_broker(tmp_path_factory.mktemp("broker")) as found:
        admin = KafkaAdminClient(bootstrap_servers=found.address)
        admin.create_topics([NewTopic(name, PARTITIONS, 1) for name in ("t", "u")])
        admin.close()
        producer = kafka.KafkaProducer(bootstrap_servers=found.address)
        for topic in ("t", "u"):
            for number in range(PARTITIONS * RECORDS):
                producer.send(topic, b"x", partition=number % PARTITIONS)
        producer.flush()
        producer.close()
        yield found


def consumer_of(kafka, broker, group):
    return kafka.KafkaConsumer(
        bootstrap_servers=broker.address, group_id=group, enable_auto_commit=False
    )


def commit(kafka, broker, group, offsets):
    """Commit offsets {(topic, partition): offset} as a consumer that assigns itself."""
    consumer = consumer_of(kafka, broker, group)
    places = {kafka.TopicPartition(*place): offset for place, offset in offsets.items()}
    consumer.assign(list(places))
    of = kafka.structs.OffsetAndMetadata
    consumer.commit({place: of(offset, "", -1) for place, offset in places.items()})
    consumer.close(autocommit=False)


def committed(kafka, broker, group):
    """What the broker says that a group has committed."""
    consumer = consumer_of(kafka, broker, group)
    places = [kafka.TopicPartition(name, n) for name in ("t", "u") for n in range(PARTITIONS)]
    found = {(place.topic, place.partition): consumer.committed(place) for place in places}
    consumer.close(autocommit=False)
    return {place: offset for place, offset in found.items() if offset is not None}


def last_commit_ms(broker, group):
    """The time of a group's last commit, by the log."""
    result = coterie_ok("records", broker.logs, "--group", group)
    return max(json.loads(line)["timestamp"] for line in result.stdout.splitlines())


def test_kafkas_tool_takes_the_file_and_the_offsets_are_as_before(kafka, broker, tmp_path):
    before = {("t", 0): 7, ("t", 1): 8, ("u", 2): 40}
    commit(kafka, broker, "g", before)
    at_ms = last_commit_ms(broker, "g")
    reset = ("--reset-offsets", "--group", "g", "--execute")
    broker.groups_tool(*reset, "--to-earliest", "--topic", "t", "--topic", "u")
    wrong = dict.fromkeys([(name, n) for name in ("t", "u") for n in range(PARTITIONS)], 0)
    assert committed(kafka, broker, "g") == wrong

    file = tmp_path / "back.csv"
    undo = ("undo", broker.logs, "--group", "g", "--at", at_ms)
    assert coterie(*undo, "--against-latest").returncode == 1
    result = coterie_ok(*undo, "--out", file)
    assert "3 partitions without an offset then" in result.stderr
    shown = broker.groups_tool(*reset, "--from-file", file)
    assert "Error" not in shown
    assert committed(kafka, broker, "g") == wrong | before

    gone = {place: offset for place, offset in wrong.items() if place not in before}
    for topic, partition in gone:  # as the warning says
        place = f"{topic}:{partition}"
        broker.groups_tool("--delete-offsets", "--group", "g", "--topic", place)
    assert committed(kafka, broker, "g") == before
    assert coterie(*undo, "--against-latest").returncode == 0


def test_kafkas_tool_takes_the_file_of_many_groups(kafka, broker, tmp_path):
    before = {"g,1": {("t", 0): 11}, 'g "2"': {("t", 0): 12, ("u", 1): 13}}
    for group, offsets in before.items():
        commit(kafka, broker, group, offsets)
    at_ms = max(last_commit_ms(broker, group) for group in before)
    named = [text for group in before for text in ("--group", group)]
    reset = ("--reset-offsets", *named, "--execute")
    broker.groups_tool(*reset, "--to-latest", "--topic", "t:0")
    assert committed(kafka, broker, "g,1") == {("t", 0): RECORDS}
    file = tmp_path / "back.csv"
    coterie_ok("undo", broker.logs, *named, "--at", at_ms, "--out", file)
    broker.groups_tool(*reset, "--from-file", file)
    for group, offsets in before.items():
        assert committed(kafka, broker, group) == offsets


def test_kafkas_tool_refuses_a_group_with_members_as_the_warning_says(kafka, broker, tmp_path):
    commit(kafka, broker, "busy", {("t", 0): 5})
    at_ms = last_commit_ms(broker, "busy")
    consumer = kafka.KafkaConsumer(
        "t", bootstrap_servers=broker.address, group_id="busy", enable_auto_commit=False
    )
    polls = iter(range(20))
    while not consumer.assignment():
        assert next(polls, None) is not None, "the consumer got no assignment"
        consumer.poll(timeout_ms=5000, max_records=1)
    file = tmp_path / "back.csv"
    result = coterie_ok("undo", broker.logs, "--group", "busy", "--at", at_ms, "--out", file)
    assert "group 'busy' is Stable" in result.stderr
    reset = ("--reset-offsets", "--group", "busy", "--execute", "--from-file", file)
    assert "Assignments can only be reset if the group 'busy' is inactive" in broker.groups_tool(
        *reset
    )
    consumer.close(autocommit=False)
    broker.groups_tool(*reset)
    assert committed(kafka, broker, "busy")["t", 0] == 5


def test_kafkas_tool_fails_where_a_topic_is_gone_unless_it_is_left_out(kafka, broker, tmp_path):
    from kafka.admin import KafkaAdminClient, NewTopic

    admin = KafkaAdminClient(bootstrap_servers=broker.address)
    admin.create_topics([NewTopic("short", 1, 1)])
    commit(kafka, broker, "lost", {("t", 0): 5, ("short", 0): 0})
    at_ms = last_commit_ms(broker, "lost")
    admin.delete_topics(["short"])
    undo = ("undo", broker.logs, "--group", "lost", "--at", at_ms)
    # The broker removes the offsets of a deleted topic a little later.
    looks = iter(range(100))
    while '"deleted"' not in coterie_ok(*undo, "--format", "json").stdout:
        assert next(looks, None) is not None, "the broker kept the offset of a deleted topic"
    admin.close()
    commit(kafka, broker, "lost", {("t", 0): 9})
    file = tmp_path / "back.csv"
    reset = ("--reset-offsets", "--group", "lost", "--execute", "--from-file", file)
    result = coterie_ok(*undo, "--out", file)
    assert "1 partition without an offset now" in result.stderr
    shown = broker.groups_tool(*reset)
    assert "Error" in shown, shown
    coterie_ok(*undo, "--out", file, "--overwrite", "--without-deleted")
    assert "Error" not in broker.groups_tool(*reset)
    assert committed(kafka, broker, "lost") == {("t", 0): 5}
