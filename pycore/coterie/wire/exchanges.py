"""Read a broker's request log: each request with its response and its times.

With ``kafka.request.logger`` at DEBUG, Kafka writes one JSON object for each request. The time of a
line is the time at which the response was sent; the request arrived ``totalTimeMs`` earlier. Source
of the format: ``RequestConvertToJson.scala``, the message JSON of each API.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

from coterie.base.log_layouts import LogReader
from coterie.errors import CoterieError
from coterie.wire.logged import as_logged

COMPLETED = "Completed request:"
_COMPLETED = re.compile(rf"{COMPLETED} ?(?=\{{)")
# HOST:PORT-HOST:PORT-INDEX, since 4.0 -PROCESSOR-INDEX; a host of IPv6 may stand in brackets.
_CONNECTION = re.compile(r"^(.+:\d+)-\[?([^\[\]]+?)\]?:\d+(?:-(\d+))?-(\d+)$")
_AFTER_THE_ANSWER = ("responseQueueTimeMs", "sendTimeMs")
_LONGEST_MS = 1e12  # above all that a broker waits
_decoder = json.JSONDecoder()


@dataclass(slots=True)
class Exchange:
    """One logged request with its response.

    ``connection`` is None if the log does not name one in a broker's form.
    """

    line: int
    came_ms: float
    handled_ms: float
    answered_ms: float  # by the coordinator; the response waits before it is sent
    sent_ms: float
    local_ms: float  # from handled_ms on, of the handler's thread; it may wait for a group's lock
    api: str
    version: int
    client_id: str
    client_host: str
    request: Any
    response: Any
    connection: Connection | None = None
    principal: str | None = None


class Connection(NamedTuple):
    """A connection to a broker. Each processor of a listener numbers its connections from 0."""

    name: str
    processor: tuple[str, str | None]  # the listener's address, and the processor's index if logged
    number: int


def exchanges(
    lines: Iterable[str | bytes],
    left_out: Counter[str],
    apis: frozenset[str] | None = None,
    zone: str = "Z",
    log: LogReader | None = None,
) -> Iterator[Exchange]:
    """Yield the completed requests of a log in order, and count other lines in ``left_out``.

    ``apis`` selects APIs by ``requestApiKeyName``; lines of other APIs are not parsed. ``zone`` is
    the time zone of the log: see ``coterie.base.times.LogClock``. ``log`` counts the completed
    requests, parsed or not, and the lines that should be one.

    Raises
    ------
    CoterieError
        A line is cut or not as Kafka writes it.
    """
    log = log or LogReader(zone)
    for number, raw in enumerate(lines, 1):
        line = raw.decode("utf-8", "replace") if isinstance(raw, bytes) else raw
        is_completed = COMPLETED in line
        read = log.read(line) if is_completed else None
        match = None if read is None else _COMPLETED.search(read.text)
        if read is None or match is None:
            if line.strip():
                left_out["lines that are no completed request"] += 1
                log.pass_over(number, line, missed=is_completed)
            continue
        log.understood += 1
        if apis is not None and not any(f'"{api}"' in read.text for api in apis):
            continue
        try:
            entry, _ = _decoder.raw_decode(read.text, match.end())
            header = entry["requestHeader"]
            sent_ms = read.at_ms
            came_ms = sent_ms - _duration_ms(entry, "totalTimeMs")
            name, api = entry.get("connection", ""), header["requestApiKeyName"]
            client_id = header.get("clientId") or ""
            if not all(type(text) is str for text in (name, api, client_id)):
                raise TypeError("connection, requestApiKeyName and clientId are text")
            parts = _CONNECTION.match(name)
            yield Exchange(
                number,
                came_ms,
                came_ms + _duration_ms(entry, "requestQueueTimeMs", 0.0),
                sent_ms - sum(_duration_ms(entry, name, 0.0) for name in _AFTER_THE_ANSWER),
                sent_ms,
                _duration_ms(entry, "localTimeMs", 0.0),
                api,
                int(header["requestApiVersion"]),
                client_id,
                "/" + (parts[2] if parts else "127.0.0.1"),
                entry["request"],
                entry["response"],
                parts and Connection(name, (parts[1], parts[3]), int(parts[4])),
                entry.get("principal"),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise CoterieError(
                f"line {number}: no completed request as Kafka logs it ({_wrong(error)}); "
                "give the log of kafka.request.logger at DEBUG"
            ) from None


def _duration_ms(entry: dict[str, Any], name: str, absent: float | None = None) -> float:
    value = float(entry[name] if absent is None else entry.get(name, absent))
    if not abs(value) < _LONGEST_MS:
        raise ValueError(f"{name} is {value}")
    return value


def by_the_table(exchange: Exchange) -> None:
    """Read a request and its response by the table of messages (``coterie.wire.logged``)."""
    api, version = exchange.api, exchange.version
    with as_kafka_logs_it(exchange):
        answered = [exchange.response] if exchange.response else []
        if not all(type(entry) is dict for entry in (exchange.request, *answered)):
            raise TypeError("a request and its response are objects")
        exchange.request = as_logged(api, "request", version, exchange.request)
        exchange.response = as_logged(api, "response", version, exchange.response)


@contextmanager
def as_kafka_logs_it(exchange: Exchange) -> Iterator[None]:
    """Raise an error in a request or a response again, with the line of the log."""
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CoterieError(
            f"line {exchange.line}: {exchange.api} version {exchange.version} is not as Kafka "
            f"logs it ({_wrong(error)})"
        ) from None


def _wrong(error: Exception) -> str:
    """Say what an error found; the text of a KeyError is only the key."""
    return f"it has no {error.args[0]}" if isinstance(error, KeyError) else str(error)
