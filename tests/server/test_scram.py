"""SCRAM and PLAIN: the exchanges, beside clients that are not ours."""

import base64
import hashlib
import hmac

import pytest
import scramp
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.server.services.plain import Plain
from coterie.server.services.sasl_refusals import OTHER_ID, Refused
from coterie.server.services.scram import HASHES, Scram, derive
from coterie.server.services.users import users_of
from support.examples import examples
from support.server import playing

SALT = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
FIRST = b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
NONCE = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
FINAL = f"c=biws,r={NONCE},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
PRINTABLE = st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E), min_size=1)


def exchange(mechanism="SCRAM-SHA-256", user="user", password=b"pencil", salt=SALT):
    """The server's side, for one user, with the nonce of RFC 7677."""
    known = {user: derive(mechanism, password, salt, 4096)}
    return Scram(mechanism, known.get, "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")


def test_the_example_of_rfc_7677_comes_out():
    server = exchange()
    assert server.respond(FIRST) == f"r={NONCE},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode()
    assert server.username is None
    assert server.respond(FINAL) == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    assert server.username == "user"


@pytest.mark.parametrize("mechanism", HASHES)
@settings(max_examples=examples(20))  # each makes the keys twice, which is meant to take long
@given(user=PRINTABLE, password=PRINTABLE, salt=st.binary(min_size=12))
def test_a_client_of_another_library_gets_in_with_its_password(mechanism, user, password, salt):
    client = scramp.ScramClient([mechanism], user, password)
    server = exchange(mechanism, user, password.encode(), salt)
    client.set_server_first(server.respond(client.get_client_first().encode()).decode())
    client.set_server_final(server.respond(client.get_client_final().encode()).decode())
    assert server.username == user


@pytest.mark.parametrize("mechanism", HASHES)
def test_the_golden_player_computes_the_same(mechanism):
    server = exchange(mechanism)
    first = server.respond(FIRST).decode()
    bare = FIRST[3:].decode()
    final, verdict = playing.play().scram(mechanism, "pencil", bare, first)
    assert server.respond(final.encode()).decode() == verdict


@pytest.mark.parametrize("position", range(len(FINAL)))
def test_one_changed_byte_of_the_final_message_lets_nobody_in(position):
    server = exchange()
    server.respond(FIRST)
    changed = bytearray(FINAL)
    changed[position] ^= 1
    with pytest.raises(Refused):
        server.respond(bytes(changed))
    assert server.username is None


@pytest.mark.parametrize("nonce", [NONCE[:20], NONCE[20:], f"x{NONCE[1:]}"])
def test_a_proof_for_another_nonce_is_worth_nothing(nonce):
    server, other = exchange(), f"c=biws,r={nonce}"
    said = ",".join((FIRST[3:].decode(), server.respond(FIRST).decode(), other)).encode()
    key = hmac.digest(hashlib.pbkdf2_hmac("sha256", b"pencil", SALT, 4096), b"Client Key", "sha256")
    signature = hmac.digest(hashlib.sha256(key).digest(), said, "sha256")
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    with pytest.raises(Refused):
        server.respond(f"{other},p={base64.b64encode(proof).decode()}".encode())


@pytest.mark.parametrize("size", [1, 31, 33, 64])
def test_a_proof_of_another_length_is_refused(size):
    server, final = exchange(), FINAL.decode().partition(",p=")[0]
    server.respond(FIRST)
    with pytest.raises(Refused):
        server.respond(f"{final},p={base64.b64encode(bytes(size)).decode()}".encode())


@pytest.mark.parametrize("mechanism", HASHES)
def test_a_client_nonce_that_is_sent_twice_is_accepted_as_by_kafka_3_9(mechanism):
    """Librdkafka up to 2.6.0 puts its own nonce in front of the server's, which begins with it."""
    server = exchange(mechanism)
    first = server.respond(FIRST).decode()
    bare, own_nonce = FIRST[3:].decode(), FIRST.decode().partition("r=")[2]
    final = f"c=biws,r={own_nonce}{NONCE}"
    auth_message = f"{bare},{first},{final}".encode()
    name = HASHES[mechanism]
    salted = hashlib.pbkdf2_hmac(name, b"pencil", SALT, 4096)
    client_key = hmac.digest(salted, b"Client Key", name)
    signature = hmac.digest(hashlib.new(name, client_key).digest(), auth_message, name)
    proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
    answer = server.respond(f"{final},p={base64.b64encode(proof).decode()}".encode())
    verifier = hmac.digest(hmac.digest(salted, b"Server Key", name), auth_message, name)
    assert answer == b"v=" + base64.b64encode(verifier)
    assert server.username == "user"


@pytest.mark.parametrize(
    "first",
    [
        b"", b"garbage", b"y,,n=user,r=abc", b"p=tls-unique,,n=user,r=abc", b"n,,n=user",
        b"n,,r=abc", b"n,,n=user,r=", b"n,,n=,r=abc", b"n,,n=user,r=a b", b"n,,n=us=er,r=abc",
        b"n,,n=user,r=abc,", b"n,,n=user,r=abc,x", b"n,,n=user,r=abc,tokenauth=True",
        b"n,,n=other,r=abc", b"n,,n=us\xc3\xa9r,r=abc", b"n,,n=user,r=abc\xff",
        b"n,,n=user,r=abc\n",
    ],
)  # fmt: skip
def test_a_first_message_of_another_form_tells_nothing(first):
    with pytest.raises(Refused) as refused:
        exchange().respond(first)
    assert refused.value.message is None


def test_another_authorization_id_is_told():
    with pytest.raises(Refused) as refused:
        exchange().respond(b"n,a=bob,n=user,r=abc")
    assert refused.value.message == OTHER_ID
    assert exchange().respond(b"n,a=user,n=user,r=abc").startswith(b"r=abc%hv")


def test_names_with_commas_and_equals_signs_are_unescaped():
    server = exchange(user="a,b=c")
    first = server.respond(b"n,,n=a=2Cb=3Dc,r=abc").decode()
    final, _ = playing.play().scram("SCRAM-SHA-256", "pencil", "n=a=2Cb=3Dc,r=abc", first)
    server.respond(final.encode())
    assert server.username == "a,b=c"


USERS = users_of({"alice": "alice-secret", "żółw": "hasło"})


@pytest.mark.parametrize(
    ("token", "username"),
    [
        ("\0alice\0alice-secret", "alice"),
        ("alice\0alice\0alice-secret", "alice"),
        ("\0żółw\0hasło", "żółw"),
    ],
)
def test_plain_lets_in_who_knows_the_password(token, username):
    server = Plain(USERS)
    assert server.respond(token.encode()) == b""
    assert server.username == username


# The texts are those of PlainSaslServer.
@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("\0alice\0wrong", "Authentication failed: Invalid username or password"),
        ("\0alice\0alice-secre", "Authentication failed: Invalid username or password"),
        ("\0nobody\0alice-secret", "Authentication failed: Invalid username or password"),
        ("\0\0alice-secret", "Authentication failed: username not specified"),
        ("\0alice\0", "Authentication failed: password not specified"),
        ("bob\0alice\0alice-secret", OTHER_ID),
        ("alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 1"),
        ("\0alice", "Invalid SASL/PLAIN response: expected 3 tokens, got 2"),
        ("\0alice\0alice-secret\0", "Invalid SASL/PLAIN response: expected 3 tokens, got 4"),
    ],
)
def test_plain_says_why_not(token, message):
    with pytest.raises(Refused) as refused:
        Plain(USERS).respond(token.encode())
    assert refused.value.message == message


@pytest.mark.parametrize("server", [exchange, lambda: Plain(USERS)], ids=["SCRAM", "PLAIN"])
@given(token=st.binary(max_size=60))
def test_other_bytes_are_refused(server, token):
    with pytest.raises(Refused):
        server().respond(token)
