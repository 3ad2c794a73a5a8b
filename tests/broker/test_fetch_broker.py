"""``coterie fetch`` beside a broker of Kafka: the bytes and offsets of the broker's own files."""

import pytest

from coterie.log.batch_headers import batch_headers
from coterie.log.copy_state import read_copy_state
from coterie.log.folders import find_segments
from support.broker.kafka_broker import running_broker
from support.commandline import coterie_ok, fails
from support.server.groups_of_a_broker import TOPIC, copied

pytestmark = pytest.mark.slow
VERSIONS = ("3.9.1", "4.1.1")


@pytest.fixture(scope="module", params=VERSIONS)
def broker(request, tmp_path_factory):
    pytest.importorskip("aiokafka")
    folder = tmp_path_factory.mktemp("broker")
    admin = pytest.importorskip("kafka.admin")
    with running_broker(folder, version=request.param) as found:
        client = admin.KafkaAdminClient(bootstrap_servers=found.address)
        client.create_topics([admin.NewTopic("t", 1, 1)])
        client.close()
        yield found


def commit(broker, group, count):
    """Commit as a consumer that assigns itself."""
    kafka = pytest.importorskip("kafka")
    consumer = kafka.KafkaConsumer(
        bootstrap_servers=broker.address, group_id=group, enable_auto_commit=False
    )
    place = kafka.TopicPartition("t", 0)
    consumer.assign([place])
    for offset in range(count):
        consumer.commit({place: kafka.structs.OffsetAndMetadata(offset, "", -1)})
    consumer.close(autocommit=False)


def test_bytes_and_offsets_are_those_of_the_brokers_files(broker, tmp_path):
    for group in ("a", "b", "c", "d", "e", "f"):
        commit(broker, group, 20)
    out = tmp_path / "copy"
    fetch = ("fetch", "--bootstrap-server", broker.address, "--out", out)
    coterie_ok(*fetch)
    assert copied(out) == copied(broker.logs)
    commit(broker, "a", 50)
    coterie_ok(*fetch)
    theirs = copied(broker.logs)
    assert copied(out) == theirs
    for number, data in theirs.items():
        state = read_copy_state(out / f"{TOPIC}-{number}")
        ends = batch_headers(data)["last_offset"]
        assert state.complete_until_offset == (int(ends[-1]) + 1 if len(ends) else 0)
    assert find_segments([out]).partition_count() == 4
    listed = [coterie_ok("groups", log, "--list").stdout for log in (out, broker.logs)]
    assert listed[0] == listed[1]


def test_a_topic_that_the_cluster_does_not_have_is_named(broker, tmp_path):
    command = ("fetch", "--bootstrap-server", broker.address, "--out", tmp_path, "--topic", "none")
    fails(*command, says="the cluster has no topic none")
