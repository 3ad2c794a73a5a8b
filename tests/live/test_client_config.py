"""Client properties: what a file has, Kafka's defaults, and values that are refused at once."""

import pytest

from coterie import ConfigError
from coterie.cli.clusters import cluster_of
from coterie.live.client_config import ClientConfig, read_client_config

LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def test_a_file_has_known_properties_and_others_and_the_rest_are_kafkas_defaults(tmp_path):
    file = tmp_path / "client.properties"
    file.write_text("request.timeout.ms = 7\nacks=all\n# security.protocol=SSL\n")
    config = read_client_config(file)
    assert config.whole("request.timeout.ms") == 7
    assert config.unused == ("acks",)
    # AdminClientConfig and CommonClientConfigs
    assert config.text("security.protocol") == "PLAINTEXT"
    assert config.whole("default.api.timeout.ms") == 60_000
    assert config.whole("retry.backoff.ms") == 100
    assert config.whole("retry.backoff.max.ms") == 1_000
    assert ClientConfig().whole("request.timeout.ms") == 30_000


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("request.timeout.ms=2147483648", "request.timeout.ms must be a number from 0 to 21474836"),
        ("retry.backoff.ms=-1", "retry.backoff.ms must be a number"),
        ("retry.backoff.ms=", "retry.backoff.ms must be a number"),
        ("retry.backoff.ms=1.5", "retry.backoff.ms must be a number"),
        ("security.protocol=TLS", "security.protocol must be one of"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=NONE", "sasl.mechanism must be one of"),
        ("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.jaas.config=x", "MODULE required"),
    ],
)
def test_a_wrong_value_is_named_with_its_file_when_it_is_read(tmp_path, line, says):
    file = tmp_path / "client.properties"
    file.write_text(f"{line}\n")
    with pytest.raises(ConfigError, match=says) as raised:
        read_client_config(file)
    assert str(file) in str(raised.value)


def test_the_largest_number_is_that_of_an_int():
    assert (
        ClientConfig({"request.timeout.ms": "2147483647"}).whole("request.timeout.ms") == 2**31 - 1
    )
    assert ClientConfig({"request.timeout.ms": " 0 "}).whole("request.timeout.ms") == 0


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f"{LOGIN} required;", {}),
        (f'{LOGIN} required username="a" password="b;c";', {"username": "a", "password": "b;c"}),
        (f"{LOGIN} REQUIRED username='a \"b\"';", {"username": 'a "b"'}),
        (f'{LOGIN} optional password="a\\"b\\\\";', {"password": 'a"b\\'}),
        (f"{LOGIN} sufficient  user-name = a ", {"user-name": "a"}),
        (f'{LOGIN} requisite password="";', {"password": ""}),
    ],
)
def test_a_login_has_a_module_and_options_in_quotes_or_without(text, options):
    jaas = ClientConfig({"sasl.jaas.config": text}).jaas
    assert (jaas.module, dict(jaas.options)) == (LOGIN, options)


def test_an_error_of_a_login_shows_no_password():
    config = ClientConfig({"sasl.jaas.config": f'{LOGIN} required username="a" "secret";'})
    with pytest.raises(ConfigError, match="cannot be read after option 1") as raised:
        _ = config.jaas
    assert "secret" not in str(raised.value)
    assert ClientConfig().jaas.module == ""


@pytest.mark.parametrize(("again", "notes"), [({}, 1), ({"again": False}, 1), ({"again": True}, 0)])
def test_properties_without_an_effect_are_named_at_the_first_connection(
    tmp_path, capfd, again, notes
):
    pytest.importorskip("aiokafka")
    file = tmp_path / "client.properties"
    file.write_text("linger.ms=5\nacks=all\n")
    cluster_of("broker:9092", str(file), **again)
    assert capfd.readouterr().err == f"coterie: {file}: no effect here: acks, linger.ms\n" * notes
