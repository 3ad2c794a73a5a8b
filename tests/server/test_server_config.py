"""Settings of a server: Kafka's names and bounds, prefixes, and what is refused."""

import pytest

from coterie.coordinator.config import DEFAULTS as OF_COORDINATOR
from coterie.errors import ConfigError
from coterie.server.broker_settings import is_known
from coterie.server.config import DEFAULTS, server_config
from coterie.server.config_sources import read_setting
from coterie.server.ids import Ids
from coterie.server.services.data.topic_configs import TOPIC_CONFIGS

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


CONTAINER = {  # what compose files of Kafka's images set, beside listeners
    "offsets.topic.replication.factor": 1,
    "transaction.state.log.replication.factor": 1,
    "transaction.state.log.min.isr": 1,
    "default.replication.factor": 1,
    "delete.topic.enable": True,
    "process.roles": "broker,controller",
    "controller.quorum.voters": "1@localhost:9093",
    "log.dirs": "/var/lib/kafka/data",
    "share.coordinator.state.topic.replication.factor": 1,
    "zookeeper.connect": "zookeeper:2181",
    "num.network.threads": 3,
    "super.users": "User:admin",
    "ssl.keystore.location": "/etc/keystore",
    "sasl.enabled.mechanisms": "PLAIN",
    "listener.name.plaintext.ssl.client.auth": "none",
    "listener.name.controller.oauthbearer.sasl.jaas.config": "x",
    "confluent.support.metrics.enable": False,
}


@pytest.mark.parametrize("name", CONTAINER)
def test_a_setting_of_a_broker_that_has_no_effect_here_is_accepted_and_named(name):
    config = {name: CONTAINER[name], "controller.listener.names": "CONTROLLER"}
    assert server_config(config).without_effect == (name,)


# Texts of ConfigException by ConfigDef of KafkaConfig 3.9.1.
WRONG = {
    "num.network.threads=abc": "Not a number of type INT",
    "num.network.threads=3.0": "Not a number of type INT",
    "num.network.threads=9999999999": "Not a number of type INT",
    "num.network.threads=1_0": "Not a number of type INT",
    "num.network.threads=0": "Value must be at least 1",
    "replica.fetch.wait.max.ms=": "Not a number of type INT",
    "delete.topic.enable=1": "Expected value to be either true or false",
    "log.cleaner.io.buffer.load.factor=x": "Not a number of type DOUBLE",
    "log.cleaner.dedupe.buffer.size=1e3": "Not a number of type LONG",
    "transaction.state.log.replication.factor=99999": "Not a number of type SHORT",
}


@pytest.mark.parametrize("text", WRONG)
def test_a_wrong_value_without_effect_is_refused_in_the_words_of_a_broker(text):
    name, _, value = text.partition("=")
    with pytest.raises(ConfigError) as refused:
        server_config(dict([read_setting(text)]))
    expected = f"Invalid value {value} for configuration {name}: {WRONG[text]}"
    assert str(refused.value) == expected


@pytest.mark.parametrize(
    "text",
    ["num.network.threads= 3 ", "num.network.threads=+3", "delete.topic.enable=TRUE",
     "log.cleaner.io.max.bytes.per.second=1e3", "sasl.login.refresh.window.factor=0.4",
     "process.roles=", "listener.name.plaintext.ssl.protocol=x"],
)  # fmt: skip
def test_a_value_that_a_broker_takes_is_accepted(text):
    name, value = read_setting(text)
    assert server_config({name: value}).without_effect == (name,)


@pytest.mark.parametrize("value", [None, [], 1.5, "3\n4", "x" * 1000, "\N{ARABIC-INDIC DIGIT ONE}"])
def test_a_wrong_value_is_refused_in_one_line(value):
    with pytest.raises(ConfigError) as refused:
        server_config({"num.network.threads": value})
    message = str(refused.value)
    assert "\n" not in message
    assert len(message) < 300


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"log.retention.hours": 2}, {"log.retention.ms": 7_200_000}),
        ({"log.retention.minutes": 2}, {"log.retention.ms": 120_000}),
        ({"log.retention.hours": -1}, {"log.retention.ms": -1}),
        ({"log.retention.hours": 2, "log.retention.minutes": 3}, {"log.retention.ms": 180_000}),
        ({"log.retention.hours": 2, "log.retention.ms": 4}, {"log.retention.ms": 4}),
        ({"log.roll.hours": 1}, {"log.roll.ms": "3600000"}),
        ({"log.cleaner.delete.retention.ms": 5}, {"delete.retention.ms": 5}),
        ({"log.segment.bytes": 1000}, {"log.segment.bytes": "1000"}),
        ({"log.preallocate": True}, {"log.preallocate": "true"}),
    ],
)
def test_the_first_synonym_that_is_set_counts_as_in_kafka(config, expected):
    settings = server_config(config)
    assert {name: settings[name] for name in expected} == expected
    assert settings.without_effect == ()


@pytest.mark.parametrize(
    ("config", "expected"),
    [({}, 1), ({"node.id": 7}, 7), ({"broker.id": 3}, 3), ({"broker.id": -1, "node.id": 0}, 0)],
)
def test_the_broker_has_its_id(config, expected):
    assert server_config(config).node_id == expected


@pytest.mark.parametrize("name", ["num.partitions", "zookeeper.connect", "group.streams.max.size"])
def test_a_name_of_either_version_is_known(name):
    assert is_known(name)


@pytest.mark.parametrize("name", sorted(DEFAULTS))
def test_a_setting_with_an_effect_is_a_brokers_or_our_own(name):
    own = name.startswith("coterie.") or name == "delete.retention.ms"  # a topic's own name
    assert is_known(name) or own


def test_every_default_of_a_topic_can_be_set_by_its_brokers_setting():
    for row in TOPIC_CONFIGS.values():
        if row.server is not None:
            assert is_known(row.server)
            settings = server_config({row.server: _value(row)})
            assert row.server in settings or row.name in settings, row
            assert settings.without_effect == ()


def _value(row):
    """A value other than the default that the setting of a topic can have."""
    if row.words:
        return row.words[0]
    return {"true": False, "false": True}.get(row.default, 1)
