"""What a broker's own logs say about why offsets or a group were removed.

The server log has the coordinator's clean-ups and deletions (``phrases``). The request log has
DeleteGroups, OffsetDelete, DeleteTopics and CreateTopics with their client and principal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from coterie.insight.questions.server_log_lines import REQUESTS, BrokerLogLine
from coterie.insight.questions.server_log_phrases import (
    EXPIRED,
    GROUP_DELETED,
    OFFSETS_DELETED,
    TOPIC_CREATED,
    TOPIC_DELETED,
)
from coterie.wire.exchanges import Exchange

__all__ = [
    "EXPIRED",
    "GROUP_DELETED",
    "OFFSETS_DELETED",
    "TOPIC_CREATED",
    "TOPIC_DELETED",
    "RemovalLines",
    "request_lines",
]

REMOVALS = (GROUP_DELETED, OFFSETS_DELETED, TOPIC_DELETED, EXPIRED)
NEAR_MS = 2_000  # between a record's time and that of the line about it
DELETION_MS = 30_000  # until all brokers know that a topic was deleted
APIS = frozenset({"DELETE_GROUPS", "OFFSET_DELETE", "DELETE_TOPICS", "CREATE_TOPICS"})


def request_lines(exchange: Exchange) -> Iterator[BrokerLogLine]:
    """Yield what a request says about removals: one of ``APIS`` that was answered without error."""
    request, response = exchange.request, exchange.response
    if not response:
        return
    came_ms, sent_ms = int(exchange.came_ms), int(exchange.sent_ms)

    def line(group: str, what: str, topics: tuple[str, ...] = ()) -> BrokerLogLine:
        return BrokerLogLine(
            group,
            what,
            came_ms,
            REQUESTS,
            client_id=exchange.client_id,
            client_host=exchange.client_host,
            detail=exchange.principal,
            topics=topics,
            until_ms=sent_ms,
        )

    if exchange.api == "DELETE_GROUPS":
        for result in response["results"]:
            if not result["errorCode"]:
                yield line(result["groupId"], GROUP_DELETED)
    elif exchange.api == "OFFSET_DELETE":
        topics = tuple(
            topic["name"]
            for topic in response["topics"]
            if not all(partition["errorCode"] for partition in topic["partitions"])
        )
        if topics and not response["errorCode"]:
            yield line(request["groupId"], OFFSETS_DELETED, topics)
    else:
        what = TOPIC_DELETED if exchange.api == "DELETE_TOPICS" else TOPIC_CREATED
        results = response["responses" if what == TOPIC_DELETED else "topics"]
        for result in results:
            if not result["errorCode"] and result["name"]:
                yield line("", what, (result["name"],))


class RemovalLines:
    """The lines about removals from a partition of the offsets topic."""

    def __init__(self, lines: Iterable[BrokerLogLine], partition: int | None) -> None:
        self.by_group: dict[str, list[BrokerLogLine]] = {}
        for line in lines:
            if line.what in (*REMOVALS, TOPIC_CREATED) and line.generation in (None, partition):
                self.by_group.setdefault(line.group, []).append(line)

    def about(
        self, group: str, topics: Iterable[str], from_ms: int, until_ms: int
    ) -> list[BrokerLogLine]:
        """Return the lines that explain a removal, the most exact one first.

        Parameters
        ----------
        group, topics
            The group, and the topics whose offsets were removed.
        from_ms, until_ms
            The times of the first and the last tombstone.
        """
        names = set(topics)
        lines = [*self.by_group.get(group, ()), *(self.by_group.get("", ()) if group else ())]
        matching = [
            line
            for line in lines
            if line.what in REMOVALS
            and (not line.topics or names & set(line.topics))
            and (names or line.what in (GROUP_DELETED, EXPIRED))
            and line.at_ms - NEAR_MS <= until_ms
            and from_ms <= (line.until_ms or line.at_ms) + _late_ms(line)
        ]
        return sorted(
            matching,
            key=lambda line: (
                not (line.group or line.topics),
                REMOVALS.index(line.what),
                line.source != REQUESTS,
                abs(line.at_ms - from_ms),
            ),
        )

    def creation(self, topic: str, from_ms: int, until_ms: int | None) -> BrokerLogLine | None:
        """Return the first creation of a topic between two times; None: no log has it.

        The request log comes first, since it names the client. ``until_ms`` None: no end.
        """
        created = [
            line
            for line in self.by_group.get("", ())
            if line.what == TOPIC_CREATED
            and topic in line.topics
            and from_ms - NEAR_MS <= line.at_ms
            and (until_ms is None or line.at_ms <= until_ms + NEAR_MS)
        ]
        return min(created, key=lambda line: (line.source != REQUESTS, line.at_ms), default=None)


def _late_ms(line: BrokerLogLine) -> int:
    """Return how long after a line's end its tombstones may have been written."""
    return DELETION_MS if (line.what, line.source) == (TOPIC_DELETED, REQUESTS) else NEAR_MS
