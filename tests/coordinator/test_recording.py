"""A recording is a trace that gives the same output, or its ``doc`` lists what it lacks."""

import json
from concurrent.futures import ThreadPoolExecutor

import pytest

from coterie import (
    ArgumentError,
    Batch,
    CoterieError,
    GroupCoordinator,
    OffsetAndMetadata,
    load_trace,
    run_trace,
)
from coterie.base.operations import OPERATIONS
from coterie.coordinator.recording import Recording
from coterie.events import MemberFenced, MemberReconciled, Unanswered
from coterie.testing import Member
from support.consumer_groups import golden
from support.trace_data import header, ops
from support.trace_data import join as join_event


@pytest.fixture
def recorded(tmp_path):
    """Make a coordinator that records, and a function that returns the lines of its trace."""

    def made(**kwargs):
        recording = Recording()
        if "member_ids" in kwargs:
            kwargs["member_ids"] = recording.numbered(kwargs["member_ids"])
        coordinator = GroupCoordinator(**kwargs)
        coordinator._record_into(recording)
        return coordinator, lambda: written(recording, coordinator, tmp_path / "it.trace.jsonl")

    return made


def written(recording, coordinator, path):
    recording.write(path, coordinator.config, coordinator.now_ms)
    return [json.loads(line) for line in path.read_text().splitlines()]


def did(coordinator):
    """Return a coordinator's events as the output of a trace."""
    without_lines = Unanswered | MemberFenced | MemberReconciled
    return [event.as_dict() for event in coordinator.events if not isinstance(event, without_lines)]


def live(coordinator, *members, ms):
    for _ in range(ms // 500):
        for member in members:
            member.poll()
        coordinator.advance_by(500)


@pytest.mark.parametrize("first_request", [False, True])
def test_a_recording_of_a_migration_does_the_same_again(recorded, first_request):
    coordinator, lines = recorded(config={"coterie.behaviour": "4.1"})
    if first_request:  # otherwise the topics are in the header
        coordinator.offset_commit("other", {("t", 0): 1})
    coordinator.set_topics(
        [{"topic": "t", "topic_id": bytes(range(16)), "partitions": 3, "replicas": [[0, 1]] * 3}],
        brokers=[{"id": 0, "rack": "r"}, {"id": 1}],
    )
    old = Member(coordinator, "g", client_id="a", topics=["t"])
    new = Member(coordinator, "g", client_id="b", topics=["t"], protocol="consumer")
    live(coordinator, old, ms=8000)
    live(coordinator, new, old, ms=20_000)
    coordinator.set_topics({"u": 1}, delete_topics=["t"])
    coordinator.handle({"op": "append_raw", "key": b"key", "value": b"value"})
    old.leave()
    live(coordinator, new, ms=8000)
    trace = lines()
    assert trace[0]["version"] == 2
    assert ("topics" in trace[0]) is not first_request
    assert list(run_trace(map(json.dumps, trace))) == did(coordinator)


def test_a_recording_of_a_played_trace_of_version_2_has_its_topics(recorded):
    trace = golden.trace(golden.names()[0])
    coordinator, lines = recorded()
    coordinator.play(load_trace(trace))
    assert list(run_trace(map(json.dumps, lines()))) == list(run_trace(trace))


def test_a_trace_that_is_played_later_brings_its_topics_then(recorded):
    trace = golden.trace(golden.names()[0])
    coordinator, lines = recorded()
    coordinator.advance_by(json.loads(trace[1])["at"])
    coordinator.play(load_trace(trace))
    assert list(run_trace(map(json.dumps, lines()))) == list(run_trace(trace))


def test_a_trace_that_is_played_after_a_request_leaves_the_topics_as_they_are(recorded):
    coordinator, lines = recorded(config={"coterie.behaviour": "4.1"})
    coordinator.failover()
    coordinator.play(load_trace(golden.trace(golden.names()[0])))
    header, *events = lines()
    assert "topics" not in header
    assert "metadata" not in {event["op"] for event in events}


def test_a_recording_does_the_same_again(recorded):
    coordinator, lines = recorded(config={"group.initial.rebalance.delay.ms": 1000})
    first, second = (Member(coordinator, "g", client_id=c, topics={"t": 2}) for c in "ab")
    static = Member(coordinator, "g", client_id="s", topics={"t": 2}, group_instance_id="s")
    live(coordinator, first, second, static, ms=10_000)
    first.commit({("t", 0): OffsetAndMetadata(5, 1, "m"), ("t", 1): 6})
    coordinator.txn_offset_commit("g", {("t", 0): 7}, producer_id=3, producer_epoch=1)
    coordinator.end_txn(3, committed=True)
    coordinator.offset_fetch("g"), coordinator.offset_fetch("g", {"t": iter([0])})
    coordinator.fail_append("NOT_ENOUGH_REPLICAS", 1)
    second.leave()
    live(coordinator, first, static, ms=5000)
    coordinator.failover()
    coordinator.offset_delete("g", iter([("t", 0)]))
    coordinator.list_groups(iter(["stable"])), coordinator.delete_groups(iter(["g"]))
    coordinator.delete_partitions([("t", 1)]), coordinator.cleanup()
    coordinator.describe_group("g")
    came = lines()
    assert list(run_trace(came)) == did(coordinator)
    assert came[0] == {"format": "coterie-trace", "version": 1, "name": "it",
                       "config": {"group.initial.rebalance.delay.ms": 1000}}  # fmt: skip


def test_only_settings_that_are_not_the_defaults_stand_in_the_header(recorded):
    _, lines = recorded(config={"group.max.size": 2147483647, "coterie.ties": "first"})
    assert lines()[0]["config"] == {}
    _, lines = recorded(config={"coterie.ties": "hash"})
    assert lines()[0]["config"] == {"coterie.ties": "hash"}


def test_resign_and_load_within_one_millisecond_are_a_failover(recorded):
    coordinator, lines = recorded()
    coordinator.offset_commit("g", {("t", 0): 5})
    coordinator.advance(10)
    coordinator.resign(), coordinator.begin_load(), coordinator.finish_load()
    coordinator.offset_fetch("g")
    came = lines()
    assert ops(came) == ["offset_commit", "advance", "failover", "offset_fetch"]
    assert "doc" not in came[0]
    assert list(run_trace(came)) == did(coordinator)


def test_what_was_asked_of_a_resigned_coordinator_is_said_and_left_out(recorded):
    coordinator, lines = recorded()
    coordinator.offset_commit("g", {("t", 0): 5})
    coordinator.resign()
    coordinator.heartbeat("g", 1, "m")
    coordinator.advance(100)
    coordinator.begin_load()
    coordinator.end_txn(7, committed=False)
    coordinator.offset_commit("h", {("t", 0): 5})
    coordinator.advance(200)
    coordinator.finish_load()
    before = len(coordinator.events)
    coordinator.offset_fetch("g"), coordinator.list_groups()
    came = lines()
    assert came[0]["doc"] == (
        "Not all that happened: from 0 to 200 ms the coordinator had resigned or was loading, for "
        "which a trace has no op: a failover stands for it at either end, and 2 requests in "
        "between are left out."
    )
    assert ops(came) == ["offset_commit", "failover", "advance", "advance", "end_txn", "advance",
                         "advance", "failover", "offset_fetch", "list_groups"]  # fmt: skip
    left_out = [line["left_out"]["op"] for line in came if "left_out" in line]
    assert left_out == ["heartbeat", "offset_commit"]
    assert list(run_trace(came))[-2:] == did(coordinator)[before:]


@pytest.mark.parametrize(("away_ms", "repeats"), [(5000, 0), (5001, 1), (10_000, 1), (12_500, 2)])
def test_while_a_coordinator_is_away_its_failover_is_repeated_every_five_seconds(
    recorded, away_ms, repeats
):
    """Below the shortest session that brokers allow, so that none ends meanwhile."""
    coordinator, lines = recorded()
    coordinator.advance(70)
    coordinator.resign()
    coordinator.advance(70 + away_ms)
    coordinator.begin_load(), coordinator.finish_load()
    header, *events = lines()
    failovers = [70, *(70 + 5000 * number for number in range(1, repeats + 1)), 70 + away_ms]
    assert [event["at"] for event in events if event["op"] == "failover"] == failovers
    assert [event["at"] for event in events] == sorted(event["at"] for event in events)
    every = " and every 5000 ms" if repeats else ""
    assert f"from 70 to {70 + away_ms} ms" in header["doc"]
    assert f"stands for it at either end{every}, and 0 requests" in header["doc"]


def test_a_failover_is_repeated_a_thousand_times_at_most_and_anew_for_the_next_one(recorded):
    coordinator, lines = recorded()
    coordinator.resign()
    coordinator.advance(6_000_000)
    coordinator.begin_load(), coordinator.finish_load()
    coordinator.resign()
    coordinator.advance(6_006_000)
    at = [event["at"] for event in lines()[1:] if event["op"] == "failover"]
    assert at == [*range(0, 5_000_001, 5000), 6_000_000, 6_000_000, 6_005_000]


def test_a_request_while_away_repeats_the_failover_before_it(recorded):
    coordinator, lines = recorded()
    coordinator.resign()
    coordinator.advance(5000)
    coordinator.heartbeat("g", 1, "m")
    coordinator.advance(5001)
    coordinator.heartbeat("g", 2, "n")
    assert not any("at" in event.get("left_out", ()) for event in lines())
    events = [(event["at"], event.get("left_out", event).get("generation_id", event["op"]))
              for event in lines()[1:]]  # fmt: skip
    assert events == [(0, "failover"), (5000, "advance"), (5000, 1), (5000, "failover"),
                      (5001, "advance"), (5001, 2)]  # fmt: skip


def test_what_concerns_the_log_alone_is_recorded_of_a_resigned_coordinator(recorded):
    """Of a transaction's end, appends that fail, and settings of groups and topics."""
    coordinator, lines = recorded(config={"coterie.behaviour": "4.1"})
    coordinator.offset_commit("g", {("t", 0): 5})
    coordinator.resign()
    coordinator.end_txn(7, committed=True)
    coordinator.set_topics({"t": 1})
    config = {"consumer.session.timeout.ms": 50_000}
    coordinator.handle({"op": "group_config", "group_id": "g", "config": config})
    coordinator.fail_append("NOT_ENOUGH_REPLICAS", 2)
    coordinator.begin_load(), coordinator.finish_load()
    came = lines()
    assert ops(came) == ["offset_commit", "failover", "end_txn", "metadata", "group_config",
                         "fail_append"]  # fmt: skip
    assert "doc" not in came[0]
    assert list(run_trace(map(json.dumps, came))) == did(coordinator)


@pytest.mark.parametrize("op", ["resign", "begin_load", "finish_load"])
def test_an_election_of_one_partition_is_told_and_what_follows_is_recorded(recorded, op):
    coordinator, lines = recorded()
    coordinator.resign(), coordinator.heartbeat("g", 1, "m"), coordinator.begin_load()
    getattr(coordinator, op)(3)
    coordinator.advance(10)
    coordinator.offset_commit("g", {("t", 0): 5})
    first, *others = lines()
    assert first["doc"] == (
        "Not all that happened: one partition of the offsets topic was given up or loaded, for "
        "which a trace has no op."
    )
    assert ops([first, *others]) == ["failover", "advance", "advance", "offset_commit"]


def test_a_coordinator_that_never_came_back_is_told(recorded):
    coordinator, lines = recorded()
    coordinator.resign()
    coordinator.describe_group("g")
    assert "1 requests in between are left out" in lines()[0]["doc"]


def test_an_ignored_election_leaves_no_mark(recorded):
    coordinator, lines = recorded()
    coordinator.begin_load()
    assert lines() == [{"format": "coterie-trace", "version": 1, "name": "it", "config": {}}]


@pytest.mark.parametrize(
    ("made", "lost"),
    [
        ({"appends": "deferred"}, "appends came back when the test said so"),
        ({"log": [Batch(0, records=((b"\0\2\0\1g", None),))]}, "the coordinator began with a log"),
        ({"config": {"coterie.cleanup": "periodic"}, "now_ms": 5}, "the clock began at 5 ms"),
    ],
)
def test_a_beginning_that_a_trace_cannot_say_is_told(recorded, made, lost):
    _, lines = recorded(**made)
    assert lost in lines()[0]["doc"]
    assert "\n" not in lines()[0]["doc"]


def test_an_operation_that_a_trace_has_no_op_for_is_told(recorded, monkeypatch):
    monkeypatch.setitem(OPERATIONS, "list_groups", OPERATIONS["list_groups"]._replace(traced=False))
    coordinator, lines = recorded()
    coordinator.list_groups()
    coordinator.cleanup()
    first, *others = lines()
    assert "a trace has no op for list_groups" in first["doc"]
    assert ops([first, *others]) == ["cleanup"]


@pytest.mark.parametrize("in_transaction", [False, True])
def test_a_commit_timestamp_that_a_trace_cannot_say_is_told_once(recorded, in_transaction):
    coordinator, lines = recorded()
    for number in (0, 1):
        offsets = {("t", number): OffsetAndMetadata(5, commit_timestamp=3)}
        if in_transaction:
            coordinator.txn_offset_commit("g", offsets, producer_id=3, producer_epoch=1)
        else:
            coordinator.offset_commit("g", offsets)
    assert lines()[0]["doc"].count("a commit_timestamp was given") == 1


def test_a_commits_own_time_of_expiry_is_no_loss(recorded):
    coordinator, lines = recorded()
    coordinator.offset_commit("g", {("t", 0): OffsetAndMetadata(5, expire_timestamp=9)})
    assert "doc" not in lines()[0]


def test_ids_of_the_tests_own_making_become_those_of_a_trace(recorded):
    numbers = iter(range(100, 200))
    coordinator, lines = recorded(
        member_ids=lambda prefix: f"{prefix}/{next(numbers)}",
        config={"group.initial.rebalance.delay.ms": 0},
    )
    first = Member(coordinator, "g", client_id="a", topics={"t": 2})
    live(coordinator, first, ms=5000)
    coordinator.leave_group("g", [first.member_id])
    assert first.member_id == "a/100"
    came = list(run_trace(lines()))
    assert [x["error"] for x in came if x["event"] == "response"] == [
        x["error"] for x in did(coordinator) if x["event"] == "response"
    ]
    assert came[-1]["members"] == [
        {"member_id": "a-00000001", "group_instance_id": None, "error": "NONE"}
    ]


def test_a_played_trace_is_in_the_recording_unless_its_ids_may_clash(recorded):
    plan = [{"member_id_of": 1, "assigned": {"t": [0]}}]
    sync = {"at": 4000, "op": "sync_group", "id": 2, "group_id": "g", "generation_id": 1,
            "member_id_of": 1, "assignments": plan}  # fmt: skip
    trace = [header(), join_event(0, 1), sync]
    coordinator, lines = recorded()
    output = coordinator.play(load_trace(trace))
    assert list(run_trace(lines())) == list(output.lines())
    coordinator.play(load_trace([header(), {"at": 9000, "op": "advance"}]))
    assert "a trace was played after other requests" in lines()[0]["doc"]
    assert lines()[-1]["at"] == 4000


def test_a_recording_that_cannot_be_written_leaves_the_one_of_before(tmp_path, monkeypatch):
    path = tmp_path / "new" / "it.trace.jsonl"
    coordinator, recording = GroupCoordinator(), Recording()
    coordinator._record_into(recording)
    recording.write(path, coordinator.config, coordinator.now_ms)
    before = path.read_text()
    coordinator.describe_group("g")

    def breaks_off(part, text, **_):
        with part.open("w") as file:
            file.write(text[:10])
        raise OSError("no space")

    with monkeypatch.context() as patched:
        patched.setattr(type(path), "write_text", breaks_off)
        with pytest.raises(OSError, match="no space"):
            recording.write(path, coordinator.config, coordinator.now_ms)
    assert path.read_text() == before
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    recording.write(path, coordinator.config, coordinator.now_ms)
    assert len(path.read_text().splitlines()) == 2


def test_a_recording_is_as_open_to_others_as_any_new_file(tmp_path):
    path = tmp_path / "it.trace.jsonl"
    (tmp_path / "plain").touch()
    Recording().write(path, GroupCoordinator().config, 0)
    assert path.stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_a_refused_request_is_no_part_of_a_recording(recorded):
    coordinator, lines = recorded()
    with pytest.raises(ArgumentError, match="give 32730 at most"):
        coordinator.join_group(
            "g", protocol_type="consumer", protocols={"range": b""}, client_id="c" * 32_767
        )
    coordinator.describe_group("g")
    came = lines()
    assert ops(came) == ["describe_group"]
    assert list(run_trace(came)) == did(coordinator)


def test_an_id_that_was_made_for_a_refused_request_takes_no_number(recorded):
    numbers = iter(range(100, 200))
    coordinator, lines = recorded(
        member_ids=lambda prefix: f"{prefix[:1]}/{next(numbers)}" + "x" * (len(prefix) - 1),
        config={"group.initial.rebalance.delay.ms": 0},
    )
    fields = {"protocol_type": "consumer", "protocols": {"range": b""}}
    with pytest.raises(CoterieError, match="must return 1 to 32767 bytes"):
        coordinator.join_group("g", **fields, client_id="c" * 32_767)
    joined = coordinator.join_group("g", **fields, client_id="c").response
    assert joined.member_id == "c/101"  # the refused one had the first
    coordinator.leave_group("g", [joined.member_id])
    came = list(run_trace(lines()))
    assert came[-1]["members"] == [
        {"member_id": "c-00000001", "group_instance_id": None, "error": "NONE"}
    ]


def test_a_recording_is_written_in_any_thread(tmp_path):
    coordinator = GroupCoordinator()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(
            Recording().write, tmp_path / "it.trace.jsonl", coordinator.config, coordinator.now_ms
        ).result()
    assert len((tmp_path / "it.trace.jsonl").read_text().splitlines()) == 1


def test_a_recording_shows_only_what_is_not_the_default(recorded):
    coordinator, lines = recorded(config={"coterie.behaviour": "4.1"})
    coordinator.offset_commit("g", {("t", 0): 1})
    coordinator.offset_commit("g", {("t", 0): 2}, version=4, retention_time_ms=60_000)
    first, second = lines()[1:]
    assert not {"version", "retention_time_ms", "member_id", "generation_id"} & first.keys()
    assert (second["version"], second["retention_time_ms"]) == (4, 60_000)


def test_a_join_has_the_timeouts_of_a_consumer_by_default(recorded):
    """Source: ``ConsumerConfig``: session.timeout.ms and max.poll.interval.ms."""
    coordinator, lines = recorded()
    coordinator.join_group("g", protocol_type="consumer", protocols={"range": b""})
    (join,) = lines()[1:]
    assert (join["session_timeout_ms"], join["rebalance_timeout_ms"]) == (45_000, 300_000)
    assert not join.get("require_known_member_id")
    assert not join.get("supports_skipping_assignment")


@pytest.mark.parametrize(
    ("method", "given", "shown"),
    [
        ("heartbeat", {}, {}),
        ("sync_group", {}, {"assignments": []}),
        ("leave_group", {}, {"members": []}),
        ("offset_commit", {}, {"offsets": []}),
        ("offset_fetch", {}, {"require_stable": False}),
        ("offset_fetch", {"member_id": "m", "member_epoch": 0}, {"require_stable": False}),
        ("offset_delete", {}, {"partitions": []}),
        ("describe_group", {}, {}),
        ("describe_group", {"version": 6}, {}),
        ("txn_offset_commit", {"producer_id": 3, "producer_epoch": 1}, {"offsets": []}),
        ("consumer_group_heartbeat", {},
         {"member_epoch": 0, "rebalance_timeout_ms": -1, "client_id": "",
          "client_host": "/127.0.0.1", "version": 1}),
    ],
)  # fmt: skip
def test_a_recorded_request_has_what_was_given_and_the_defaults_that_a_trace_shows(
    recorded, method, given, shown
):
    coordinator, lines = recorded(config={"coterie.behaviour": "4.1"})
    getattr(coordinator, method)("g", **given)
    first, event = lines()
    head = {"at": 0, "op": method, "id": 1, "group_id": "g"}
    assert event == head | given | shown
    assert list(run_trace([first, event])) == did(coordinator)


@pytest.mark.parametrize("made", [{"now_ms": 5}, {"config": {"coterie.cleanup": "periodic"}}])
def test_a_late_clock_or_a_periodic_cleanup_alone_is_no_loss(recorded, made):
    """The clean-ups of a trace are counted from 0; without such it may begin at any time."""
    _, lines = recorded(**made)
    assert "doc" not in lines()[0]


def test_a_coordinator_that_is_away_at_the_end_was_so_until_then(recorded):
    coordinator, lines = recorded()
    coordinator.advance(100)
    coordinator.resign()
    coordinator.advance(7_000)
    assert "from 100 to 7000 ms the coordinator had resigned" in lines()[0]["doc"]


def test_topics_in_the_header_of_version_1_are_no_part_of_a_recording(recorded):
    """Only version 2 has them."""
    topics = [{"topic": "t", "topic_id": "AAAAAAAAAAAAAAAAAAAAAQ", "partitions": 2}]
    trace = load_trace([header() | {"topics": topics}, join_event(0, 1)])
    coordinator, lines = recorded()
    output = coordinator.play(trace)
    assert ops(lines()) == ["join_group"]
    assert list(run_trace(lines())) == list(output.lines())
