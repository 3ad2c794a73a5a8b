"""When a broker was down, by its request log: to a trace that is a failover.

A broker that starts again forgets its connections, and each of its processors numbers new ones
from 0. So it was down where for a second at least no request ran, no connection from before is
seen after, and numbers that were given come again. A server log says it outright. What a request
log cannot tell: a restart of which no connection before or after is seen.
Source: SocketServer.Processor, ServerConnectionId.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from coterie.times import LogClock
from coterie.wire.exchanges import Connection, Exchange

__all__ = ["Outage", "outages", "started_times"]

SHORTEST_MS = 1000  # no broker stops and starts in less
_STARTED = re.compile(
    r"^\[(?P<at>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.]\d{1,6})\] INFO (?:"
    r"(?P<begins>\[GroupCoordinator (?:id=)?\d+\]:? Starting up)"
    r"|(?P<loaded>.*Finished loading (?:of|offsets and group) metadata from __consumer_offsets-)"
    r"|\[Kafka(?:RaftServer nodeId|Server id)=\d+\] (?:Kafka Server )?started)"
)


class Outage(NamedTuple):
    """A broker's last sign of life, and its first one after it was down; ms."""

    last_ms: float
    first_ms: float


class _Seen(NamedTuple):
    """A connection, from its first request to its last answer."""

    first_ms: float
    last_ms: float
    connection: Connection


def started_times(lines: Iterable[str]) -> list[float]:
    """Return when a broker had started, ms, by its server log.

    That is when it had loaded the first of the topic's partitions, if it had before it takes
    requests: sessions count from there.
    """
    clock, loaded_ms, found = LogClock(), None, []
    for match in filter(None, map(_STARTED.match, lines)):
        at_ms = clock.ms(match["at"])
        if match["begins"]:
            loaded_ms = None
        elif match["loaded"]:
            loaded_ms = at_ms if loaded_ms is None else loaded_ms
        else:
            found.append(at_ms if loaded_ms is None else loaded_ms)
            loaded_ms = None
    return found


def outages(exchanges: Sequence[Exchange], started_ms: Collection[float] = ()) -> list[Outage]:
    """Return when the broker was down between requests, in order of time.

    ``started_ms``: when it had started, as far as a server log tells.
    """
    spans = sorted((one.came_ms, one.sent_ms) for one in exchanges)
    found = {}
    for outage in _by_connections(_seen(exchanges)):
        starts = [at for at in started_ms if outage.last_ms < at <= outage.first_ms]
        found[outage.last_ms] = Outage(outage.last_ms, min(starts, default=outage.first_ms))
    for at_ms in started_ms:
        before = [sent for came, sent in spans if came < at_ms]
        after = [came for came, _ in spans if came >= at_ms]
        if before and after:
            found.setdefault(max(before), Outage(max(before), at_ms))
    return sorted(outage for outage in found.values() if outage.last_ms < outage.first_ms)


def _seen(exchanges: Iterable[Exchange]) -> list[_Seen]:
    """Return every connection once, by its first request."""
    found: dict[str, _Seen] = {}
    for one in exchanges:
        if one.connection is not None:
            name = one.connection.name
            known = found.get(name, _Seen(one.came_ms, one.sent_ms, one.connection))
            first, last = min(known.first_ms, one.came_ms), max(known.last_ms, one.sent_ms)
            found[name] = _Seen(first, last, one.connection)
    return sorted(found.values())


def _by_connections(seen: list[_Seen]) -> Iterator[Outage]:
    """Yield the gaps after which all connections are new, and numbered anew."""
    runs: list[list[_Seen]] = []  # of connections that overlap, as a chain
    ended = float("-inf")
    for one in seen:
        if one.first_ms - ended >= SHORTEST_MS:
            runs.append([])
        runs[-1].append(one)
        ended = max(ended, one.last_ms)
    life: list[_Seen] = []  # since the broker started
    for run in runs:
        if life and _numbered_anew(life, run):
            yield Outage(max(one.last_ms for one in life), run[0].first_ms)
            life = []
        life += run


def _numbered_anew(before: list[_Seen], after: list[_Seen]) -> bool:
    """Whether connections have numbers that the same process would not give again."""
    given: dict[tuple[str, str | None], set[int]] = {}
    for one in before:
        given.setdefault(one.connection.processor, set()).add(one.connection.number)
    for one in after:
        processor, number = one.connection.processor, one.connection.number
        known = given.get(processor)
        if known is None:
            continue
        # Which processor is not said by brokers up to 3.x: they take turns, so that numbers
        # are one apart at most.
        if number < min(known) or (processor[1] and number in known):
            return True
        if processor[1] is None and number < max(known) - 1:
            return True
    return False
