"""TLS: contexts from files, refusals in one line, and principals as Kafka names them."""

import ssl
from contextlib import suppress

import pytest
import trustme

from coterie.errors import ArgumentError
from coterie.server.net.tls import peer_principal, server_context


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Paths of a certificate, its key, and who signed it."""
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost", common_name="broker")
    paths = {name: folder / f"{name}.pem" for name in ("cert", "key", "ca")}
    certificate.private_key_pem.write_to_path(paths["key"])
    for pem in certificate.cert_chain_pems:
        pem.write_to_path(paths["cert"], append=True)
    authority.cert_pem.write_to_path(paths["ca"])
    return {**paths, "authority": authority}


def shake(server, client):
    """Let both sides talk over memory until they have shaken hands; the server's side."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        server.wrap_bio(to_server, to_client, server_side=True),
        client.wrap_bio(to_client, to_server, server_hostname="localhost"),
    ]
    for side in sides[::-1] * 4:
        with suppress(ssl.SSLWantReadError):
            side.do_handshake()
    return sides[0]


def trusting(files):
    client = ssl.create_default_context()
    files["authority"].configure_trust(client)
    return client


def test_a_client_that_trusts_the_authority_gets_in_unnamed(files):
    server = server_context(files["cert"], files["key"])
    response = shake(server, trusting(files))
    assert response.version() == "TLSv1.3"
    assert peer_principal(response) == "User:ANONYMOUS"


def test_a_client_with_a_certificate_is_who_it_says(files):
    server = server_context(files["cert"], files["key"], files["ca"])
    client = trusting(files)
    own = files["authority"].issue_cert("x", common_name="alice", organization_name="A, B")
    own.configure_cert(client)
    response = peer_principal(shake(server, client))
    # RFC 2253: the last name first, what separates names escaped
    assert response.startswith("User:CN=alice,OU=Testing cert #")
    assert response.endswith(r",O=A\, B")


def test_a_client_without_a_certificate_is_refused_where_one_is_asked_for(files):
    server = server_context(files["cert"], files["key"], files["ca"])
    with pytest.raises(ssl.SSLError, match="PEER_DID_NOT_RETURN_A_CERTIFICATE"):
        shake(server, trusting(files))


def test_a_client_of_another_authority_is_refused(files):
    server = server_context(files["cert"], files["key"], files["ca"])
    client = trusting(files)
    trustme.CA().issue_cert("x").configure_cert(client)
    with pytest.raises(ssl.SSLError, match="CERTIFICATE_VERIFY_FAILED"):
        shake(server, client)


def test_old_versions_of_tls_are_refused(files):
    assert server_context(files["cert"], files["key"]).minimum_version >= ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("which", "wrong", "what"),
    [
        ("cert", None, r"certificate \S+none\.pem: No such file or directory"),
        ("key", None, r"key \S+none\.pem: No such file or directory"),
        ("client_ca", None, r"client CA \S+none\.pem: No such file or directory"),
        ("cert", b"nothing", r"certificate \S+wrong\.pem with key"),
        ("key", b"nothing", r"certificate \S+cert\.pem with key \S+wrong\.pem"),
        ("client_ca", b"nothing", r"client CA \S+wrong\.pem: "),
    ],
)
def test_what_is_wrong_with_a_file_is_one_line(files, tmp_path, which, wrong, what):
    given = {"cert": files["cert"], "key": files["key"], "client_ca": files["ca"]}
    given[which] = tmp_path / ("none.pem" if wrong is None else "wrong.pem")
    if wrong is not None:
        given[which].write_bytes(wrong)
    with pytest.raises(ArgumentError, match=what) as refused:
        server_context(**given)
    assert "\n" not in str(refused.value)


def test_a_key_of_another_certificate_is_one_line(files, tmp_path):
    other = tmp_path / "other.pem"
    files["authority"].issue_cert("y").private_key_pem.write_to_path(other)
    with pytest.raises(ArgumentError, match="key values mismatch"):
        server_context(files["cert"], other)


class Subject:
    """A connection whose peer has a subject."""

    def __init__(self, *names):
        self.names = names

    def getpeercert(self):
        return {"subject": tuple((name,) for name in self.names)}


# What Java's X500Principal.getName() gives, by the rules of RFC 2253.
@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([("countryName", "DE"), ("commonName", "a")], "CN=a,C=DE"),
        ([("commonName", ' a+b"c ')], r"CN=\ a\+b\"c\ "),
        ([("commonName", "#a")], r"CN=\#a"),
        ([("commonName", "a b ")], r"CN=a b\ "),
        ([("commonName", " ")], r"CN=\ "),
        ([("emailAddress", "a@b")], "1.2.840.113549.1.9.1=#1603614062"),
        ([], "ANONYMOUS"),
    ],
)
def test_names_are_written_as_kafka_writes_them(names, expected):
    assert peer_principal(Subject(*names)) == f"User:{expected}"
