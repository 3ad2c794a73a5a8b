"""The topics of a cluster: names, ids, settings and partitions."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import Any

from coterie.consumer_groups import decode_topic_id
from coterie.errors import ArgumentError
from coterie.server.context import Context
from coterie.server.services.fetch_sessions import FetchSessions
from coterie.server.services.partition import PartitionLog
from coterie.server.topic_configs import log_settings, topic_configs_of
from coterie.server.topic_settings import LogSettings

OFFSETS_TOPIC, STATE_TOPIC = "__consumer_offsets", "__transaction_state"
METADATA_TOPIC = "__cluster_metadata"
INTERNAL = {  # internal topic -> the setting with its partition count
    OFFSETS_TOPIC: "offsets.topic.num.partitions",
    STATE_TOPIC: "transaction.state.log.num.partitions",
}
_RETENTION_CHECK_MS = 300000
_PRODUCER_CHECK_MS = 600000
_PRODUCER_EXPIRATION_MS = 86400000
# Topic setting -> broker setting, where this server's name differs from Kafka's synonym.
_OF_SERVER = {"delete.retention.ms": "delete.retention.ms"}


def _metric_name(name: str) -> str:
    return name.replace(".", "_")


def refuse_other_counts(topics: Mapping[str, int | None], settings: Mapping[str, Any]) -> None:
    """Refuse an internal topic whose partition count differs from its setting.

    The setting maps groups and transactional ids to partitions; a missing partition would fail
    their writes.
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
    id_bytes : bytes
        The 16 bytes of its id.
    configs : dict
        The settings of the topic itself, as text, by Kafka's names.
    settings : LogSettings
        The settings that its partitions read.
    """

    def __init__(self, name: str, topic_id: str, configs: Mapping[str, str]) -> None:
        self.name, self.topic_id = name, topic_id
        self.id_bytes = decode_topic_id(topic_id)
        self.configs = dict(configs)
        self.settings = LogSettings()
        self.partitions: list[PartitionLog] = []

    @property
    def internal(self) -> bool:
        return self.name in INTERNAL


class Topics:
    """The topics of a cluster.

    Attributes
    ----------
    known_configs : mapping
        The settings of topics in the release that is followed.
    static_defaults : dict
        Defaults of topic settings from the server's configuration, as text, where they differ from
        Kafka's.
    defaults : dict
        The same with dynamic broker settings.
    named : dict
        The topics by their names.
    ids : dict
        The topics by the 16 bytes of their ids.
    on_change : list
        Called with each topic that is new or has more partitions.
    on_delete : list
        Called with the topics of each deletion.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self.on_change: list[Callable[[Topic], None]] = []
        self.on_delete: list[Callable[[Sequence[Topic]], None]] = []
        self.named: dict[str, Topic] = {}
        self.ids: dict[bytes, Topic] = {}
        self._metric_names: dict[str, dict[str, None]] = {}  # -> the topics with this name
        self._sessions: dict[int, FetchSessions] = {}
        self.static_defaults: dict[str, str] = {}
        self.known_configs = topic_configs_of(context.release.name)
        for row in self.known_configs.values():
            server = _OF_SERVER.get(row.name, row.server or row.name)
            if server in context.config and str(context.config[server]) != row.default:
                self.static_defaults[row.name] = str(context.config[server])
        self.defaults = self.static_defaults
        context.timers.call_at(context.now_ms + _RETENTION_CHECK_MS, self._retain)
        context.timers.call_at(context.now_ms + _PRODUCER_CHECK_MS, self._forget_producers)

    def __iter__(self) -> Iterator[Topic]:
        """Iterate over the topics in the order of their creation."""
        return iter(list(self.named.values()))

    def __len__(self) -> int:
        return len(self.named)

    def get(self, name: str) -> Topic | None:
        return self.named.get(name)

    def by_id(self, topic_id: str) -> Topic | None:
        """Return a topic by its id in Kafka's text form."""
        return self.ids.get(urlsafe_b64decode(topic_id + "=="))

    def colliding(self, name: str) -> str | None:
        """Return a topic whose name differs only in ``.`` and ``_``; their metric names collide."""
        return next(iter(self._metric_names.get(_metric_name(name), ())), None)

    def partition(self, name: str, number: int) -> PartitionLog | None:
        """Return the log of a partition; None if it does not exist."""
        topic = self.named.get(name)
        if topic is None or not 0 <= number < len(topic.partitions):
            return None
        return topic.partitions[number]

    def create(self, name: str, partitions: int, configs: Mapping[str, str] | None = None) -> Topic:
        """Create a topic; the caller has checked its name and settings."""
        topic = Topic(name, self._context.ids.uuid(), configs or {})
        self.configure(topic, topic.configs)
        self.named[name] = self.ids[topic.id_bytes] = topic
        self._metric_names.setdefault(_metric_name(name), {})[name] = None
        self.grow(name, partitions)
        return topic

    def internal(self, name: str) -> Topic:
        """Return an internal topic; create it on first use."""
        topic = self.named.get(name)
        if topic is not None:
            return topic
        config = self._context.config
        if name == OFFSETS_TOPIC:
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
        for function in self.on_change:
            function(topic)

    def delete(self, *names: str) -> None:
        """Delete topics and their data; waiting fetches are woken."""
        deleted = [self.named.pop(name) for name in names]
        for topic in deleted:
            del self.ids[topic.id_bytes]
            metric_name = _metric_name(topic.name)
            alike = self._metric_names[metric_name]
            del alike[topic.name]
            if not alike:
                del self._metric_names[metric_name]
            for log in topic.partitions:
                log.delete()
        for function in self.on_delete:
            function(deleted)

    def configure(self, topic: Topic, configs: Mapping[str, str]) -> None:
        topic.configs = dict(configs)
        new = log_settings(self.known_configs, topic.configs, self.defaults)
        for field in fields(new):
            setattr(topic.settings, field.name, getattr(new, field.name))

    def override_defaults(self, overrides: Mapping[str, str]) -> None:
        """Override the static defaults with dynamic broker settings, given by topic setting."""
        self.defaults = {**self.static_defaults, **overrides}
        for topic in self:
            self.configure(topic, topic.configs)

    def sessions_of(self, node_id: int) -> FetchSessions:
        sessions = self._sessions.get(node_id)
        if sessions is None:
            ids = self._context.ids
            sessions = FetchSessions(ids.number, lambda: self._context.now_ms)
            self._sessions[node_id] = sessions
        return sessions

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
