"""What a broker's own logs say of rebalances: the reasons and the clients that records lack.

The server log has the coordinator's lines (3.x and 4.x word them a little differently), the
request log each JoinGroup and LeaveGroup with its client and, from KIP-800 on, its reason. Both
name groups, generations and member ids, by which they are matched to records; their times are
local ones of the broker, and settle only which of two equal generations is meant.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from coterie.insight.causes import RECORDS
from coterie.times import parse_time
from coterie.wire.exchanges import Exchange, exchanges

SERVER, REQUESTS = "server log", "request log"
PREPARING, ASSIGNED = "preparing", "assigned"
EVICTED, LEFT, JOINED, SEEN = "evicted", "left", "joined", "seen"
NO_REASON = {"not provided", "", None}
APIS = frozenset({"JOIN_GROUP", "LEAVE_GROUP"})
Row = dict[str, Any]

_LINE = re.compile(r"^\[(\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d[,.]\d{1,6})\] \w+ (.*)")
_SAYS = (  # what, pattern with the named parts of a Told
    (
        PREPARING,
        r"Preparing to rebalance group (?P<group>.+?) in state \w+ with old generation"
        r" (?P<generation>\d+) (?:\(\S+-\d+\) )?\(reason: (?P<detail>.*?)\)\.?(?: \(\S+\))?$",
    ),
    (
        ASSIGNED,
        r"Assignment received from leader (?P<member>\S+) for group (?P<group>.+?)"
        r" for generation (?P<generation>\d+)\.",
    ),
    (EVICTED, r"Member (?P<member>\S+) in group (?P<group>.+?) has failed, removing it"),
    (EVICTED, r"\[Group (?P<group>.+?)\] Member (?P<member>\S+) has failed, removing it"),
    (
        LEFT,
        r"Member MemberMetadata\(memberId=(?P<member>\S+?), .*\) has left group (?P<group>.+?)"
        r" through explicit `LeaveGroup`(?: request)?(?:; client reason: (?P<detail>.*?))?"
        r"(?: \(\S+\))?$",
    ),
    (
        LEFT,
        r"\[Group (?P<group>.+?)\] (?:\w+ )?[Mm]ember (?P<member>\S+) (?:with \S+ \S+ )?has left"
        r" group through explicit `LeaveGroup` request(?:; client reason: (?P<detail>.*?))?"
        r"(?: \(\S+\))?$",
    ),
)
SAYS = tuple((what, re.compile(pattern)) for what, pattern in _SAYS)


class Told(NamedTuple):
    """One thing that a log says. ``generation`` is the one that it led to, if it says so."""

    group: str
    what: str
    at_ms: int
    source: str
    generation: int | None = None
    member_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    detail: str | None = None


def read_server_log(lines: Iterable[str], zone: str = "Z") -> Iterator[Told]:
    """Yield what the coordinator's lines of a server log say; other lines are passed over.

    ``zone`` is that of the log's times, as ``+02:00``.
    """
    for line in lines:
        match = _LINE.match(line.rstrip())
        if match is None:
            continue
        for what, pattern in SAYS:
            said = pattern.search(match[2])
            if said is not None:
                parts = said.groupdict()
                number = parts.get("generation")
                led_to = None if number is None else int(number) + (what == PREPARING)
                yield Told(
                    parts["group"],
                    what,
                    parse_time(match[1] + zone),
                    SERVER,
                    led_to,
                    parts.get("member"),
                    detail=parts.get("detail"),
                )
                break


def read_request_log(lines: Iterable[str], zone: str = "Z") -> Iterator[Told]:
    """Yield who joined and left by a request log, and over what time it tells of each group.

    Raises
    ------
    CoterieError
        A line that is cut or changed.
    """
    shift_ms = parse_time(f"1970-01-01 00:00:00{zone}")
    seen: dict[str, list[int]] = {}
    for exchange in exchanges(lines, Counter(), APIS):
        at_ms = int(exchange.came_ms) + shift_ms
        group = exchange.request["groupId"]
        first_last = seen.setdefault(group, [at_ms, at_ms])
        first_last[:] = min(first_last[0], at_ms), max(first_last[1], at_ms)
        yield from _of_request(exchange, group, at_ms)
    for group, ends in seen.items():
        for end in ends:
            yield Told(group, SEEN, end, REQUESTS)


def _of_request(exchange: Exchange, group: str, at_ms: int) -> Iterator[Told]:
    asked, answer = exchange.request, exchange.response
    client = exchange.client_id, exchange.client_host
    if exchange.api == "JOIN_GROUP":
        if not answer["errorCode"]:
            member, reason = answer["memberId"], asked.get("reason")
            number = answer["generationId"]
            yield Told(group, JOINED, at_ms, REQUESTS, number, member, *client, reason)
    elif not answer["errorCode"]:
        for one in asked.get("members") or [asked]:
            key = one.get("memberId") or one.get("groupInstanceId")
            yield Told(group, LEFT, at_ms, REQUESTS, None, key, *client, one.get("reason"))


class Index:
    """What logs say of one group, by generation and by member."""

    def __init__(self, told: Iterable[Told]) -> None:
        self.by_generation: dict[tuple[str, int], list[Told]] = {}
        self.by_member: dict[str, list[Told]] = {}
        self.seen: list[int] = []
        self.joined: dict[str | None, Told] = {}
        for one in sorted(told, key=lambda one: one.at_ms):
            if one.what == JOINED:
                self.joined.setdefault(one.member_id, one)
            if one.what == SEEN:
                self.seen.append(one.at_ms)
            elif one.generation is not None:
                self.by_generation.setdefault((one.what, one.generation), []).append(one)
            elif one.member_id is not None:
                self.by_member.setdefault(one.member_id, []).append(one)

    def of(self, what: str, row: Row) -> list[Told]:
        """Return what is said of a row's generation, the nearest in time first."""
        found = self.by_generation.get((what, row["generation"]), [])
        at_ms = row["timestamp"]
        return found if at_ms is None else sorted(found, key=lambda one: abs(one.at_ms - at_ms))

    def tell(self, rows: list[Row]) -> None:
        """Put what the logs say into the rows of a timeline."""
        for before, row in zip([None, *rows], rows, strict=False):
            row["causes"] = [self._true_cause(one, before, row) for one in row["causes"]]
            preparing, assigned = self.of(PREPARING, row), self.of(ASSIGNED, row)
            if preparing:
                row["reason"] = preparing[0].detail
            if preparing and assigned and row["event"] == "generation":
                row["duration_ms"] = assigned[0].at_ms - preparing[0].at_ms
                row["duration_source"] = SERVER

    def _true_cause(self, cause: Row, before: Row | None, row: Row) -> Row:
        """Return a cause as a log tells it; as it is where none does."""
        if cause["source"] != RECORDS:
            return cause
        one = self.joined.get(cause["member_id"])
        if one is not None and cause["group_instance_id"] is not None:
            cause = {**cause, "client_id": one.client_id, "client_host": one.client_host}
            if cause["what"] == "replaced":
                return {**cause, "source": one.source}
        if cause["what"] in ("left_or_evicted", "restarted"):
            return self._departure(cause, before, row)
        if cause["what"] == "joined":
            for one in self.of(JOINED, row):
                if one.member_id == cause["member_id"] and one.detail not in NO_REASON:
                    return {**cause, "detail": one.detail, "source": one.source}
        if cause["what"] == "rejoined" and self.of(JOINED, row):
            first = min(self.of(JOINED, row), key=lambda one: one.at_ms)
            names = {name: getattr(first, name) for name in ("member_id", "client_id", "source")}
            reason = None if first.detail in NO_REASON else first.detail
            host = {"client_host": first.client_host, "detail": reason}
            return {**cause, "what": "rejoined_first", **names, **host}
        return cause

    def _departure(self, cause: Row, before: Row | None, row: Row) -> Row:
        gone = cause["member_id"] if cause["what"] == "left_or_evicted" else cause["detail"]
        for key in (gone, cause["group_instance_id"]):
            for one in self.by_member.get(key, ()):
                detail = None if one.detail in NO_REASON else one.detail
                if cause["what"] == "restarted":
                    how = "evicted" if one.what == EVICTED else "left"
                    return {**cause, "what": f"restarted_{how}", "source": one.source}
                return {**cause, "what": one.what, "detail": detail, "source": one.source}
        times = [before and before["timestamp"], row["timestamp"]]
        covered = self.seen and None not in times and self.seen[0] <= times[0]
        if covered and self.seen[-1] >= times[1] and cause["what"] == "left_or_evicted":
            return {**cause, "what": EVICTED, "detail": "no LeaveGroup came", "source": REQUESTS}
        return cause
