"""The authentication state of a connection to a SASL listener.

The connection consults it for each frame. ``FailedLogin`` is the log message of a failed login, for
every mechanism. The states are those of SaslServerAuthenticator. Where ``delayed`` is true, an
error response or a close follows only after ``connection.failed.authentication.delay.ms``, which
slows down password guessing.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum, auto
from functools import partial
from typing import NamedTuple, Protocol

from coterie.server.config import Settings
from coterie.server.ids import Ids
from coterie.server.rate_limited_log import quoted
from coterie.server.services.plain import Plain
from coterie.server.services.sasl_refusals import Refused
from coterie.server.services.scram import HASHES, Scram
from coterie.server.services.users import Users
from coterie.values import Error

MECHANISMS = ("PLAIN", *HASHES)
SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = 17, 18, 36
MAX_FRAME_BYTES = 524288  # sasl.server.max.receive.size
LIFETIME = "connections.max.reauth.ms"
MIN_BETWEEN_MS = 1000  # KafkaChannel.MIN_REAUTH_INTERVAL_ONE_SECOND_NANOS


class State(Enum):
    FIRST = auto()  # accepts ApiVersions or SaslHandshake
    HANDSHAKE = auto()  # after a successful ApiVersions
    TOKENS = auto()
    COMPLETE = auto()
    OTHER_MECHANISM = auto()  # a re-authentication named another mechanism
    FAILED = auto()


class Authenticated(NamedTuple):
    """The response to one token; ``lifetime_ms`` is the session lifetime once complete, else 0."""

    error: Error
    message: str
    token: bytes
    lifetime_ms: int


class FailedLogin(NamedTuple):
    """A failed authentication, for the log; the text has the peer's words escaped."""

    mechanism: str
    username: str | None
    reason: str

    @property
    def known_mechanism(self) -> str | None:
        """The mechanism, or None if it is not supported: one of few kinds of log lines."""
        return self.mechanism if self.mechanism in MECHANISMS else None

    def __str__(self) -> str:
        user = "" if self.username is None else f" for user {quoted(self.username)}"
        mechanism = self.known_mechanism or quoted(self.mechanism)
        return f"authentication failed{user} with {mechanism}: {self.reason}"


class Exchange(Protocol):
    """A running exchange of a mechanism.

    ``claimed_username`` is the user that the peer names, ``username`` the authenticated one.
    """

    claimed_username: str | None
    username: str | None

    def respond(self, token: bytes) -> bytes:
        """Return the next token of the server, or raise Refused."""


class Mechanisms:
    """The SASL mechanisms of a listener, shared by its connections.

    Parameters
    ----------
    users
        The users that may authenticate.
    config
        The server's settings; ``connections.max.reauth.ms`` may have prefixes.
    listener
        The listener's name, which is its protocol.
    ids
        The source of nonces and salts.
    now_ms
        The wall clock in ms, from any origin. Clients measure session lifetimes by it, too.
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
        if mechanism == "PLAIN":
            return Plain(self._users)
        credential_of = partial(self._users.credential, mechanism, self._salt)
        return Scram(mechanism, credential_of, self._ids.uuid())

    def _salt(self) -> bytes:
        return self._ids.uuid().encode("ascii")

    def authentication(self) -> Authentication:
        return Authentication(self)


class Authentication:
    """The authentication of one connection.

    Attributes
    ----------
    principal : str or None
        ``User:NAME`` once it is authenticated.
    failed_login : FailedLogin or None
        The failure of the last handshake or token.
    delayed : bool
        After a failure: whether the error response or the close follows only after the delay.
    """

    def __init__(self, mechanisms: Mechanisms) -> None:
        self._mechanisms = mechanisms
        self._state = State.FIRST
        self._mechanism = ""
        self._exchange: Exchange | None = None
        self._headers = False
        self._expires_ms: int | None = None
        self._reauthentication_began_ms: int | None = None
        self.principal: str | None = None
        self.failed_login: FailedLogin | None = None
        self.delayed = False

    @property
    def failed(self) -> bool:
        """Whether it failed; no more requests are read."""
        return self._state is State.FAILED

    @property
    def tokens(self) -> bool:
        """Whether an exchange is running; only tokens are allowed."""
        return self._state is State.TOKENS

    @property
    def bare(self) -> bool:
        """Whether the next frame is a token without a request header (SaslHandshake 0)."""
        return self.tokens and not self._headers

    @property
    def max_frame_bytes(self) -> int | None:
        """The current frame limit; None: ``socket.request.max.bytes``."""
        return None if self._state is State.COMPLETE else MAX_FRAME_BYTES

    def admits(self, api_key: int) -> bool:
        """Return whether a request may be parsed; if not, the connection closes silently."""
        state = self._state
        if state is State.COMPLETE:
            return self._admits_again(api_key)
        if state is State.TOKENS:
            return True  # other requests get an error response
        if api_key == SASL_HANDSHAKE and state in (State.FIRST, State.HANDSHAKE):
            return True
        if api_key == API_VERSIONS and state is State.FIRST:
            return True
        # Kafka closes without the delay only after a second ApiVersions.
        self._fail(delayed=api_key != API_VERSIONS or state is not State.HANDSHAKE)
        return False

    def _admits_again(self, api_key: int) -> bool:
        now_ms, expires_ms = self._mechanisms.now_ms(), self._expires_ms
        if expires_ms is None:
            return True
        began_ms = self._reauthentication_began_ms
        if api_key == SASL_HANDSHAKE and (began_ms is None or now_ms - began_ms >= MIN_BETWEEN_MS):
            self._reauthentication_began_ms = now_ms
            self._state = State.HANDSHAKE
            return True
        if now_ms > expires_ms:
            self._fail(delayed=False)
            return False
        return True

    def misplaced(self, api_key: int) -> bool:
        """Return whether a request came between tokens; if so, the authentication fails.

        The caller answers with ILLEGAL_SASL_STATE and closes.
        """
        if not self.tokens or api_key == SASL_AUTHENTICATE:
            return False
        self._fail(delayed=True)
        return True

    def api_versions_answered(self) -> None:
        """Record a successful ApiVersions; only one is allowed before the handshake."""
        if self._state is State.FIRST:
            self._state = State.HANDSHAKE

    def handshake(self, mechanism: str, version: int) -> Error:
        """Handle SaslHandshake; after UNSUPPORTED_SASL_MECHANISM the connection closes."""
        if self._state not in (State.FIRST, State.HANDSHAKE):
            return Error.ILLEGAL_SASL_STATE
        self._headers = version >= 1
        if mechanism not in MECHANISMS:
            self.failed_login = FailedLogin(mechanism, None, "the mechanism is not supported")
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
        """Answer a bare token; after Refused the connection closes without a response."""
        try:
            return self._respond(token)
        except Refused as refused:
            self._fail(delayed=refused.delayed)
            return refused

    def authenticate(self, token: bytes) -> Authenticated:
        """Handle SaslAuthenticate; after an error the connection closes."""
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
        return Authenticated(Error.NONE, "", answer, self._session_lifetime_ms())

    def _session_lifetime_ms(self) -> int:
        done = self._state is State.COMPLETE
        return self._mechanisms.lifetimes_ms[self._mechanism] if done else 0

    def _respond(self, token: bytes) -> bytes:
        exchange = self._exchange
        if exchange is None:
            raise Refused(reason="the mechanism changed during re-authentication")
        try:
            answer = exchange.respond(token)
            if exchange.username is not None:
                self._complete(f"User:{exchange.username}")
        except Refused as refused:
            username = exchange.claimed_username
            self.failed_login = FailedLogin(self._mechanism, username, refused.reason)
            raise
        return answer

    def _complete(self, principal: str) -> None:
        if self.principal not in (None, principal):
            before, now = (of.replace(":", ".", 1) for of in (self.principal or "", principal))
            raise Refused(f"Cannot change principals during re-authentication from {before}: {now}")
        lifetime = self._mechanisms.lifetimes_ms[self._mechanism]
        self._expires_ms = self._mechanisms.now_ms() + lifetime if lifetime else None
        self.principal, self._exchange, self._state = principal, None, State.COMPLETE

    def refuse(self) -> None:
        """Fail as after a wrong token, unless the authentication is complete."""
        if self._state is not State.COMPLETE:
            self._fail(delayed=True)

    def _fail(self, *, delayed: bool) -> None:
        self._state, self._exchange, self.delayed = State.FAILED, None, delayed
