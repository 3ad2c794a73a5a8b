"""Find a broker's outages in its request log; each becomes a failover of the trace.

A restarted broker has no connections, and each of its processors numbers new ones from 0. So an
outage is a pause of at least a second after which no earlier connection occurs, and connection
numbers repeat. A server log shows a restart directly. A request log cannot show a restart if no
connection was logged before or after it.
Source: SocketServer.Processor, ServerConnectionId.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import NamedTuple

from coterie.base.log_layouts import LogReader
from coterie.errors import CoterieError
from coterie.wire.exchanges import COMPLETED, Connection, Exchange

SHORTEST_MS = 1000  # no broker restarts faster
_STARTED = re.compile(
    r"(?P<begins>\[GroupCoordinator (?:id=)?\d+\]:? Starting up)"
    r"|(?P<loaded>Finished loading (?:of|offsets and group) metadata from __consumer_offsets-)"
    r"|\[Kafka(?:RaftServer nodeId|Server id)=\d+\] (?:Kafka Server )?started"
)


class Outage(NamedTuple):
    """The last response before an outage, and the first request after it; ms."""

    last_ms: float
    first_ms: float


class _Seen(NamedTuple):
    """A connection, from its first request to its last response."""

    first_ms: float
    last_ms: float
    connection: Connection


def check_server_log(lines: Iterable[str]) -> None:
    """Raise CoterieError if a log has lines, but none of a server log."""
    log = LogReader()
    for number, line in enumerate(lines, 1):
        if COMPLETED not in line and log.read(line):
            return
        log.pass_over(number, line, missed=False)
    if log.example:
        raise CoterieError(f"no line is understood, as {log.example}; is it a server log?")


def started_times(lines: Iterable[str]) -> list[float]:
    """Return the times of a broker's starts, ms, from its server log.

    If the broker loaded partitions of the topic before it accepted requests, a start is the time
    of the first load, because sessions begin there.
    """
    loaded_ms: float | None = None
    starts: list[float] = []
    for at_ms, match in LogReader().search(lines, _STARTED):
        if match["begins"]:
            loaded_ms = None
        elif match["loaded"]:
            loaded_ms = at_ms if loaded_ms is None else loaded_ms
        else:
            starts.append(at_ms if loaded_ms is None else loaded_ms)
            loaded_ms = None
    return starts


def outages(exchanges: Sequence[Exchange], started_ms: Collection[float] = ()) -> list[Outage]:
    """Return the broker's outages between requests, in order of time.

    ``started_ms`` are its starts, from a server log.
    """
    spans = [(exchange.came_ms, exchange.sent_ms) for exchange in exchanges]
    by_last_ms = {}
    for outage in _by_connections(_seen(exchanges)):
        starts = [at for at in started_ms if outage.last_ms < at <= outage.first_ms]
        by_last_ms[outage.last_ms] = Outage(outage.last_ms, min(starts, default=outage.first_ms))
    for at_ms in started_ms:
        before = [sent for came, sent in spans if came < at_ms]
        after = [came for came, _ in spans if came >= at_ms]
        if before and after:
            by_last_ms.setdefault(max(before), Outage(max(before), at_ms))
    return sorted(outage for outage in by_last_ms.values() if outage.last_ms < outage.first_ms)


def _seen(exchanges: Iterable[Exchange]) -> list[_Seen]:
    """Return the connections, in the order of their first requests."""
    by_name: dict[str, _Seen] = {}
    for exchange in exchanges:
        connection = exchange.connection
        if connection is not None:
            came_ms, sent_ms = exchange.came_ms, exchange.sent_ms
            known = by_name.get(connection.name, _Seen(came_ms, sent_ms, connection))
            first_ms, last_ms = min(known.first_ms, came_ms), max(known.last_ms, sent_ms)
            by_name[connection.name] = _Seen(first_ms, last_ms, connection)
    return sorted(by_name.values())


def _by_connections(seen: list[_Seen]) -> Iterator[Outage]:
    """Yield the pauses after which all connections are new, and numbered from 0."""
    runs: list[list[_Seen]] = []  # of connections that overlap, in a chain
    ended = float("-inf")
    for connection in seen:
        if connection.first_ms - ended >= SHORTEST_MS:
            runs.append([])
        runs[-1].append(connection)
        ended = max(ended, connection.last_ms)
    since_start: list[_Seen] = []
    for run in runs:
        if since_start and _numbered_anew(since_start, run):
            yield Outage(max(connection.last_ms for connection in since_start), run[0].first_ms)
            since_start = []
        since_start += run


def _numbered_anew(before: list[_Seen], after: list[_Seen]) -> bool:
    """Return whether connections repeat numbers, which never happens within one process."""
    used: dict[tuple[str, str | None], set[int]] = {}
    for seen in before:
        used.setdefault(seen.connection.processor, set()).add(seen.connection.number)
    for seen in after:
        processor, number = seen.connection.processor, seen.connection.number
        known = used.get(processor)
        if known is None:
            continue
        # Brokers up to 3.x do not log the processor. Processors take turns, so their numbers
        # differ by one at most.
        if number < min(known) or (processor[1] and number in known):
            return True
        if processor[1] is None and number < max(known) - 1:
            return True
    return False
