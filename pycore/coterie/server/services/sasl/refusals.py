"""How an exchange ends badly, and what the client is told of it."""

from __future__ import annotations

__all__ = ["OTHER_ID", "Refused"]

OTHER_ID = (
    "Authentication failed: Client requested an authorization id that is different from username"
)


class Refused(Exception):
    """The client is not let in.

    Attributes
    ----------
    message : str or None
        What it is told; None: only that its credentials are invalid, as wherever more would say
        which users there are (SaslException, beside SaslAuthenticationException).
    """

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or "invalid credentials")
        self.message = message

    @property
    def delayed(self) -> bool:
        """Whether Kafka closes after its delay where it cannot tell this; else it does at once."""
        return self.message is not None
