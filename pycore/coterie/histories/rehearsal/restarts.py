"""Restarts one after the other: of deploys in a history, and on the way to a variant.

The way there goes as upgrades go: the coordinator moves to a broker of the new release or settings,
then each consumer that lives restarts with its new settings, while the others still have the old
ones. On the way back the consumers restart once more, with the old settings; brokers stay.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from coterie.base.times import format_time
from coterie.errors import ArgumentError
from coterie.histories.rehearsal.history import CLOSED, CRASHED, PAUSED, LoggedHistory

DEPLOY_MS = 60_000  # closes that follow each other so closely are one deploy
RESTART_MS = 600_000  # a consumer that starts so soon after its end was restarted
AWAY_MS = 5_000  # a consumer that restarts on the way is away for so long
SETTLE_MS = 60_000  # between a change of the group, the brokers' and the consumers' restarts
Op = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Way:
    """How consumers come to a variant: restarts so far apart; then back, or not; from when on.

    ``at_ms``: epoch ms; None: where most consumers live for longest.
    """

    gap_ms: int
    back: bool = False
    at_ms: int | None = None


def rolled(
    history: LoggedHistory,
    way: Way,
    change: Callable[[Op], Op] | None,
    brokers: dict[str, Any],
) -> LoggedHistory:
    """Return the history with the way to a variant in it.

    ``change`` gives a start its new settings, None: no consumer restarts; ``brokers``: the settings
    of the coordinator that change, of a release too.

    Raises
    ------
    ArgumentError
        The time of the way is not in the history.
    """
    ops, begin = history.ops, _begin(history, way.at_ms)
    if brokers:
        stop = {"at": begin, "op": "coordinator_stop", "after": 0, "slack_ms": 0}
        ops = [*ops, {**stop, "group": history.group, "config": brokers}]
        begin += SETTLE_MS
    if change is not None:
        ops, end = _restarted(ops, begin, way.gap_ms)
        until = history.end_ms + end  # after all
        if way.back:
            until = end + SETTLE_MS
            ops, _ = _restarted(ops, until, way.gap_ms)
        ops = [
            change(op) if op["op"] == "start" and begin <= op["at"] < until else op for op in ops
        ]
    return replace(history, ops=sorted(ops, key=lambda op: int(op["at"])))


def _begin(history: LoggedHistory, at_ms: int | None) -> int:
    """Return when the way begins, in ms of the scenario."""
    if at_ms is not None:
        at = at_ms - history.origin_ms
        if not 0 <= at <= history.end_ms:
            first, last = (
                format_time(history.origin_ms),
                format_time(history.origin_ms + history.end_ms),
            )
            raise ArgumentError(f"at={format_time(at_ms)} is not between {first} and {last}")
        return at
    ops = sorted(history.ops, key=lambda op: int(op["at"]))
    live: set[str] = set()
    best = (0, 0, 0)  # the members, the ms without a change, from when on
    for op, after in zip(ops, [*ops[1:], {"at": history.end_ms}], strict=True):
        _follow(live, op)
        best = max(best, (len(live), after["at"] - op["at"], op["at"]))
    return best[2] + SETTLE_MS


def _follow(live: set[str], op: Op) -> None:
    """Keep the consumers that live up to date."""
    if op["op"] == "start":
        live.add(op["consumer"])
    elif op["op"] in (CLOSED, CRASHED, PAUSED):
        live.discard(op["consumer"])


def _restarted(ops: Sequence[Op], begin: int, gap_ms: int) -> tuple[list[Op], int]:
    """Restart each consumer that lives at a time, and return when the last one is back.

    One that ends before its turn is over does not restart.
    """
    by_time = sorted(ops, key=lambda op: int(op["at"]))
    live: set[str] = set()
    starts: dict[str, Op] = {}  # the last one, with its present subscription
    ends: dict[str, int] = {}  # of the consumers that live at the time
    for op in by_time:
        name = op.get("consumer", "")
        if op["at"] <= begin:
            _follow(live, op)
            if op["op"] == "start":
                starts[name] = op
        elif op["op"] in (CLOSED, CRASHED, PAUSED):
            ends.setdefault(name, op["at"] - op["slack_ms"])
    changes = [op for op in by_time if op["op"] == "subscribe"]
    made: list[Op] = []
    end = begin
    for number, name in enumerate(name for name in starts if name in live):
        at = begin + number * gap_ms
        if ends.get(name, at + AWAY_MS + 1) <= at + AWAY_MS:
            continue
        start, end = starts[name], at + AWAY_MS
        for op in changes:
            if op["consumer"] == name and start["at"] < op["at"] <= end:
                start = {**start, "subscription": op["subscription"]}
        config = start["config"]
        config = {**config, "member.id": f"{config['member.id']}+"}
        here = {"after": 0, "slack_ms": 0}
        made.append({"at": at, "op": CLOSED, "consumer": name, **here})
        made.append({**start, "at": end, "config": config, **here})
    return [*ops, *made], end


def spread(ops: Sequence[Op], gap_ms: int) -> list[Op]:
    """Let consumers that were closed together restart one after the other."""
    moved = [dict(op) for op in ops]
    deploy: list[tuple[int, int]] = []
    for place, back in restarts(ops):
        if deploy and ops[place]["at"] - ops[deploy[-1][0]]["at"] > DEPLOY_MS:
            _space(moved, deploy, gap_ms)
            deploy = []
        deploy.append((place, back))
    _space(moved, deploy, gap_ms)
    last_ms: dict[str, int] = {}
    for op in moved:  # what a consumer did after its restart stays after it
        name = op.get("consumer")
        if name is not None:
            op["at"] = last_ms[name] = max(op["at"], last_ms.get(name, 0))
    return sorted(moved, key=lambda op: int(op["at"]))


def restarts(ops: Sequence[Op], ends: Collection[str] = (CLOSED,)) -> list[tuple[int, int]]:
    """Return the places of each end and of the start that follows it soon, in order.

    ``ends``: the kinds of ops that end a consumer.
    """
    found: list[tuple[int, int]] = []
    starts: dict[str, int] = {}
    for place in reversed(range(len(ops))):
        op = ops[place]
        if op["op"] == "start":
            starts[op["consumer"]] = place
        elif op["op"] in ends:
            back = starts.pop(op["consumer"], None)
            if back is not None and ops[back]["at"] - op["at"] <= RESTART_MS:
                found.append((place, back))
    return found[::-1]


def _space(ops: list[Op], deploy: list[tuple[int, int]], gap_ms: int) -> None:
    """Space the restarts of a deploy; each consumer is away as long as it was."""
    for number, (close, start) in enumerate(deploy[1:], 1):
        at = ops[deploy[0][0]]["at"] + number * gap_ms
        away_ms = ops[start]["at"] - ops[close]["at"]
        ops[close]["at"], ops[start]["at"] = at, at + away_ms
