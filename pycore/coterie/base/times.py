"""Parse and format times and durations. Only ``epoch_ms`` reads a clock."""

from __future__ import annotations

import functools
import re
import time
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import TypeAlias

from coterie._core.checks import whole
from coterie.errors import ArgumentError

Time: TypeAlias = "int | str | datetime | None"
"""Epoch ms, ISO 8601 with a zone, or a datetime with a zone."""
ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,9}))?)?"
    r"\s?(Z|z|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII,
)
LOG_ZONE = re.compile(r"Z|[+-]\d\d:?\d\d", re.ASCII)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MAX_MS = (1 << 63) - 1
MAX_DURATION_MS = ((1 << 31) - 1) * 60_000  # of offsets.retention.minutes: 4,085 years
FORMS = "write 2026-01-31T14:05:00Z, with +02:00 for another zone, or epoch milliseconds"


def epoch_ms() -> int:
    """Return the system time in ms since the epoch."""
    return time.time_ns() // 1_000_000


def parse_time(text: str) -> int:
    """Parse ISO 8601 with a zone, or epoch milliseconds; return epoch ms, truncated.

    Raises
    ------
    ValueError
        ``text`` is not a time, or has no zone; the message says how to write it.
    """
    text = text.strip()
    if re.fullmatch(r"[+-]?[0-9]+", text):
        if abs(int(text)) > MAX_MS:
            raise ValueError(f"{text!r} is beyond any time; {FORMS}")
        return int(text)
    match = ISO.fullmatch(text)
    if not match:
        raise ValueError(f"{text!r} is not a time; {FORMS}")
    *fields, fraction, zone = match.groups()
    if zone is None:
        raise ValueError(f"{text!r} has no zone: add Z, or +02:00; {FORMS}")
    try:
        year, month, day, hour, minute, second = (int(field or 0) for field in fields)
        local = datetime(year, month, day, hour, minute, second, tzinfo=_zone(zone))
        since = local - EPOCH
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{text!r} is not a time: {error}; {FORMS}") from error
    return since // timedelta(milliseconds=1) + int((fraction or "0").ljust(3, "0")[:3])


def time_ms(at: Time, name: str = "at") -> int | None:
    """Return a time in epoch ms; ``name`` is its argument's, for the message.

    Raises
    ------
    ArgumentError
        It is no time, or a text or datetime without a zone.
    """
    if at is None:
        return None
    if not isinstance(at, datetime | str):
        return whole(at, name)
    if isinstance(at, datetime):
        if at.tzinfo is None:
            raise ArgumentError(f"{at} has no time zone: give a datetime with tzinfo")
        at = at.isoformat(timespec="milliseconds")
    try:
        return parse_time(at)
    except ValueError as error:
        raise ArgumentError(str(error)) from None


def _zone(text: str) -> timezone:
    if text in "Zz":
        return UTC
    hours, minutes = int(text[1:3]), int(text[-2:]) if len(text) > 3 else 0
    if hours > 18 or minutes > 59:
        raise ValueError(f"no zone is {text}")
    offset = timedelta(hours=hours, minutes=minutes)
    return timezone(-offset if text[0] == "-" else offset)


class LogClock:
    """Converts the local times of one log's lines, which have no zone, to epoch ms.

    When summer time ends, some local times occur twice. The first occurrence is taken, unless it
    would be before the previous line.

    Parameters
    ----------
    zone : str
        ``Z``, ``+02:00``, or a name such as ``Europe/Berlin``.

    Raises
    ------
    ValueError
        ``zone`` is not a zone.
    """

    SLACK_S = 5  # lines of several threads may be out of order by this much

    def __init__(self, zone: str = "Z") -> None:
        self.zone = log_zone(zone)
        self.latest_s = float("-inf")

    def ms(self, text: str) -> float:
        """Convert the time of the next line, as ``2026-01-31 14:05:00,123``, to epoch ms.

        The date may have slashes; log4j also writes ``31 Jan 2026`` and ``20260131T140500``. A zone
        in the text (``Z``, ``+02:00``, ``+0200``, ``UTC``) counts instead of the log's.
        """
        end, form = 19, ""
        if text[8:9] == "T":
            end, form = 15, "%Y%m%dT%H%M%S"
        elif text[2:3] == " ":
            end, form = 20, "%d %b %Y %H:%M:%S"
        whole = (
            datetime.strptime(text[:end], form).replace(tzinfo=self.zone)
            if form
            else datetime.fromisoformat(text[:end].replace("/", "-"))
        )
        fraction, zone = _rest(text[end:])
        if zone:
            own = whole.replace(tzinfo=_zone(zone.replace("UTC", "Z")))
            return own.timestamp() * 1000 + float(f"0.{fraction or 0}") * 1000
        moment = whole.replace(tzinfo=self.zone)
        at_s = moment.timestamp()
        if at_s < self.latest_s - self.SLACK_S:
            at_s = max(at_s, moment.replace(fold=1).timestamp())
        self.latest_s = max(self.latest_s, at_s)
        return at_s * 1000 + float(f"0.{fraction or 0}") * 1000


def _rest(text: str) -> tuple[str, str]:
    """Return the fraction and the zone after the seconds of a log's time."""
    match = re.fullmatch(r"(?:[.,](\d+))? ?(Z|UTC|[+-]\d\d:?\d\d)?", text, re.ASCII)
    if match is None:
        raise ValueError(f"{text!r} is no fraction of a second and no zone")
    return match[1] or "", match[2] or ""


def log_zone(text: str) -> tzinfo:
    """Return the zone of an offset or a name; see :class:`LogClock`."""
    if LOG_ZONE.fullmatch(text):
        return _zone(text)
    from zoneinfo import ZoneInfo  # few commands need it

    try:
        return ZoneInfo(text)
    except (ValueError, KeyError, OSError) as error:  # not a name, an unknown name, a folder
        raise ValueError(
            f"{text!r} is no zone; write +02:00, Z, or a name such as Europe/Berlin "
            "(which needs the system's tz database or the package tzdata)"
        ) from error


def format_time(epoch_ms: int) -> str:
    """Format epoch ms as ISO 8601 in UTC, with milliseconds."""
    try:
        moment = EPOCH + timedelta(milliseconds=epoch_ms)
    except OverflowError:
        return f"{epoch_ms} ms"
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{epoch_ms % 1000:03d}Z"


UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?(?:(\d+)ms)?", re.ASCII)


def parse_duration(text: str) -> int:
    """Parse a duration such as ``7d``, ``1h30m`` or ``250ms``; return ms.

    Raises
    ------
    ValueError
        ``text`` is not a duration, or too long; the message says how to write it.
    """
    match = DURATION.fullmatch(text.strip())
    if not match or not any(match.groups()):
        raise ValueError(f"{text!r} is no duration; write 7d, 1h30m, 10s or 250ms")
    units = ("d", "h", "m", "s", "ms")
    length = sum(int(n or 0) * UNITS_MS[u] for n, u in zip(match.groups(), units, strict=True))
    if length > MAX_DURATION_MS:
        longest = format_duration(MAX_DURATION_MS)
        raise ValueError(f"{text!r} is longer than {longest}, Kafka's longest retention; write 7d")
    return length


@functools.lru_cache(maxsize=1 << 12)  # durations repeat within a table
def format_duration(length_ms: int) -> str:
    """Format ms as its two greatest units, truncated: ``6d4h``. A negative one begins with ``-``.

    :func:`parse_duration` reverses it for a length of at most two units.
    """
    left, parts = abs(length_ms), []
    for unit in ("d", "h", "m", "s", "ms"):
        count, left = divmod(left, UNITS_MS[unit])
        if count:
            parts.append(f"{count}{unit}")
        elif parts:
            break
        if len(parts) == 2:
            break
    return ("-" if length_ms < 0 else "") + ("".join(parts) or "0s")


def clock(at_ms: int) -> str:
    """Return a time of a virtual clock as MINUTES:SECONDS."""
    minutes, ms = divmod(at_ms, 60_000)
    return f"{minutes}:{ms // 1000:02}.{ms % 1000:03}"
