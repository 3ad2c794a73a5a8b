"""What a consumer needs of its membership, whatever the protocol."""

from __future__ import annotations

from typing import Any, Protocol

from coterie.testing.client.errors import KafkaError
from coterie.values import Error

Identity = tuple[int, str, "str | None"]  # generation or epoch, member id, instance id
NOBODY: Identity = (-1, "", None)


class Membership(Protocol):
    """The membership of a consumer in its group: one of each protocol.

    The application calls :meth:`poll` often; heartbeats come from timers of the process, which
    never wait. Whatever a poll has to act on wakes a poll that waits.
    """

    def poll(self, deadline_ms: int) -> bool:
        """Do what is due: join, call the listener, commit; return whether positions may be used.

        It waits for the coordinator's look-up, at most until the deadline; a rebalance goes on in
        the next calls.
        """

    def poll_idly(self) -> bool:
        """Look at the topics when no poll is due; return whether poll has nothing else to do."""

    def next_poll_ms(self) -> int | None:
        """Return when poll has something to do; None: when it is woken."""

    def request_rejoin(self) -> None:
        """Join again in the next poll."""

    def unsubscribe(self) -> None:
        """Give up all partitions, with the listener, and leave the group."""

    def close(self, deadline_ms: int) -> None:
        """Do the same for good."""

    def group_identity(self) -> tuple[int, str]:
        """Return the generation (or epoch) and the member id, as of the last assignment."""

    def commit_identity(self) -> Identity:
        """Return who commits."""

    def commit_refused(self, error: Error, sent: Identity) -> KafkaError:
        """Act on an error of the membership that a commit got; return what it raises."""

    def fetch_identity(self) -> Any:
        """Return what a fetch of committed offsets belongs to; it is sent again when it changes."""

    def fetch_fields(self) -> dict[str, Any]:
        """Return the fields of OffsetFetch that name the member."""


def raise_failure(failure: Exception | None) -> None:
    """Raise what a rebalance listener has raised, as Kafka's client does."""
    if isinstance(failure, KafkaError):
        raise failure
    if failure is not None:
        raise KafkaError(f"the rebalance listener raised {failure!r:.200}") from failure
