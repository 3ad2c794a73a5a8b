"""How members left, as far as the times of records and commits suggest.

A record does not say whether a member left or was evicted. Three patterns suggest it:

- A client leaves when its application has not polled for ``max.poll.interval.ms``, which is its
  rebalance timeout. So members that leave that long after they joined, or after their last commit,
  suggest poll timeouts.
- A consumer that is closed commits, if it commits automatically, and leaves at once. So a last
  commit right before the departure suggests a clean close.
- A member that is gone without leaving is evicted a session timeout after its last heartbeat. So a
  last commit that long before the departure suggests an eviction.

Sources: AbstractCoordinator.HeartbeatThread, ConsumerCoordinator.close, ClassicGroup.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from coterie.insight.groups.causes import RECORDS, RESTARTED, counted

DEPARTURES = "departures"
POLL_TIMEOUT, CLEAN_CLOSE, EVICTION = "poll timeout", "clean close", "eviction"
EITHER = "poll timeout or eviction"
WAYS = (POLL_TIMEOUT, CLEAN_CLOSE, EVICTION, EITHER)
SLACK_MS = 1_000  # between a departure and the end of the joins that it causes
WRITE_MS = 500  # from a poll to the record of the commit that it sends
COMMITS_MS = 5_000  # Kafka's auto.commit.interval.ms
HEARTBEAT_MS = 3_000  # Kafka's heartbeat.interval.ms: until then, the others join again
HEARTBEATS = 3  # in a session: Kafka's defaults, and its advice
Place = tuple[str, int]
Row = dict[str, Any]


class Departure(NamedTuple):
    """A member that is gone.

    ``gone_ms``: when all others had joined without it; ``joined_ms``: the time of the last
    generation that it joined; ``committed_ms``: the last commit of a partition that it owned, None:
    there is none. ``log_offset``: of the record that lacks it. ``others_joined``: in that record,
    so the group may have waited for the member until its rebalance timeout.
    """

    member_id: str
    gone_ms: int
    joined_ms: int
    committed_ms: int | None
    session_timeout_ms: int
    rebalance_timeout_ms: int
    log_offset: int
    others_joined: bool = False

    @property
    def stayed_ms(self) -> int:
        """How long it was a member of its last generation."""
        return self.gone_ms - self.joined_ms

    @property
    def silent_ms(self) -> int | None:
        """How long it had not committed."""
        return None if self.committed_ms is None else self.gone_ms - self.committed_ms


def suggested(departure: Departure) -> str | None:
    """Return how a member left, as the times suggest; None: they do not."""
    session_ms, timeout_ms = departure.session_timeout_ms, departure.rebalance_timeout_ms
    silent_ms = departure.silent_ms
    if silent_ms is not None and 0 <= silent_ms <= min(HEARTBEAT_MS + SLACK_MS, session_ms // 2):
        return CLEAN_CLOSE
    late_ms = COMMITS_MS + SLACK_MS
    # A member that is dead may be gone a rebalance timeout later, too: a session after its join,
    # or when a rebalance that others began has waited for it in vain.
    if stayed_out(departure):
        died_early = session_ms <= departure.stayed_ms <= session_ms + late_ms
        return EITHER if died_early or departure.others_joined else POLL_TIMEOUT
    if silent_ms is None:
        return None
    # A consumer commits when it polls, so its last commit is no later than its last poll.
    polled_last = timeout_ms - WRITE_MS <= silent_ms <= timeout_ms + late_ms
    expired = session_ms - session_ms // HEARTBEATS <= silent_ms <= session_ms + late_ms
    if polled_last:
        return EITHER if expired or departure.others_joined else POLL_TIMEOUT
    return EVICTION if expired else None


def stayed_out(departure: Departure) -> bool:
    """Whether a member was gone a rebalance timeout after it joined, without a commit."""
    timeout_ms, stayed_ms = departure.rebalance_timeout_ms, departure.stayed_ms
    slack_ms = max(SLACK_MS, timeout_ms // 10)
    silent_ms = departure.silent_ms
    has_not_polled = silent_ms is None or silent_ms >= stayed_ms - SLACK_MS
    return has_not_polled and timeout_ms <= stayed_ms <= timeout_ms + slack_ms


def reason(what: str, departures: list[Departure]) -> str:
    timeouts = between([d.rebalance_timeout_ms for d in departures])
    sessions = between([d.session_timeout_ms for d in departures])
    silent = between([d.silent_ms or 0 for d in departures])
    if what in (POLL_TIMEOUT, EITHER):
        stayed = between([d.stayed_ms for d in departures])
        without_commit = all(map(stayed_out, departures))
        since = (
            f"gone {stayed} after the join" if without_commit else f"last commit {silent} before"
        )
        also = f" and a session timeout of {sessions}" if what == EITHER else ""
        return f"{since}, with a rebalance timeout of {timeouts}{also}"
    if what == EVICTION:
        return f"last commit {silent} before, with a session timeout of {sessions}"
    return f"last commit {silent} before"


def between(times_ms: list[int]) -> str:
    least, most = (f"{ms / 1000:.1f}" for ms in (min(times_ms), max(times_ms)))
    return f"{least} s" if least == most else f"{least} to {most} s"


def add_suggestions(row: Row, departures: Mapping[str, Departure]) -> bool:
    """Add to a row and its causes how its members seem to have left; return whether a cause has it.

    The row gets ``suggested``: one of ``WAYS`` by member id.
    """
    ways = {member_id: suggested(departure) for member_id, departure in departures.items()}
    row["suggested"] = {member_id: way for member_id, way in ways.items() if way is not None}
    by_way: dict[str, list[tuple[Row, Departure]]] = {}
    for cause in row["causes"]:
        departure = departures.get(cause["member_id"])
        if departure is None or (cause["what"], cause["source"]) != ("left_or_evicted", RECORDS):
            continue
        what = ways[cause["member_id"]]
        if what is not None:
            by_way.setdefault(what, []).append((cause, departure))
    for what, alike in by_way.items():
        text = reason(what, [departure for _, departure in alike])
        for cause, _ in alike:
            cause["detail"] = f"perhaps {named(what, len(alike))} ({text})"
    return bool(by_way)


def ways_of(row: Row) -> dict[str, str]:
    """Return how the members that a row lacks left: one of ``WAYS`` by member id.

    As a broker's log says, else as the times suggest; those of which neither is known are left out.
    """
    ways = dict(row.get("suggested") or {})
    for cause in row["causes"]:
        member_id = cause["detail"] if cause["what"] in RESTARTED else cause["member_id"]
        if cause["what"] in ("evicted", "restarted_evicted"):
            ways[member_id] = EVICTION
        elif cause["what"] in ("left", "restarted_left"):
            # The client's reason: "consumer poll timeout has expired."
            ways[member_id] = (
                POLL_TIMEOUT if POLL_TIMEOUT in (cause["detail"] or "") else CLEAN_CLOSE
            )
    return ways


def named(what: str, number: int) -> str:
    article = "an" if what[0] in "aeiou" else "a"
    if what == EITHER:
        return "a poll timeout or an eviction" if number == 1 else "poll timeouts or evictions"
    return f"{article} {what}" if number == 1 else f"{what}s"


def summary(departures: Iterable[Departure]) -> Iterator[Row]:
    """Yield a row for each way in which members seem to have left."""
    every = list(departures)
    by_way: dict[str, list[Departure]] = {}
    for departure in every:
        what = suggested(departure)
        if what is not None:
            by_way.setdefault(what, []).append(departure)
    for what, alike in sorted(by_way.items(), key=lambda item: -len(item[1])):
        times = [departure.gone_ms for departure in alike]
        verb = "suggests" if len(alike) == 1 else "suggest"
        hint = " (the application did not poll for max.poll.interval.ms)"
        yield {
            "event": DEPARTURES,
            "timestamp": min(times),
            "until": max(times),
            "cause": f"{len(alike)} of {counted(len(every), 'departure')} {verb} "
            f"{named(what, len(alike))}: {reason(what, alike)}"
            f"{hint if what == POLL_TIMEOUT else ''}",
            "count": len(alike),
        }
