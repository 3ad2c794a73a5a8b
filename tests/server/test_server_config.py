"""Settings of a server: Kafka's names and bounds, prefixes, and what is refused."""

import re

import pytest

from coterie.base.settings import is_known, settings_with
from coterie.coordinator.config import DEFAULTS as OF_COORDINATOR
from coterie.errors import ConfigError
from coterie.server.config import DEFAULTS, server_config
from coterie.server.config_sources import read_setting
from coterie.server.ids import Ids
from coterie.server.releases import RELEASES
from coterie.server.topic_configs import TOPIC_CONFIGS
from support.sources import ROOT

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


# Texts of GroupCoordinatorConfig 4.4.0, each name behind "group.consumer.".
CONTRADICTORY = {
    "heartbeat.interval.ms=4999": ("heartbeat.interval.ms", "greater than or equal to",
                                   "min.heartbeat.interval.ms"),
    "session.timeout.ms=60001": ("session.timeout.ms", "less than or equal to",
                                 "max.session.timeout.ms"),
    "min.session.timeout.ms=60001": ("max.session.timeout.ms", "greater than or equal to",
                                     "min.session.timeout.ms"),
    "assignment.interval.ms=15001": ("assignment.interval.ms", "less than or equal to",
                                     "max.assignment.interval.ms"),
    "min.session.timeout.ms=1 session.timeout.ms=5000": ("heartbeat.interval.ms", "less than",
                                                         "session.timeout.ms"),
}  # fmt: skip


@pytest.mark.parametrize("texts", CONTRADICTORY)
def test_settings_of_consumer_groups_that_contradict_each_other_are_refused(texts):
    config = dict(read_setting(f"group.consumer.{text}") for text in texts.split())
    name, how, other = CONTRADICTORY[texts]
    with pytest.raises(ConfigError) as refused:
        server_config(config)
    assert str(refused.value) == f"group.consumer.{name} must be {how} group.consumer.{other}"


@pytest.mark.parametrize(
    "text",
    ["num.network.threads= 3 ", "num.network.threads=+3", "delete.topic.enable=TRUE",
     "log.cleaner.io.max.bytes.per.second=1e3", "sasl.login.refresh.window.factor=0.4",
     "process.roles=", "listener.name.plaintext.ssl.protocol=x"],
)  # fmt: skip
def test_a_value_that_a_broker_takes_is_accepted(text):
    name, value = read_setting(text)
    assert server_config({name: value}).without_effect == (name,)


@pytest.mark.parametrize(
    ("name", "bits"),
    [("controlled.shutdown.max.retries", 32), ("controlled.shutdown.retry.backoff.ms", 64)],
)
def test_a_number_without_effect_has_the_range_of_its_type(name, bits):
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    for value in (least, most):
        assert server_config({name: value}).without_effect == (name,)
    for value in (least - 1, most + 1):
        with pytest.raises(ConfigError, match="Not a number of type"):
            server_config({name: value})


@pytest.mark.parametrize("kafka", RELEASES)
def test_a_broker_has_the_coordinator_of_its_release_unless_another_one_is_set(kafka):
    release = RELEASES[kafka]
    assert server_config({}, release)["coterie.behaviour"] == kafka
    for behaviour in release.behaviours:
        config = {"coterie.behaviour": behaviour}
        assert server_config(config, release)["coterie.behaviour"] == behaviour


INT, LONG = 2**31 - 1, 2**63 - 1
# Of ServerConfigs, SocketServerConfigs, ServerLogConfigs and TransactionLogConfigs of Kafka 3.9:
# name -> (default, least, most). docs/server.md has the defaults, too.
BOUNDS = {
    "num.partitions": (1, 1, INT),
    "transaction.state.log.num.partitions": (50, 1, INT),
    "transaction.max.timeout.ms": (900_000, 1, INT),
    "transactional.id.expiration.ms": (7 * 24 * 3_600_000, 1, INT),
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": (10_000, 1, INT),
    "transaction.remove.expired.transaction.cleanup.interval.ms": (3_600_000, 1, INT),
    "log.retention.ms": (7 * 24 * 3_600_000, -1, LONG),
    "log.retention.bytes": (-1, -1, LONG),
    "message.max.bytes": ((1 << 20) + 12, 0, INT),
    "delete.retention.ms": (24 * 3_600_000, 0, LONG),
    "socket.request.max.bytes": (100 << 20, 1, INT),
    "socket.send.buffer.bytes": (100 << 10, -1, INT),
    "socket.receive.buffer.bytes": (100 << 10, -1, INT),
    "connections.max.idle.ms": (600_000, -1, LONG),
    "max.connections": (INT, 0, INT),
    "connections.max.reauth.ms": (0, 0, LONG),
    "connection.failed.authentication.delay.ms": (100, 0, INT),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_a_number_has_kafkas_default_and_bounds(name):
    default, least, most = BOUNDS[name]
    assert server_config({})[name] == default
    for value in (least, most):
        assert server_config({name: value})[name] == value
    for value in (least - 1, most + 1):
        with pytest.raises(ConfigError, match=f"{name} must be"):
            server_config({name: value})


def test_the_page_of_the_server_has_every_setting_with_an_effect_and_its_default():
    page = (ROOT / "docs/server.md").read_text()
    shown = {}
    for names, defaults in re.findall(r"^\| (`[a-z`., ]+`.*?) \| (.*?) \|", page, re.M):
        row = re.findall(r"`([a-z.]+)`", names)
        shown |= dict.fromkeys(row, re.findall(r"[-\w.]+", defaults))
    for name, row in settings_with("coordinator", "server").items():
        if name in shown:
            assert row.default in shown[name], name
        else:  # in the row of the setting that it bounds
            assert re.sub(r"\.(min|max)\.", ".", name) in shown.keys() - {name}


@pytest.mark.parametrize(
    ("name", "least"),
    [("log.retention.minutes", -1), ("log.retention.hours", -1), ("log.roll.hours", 1),
     ("log.roll.jitter.hours", 0), ("log.flush.scheduler.interval.ms", 0),
     ("log.cleaner.delete.retention.ms", 0)],
)  # fmt: skip
def test_another_name_of_a_setting_has_bounds_of_its_own(name, least):
    assert server_config({name: least})[name] == least
    with pytest.raises(ConfigError, match=f"{name} must be"):
        server_config({name: least - 1})


def test_a_long_time_in_hours_is_the_longest_in_milliseconds():
    assert server_config({"log.retention.hours": LONG})["log.retention.ms"] == LONG
    assert server_config({"log.roll.hours": LONG})["log.roll.ms"] == str(LONG)


@pytest.mark.parametrize("ratio", [0, 0.25, 1])
def test_a_ratio_is_from_0_to_1(ratio):
    name = "log.cleaner.min.cleanable.ratio"
    assert server_config({})[name] == 0.5
    assert server_config({name: ratio})[name] == ratio
    for wrong in (-0.1, 1.1, True):
        with pytest.raises(ConfigError, match="must be a number from 0 to 1"):
            server_config({name: wrong})


@pytest.mark.parametrize(
    ("config", "node_id"),
    [({}, 1), ({"node.id": 0}, 0), ({"broker.id": 3}, 3), ({"broker.id": -1}, 1),
     ({"node.id": 3, "broker.id": 3}, 3), ({"node.id": 3, "broker.id": -1}, 3)],
)  # fmt: skip
def test_a_broker_has_its_id(config, node_id):
    assert server_config(config).node_id == node_id


@pytest.mark.parametrize(
    "config", [{"node.id": -1}, {"broker.id": -2}, {"node.id": 3, "broker.id": 4}]
)
def test_ids_of_a_broker_that_cannot_be_are_refused(config):
    with pytest.raises(ConfigError):
        server_config(config)


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
