"""Consumer groups: their members, counts and records, and the replay of these records.

A record changes a group in one place, in a load as after an append.
Source: ConsumerGroup.java, GroupMetadataManager.java (replay).
"""

from typing import Any, final

@final
class ReplayedGroup:
    """A consumer group that takes the records of a log, one by one.

    A member's row has the fields of a classic row too. Its assignments are pairs of a topic id of
    16 bytes and partitions; ``member_state`` is the record's number. Names, ids and partitions
    ascend.
    """

    def take(self, key: bytes, value: bytes | None) -> str | None:
        """Apply a record; return its member id or regular expression, None: it has neither.

        Parameters
        ----------
        key, value
            Of key versions 3 to 8 and 16, in log order; others are ignored. None: a tombstone.

        Raises
        ------
        CorruptData
            The record cannot be read, and changes nothing.
        """

    @property
    def state(self) -> str:
        """The state's name."""

    @property
    def group_epoch(self) -> int:
        """The epoch of the last epoch record, 0 before the first."""

    @property
    def metadata_hash(self) -> int:
        """The hash of the subscribed topics' metadata; 0: no such topic exists."""

    @property
    def target_assignment_epoch(self) -> int:
        """The epoch for which the target assignment was computed."""

    @property
    def assignor(self) -> str:
        """The assignor with the most votes; without votes the first of Kafka's default."""

    @property
    def votes(self) -> int:
        """The number of members that name an assignor."""

    @property
    def subscribed_topics(self) -> frozenset[str]:
        """The names of the topics that members name, and of their resolved expressions."""

    @property
    def regular_expressions(self) -> dict[str, list[str]]:
        """Resolved regular expression -> topic names."""

    def member(self, member_id: str) -> dict[str, Any] | None:
        """Return the row of a member, None: there is no such member."""

    def members(self) -> list[dict[str, Any]]:
        """Return the rows of all members, by member id."""
