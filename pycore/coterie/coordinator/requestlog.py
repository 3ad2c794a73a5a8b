"""Import a broker's request log as a trace: the clients' requests, and the broker's responses.

With ``kafka.request.logger`` at DEBUG, Kafka writes one JSON object per request. The time of a line
is the time at which the response was sent. The request arrived ``totalTimeMs`` before. The broker's
member ids (prefix and random UUID) become ``PREFIX-N``, in the order in which they were assigned.
A log with consumer groups becomes a trace of version 2, with the cluster's topics (``topics.py``).
Share and streams groups are left out as a whole. A restart of the broker becomes a failover;
otherwise sessions would end in the trace while the broker was down.
Sources: ``RequestConvertToJson.scala``, the message JSON of each API.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from coterie.consumer_groups import encode_topic_id
from coterie.coordinator.answered_order import EVENTS_MAX, LinesOf, in_answered_order, run_of
from coterie.coordinator.arrivals import in_order
from coterie.coordinator.close_requests import Step
from coterie.coordinator.config import CLASSIC_ONLY, DEFAULTS, REPLAYING, coordinator_config
from coterie.coordinator.restarts import Outage, outages
from coterie.coordinator.shown_settings import TRIED, Shown, shown_settings, tried_settings
from coterie.coordinator.trace_removals import Removal, shows_deletion
from coterie.coordinator.trace_topics import LoggedTopics
from coterie.errors import CoterieError
from coterie.values import Error
from coterie.wire.apis import READERS
from coterie.wire.exchanges import Exchange, as_kafka_logs_it, by_the_table, exchanges

# Errors of a broker that did not pass the request, or the item, to its coordinator.
_NOT_PASSED_ON = {
    Error.COORDINATOR_NOT_AVAILABLE.name: "the coordinator was not ready",
    Error.COORDINATOR_LOAD_IN_PROGRESS.name: "the coordinator was not ready",
    Error.NOT_COORDINATOR.name: "the coordinator was not ready",
    Error.GROUP_AUTHORIZATION_FAILED.name: "refused before the coordinator",
    Error.TOPIC_AUTHORIZATION_FAILED.name: "refused before the coordinator",
    Error.TRANSACTIONAL_ID_AUTHORIZATION_FAILED.name: "refused before the coordinator",
    Error.UNKNOWN_TOPIC_OR_PARTITION.name: "refused before the coordinator",
    Error.UNKNOWN_TOPIC_ID.name: "refused before the coordinator",
    Error.UNSUPPORTED_VERSION.name: "refused before the coordinator",
}
_OF_VERSION_2 = {  # fields of events that traces of version 1 do not have
    "offset_commit": ("version", "retention_time_ms"),
    "offset_fetch": ("member_id", "member_epoch"),
    "describe_group": ("version",),
    "list_groups": ("types",),
}
_NEEDED = (  # where a log has the first, it has one of the others; else what that costs
    ("SYNC_GROUP", ("JOIN_GROUP",), "members are unknown, and their requests are refused"),
    ("HEARTBEAT", ("JOIN_GROUP",), "members are unknown, and their requests are refused"),
    ("JOIN_GROUP", ("SYNC_GROUP",), "groups get no assignment"),
    ("JOIN_GROUP", ("HEARTBEAT",), "sessions end in the trace that did not end on the broker"),
    ("TXN_OFFSET_COMMIT", ("WRITE_TXN_MARKERS", "END_TXN"), "transactions stay open"),
)
_INITIAL_DELAY = "group.initial.rebalance.delay.ms"
_BEFORE_AN_ID = Error.INVALID_SESSION_TIMEOUT.name  # checked before a consumer group makes an id

HEARTBEATS, DESCRIBES = (
    frozenset(f"{kind}_GROUP_{what}" for kind in ("CONSUMER", "SHARE", "STREAMS"))
    for what in ("HEARTBEAT", "DESCRIBE")
)
READ = frozenset(READERS) | HEARTBEATS | DESCRIBES
SESSION_MS = 10_000
# No request is at the time 0 of a trace, even if it is moved: a target made then counts as none.
_BEFORE_MS = 2
_MADE = bytes.fromhex("000000000000400080")  # how the ids begin that consumer groups make


@dataclass(slots=True)
class ImportedTrace:
    """A trace, and the broker's responses as its expected output.

    Attributes
    ----------
    trace, expected : list of dict
        The lines; ``expected`` has only responses, at the times of the log.
    left_out : Counter
        Requests that are not in the trace, by reason.
    start : str
        The broker's time at the trace's time 0.
    outages : list of tuple of str
        (last response before, first request after) each outage, in the broker's time.
    shown : list of Shown
        Settings that the broker's answers contradict.
    wrong : int or None
        How many answers of the trace's run differ from the broker's; None: it cannot be run.
    compared : int
        The answers of which that many differ; fewer than all if the log is too long to be run.
    tried : int
        The first events, on which settings were tried; 0: all, or no answer differs.
    missing : dict
        APIs that the broker did not log although clients used them, and what that costs.
    """

    trace: list[dict[str, Any]] = field(default_factory=list)
    expected: list[dict[str, Any]] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    start: str = ""
    outages: list[tuple[str, str]] = field(default_factory=list)
    shown: list[Shown] = field(default_factory=list)
    wrong: int | None = None
    compared: int = 0
    tried: int = 0
    missing: dict[str, str] = field(default_factory=dict)


class MemberIds:
    """Maps the broker's member ids to those of the trace."""

    def __init__(self) -> None:
        self.trace_ids: dict[str, str] = {}

    def hand_out(self, member_id: str, prefix: str | None) -> None:
        """Map an id to the next number; the empty id of an unanswered join takes one, too.

        ``prefix`` is None for an id that a consumer group made: it is a UUID, as in a trace.
        """
        number = len(self.trace_ids) + 1
        self.trace_ids[member_id or f"\0{number}"] = (
            encode_topic_id(_MADE + number.to_bytes(7, "big"))
            if prefix is None
            else f"{prefix}-{number:08d}"
        )

    def map(self, value: Any) -> Any:
        """Return a copy of a JSON value with the known member ids replaced."""
        if isinstance(value, dict):
            return {
                key: self.trace_ids.get(item, item)
                if key in ("member_id", "leader") and isinstance(item, str)
                else self.map(item)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [self.map(item) for item in value]
        return value


def import_request_log(
    lines: Iterable[str | bytes],
    config: dict[str, Any] | None = None,
    name: str = "imported",
    started_ms: Collection[float] = (),
    removals: Collection[Removal] = (),
) -> ImportedTrace:
    """Make a trace of a broker's request log.

    Parameters
    ----------
    lines
        The log. Other lines than completed requests are counted and skipped.
    config
        The broker's settings, which are not in the log.
    started_ms
        The broker's starts, from its server log (``coterie.coordinator.restarts.started_times``).
    removals
        When it removed offsets, from its server log (``coterie.coordinator.trace_removals``).

    Raises
    ------
    CoterieError
        A line is truncated or damaged, or the log has no request of a group.
    """
    out = ImportedTrace()
    by_time = in_order(exchanges(lines, out.left_out))
    config = dict(config or {})
    newer = _left_out_groups(by_time, config)
    classic_only = {**DEFAULTS, **config}["coterie.behaviour"] in CLASSIC_ONLY
    topics = _topics(by_time)
    steps = _steps(out, by_time, newer, removals)
    for _, event, answer in steps:
        (_as_version_1 if classic_only else _as_version_2)(event, answer or {})
    if not steps:
        raise CoterieError("the log holds no request that a group coordinator answered")
    out.missing = _missing(steps)
    first_ms = int(min(exchange.handled_ms for exchange, _, _ in steps))
    start_ms = first_ms if classic_only else first_ms - _BEFORE_MS
    out.start = _clock(start_ms)
    header: dict[str, Any] = {
        "format": "coterie-trace",
        "version": 1 if classic_only else 2,
        "name": name,
        "doc": f"A broker's request log, from {out.start} of its clock on.",
        "config": _settings(steps, config),
    }
    # A line's time is cut to milliseconds: the removal stands at the end of its own.
    own = [(one.at_ms + 1, _removed(one)) for one in removals if one.at_ms >= start_ms]
    if not classic_only:
        header |= topics.header
        own += [(max(at_ms, start_ms), event) for at_ms, event in topics.changes]
    downs = _within(steps, outages(by_time, started_ms))
    out.outages = [(_clock(down.last_ms), _clock(down.first_ms)) for down in downs]

    def lines_of(
        steps: list[Step], ended: Collection[Outage]
    ) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
        failovers = [(at_ms, {"op": "failover"}) for at_ms in _failovers(steps, downs, ended)]
        by_itself = sorted(failovers + own, key=lambda entry: entry[0])
        trace, expected = _lines(steps, by_itself, start_ms)
        return [header, *trace], expected

    of_steps = partial(lines_of, ended=_with_ended_sessions(steps, downs, lines_of))
    complete = coordinator_config(header["config"])
    out.shown = shown_settings(steps, complete, downs, removals, topics.absent_ms)
    ordered, out.wrong = _answered_order(steps, of_steps, start_ms, header["config"])
    out.trace, out.expected = of_steps(ordered)
    _try_settings(out)
    return out


def _missing(steps: list[Step]) -> dict[str, str]:
    """Return the APIs that clients used, as others show, and that are not in a log."""
    there = {
        exchange.api for exchange, _, answer in steps if not answer or answer["error"] == "NONE"
    }
    return {
        needed[0]: cost
        for api, needed, cost in _NEEDED
        if api in there and there.isdisjoint(needed)
    }


def _try_settings(out: ImportedTrace) -> None:
    """Try settings on a trace, with those that its answers show; on its first events if it is long.

    The answers until then do not depend on what came later.
    """
    out.compared = len(out.expected)
    if out.wrong == 0:  # the settings fit, whatever else would
        out.shown = []
        return
    header, *trace = out.trace
    most = EVENTS_MAX // (1 + sum(map(len, TRIED.values())))
    trace, end = trace[:most], trace[most:]
    expected = out.expected
    if end:
        out.tried = most
        ids = {event.get("id") for event in trace}
        expected = [line for line in expected if line["id"] in ids and line["at"] < end[0]["at"]]

    def wrong_of(settings: dict[str, Any]) -> int | None:
        run = run_of([header | {"config": settings}, *trace], expected)
        return None if run is None else len(run.wrong)

    if out.wrong is None:
        out.wrong, out.compared = wrong_of(header["config"]), len(expected)
    shown = {one.name: one.value for one in out.shown}
    out.shown += tried_settings(header["config"] | shown, wrong_of)


def _answered_order(
    steps: list[Step], lines_of: LinesOf, start_ms: int, config: dict[str, Any]
) -> tuple[list[Step], int | None]:
    """Return the steps in the order and at the times that the answers show, and the wrong answers.

    ``config`` is that of the trace. An initial delay of 0 becomes 1 if the answers show one:
    without a delay no second member can come before the timer, however late it fires.
    """
    ordered, wrong = in_answered_order(steps, lines_of, start_ms)
    if not wrong or config.get(_INITIAL_DELAY) != 0:
        return ordered, wrong
    config[_INITIAL_DELAY] = 1
    delayed, still_wrong = in_answered_order(steps, lines_of, start_ms)
    if still_wrong is not None and still_wrong < wrong:
        return delayed, still_wrong
    config[_INITIAL_DELAY] = 0
    return ordered, wrong


def _steps(
    out: ImportedTrace,
    by_time: list[Exchange],
    newer: Collection[str],
    removals: Collection[Removal],
) -> list[Step]:
    """Return the requests that the coordinator got, in order; count what is left out."""
    steps: list[Step] = []
    groups: dict[str, dict[str, Any]] = {}
    committed: set[tuple[str, int]] = set()
    markers = any(exchange.api == "WRITE_TXN_MARKERS" for exchange in by_time)
    for exchange in by_time:
        with as_kafka_logs_it(exchange):
            why, requests = _read(exchange, groups, newer, markers)
        if why is not None:
            out.left_out[why] += 1
        for event, answer in requests:
            why = (
                _drop_newer(event, answer, newer)
                or _drop_not_passed_on(event, answer)
                or _name_deleted(event, committed, exchange.came_ms, removals)
            )
            if why is not None:
                out.left_out[why if why.startswith("group ") else f"{exchange.api}: {why}"] += 1
                continue
            steps.append((exchange, event, answer))
            committed.update((o["topic"], o["partition"]) for o in event.get("offsets", ()))
    return steps


def _read(
    exchange: Exchange,
    groups: dict[str, dict[str, Any]],
    newer: Collection[str],
    markers: bool,
) -> tuple[str | None, list[tuple[dict[str, Any], dict[str, Any] | None]]]:
    """Return why a whole exchange is left out, or its events with their responses."""
    group = exchange.request.get("groupId") if isinstance(exchange.request, dict) else None
    if group is not None and group in newer:
        return _of_newer(group), []
    reader = READERS.get(exchange.api)
    if reader is None or (exchange.api == "END_TXN" and markers):  # the markers decide
        refused = exchange.api in HEARTBEATS
        why = "refused" if refused else "no request to a group coordinator"
        return f"{exchange.api}: {why}", []
    if not exchange.response:  # Kafka closed the connection instead
        return f"{exchange.api}: no response was logged", []
    read = list(reader(exchange, groups))
    refused = exchange.api in ("DELETE_TOPICS", "END_TXN") and not read
    return (f"{exchange.api}: refused" if refused else None), read


def _left_out_groups(by_time: Iterable[Exchange], config: dict[str, Any]) -> set[str]:
    """Read the exchanges by the table; return the groups that the trace cannot have.

    If there are consumer groups, the default behaviour in ``config`` is one that has them.
    """
    of_type: dict[str, set[str]] = defaultdict(set)
    for exchange in by_time:
        if exchange.api in READ:
            by_the_table(exchange)
        with as_kafka_logs_it(exchange):
            for group, group_type in _newer_groups(exchange):
                of_type[group_type].add(group)
    if of_type["consumer"] and config.setdefault("coterie.behaviour", REPLAYING[0]) in REPLAYING:
        del of_type["consumer"]
    return set().union(*of_type.values())


def _topics(by_time: Iterable[Exchange]) -> LoggedTopics:
    """Find the topics of the log, and name those of the requests that have only ids."""
    topics = LoggedTopics(by_time)
    for exchange in by_time:
        with as_kafka_logs_it(exchange):
            topics.name(exchange)
    return topics


def _as_version_1(event: dict[str, Any], answer: dict[str, Any]) -> None:
    """Remove what traces of version 1 do not have."""
    for name in _OF_VERSION_2.get(event["op"], ()):
        event.pop(name, None)
    if event["op"] == "join_group":
        answer["protocol_name"] = answer["protocol_name"] or None
    if event["op"] == "list_groups":
        for group in answer["groups"]:
            del group["type"]


def _as_version_2(event: dict[str, Any], answer: dict[str, Any]) -> None:
    """Remove what traces of version 2 do not have; a broker's response has null for no protocol."""
    if event["op"] == "join_group":
        answer["protocol_name"] = answer["protocol_name"] or ""
    for offset in event.get("offsets", ()):
        offset.pop("expire_timestamp", None)


def _newer_groups(exchange: Exchange) -> Iterator[tuple[str, str]]:
    """Yield the groups of an exchange that have a newer protocol, and its name."""
    answer = exchange.response
    if not answer:
        return
    if exchange.api in HEARTBEATS and not answer["errorCode"]:
        yield exchange.request["groupId"], _type_of(exchange.api)
    elif exchange.api in DESCRIBES:
        for group in answer["groups"]:
            if not group["errorCode"]:
                yield group["groupId"], _type_of(exchange.api)
    elif exchange.api == "LIST_GROUPS":
        for group in answer["groups"]:
            group_type = (group.get("groupType") or "classic").lower()
            if group_type not in ("classic", "unknown"):
                yield group["groupId"], group_type


def _type_of(api: str) -> str:
    """Return the type of group that an API is for."""
    return api.partition("_")[0].lower()


def _of_newer(group: str) -> str:
    return f"group {group!r}: of a newer protocol"


def _drop_newer(
    event: dict[str, Any], answer: dict[str, Any] | None, newer: Collection[str]
) -> str | None:
    """Remove groups of the newer protocols; return the reason if nothing remains."""
    if event.get("group_id") in newer:
        return _of_newer(event["group_id"])
    if answer is None or "groups" not in answer:
        return None
    answer["groups"] = [item for item in answer["groups"] if item["group_id"] not in newer]
    if "group_ids" not in event:  # list_groups, whose answer may be empty
        return None
    dropped = [group for group in event["group_ids"] if group in newer]
    event["group_ids"] = [group for group in event["group_ids"] if group not in newer]
    return _of_newer(dropped[0]) if dropped and not event["group_ids"] else None


def _drop_not_passed_on(event: dict[str, Any], answer: dict[str, Any] | None) -> str | None:
    """Remove the items that the coordinator did not get; return the reason if none remains."""
    if answer is None:
        return None
    if answer["error"] in _NOT_PASSED_ON:
        return _NOT_PASSED_ON[answer["error"]]
    name = "groups" if "group_ids" in event else "partitions"
    items = answer.get(name, []) if event["op"] != "list_groups" else []
    passed_on = [item for item in items if item["error"] not in _NOT_PASSED_ON]
    if len(passed_on) == len(items):
        return None
    if not passed_on:
        return _NOT_PASSED_ON[items[0]["error"]]
    answer[name] = passed_on
    if name == "groups":
        event["group_ids"] = [item["group_id"] for item in passed_on]
        return None
    partitions = {(item["topic"], item["partition"]) for item in passed_on}
    for field_name in ("offsets", "partitions"):
        if field_name in event:
            event[field_name] = [
                item
                for item in event[field_name]
                if (item["topic"], item["partition"]) in partitions
            ]
    for topic in event.get("topics") or ():
        topic["partitions"] = [n for n in topic["partitions"] if (topic["topic"], n) in partitions]
    return None


def _name_deleted(
    event: dict[str, Any],
    committed: Collection[tuple[str, int]],
    came_ms: float,
    removals: Collection[Removal],
) -> str | None:
    """Name the partitions of deleted topics, which the request does not: those with commits."""
    if event["op"] != "delete_partitions":
        return None
    topics = [t for t in event.pop("topics") if not shows_deletion(removals, t, came_ms)]
    if not topics:
        return "the server log says when the offsets were removed"
    event["partitions"] = [
        {"topic": topic, "partition": partition}
        for topic, partition in sorted(committed)
        if topic in topics
    ]
    return None if event["partitions"] else "no group has committed offsets of the topics"


def _removed(removal: Removal) -> dict[str, Any]:
    """Return the event of a removal that the broker made by itself."""
    if not removal.partitions:
        return {"op": "cleanup"}
    partitions = [{"topic": topic, "partition": n} for topic, n in removal.partitions]
    return {"op": "delete_partitions", "partitions": partitions}


def _clock(at_ms: float) -> str:
    moment = datetime.fromtimestamp(int(at_ms) / 1000, UTC)
    return moment.isoformat(" ", "milliseconds")[:23]


def _lines(
    steps: list[Step], own: list[tuple[float, dict[str, Any]]], start_ms: int
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the events of a trace, and the broker's responses; the steps do not change.

    ``own``: what the broker did by itself, and when, in order.
    """
    trace: list[dict[str, Any]] = []
    expected: list[dict[str, Any]] = []
    ids, left = MemberIds(), list(own)
    consumer_groups: set[str] = set()

    def take_own(until_ms: float) -> None:
        while left and left[0][0] <= until_ms:
            at_ms, did = left.pop(0)
            trace.append({"at": int(at_ms) - start_ms} | did)

    for number, (exchange, event, answer) in enumerate(steps, 1):
        take_own(exchange.handled_ms)
        if answer is not None:
            _hand_out(ids, event, answer, consumer_groups)
        at = int(exchange.handled_ms) - start_ms
        head = {"at": at, "op": event["op"]} | ({"id": number} if answer is not None else {})
        fields = ids.map({name: value for name, value in event.items() if name != "op"})
        for offset in fields.get("offsets", ()):
            if "expire_timestamp" in offset:  # until here relative to the request
                offset["expire_timestamp"] += at
        trace.append(head | fields)
        if answer is not None:
            sent = {"at": int(exchange.sent_ms) - start_ms, "event": "response", "id": number}
            expected.append(sent | {"op": head["op"]} | answer)
    last_ms = max([exchange.sent_ms for exchange, _, answer in steps if answer is not None] or [0])
    take_own(last_ms)
    if int(last_ms) - start_ms > trace[-1]["at"]:  # the last answer may come by a timer
        trace.append({"at": int(last_ms) - start_ms, "op": "advance"})
    # Mapped at the end: a join response to the leader may contain ids that are assigned later.
    return trace, [ids.map(line) for line in sorted(expected, key=lambda line: line["at"])]


def _within(steps: list[Step], downs: list[Outage]) -> list[Outage]:
    begin, end = steps[0][0].handled_ms, steps[-1][0].handled_ms
    return [down for down in downs if begin <= down.last_ms and down.first_ms <= end]


def _failovers(
    steps: list[Step], downs: list[Outage], ended: Collection[Outage]
) -> Iterator[float]:
    """Yield the times of the failovers that represent the broker's outages.

    An outage has one at its start, one at its end, and more between so that no session ends; one in
    ``ended`` has only that at its end.
    """
    sessions = [event.get("session_timeout_ms", SESSION_MS) for _, event, _ in steps]
    pause_ms = max(min(sessions) / 2, 1)
    for down in downs:
        at_ms = down.first_ms if down in ended else down.last_ms
        while at_ms < down.first_ms:
            yield at_ms
            at_ms += pause_ms
        yield down.first_ms


def _with_ended_sessions(
    steps: list[Step],
    downs: list[Outage],
    lines_of: Callable[[list[Step], Collection[Outage]], tuple[list[Any], list[Any]]],
) -> set[Outage]:
    """Return the outages in which sessions ended, as the answers after them show.

    A broker that stops closes its connections first, and its coordinator some seconds later.
    """
    ended: set[Outage] = set()
    if not downs or len(steps) * (1 + len(downs)) > EVENTS_MAX:
        return ended
    best = run_of(*lines_of(steps, ended))
    for down in downs:
        run = best and run_of(*lines_of(steps, ended | {down}))
        if best and run and len(run.wrong) < len(best.wrong):
            best = run
            ended.add(down)
    return ended


def _settings(steps: list[Step], config: dict[str, Any]) -> dict[str, Any]:
    """Return the header's settings, with ``coterie.ties`` only if a vote can be tied."""
    voted = any(len(event.get("protocols", ())) > 1 for _, event, _ in steps)
    settings = ({"coterie.ties": "hash"} if voted else {}) | config
    if settings.get("coterie.ties") == DEFAULTS["coterie.ties"]:
        del settings["coterie.ties"]
    return settings


def _hand_out(
    ids: MemberIds, event: dict[str, Any], answer: dict[str, Any], consumer: set[str]
) -> None:
    """Hand out the id that a coordinator made for a new member.

    ``consumer`` are the groups that are consumer groups at the time; it is updated.
    """
    group, member_id = event.get("group_id"), answer.get("member_id")
    if event["op"] == "consumer_group_heartbeat" and answer["error"] == Error.NONE.name:
        consumer.add(group or "")
        if not event["member_id"]:
            ids.hand_out(member_id or "", None)
    if event["op"] != "join_group" or event.get("member_id"):
        return
    prefix = event.get("group_instance_id") or event["client_id"]
    if member_id:
        (consumer.discard if member_id.startswith(f"{prefix}-") else consumer.add)(group or "")
    made_by_group = group in consumer
    if (
        member_id
        or answer["generation_id"] >= 0
        or (made_by_group and answer["error"] != _BEFORE_AN_ID)
    ):
        ids.hand_out(member_id or "", None if made_by_group else prefix)
