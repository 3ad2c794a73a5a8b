"""The failure of an authentication, and the message for the client."""

from __future__ import annotations

ANONYMOUS = "User:ANONYMOUS"  # the principal of a peer that did not authenticate

OTHER_ID = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


class Refused(Exception):
    """The authentication failed.

    Attributes
    ----------
    message : str or None
        The message for the client; None: it only learns that its credentials are invalid, so that
        it cannot find out which users exist. Kafka throws SaslAuthenticationException with a
        message and SaslException without one.
    reason : str
        The cause for the server's log.
    """

    def __init__(self, message: str | None = None, *, reason: str = "") -> None:
        self.message = message
        self.reason = reason or message or "invalid credentials"
        super().__init__(self.reason)

    @property
    def delayed(self) -> bool:
        """Whether a connection that gets no error response closes after the delay, not at once."""
        return self.message is not None
