"""What a connection of a listener with SASL may do, before, while and after it authenticates.

Asked for each frame; it never sees a socket. The states are those of SaslServerAuthenticator. An
answer that refuses, and a close in its place, come after ``connection.failed.authentication.delay
.ms`` where ``delayed`` says so: who guesses passwords waits, and so does who speaks out of turn.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import NamedTuple, Protocol

from coterie.server.config import Settings
from coterie.server.ids import Ids
from coterie.server.services.sasl.plain import Plain
from coterie.server.services.sasl.refusals import Refused
from coterie.server.services.sasl.scram import HASHES, Scram
from coterie.server.services.sasl.users import Users
from coterie.values import Error

__all__ = [
    "MECHANISMS",
    "SASL_AUTHENTICATE",
    "Authenticated",
    "Authentication",
    "Mechanisms",
    "Refused",
]

MECHANISMS = ("PLAIN", *HASHES)
SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36
MAX_FRAME_BYTES = 524288  # sasl.server.max.receive.size
LIFETIME = "connections.max.reauth.ms"
MIN_BETWEEN_MS = 1000  # KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS


class State(Enum):
    """Where an authentication stands."""

    FIRST = auto()  # ApiVersions or SaslHandshake
    HANDSHAKE = auto()  # after a good ApiVersions
    TOKENS = auto()
    COMPLETE = auto()
    OTHER_MECHANISM = auto()  # re-authentication with another one was asked for
    FAILED = auto()


class Authenticated(NamedTuple):
    """Answer to one token; ``error`` NONE: go on, or done where ``lifetime_ms`` may be above 0."""

    error: Error
    message: str
    token: bytes
    lifetime_ms: int


class Exchange(Protocol):
    """One exchange of a mechanism."""

    username: str | None

    def respond(self, token: bytes) -> bytes:
        """Answer a token, or raise Refused."""


class Mechanisms:
    """What all connections of a listener share.

    Parameters
    ----------
    users
        Who may come in.
    config
        The server's settings; ``connections.max.reauth.ms`` may have prefixes.
    listener
        The listener's name, which is its protocol.
    ids
        Draws the server's part of each nonce.
    now_ms
        The time in ms, of any beginning. Lifetimes are the wall clock's, as the client counts.
    """

    def __init__(
        self,
        users: Users,
        config: Settings,
        listener: str,
        *,
        ids: Ids,
        now_ms: Callable[[], int],
    ) -> None:
        self._users, self._ids, self.now_ms = users, ids, now_ms
        own = config.get(f"listener.name.{listener}.{LIFETIME}", config[LIFETIME])
        self.lifetimes_ms: dict[str, int] = {
            name: config.get(f"listener.name.{listener}.{name.lower()}.{LIFETIME}", own)
            for name in MECHANISMS
        }

    def exchange(self, mechanism: str) -> Exchange:
        """Begin an exchange."""
        if mechanism == "PLAIN":
            return Plain(self._users)
        credential_of = partial(self._users.credential, mechanism, self._salt)
        return Scram(mechanism, credential_of, self._ids.uuid())

    def _salt(self) -> bytes:
        return self._ids.uuid().encode("ascii")

    def authentication(self) -> Authentication:
        """Return the state of a new connection."""
        return Authentication(self)


class Authentication:
    """The authentication of one connection.

    Attributes
    ----------
    principal : str or None
        ``User:NAME`` once it is authenticated.
    delayed : bool
        Whether what ended it (:attr:`failed`) is told, or the connection closed, after the delay.
    """

    def __init__(self, mechanisms: Mechanisms) -> None:
        self._mechanisms = mechanisms
        self._state = State.FIRST
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._headers = False
        self._expires_ms: int | None = None
        self._began_again_ms: int | None = None
        self.principal: str | None = None
        self.delayed = False

    @property
    def failed(self) -> bool:
        """Whether it ended badly: nothing more is read."""
        return self._state is State.FAILED

    @property
    def tokens(self) -> bool:
        """Whether tokens are exchanged: any other request is out of turn."""
        return self._state is State.TOKENS

    @property
    def bare(self) -> bool:
        """Whether the next frame is a token without a request's header (SaslHandshake 0)."""
        return self.tokens and not self._headers

    @property
    def max_frame_bytes(self) -> int | None:
        """The longest frame that is read now; None: the server's own limit."""
        return None if self._state is State.COMPLETE else MAX_FRAME_BYTES

    def admits(self, api_key: int) -> bool:
        """Whether a request is read on after its header; False: close, without an answer."""
        state = self._state
        if state is State.COMPLETE:
            return self._admits_again(api_key)
        if state is State.TOKENS:
            return True  # what is out of turn is answered
        if api_key == SASL_HANDSHAKE and state in (State.FIRST, State.HANDSHAKE):
            return True
        if api_key == API_VERSIONS and state is State.FIRST:
            return True
        # A second ApiVersions is the one thing that Kafka closes at once.
        self._fail(delayed=api_key != API_VERSIONS or state is not State.HANDSHAKE)
        return False

    def _admits_again(self, api_key: int) -> bool:
        now_ms, expires_ms = self._mechanisms.now_ms(), self._expires_ms
        if expires_ms is None:
            return True
        began_ms = self._began_again_ms
        if api_key == SASL_HANDSHAKE and (began_ms is None or now_ms - began_ms >= MIN_BETWEEN_MS):
            self._began_again_ms = now_ms
            self._state, self._headers = State.HANDSHAKE, False
            return True
        if now_ms > expires_ms:
            self._fail(delayed=False)
            return False
        return True

    def misplaced(self, api_key: int) -> bool:
        """Whether a request that was read came between tokens: 34 in its own form, the end."""
        if not self.tokens or api_key == SASL_AUTHENTICATE:
            return False
        self._fail(delayed=True)
        return True

    def versions_told(self) -> None:
        """ApiVersions was answered without an error; before the handshake that may be once."""
        if self._state is State.FIRST:
            self._state = State.HANDSHAKE

    def handshake(self, mechanism: str, version: int) -> Error:
        """Handle SaslHandshake; after ``UNSUPPORTED_SASL_MECHANISM`` the connection closes."""
        if self._state not in (State.FIRST, State.HANDSHAKE):
            return Error.ILLEGAL_SASL_STATE
        self._headers = self._headers or version >= 1
        if mechanism not in MECHANISMS:
            self._fail(delayed=True)
            return Error.UNSUPPORTED_SASL_MECHANISM
        if self.principal is not None and mechanism != self._mechanism:
            self._state = State.OTHER_MECHANISM
            return Error.NONE
        self._mechanism = mechanism
        self._exchange = self._mechanisms.exchange(mechanism)
        self._state = State.TOKENS
        return Error.NONE

    def token(self, token: bytes) -> bytes | Refused:
        """Answer a bare token; Refused: the connection closes, without an answer."""
        try:
            return self._respond(token)
        except Refused as refused:
            self._fail(delayed=refused.delayed)
            return refused

    def authenticate(self, token: bytes) -> Authenticated:
        """Handle SaslAuthenticate; after an error of ``failed`` the connection closes."""
        again = self.principal is not None
        try:
            answer = self._respond(token)
        except Refused as refused:
            self._fail(delayed=True)
            message = refused.message or (
                f"Authentication failed during {'re-' * again}authentication due to invalid "
                f"credentials with SASL mechanism {self._mechanism}"
            )
            return Authenticated(Error.SASL_AUTHENTICATION_FAILED, message, b"", 0)
        return Authenticated(Error.NONE, "", answer, self._told_lifetime_ms())

    def _told_lifetime_ms(self) -> int:
        done = self._state is State.COMPLETE
        return self._mechanisms.lifetimes_ms[self._mechanism] if done else 0

    def _respond(self, token: bytes) -> bytes:
        exchange = self._exchange
        if exchange is None:
            raise Refused
        answer = exchange.respond(token)
        if exchange.username is not None:
            self._complete(f"User:{exchange.username}")
        return answer

    def _complete(self, principal: str) -> None:
        if self.principal not in (None, principal):
            before, now = (of.replace(":", ".", 1) for of in (self.principal or "", principal))
            raise Refused(f"Cannot change principals during re-authentication from {before}: {now}")
        lifetime = self._mechanisms.lifetimes_ms[self._mechanism]
        self._expires_ms = self._mechanisms.now_ms() + lifetime if lifetime else None
        self.principal, self._exchange, self._state = principal, None, State.COMPLETE

    def refuse(self) -> None:
        """End it as a wrong token does, unless it is complete."""
        if self._state is not State.COMPLETE:
            self._fail(delayed=True)

    def _fail(self, *, delayed: bool) -> None:
        self._state, self._exchange, self.delayed = State.FAILED, None, delayed
