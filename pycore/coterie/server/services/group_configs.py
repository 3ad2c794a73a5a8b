"""The settings that groups have of their own, since Kafka 4.

The coordinator reads the session timeout, the heartbeat interval and the assignment interval of
consumer groups; the others are only stored. Source: GroupConfig, GroupConfigManager.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from coterie.base.settings import (
    BOOLEAN,
    INT,
    LIST,
    LONG,
    STRING,
    InvalidConfig,
    Setting,
    parse_value,
)
from coterie.server.config import Settings
from coterie.server.services.groups import Groups

_HEARTBEAT, _SESSION = "consumer.heartbeat.interval.ms", "consumer.session.timeout.ms"
_INTERVAL = "consumer.assignment.interval.ms"
_EFFECTIVE = (_HEARTBEAT, _SESSION, _INTERVAL)
_ISOLATION = ("read_committed", "read_uncommitted")
_OF_4_1 = (
    Setting(_HEARTBEAT, INT, "5000", f"group.{_HEARTBEAT}", 1),
    Setting(_SESSION, INT, "45000", f"group.{_SESSION}", 1),
    Setting("share.auto.offset.reset", STRING, "latest"),
    Setting("share.heartbeat.interval.ms", INT, "5000", None, 1),
    Setting("share.isolation.level", STRING, "read_uncommitted", words=_ISOLATION),
    Setting("share.record.lock.duration.ms", INT, "30000", None, 1000),
    Setting("share.session.timeout.ms", INT, "45000", None, 1),
    Setting("streams.heartbeat.interval.ms", INT, "5000", None, 1),
    Setting("streams.num.standby.replicas", INT, "0", None, 0),
    Setting("streams.session.timeout.ms", INT, "45000", None, 1),
)
_OF_4_4 = (
    *_OF_4_1,
    Setting(_INTERVAL, INT, "1000", f"group.{_INTERVAL}", 0),
    Setting("errors.deadletterqueue.copy.record.enable", BOOLEAN, "false"),
    Setting("errors.deadletterqueue.topic.name", STRING, ""),
    Setting("share.assignment.interval.ms", INT, "1000", None, 0),
    Setting("share.delivery.count.limit", INT, "5", None, 2),
    Setting("share.partition.max.record.locks", INT, "2000", None, 100),
    Setting("share.renew.acknowledge.enable", BOOLEAN, "true"),
    Setting("streams.acceptable.recovery.lag", LONG, "10000", None, 0),
    Setting("streams.assignment.interval.ms", INT, "1000", None, 0),
    Setting("streams.initial.rebalance.delay.ms", INT, "3000", None, 0),
    Setting("streams.num.warmup.replicas", INT, "2", None, 0),
    Setting("streams.rack.aware.assignment.tags", LIST, ""),
    Setting("streams.task.offset.interval.ms", INT, "60000", None, 1),
)


def known_of(release: str) -> tuple[Setting, ...]:
    """Return the settings that groups have in a release of Kafka."""
    return _OF_4_4 if release == "4.4" else _OF_4_1


class GroupConfigs:
    """The settings of groups, by group id.

    Attributes
    ----------
    known : dict
        The settings that a group may have; their defaults are the broker's.
    """

    def __init__(self, config: Settings, groups: Groups, release: str) -> None:
        self._config, self._groups = config, groups
        self._ranges = release == "4.4"  # messages of Kafka since 4.3
        self._configs: dict[str, dict[str, str]] = {}
        self.known: dict[str, Setting] = {
            row.name: row if row.server is None else row._replace(default=str(config[row.server]))
            for row in known_of(release)
        }

    def __iter__(self) -> Iterator[str]:
        """Iterate over the ids of the groups that have settings."""
        return iter([group_id for group_id, configs in self._configs.items() if configs])

    def of(self, group_id: str) -> Mapping[str, str]:
        """Return the settings that a group has of its own."""
        return self._configs.get(group_id, {})

    def check(self, configs: Mapping[str, str]) -> None:
        """Check all settings of a group."""
        for name in configs:
            if name not in self.known:
                raise InvalidConfig(f"Unknown group config name: {name}")
        values = {
            name: parse_value(row, configs.get(name, row.default))
            for name, row in self.known.items()
        }
        for name in _EFFECTIVE:
            if name not in configs:
                continue  # the broker's own is within its bounds
            kind = name.removeprefix("consumer.")
            least, most = f"group.consumer.min.{kind}", f"group.consumer.max.{kind}"
            low, high = self._config[least], self._config[most]
            if self._ranges and not low <= values[name] <= high:
                raise InvalidConfig(f"{name} must be in the range {low} to {high} inclusive.")
            if values[name] < low:
                raise InvalidConfig(f"{name} must be greater than or equal to {least}")
            if values[name] > high:
                raise InvalidConfig(f"{name} must be less than or equal to {most}")
        if values[_SESSION] <= values[_HEARTBEAT]:
            raise InvalidConfig(f"{_SESSION} must be greater than {_HEARTBEAT}")

    def replace(self, group_id: str, configs: Mapping[str, str]) -> None:
        self._configs[group_id] = dict(configs)
        own = {name: int(configs[name]) for name in _EFFECTIVE if name in configs}
        self._groups.configure(group_id, own)
