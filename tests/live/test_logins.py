"""What the properties of TLS and SASL mean for a connection."""

import asyncio
import base64
import io
import ssl
import sys
from types import ModuleType, SimpleNamespace

import pytest

pytest.importorskip("aiokafka")

from coterie.errors import ConfigError
from coterie.live.client_config import ClientConfig
from coterie.live.cluster_errors import ClusterError
from coterie.live.security import sasl_arguments, tls_context


def config(protocol, **properties):
    values = {name.replace("_", "."): value for name, value in properties.items()}
    return ClientConfig({"security.protocol": protocol} | values)


def login(module, **options):
    texts = (f'{name}="{value}"' for name, value in options.items())
    return f"a.b.{module} required {' '.join(texts)};"


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_without_sasl_there_is_no_login(protocol):
    given = config(protocol, sasl_mechanism="PLAIN")
    assert sasl_arguments(given) == {}


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_password_is_given_with_its_user(protocol, mechanism):
    jaas = login("Login", username="me", password="secret")
    given = config(protocol, sasl_mechanism=mechanism, sasl_jaas_config=jaas)
    assert sasl_arguments(given) == {
        "sasl_mechanism": mechanism,
        "sasl_plain_username": "me",
        "sasl_plain_password": "secret",
    }
    for options in ({"username": "me"}, {"password": "secret"}):
        half = config(protocol, sasl_mechanism=mechanism, sasl_jaas_config=login("L", **options))
        (missing,) = {"username", "password"} - set(options)
        with pytest.raises(ConfigError, match=f'has no {missing}="..."; {mechanism} needs it'):
            sasl_arguments(half)


def test_kerberos_has_the_service_of_the_login_or_of_the_property(monkeypatch):
    given = {"sasl_mechanism": "GSSAPI", "sasl_kerberos_service_name": "broker"}
    monkeypatch.setitem(sys.modules, "gssapi", None)  # is not installed
    needs = "GSSAPI needs the package gssapi; pip install gssapi"
    with pytest.raises(ConfigError, match=f"sasl.mechanism {needs}$"):
        sasl_arguments(config("SASL_SSL", **given))
    unset = f"is not set; Kafka's default {needs}, or name the listener's mechanism$"
    with pytest.raises(ConfigError, match=unset):
        sasl_arguments(config("SASL_SSL"))
    monkeypatch.setitem(sys.modules, "gssapi", SimpleNamespace())
    for jaas, service in (("", "broker"), (login("Krb5", serviceName="other"), "other")):
        assert sasl_arguments(config("SASL_SSL", **given, sasl_jaas_config=jaas)) == {
            "sasl_mechanism": "GSSAPI",
            "sasl_kerberos_service_name": service,
        }


@pytest.mark.parametrize(
    ("environment", "region"),
    [
        ({"AWS_REGION": "here", "AWS_DEFAULT_REGION": "there"}, "here"),
        ({"AWS_DEFAULT_REGION": "there"}, "there"),
        ({}, None),
    ],
)
def test_a_token_for_aws_is_signed_for_the_region_of_the_environment(
    monkeypatch, environment, region
):
    def signed(region):
        return f"token of {region}", 900_000

    package = ModuleType("aws_msk_iam_sasl_signer")  # it does not import its module
    module = ModuleType(f"{package.__name__}.MSKAuthTokenProvider")
    package.__path__, module.generate_auth_token = [], signed
    for each in (package, module):
        monkeypatch.setitem(sys.modules, each.__name__, each)
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    arguments = sasl_arguments(config("SASL_SSL", sasl_mechanism="AWS_MSK_IAM"))
    assert arguments["sasl_mechanism"] == "OAUTHBEARER"
    token = arguments["sasl_oauth_token_provider"].token()
    if region is None:
        with pytest.raises(ClusterError, match="set AWS_REGION"):
            asyncio.run(token)
    else:
        assert asyncio.run(token) == f"token of {region}"


def test_a_token_of_an_endpoint_needs_its_address():
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.token\.endpoint\.url is missing"):
        sasl_arguments(config("SASL_SSL", sasl_mechanism="OAUTHBEARER"))


@pytest.mark.parametrize("protocol", ["SSL", "SASL_SSL"])
def test_tls_checks_the_name_of_the_broker_unless_the_property_is_empty(protocol):
    checked = tls_context(config(protocol))
    assert (checked.check_hostname, checked.verify_mode) == (True, ssl.CERT_REQUIRED)
    anyone = ClientConfig(
        {"security.protocol": protocol, "ssl.endpoint.identification.algorithm": " "}
    )
    unchecked = tls_context(anyone)
    assert (unchecked.check_hostname, unchecked.verify_mode) == (False, ssl.CERT_REQUIRED)


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_without_tls_there_is_no_context(protocol):
    assert tls_context(config(protocol)) is None


@pytest.mark.parametrize("store", ["truststore", "keystore"])
def test_a_store_that_cannot_be_read_or_is_no_pem_is_named(tmp_path, store):
    name, file = f"ssl.{store}.location", tmp_path / "store"
    given = ClientConfig({"security.protocol": "SSL", name: str(file)})
    with pytest.raises(ConfigError, match=f"{name} {file}: No such file"):
        tls_context(given)
    file.write_bytes(b"\xfe\xed\xfe\xed")
    with pytest.raises(ConfigError, match=f"{name} {file}: is not PEM; `keytool"):
        tls_context(given)
    file.write_text("-----BEGIN CERTIFICATE-----\nbm8=\n-----END CERTIFICATE-----\n")
    with pytest.raises(ConfigError, match=rf"ssl\.{store}\.\* has no certificate"):
        tls_context(given)


def token_of(url, jaas=""):
    properties = {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": jaas}
    properties |= {"sasl.oauthbearer.token.endpoint.url": url}
    given = ClientConfig({"security.protocol": "SASL_SSL"} | properties)
    return asyncio.run(sasl_arguments(given)["sasl_oauth_token_provider"].token())


def test_a_token_of_a_file_is_its_text(tmp_path):
    (tmp_path / "token").write_text("\n a.b.c \n")
    assert token_of(f"file://{tmp_path / 'token'}") == "a.b.c"
    with pytest.raises(ClusterError, match="gives no token"):
        token_of(f"file://{tmp_path / 'none'}")


@pytest.mark.parametrize(
    ("options", "body", "user"),
    [
        ({"clientId": "me", "clientSecret": "s"}, b"grant_type=client_credentials", b"me:s"),
        ({"scope": "a b"}, b"grant_type=client_credentials&scope=a+b", b":"),
    ],
)
def test_a_token_is_granted_for_the_credentials_of_the_client(monkeypatch, options, body, user):
    """RFC 6749, 4.4: the id and the secret as HTTP Basic, the grant's type and scope as a form."""
    asked = []

    def urlopen(request, timeout):
        asked.append((request.full_url, request.data, request.get_header("Authorization")))
        return io.BytesIO(b'{"access_token": "t", "expires_in": 3}')

    monkeypatch.setattr("urllib.request.urlopen", urlopen)
    assert token_of("https://host/token", login("OAuth", **options)) == "t"
    basic = f"Basic {base64.b64encode(user).decode()}"
    assert asked == [("https://host/token", body, basic)]


@pytest.mark.parametrize("answer", [b"", b"[]", b'{"token": "t"}', b"{"])
def test_an_endpoint_without_a_token_is_named(monkeypatch, answer):
    monkeypatch.setattr("urllib.request.urlopen", lambda request, timeout: io.BytesIO(answer))
    with pytest.raises(ClusterError, match="http://host/token: gives no token"):
        token_of("http://host/token")


def test_a_token_comes_by_http_or_from_a_file():
    says = r"endpoint\.url must be a URL of http, https or file, not 'ftp://h/t'"
    with pytest.raises(ConfigError, match=says):
        token_of("ftp://h/t")
