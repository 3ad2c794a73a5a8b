"""Golden traces give Kafka's output, the same bytes each time; wrong traces are refused."""

import contextlib
import gc
import itertools
import json

import pytest

from coterie import GroupCoordinator, TraceError, load_trace, run_trace
from coterie.coordinator.trace_diff import compare_traces
from support.trace_data import (
    TRACES,
    header,
    heavy,
    join,
    names,
    pair,
    played_elsewhere,
    scenario,
)

SCENARIOS, RANDOM = (names(TRACES / kind) for kind in ("scenarios", "random"))


def test_the_golden_traces_are_all_there():
    assert (len(SCENARIOS), len(RANDOM)) == (180, 200)


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_scenario_is_answered_as_kafka_answered_it(name):
    trace, expected = scenario(name)
    assert not list(compare_traces(expected, run_trace(trace)))


@pytest.mark.parametrize("name", RANDOM)
def test_a_random_trace_is_answered_as_kafka_answered_it(name):
    trace, expected = pair(TRACES / "random", name)
    assert not list(compare_traces(expected, run_trace(trace)))


@pytest.mark.parametrize(
    "name", ["big-group", pytest.param("many-heartbeats", marks=pytest.mark.slow)]
)
def test_a_heavy_trace_is_answered_as_kafka_answered_it(name):
    trace, expected = heavy(name)
    assert not list(compare_traces(expected, run_trace(trace)))


@pytest.mark.parametrize("session_ms", [0, -5])
def test_a_timeout_below_0_counts_as_0_also_beside_a_clean_up_of_that_millisecond(session_ms):
    """The join's timer was armed before the clean-up's, and the session's after it."""
    first = header()
    first["config"] = {
        "coterie.cleanup": "periodic",
        "offsets.retention.check.interval.ms": 100_000,
        "offsets.retention.minutes": 1,
        "group.initial.rebalance.delay.ms": 150_000,
        "group.min.session.timeout.ms": -10,
    }
    events = [
        join(50_000, 1, session_timeout_ms=session_ms, rebalance_timeout_ms=400_000),
        {"at": 100_000, "op": "offset_commit", "id": 2, "group_id": "h", "generation_id": -1,
         "member_id": "", "offsets": [{"topic": "t", "partition": 0, "offset": 1}]},
        {"at": 200_000, "op": "advance"},
    ]  # fmt: skip
    lines = [line for line in run_trace([first, *events]) if line["event"] == "transition"]
    states = [(line["group_id"], line["to"]) for line in lines if line["at"] == 200_000]
    ends = [("g", "PreparingRebalance"), ("g", "Empty")]
    assert states == [("g", "CompletingRebalance"), ("h", "Dead"), *ends]


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize("metadata", ["AAEAAAAA", "AAAAAAABAAk="])
def test_a_trace_leaves_the_garbage_collector_on_or_off_as_it_was(on, metadata):
    """Also for a trace that fails: the second metadata cannot be read."""
    events = [join(0, 1, protocols=[{"name": "range", "metadata": metadata}])]
    before = gc.isenabled()
    try:
        gc.enable() if on else gc.disable()
        with contextlib.suppress(TraceError):
            list(run_trace([header(), *events, {"at": 5000, "op": "advance"}]))
        assert gc.isenabled() is on
    finally:
        gc.enable() if before else gc.disable()


@pytest.mark.parametrize("name", RANDOM[::10])
def test_the_methods_answer_as_the_compiled_trace_does(name):
    trace, _ = pair(TRACES / "random", name)
    first, *events = map(json.loads, trace)
    coordinator = GroupCoordinator(first["config"])
    for event in events:
        coordinator.advance(event["at"])
        coordinator.handle(event)
    came = [e.as_dict() for e in coordinator.events]
    came = [line for line in came if line["event"] != "unanswered"]
    # The methods number the requests themselves, in the order of the trace.
    ids = [event["id"] for event in events if "id" in event]
    for line in came:
        if line["event"] == "response":
            line["id"] = ids[line["id"] - 1]
    assert came == list(run_trace(trace))


def test_traces_give_the_same_bytes_played_again_and_in_another_process(tmp_path):
    once, again, paths = [], [], []
    for name in RANDOM[::20]:
        trace, _ = pair(TRACES / "random", name)
        compiled = load_trace(trace)
        once += [json.dumps(line) for line in GroupCoordinator().play(compiled).lines()]
        again += [json.dumps(line) for line in GroupCoordinator().play(compiled).lines()]
        paths.append(tmp_path / f"{name}.trace.jsonl")
        paths[-1].write_text("".join(trace), encoding="utf-8")
    assert once == again == played_elsewhere(paths)


@pytest.mark.parametrize("name", ["rebalance-timeout-removes-absent", "commit-in-every-state"])
def test_a_group_is_answered_alike_whatever_other_groups_do(name):
    first, *events = map(json.loads, scenario(name)[0])

    def played(before_each):
        number, others = itertools.count(1), itertools.count(1)
        coordinator = GroupCoordinator(
            first["config"],
            member_ids=lambda p: f"{p}-{next(others if p == 'other' else number):08d}",
        )
        request_ids = set()
        for event in events:
            coordinator.advance(event["at"])
            before_each(coordinator)
            answer = coordinator.describe_group("z")  # takes a number of its own
            assert answer.members == ()
            number_before = coordinator.events[-1].id
            coordinator.handle(event)
            request_ids |= {number_before + 1} if "id" in event else set()
        return [
            {k: v for k, v in event.as_dict().items() if k != "id"}
            for event in coordinator.events
            if getattr(event, "group_id", None) == "g" or getattr(event, "id", None) in request_ids
        ]

    def disturb(coordinator):
        coordinator.txn_offset_commit("z", {("t", 0): 1}, producer_id=9, producer_epoch=0)
        coordinator.delete_groups(["a"])
        coordinator.handle(join(0, 0, "a", client_id="other"))

    assert played(disturb) == played(lambda coordinator: None) != []


def test_play_takes_the_settings_of_the_trace_unless_others_were_given():
    trace = load_trace(scenario("initial-delay-zero")[0])
    assert GroupCoordinator().play(trace).events()[0].at == trace_start(trace)
    slow = GroupCoordinator({"group.initial.rebalance.delay.ms": 9000})
    slow.play(trace)
    assert slow.config["group.initial.rebalance.delay.ms"] == 9000


def trace_start(trace):
    return next(trace.requests())[1]


def test_under_behaviour_24_the_static_member_keeps_its_partition_till_its_session_ends():
    first, *events = map(json.loads, scenario("document-demo1")[0])
    first["config"] = {"coterie.behaviour": "2.4"}
    # Up to the first heartbeat that 3.9 answers otherwise; then consumer 2 goes on beating.
    events = [event for event in events if event["at"] < 427_000]
    beat = next(event for event in reversed(events) if event["op"] == "heartbeat")
    events += [beat | {"at": at, "id": at} for at in range(427_000, 700_000, 3000)]
    lines = list(run_trace([first, *events]))
    moves = [(x["at"], x["to"]) for x in lines if x["event"] == "transition"]
    completed = [at for at, to in moves if to == "CompletingRebalance"]
    # Its second rebalance ends at 307000; 6 minutes from there the next one begins.
    assert completed[1] == 307_000
    assert (307_000 + 360_000, "PreparingRebalance") in moves
    assert not [at for at, _ in moves if 307_100 < at < 667_000]


def test_sugar_stands_for_ids_subscriptions_and_assignments():
    lines = list(
        run_trace(
            [
                header(),
                join(0, 1, require_known_member_id=True),
                join(1, 2, member_id=None, member_id_of=1, require_known_member_id=True),
                {"at": 4000, "op": "sync_group", "id": 3, "group_id": "g", "generation_id": 1,
                 "member_id_of": 1,
                 "assignments": [{"member_id_of": 1, "assigned": {"t": [0, 1]}}]},
                {"at": 5000, "op": "leave_group", "id": 4, "group_id": "g",
                 "members": [{"member_id_of": 2}]},
                {"at": 6000, "op": "describe_group", "id": 5, "group_id": "g"},
            ]
        )
    )  # fmt: skip
    answers = {line["id"]: line for line in lines if line["event"] == "response"}
    assert answers[1]["member_id"] == answers[2]["member_id"] == "c-00000001"
    assert answers[2]["members"][0]["metadata"] == "AAEAAAABAAF0/////wAAAAA="
    assert answers[3]["assignment"] == "AAEAAAABAAF0AAAAAgAAAAAAAAAB/////w=="
    assert answers[4]["members"][0]["error"] == "NONE"


def test_an_id_refers_to_the_answer_of_a_join_whatever_number_a_generation_has():
    sync = {"at": 4000, "op": "sync_group", "id": 2, "group_id": "g", "generation_id": 1}
    lines = list(run_trace([
        header(), join(0, 0), join(4000, 1, group_id="h"),  # h begins with generation 0
        sync | {"member_id_of": 0, "assignments": []},
    ]))  # fmt: skip
    answers = {line["id"]: line for line in lines if line["event"] == "response"}
    assert (answers[0]["generation_id"], answers[2]["error"]) == (1, "NONE")


HEARTBEAT = {"at": 0, "op": "heartbeat", "id": 1, "group_id": "g"}
WRONG = {
    "unknown op": ([{"at": 0, "op": "poll"}], 2, "'poll' is no op"),
    "op missing": ([{"at": 0}], 2, "None is no op"),
    "time missing": ([{"op": "cleanup"}], 2, "needs at"),
    "time goes back": ([{"at": 5, "op": "cleanup"}, {"at": 4, "op": "cleanup"}], 3, "goes back"),
    "time is text": ([{"at": "5", "op": "cleanup"}], 2, "needs at"),
    "time is negative": ([{"at": -1, "op": "cleanup"}], 2, "needs at"),
    "id missing": ([{"at": 0, "op": "heartbeat"}], 2, "needs id"),
    "id twice": ([HEARTBEAT, HEARTBEAT], 3, "was given"),
    "wrong type": ([HEARTBEAT | {"generation_id": "1"}], 2, "generation_id must be an integer"),
    "bool for int": ([HEARTBEAT | {"generation_id": True}], 2, "generation_id must be"),
    "out of int32": ([HEARTBEAT | {"generation_id": 2**31}], 2, "generation_id must fit 32 bits"),
    "member is a number": ([HEARTBEAT | {"member_id": 7}], 2, "member_id must be a string"),
    "field missing": ([{**join(0, 1), "session_timeout_ms": None}], 2, "needs session_timeout_ms"),
    "bad base64": ([join(0, 1, protocols=[{"name": "r", "metadata": "?"}])], 2, "base64"),
    "a long name": ([join(0, 1, client_id="c" * 32768)], 2, "client_id must have at most 32767"),
    "half a character": (['{"at": 0, "op": "describe_group", "id": 1, "group_id": "\\ud800"}'],
                         2, "group_id must be text, but has a surrogate"),
    "no room for an id": ([join(0, 1, client_id="c" * 32731)], 2, "give 32730 at most"),
    "nested deeply": (["[" * 100_000], 2, "nested too deeply"),
    "unknown error": ([{"at": 0, "op": "fail_append", "error": "X", "count": 1}], 2, "Kafka's"),
    "no object": (["[1]"], 2, "must be an object"),
    "no json": (["{"], 2, "no JSON"),
    "partition is text": (
        [{"at": 0, "op": "offset_commit", "id": 1, "group_id": "g",
          "offsets": [{"topic": "t", "partition": "0", "offset": 1}]}], 2, "partition must be"),
    "offsets are no list": (
        [{"at": 0, "op": "offset_commit", "id": 1, "group_id": "g", "offsets": 1}], 2, "a list"),
    "both forms of metadata": (
        [join(0, 1, protocols=[{"name": "r", "metadata": "AAA=", "topics": []}])], 2, "exclude"),
    "no metadata": ([join(0, 1, protocols=[{"name": "r"}])], 2, "needs metadata"),
    "no protocol type": ([join(0, 1, protocol_type=None)], 2, "needs protocol_type"),
    "both forms of an assignment": (
        [{"at": 0, "op": "sync_group", "id": 1, "group_id": "g",
          "assignments": [{"member_id": "m", "assignment": "AA==", "assigned": {}}]}],
        2, "exclude"),
    "an assignment beyond 32 bits": (
        [{"at": 0, "op": "sync_group", "id": 1, "group_id": "g",
          "assignments": [{"member_id": "m", "assigned": {"t": [2147483648]}}]}],
        2, "partition must fit 32 bits"),
    "sugar of no join": (
        [HEARTBEAT | {"id": 1}, HEARTBEAT | {"id": 2, "member_id_of": 1}], 3, "no member id"),
    "sugar before its answer": (
        [join(0, 1), HEARTBEAT | {"id": 2, "member_id_of": 1}], 3, "no member id by now"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_event_is_refused_with_its_line(what):
    events, line, message = WRONG[what]
    with pytest.raises(TraceError, match=message) as caught:
        list(run_trace([header(), *events]))
    assert caught.value.line == line
    assert str(caught.value).startswith(f"line {line}: ")


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"group.max.size": 0}, "group.max.size must be from 1"),
        ({"group.max.size": "9"}, "must be an integer"),
        ({"group.max.sizes": 9}, "did you mean 'group.max.size'"),
        ({"coterie.behaviour": "2.3"}, "must be one of"),
        ({"offsets.retention.minutes": 2**31}, "from 1 to"),
    ],
)
def test_a_wrong_setting_is_refused_in_the_header(config, message):
    with pytest.raises(TraceError, match=message) as caught:
        load_trace([header() | {"config": config}])
    assert caught.value.line == 1


@pytest.mark.parametrize(
    "first",
    [
        {},
        {"version": 1},
        {"format": "coterie-trace"},
        *({"format": "coterie-trace", "version": number} for number in (3, True)),
    ],
)
def test_a_trace_without_its_header_is_refused(first):
    with pytest.raises(TraceError, match="line 1"):
        load_trace([first])
    with pytest.raises(TraceError, match="line 1: the trace is empty"):
        load_trace([])


def test_a_trace_with_metadata_on_which_kafka_throws_stops_with_its_line():
    garbage = [{"name": "range", "metadata": "AAAAAAABAAk="}]
    events = [join(0, 1, protocols=garbage), {"at": 5000, "op": "advance"}]
    with pytest.raises(TraceError, match="line 3: group 'g' cannot start generation 1"):
        list(run_trace([header(), *events]))
    # Asked by methods the group is stuck, as Kafka's is.
    coordinator = GroupCoordinator()
    pending = coordinator.handle(events[0])
    coordinator.advance(100_000)
    view = coordinator.snapshot("g")
    assert (pending.status, view.state, view.generation_id) == ("waiting", "PreparingRebalance", 1)
