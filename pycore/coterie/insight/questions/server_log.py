"""Read the lines about rebalances in a broker's own logs: reasons and clients that records lack.

The server log has the coordinator's lines (``phrases`` has their words by release). The request log
has each JoinGroup and LeaveGroup with its client and, since KIP-800, its reason, and the
heartbeats of the newer protocols. Both name groups, generations, member ids and instance ids,
which match them to records. Their times are the broker's local times; they only decide between two
equal lines.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import Any

from coterie.base.log_layouts import LogReader
from coterie.insight.groups.causes import RECORDS, in_words, who
from coterie.insight.offsets.rewinds import OUTSIDE, UNKNOWN, WHO
from coterie.insight.questions import removal_lines
from coterie.insight.questions.server_log_lines import REQUESTS, SERVER, BrokerLogLine
from coterie.insight.questions.server_log_phrases import (
    ASSIGNED,
    EVICTED,
    LEFT,
    OF_COORDINATOR,
    PREPARING,
    REPLACED,
    is_unknown,
    server_lines,
)
from coterie.wire.apis import name_of
from coterie.wire.exchanges import COMPLETED, Exchange, as_kafka_logs_it, by_the_table, exchanges

JOINED, SEEN, REFUSED, COMMITTED = "joined", "seen", "refused", "committed"
# The text of a client without a reason, and of one that joins again with its new member id.
NO_REASON = re.compile(r"(not provided|need to re-join with the given member-id.*)?")
HEARTBEATS = {f"{kind}_GROUP_HEARTBEAT" for kind in ("CONSUMER", "SHARE", "STREAMS")}
APIS = frozenset({"JOIN_GROUP", "LEAVE_GROUP", "OFFSET_COMMIT", *HEARTBEATS})
REFUSALS_APART_MS = 600_000  # a client that is refused again later than this is another event
CLOCK_MS = 2  # within this, a request log does not show which of two requests came first
JOINING, LEAVING = 0, -1  # member epochs of a heartbeat
CLASSIC = ("generation", "empty", "rewritten", "static_replacement")  # rows of generations
NO_REFUSAL = {  # responses to a join in normal operation
    *("NONE", "MEMBER_ID_REQUIRED", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS"),
    *("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "NOT_COORDINATOR"),
}
Row = dict[str, Any]


def read_server_log(
    lines: Iterable[str], zone: str = "Z", log: LogReader | None = None
) -> Iterator[BrokerLogLine]:
    """Yield the coordinator's lines of a server log; other lines are skipped.

    ``zone``: the time zone of the log; see ``coterie.base.times.LogClock``. ``log`` counts the
    lines that are understood, and those about groups that are not. A line of a request log is
    neither.
    """
    log = log or LogReader(zone)
    for number, line in enumerate(lines, 1):
        if COMPLETED in line:
            log.pass_over(number, line, missed=False)
            continue
        is_coordinators = OF_COORDINATOR.search(line) is not None
        if not is_coordinators and log.understood:
            continue
        read = log.read(line)
        if read is None:
            log.pass_over(number, line, missed=is_coordinators)
            continue
        log.understood += 1
        statements = list(server_lines(read.text, int(read.at_ms)))
        is_detail = read.level in ("DEBUG", "TRACE")
        if not statements and is_coordinators and not is_detail and is_unknown(read.text):
            log.pass_over(number, line, missed=True)
        yield from statements


def read_request_log(
    lines: Iterable[str], zone: str = "Z", log: LogReader | None = None
) -> Iterator[BrokerLogLine]:
    """Yield joins, leaves and deletions, and the time that a request log covers for each group.

    ``zone`` and ``log``: see :func:`read_server_log`.

    Raises
    ------
    CoterieError
        A line is cut off or changed, or lacks a field of its version.
    """
    covered: dict[str, list[int]] = {}
    for exchange in exchanges(lines, Counter(), APIS | removal_lines.APIS, zone, log):
        at_ms = int(exchange.came_ms)
        is_commit = exchange.api == "OFFSET_COMMIT"
        if is_commit and not _is_outside(exchange):
            continue
        by_the_table(exchange)
        with as_kafka_logs_it(exchange):
            if is_commit:
                yield from _committed(exchange)
                continue
            if exchange.api in removal_lines.APIS:
                yield from list(removal_lines.request_lines(exchange))
                continue
            group = exchange.request["groupId"]
            first_last = covered.setdefault(group, [at_ms, at_ms])
            group_lines = list(_of_request(exchange, group, at_ms))
        first_last[:] = min(first_last[0], at_ms), max(first_last[1], at_ms)
        yield from group_lines
    for group, first_last in covered.items():
        for at_ms in first_last:
            yield BrokerLogLine(group, SEEN, at_ms, REQUESTS)


def _is_outside(exchange: Exchange) -> bool:
    """Whether a commit names no member: only then is it worth reading."""
    request = exchange.request
    return not isinstance(request, dict) or not request.get("memberId")


def _committed(exchange: Exchange) -> Iterator[BrokerLogLine]:
    """Yield a commit by a client outside of the group, if any of its offsets was accepted."""
    if exchange.response and any(
        not partition["errorCode"]
        for topic in exchange.response["topics"]
        for partition in topic["partitions"]
    ):
        yield BrokerLogLine(
            exchange.request["groupId"],
            COMMITTED,
            int(exchange.came_ms),
            REQUESTS,
            None,
            None,
            exchange.client_id,
            exchange.client_host,
            exchange.principal,
            until_ms=int(exchange.sent_ms),
        )


def _of_request(exchange: Exchange, group: str, at_ms: int) -> Iterator[BrokerLogLine]:
    request, response = exchange.request, exchange.response
    if not response:  # Kafka logs none if it closed the connection instead
        return
    client = exchange.client_id, exchange.client_host
    error, instance = name_of(response["errorCode"]), request.get("groupInstanceId")
    if exchange.api in HEARTBEATS:
        instance = request.get("instanceId")
        if request["memberEpoch"] == LEAVING and error == "NONE":
            yield BrokerLogLine(group, LEFT, at_ms, REQUESTS, None, request["memberId"], *client)
    elif exchange.api == "LEAVE_GROUP" and error == "NONE":
        for member in request.get("members") or [request]:
            member_id, reason = member.get("memberId") or None, member.get("reason")
            fields = member_id, *client, reason, member.get("groupInstanceId")
            yield BrokerLogLine(group, LEFT, at_ms, REQUESTS, None, *fields)
    elif exchange.api == "JOIN_GROUP" and error == "NONE":
        fields = response["memberId"], *client, request.get("reason"), instance
        yield BrokerLogLine(group, JOINED, at_ms, REQUESTS, response["generationId"], *fields)
    joining = exchange.api == "JOIN_GROUP" or request.get("memberEpoch") == JOINING
    if joining and error not in NO_REFUSAL:
        detail = error
        if error == "INCONSISTENT_GROUP_PROTOCOL" and request.get("protocols"):
            offers = ", ".join(protocol["name"] for protocol in request["protocols"])
            detail += f"; it offers {request['protocolType']}: {offers}"
        fields = request.get("memberId") or None, *client, detail, instance
        yield BrokerLogLine(group, REFUSED, at_ms, REQUESTS, None, *fields)


class BrokerLogIndex:
    """The lines about one group, by generation, member id and instance id."""

    def __init__(self, lines: Iterable[BrokerLogLine]) -> None:
        self.by_generation: dict[tuple[str, int], list[BrokerLogLine]] = {}
        self.by_member: dict[str, list[BrokerLogLine]] = {}
        self.by_instance: dict[str, list[BrokerLogLine]] = {}
        # By instance id and old member id.
        self.replaced: dict[tuple[str, str], list[BrokerLogLine]] = {}
        self.refused: list[BrokerLogLine] = []
        self.committed: list[BrokerLogLine] = []
        self.seen: list[int] = []
        self.joined: dict[str | None, BrokerLogLine] = {}
        for line in sorted(lines, key=lambda line: line.at_ms):
            if line.what == JOINED:
                self.joined.setdefault(line.member_id, line)
            if line.what == SEEN:
                self.seen.append(line.at_ms)
            elif line.what == REFUSED:
                self.refused.append(line)
            elif line.what == COMMITTED:
                self.committed.append(line)
            elif line.what == REPLACED:
                key = line.instance_id or "", line.member_id or ""
                self.replaced.setdefault(key, []).append(line)
            elif line.generation is not None:
                self.by_generation.setdefault((line.what, line.generation), []).append(line)
            elif line.member_id is not None:
                self.by_member.setdefault(line.member_id, []).append(line)
            elif line.instance_id is not None:
                self.by_instance.setdefault(line.instance_id, []).append(line)

    def of(self, what: str, row: Row) -> list[BrokerLogLine]:
        """Return the lines about a row's generation, the nearest in time first."""
        if row["event"] not in CLASSIC:  # epochs are numbered separately
            return []
        return nearest(self.by_generation.get((what, row["generation"]), []), row["timestamp"])

    def annotate(self, rows: list[Row]) -> None:
        """Add what the logs say to the rows of a timeline, which are in log order."""
        for before, row in zip([None, *rows], rows, strict=False):
            row["causes"] = [self._annotated_cause(cause, before, row) for cause in row["causes"]]
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
        """Return the coordinator's text about the static members that a row replaces."""
        lines = []
        for cause in row["causes"]:
            if cause["what"] == "replaced":
                key = cause["group_instance_id"], cause["detail"]
                lines += nearest(self.replaced.get(key, []), row["timestamp"])[:1]
        return "; ".join(filter(None, (line.detail for line in lines))) or None

    def with_refusals(self, rows: list[Row]) -> list[Row]:
        """Insert the refused joins; those of one client with one error share a row."""
        latest = list(accumulate((row["timestamp"] or 0 for row in rows), max))
        series: dict[Any, list[BrokerLogLine]] = {}  # the last of each client and error
        places: dict[int, list[list[BrokerLogLine]]] = {}
        for line in self.refused:
            refusal = line.client_id, line.client_host, line.instance_id, line.detail
            alike = series.get(refusal)
            if alike is not None and line.at_ms - alike[-1].at_ms <= REFUSALS_APART_MS:
                alike.append(line)
                continue
            series[refusal] = [line]
            places.setdefault(bisect_right(latest, line.at_ms), []).append(series[refusal])
        merged: list[Row] = []
        for place in range(len(rows) + 1):
            merged += map(_refused, places.get(place, ()))
            merged += rows[place : place + 1]
        return merged

    def with_committer(self, row: Row) -> Row:
        """Return the row of a reset or a rewind with the client that sent it, if a log names it.

        A row of a member's commit is not changed: these lines are of clients outside of the group.
        """
        near_ms = removal_lines.NEAR_MS
        for line in nearest(self.committed, row["timestamp"])[:1]:
            until_ms = (line.until_ms or line.at_ms) + near_ms
            if row["timestamp"] is None or not line.at_ms - near_ms <= row["timestamp"] <= until_ms:
                continue
            cause = _cause_of(line)
            by = f"by {who(cause)}" + (f" as {line.detail}" if line.detail else "")
            for unknown in (WHO[OUTSIDE], WHO[UNKNOWN]):
                if unknown in row["cause"]:
                    text = f"{by}, outside of the group [{line.source}]"
                    return row | {"cause": row["cause"].replace(unknown, text), "causes": [cause]}
        return row

    def _annotated_cause(self, cause: Row, before: Row | None, row: Row) -> Row:
        """Return a cause with what the logs say about it; unchanged if they say nothing."""
        if cause["source"] != RECORDS:
            return cause
        line = self.joined.get(cause["member_id"])
        if line is not None and cause["group_instance_id"] is not None:
            cause = {**cause, "client_id": line.client_id, "client_host": line.client_host}
            if cause["what"] == "replaced":
                return {**cause, "source": line.source}
        if cause["what"] in ("left_or_evicted", "restarted"):
            return self._departure(cause, before, row)
        if cause["what"] == "joined":
            for line in self.of(JOINED, row):
                if line.member_id == cause["member_id"] and reason_of(line):
                    return {**cause, "detail": reason_of(line), "source": line.source}
        if cause["what"] == "rejoined" and self.of(JOINED, row):
            first_join = self._first_to_join(row)
            copied = ("member_id", "client_id", "client_host", "source")
            values = {name: getattr(first_join, name) for name in copied}
            values |= {"group_instance_id": first_join.instance_id, "detail": reason_of(first_join)}
            return {**cause, "what": "rejoined_first", **values}
        return cause

    def _first_to_join(self, row: Row) -> BrokerLogLine:
        """Return the join that began a rebalance: as the coordinator says, else by time.

        A request log has whole milliseconds. Among simultaneous joins, the leader's comes first: it
        always begins a rebalance, another member's does only with another subscription.
        """
        joins = sorted(self.of(JOINED, row), key=lambda line: line.at_ms)
        reasons = [line.detail or "" for line in self.of(PREPARING, row)[:1]]
        for line in joins:
            if reasons and line.member_id and line.member_id in reasons[0]:
                return line
        simultaneous = [line for line in joins if line.at_ms <= joins[0].at_ms + CLOCK_MS]
        return next(
            (line for line in simultaneous if line.member_id == row.get("leader")), joins[0]
        )

    def _departure(self, cause: Row, before: Row | None, row: Row) -> Row:
        member_id = cause["member_id"] if cause["what"] == "left_or_evicted" else cause["detail"]
        times = [before and before["timestamp"], row["timestamp"]]
        lines = self.by_member.get(member_id) or self._by_instance(
            cause["group_instance_id"], times
        )
        for line in lines[:1]:
            detail = reason_of(line)
            if cause["what"] == "restarted":
                how = "evicted" if line.what == EVICTED else "left"
                return {**cause, "what": f"restarted_{how}", "source": line.source}
            return {**cause, "what": line.what, "detail": detail, "source": line.source}
        covered = self.seen and None not in times and self.seen[0] <= times[0]
        if covered and self.seen[-1] >= times[1] and cause["what"] == "left_or_evicted":
            return {**cause, "what": EVICTED, "detail": "no LeaveGroup came", "source": REQUESTS}
        return cause

    def _by_instance(self, instance: str | None, times: list[int | None]) -> list[BrokerLogLine]:
        """Return lines with only an instance id, as from the tool that removes members.

        The id outlives its members, so only lines since the row before count.
        """
        began, ended = times
        return [
            line
            for line in self.by_instance.get(instance or "", ())
            if (began is None or line.at_ms >= began) and (ended is None or line.at_ms <= ended)
        ]


def reason_of(line: BrokerLogLine) -> str | None:
    """Return the client's reason; None: the client gave none."""
    return None if NO_REASON.fullmatch(line.detail or "") else line.detail


def nearest(lines: list[BrokerLogLine], at_ms: int | None) -> list[BrokerLogLine]:
    """Return lines, the nearest in time first."""
    return lines if at_ms is None else sorted(lines, key=lambda line: abs(line.at_ms - at_ms))


def _refused(lines: list[BrokerLogLine]) -> Row:
    first = lines[0]
    cause = _cause_of(first)
    times = f", {len(lines):,} times" if len(lines) > 1 else ""
    return {
        "event": REFUSED,
        "timestamp": first.at_ms,
        "until": lines[-1].at_ms,
        "log_offset": None,
        "count": len(lines),
        "cause": in_words([cause]) + times,
        "causes": [cause],
    }


def _cause_of(line: BrokerLogLine) -> Row:
    """Return the cause that a line of a client's request is."""
    return {
        "what": line.what,
        "member_id": line.member_id,
        "client_id": line.client_id,
        "client_host": line.client_host,
        "group_instance_id": line.instance_id,
        "detail": line.detail,
        "source": line.source,
    }
