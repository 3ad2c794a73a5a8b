"""``--metrics``: the metrics of a server for Prometheus.

Group metrics have the names of ``coterie metrics``, topic metrics those of kafka_exporter. They
show the current state and the number of requests. The time of a scrape grows with the number of
groups, offsets and partitions; counting a request takes one addition.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from operator import itemgetter
from typing import Any

from coterie.base.prometheus import label_text, text_lines
from coterie.server.api.call import Call, Handler
from coterie.server.api.table import NAMES
from coterie.server.cluster import Cluster
from coterie.server.http_messages import Answer, HttpRequest, Refusal
from coterie.server.running import Running
from coterie.server.services.transaction_coordinator import TransactionCoordinator

Row = dict[str, Any]
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_UNKNOWN = dict.fromkeys(
    (
        *("commits", "rebalances", "empty_members", "commit_timestamp"),
        *("skipped", "stalled", "stalled_since", "open_transactions", "open_since"),
        *("unreconciled", "revoking_since", "revocation_timeouts"),
    )
)


class Metrics:
    def __init__(self, running: Running) -> None:
        self._running = running
        self._counts: Counter[int] = Counter()
        self._next = running.dispatcher.observer
        running.dispatcher.observer = self._count

    def _count(self, call: Call, handler: Handler) -> bool:
        self._counts[call.api_key] += 1
        return self._next is None or self._next(call, handler)

    async def respond(self, request: HttpRequest) -> Answer:
        if request.path.partition("?")[0] != "/metrics":
            raise Refusal(404, "there is /metrics")
        return Answer(200, self.text().encode(), CONTENT_TYPE)

    def text(self) -> str:
        cluster = self._running.cluster
        return "".join(
            [*text_lines(list(group_rows(cluster))), *_topics(cluster), *self._server(cluster)]
        )

    def _server(self, cluster: Cluster) -> Iterator[str]:
        counts_by_name: Mapping[str, int] = {
            NAMES[key]: count for key, count in sorted(self._counts.items())
        }
        yield from _family(
            *("coterie_requests_total", "counter", "Requests that were handled, by API"),
            [({"api": api}, count) for api, count in counts_by_name.items()],
        )
        connections = self._running.connections
        help_text = "Connections that are open now"
        yield from _family("coterie_connections", "gauge", help_text, [({}, connections)])
        unsent = self._running.dispatcher.unsent
        yield from _family(
            "coterie_unsent_bytes",
            "gauge",
            "Bytes of large responses that peers have not read, by what they are",
            [({"kind": "stored"}, unsent.stored), ({"kind": "copied"}, unsent.copied)],
        )
        coordinator: TransactionCoordinator | None = cluster.__dict__.get("transactions")
        states = Counter(transaction.state.title for transaction in coordinator or ())
        yield from _family(
            *("coterie_transactional_ids", "gauge", "Transactional ids, by state"),
            [({"state": state}, count) for state, count in sorted(states.items())],
        )


def group_rows(cluster: Cluster) -> Iterator[Row]:
    """Yield the rows of each group in the form of ``coterie metrics``.

    Values that only a log can show are None.
    """
    core = cluster.groups.core
    classic: list[Any] = core.all_groups()
    groups = [
        (group.group_id, group.current_state, group.protocol_name, group.protocol_type, group.size)
        for group in classic
    ] + [
        (group.group_id, group.state, group.assignor_name, "consumer", len(group.members))
        for group in cluster.groups.consumer_groups()
    ]
    for group_id, state, protocol, protocol_type, members in sorted(groups, key=itemgetter(0)):
        yield _UNKNOWN | {
            "group_id": group_id,
            "topic": None,
            "partition": None,
            "offset": None,
            "lag": None,
            "state": state,
            "protocol": protocol,
            "protocol_type": protocol_type,
            "members": members,
        }
        offsets = core.offsets_of(group_id)
        for (topic, partition), entry in sorted(offsets.items() if offsets else ()):
            log = cluster.topics.partition(topic, partition)
            yield _UNKNOWN | {
                "group_id": group_id,
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
    for name, field, help_text in (
        ("kafka_topic_partition_current_offset", "high_watermark", "End offset of a partition"),
        ("kafka_topic_partition_oldest_offset", "log_start_offset", "First offset of a partition"),
    ):
        samples = [
            ({"topic": topic.name, "partition": number}, getattr(log, field))
            for topic in topics
            for number, log in enumerate(topic.partitions)
        ]
        yield from _family(name, "gauge", help_text, samples)


def _family(
    name: str, kind: str, help_text: str, samples: Iterable[tuple[Row, int]]
) -> Iterator[str]:
    """Yield the lines of a metric family; none if it has no samples."""
    head = f"# HELP {name} {help_text}\n# TYPE {name} {kind}\n"
    for labels, value in samples:
        labels_text = label_text(labels)
        yield f"{head}{name}{f'{{{labels_text}}}' if labels_text else ''} {value}\n"
        head = ""
