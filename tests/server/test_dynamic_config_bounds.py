"""The dynamic settings of brokers and the settings of groups: types, defaults and bounds.

Source: the definitions in KafkaConfig of 3.9, of which DynamicBrokerConfig takes these, and
GroupConfig of 4.1.
"""

import pytest

from coterie.base.settings import InvalidConfig, parse_value
from coterie.server.services.broker_configs import DYNAMIC, check_broker_configs
from support.server.asking import ask
from support.server.playing import Server

BOOLEAN, STRING, INT, SHORT, LONG, DOUBLE, LIST, CLASS, PASSWORD = range(1, 10)  # of ConfigDef
INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1
OF_ALL = {  # type, default, the least that is taken
    "background.threads": (INT, "10", 1),
    "log.cleaner.backoff.ms": (LONG, "15000", 0),
    "log.cleaner.dedupe.buffer.size": (LONG, "134217728", -(2**63)),
    "log.cleaner.io.buffer.load.factor": (DOUBLE, "0.9", None),
    "log.cleaner.io.buffer.size": (INT, "524288", 0),
    "log.cleaner.io.max.bytes.per.second": (DOUBLE, "1.7976931348623157E308", None),
    "log.cleaner.threads": (INT, "1", 0),
    "max.connection.creation.rate": (INT, str(INT_MAX), 0),
    "max.connections": (INT, str(INT_MAX), 0),
    "max.connections.per.ip": (INT, str(INT_MAX), 0),
    "max.connections.per.ip.overrides": (STRING, "", None),
    "metric.reporters": (LIST, "", None),
    "num.io.threads": (INT, "8", 1),
    "num.network.threads": (INT, "3", 1),
    "num.recovery.threads.per.data.dir": (INT, "1", 1),
    "num.replica.fetchers": (INT, "1", None),
    "producer.id.expiration.ms": (INT, "86400000", 1),
    "remote.fetch.max.wait.ms": (INT, "500", 1),
    "remote.log.index.file.cache.total.size.bytes": (LONG, "1073741824", 1),
    "remote.log.manager.copy.max.bytes.per.second": (LONG, str(LONG_MAX), 1),
    "remote.log.manager.fetch.max.bytes.per.second": (LONG, str(LONG_MAX), 1),
    "transaction.partition.verification.enable": (BOOLEAN, "true", None),
}
MOST = {INT: INT_MAX, LONG: LONG_MAX}
BOUNDED = [name for name, (_, _, least) in OF_ALL.items() if least is not None]
OF_LISTENERS = {
    "sasl.kerberos.service.name": STRING,
    "principal.builder.class": CLASS,
    "ssl.engine.factory.class": CLASS,
    "sasl.enabled.mechanisms": LIST,
    "ssl.cipher.suites": LIST,
    "sasl.jaas.config": PASSWORD,
    "sasl.login.refresh.window.factor": DOUBLE,
    "sasl.kerberos.min.time.before.relogin": LONG,
    "sasl.login.refresh.buffer.seconds": SHORT,
    "ssl.keystore.location": STRING,
    "ssl.key.password": PASSWORD,
}
TEXTS = {STRING: "x", CLASS: "a.B", LIST: "a,b", PASSWORD: "p", DOUBLE: "0.5", LONG: "7"}
BROKER, GROUP = 4, 32


def described(peer, kind, name):
    resource = {"resourceType": kind, "resourceName": name, "configurationKeys": None}
    (found,) = ask(peer, "DescribeConfigs", 4, {"resources": [resource]})["results"]
    return {row["name"]: row for row in found["configs"]}


def test_dynamic_settings_have_their_types_and_defaults():
    rows = described(Server({}).connect(), BROKER, "1")
    shown = {name: (rows[name]["configType"], rows[name]["value"]) for name in OF_ALL}
    assert shown == {name: (kind, default) for name, (kind, default, _) in OF_ALL.items()}
    assert {rows[name]["configSource"] for name in OF_ALL} == {5}  # a default


@pytest.mark.parametrize("name", BOUNDED)
def test_a_dynamic_setting_is_taken_from_the_least_to_the_largest(name):
    kind, _, least = OF_ALL[name]
    for value in (least, MOST[kind]):
        check_broker_configs({name: str(value)}, "1", {name: str(value)})
    for value in (least - 1, MOST[kind] + 1):
        with pytest.raises(InvalidConfig, match=f"value {value} for configuration {name}: "):
            check_broker_configs({name: str(value)}, "1", {name: str(value)})


def test_the_version_of_messages_is_not_dynamic_as_the_other_defaults_of_topics_are():
    """Source: DynamicLogConfig.ExcludedConfigs of 3.9: each broker would have to know it."""
    for name, text in (("log.segment.bytes", "2000"), ("log.retention.ms", "1")):
        check_broker_configs({name: text}, "", {})
    says = r"Cannot update these configs dynamically: Set\(log\.message\.format\.version\)"
    with pytest.raises(InvalidConfig, match=says):
        check_broker_configs({"log.message.format.version": "3.0"}, "", {})


def test_settings_of_a_listener_have_their_types_and_only_passwords_are_sensitive():
    peer = Server({}).connect()
    given = {
        f"listener.name.ssl.{name}": TEXTS.get(kind, "7") for name, kind in OF_LISTENERS.items()
    }
    entries = [{"name": name, "value": text, "configOperation": 0} for name, text in given.items()]
    resource = {"resourceType": BROKER, "resourceName": "1", "configs": entries}
    (altered,) = ask(peer, "IncrementalAlterConfigs", 1, {"resources": [resource]})["responses"]
    assert altered["errorCode"] == 0
    rows = described(peer, BROKER, "1")
    for name, kind in OF_LISTENERS.items():
        row = rows[f"listener.name.ssl.{name}"]
        is_password = kind == PASSWORD
        assert (row["configType"], row["isSensitive"]) == (kind, is_password)
        assert row["value"] == (None if is_password else TEXTS.get(kind, "7"))
        assert DYNAMIC[name].type == kind


OF_GROUPS = {
    "consumer.heartbeat.interval.ms": ("5000", 1),
    "consumer.session.timeout.ms": ("45000", 1),
    "share.heartbeat.interval.ms": ("5000", 1),
    "share.record.lock.duration.ms": ("30000", 1000),
    "share.session.timeout.ms": ("45000", 1),
    "streams.heartbeat.interval.ms": ("5000", 1),
    "streams.num.standby.replicas": ("0", 0),
    "streams.session.timeout.ms": ("45000", 1),
}
WORDS_OF_GROUPS = {
    "share.auto.offset.reset": "latest", "share.isolation.level": "read_uncommitted",
}  # fmt: skip


def test_settings_of_groups_have_their_types_and_defaults():
    rows = described(Server({}, kafka="4.1").connect(), GROUP, "g")
    assert {name: (row["configType"], row["value"]) for name, row in rows.items()} == {
        **{name: (INT, default) for name, (default, _) in OF_GROUPS.items()},
        **{name: (STRING, default) for name, default in WORDS_OF_GROUPS.items()},
    }


@pytest.mark.parametrize("name", OF_GROUPS)
def test_a_number_of_a_group_is_taken_from_the_least_on(name):
    row, (_, least) = Server({}, kafka="4.1").cluster.group_configs.known[name], OF_GROUPS[name]
    for value in (least, INT_MAX):
        assert parse_value(row, str(value)) == value
    for value in (least - 1, INT_MAX + 1):
        with pytest.raises(InvalidConfig, match=f"configuration {name}: "):
            parse_value(row, str(value))


@pytest.mark.parametrize(("level", "is_one"), [("read_committed", 1), ("read_all", 0)])
def test_a_share_group_reads_at_one_of_two_levels(level, is_one):
    configs = Server({}, kafka="4.1").cluster.group_configs
    if is_one:
        configs.check({"share.isolation.level": level})
    else:
        says = "String must be one of: read_committed, read_uncommitted"
        with pytest.raises(InvalidConfig, match=says):
            configs.check({"share.isolation.level": level})


@pytest.mark.parametrize(
    ("current", "taken", "refused"),
    [(8, (4, 16), (3, 17)), (9, (4, 18), (3, 19)), (1, (1, 2), (3,)), (2, (1, 4), (5,))],
)
def test_a_number_of_threads_changes_by_a_factor_of_2_at_most(current, taken, refused):
    """Source: DynamicThreadPool; half of an odd number is rounded down."""
    name = "num.network.threads"
    for count in taken:
        check_broker_configs({name: str(count)}, "", {name: str(current)})
    for count in refused:
        with pytest.raises(InvalidConfig, match=f"{name}={count}, value should"):
            check_broker_configs({name: str(count)}, "", {name: str(current)})


THREAD_POOLS = [
    "background.threads", "num.io.threads", "num.network.threads",
    "num.recovery.threads.per.data.dir", "num.replica.fetchers",
]  # fmt: skip


@pytest.mark.parametrize("name", THREAD_POOLS)
def test_each_pool_of_threads_grows_to_twice_its_default_at_most(name):
    """Source: DynamicThreadPool.ReconfigurableConfigs."""
    default = int(OF_ALL[name][1])
    check_broker_configs({name: str(2 * default)}, "1", {})
    with pytest.raises(InvalidConfig, match=f"double the current value {default} "):
        check_broker_configs({name: str(2 * default + 1)}, "1", {})
