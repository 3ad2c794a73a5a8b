"""Kafka's own command line tools against the server: kafka-topics, kafka-consumer-groups, ...

A tool's lines are compared as lists of words, so that a column may be as wide as its version likes.
"""

import pytest

from coterie.server import Broker
from support.clients.java_clients import VERSIONS, installed, java
from support.clients.scenarios import GROUP, SETTINGS, TOPIC, Client, Program
from support.patience import HANG_S

TOPICS, GROUPS = "TopicCommand", "consumer.group.ConsumerGroupCommand"
PRODUCER, CONSUMER = "ConsoleProducer", "consumer.ConsoleConsumer"
OFFSETS, TRANSACTIONS = "GetOffsetShell", "TransactionsCommand"


@pytest.fixture(scope="module", params=VERSIONS)
def version(request):
    installed(request.param)  # what is missing skips all tests, and is looked for once
    return request.param


@pytest.fixture
def broker():
    with Broker(SETTINGS, topics={TOPIC: 3}) as broker:
        yield broker


def tools(version, broker, *commands):
    """Run tools, given as (class, arguments) or (class, arguments, what it reads)."""
    arguments = []
    for tool, options, *reads in commands:
        arguments += [";", tool, "".join(reads), *options.split()]
    with Program([*java(version, "Tools"), broker.bootstrap_servers, *arguments]) as program:
        return [(fact["status"], words(fact["said"])) for fact in program.facts()]


def words(lines):
    return [line.split() for line in lines if line.strip()]


def columns(rows, *names):
    """The rows of a table by the names of its columns, sorted; what stands before it is dropped."""
    head = next(number for number, line in enumerate(rows) if line[0] == "GROUP")
    index = rows[head].index
    return sorted([row[index(name)] for name in names] for row in rows[head + 1 :])


def moved(lines):
    """Partition and new offset of each row of a reset, sorted: 3.9 writes all in one line."""
    flat = [word for line in lines for word in line]
    flat = flat[flat.index("NEW-OFFSET") + 1 :]
    return sorted([flat[at + 2], flat[at + 3]] for at in range(0, len(flat), 4))


def test_topics_are_made_described_altered_and_deleted(version, broker):
    results = tools(
        version,
        broker,
        (TOPICS, "--create --topic made --partitions 2 --config retention.ms=60000"),
        (TOPICS, "--list"),
        (TOPICS, "--create --topic made"),
        (TOPICS, "--alter --topic made --partitions 3"),
        (TOPICS, "--describe --topic made"),
        (TOPICS, "--delete --topic made"),
        (TOPICS, "--list"),
    )
    made, listed, again, altered, described, deleted, left = results
    assert made == (0, [["Created", "topic", "made."]])
    assert listed == (0, [["made"], [TOPIC]])
    assert again[0] == 1
    assert "Topic 'made' already exists." in " ".join(again[1][0])
    assert altered[0] == deleted[0] == 0
    head, *partitions = described[1]
    assert " ".join(head).endswith(
        "PartitionCount: 3 ReplicationFactor: 1 Configs: retention.ms=60000"
    )
    assert [row[3] for row in partitions] == ["0", "1", "2"]
    assert left == (0, [[TOPIC]])


def test_offsets_of_a_group_are_described_reset_and_deleted(version, broker):
    with Client(java(version, "Scenarios")).start(broker, "records", "none", "gzip") as writer:
        writer.facts()  # three records each in partitions 0 and 1
    one = f"--group {GROUP}"
    reset = f"--reset-offsets {one}"
    results = tools(
        version,
        broker,
        (CONSUMER, f"--topic {TOPIC} {one} --from-beginning --max-messages 6"),
        (GROUPS, "--list --state"),
        (GROUPS, f"--describe {one}"),
        (GROUPS, f"--describe {one} --state"),
        (GROUPS, f"{reset} --topic {TOPIC} --to-earliest --dry-run"),
        (GROUPS, f"{reset} --topic {TOPIC}:0,1 --shift-by -2 --execute"),
        (GROUPS, f"--describe {one}"),
        (GROUPS, f"{reset} --all-topics --to-datetime 2000-01-01T00:00:00.000 --execute"),
        (GROUPS, f"--delete-offsets {one} --topic {TOPIC}:0"),
        (GROUPS, f"--describe {one}"),
        (GROUPS, f"--delete {one}"),
        (GROUPS, f"--delete {one}"),
        (GROUPS, f"--describe {one}"),
    )
    assert [status for status, _ in results[:11]] == [0] * 11
    read, listed, before, state, dry, shifted, after, begin, _, left, _, again, gone = results
    values = [line[0] for line in read[1] if line[0].startswith("v")]
    assert sorted(values) == sorted(["v0", "v1", "v2"] * 2)
    assert columns(listed[1], "GROUP", "STATE") == [[GROUP, "Empty"]]
    lag = "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"
    assert columns(before[1], *lag) == [["0", *"330"], ["1", *"330"], ["2", *"000"]]
    assert [line[-2:] for line in state[1]][-1] == ["Empty", "0"]
    assert moved(dry[1]) == [["0", "0"], ["1", "0"], ["2", "0"]]
    assert moved(shifted[1]) == [["0", "1"], ["1", "1"]]
    assert columns(after[1], *lag) == [["0", *"132"], ["1", *"132"], ["2", *"000"]]
    assert moved(begin[1]) == [["0", "0"], ["1", "0"], ["2", "0"]]
    assert columns(left[1], *lag) == [["1", *"033"], ["2", *"000"]]
    assert "GroupIdNotFoundException" in str(again[1])
    assert "does not exist." in " ".join(gone[1][0])


def test_a_group_with_a_member_is_described_and_its_offsets_are_not_reset(version, broker):
    with Client(java(version, "Scenarios")).start(broker, "stay") as member:
        assert member.fact() == {"assigned": [0, 1, 2]}
        members, state, refused, not_deleted = tools(
            version,
            broker,
            (GROUPS, f"--describe --group {GROUP} --members --verbose"),
            (GROUPS, f"--describe --group {GROUP} --state"),
            (GROUPS, f"--reset-offsets --group {GROUP} --topic {TOPIC} --to-latest --execute"),
            (GROUPS, f"--delete --group {GROUP}"),
        )
        (member,) = broker.coordinator.snapshot(GROUP).members
    assert columns(members[1], "GROUP", "HOST", "CONSUMER-ID", "#PARTITIONS") == [
        [GROUP, "/127.0.0.1", member.member_id, "3"]
    ]
    assert [line[-3:] for line in state[1]][-1] == ["range", "Stable", "1"]
    assert "can only be reset if the group 'the-group' is inactive" in " ".join(refused[1][0])
    assert "GroupNotEmptyException" in str(not_deleted[1])


def test_the_console_writes_and_reads_keys(version, broker):
    if version < "4":
        pytest.skip("its console producer is in the broker's jar")
    keyed = "--property parse.key=true --property key.separator=:"
    properties = "--property print.key=true --property print.partition=true"
    written, ends, read = tools(
        version,
        broker,
        (PRODUCER, f"--topic {TOPIC} {keyed} --sync --compression-codec zstd", "a:1\nb:2\na:3\n"),
        (OFFSETS, f"--topic {TOPIC}"),
        (CONSUMER, f"--topic {TOPIC} --from-beginning --max-messages 3 {properties}"),
    )
    assert written[0] == 0
    assert [line for line in written[1] if line[0] != "Warning:"] == []  # --property is old in 4.4
    assert sum(int(line[0].rsplit(":", 1)[1]) for line in ends[1]) == 3
    assert sorted(line[1:] for line in read[1] if len(line) == 3) == [
        ["a", "1"], ["a", "3"], ["b", "2"],
    ]  # fmt: skip


def test_an_open_transaction_is_listed_described_and_aborted(version, broker):
    kafka = pytest.importorskip("confluent_kafka")
    producer = kafka.Producer(
        {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "x"}
    )
    producer.init_transactions(HANG_S)
    producer.begin_transaction()
    producer.produce(TOPIC, b"a", partition=1)
    assert producer.flush(HANG_S) == 0
    of_it = f"--topic {TOPIC} --partition 1"
    results = tools(
        version,
        broker,
        (TRANSACTIONS, "list"),
        (TRANSACTIONS, "list --duration-filter 3600000"),
        (TRANSACTIONS, "describe --transactional-id x"),
        (TRANSACTIONS, f"describe-producers {of_it}"),
        (TRANSACTIONS, "find-hanging --broker-id 1"),
        (TRANSACTIONS, f"abort {of_it} --start-offset 0"),
        (TRANSACTIONS, f"describe-producers {of_it}"),
    )
    assert [status for status, _ in results] == [0] * 7
    listed, young, described, writing, hanging, _, after = (rows_of(rows) for _, rows in results)
    assert [(row["TransactionalId"], row["TransactionState"]) for row in listed] == [
        ("x", "Ongoing")
    ]
    (open_one,) = described
    assert open_one["TransactionalId"] == "x"
    assert open_one["TransactionState"] == "Ongoing"
    assert open_one["TopicPartitions"] == f"{TOPIC}-1"
    assert open_one["ProducerId"] == listed[0]["ProducerId"] == writing[0]["ProducerId"]
    assert writing[0]["CurrentTransactionStartOffset"] == "0"
    assert after[0]["CurrentTransactionStartOffset"] == "None"
    assert young == hanging == []


def rows_of(lines):
    """A table of kafka-transactions: its rows by the names of its columns."""
    head, *lines = lines or [[]]
    return [dict(zip(head, line, strict=False)) for line in lines]
