from collections.abc import Collection, Iterable
from typing import final

from coterie.values import MemberSummary

_Protocols = Iterable[tuple[str, bytes]]

@final
class MemberMetadata:
    """A member of a group, with Kafka's fields (``MemberMetadata.scala``).

    ``protocols`` are (name, metadata) in order of preference. An argument of another type is an
    ArgumentError, here and in every method.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    protocol_type: str | None
    protocols: tuple[tuple[str, bytes], ...]
    rebalance_timeout_ms: int
    session_timeout_ms: int
    assignment: bytes
    is_new: bool
    def __init__(
        self,
        member_id: str,
        group_instance_id: str | None,
        client_id: str,
        client_host: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocol_type: str | None,
        protocols: _Protocols,
        assignment: bytes = b"",
    ) -> None: ...
    @property
    def is_static_member(self) -> bool:
        """Whether it has a group instance id."""
    @property
    def is_awaiting_join(self) -> bool:
        """Whether its JoinGroup waits for an answer."""
    @property
    def is_awaiting_sync(self) -> bool:
        """Whether its SyncGroup waits for an answer."""
    def matches(self, protocols: _Protocols) -> bool:
        """Whether these are the member's protocols: the same names and bytes in the same order."""
    def metadata(self, protocol: str) -> bytes:
        """Return its metadata for a protocol; CoterieError if it does not support the protocol."""
    def vote(self, candidates: Collection[str]) -> str:
        """Return the first of its names that is a candidate; CoterieError if none is."""
    def summary(self, protocol: str | None = None) -> MemberSummary:
        """Describe it; metadata and assignment only with a protocol."""
