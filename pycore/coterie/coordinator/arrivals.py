"""Put the requests of a request log in the order in which the broker handled them.

A log has the time of each response, cut to milliseconds, and the duration of each request. So a
request's own time is known to a millisecond, and two requests that are closer than that may swap.
Within a connection the order is exact: a broker reads the next request of a connection after it has
sent the response, so the lines of a connection are in order, and no request comes before the
response to the one before. A topic's offsets are deleted when the deletion is answered, and a
transaction ends when its end is answered. Lines are written in order, so a time that goes back by
more than threads explain shows that the clock was set back; the trace's time goes on.
Sources: SocketServer.Processor (a connection is muted while a request is handled).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from coterie.base.times import LogClock
from coterie.wire.exchanges import Connection, Exchange


def in_order(exchanges: Iterable[Exchange]) -> list[Exchange]:
    """Sort exchanges, given in the order of their lines, by when they were handled.

    The times ``came_ms``, ``handled_ms`` and ``sent_ms`` are moved to the earliest that are
    possible for the connection.
    """
    answered_ms: dict[Connection, float] = {}
    handled: list[Exchange] = []
    for exchange in _steady(exchanges):
        connection = exchange.connection
        if connection is not None:
            delay_ms = answered_ms.get(connection, exchange.came_ms) - exchange.came_ms
            if delay_ms > 0:
                exchange.came_ms += delay_ms
                exchange.handled_ms += delay_ms
                exchange.answered_ms += delay_ms
                exchange.sent_ms += delay_ms
            answered_ms[connection] = max(exchange.sent_ms, exchange.handled_ms)
        if exchange.api in ("DELETE_TOPICS", "END_TXN"):
            exchange.handled_ms = exchange.sent_ms
        handled.append(exchange)
    return sorted(handled, key=lambda exchange: exchange.handled_ms)


def _steady(exchanges: Iterable[Exchange]) -> Iterator[Exchange]:
    """Move the times behind a clock that was set back; a jump as far ahead sets it right."""
    latest_ms, back_ms = float("-inf"), 0.0  # of the log's clock, since it was last set
    for exchange in exchanges:
        step_ms = exchange.sent_ms - latest_ms
        if step_ms < -1000 * LogClock.SLACK_S:
            back_ms -= step_ms
            latest_ms = exchange.sent_ms
        elif 0 < back_ms <= step_ms:
            back_ms = 0.0
        latest_ms = max(latest_ms, exchange.sent_ms)
        exchange.came_ms += back_ms
        exchange.handled_ms += back_ms
        exchange.answered_ms += back_ms
        exchange.sent_ms += back_ms
        yield exchange
