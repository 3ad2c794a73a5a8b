"""What a broker's answers show of its settings, and where that is not what the import was given."""

import gzip
from base64 import b64encode
from itertools import islice

import pytest

from coterie import run_trace
from coterie.base.consumer_protocol import subscription
from coterie.coordinator import answered_order, requestlog
from coterie.coordinator.config import coordinator_config
from coterie.coordinator.requestlog import import_request_log
from coterie.coordinator.shown_settings import TRIED, roundest, shown_settings
from coterie.coordinator.trace_removals import Removal
from support.golden_data import GOLDEN
from support.request_lines import member_beats, member_joins

LOGS, INCIDENTS = GOLDEN / "request-log", GOLDEN / "incidents"
DELAY = "group.initial.rebalance.delay.ms"
BROKER_4_1 = {  # of the README there
    DELAY: 500,
    "group.consumer.session.timeout.ms": 5000,
    "group.consumer.heartbeat.interval.ms": 1000,
}


def imported(name, config=None, first_lines=None):
    with gzip.open(LOGS / name, "rt") as lines:
        return import_request_log(islice(lines, first_lines), config)


def errors(lines):
    """The errors of each response: its own, and those of its partitions and groups."""
    return {line["id"]: [line.get("error"), *parts(line)] for line in lines if "id" in line}


def parts(line):
    rows = [*line.get("partitions", ()), *line.get("groups", ())]
    names = ("topic", "partition", "group_id", "error")
    return sorted(str([row.get(name) for name in names]) for row in rows)


@pytest.mark.parametrize(
    ("log", "settings"),
    [
        ("consumer-groups-4.1.log.gz", BROKER_4_1),
        ("kafka-request.log.gz", {DELAY: 1000}),
        (INCIDENTS / "reset-while-empty/kafka-request.log.gz", {DELAY: 0}),
        (INCIDENTS / "two-applications/kafka-request.log.gz", {DELAY: 0}),
        (INCIDENTS / "protocols/kafka-request.log.gz",
         {DELAY: 500, "group.consumer.heartbeat.interval.ms": 1000,
          "group.consumer.session.timeout.ms": 6000}),
    ],
)  # fmt: skip
def test_the_answers_show_the_brokers_settings_and_these_fit(log, settings):
    by_default = imported(log)
    assert {one.name: one.value for one in by_default.shown} == settings
    fitting = imported(log, settings)
    assert fitting.shown == []
    assert fitting.wrong < 6 < 150 < by_default.wrong
    assert errors(run_trace(fitting.trace)) == errors(fitting.expected)


@pytest.mark.parametrize(("most", "whole"), [(400, False), (2000, True)])
def test_settings_are_tried_on_the_first_events_of_a_long_log(monkeypatch, most, whole):
    monkeypatch.setattr(requestlog, "EVENTS_MAX", 300 * (1 + sum(map(len, TRIED.values()))))
    monkeypatch.setattr(answered_order, "EVENTS_MAX", most)
    made = imported("consumer-groups-4.1.log.gz", BROKER_4_1 | {"coterie.behaviour": "4.4"}, 800)
    assert (made.tried, made.shown[0].name) == (300, "coterie.behaviour")
    assert (made.compared == len(made.expected)) == whole
    assert whole or 295 < made.compared <= 300
    right = imported("consumer-groups-4.1.log.gz", BROKER_4_1, 800)
    assert right.wrong < 5 < made.wrong  # up to there the answers are those of the whole log


def answered(op, answer, handled_ms=0.0, answered_ms=0.0, **event):
    """A step of an import; of its exchange, the times and the user are read."""
    times = {"handled_ms": handled_ms, "answered_ms": answered_ms}
    exchange = type("Times", (), times | {"principal": event.pop("user", None)})
    return exchange, {"op": op, "group_id": "g", **event}, {"error": "NONE", **answer}


def join(session_ms=10_000, error="NONE", generation=2, members=(), **more):
    shown = [{"member_id": member, "metadata": READS_T} for member in members]
    answer = {"error": error, "generation_id": generation, "members": shown, "member_id": "m"}
    event = {"session_timeout_ms": session_ms, "member_id": ""} | more
    return answered("join_group", answer, **event)


def beat(at_ms, member="m", epoch=1, answered_epoch=None, error="NONE", interval_ms=5000):
    answer = {
        "error": error, "member_id": member, "assignment": None,
        "member_epoch": epoch if answered_epoch is None else answered_epoch,
        "heartbeat_interval_ms": interval_ms,
    }  # fmt: skip
    event = {"member_id": member, "member_epoch": epoch,
             "subscribed_topic_names": None if epoch else ["t"]}  # fmt: skip
    return answered("consumer_group_heartbeat", answer, at_ms, **event)


def metadata(size, error="NONE"):
    one = {"topic": "t", "partition": 0}
    answer = {"partitions": [one | {"error": error}]}
    return answered("offset_commit", answer, offsets=[one | {"metadata": "é" * (size // 2)}])


MINUTE_MS, WEEK_MS = 60_000, 7 * 86_400_000
READS_T = b64encode(subscription(["t"])).decode()
ONE_MINUTE = {"offsets.retention.minutes": 1}


def commit(at_ms, error="NONE", op="offset_commit", topic="t", **event):
    one = {"topic": topic, "partition": 0}
    answer = {"partitions": [one | {"error": error}]}
    return answered(op, answer, at_ms, **{"offsets": [one]} | event)


def fetch(at_ms, offset, topics=True, topic="t", **event):
    """A fetch of t-0, or of all that the group has committed."""
    one = {"topic": topic, "partition": 0, "offset": offset, "error": "NONE"}
    answer = {"partitions": [one] if topics or offset >= 0 else []}
    event["topics"] = [{"topic": topic, "partitions": [0]}] if topics else None
    return answered("offset_fetch", answer, at_ms, **event)


def heard(at_ms, op="heartbeat", member_id="m"):
    return answered(op, {}, at_ms, member_id=member_id, generation_id=1)


def of_five(*members):
    """The leader's join to the fifth generation, with which a log begins."""
    return join(generation=5, members=members or "m", member_id="m")


def left(member_id):
    return answered("leave_group", {}, 15_000, members=[{"member_id": member_id}])


def again(wait_ms):
    """A join to the sixth generation, 20 s after the one to the fifth."""
    return join(generation=6, handled_ms=20_000, answered_ms=20_000 + wait_ms)


def removed(op, **event):
    exchange, event, answer = answered(
        op, {"partitions": [{"topic": "t", "partition": 0}]}, **event
    )
    return exchange, event, None if op == "delete_partitions" else answer


REFUSED, FULL = "INVALID_SESSION_TIMEOUT", "GROUP_MAX_SIZE_REACHED"
SHOWN = {
    "nothing": ([], {}),
    "a session within the bounds": ([join(6000), join(1_800_000)], {}),
    "a session below the least": ([join(1000), join(2000)], {"group.min.session.timeout.ms": 1000}),
    "a session above the most": ([join(3_600_000)], {"group.max.session.timeout.ms": 3_600_000}),
    "a refusal that the settings explain": ([join(5999, REFUSED)], {}),
    "a refusal below what was accepted": (
        [join(8000, REFUSED), join(10_000)], {"group.min.session.timeout.ms": 10_000}),
    "a refusal alone": ([join(8000, REFUSED)], {"group.min.session.timeout.ms": 8001}),
    "a refusal above what was accepted": (
        [join(10_000), join(60_000, REFUSED)], {"group.max.session.timeout.ms": 10_000}),
    "a full classic group": (
        [join(members=("a", "b")), join(error=FULL)], {"group.max.size": 2}),
    "a full consumer group": (
        [beat(0, "a", 0, 1), beat(1, "b", 0, 2), beat(2, "a", -1, -1), beat(3, "c", 0, error=FULL)],
        {"group.consumer.max.size": 1}),
    "metadata within the bound": ([metadata(4096)], {}),
    "metadata beyond the bound": ([metadata(5000)], {"offset.metadata.max.bytes": 5000}),
    "metadata that was refused": (
        [metadata(50), metadata(100, "OFFSET_METADATA_TOO_LARGE")],
        {"offset.metadata.max.bytes": 50}),
    "an offset that is there": ([commit(0), fetch(WEEK_MS, 5)], {}),
    "an offset that is gone": (
        [commit(0), fetch(75_000, -1)], {"offsets.retention.minutes": 1}),
    "an offset that is gone from a list of all": (
        [commit(0), fetch(30 * 60 * MINUTE_MS, -1, topics=False)],
        {"offsets.retention.minutes": 24 * 60}),
    "an offset that is gone after the retention of the settings": (
        [commit(0), fetch(WEEK_MS + MINUTE_MS, -1)], {}),
    "an offset that was never committed": (
        [commit(0, "ILLEGAL_GENERATION"), fetch(75_000, -1)], {}),
    "an offset with a retention of the request": (
        [commit(0, retention_time_ms=MINUTE_MS), fetch(75_000, -1)], {}),
    "an offset with a retention of the request, in a trace of version 1": (
        [commit(0, offsets=[{"topic": "t", "partition": 0, "expire_timestamp": MINUTE_MS}]),
         fetch(75_000, -1)], {}),
    "an offset that a transaction replaces": (
        [commit(0), commit(1, op="txn_offset_commit"), fetch(75_000, -1)], {}),
    "an offset that the user may not see": (
        [commit(0, user="app"), fetch(75_000, -1, topics=False, user="ops")], {}),
    "an offset that the user has seen": (
        [commit(0, user="app"), fetch(1, 5, topics=False, user="ops"),
         fetch(75_000, -1, topics=False, user="ops")], ONE_MINUTE),
    "an offset that another user sees later": (
        [commit(0), fetch(75_000, -1), fetch(80_000, 5)], {}),
    "an offset of a group whose member still reads the topic": (
        [join(members="m"), commit(0), heard(40_000), heard(70_000), fetch(75_000, -1)], {}),
    "an offset whose group has a member of other topics": (
        [join(members="m"), commit(0, topic="u"), heard(70_000), fetch(75_000, -1, topic="u")],
        ONE_MINUTE),
    "an offset whose group became empty long after its commit": (
        [join(members="m"), commit(0), *map(heard, range(0, 60 * MINUTE_MS, 30_000)),
         fetch(61.2 * MINUTE_MS, -1)], ONE_MINUTE),
    "an offset that a member that comes back does not find": (
        [join(members="m"), commit(0), join(members="m", handled_ms=70_000), fetch(70_001, -1)],
        ONE_MINUTE),
    "an offset that is committed again when it is gone": (
        [commit(0), fetch(75_000, -1), commit(80_000), fetch(81_000, 5)], ONE_MINUTE),
    "an offset of a consumer group whose member still reads the topic": (
        [beat(0, epoch=0), commit(0), beat(40_000), beat(70_000), fetch(75_000, -1)], {}),
    "an offset that another one outlived": (
        [commit(0), commit(0, topic="u"), fetch(75_000, -1), fetch(20 * MINUTE_MS, 5, topic="u")],
        {}),
    "an offset that was deleted": ([commit(0), removed("offset_delete"), fetch(75_000, -1)], {}),
    "an offset whose group was deleted": (
        [commit(0), removed("delete_groups", group_ids=["g"]), fetch(75_000, -1)], {}),
    "an offset whose topic was deleted": (
        [commit(0), removed("delete_partitions", partitions=[{"topic": "t", "partition": 0}]),
         fetch(75_000, -1)], {}),
    "another interval": (
        [beat(0, interval_ms=2000)], {"group.consumer.heartbeat.interval.ms": 2000}),
    "a silence beyond the session": (
        [beat(0), beat(46_000)], {"group.consumer.session.timeout.ms": 60_000}),
    "a silence that ended a session": (
        [beat(0, "a", 0, 1), beat(9_000, "a"), beat(21_500, "a", error="UNKNOWN_MEMBER_ID")],
        {"group.consumer.session.timeout.ms": 10_000}),
    "a silence that another member's epoch shows to have ended": (
        [beat(0, "a", 0, 1), beat(10, "b", 0, 2), beat(29_000, "b", 2), beat(31_000, "b", 2, 3)],
        {"group.consumer.session.timeout.ms": 30_000}),
    "an epoch that a subscription explains": (
        [beat(0, "a", 0, 1), beat(10, "b", 0, 2), beat(29_000, "b", 2), beat(30_000, "c", 0, 3),
         beat(31_000, "b", 2, 3)], {}),
    "the delay of a lone member": (
        [join(generation=1, handled_ms=10, answered_ms=1012)],
        {DELAY: 1000}),
    "no delay": (
        [join(generation=1, handled_ms=10, answered_ms=10.5)],
        {DELAY: 0}),
    "two delays, since a member came in the first": (
        [join(generation=1, handled_ms=0, answered_ms=4003),
         join(generation=1, handled_ms=900, answered_ms=4003)],
        {DELAY: 2000}),
    "the delay of the settings, twice": (
        [join(generation=1, handled_ms=0, answered_ms=6003),
         join(generation=1, handled_ms=900, answered_ms=6003)], {}),
    "a timer that was late in one of two groups": (
        [join(generation=1, handled_ms=0, answered_ms=2, group_id="h"),
         join(generation=1, handled_ms=0, answered_ms=174)], {DELAY: 0}),
    "a delay that is too long, of a broker whose timers are all late": (
        [join(generation=1, handled_ms=0, answered_ms=840),
         join(generation=1, handled_ms=477, answered_ms=840)], {DELAY: 0}),
    "a group that began again": (
        [join(generation=1, handled_ms=10, answered_ms=3012),
         join(generation=1, handled_ms=75_000, answered_ms=78_003)], {}),
    "a static member that came back within its first generation": (
        [join(generation=1, handled_ms=10, answered_ms=3012),
         join(generation=1, handled_ms=5000, answered_ms=5001)], {}),
    "a group that all left, in a log that begins later": (
        [of_five(), left("m"), again(1002)], {DELAY: 1000}),
    "a group whose sessions ended, in a log that begins later": (
        [of_five(), heard(1000), again(1002)], {DELAY: 1000}),
    "a group whose heartbeats are not logged": ([of_five(), again(1002)], {}),
    "a group that was upgraded": ([of_five(), left("m"), beat(15_001), again(1002)], {}),
    "a group that one of two left": (
        [of_five("m", "n"), heard(15_000, member_id="n"), left("m"), again(1002)], {}),
    "a group that a static member left without its id": (
        [of_five("m", "n"), left(""), left("m"), again(1002)], {}),
    "a member that gets the generation again with which the log begins": (
        [join(generation=1, member_id="before", handled_ms=10, answered_ms=11)], {}),
}  # fmt: skip


@pytest.mark.parametrize("case", SHOWN)
def test_an_answer_shows_a_setting_that_it_contradicts(case):
    steps, settings = SHOWN[case]
    shown = shown_settings(steps, coordinator_config({"coterie.behaviour": "4.1"}))
    assert {one.name: one.value for one in shown} == settings


def test_the_retention_is_bounded_by_the_clean_up_of_the_server_log():
    steps = [commit(0), fetch(20 * MINUTE_MS, -1)]
    for removals, minutes in (
        ([Removal(0), Removal(130_000), Removal(21 * MINUTE_MS)], {2}),
        ([Removal(10_000, (("t", 0),))], set()),
    ):
        shown = shown_settings(steps, coordinator_config({}), removals=removals)
        assert {one.value for one in shown} == minutes


@pytest.mark.parametrize(("absent_ms", "is_named"), [(-1, True), (80_000, False)])
def test_a_topic_that_is_absent_after_the_commit_shows_no_retention(absent_ms, is_named):
    steps = [commit(0), fetch(75_000, -1)]
    shown = shown_settings(steps, coordinator_config({}), absent_ms={"t": absent_ms})
    assert bool(shown) == is_named


@pytest.mark.parametrize(
    ("above", "most", "number"),
    [(4712.5, 5310, 5000), (4999, 5000, 5000), (5000, 5999.5, 5500), (-1, 0.7, 0), (7, 8.2, 8)],
)
def test_the_roundest_number_of_a_range(above, most, number):
    assert roundest(above, most) == number


def test_a_trace_ends_when_the_last_answer_was_sent():
    made = import_request_log(
        [member_joins(3400, "a", 1, 3010, members="a"), member_beats(500, "b", 1, 25)]
    )
    assert made.trace[-1] == {"at": 3400 - 390, "op": "advance"}
    assert errors(run_trace(made.trace)) == errors(made.expected)
