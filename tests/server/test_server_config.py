"""Settings of a server: Kafka's names and bounds, prefixes, and what is refused."""

import pytest

from coterie.coordinator.config import DEFAULTS as OF_COORDINATOR
from coterie.errors import ConfigError
from coterie.server.config import read_setting, server_config
from coterie.server.ids import Ids

SPECIFIED = {  # what the server reads, beside the settings of the coordinator
    *("auto.create.topics.enable", "num.partitions", "offsets.topic.num.partitions"),
    *("offsets.topic.segment.bytes", "transaction.state.log.num.partitions", "log.retention.ms"),
    *("transaction.max.timeout.ms", "socket.request.max.bytes", "connections.max.idle.ms"),
    *("max.connections", "message.max.bytes", "log.retention.bytes", "delete.retention.ms"),
    *("log.cleaner.min.cleanable.ratio", "connections.max.reauth.ms"),
    "connection.failed.authentication.delay.ms",
}
PREFIXED = "listener.name.sasl_plaintext.scram-sha-512.connections.max.reauth.ms"


@pytest.mark.parametrize("name", sorted({*SPECIFIED, *OF_COORDINATOR}))
def test_a_setting_that_is_to_be_served_is(name):
    assert name in server_config({})


def test_a_setting_of_a_mechanism_is_kept_under_its_name():
    assert server_config({PREFIXED: 3000})[PREFIXED] == 3000


@pytest.mark.parametrize(
    "text",
    ["num.partitons=3", "num.partitions=x", "num.partitions=0", "max.connections=-1",
     "auto.create.topics.enable=1", "log.cleaner.min.cleanable.ratio=2", "num.partitions",
     "group.max.size=many", "listener.name.x.num.partitions=3", "a.b=3", "=3", "",
     "listener.name.x.max.connections=3", "listener.name.x.connections.max.reauth.ms=3",
     "listener.name.ssl.plain.max.connections=3"],
)  # fmt: skip
def test_a_setting_that_is_not_served_or_cannot_be_is_refused(text):
    with pytest.raises(ConfigError):
        server_config(dict([read_setting(text)]))


def test_values_are_read_as_what_they_are():
    given = ("a=true", "b=-12", "c=0.25", "d=periodic", "e=")
    assert dict(map(read_setting, given)) == {
        "a": True, "b": -12, "c": 0.25, "d": "periodic", "e": "",
    }  # fmt: skip


def test_ids_of_a_seed_repeat_and_others_differ():
    def drawn(seed):
        ids = Ids(seed)
        return [ids.uuid(), ids.member_id("a"), ids.producer_id(), ids.number(31)]

    assert drawn(5) == drawn(5)
    assert drawn(5)[:2] != drawn(6)[:2]
    assert drawn(None)[:2] != drawn(None)[:2]


def test_no_uuid_looks_like_an_option():
    ids = Ids(1)
    assert not [text for text in (ids.uuid() for _ in range(1000)) if text.startswith("-")]
