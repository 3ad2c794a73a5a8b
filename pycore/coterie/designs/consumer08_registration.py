"""A consumer's registration: the text of its id node, and how others read it.

Source: 0.8.2.2's ``TopicCount``, ``TopicFilter``.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from coterie.errors import ArgumentError

INTERNAL_TOPICS = {"__consumer_offsets"}
STATIC, WHITE, BLACK = "static", "white_list", "black_list"
WHOLE = re.compile("-?[0-9]+")
BLANKS = "".join(map(chr, range(33)))  # removed by Java's trim


class Unreadable(ValueError):
    """The text of a node is not a registration."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A subscription: topics by name or by a filter, and the streams of each.

    Attributes
    ----------
    pattern
        ``static``, ``white_list`` or ``black_list``.
    streams
        Streams by topic in the given order, or by the filter's regular expression.
    """

    pattern: str
    streams: tuple[tuple[str, int], ...]

    @property
    def by_filter(self) -> bool:
        """Whether topics are chosen by a filter. An empty subscription counts as static."""
        return self.pattern in (WHITE, BLACK) and bool(self.streams)

    def topics(self, present: Iterable[str], *, exclude_internal: bool) -> dict[str, int]:
        """Return the streams of each subscribed topic; ``present`` has all topics."""
        if not self.by_filter:
            return dict(self.streams)
        ((text, count),) = self.streams
        matches = compiled(text).fullmatch
        white = self.pattern == WHITE
        return {
            topic: count
            for topic in present
            if bool(matches(topic)) == white and not (exclude_internal and topic in INTERNAL_TOPICS)
        }


@functools.lru_cache(maxsize=1024)
def compiled(text: str) -> re.Pattern[str]:
    return re.compile(text)


def filter_text(value: str) -> str:
    """Return a filter as Kafka stores it: commas become bars; spaces and outer quotes go."""
    text = value.strip(BLANKS).replace(",", "|").replace(" ", "").strip("\"'")
    try:
        compiled(text)
    except re.error as error:
        raise ArgumentError(f"{text!r} is not a regular expression: {error}") from None
    return text


def static(streams: Mapping[str, int]) -> Subscription:
    return Subscription(STATIC, tuple(streams.items()))


def by_filter(pattern: str, value: str, streams: int) -> Subscription:
    """Subscribe to topics that match a filter (``white_list``) or do not (``black_list``)."""
    return Subscription(pattern, ((filter_text(value), streams),))


def node_data(subscription: Subscription, timestamp_ms: int) -> str:
    streams = {
        json.dumps(key, ensure_ascii=False)[1:-1].replace("/", "\\/")
        if subscription.by_filter
        else key: count
        for key, count in subscription.streams
    }
    inner = ",".join(f'"{key}":{count}' for key, count in streams.items())
    return (
        f'{{"version":1,"subscription":{{{inner}}},"pattern":"{subscription.pattern}",'
        f'"timestamp":"{timestamp_ms}"}}'
    )


def read_json(text: str) -> Any:
    """Parse a JSON object or list as Kafka does; None if the text is neither.

    Raises
    ------
    Unreadable
        A number in it is not an int32. Source: 0.8.2.2's ``kafka.utils.Json``.
    """
    try:
        value = json.loads(text, parse_int=_int32, parse_float=_int32, parse_constant=_int32)
    except (json.JSONDecodeError, RecursionError):
        return None
    return value if isinstance(value, dict | list) else None


def _int32(text: str) -> int:
    if len(text) > 11 or not WHOLE.fullmatch(text) or not -(2**31) <= int(text) < 2**31:
        raise Unreadable(text)
    return int(text)


@functools.lru_cache(maxsize=4096)
def parse(data: str) -> Subscription:
    """Parse the text of an id node."""
    fields = read_json(data)
    if not isinstance(fields, dict):
        raise Unreadable(data)
    pattern, streams = fields.get("pattern"), fields.get("subscription")
    if not isinstance(pattern, str) or not isinstance(streams, dict):
        raise Unreadable(data)
    if any(type(count) is not int or count < 1 for count in streams.values()):
        raise Unreadable(data)
    subscription = Subscription(pattern, tuple(streams.items()))
    if not subscription.by_filter:
        return subscription
    text, count = subscription.streams[0]
    try:
        return by_filter(pattern, text, count)  # every reader makes a filter of it again
    except ArgumentError as error:
        raise Unreadable(data) from error
