"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802). Source: ScramSaslServer.

As in Kafka, there is no channel binding, user names are ASCII, and ``m=`` and extensions are
ignored. The exception is ``tokenauth``, which is refused: there are no delegation tokens. A refusal
does not tell the client the cause.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Callable
from typing import NamedTuple

from coterie.server.services.sasl_refusals import OTHER_ID, Refused

HASHES = {"SCRAM-SHA-512": "sha512", "SCRAM-SHA-256": "sha256"}
MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16384  # Kafka's bounds (ScramMechanism)

_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_PRINTABLE = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64 = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS = rf"(?:,[A-Za-z]+={_VALUE})*"
_FIRST = re.compile(
    rf"n,(?:a=(?P<authzid>{_NAME}))?,(?:m={_VALUE},)?"
    rf"(?P<bare>n=(?P<name>{_NAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))"
)
_BY_TOKEN = re.compile(r",tokenauth=(?i:true)(?:,|$)")
_FINAL = re.compile(
    rf"(?P<unproved>c=(?P<channel>{_BASE64}),r=(?P<nonce>{_PRINTABLE})){_EXTENSIONS}"
    rf",p=(?P<proof>{_BASE64})"
)


class Credential(NamedTuple):
    """The server's data of a password (RFC 5802, section 3)."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


def derive(mechanism: str, password: bytes, salt: bytes, iterations: int) -> Credential:
    """Derive a credential from a password; the cost grows with ``iterations``."""
    name = HASHES[mechanism]
    salted = hashlib.pbkdf2_hmac(name, password, salt, iterations)
    return derive_keys(mechanism, salted, salt, iterations)


def derive_keys(mechanism: str, salted: bytes, salt: bytes, iterations: int) -> Credential:
    """Derive a credential from a salted password (RFC 5802, section 3)."""
    name = HASHES[mechanism]
    client_key = hmac.digest(salted, b"Client Key", name)
    stored_key = hashlib.new(name, client_key).digest()
    return Credential(salt, iterations, stored_key, hmac.digest(salted, b"Server Key", name))


class Scram:
    """One exchange; after two calls of ``respond``, ``username`` is the authenticated user.

    ``credential_of`` returns a user's credential, or None for an unknown user.
    """

    def __init__(
        self,
        mechanism: str,
        credential_of: Callable[[str], Credential | None],
        server_nonce: str,
    ) -> None:
        self._hash = HASHES[mechanism]
        self._credential_of, self._server_nonce = credential_of, server_nonce
        self._credential: Credential | None = None
        self._name, self._nonce, self._first_messages = "", "", ""
        self.username: str | None = None
        self.claimed_username: str | None = None

    def respond(self, token: bytes) -> bytes:
        message = token.decode("utf-8", "replace")
        answer = self._first(message) if self._credential is None else self._final(message)
        return answer.encode("ascii")

    def _first(self, message: str) -> str:
        fields = _FIRST.fullmatch(message)
        if fields is None:
            raise Refused(reason="a malformed message, or a request for channel binding")
        self._name = fields["name"].replace("=2C", ",").replace("=3D", "=")
        self.claimed_username = self._name
        if _BY_TOKEN.search(fields["extensions"]):
            raise Refused(reason="delegation tokens are not supported")
        credential = self._credential_of(self._name)
        if credential is None:
            raise Refused(reason="no such user, or none with a SCRAM credential")
        if fields["authzid"] is not None and fields["authzid"] != self._name:
            raise Refused(OTHER_ID)
        self._credential = credential
        self._nonce = fields["nonce"] + self._server_nonce
        salt = base64.b64encode(credential.salt).decode("ascii")
        first = f"r={self._nonce},s={salt},i={credential.iterations}"
        self._first_messages = f"{fields['bare']},{first},"
        return first

    def _final(self, message: str) -> str:
        fields, credential = _FINAL.fullmatch(message), self._credential
        if fields is None or credential is None:
            raise Refused(reason="a malformed message")
        # The end of the nonce suffices, as in Kafka 3.9: librdkafka before 2.6.1 sends the client's
        # part twice. Kafka 4.1 compares the whole nonce.
        if not fields["nonce"].endswith(self._nonce):
            raise Refused(reason="the nonce of another exchange")
        auth_message = (self._first_messages + fields["unproved"]).encode("ascii")
        proof = base64.b64decode(fields["proof"])
        signature = hmac.digest(credential.stored_key, auth_message, self._hash)
        if len(proof) != len(signature):
            raise Refused(reason="a malformed message")
        client_key = bytes(a ^ b for a, b in zip(proof, signature, strict=True))
        stored_key = hashlib.new(self._hash, client_key).digest()
        if not hmac.compare_digest(stored_key, credential.stored_key):
            raise Refused(reason="wrong password")
        self.username = self._name
        verifier = hmac.digest(credential.server_key, auth_message, self._hash)
        return "v=" + base64.b64encode(verifier).decode("ascii")
