"""Dynamic settings of brokers, by DescribeConfigs and (Incremental)AlterConfigs, as of Kafka 3.9.

Messages and sources of values are those of DynamicBrokerConfig, ConfigAdminManager, ConfigHelper.
"""

import pytest

from coterie.server.net.listener import Peers
from support.server.asking import ask
from support.server.playing import Server
from support.server.writing import batch

BROKER, TOPIC = 4, 2
DYNAMIC_BROKER, DYNAMIC_DEFAULT, STATIC, DEFAULT = 2, 3, 4, 5
SET, DELETE, APPEND, SUBTRACT = range(4)
INVALID_REQUEST, INVALID_CONFIG, TOO_LARGE = 42, 40, 10
OK = (0, None)


@pytest.fixture
def server():
    return Server({})


@pytest.fixture
def peer(server):
    return server.connect()


def alter(peer, *changes, name="1", **fields):
    """Change settings of a broker, each (name, value) or (name, value, operation)."""
    listed = [
        {"name": setting, "value": value, "configOperation": operation[0] if operation else SET}
        for setting, value, *operation in changes
    ]
    resource = {"resourceType": BROKER, "resourceName": name, "configs": listed}
    body = {"resources": [resource], **fields}
    (found,) = ask(peer, "IncrementalAlterConfigs", 1, body)["responses"]
    return found["errorCode"], found["errorMessage"]


def replace(peer, configs, name=""):
    listed = [{"name": key, "value": value} for key, value in configs.items()]
    resource = {"resourceType": BROKER, "resourceName": name, "configs": listed}
    (found,) = ask(peer, "AlterConfigs", 2, {"resources": [resource]})["responses"]
    return found["errorCode"], found["errorMessage"]


def describe(peer, name, *keys, kind=BROKER):
    """Name -> (value, source, synonyms) of settings."""
    resource = {"resourceType": kind, "resourceName": name, "configurationKeys": keys or None}
    body = {"resources": [resource], "includeSynonyms": True}
    (found,) = ask(peer, "DescribeConfigs", 4, body)["results"]
    assert found["errorCode"] == 0, found["errorMessage"]
    return {
        row["name"]: (
            row["value"],
            row["configSource"],
            [(s["name"], s["value"], s["source"]) for s in row["synonyms"]],
        )
        for row in found["configs"]
    }


def test_a_setting_of_the_broker_stands_before_that_of_all_and_both_before_the_default(peer):
    assert alter(peer, ("log.segment.bytes", "2000"), name="") == OK
    assert alter(peer, ("log.segment.bytes", "1000")) == OK
    mine = ("log.segment.bytes", "1000", DYNAMIC_BROKER)
    of_all = ("log.segment.bytes", "2000", DYNAMIC_DEFAULT)
    default = ("log.segment.bytes", "1073741824", DEFAULT)
    assert describe(peer, "1", "log.segment.bytes") == {
        "log.segment.bytes": ("1000", DYNAMIC_BROKER, [mine, of_all, default])
    }
    assert describe(peer, "") == {"log.segment.bytes": ("2000", DYNAMIC_DEFAULT, [of_all])}
    assert alter(peer, ("log.segment.bytes", None, DELETE)) == OK
    found = describe(peer, "1", "log.segment.bytes")["log.segment.bytes"]
    assert found == ("2000", DYNAMIC_DEFAULT, [of_all, default])


def test_a_static_value_stands_between_the_dynamic_ones_and_the_default():
    peer = Server({"message.max.bytes": 500}).connect()
    alter(peer, ("message.max.bytes", "700"), name="")
    assert describe(peer, "1", "message.max.bytes")["message.max.bytes"] == (
        "700", DYNAMIC_DEFAULT,
        [("message.max.bytes", "700", DYNAMIC_DEFAULT), ("message.max.bytes", "500", STATIC),
         ("message.max.bytes", "1048588", DEFAULT)],
    )  # fmt: skip


@pytest.mark.parametrize("name", ["1", ""])
def test_a_topic_takes_a_dynamic_default_and_shows_where_it_is_from(server, peer, name):
    server.cluster.topics.create("t", 1)
    assert alter(peer, ("log.retention.ms", "5000"), name=name) == OK
    source = DYNAMIC_BROKER if name else DYNAMIC_DEFAULT
    assert describe(peer, "t", "retention.ms", kind=TOPIC) == {
        "retention.ms": (
            "5000",
            source,
            [("log.retention.ms", "5000", source), ("log.retention.hours", "168", DEFAULT)],
        )
    }
    assert server.cluster.topics.get("t").settings.retention_ms == 5000


def test_a_batch_beyond_a_dynamic_limit_is_refused_until_the_limit_is_deleted(server, peer):
    server.cluster.topics.create("t", 1)
    partition = {"index": 0, "records": batch(b"v" * 100)}
    body = {"acks": 1, "topicData": [{"name": "t", "partitionData": [partition]}]}

    def produce():
        found = ask(peer, "Produce", 9, body)["responses"][0]["partitionResponses"][0]
        return found["errorCode"]

    assert produce() == 0
    alter(peer, ("message.max.bytes", "100"))
    assert produce() == TOO_LARGE
    alter(peer, ("message.max.bytes", None, DELETE))
    assert produce() == 0


def test_validate_only_changes_nothing(peer):
    assert alter(peer, ("log.segment.bytes", "1000"), validateOnly=True) == OK
    assert describe(peer, "1", "log.segment.bytes")["log.segment.bytes"][1] == DEFAULT


def test_a_replacement_drops_what_it_does_not_name(peer):
    assert replace(peer, {"log.segment.bytes": "1000", "num.io.threads": "9"}) == OK
    assert replace(peer, {"num.io.threads": "10"}) == OK
    found = describe(peer, "")
    assert {name: value for name, (value, _, _) in found.items()} == {"num.io.threads": "10"}


def test_lists_grow_and_shrink(peer):
    assert alter(peer, ("log.cleanup.policy", "compact", APPEND)) == OK
    assert describe(peer, "1", "log.cleanup.policy")["log.cleanup.policy"][0] == "delete,compact"
    assert alter(peer, ("log.cleanup.policy", "delete", SUBTRACT)) == OK
    assert describe(peer, "1", "log.cleanup.policy")["log.cleanup.policy"][0] == "compact"


def test_a_password_is_never_shown(peer):
    name = "listener.name.ssl.ssl.keystore.password"
    assert alter(peer, (name, "secret")) == OK
    assert describe(peer, "1", name) == {
        name: (None, DYNAMIC_BROKER, [(name, None, DYNAMIC_BROKER)])
    }


def test_a_setting_without_effect_here_is_named_in_the_log(server, peer):
    limit = ("listener.name.plaintext.max.connections", "9")
    threads = ("num.network.threads", "4"), ("num.io.threads", "9")
    alter(peer, *threads, ("log.segment.bytes", "1000"), limit)
    names = "'num.io.threads', 'num.network.threads'"
    assert server.log_lines == [f"dynamic settings without effect here: {names}"]


def test_settings_that_are_not_dynamic_are_refused_before_those_of_security(peer):
    """Source: ``validateConfigs`` of DynamicBrokerConfig."""
    names = "num.partitions", "ssl.keystore.type"
    entries = [{"name": name, "value": "2", "configOperation": 0} for name in names]
    resource = {"resourceType": 4, "resourceName": "1", "configs": entries}
    (found,) = ask(peer, "IncrementalAlterConfigs", 1, {"resources": [resource]})["responses"]
    assert (found["errorCode"], found["errorMessage"]) == (
        INVALID_REQUEST, "Cannot update these configs dynamically: Set(num.partitions)",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("resource", "change", "error"),
    [
        ("1", ("num.partitions", "2"),
         (INVALID_REQUEST, "Cannot update these configs dynamically: Set(num.partitions)")),
        ("1", ("ssl.keystore.type", "PKCS12"),
         (INVALID_REQUEST, "These security configs can be dynamically updated only per-listener "
          "using the listener prefix: HashSet(ssl.keystore.type)")),
        ("", ("listener.name.ssl.ssl.keystore.type", "PKCS12"),
         (INVALID_REQUEST, "Cannot update these configs at default cluster level, broker id must "
          "be specified: Set(listener.name.ssl.ssl.keystore.type)")),
        ("", ("advertised.listeners", "a://b:1"),
         (INVALID_REQUEST, "Cannot update these configs at default cluster level, broker id must "
          "be specified: Set(advertised.listeners)")),
        ("1", ("max.connections", "many"),
         (INVALID_REQUEST, "Invalid value many for configuration max.connections: Not a number of "
          "type INT")),
        ("1", ("log.segment.bytes", "1"),
         (INVALID_REQUEST, "Invalid value 1 for configuration log.segment.bytes: Value must be at "
          "least 14")),
        ("1", ("num.io.threads", "17"),
         (INVALID_REQUEST, "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic "
          "thread count update validation failed for num.io.threads=17, value should not be "
          "greater than double the current value 8 for configuration Invalid dynamic "
          "configuration")),
        ("1", ("num.io.threads", "3"),
         (INVALID_REQUEST, "Invalid value org.apache.kafka.common.config.ConfigException: Dynamic "
          "thread count update validation failed for num.io.threads=3, value should be at least "
          "half the current value 8 for configuration Invalid dynamic configuration")),
        ("1", ("num.io.threads", "1", APPEND),
         (INVALID_CONFIG, "Config value append is not allowed for config key: num.io.threads")),
        ("1", ("num.io.threads", "1", 9), (INVALID_REQUEST, "Unknown operations type 9")),
        ("2", ("num.io.threads", "1"),
         (INVALID_REQUEST, "Unexpected broker id, expected 1, but received 2")),
        ("x", ("num.io.threads", "1"),
         (INVALID_REQUEST, "Node id must be an integer, but it is: x")),
    ],
)  # fmt: skip
def test_a_change_that_a_broker_refuses_has_kafka_s_message(peer, resource, change, error):
    assert alter(peer, change, name=resource) == error
    assert describe(peer, "") == {}


def test_a_number_of_threads_is_at_most_halved_or_doubled(peer):
    """It is 8 by default."""
    assert alter(peer, ("num.io.threads", "4")) == OK
    assert alter(peer, ("num.io.threads", "8")) == OK
    assert alter(peer, ("num.io.threads", "16")) == OK


def test_the_limits_of_connections_change_while_the_server_runs(server, peer):
    alter(peer, ("max.connections", "5"), name="")
    alter(peer, ("max.connections", "3"))
    alter(peer, ("listener.name.plaintext.max.connections", "2"), name="")
    peers = Peers(server.dispatcher, heart=None)
    taken = [name for name in ["plaintext", "ssl"] * 3 if peers.accepts(object(), name, 1)]
    assert taken == ["plaintext", "ssl", "plaintext"]
    assert peers.accepts(object(), "plaintext", 1) is False


def test_the_settings_of_a_broker_are_in_the_order_of_their_names_and_those_of_its_release():
    for kafka, known in (("3.9", True), ("4.1", False)):
        body = {"resources": [{"resourceType": BROKER, "resourceName": "1"}]}
        found = ask(Server({}, kafka=kafka).connect(), "DescribeConfigs", 4, body)
        rows = {row["name"]: row for row in found["results"][0]["configs"]}
        assert list(rows) == sorted(rows)
        assert len(rows) == len(found["results"][0]["configs"])
        assert ("offsets.commit.required.acks" in rows) is known
        assert "group.consumer.regex.refresh.interval.ms" not in rows
        assert not rows["log.segment.bytes"]["readOnly"]  # it can be set dynamically
        assert rows["node.id"]["readOnly"]


def test_the_id_of_a_broker_is_a_static_value_and_its_default_is_none(peer):
    # KRaftConfigs: EMPTY_NODE_ID
    synonyms = [("node.id", "1", STATIC), ("node.id", "-1", DEFAULT)]
    assert describe(peer, "1", "node.id") == {"node.id": ("1", STATIC, synonyms)}


def test_synonyms_are_described_on_request_only(peer):
    rows = [{"resourceType": BROKER, "resourceName": "1",
             "configurationKeys": ["log.segment.bytes"]}]  # fmt: skip
    for requested in (True, False):
        body = {"resources": rows, "includeSynonyms": requested}
        (row,) = ask(peer, "DescribeConfigs", 4, body)["results"][0]["configs"]
        assert bool(row["synonyms"]) is requested
        assert (row["configSource"], row["value"]) == (DEFAULT, "1073741824")


def test_dynamic_defaults_are_described_in_the_order_of_their_names(peer):
    for name, value in (("num.io.threads", "9"), ("log.segment.bytes", "2000"),
                        ("background.threads", "11")):  # fmt: skip
        assert alter(peer, (name, value), name="") == OK
    assert list(describe(peer, "")) == ["background.threads", "log.segment.bytes", "num.io.threads"]
