"""What a broker's own logs say of rebalances: the reasons and the clients that records lack.

The server log has the coordinator's lines (3.x and 4.x word them a little differently), the
request log each JoinGroup and LeaveGroup with its client and, from KIP-800 on, its reason, and the
heartbeats of the newer protocols. Both name groups, generations, member and instance ids, by which
they are matched to records; their times are local ones of the broker, and settle only which of two
equal ones is meant.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any, NamedTuple

from coterie.insight.groups.causes import RECORDS, in_words
from coterie.times import LogClock
from coterie.wire.apis import name_of
from coterie.wire.exchanges import Exchange, as_kafka_logs_it, by_the_table, exchanges

SERVER, REQUESTS = "server log", "request log"
PREPARING, ASSIGNED = "preparing", "assigned"
EVICTED, LEFT, JOINED, SEEN = "evicted", "left", "joined", "seen"
LOADED = "loaded"
REPLACED, REFUSED = "replaced", "refused"
# What a client says where it has no reason, and where it was told to come with an id.
NO_REASON = re.compile(r"(not provided|need to re-join with the given member-id.*)?")
HEARTBEATS = {f"{kind}_GROUP_HEARTBEAT" for kind in ("CONSUMER", "SHARE", "STREAMS")}
APIS = frozenset({"JOIN_GROUP", "LEAVE_GROUP", *HEARTBEATS})
CLOCK_MS = 2  # within this, a request log does not tell which of two requests came first
JOINING, LEAVING = 0, -1  # member epochs of a heartbeat
CLASSIC = ("generation", "empty", "rewritten", "static_replacement")  # rows of generations
NO_REFUSAL = {  # answers to a join that a client meets in the course of things
    *("NONE", "MEMBER_ID_REQUIRED", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS"),
    *("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"),
}
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
    (
        REPLACED,
        r"Static member with groupInstanceId=(?P<instance>\S+) and unknown member id (?:re)?joins"
        r" group (?P<group>.+?) in \w+ state\. (?P<detail>Replacing previously mapped member"
        r" (?P<member>\S+) with this groupInstanceId)",
    ),
    (
        REPLACED,
        r"\[GroupId (?P<group>.+?)\] Static member with instance id (?P<instance>\S+) re-joins the"
        r" \w+ group using the \w+ protocol\. (?P<detail>Created a new member \S+ to replace the"
        r" existing member (?P<member>\S+?))\.?(?: \(\S+\))?$",
    ),
    (
        LOADED,  # of no group; in the place of a generation: the partition of the topic
        r"Finished loading (?:of|offsets and group) metadata from"
        r" __consumer_offsets-(?P<generation>\d+)",
    ),
    (EVICTED, r"Member (?P<member>\S+) in group (?P<group>.+?) has failed, removing it"),
    (EVICTED, r"\[Group (?P<group>.+?)\] Member (?P<member>\S+) has failed, removing it"),
    (
        EVICTED,
        r"\[GroupId (?P<group>.+?)\] (?:Streams m|M)ember (?P<member>\S+) fenced from the group"
        r" because (?P<detail>.*?)\.?(?: \(\S+\))?$",
    ),
    (
        LEFT,
        r"Member MemberMetadata\(memberId=(?P<member>\S+?), .*\) has left group (?P<group>.+?)"
        r" through explicit `LeaveGroup`(?: request)?(?:; client reason: (?P<detail>.*?))?"
        r"(?: \(\S+\))?$",
    ),
    (
        LEFT,
        r"\[Group(?:Id)? (?P<group>.+?)\] (?:\w+ )?[Mm]ember (?P<member>\S+)"
        r" (?:with instance id \S+ )?has left group through explicit"
        r" `LeaveGroup` request(?:; client reason: (?P<detail>.*?))?(?: \(\S+\))?$",
    ),
    (
        LEFT,
        r"\[GroupId (?P<group>.+?)\](?:\[MemberId \S+\])? (?:Static )?[Mm]ember (?P<member>\S+)"
        r" (?:with instance id \S+ )?left the \w+ group",
    ),
)
SAYS = tuple((what, re.compile(pattern)) for what, pattern in _SAYS)


class BrokerLogLine(NamedTuple):
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
    instance_id: str | None = None


def read_server_log(lines: Iterable[str], zone: str = "Z") -> Iterator[BrokerLogLine]:
    """Yield what the coordinator's lines of a server log say; other lines are passed over.

    ``zone`` is that of the log's times, see ``coterie.times.LogClock``.
    """
    clock = LogClock(zone)
    for line in lines:
        match = _LINE.match(line.rstrip())
        if match is None:
            continue
        at_ms = int(clock.ms(match[1]))
        for what, pattern in SAYS:
            said = pattern.search(match[2])
            if said is not None:
                parts = said.groupdict()
                number = parts.get("generation")
                led_to = None if number is None else int(number) + (what == PREPARING)
                yield BrokerLogLine(
                    parts.get("group", ""),
                    what,
                    at_ms,
                    SERVER,
                    led_to,
                    parts.get("member"),
                    detail=parts.get("detail"),
                    instance_id=parts.get("instance"),
                )
                break


def read_request_log(lines: Iterable[str], zone: str = "Z") -> Iterator[BrokerLogLine]:
    """Yield who joined and left by a request log, and over what time it tells of each group.

    Raises
    ------
    CoterieError
        A line that is cut or changed, or lacks a field that its version has.
    """
    seen: dict[str, list[int]] = {}
    for exchange in exchanges(lines, Counter(), APIS, zone):
        at_ms = int(exchange.came_ms)
        by_the_table(exchange)
        with as_kafka_logs_it(exchange):
            group = exchange.request["groupId"]
            first_last = seen.setdefault(group, [at_ms, at_ms])
            told = list(_of_request(exchange, group, at_ms))
        first_last[:] = min(first_last[0], at_ms), max(first_last[1], at_ms)
        yield from told
    for group, ends in seen.items():
        for end in ends:
            yield BrokerLogLine(group, SEEN, end, REQUESTS)


def _of_request(exchange: Exchange, group: str, at_ms: int) -> Iterator[BrokerLogLine]:
    asked, answer = exchange.request, exchange.response
    if not answer:  # what Kafka logs where it closed the connection instead
        return
    client = exchange.client_id, exchange.client_host
    error, instance = name_of(answer["errorCode"]), asked.get("groupInstanceId")
    if exchange.api in HEARTBEATS:
        instance = asked.get("instanceId")
        if asked["memberEpoch"] == LEAVING and error == "NONE":
            yield BrokerLogLine(group, LEFT, at_ms, REQUESTS, None, asked["memberId"], *client)
    elif exchange.api == "LEAVE_GROUP" and error == "NONE":
        for one in asked.get("members") or [asked]:
            key, told = one.get("memberId") or None, one.get("reason")
            names = key, *client, told, one.get("groupInstanceId")
            yield BrokerLogLine(group, LEFT, at_ms, REQUESTS, None, *names)
    elif exchange.api == "JOIN_GROUP" and error == "NONE":
        names = answer["memberId"], *client, asked.get("reason"), instance
        yield BrokerLogLine(group, JOINED, at_ms, REQUESTS, answer["generationId"], *names)
    joining = exchange.api == "JOIN_GROUP" or asked.get("memberEpoch") == JOINING
    if joining and error not in NO_REFUSAL:
        detail = error
        if error == "INCONSISTENT_GROUP_PROTOCOL" and asked.get("protocols"):
            offers = ", ".join(protocol["name"] for protocol in asked["protocols"])
            detail += f"; it offers {asked['protocolType']}: {offers}"
        names = asked.get("memberId") or None, *client, detail, instance
        yield BrokerLogLine(group, REFUSED, at_ms, REQUESTS, None, *names)


class Index:
    """What logs say of one group, by generation, by member and by instance id."""

    def __init__(self, told: Iterable[BrokerLogLine]) -> None:
        self.by_generation: dict[tuple[str, int], list[BrokerLogLine]] = {}
        self.by_member: dict[str, list[BrokerLogLine]] = {}
        self.by_instance: dict[str, list[BrokerLogLine]] = {}
        self.replaced: dict[
            tuple[str, str], list[BrokerLogLine]
        ] = {}  # by instance and old member id
        self.refused: list[BrokerLogLine] = []
        self.seen: list[int] = []
        self.joined: dict[str | None, BrokerLogLine] = {}
        for one in sorted(told, key=lambda one: one.at_ms):
            if one.what == JOINED:
                self.joined.setdefault(one.member_id, one)
            if one.what == SEEN:
                self.seen.append(one.at_ms)
            elif one.what == REFUSED:
                self.refused.append(one)
            elif one.what == REPLACED:
                key = one.instance_id or "", one.member_id or ""
                self.replaced.setdefault(key, []).append(one)
            elif one.generation is not None:
                self.by_generation.setdefault((one.what, one.generation), []).append(one)
            elif one.member_id is not None:
                self.by_member.setdefault(one.member_id, []).append(one)
            elif one.instance_id is not None:
                self.by_instance.setdefault(one.instance_id, []).append(one)

    def of(self, what: str, row: Row) -> list[BrokerLogLine]:
        """Return what is said of a row's generation, the nearest in time first."""
        if row["event"] not in CLASSIC:  # an epoch counts by itself
            return []
        return nearest(self.by_generation.get((what, row["generation"]), []), row["timestamp"])

    def tell(self, rows: list[Row]) -> None:
        """Put what the logs say into the rows of a timeline, which stand in order of the log."""
        for before, row in zip([None, *rows], rows, strict=False):
            row["causes"] = [self._true_cause(one, before, row) for one in row["causes"]]
            if row["event"] == "static_replacement":
                row["reason"] = self._replacement(row)
                continue
            preparing, assigned = self.of(PREPARING, row), self.of(ASSIGNED, row)
            if preparing:
                row["reason"] = preparing[0].detail
            if preparing and assigned and row["event"] == "generation":
                row["duration_ms"] = assigned[0].at_ms - preparing[0].at_ms
                row["duration_source"] = SERVER

    def _replacement(self, row: Row) -> str | None:
        """Return what the coordinator says of the static members that a row replaces."""
        said = []
        for cause in row["causes"]:
            if cause["what"] == "replaced":
                key = cause["group_instance_id"], cause["detail"]
                said += nearest(self.replaced.get(key, []), row["timestamp"])[:1]
        return "; ".join(filter(None, (one.detail for one in said))) or None

    def with_refusals(self, rows: list[Row]) -> list[Row]:
        """Return rows with the refused joins between them, those of one client as one row."""
        latest = list(accumulate((row["timestamp"] or 0 for row in rows), max))
        places: dict[int, dict[Any, list[BrokerLogLine]]] = {}
        for one in self.refused:
            who = one.client_id, one.client_host, one.instance_id, one.detail
            theirs = places.setdefault(bisect_right(latest, one.at_ms), {})
            theirs.setdefault(who, []).append(one)
        found: list[Row] = []
        for place in range(len(rows) + 1):
            found += [_refused(theirs) for theirs in places.get(place, {}).values()]
            found += rows[place : place + 1]
        return found

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
                if one.member_id == cause["member_id"] and reason_of(one):
                    return {**cause, "detail": reason_of(one), "source": one.source}
        if cause["what"] == "rejoined" and self.of(JOINED, row):
            first = self._first_to_join(row)
            named = ("member_id", "client_id", "client_host", "source")
            names = {name: getattr(first, name) for name in named}
            names |= {"group_instance_id": first.instance_id, "detail": reason_of(first)}
            return {**cause, "what": "rejoined_first", **names}
        return cause

    def _first_to_join(self, row: Row) -> BrokerLogLine:
        """Return the join that began a rebalance: the coordinator's word before the clock's.

        A request log has whole milliseconds. Of joins that came in the same, one of the leader
        begins a rebalance at any time, one of another member only with another subscription.
        """
        joined = sorted(self.of(JOINED, row), key=lambda one: one.at_ms)
        said = [one.detail or "" for one in self.of(PREPARING, row)[:1]]
        for one in joined:
            if said and one.member_id and one.member_id in said[0]:
                return one
        at_once = [one for one in joined if one.at_ms <= joined[0].at_ms + CLOCK_MS]
        return next((one for one in at_once if one.member_id == row.get("leader")), joined[0])

    def _departure(self, cause: Row, before: Row | None, row: Row) -> Row:
        gone = cause["member_id"] if cause["what"] == "left_or_evicted" else cause["detail"]
        times = [before and before["timestamp"], row["timestamp"]]
        said = self.by_member.get(gone) or self._by_instance(cause["group_instance_id"], times)
        for one in said[:1]:
            detail = reason_of(one)
            if cause["what"] == "restarted":
                how = "evicted" if one.what == EVICTED else "left"
                return {**cause, "what": f"restarted_{how}", "source": one.source}
            return {**cause, "what": one.what, "detail": detail, "source": one.source}
        covered = self.seen and None not in times and self.seen[0] <= times[0]
        if covered and self.seen[-1] >= times[1] and cause["what"] == "left_or_evicted":
            return {**cause, "what": EVICTED, "detail": "no LeaveGroup came", "source": REQUESTS}
        return cause

    def _by_instance(self, instance: str | None, times: list[int | None]) -> list[BrokerLogLine]:
        """Return what is said of an instance id alone, as by the tool that removes members.

        The id outlives its members, so only what was said since the row before counts.
        """
        began, ended = times
        return [
            one
            for one in self.by_instance.get(instance or "", ())
            if (began is None or one.at_ms >= began) and (ended is None or one.at_ms <= ended)
        ]


def reason_of(one: BrokerLogLine) -> str | None:
    """Return what was given as a reason, if it is one."""
    return None if NO_REASON.fullmatch(one.detail or "") else one.detail


def nearest(told: list[BrokerLogLine], at_ms: int | None) -> list[BrokerLogLine]:
    """Return what was said, the nearest in time first."""
    return told if at_ms is None else sorted(told, key=lambda one: abs(one.at_ms - at_ms))


def _refused(theirs: list[BrokerLogLine]) -> Row:
    """Return the row of joins that a client was refused, between two others."""
    one = theirs[0]
    cause = {
        "what": REFUSED,
        "member_id": one.member_id,
        "client_id": one.client_id,
        "client_host": one.client_host,
        "group_instance_id": one.instance_id,
        "detail": one.detail,
        "source": one.source,
    }
    return {
        "event": REFUSED,
        "timestamp": one.at_ms,
        "until": theirs[-1].at_ms,
        "log_offset": None,
        "count": len(theirs),
        "cause": in_words([cause]),
        "causes": [cause],
    }
