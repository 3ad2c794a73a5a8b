"""SASL and TLS with Python's clients: valid credentials are accepted, all others refused."""

import pytest
import trustme

from coterie.server import Broker
from support.clients.python_clients import ECHOES, TOPIC, Security, confluent

SETTINGS = {"group.initial.rebalance.delay.ms": 0, "offsets.topic.num.partitions": 1}
USERS = {"alice": "alice-secret"}
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Paths of a server's and a client's certificates, their keys, and who signed both."""
    folder = tmp_path_factory.mktemp("certificates")
    authority = trustme.CA()
    authority.cert_pem.write_to_path(folder / "ca.pem")
    made = {
        "server": authority.issue_cert("127.0.0.1"),
        "client": authority.issue_cert("x", common_name="alice"),
    }
    for name, certificate in made.items():
        certificate.private_key_pem.write_to_path(folder / f"{name}-key.pem")
        for pem in certificate.cert_chain_pems:
            pem.write_to_path(folder / f"{name}.pem", append=True)
    return folder


def serve(protocol, files=None, *, client_certificates=False):
    tls = None
    if files is not None:
        ca = files / "ca.pem" if client_certificates else None
        tls = {"cert": files / "server.pem", "key": files / "server-key.pem", "client_ca": ca}
    users = USERS if protocol.startswith("sasl") else None
    listen = f"{protocol}://127.0.0.1:0"
    return Broker(SETTINGS, topics={TOPIC: 1}, listen=listen, sasl_users=users, tls=tls)


def comes_in(client, broker, security):
    """Let a client write and read; who it was for the broker."""
    assert ECHOES[client](broker.bootstrap_servers, security) == (b"key", b"value")
    (principal,) = {
        each["principal"] for each in broker.requests() if each["api"] in ("Produce", "Fetch")
    }
    return principal


@pytest.mark.parametrize("client", ECHOES)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_user_comes_in_with_a_password(client, mechanism):
    with serve("sasl_plaintext") as broker:
        assert comes_in(client, broker, Security("SASL_PLAINTEXT", mechanism)) == "User:alice"


@pytest.mark.parametrize("client", ECHOES)
def test_a_client_that_trusts_the_authority_comes_in(client, files):
    with serve("ssl", files) as broker:
        security = Security("SSL", files={"ca": files / "ca.pem"})
        assert comes_in(client, broker, security) == "User:ANONYMOUS"


@pytest.mark.parametrize("client", ECHOES)
def test_a_client_comes_in_with_its_certificate(client, files):
    own = {
        "ca": files / "ca.pem",
        "cert": files / "client.pem",
        "key": files / "client-key.pem",
    }
    with serve("ssl", files, client_certificates=True) as broker:
        principal = comes_in(client, broker, Security("SSL", files=own))
        assert principal.startswith("User:CN=alice,OU=")


@pytest.mark.parametrize("client", ECHOES)
def test_a_password_may_go_through_tls(client, files):
    with serve("sasl_ssl", files) as broker:
        security = Security("SASL_SSL", "SCRAM-SHA-512", files={"ca": files / "ca.pem"})
        assert comes_in(client, broker, security) == "User:alice"


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_wrong_password_is_told_as_such(mechanism):
    kafka = pytest.importorskip("confluent_kafka")
    errors = []
    with serve("sasl_plaintext") as broker:
        own = confluent(
            broker.bootstrap_servers, Security("SASL_PLAINTEXT", mechanism, password="wrong")
        )
        consumer = kafka.Consumer({**own, "group.id": "g", "error_cb": errors.append})
        while not errors:
            consumer.poll(0.05)
        consumer.close()
    assert errors[0].code() == kafka.KafkaError._AUTHENTICATION
