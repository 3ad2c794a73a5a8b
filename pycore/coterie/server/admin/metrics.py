"""``--metrics``: what Prometheus is told of a server, under the names of kafka_exporter and others.

Groups have the names of ``coterie metrics``, which are explained there; topics those that
kafka_exporter gives them. Only what is there now is told, and how many requests came: a scrape
costs time in the number of groups, offsets and partitions, and between scrapes a request one
addition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from coterie.prometheus import label_text, text_lines
from coterie.server.admin.http import Answer, Refusal, Request
from coterie.server.api.call import Call
from coterie.server.api.table import SERVED
from coterie.server.cluster import Cluster
from coterie.server.running import Running
from coterie.server.services.txn.coordinator import TransactionCoordinator

__all__ = ["Metrics"]

Row = dict[str, Any]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_UNKNOWN = dict.fromkeys(("commits", "rebalances", "empty_members", "commit_timestamp"))


class Metrics:
    """Counts requests, and tells what is so. Every request is seen first by it."""

    def __init__(self, running: Running) -> None:
        self._running = running
        self._counts: Counter[int] = Counter()
        self._next = running.dispatcher.observer
        running.dispatcher.observer = self._count

    def _count(self, call: Call, handler: Callable[[Call], None]) -> bool:
        self._counts[call.api_key] += 1
        return self._next is None or self._next(call, handler)

    async def respond(self, request: Request) -> Answer:
        """Answer GET /metrics."""
        if request.method != "GET" or request.path.partition("?")[0] != "/metrics":
            raise Refusal(404, "there is GET /metrics")
        return Answer(200, self.text().encode(), CONTENT_TYPE)

    def text(self) -> str:
        """Return all of it."""
        cluster = self._running.cluster
        return "".join(
            [*text_lines(list(group_rows(cluster))), *_topics(cluster), *self._server(cluster)]
        )

    def _server(self, cluster: Cluster) -> Iterator[str]:
        asked: Mapping[str, int] = {
            SERVED[key].name: count for key, count in sorted(self._counts.items())
        }
        yield from _family(
            *("coterie_requests_total", "counter", "Requests that were handled, by API"),
            [({"api": api}, count) for api, count in asked.items()],
        )
        connections = self._running.connections
        help_text = "Connections that are open now"
        yield from _family("coterie_connections", "gauge", help_text, [({}, connections)])
        found: TransactionCoordinator | None = cluster.__dict__.get("transactions")
        states = Counter(each.state.title for each in found or ())
        yield from _family(
            *("coterie_transactional_ids", "gauge", "Transactional ids, by state"),
            [({"state": state}, count) for state, count in sorted(states.items())],
        )


def group_rows(cluster: Cluster) -> Iterator[Row]:
    """Yield the rows of each group as ``coterie metrics`` has them; null what only a log tells."""
    core = cluster.groups.core
    groups: list[Any] = core.all_groups()
    for group in sorted(groups, key=lambda each: each.group_id):
        yield _UNKNOWN | {
            "group_id": group.group_id,
            "topic": None,
            "partition": None,
            "offset": None,
            "lag": None,
            "state": group.current_state,
            "protocol": group.protocol_name,
            "protocol_type": group.protocol_type,
            "members": group.size,
        }
        offsets = core.offsets_of(group.group_id)
        for (topic, partition), entry in sorted(offsets.items() if offsets else ()):
            log = cluster.topics.partition(topic, partition)
            yield _UNKNOWN | {
                "group_id": group.group_id,
                "topic": topic,
                "partition": partition,
                "offset": entry.offset,
                "lag": None if log is None else max(log.high_watermark - entry.offset, 0),
                "commit_timestamp": entry.commit_timestamp,
            }


def _topics(cluster: Cluster) -> Iterator[str]:
    topics = sorted(cluster.topics, key=lambda topic: str(topic.name))
    counts = [({"topic": topic.name}, len(topic.partitions)) for topic in topics]
    yield from _family("kafka_topic_partitions", "gauge", "Partitions of a topic", counts)
    for name, field, told in (
        ("kafka_topic_partition_current_offset", "high_watermark", "End offset of a partition"),
        ("kafka_topic_partition_oldest_offset", "log_start_offset", "First offset of a partition"),
    ):
        samples = [
            ({"topic": topic.name, "partition": number}, getattr(log, field))
            for topic in topics
            for number, log in enumerate(topic.partitions)
        ]
        yield from _family(name, "gauge", told, samples)


def _family(name: str, kind: str, told: str, samples: Iterable[tuple[Row, int]]) -> Iterator[str]:
    """Yield a family's lines; none where it has no sample."""
    head = f"# HELP {name} {told}\n# TYPE {name} {kind}\n"
    for labels, value in samples:
        shown = label_text(labels)
        yield f"{head}{name}{f'{{{shown}}}' if shown else ''} {value}\n"
        head = ""
