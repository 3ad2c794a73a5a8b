"""Split the lines of a broker's own log into time, level and text, in whatever layout they are.

A line may have been through several hands: log4j wrote it by a pattern or as JSON, and a container
runtime, ``kubectl``, ``docker compose`` or journald put its own time and names before it. The
broker's own time counts: the last one before the level. ``LAYOUTS`` has the patterns,
``JSON_TIMES`` and ``JSON_TEXTS`` the fields. A line without a date is in none of these layouts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any, NamedTuple

from coterie.base.times import LogClock

_TIME = (  # ISO 8601, also without marks, and log4j's DATE
    r"(?:\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d|\d{8}T\d{6}"
    r"|\d\d [A-Z][a-z][a-z] \d{4} \d\d:\d\d:\d\d)"
    r"(?:[.,]\d{1,9})?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d)\b)?"
)
_LEVEL = r"\b(?:TRACE|DEBUG|INFO|WARN|WARNING|ERROR|FATAL)\b"
_BEFORE = rf"(?:(?!{_LEVEL}).)"  # a character before the level
LAYOUTS = (  # name, pattern: the first that matches
    # The standard pattern of Apache and Confluent: "[%d] %p %m (%c)%n".
    ("Apache", rf"\[(?P<time>{_TIME})\] (?P<level>{_LEVEL}) +(?P<text>.*)"),
    # log4j2's JsonTemplateLayout, logstash, ECS, GELF; a runtime's JSON around another line;
    # also an element of an array, on a line of its own.
    ("JSON", rf"(?:(?!{_LEVEL})[^{{]){{0,400}}(?P<json>\{{.*\}})[\s,\]]*"),
    (
        "level, time",
        rf"{_BEFORE}{{0,400}}(?P<level>{_LEVEL})\]?[:|]?\s+\[?(?P<time>{_TIME})\]?\s+(?P<text>.*)",
    ),
    # Strimzi's "%d{{ISO8601}} %p %m (%c) [%t]%n", and all patterns with the time before the level;
    # with the prefixes of kubectl, docker compose, CRI and journald.
    (
        "time, level",
        rf"{_BEFORE}{{0,400}}(?<![\d:.])(?P<time>{_TIME})"
        rf"{_BEFORE}{{0,400}}?(?P<level>{_LEVEL})(?:\]?[:|]?\s+|[,;])(?P<text>.*)",
    ),
    (  # log4j2's UNIX and UNIX_MILLIS
        "number, level",
        rf"(?P<number>\d{{10}}(?:\.\d{{1,9}})?|\d{{13}})\b"
        rf"{_BEFORE}{{0,400}}?(?P<level>{_LEVEL})(?:\]?[:|]?\s+|[,;])(?P<text>.*)",
    ),
    ("time", rf".{{0,120}}(?<![\d:.])(?P<time>{_TIME})\]?(?P<level>) +(?P<text>.*)"),
)
# Names of fields, in lower case.
JSON_TIMES = (
    *("@timestamp", "timestamp", "time", "instant", "timemillis", "ts", "datetime", "date"),
    *("__realtime_timestamp", "_time", "timeunixnano", "timegenerated", "eventtime", "@t"),
)
JSON_LEVELS = ("level", "log.level", "severity", "severitytext")
JSON_TEXTS = (
    *("message", "msg", "short_message", "log", "textpayload", "_raw"),
    *("line", "body", "event"),  # logcli of Loki, OpenTelemetry, Splunk's collector
    *("stringvalue", "logmessage", "logentry", "text", "content", "@m"),
)
_OBJECTS_MAX = 100  # in a line, that are searched for a text
_COLOURS = re.compile(r"\x1b\[[\d;]*m")
_PATTERNS = tuple(re.compile(pattern, re.DOTALL | re.ASCII) for _, pattern in LAYOUTS)
_ONE_TIME = re.compile(_TIME, re.ASCII)
_CSV_FIELD = re.compile(r'"(?:[^"]|"")*"')
_LOGFMT = re.compile(r'(?:\w+=\S* )*(?:msg|message)=("(?:[^"\\]|\\.)*")', re.ASCII)
SHOWN = 160  # characters of an example


class LogLine(NamedTuple):
    """A line of a broker's log; ``level`` is empty if it has none."""

    at_ms: float
    level: str
    text: str


class LogReader:
    """Reads the lines of one log, and counts those that nobody understands.

    Parameters
    ----------
    zone : str
        The zone of times without one; see ``coterie.base.times.LogClock``.

    Attributes
    ----------
    understood : int
        The lines in a known layout. Readers of one kind of line count only that kind.
    missed : int
        The lines that should have been understood.
    example : str
        The first of them, with its number: ``line 3: ...``; if there is none, the first line that
        is not understood. Empty: each line is.
    """

    def __init__(self, zone: str = "Z") -> None:
        self.clock = LogClock(zone)
        self.understood = self.missed = 0
        self.example = ""

    def read(self, line: str) -> LogLine | None:
        """Split a line; None: it is in no known layout."""
        if "\x1b" in line:
            line = _COLOURS.sub("", line)
        for pattern in _PATTERNS:
            match = pattern.fullmatch(line.rstrip())
            if match is None:
                continue
            fields = match.groupdict()
            if "json" in fields:
                of_json = self._json(fields["json"])
                if of_json is not None:
                    return of_json
                continue
            at_ms = self._time(fields.get("time") or fields["number"])
            if at_ms is None:  # no such day, or a number that is no time
                return None
            return LogLine(at_ms, fields["level"], _unquoted(fields["text"]))
        return None

    def search(
        self, lines: Iterable[str], pattern: re.Pattern[str]
    ) -> Iterator[tuple[float, re.Match[str]]]:
        """Yield the time of each line with a pattern, and the match in its text."""
        for line in lines:
            read = self.read(line) if pattern.search(line) else None
            match = None if read is None else pattern.search(read.text)
            if read is not None and match is not None:
                yield read.at_ms, match

    def pass_over(self, number: int, line: str, *, missed: bool) -> None:
        """Take a line that is not understood; ``missed``: it should have been."""
        if line.strip() and (not self.example or (missed and not self.missed)):
            text = line.strip()
            self.example = f"line {number}: {text[:SHOWN] + '…' if len(text) > SHOWN else text}"
        self.missed += missed

    def _json(self, text: str) -> LogLine | None:
        try:
            entry = json.loads(text)
        except (ValueError, RecursionError):
            return None
        objects = _objects_to_text(entry)
        message = next(_strings(objects[:1], JSON_TEXTS), None)
        if message is None:
            return None
        inner = self.read(message)  # a runtime's JSON has a whole line of the broker
        if inner is not None:
            return inner
        at_ms = next(filter(None, map(self._time, _values(objects, JSON_TIMES))), None)
        level = next(_strings(objects, JSON_LEVELS), "").upper()
        return None if at_ms is None else LogLine(at_ms, level, message.rstrip())

    def _time(self, value: Any) -> float | None:
        """Return a time of JSON in ms: ISO 8601, log4j2's instant, or a number in some unit."""
        if isinstance(value, dict):
            second, nanos = value.get("epochSecond"), value.get("nanoOfSecond", 0)
            if isinstance(second, int) and isinstance(nanos, int):
                return second * 1000 + nanos / 1_000_000
            return None
        try:
            if isinstance(value, str) and _ONE_TIME.fullmatch(value):
                return self.clock.ms(value)
            number = float(value)
        except (TypeError, ValueError):
            return None
        if not 1e8 < number < 1e20:
            return None
        for least, per_ms in ((1e17, 1e6), (1e14, 1e3), (1e11, 1)):  # ns, us, ms; or seconds
            if number > least:
                return number / per_ms
        return number * 1000


def _unquoted(text: str) -> str:
    """Return a text without the quotation marks of CSV or logfmt, which escape its own."""
    if _CSV_FIELD.fullmatch(text):
        return text[1:-1].replace('""', '"')
    match = _LOGFMT.match(text) if '="' in text else None
    try:
        return text if match is None else str(json.loads(match[1]))
    except ValueError:
        return text


def _objects_to_text(entry: Any) -> list[dict[str, Any]]:
    """Return the outermost object that has a text, and those around it, from inside out.

    A pipeline may have put the broker's JSON into its own, as ``_source`` or ``jsonPayload``.
    """
    queue: list[list[dict[str, Any]]] = [[entry]] if isinstance(entry, dict) else []
    for inside, *around in islice(queue, _OBJECTS_MAX):
        own = {name.lower(): _plain(value) for name, value in inside.items()}
        if any(_strings([own], JSON_TEXTS)):
            return [own, *around]
        queue += [[value, own, *around] for value in own.values() if isinstance(value, dict)]
    return []


def _plain(value: Any) -> Any:
    """Return the text that a store has as a list of one, or journald as a list of bytes."""
    if isinstance(value, list) and len(value) == 1:
        return value[0]
    if isinstance(value, list) and value and all(type(one) is int for one in value):
        try:
            return bytes(value).decode("utf-8", "replace")
        except ValueError:
            return value
    return value


def _values(objects: list[dict[str, Any]], names: tuple[str, ...]) -> Iterator[Any]:
    """Yield the values of the objects' fields; a dot leads into an object if no field has it."""
    for fields in objects:
        for name in names:
            if name in fields:
                yield fields[name]
            outer, _, inner = name.partition(".")
            if inner and isinstance(fields.get(outer), dict):
                yield from _values([fields[outer]], (inner,))


def _strings(objects: list[dict[str, Any]], names: tuple[str, ...]) -> Iterator[str]:
    return (value for value in _values(objects, names) if isinstance(value, str))
