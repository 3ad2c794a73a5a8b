"""What a history is played under: another protocol, release, assignor or setting, static members.

A variant is ``KEY=VALUE[,KEY=VALUE...]``, as ``--to`` of the command takes it.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from coterie.base.arguments import did_you_mean
from coterie.base.times import parse_time
from coterie.coordinator.config import CLASSIC_ONLY as CLASSIC_RELEASES
from coterie.coordinator.config import DEFAULTS, REPLAYING, coordinator_config, parse_setting
from coterie.errors import ArgumentError, ConfigError, shown
from coterie.histories.rehearsal.history import PROTOCOL, LoggedHistory
from coterie.histories.rehearsal.known_bugs import PLAYED
from coterie.histories.rehearsal.restarts import Way, rolled, spread
from coterie.testing.assignors import ASSIGNORS
from coterie.testing.client.settings import CLASSIC_ONLY, STRATEGY, consumer_settings

KAFKA = "3.9"  # of a log that does not say which release wrote it
CONSUMER_KAFKA = "4.4"  # of protocol=consumer, where the history's release has none
MOST_DIGITS = 10
PLAYABLE = (*CLASSIC_RELEASES, *REPLAYING)
SAME = {exact: release for release, exact in PLAYED.items()} | {"3.9.1": "3.9"}
SESSION = "session.timeout.ms"
NUMBERS = (SESSION, "heartbeat.interval.ms", "max.poll.interval.ms")
OWN = ("protocol", "kafka", "assignor", "static", "deploy", "way", "at")
SERVER_ASSIGNORS = ("uniform", "range")
BROKER = tuple(name for name in DEFAULTS if name.startswith("group."))
WAYS = ("rolling", "there-and-back")


@dataclass(frozen=True, slots=True)
class Variant:
    """How a history is played.

    ``kafka``, ``broker``: the release and the settings of the brokers; ``before``: their release
    before the way there. ``protocol``: None is the history's own. ``settings``: of all consumers;
    ``static``: each gets an instance id; ``deploy_ms``: restarts that came together come one after
    the other, so far apart; ``way``: how it comes to be, None: it was always so.
    """

    name: str
    kafka: str = KAFKA
    protocol: str | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    static: bool = False
    deploy_ms: int | None = None
    broker: dict[str, Any] = field(default_factory=dict)
    way: Way | None = None
    before: str = KAFKA

    @property
    def first_brokers(self) -> dict[str, Any]:
        """The settings of the coordinator with which a play begins."""
        if self.way is not None:
            return {"coterie.behaviour": self.before}
        return {"coterie.behaviour": self.kafka, **self.broker}

    def of(self, history: LoggedHistory) -> LoggedHistory:
        """Return the history with what the variant changes.

        Raises
        ------
        ArgumentError
            It does not go with the protocol or the settings of a member, or with the time.
        """
        protocol = self.protocol or history.protocol
        if protocol == "classic":
            self._check_heartbeats(history)

        def change(start: dict[str, Any]) -> dict[str, Any]:
            own = self.protocol or start["config"].get(PROTOCOL, "classic")
            if own == "consumer" and self.kafka in CLASSIC_RELEASES:
                raise ArgumentError(
                    f"{self.name}: Kafka {self.kafka} has no consumer protocol, which members of "
                    f"group {shown(history.group)} speak; 4.1 has, or take protocol=classic"
                )
            config = {**start["config"], PROTOCOL: own, **_of_protocol(self.settings, own)}
            if self.static:  # that of the log, or the consumer's name
                config.setdefault("group.instance.id", start["consumer"])
            return {**start, "config": config}

        ops = history.ops
        if self.deploy_ms is not None:
            ops = spread(ops, self.deploy_ms)
        if self.way is None:
            ops = [change(op) if op["op"] == "start" else op for op in ops]
            return replace(history, ops=ops)
        brokers = dict(self.broker)
        if self.kafka != self.before:
            brokers["coterie.behaviour"] = self.kafka
        changes_clients = bool(self.settings or self.static or protocol != history.protocol)
        clients = change if changes_clients or not brokers else None
        return rolled(replace(history, ops=ops), self.way, clients, brokers)

    def _check_heartbeats(self, history: LoggedHistory) -> None:
        heartbeat_ms = self.settings.get("heartbeat.interval.ms", 0)
        sessions = [op["config"].get(SESSION) for op in history.ops if op["op"] == "start"]
        least_ms = min(filter(None, sessions), default=heartbeat_ms + 1)
        if SESSION not in self.settings and heartbeat_ms >= least_ms:
            raise ArgumentError(
                f"{self.name}: heartbeat.interval.ms must be below session.timeout.ms, which is "
                f"{least_ms} for a member of group {shown(history.group)}; change both"
            )


def read_variant(text: str, kafka: str = KAFKA) -> Variant:
    """Return a variant of a history of a release.

    Raises
    ------
    ArgumentError
        The text is none; the message says what is wrong.
    """
    pairs: dict[str, str] = {}
    for pair in text.split(","):
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not key or not equals or not value:
            raise ArgumentError(f"{shown(pair)} is not KEY=VALUE")
        if key in pairs:
            raise ArgumentError(f"{key} is given twice in one variant: {shown(text)}")
        pairs[key] = value
    return _variant(text, pairs, kafka)


def release_in(text: str) -> str | None:
    """Return the release that the text of a variant names."""
    pairs = dict(pair.partition("=")[::2] for pair in text.split(","))
    return pairs.get("kafka")


def _variant(text: str, pairs: dict[str, str], kafka: str) -> Variant:
    protocol = pairs.pop("protocol", None)
    if protocol not in (None, "classic", "consumer"):
        raise ArgumentError(f"protocol={protocol}: there are classic and consumer")
    release = pairs.pop("kafka", None)
    if release is None:
        no_groups = protocol == "consumer" and kafka in CLASSIC_RELEASES
        release = CONSUMER_KAFKA if no_groups else kafka
    release = release_named(release)
    if protocol == "consumer" and release in CLASSIC_RELEASES:
        raise ArgumentError(f"kafka={release} has no consumer protocol; kafka=4.1 has")
    static = pairs.pop("static", "false")
    if static not in ("true", "false"):
        raise ArgumentError(f"static={static}: there are true and false")
    deploy = pairs.pop("deploy", None)
    way = _way(pairs.pop("way", None), pairs.pop("at", None))
    broker = _broker({key: pairs.pop(key) for key in BROKER if key in pairs})
    return Variant(
        text,
        release,
        protocol,
        _settings(pairs, protocol),
        static == "true",
        None if deploy is None else _gap("deploy", deploy, ("rolling",))[1],
        broker,
        way,
        before=kafka,
    )


def release_of(history: LoggedHistory) -> str:
    """Return the release of a history whose log does not say which one wrote it."""
    starts = (op["config"] for op in history.ops if op["op"] == "start")
    newer = any(config.get(PROTOCOL) == "consumer" for config in starts)
    return REPLAYING[0] if newer else KAFKA


def release_named(kafka: str) -> str:
    """Return the release of the coordinator that has the rules of one of Kafka: 4.3 of 4.3.0.

    Raises
    ------
    ArgumentError
        There is none.
    """
    kafka = SAME.get(kafka, kafka)
    if kafka in PLAYABLE:
        return kafka
    raise ArgumentError(f"kafka={kafka}: there are {', '.join(PLAYABLE)}")


def _settings(pairs: dict[str, str], protocol: str | None) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    assignor = pairs.pop("assignor", None)
    if assignor is not None:
        names = assignor.split("+")
        known = (*ASSIGNORS, *SERVER_ASSIGNORS[:1])
        if wrong := [name for name in names if name not in known]:
            raise ArgumentError(f"assignor={wrong[0]}: there are {', '.join(known)}")
        if len({*names}) < len(names):
            raise ArgumentError(f"assignor={assignor}: name each once")
        settings[STRATEGY] = ",".join(names)
    for key, value in pairs.items():
        if key not in NUMBERS:
            known = (*OWN, *NUMBERS, *BROKER)
            hint = did_you_mean(key, known)
            own = ", ".join((*OWN, *NUMBERS))
            raise ArgumentError(f"{key}: there are {own}, and brokers' group.max.size etc.{hint}")
        if (number := _number(value)) is None:
            raise ArgumentError(f"{key}={shown(value)}: this is no number of ms")
        settings[key] = number
    if protocol is not None:
        _of_protocol(settings, protocol)
    given = {name: value for name, value in settings.items() if name != STRATEGY}
    try:
        consumer_settings({"group.id": "group", **given})
    except ConfigError as error:
        raise ArgumentError(str(error)) from None
    return settings


def _of_protocol(settings: dict[str, Any], protocol: str) -> dict[str, Any]:
    """Return settings of consumers as consumers of a protocol name them."""
    assignor = settings.get(STRATEGY)
    if protocol == "classic":
        if assignor is not None and "uniform" in assignor.split(","):
            raise ArgumentError(f"assignor=uniform: there are {', '.join(ASSIGNORS)}")
        return settings
    for key in settings.keys() & {*CLASSIC_ONLY} - {STRATEGY}:
        raise ArgumentError(f"{key} is a setting of the broker under protocol=consumer")
    if assignor is None:
        return settings
    if assignor not in SERVER_ASSIGNORS:
        known = " and ".join(SERVER_ASSIGNORS)
        raise ArgumentError(f"assignor={assignor}: under protocol=consumer there are {known}")
    others = {name: value for name, value in settings.items() if name != STRATEGY}
    return {**others, "group.remote.assignor": assignor}


def _broker(pairs: dict[str, str]) -> dict[str, Any]:
    settings = dict(parse_setting(f"{key}={value}") for key, value in pairs.items())
    try:
        coordinator_config(settings)
    except ConfigError as error:
        raise ArgumentError(str(error)) from None
    return settings


def _way(way: str | None, at: str | None) -> Way | None:
    if way is None:
        if at is not None:
            raise ArgumentError("at= is when the way there begins: it needs way=rolling:30s")
        return None
    kind, gap_ms = _gap("way", way, WAYS)
    try:
        return Way(gap_ms, kind == WAYS[1], None if at is None else parse_time(at))
    except ValueError as error:
        raise ArgumentError(f"at={shown(at)}: {error}") from None


def _gap(key: str, text: str, kinds: tuple[str, ...]) -> tuple[str, int]:
    """Return the kind of restarts, and how far apart they are, ms."""
    kind, _, seconds = text.partition(":")
    number = _number(seconds.removesuffix("s"))
    if kind not in kinds or number is None:
        forms = " or ".join(f"{key}={one}:30s" for one in kinds)
        raise ArgumentError(f"{key}={shown(text)}: write {forms}")
    return kind, number * 1000


def _number(digits: str) -> int | None:
    """Return a number of at most as many digits as those of clients have; None: it is none."""
    right = digits.isascii() and digits.isdigit() and len(digits) <= MOST_DIGITS
    return int(digits) if right else None
