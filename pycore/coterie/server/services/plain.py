"""PLAIN (RFC 4616): one message with the password. Source: PlainSaslServer."""

from __future__ import annotations

import hmac

from coterie.server.services.sasl_refusals import OTHER_ID, Refused
from coterie.server.services.users import Users


class Plain:
    """One exchange; after one call of ``respond``, ``username`` is the authenticated user."""

    def __init__(self, users: Users) -> None:
        self._users = users
        self.username: str | None = None
        self.claimed_username: str | None = None

    def respond(self, token: bytes) -> bytes:
        """Check the client's message; return the server's token, which is empty."""
        texts = token.decode("utf-8", "replace").split("\0", 3)
        if len(texts) != 3:
            raise Refused(f"Invalid SASL/PLAIN response: expected 3 tokens, got {len(texts)}")
        authorization_id, username, password = texts
        self.claimed_username = username
        if not username:
            raise Refused("Authentication failed: username not specified")
        if not password:
            raise Refused("Authentication failed: password not specified")
        # An unknown user takes as long as a wrong password.
        expected = self._users.password(username)
        offered = password.encode()
        if (
            not hmac.compare_digest(offered, offered if expected is None else expected)
            or expected is None
        ):
            reason = "wrong password" if expected else "no such user, or none with a password"
            raise Refused("Authentication failed: Invalid username or password", reason=reason)
        if authorization_id not in ("", username):
            raise Refused(OTHER_ID)
        self.username = username
        return b""
