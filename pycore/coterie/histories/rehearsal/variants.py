"""What a history is played under: another protocol, release, assignor or setting, static members.

A variant is ``KEY=VALUE[,KEY=VALUE...]``, as ``--to`` of the command takes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from coterie.base.arguments import did_you_mean
from coterie.coordinator.config import CLASSIC_ONLY as CLASSIC_RELEASES
from coterie.coordinator.config import REPLAYING
from coterie.errors import ArgumentError, ConfigError, shown
from coterie.histories.rehearsal.history import CLOSED, LoggedHistory
from coterie.testing.assignors import ASSIGNORS
from coterie.testing.client.settings import CLASSIC_ONLY, STRATEGY, consumer_settings

KAFKA = "3.9"  # of a log that does not say which release wrote it
CONSUMER_KAFKA = "4.4"  # of protocol=consumer, where the history's release has none
DEPLOY_MS = 60_000  # closes that follow each other so closely are one deploy
RESTART_MS = 600_000  # a consumer that starts so soon after its end was restarted
MOST_DIGITS = 10
SESSION = "session.timeout.ms"
NUMBERS = (SESSION, "heartbeat.interval.ms", "max.poll.interval.ms")
OWN = ("protocol", "kafka", "assignor", "static", "deploy")


@dataclass(frozen=True, slots=True)
class Variant:
    """How a history is played.

    ``settings``: of all consumers; ``static``: each gets an instance id; ``deploy_ms``: restarts
    that came together come one after the other, so far apart.
    """

    name: str
    kafka: str = KAFKA
    protocol: str = "classic"
    settings: dict[str, Any] = field(default_factory=dict)
    static: bool = False
    deploy_ms: int | None = None

    def of(self, history: LoggedHistory) -> LoggedHistory:
        """Return the history with the changes that are of its consumers and their times.

        Raises
        ------
        ArgumentError
            Its heartbeats are no shorter than the session of a member.
        """
        ops = history.ops
        heartbeat_ms = self.settings.get("heartbeat.interval.ms", 0)
        sessions = [op["config"][SESSION] for op in ops if op["op"] == "start"]
        if SESSION not in self.settings and heartbeat_ms >= min(sessions):
            raise ArgumentError(
                f"{self.name}: heartbeat.interval.ms must be below session.timeout.ms, which is "
                f"{min(sessions)} for a member of group {shown(history.group)}; change both"
            )
        if self.static:
            ops = [_static(op) if op["op"] == "start" else op for op in ops]
        if self.deploy_ms is not None:
            ops = _rolling(ops, self.deploy_ms)
        return replace(history, ops=ops)


def read_variant(text: str, kafka: str = KAFKA) -> Variant:
    """Return a variant of a history of a release.

    Raises
    ------
    ArgumentError
        The text is none; the message says what is wrong.
    """
    pairs: dict[str, str] = {}
    for pair in text.split(","):
        key, equals, value = pair.partition("=")
        if not key or not equals or not value:
            raise ArgumentError(f"{shown(pair)} is not KEY=VALUE")
        if key in pairs:
            raise ArgumentError(f"{key} is given twice in one variant: {shown(text)}")
        pairs[key] = value
    protocol = pairs.pop("protocol", "classic")
    if protocol not in ("classic", "consumer"):
        raise ArgumentError(f"protocol={protocol}: there are classic and consumer")
    release = pairs.pop("kafka", None)
    if release is None:
        no_groups = protocol == "consumer" and kafka in CLASSIC_RELEASES
        release = CONSUMER_KAFKA if no_groups else kafka
    check_release(release)
    if protocol == "consumer" and release in CLASSIC_RELEASES:
        raise ArgumentError(f"kafka={release} has no consumer protocol; kafka=4.1 has")
    static = pairs.pop("static", "false")
    if static not in ("true", "false"):
        raise ArgumentError(f"static={static}: there are true and false")
    deploy = pairs.pop("deploy", None)
    return Variant(
        text,
        release,
        protocol,
        _settings(pairs, protocol),
        static == "true",
        None if deploy is None else _gap(deploy),
    )


def check_release(kafka: str) -> None:
    """Raise an ArgumentError if there is no such release of the coordinator."""
    if kafka not in (releases := (*CLASSIC_RELEASES, *REPLAYING)):
        raise ArgumentError(f"kafka={kafka}: there are {', '.join(releases)}")


def _settings(pairs: dict[str, str], protocol: str) -> dict[str, Any]:
    settings: dict[str, Any] = {}
    assignor = pairs.pop("assignor", None)
    if assignor is not None:
        if assignor not in ASSIGNORS:
            raise ArgumentError(f"assignor={assignor}: there are {', '.join(ASSIGNORS)}")
        settings[STRATEGY] = assignor
    for key, value in pairs.items():
        if key not in NUMBERS:
            known = did_you_mean(key, (*OWN, *NUMBERS))
            raise ArgumentError(f"{key}: there are {', '.join((*OWN, *NUMBERS))}{known}")
        if (number := _number(value)) is None:
            raise ArgumentError(f"{key}={shown(value)}: this is no number of ms")
        settings[key] = number
    if protocol == "consumer":
        for key in settings.keys() & set(CLASSIC_ONLY):
            what = "assignor" if key == STRATEGY else key
            raise ArgumentError(f"{what} is a setting of the broker under protocol=consumer")
    given = {name: value for name, value in settings.items() if name != STRATEGY}
    try:
        consumer_settings({"group.id": "group", "group.protocol": protocol, **given})
    except ConfigError as error:
        raise ArgumentError(str(error)) from None
    return settings


def _gap(deploy: str) -> int:
    kind, _, seconds = deploy.partition(":")
    number = _number(seconds.removesuffix("s"))
    if kind != "rolling" or number is None:
        raise ArgumentError(f"deploy={shown(deploy)}: write deploy=rolling:30s")
    return number * 1000


def _number(digits: str) -> int | None:
    """Return a number of at most as many digits as those of clients have; None: it is none."""
    right = digits.isascii() and digits.isdigit() and len(digits) <= MOST_DIGITS
    return int(digits) if right else None


def _static(op: dict[str, Any]) -> dict[str, Any]:
    """Return a start with an instance id: that of the log, or the consumer's name."""
    config = {"group.instance.id": op["consumer"], **op["config"]}
    return {**op, "config": config}


def _rolling(ops: Sequence[dict[str, Any]], gap_ms: int) -> list[dict[str, Any]]:
    """Let consumers that were closed together restart one after the other."""
    moved = [dict(op) for op in ops]
    deploy: list[tuple[int, int]] = []  # places of a close and of the start that follows
    for place, op in enumerate(moved):
        if op["op"] != CLOSED:
            continue
        back = next(
            (at for at in range(place + 1, len(moved)) if _starts_again(op, moved[at])), None
        )
        if back is None:
            continue
        if deploy and op["at"] - ops[deploy[-1][0]]["at"] > DEPLOY_MS:
            _spread(moved, deploy, gap_ms)
            deploy = []
        deploy.append((place, back))
    _spread(moved, deploy, gap_ms)
    last_ms: dict[str, int] = {}
    for op in moved:  # what a consumer did after its restart stays after it
        name = op.get("consumer")
        if name is not None:
            op["at"] = last_ms[name] = max(op["at"], last_ms.get(name, 0))
    return sorted(moved, key=lambda op: int(op["at"]))


def _starts_again(close: dict[str, Any], op: dict[str, Any]) -> bool:
    is_its_start = op["op"] == "start" and op["consumer"] == close["consumer"]
    return is_its_start and int(op["at"]) - int(close["at"]) <= RESTART_MS


def _spread(ops: list[dict[str, Any]], deploy: list[tuple[int, int]], gap_ms: int) -> None:
    """Space the restarts of a deploy; each consumer is away as long as it was."""
    for number, (close, start) in enumerate(deploy[1:], 1):
        at = ops[deploy[0][0]]["at"] + number * gap_ms
        away_ms = ops[start]["at"] - ops[close]["at"]
        ops[close]["at"], ops[start]["at"] = at, at + away_ms
