"""The topics and brokers of a cluster, as the requests of a broker's log show them.

Consumer groups are assigned by them. A topic that a log first shows as it is was there at the
start. If the log shows that it was absent or created, it begins there.
Without responses to Metadata, the requests of groups show the topics: their ids, and at least the
partitions that are assigned or committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from coterie.consumer_groups import encode_topic_id
from coterie.coordinator.consumer_requests import derived_topic_id
from coterie.values import Error
from coterie.wire.exchanges import Exchange, as_kafka_logs_it

Change = tuple[float, dict[str, Any]]
_TOPIC_APIS = frozenset(
    {"METADATA", "CREATE_TOPICS", "CREATE_PARTITIONS", "DELETE_TOPICS", "OFFSET_COMMIT"}
)
_INTERNAL = ("__consumer_offsets", "__transaction_state")
_BY_ID_SINCE = 10  # version of OffsetCommit and of OffsetFetch


class LoggedTopics:
    """What a log shows of the topics and brokers of its cluster.

    Attributes
    ----------
    names : dict
        The name of each topic id.
    header : dict
        ``brokers`` and ``topics`` of the start, as the header of a trace has them.
    changes : list
        (time, event ``metadata``) of each change, in order.
    absent_ms : dict
        When each topic was last shown to be absent: unknown, deleted or created.
    """

    def __init__(self, by_time: Iterable[Exchange]) -> None:
        by_time = list(by_time)
        self.names: dict[str, str] = {}
        self.changes: list[Change] = []
        self.absent_ms: dict[str, float] = {}
        self._brokers: dict[int, str | None] = {}
        self._start: dict[str, dict[str, Any]] = {}
        self._counts: dict[str, int] = {}  # of the topics that are there
        self._absent: set[str] = set()
        self._replicas: dict[tuple[str, int], list[list[int]]] = {}
        exchanges = [each for each in by_time if each.api in _TOPIC_APIS and each.response]
        racks = dict(_racks(exchanges))
        if any(rack is not None for rack in racks.values()):  # else nothing depends on replicas
            self._replicas.update(_replicas(exchanges))
            self._brokers.update(racks)
        for exchange in exchanges:
            with as_kafka_logs_it(exchange):
                self._take(exchange)
        for name, topic_id, count in _used(by_time, self.names):
            self.names[topic_id] = name
            self._start.setdefault(name, _topic(name, topic_id, count, None))
        self.header = {
            key: rows
            for key, rows in (
                ("brokers", [_broker(*each) for each in sorted(self._brokers.items())]),
                ("topics", list(self._start.values())),
            )
            if rows
        }

    def name(self, exchange: Exchange) -> None:
        """Name the topics of commits and fetches that have only ids."""
        if exchange.version < _BY_ID_SINCE or exchange.api not in ("OFFSET_COMMIT", "OFFSET_FETCH"):
            return
        for side in (exchange.request, exchange.response):
            for of in (side, *side.get("groups", ())):
                for topic in of.get("topics") or ():
                    topic["name"] = self.names.get(topic["topicId"], topic["topicId"])

    def _take(self, exchange: Exchange) -> None:
        answer = exchange.response
        if exchange.api == "METADATA":
            for topic in answer["topics"]:
                if topic["errorCode"] == Error.UNKNOWN_TOPIC_OR_PARTITION:
                    self._absent.add(topic["name"])
                    self.absent_ms[topic["name"]] = exchange.handled_ms
                elif not topic["errorCode"]:
                    count = len(topic["partitions"])
                    self._shown(exchange.handled_ms, topic["name"], topic.get("topicId"), count)
        elif exchange.api == "CREATE_TOPICS" and not exchange.request.get("validateOnly"):
            for topic in answer["topics"]:
                if topic["errorCode"]:
                    continue
                self.absent_ms[topic["name"]] = exchange.handled_ms
                if topic.get("numPartitions", 0) > 0:
                    self._absent.add(topic["name"])
                    count = topic["numPartitions"]
                    self._shown(exchange.handled_ms, topic["name"], topic.get("topicId"), count)
        elif exchange.api == "CREATE_PARTITIONS" and not exchange.request.get("validateOnly"):
            grown = {topic["name"] for topic in answer["results"] if not topic["errorCode"]}
            for topic in exchange.request["topics"]:
                if topic["name"] in grown:
                    self._shown(exchange.handled_ms, topic["name"], None, topic["count"])
        elif exchange.api == "DELETE_TOPICS":
            gone = [each["name"] for each in answer["responses"] if not each["errorCode"]]
            self._deleted(exchange.handled_ms, gone)
        elif exchange.api == "OFFSET_COMMIT":
            for topic in answer["topics"]:
                codes = {partition["errorCode"] for partition in topic["partitions"]}
                if Error.UNKNOWN_TOPIC_OR_PARTITION in codes and topic.get("name"):
                    self.absent_ms[topic["name"]] = exchange.handled_ms

    def _deleted(self, at_ms: float, names: list[str]) -> None:
        """Take over that topics were deleted, if they are known."""
        self.absent_ms.update(dict.fromkeys(names, at_ms))
        gone = [name for name in names if self._counts.pop(name, None)]
        self._absent.update(gone)
        if gone:
            self.changes.append((at_ms, {"op": "metadata", "delete_topics": gone}))

    def _shown(self, at_ms: float, name: str, topic_id: str | None, count: int) -> None:
        """Take over that a topic is there with so many partitions."""
        derived = encode_topic_id(derived_topic_id(name))
        known_id = next((each for each in reversed(self.names) if self.names[each] == name), None)
        if topic_id is not None and known_id not in (None, derived, topic_id):
            if topic_id in self.names:
                return  # an image from before the topic was created again
            if self._counts.get(name):
                self._deleted(at_ms, [name])  # by a request to another broker
        known = self._counts.get(name, 0)
        if name in _INTERNAL or count <= known:
            return
        topic_id = topic_id or known_id or derived
        self.names[topic_id] = name
        self._counts[name] = count
        topic = _topic(name, topic_id, count, self._replicas.get((topic_id, count)))
        if not known and name not in self._absent:
            self._start[name] = topic
        else:
            self.changes.append((at_ms, {"op": "metadata", "topics": [topic]}))


def _topic(
    name: str, topic_id: str, count: int, replicas: list[list[int]] | None
) -> dict[str, Any]:
    topic = {"topic": name, "topic_id": topic_id, "partitions": count}
    return topic if replicas is None else topic | {"replicas": replicas}


def _broker(node_id: int, rack: str | None) -> dict[str, Any]:
    return {"id": node_id} | ({} if rack is None else {"rack": rack})


def _racks(exchanges: Iterable[Exchange]) -> Iterator[tuple[int, str | None]]:
    for exchange in exchanges:
        if exchange.api == "METADATA":
            with as_kafka_logs_it(exchange):
                for broker in exchange.response["brokers"]:
                    yield broker["nodeId"], broker.get("rack")


def _replicas(exchanges: Iterable[Exchange]) -> Iterator[tuple[tuple[str, int], list[list[int]]]]:
    """Yield the brokers of each partition, by topic id and number of partitions."""
    for exchange in exchanges:
        if exchange.api != "METADATA":
            continue
        with as_kafka_logs_it(exchange):
            for topic in exchange.response["topics"]:
                rows = sorted(topic["partitions"], key=lambda each: each["partitionIndex"])
                if not topic["errorCode"] and topic.get("topicId"):
                    yield (topic["topicId"], len(rows)), [each["replicaNodes"] for each in rows]


def _used(by_time: list[Exchange], names: dict[str, str]) -> Iterator[tuple[str, str, int]]:
    """Yield the topics without metadata that groups use: (name, id, least number of partitions)."""
    counts: dict[str, int] = {}  # by topic id or, of committed ones, by name
    found: dict[str, str] = {}
    may_be: dict[str, set[str]] = {}  # names of each topic id: those that its members subscribe to
    for exchange in by_time:
        with as_kafka_logs_it(exchange):
            for name, topic_id, partitions in _mentioned(exchange):
                _count(counts, topic_id or name, partitions)
                if topic_id is not None and name:
                    found[topic_id] = name
    for topic_id, partitions, subscribed in _assigned(by_time):
        _count(counts, topic_id, partitions)
        may_be[topic_id] = may_be.get(topic_id, subscribed) & subscribed
    found = {topic_id: name for topic_id, name in found.items() if topic_id not in names}
    taken = set(names.values())
    while True:
        taken.update(found.values())
        sure = {topic_id: min(each - taken) for topic_id, each in may_be.items()
                if topic_id not in found and topic_id not in names
                and len(each - taken) == 1}  # fmt: skip
        if not sure:
            break
        found.update(sure)
    for topic_id, name in found.items():
        if count := max(counts[topic_id], counts.get(name, 0)):
            yield name, topic_id, count


def _mentioned(exchange: Exchange) -> Iterator[tuple[str, str | None, list[int]]]:
    """Yield the topics of a commit or of a description: (name, id if there, partitions)."""
    if not exchange.response:
        return
    if exchange.api == "OFFSET_COMMIT":
        for topic in exchange.request["topics"]:
            partitions = [row["partitionIndex"] for row in topic["partitions"]]
            yield topic["name"], topic.get("topicId"), partitions
    elif exchange.api == "CONSUMER_GROUP_DESCRIBE":
        for group in exchange.response["groups"]:
            for member in group["members"]:
                for topic in member["targetAssignment"]["topicPartitions"]:
                    yield topic["topicName"], topic["topicId"], topic["partitions"]


def _count(counts: dict[str, int], topic: str, partitions: list[int]) -> None:
    counts[topic] = max([counts.get(topic, 0), *(number + 1 for number in partitions)])


def _assigned(by_time: Iterable[Exchange]) -> Iterator[tuple[str, list[int], set[str]]]:
    """Yield the topics that heartbeats assign: (id, partitions, names the member subscribes to)."""
    subscribed: dict[tuple[str, str], set[str]] = {}
    for exchange in by_time:
        q, r = exchange.request, exchange.response
        if exchange.api != "CONSUMER_GROUP_HEARTBEAT" or not r or r["errorCode"]:
            continue
        with as_kafka_logs_it(exchange):
            names = subscribed.setdefault((q["groupId"], r["memberId"]), set())
            names.update(q.get("subscribedTopicNames") or ())
            for topic in (r["assignment"] or {}).get("topicPartitions", ()):
                yield topic["topicId"], topic["partitions"], set(names)
