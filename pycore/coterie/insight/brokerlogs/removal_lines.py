"""Read the lines of a broker's own logs that say why offsets or a group were removed.

The server log has the coordinator's clean-ups and deletions; 3.x and 4.x word them differently
(GroupCoordinator, GroupMetadataManager; GroupCoordinatorShard, OffsetMetadataManager). The request
log has DeleteGroups, OffsetDelete, DeleteTopics and CreateTopics with their client and principal.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from coterie.insight.brokerlogs.lines import REQUESTS, SERVER, BrokerLogLine
from coterie.wire.exchanges import Exchange

GROUP_DELETED, OFFSETS_DELETED = "group_deleted", "offsets_deleted"
TOPIC_DELETED, TOPIC_CREATED, EXPIRED = "topic_deleted", "topic_created", "expired"
REMOVALS = (GROUP_DELETED, OFFSETS_DELETED, TOPIC_DELETED, EXPIRED)
NEAR_MS = 2_000  # between a record's time and that of the line about it
DELETION_MS = 30_000  # until all brokers know that a topic was deleted
APIS = frozenset({"DELETE_GROUPS", "OFFSET_DELETE", "DELETE_TOPICS", "CREATE_TOPICS"})

_END = r"\.?(?: \(\S+\))?$"  # the class of the logger follows
_PATTERNS = tuple(
    (what, re.compile(pattern))
    for what, pattern in (
        (
            GROUP_DELETED,
            r"The following groups were deleted: (?P<groups>.+)\. A total of \d+ offsets were"
            r" removed" + _END,
        ),
        (
            OFFSETS_DELETED,
            r"The following offsets of the group (?P<group>.+?) were deleted: (?P<partitions>.+)\."
            r" A total of [1-9]\d* offsets were removed" + _END,
        ),
        (
            TOPIC_DELETED,
            r"Removed [1-9]\d* offsets associated with deleted partitions: (?P<partitions>.+?)"
            + _END,
        ),
        (
            TOPIC_DELETED,
            r"Generated [1-9]\d* tombstone records in (?P<took>\d+) milliseconds while deleting"
            r" offsets for partitions \[(?P<partitions>.*)\]" + _END,
        ),
        (TOPIC_CREATED, r"Created log for partition (?P<partitions>\S+-\d+) in "),
        (EXPIRED, r"Removed [1-9]\d* expired offsets in (?P<took>\d+) milliseconds" + _END),
        (
            EXPIRED,
            r"Generated [1-9]\d* tombstone records while cleaning up group metadata in"
            r" (?P<took>\d+) milliseconds" + _END,
        ),
        (
            EXPIRED,
            r"\[GroupId (?P<group>.+?)\] (?:Expiring offsets of partitions \(.*?\): (?P<partitions>"
            r".+?)|Expired offset for partition=(?P<one>.+?))" + _END,
        ),
    )
)
_SHARD = re.compile(r"topic=__consumer_offsets partition=(\d+)\]")


def server_lines(text: str, at_ms: int) -> Iterator[BrokerLogLine]:
    """Yield what a line of the server log, without its time, says about removals."""
    for what, pattern in _PATTERNS:
        match = pattern.search(text)
        if match is None:
            continue
        fields = match.groupdict()
        partitions = fields.get("partitions") or fields.get("one") or ""
        shard = _SHARD.search(text, 0, match.start())
        groups = fields["groups"].split(", ") if "groups" in fields else [fields.get("group", "")]
        began_ms = at_ms - int(fields.get("took") or 0)
        for group in groups:
            yield BrokerLogLine(
                group,
                what,
                began_ms,
                SERVER,
                None if group or shard is None else int(shard[1]),
                detail=match[0].rpartition(" (")[0] or match[0],
                topics=topics_of(partitions.split(", ")),
                until_ms=at_ms,
            )
        return


def topics_of(partitions: Iterable[str]) -> tuple[str, ...]:
    """Return the topics of partitions that are named as ``orders-0``."""
    return tuple(dict.fromkeys(name.strip().rpartition("-")[0] for name in partitions if name))


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
