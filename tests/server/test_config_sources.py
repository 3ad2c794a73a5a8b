"""Where settings come from: properties files as Java reads them, variables as images read them."""

import pytest

from coterie.base.properties import MalformedProperties, read_properties
from coterie.errors import ConfigError
from coterie.server.config_sources import merged_settings


def values(text):
    return {name: value for name, (value, _) in read_properties(text.encode("latin-1")).items()}


@pytest.mark.parametrize(
    ("text", "expected"),
    [  # the examples of java.util.Properties.load, then its rules one by one
        ("Truth = Beauty\n", {"Truth": "Beauty"}),
        (" Truth:Beauty", {"Truth": "Beauty"}),
        ("Truth                    :Beauty", {"Truth": "Beauty"}),
        (
            "fruits                           apple, banana, pear, \\\n"
            "                                 cantaloupe, watermelon, \\\n"
            "                                 kiwi, mango",
            {"fruits": "apple, banana, pear, cantaloupe, watermelon, kiwi, mango"},
        ),
        ("cheeses\n", {"cheeses": ""}),
        (r"\:\=", {":=": ""}),
        ("a=1\r\nb=2\rc=3\n", {"a": "1", "b": "2", "c": "3"}),
        ("  # no\n\t! nor this\na=#b!c", {"a": "#b!c"}),
        ("# no \\\na=1", {"a": "1"}),
        ("a=b\\\\\nc=d", {"a": "b\\", "c": "d"}),
        ("a=b\\\n#c", {"a": "b#c"}),
        ("a=b\\", {"a": "b"}),
        # what java.util.Properties of JDK 17 makes of lines that begin with nothing
        ("\\\n!a\nb=c", {"b": "c"}),
        ("\\\n\nb=c", {"b": "c"}),
        ("\\\n", {"": ""}),
        ("a=b\\\n\n", {"a": "b"}),
        (r"a\ b\=c = d\:e", {"a b=c": "d:e"}),
        (r"a=\t\n\r\f\q\"", {"a": '\t\n\r\fq"'}),
        (r"a=\u00e9\u0041\ud83d\ude00", {"a": "éA😀"}),
        ("a=\xe9", {"a": "é"}),
        ("a==b", {"a": "=b"}),
        ("a = b ", {"a": "b "}),
        ("a=1\na=2", {"a": "2"}),
        ("=x", {"": "x"}),
    ],
)
def test_a_file_is_read_as_java_reads_it(text, expected):
    assert values(text) == expected


def test_lines_are_counted_from_1_as_they_stand_in_the_file():
    assert read_properties(b"#\n\na=b\\\nc\nd=e") == {"a": ("bc", 3), "d": ("e", 5)}


@pytest.mark.parametrize("value", [r"\u12", r"\u12g4", r"\u"])
def test_an_escape_without_four_digits_is_malformed_with_its_line(value):
    with pytest.raises(MalformedProperties, match=r"^line 2: "):
        values(f"a=1\nb={value}")


def test_set_overrides_the_environment_and_that_the_file(tmp_path):
    file = tmp_path / "server.properties"
    file.write_text("num.partitions=2\nmessage.max.bytes=3\nlog.cleanup.policy = compact,delete \n")
    environment = {"KAFKA_MESSAGE_MAX_BYTES": "4", "KAFKA_NODE_ID": "5", "HOME": "x"}
    assert merged_settings(str(file), environment, ["node.id=6"]) == {
        "num.partitions": 2,
        "message.max.bytes": 4,
        "log.cleanup.policy": "compact,delete",
        "node.id": 6,
    }


REAUTH = "listener.name.sasl_plaintext.scram-sha-512.connections.max.reauth.ms"


@pytest.mark.parametrize(
    ("variable", "name"),
    [
        ("KAFKA_AUTO_CREATE_TOPICS_ENABLE", "auto.create.topics.enable"),
        (  # docker/examples/README.md of Apache's image: __ is an underscore, ___ a dash
            "KAFKA_LISTENER_NAME_SASL__PLAINTEXT_SCRAM___SHA___512_CONNECTIONS_MAX_REAUTH_MS",
            REAUTH,
        ),
        (  # "Docker Configuration Parameters" of Confluent's: __ is a dash, ___ an underscore
            "KAFKA_LISTENER_NAME_SASL___PLAINTEXT_SCRAM__SHA__512_CONNECTIONS_MAX_REAUTH_MS",
            REAUTH,
        ),
    ],
)
def test_a_variable_names_the_setting_that_it_names_for_an_image(variable, name):
    assert merged_settings(None, {variable: "7"}, []) == {name: 7}


@pytest.mark.parametrize(
    ("variable", "name"),
    [  # libkafka.sh of Bitnami's image
        ("KAFKA_CFG_NUM_PARTITIONS", "num.partitions"),
        ("KAFKA_CFG_LISTENER_NAME_SASL_SSL_MAX_CONNECTIONS",
         "listener.name.sasl_ssl.max.connections"),
        ("KAFKA_CFG_LISTENER_NAME_SASL_PLAINTEXT_CONNECTIONS_MAX_REAUTH_MS",
         "listener.name.sasl_plaintext.connections.max.reauth.ms"),
    ],
)  # fmt: skip
def test_a_variable_of_bitnamis_image_names_the_setting_that_it_names_there(variable, name):
    own = {"KAFKA_KRAFT_CLUSTER_ID": "x", "KAFKA_CLIENT_USERS": "a", "KAFKA_CFG_BROKER_RACK": ""}
    assert merged_settings(None, {variable: "7", **own}, []) == {name: 7}


@pytest.mark.parametrize(
    "variable",
    [
        *("KAFKA_HEAP_OPTS", "KAFKA_OPTS", "KAFKA_LOG4J_LOGGERS", "KAFKA_LOG4J_ROOT_LOGLEVEL"),
        *("KAFKA_TOOLS_LOG4J_LOGLEVEL", "KAFKA_JMX_OPTS", "KAFKA_JMX_HOSTNAME", "KAFKA_VERSION"),
        *("KAFKA_PORT", "KAFKA_PORT_9092_TCP_ADDR", "KAFKA_SERVICE_HOST", "KAFKA_SERVICE_PORT"),
        *("CLUSTER_ID", "MY_KAFKA_NODE_ID"),
    ],
)
def test_variables_of_an_image_or_of_kubernetes_are_no_settings(variable):
    assert merged_settings(None, {variable: "tcp://10.0.0.1:9092"}, []) == {}


def test_without_listeners_those_that_are_advertised_listen_at_all_addresses_as_in_the_images():
    advertised = "PLAINTEXT://kafka:29092,PLAINTEXT_HOST://localhost:9092"
    settings = merged_settings(None, {"KAFKA_ADVERTISED_LISTENERS": advertised}, [])
    assert settings["listeners"] == "PLAINTEXT://0.0.0.0:29092,PLAINTEXT_HOST://0.0.0.0:9092"


@pytest.mark.parametrize(
    ("file", "environment", "assignments", "message"),
    [
        ("num.partitions=1\n\nnum.partitons=3", None, [], ":3: 'num.partitons' is no setting"),
        ("num.partitions=\\u1", None, [], "line 1"),
        (None, {"KAFKA_NUM_PARTITONS": "3"}, [], "variable KAFKA_NUM_PARTITONS: 'num.partitons'"),
        (None, None, ["num.partitons=3"], "--set: 'num.partitons' .* mean 'num.partitions'"),
        (None, None, ["num.partitions"], "KEY=VALUE"),
    ],
)
def test_what_is_wrong_is_said_with_its_place(tmp_path, file, environment, assignments, message):
    path = None
    if file is not None:
        path = tmp_path / "server.properties"
        path.write_text(file)
    with pytest.raises(ConfigError, match=message):
        merged_settings(path and str(path), environment, assignments)


def test_the_first_wrong_variable_by_its_name_is_named_and_the_last_one_counts():
    wrong = {"KAFKA_NO_B": "1", "KAFKA_NO_A": "1"}
    with pytest.raises(ConfigError, match="variable KAFKA_NO_A: "):
        merged_settings(None, wrong, [])
    twice = {"KAFKA_NODE_id": "5", "KAFKA_NODE_ID": "6"}  # of the same setting
    assert merged_settings(None, twice, []) == {"node.id": 5}
