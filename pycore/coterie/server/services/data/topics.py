"""All topics of a cluster: their names, ids, settings and partitions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from typing import Any

from coterie.errors import ArgumentError
from coterie.server.context import Context
from coterie.server.services.data.fetch_sessions import FetchSessions
from coterie.server.services.data.partition import PartitionLog
from coterie.server.services.data.settings import LogSettings
from coterie.server.services.data.topic_configs import TOPIC_CONFIGS, log_settings

__all__ = ["INTERNAL", "NO_ID", "Topic", "Topics", "name_refusal", "refuse_other_counts"]

NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"  # a topic that has none, or is not known
INTERNAL = {  # topics of the server's own -> the setting that says how many partitions they have
    "__consumer_offsets": "offsets.topic.num.partitions",
    "__transaction_state": "transaction.state.log.num.partitions",
}
_LONGEST = 249
_NAME = re.compile(r"[a-zA-Z0-9._-]*")
_RETENTION_CHECK_MS = 300000
_PRODUCER_CHECK_MS = 600000
_PRODUCER_EXPIRATION_MS = 86400000
# Topic's setting -> the server's, where their names differ from ServerTopicConfigSynonyms.
_OF_SERVER = {"delete.retention.ms": "delete.retention.ms"}


def name_refusal(name: str) -> str | None:
    """Return why a topic cannot have a name, in Kafka's words; None: it can."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > _LONGEST:
        return f"the length of '{name}' is longer than the max allowed length {_LONGEST}"
    if _NAME.fullmatch(name) is None:
        return (
            f"'{name}' contains one or more characters other than "
            "ASCII alphanumerics, '.', '_' and '-'"
        )
    return None


def refuse_other_counts(topics: Mapping[str, int | None], settings: Mapping[str, Any]) -> None:
    """Refuse a topic of the server's own with other partitions than its setting says.

    Groups and transactional ids go to partitions by the setting: where one is missing, they
    could not be written.
    """
    for name, setting in INTERNAL.items():
        count = topics.get(name)
        if count is not None and count != settings[setting]:
            raise ArgumentError(
                f"{name} has {settings[setting]} partitions, not {count}: {setting} says how many"
            )


class Topic:
    """A topic.

    Attributes
    ----------
    configs : dict
        What was set for it, as text, by Kafka's names.
    settings : LogSettings
        What its partitions read.
    """

    def __init__(self, name: str, topic_id: str, configs: Mapping[str, str]) -> None:
        self.name, self.topic_id = name, topic_id
        self.configs = dict(configs)
        self.settings = LogSettings()
        self.partitions: list[PartitionLog] = []

    @property
    def internal(self) -> bool:
        """Whether it is the server's own."""
        return self.name in INTERNAL


class Topics:
    """The topics of a cluster.

    Attributes
    ----------
    defaults : dict
        Topics' settings as the server's are set, as text, where they differ from Kafka's own.
    named : dict
        The topics by their names.
    on_delete : list
        Functions that are called with each topic that is deleted.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.on_delete: list[Callable[[Topic], None]] = []
        self.named: dict[str, Topic] = {}
        self._ids: dict[str, Topic] = {}
        self._sessions: dict[int, FetchSessions] = {}
        self.defaults: dict[str, str] = {}
        for row in TOPIC_CONFIGS.values():
            server = _OF_SERVER.get(row.name, row.server or row.name)
            if server in context.config and str(context.config[server]) != row.default:
                self.defaults[row.name] = str(context.config[server])
        context.timers.call_at(context.now_ms + _RETENTION_CHECK_MS, self._retain)
        context.timers.call_at(context.now_ms + _PRODUCER_CHECK_MS, self._forget_producers)

    def __iter__(self) -> Iterator[Topic]:
        """Walk through the topics, as they were made."""
        return iter(list(self.named.values()))

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self.named)

    def get(self, name: str) -> Topic | None:
        """Return a topic by its name."""
        return self.named.get(name)

    def by_id(self, topic_id: str) -> Topic | None:
        """Return a topic by its id, as text."""
        return self._ids.get(topic_id)

    def colliding(self, name: str) -> str | None:
        """Return a topic whose metrics would have the same names: ``.`` and ``_`` are one there."""
        like = name.replace(".", "_")
        if like == name and "_" not in name:
            return None
        return next((other for other in self.named if other.replace(".", "_") == like), None)

    def partition(self, name: str, number: int) -> PartitionLog | None:
        """Return a partition's log, if it exists."""
        topic = self.named.get(name)
        if topic is None or not 0 <= number < len(topic.partitions):
            return None
        return topic.partitions[number]

    def create(self, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> Topic:
        """Make a topic; what asks for it has checked the name and the settings."""
        topic = Topic(name, self._context.ids.uuid(), configs or {})
        self.configure(topic, topic.configs)
        self.named[name] = self._ids[topic.topic_id] = topic
        self.grow(name, partitions)
        return topic

    def internal(self, name: str) -> Topic:
        """Return a topic of the server's own; it is made when it is first needed."""
        topic = self.named.get(name)
        if topic is not None:
            return topic
        config = self._context.config
        if name == "__consumer_offsets":
            configs = {
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config["offsets.topic.segment.bytes"]),
            }
            return self.create(name, config[INTERNAL[name]], configs)
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": "1",
            "segment.bytes": "104857600",
            "unclean.leader.election.enable": "false",
        }
        return self.create(name, config[INTERNAL[name]], configs)

    def grow(self, name: str, count: int) -> None:
        """Add partitions, up to so many."""
        topic = self.named[name]
        for number in range(len(topic.partitions), count):
            topic.partitions.append(
                PartitionLog(
                    name,
                    number,
                    topic.settings,
                    lambda: self._context.now_ms,
                    internal=topic.internal,
                    topic_id=topic.topic_id,
                )
            )

    def delete(self, name: str) -> None:
        """Delete a topic and its data; who waits for a write is woken."""
        topic = self.named.pop(name)
        del self._ids[topic.topic_id]
        for log in topic.partitions:
            log.delete()
        for function in self.on_delete:
            function(topic)

    def configure(self, topic: Topic, configs: Mapping[str, str]) -> None:
        """Set all that is set for a topic."""
        topic.configs = dict(configs)
        new = log_settings(topic.configs, self.defaults)
        for field in fields(new):
            setattr(topic.settings, field.name, getattr(new, field.name))

    def sessions_of(self, node_id: int) -> FetchSessions:
        """Return the fetch sessions of a broker."""
        found = self._sessions.get(node_id)
        if found is None:
            ids = self._context.ids
            found = FetchSessions(ids.number, lambda: self._context.now_ms)
            self._sessions[node_id] = found
        return found

    def _logs(self) -> Iterator[PartitionLog]:
        for topic in self:
            yield from topic.partitions

    def _retain(self) -> None:
        for log in self._logs():
            log.retain()
        self._context.timers.call_at(self._context.now_ms + _RETENTION_CHECK_MS, self._retain)

    def _forget_producers(self) -> None:
        for log in self._logs():
            log.producers.forget(self._context.now_ms - _PRODUCER_EXPIRATION_MS)
        self._context.timers.call_at(
            self._context.now_ms + _PRODUCER_CHECK_MS, self._forget_producers
        )
