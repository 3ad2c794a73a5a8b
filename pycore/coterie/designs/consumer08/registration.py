"""What a consumer says of itself in its id node, and what others read there.

Source: 0.8.2.2's ``TopicCount``, ``TopicFilter``.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from coterie.errors import ArgumentError

INTERNAL_TOPICS = {"__consumer_offsets"}
STATIC, WHITE, BLACK = "static", "white_list", "black_list"


class Unreadable(ValueError):
    """An id node that is not a registration."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """What a consumer subscribes to: topics, or topics by a filter, and streams of each.

    Attributes
    ----------
    pattern
        ``static``, ``white_list`` or ``black_list``.
    streams
        Streams by topic, or by the one filter's regular expression; in the order given.
    """

    pattern: str
    streams: tuple[tuple[str, int], ...]

    @property
    def by_filter(self) -> bool:
        """Whether topics are named by a filter. An empty one is static, whatever it says."""
        return self.pattern in (WHITE, BLACK) and bool(self.streams)

    def topics(self, present: Iterable[str], *, exclude_internal: bool) -> dict[str, int]:
        """Return the streams of each topic that it takes in, given the topics there are."""
        if not self.by_filter:
            return dict(self.streams)
        text, count = self.streams[0]
        matches = compiled(text).fullmatch
        white = self.pattern == WHITE
        return {
            topic: count
            for topic in present
            if bool(matches(topic)) == white and not (exclude_internal and topic in INTERNAL_TOPICS)
        }


@functools.lru_cache(maxsize=1024)
def compiled(text: str) -> re.Pattern[str]:
    """Compile a filter's regular expression."""
    return re.compile(text)


def filter_text(given: str) -> str:
    """Return a filter as Kafka keeps it: commas are bars; spaces and quotes around it go.

    Raises
    ------
    ArgumentError
        It is not a regular expression.
    """
    text = given.strip().replace(",", "|").replace(" ", "").strip("\"'")
    try:
        compiled(text)
    except re.error as error:
        raise ArgumentError(f"{text!r} is not a regular expression: {error}") from None
    return text


def static(streams: Mapping[str, int]) -> Subscription:
    """Subscribe to topics by name."""
    return Subscription(STATIC, tuple(streams.items()))


def by_filter(pattern: str, given: str, streams: int) -> Subscription:
    """Subscribe to what a filter allows (``white_list``) or does not name (``black_list``)."""
    return Subscription(pattern, ((filter_text(given), streams),))


def node_data(subscription: Subscription, timestamp_ms: int) -> str:
    """Return the text of an id node."""
    shown = {
        json.dumps(key, ensure_ascii=False)[1:-1].replace("/", "\\/")
        if subscription.by_filter
        else key: count
        for key, count in subscription.streams
    }
    inner = ",".join(f'"{key}":{count}' for key, count in shown.items())
    return (
        f'{{"version":1,"subscription":{{{inner}}},"pattern":"{subscription.pattern}",'
        f'"timestamp":"{timestamp_ms}"}}'
    )


@functools.lru_cache(maxsize=4096)
def parse(data: str) -> Subscription:
    """Read an id node's text.

    Raises
    ------
    Unreadable
        It is no registration.
    """
    try:
        fields = json.loads(data)
        pattern, streams = fields["pattern"], fields["subscription"]
        counts = tuple((str(topic), int(count)) for topic, count in streams.items())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise Unreadable(data) from error
    subscription = Subscription(str(pattern), counts)
    if any(count < 1 for _, count in counts):
        raise Unreadable(data)
    if subscription.by_filter:
        try:
            compiled(counts[0][0])
        except re.error as error:
            raise Unreadable(data) from error
    return subscription
