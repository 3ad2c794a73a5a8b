"""What a coordinator keeps beside its core: ids, who waits, the settings that a trace may bring;
and what a recording has of it once something broke off."""

import sys

import pytest

from coterie import (
    ArgumentError,
    Batch,
    CoterieError,
    Error,
    GroupCoordinator,
    TraceError,
    load_trace,
    run_trace,
)
from coterie.coordinator.batches import read_log
from coterie.coordinator.recording import Recording
from coterie.messages import LogReader
from support.coordinator.caller_log import Log
from support.coordinator.classic_group import join, stable
from support.log_writer import batch, commit_key, commit_value
from support.trace_data import header
from support.trace_data import join as join_event

SLOW = {"group_initial_rebalance_delay_ms": 9000}
COMMITTED = (commit_key(1, b"k", b"t", 0), commit_value(5, -1, b"", 0))


def fetched(coordinator, group_id="k"):
    (row,) = coordinator.offset_fetch(group_id).partitions
    return row.offset


def committed_by_a_log(sink):
    """A coordinator that has loaded one commit: of a log of its own, or of the caller's."""
    if not sink:
        return GroupCoordinator(log=[Batch(0, records=(COMMITTED,))])
    log = Log()
    log.batches.append(Batch(100, records=(COMMITTED,)))
    return GroupCoordinator(log_sink=log)


# ---- the settings of a trace


def test_the_settings_of_a_trace_are_not_taken_once_there_was_a_request():
    coordinator = GroupCoordinator()
    coordinator.offset_commit("k", {("t", 0): 5})
    coordinator.play(load_trace([header(**SLOW)]))
    assert fetched(coordinator) == 5
    assert coordinator.config["group.initial.rebalance.delay.ms"] == 3000


@pytest.mark.parametrize("op", ["resign", "failover", "begin_load"])
def test_an_election_is_a_request_too(op):
    coordinator = GroupCoordinator()
    getattr(coordinator, op)()
    coordinator.play(load_trace([header(**SLOW)]))
    assert coordinator.config["group.initial.rebalance.delay.ms"] == 3000
    resigned = coordinator.heartbeat("g", 1, "m").error is Error.NOT_COORDINATOR
    assert resigned == (op == "resign")


@pytest.mark.parametrize("sink", [False, True])
def test_the_settings_of_a_trace_are_not_taken_by_what_a_log_began(sink):
    coordinator = committed_by_a_log(sink)
    coordinator.play(load_trace([header(**SLOW)]))
    assert fetched(coordinator) == 5
    assert coordinator.config["group.initial.rebalance.delay.ms"] == 3000


def test_a_request_that_was_refused_was_none():
    coordinator = GroupCoordinator()
    with pytest.raises(CoterieError, match="no load is under way"):
        coordinator.finish_load()
    coordinator.play(load_trace([header(**SLOW)]))
    assert coordinator.config["group.initial.rebalance.delay.ms"] == 9000


def test_a_trace_brings_its_settings_once():
    coordinator = GroupCoordinator()
    coordinator.play(load_trace([header(**SLOW)]))
    coordinator.play(load_trace([header(group_initial_rebalance_delay_ms=1)]))
    assert coordinator.config["group.initial.rebalance.delay.ms"] == 9000


def test_time_that_has_passed_stays_past_where_a_trace_brings_its_settings():
    coordinator = GroupCoordinator()
    coordinator.advance(1000)
    with pytest.raises(TraceError, match=r"999.*1000|1000.*999"):
        coordinator.play(load_trace([header(**SLOW), join_event(999, 1)]))
    assert coordinator.now_ms == 1000


# ---- ids, and who waits


def test_requests_after_a_trace_have_ids_of_their_own():
    coordinator = GroupCoordinator()
    coordinator.play(load_trace([header(), join_event(0, 7), join_event(0, 3)]))
    own = join(coordinator, client_id="own")
    coordinator.advance(60_000)
    assert own.response.member_id.startswith("own-")
    answered = [event.id for event in coordinator.events if hasattr(event, "id")]
    assert sorted(answered) == [3, 7, 8]


def test_a_reference_is_to_an_answer_of_the_same_trace():
    coordinator = GroupCoordinator()
    coordinator.play(load_trace([header(), join_event(0, 7)]))
    coordinator.advance(60_000)
    beat = {"at": 60_001, "op": "heartbeat", "id": 8, "group_id": "g", "generation_id": 1,
            "member_id_of": 7}  # fmt: skip
    with pytest.raises(TraceError, match="request 7 has been told no member id"):
        coordinator.play(load_trace([header(), beat]))


def test_a_request_from_a_listener_is_refused_and_takes_no_id():
    def on_event(event):
        with pytest.raises(CoterieError, match="must not call back"):
            coordinator.describe_group("g")

    coordinator = GroupCoordinator(on_event=on_event)
    for _ in range(3):
        coordinator.describe_group("g")
    assert [event.id for event in coordinator.events] == [1, 2, 3]


def test_events_that_were_taken_are_the_callers_alone():
    coordinator = GroupCoordinator()
    join(coordinator)
    coordinator.advance(60_000)
    taken, others = coordinator.take_events(), [object(), object()]
    transition = next(n for n, event in enumerate(taken) if not hasattr(event, "response"))
    assert sys.getrefcount(taken[transition]) == sys.getrefcount(others[0])


def test_a_request_that_was_answered_is_not_kept():
    coordinator = GroupCoordinator()
    waiting = join(coordinator)
    coordinator.offset_commit("k", {("t", 0): 5})
    assert list(coordinator._outbox.waiting.values()) == [waiting]
    coordinator.advance(60_000)
    assert coordinator._outbox.waiting == {}


# ---- recordings


def recorded(coordinator):
    recording = Recording()
    coordinator._record_into(recording)
    return lambda: recording.lines("it", coordinator.config, coordinator.now_ms)


def did(coordinator):
    return [event.as_dict() for event in coordinator.events]


class Breaks(dict):
    """A place after the core's call at which a signal comes."""

    def __setitem__(self, key, value):
        raise KeyboardInterrupt


def test_a_request_that_took_place_before_an_interruption_is_recorded():
    coordinator = GroupCoordinator()
    lines = recorded(coordinator)
    waiting, coordinator._outbox.waiting = coordinator._outbox.waiting, Breaks()
    with pytest.raises(KeyboardInterrupt):
        coordinator.offset_commit("k", {("t", 0): 5})
    coordinator._outbox.waiting = waiting
    assert fetched(coordinator) == 5
    assert list(run_trace(lines())) == did(coordinator)


def test_an_advance_that_a_listener_interrupted_is_recorded():
    def on_event(event):
        if event.at == 3000:
            raise KeyboardInterrupt

    coordinator = GroupCoordinator(on_event=on_event)
    lines = recorded(coordinator)
    join(coordinator)
    with pytest.raises(KeyboardInterrupt):
        coordinator.advance(4000)
    assert list(run_trace(lines())) == did(coordinator)
    assert lines()[-1] == {"at": 4000, "op": "advance"}


def test_of_a_trace_that_breaks_off_what_took_place_is_recorded():
    coordinator = GroupCoordinator()
    lines = recorded(coordinator)
    sync = {"at": 5000, "op": "sync_group", "id": 9, "group_id": "g", "generation_id": 1,
            "member_id_of": 8}  # fmt: skip
    with pytest.raises(TraceError, match="request 8"):
        coordinator.play(load_trace([header(), join_event(0, 1), sync, join_event(6000, 2)]))
    assert did(coordinator)
    assert list(run_trace(lines())) == did(coordinator)
    assert [line["op"] for line in lines()[1:]] == ["join_group", "advance"]


def test_of_a_trace_that_a_maker_of_ids_interrupts_what_took_place_is_recorded():
    ids = iter(["a-00000001"])

    def member_ids(prefix):
        for made in ids:
            return made
        raise KeyboardInterrupt

    coordinator = GroupCoordinator(member_ids=member_ids)
    lines = recorded(coordinator)
    with pytest.raises(KeyboardInterrupt):
        coordinator.play(load_trace([header(), *(
            join_event(at, 1 + at, client_id="a") for at in (0, 5000, 6000))]))  # fmt: skip
    assert did(coordinator)
    assert list(run_trace(lines())) == did(coordinator)


# ---- what is taken, and what is not


@pytest.mark.parametrize("at", [2**63, -1, True])
def test_a_time_that_a_clock_cannot_have_is_a_wrong_line(at):
    with pytest.raises(TraceError, match="the time in milliseconds") as caught:
        load_trace([header(), {"at": at, "op": "advance"}])
    assert caught.value.line == 2


@pytest.mark.parametrize("request_id", [-1, -(2**63), 2**63 - 1])
def test_an_id_is_any_number_of_64_bits(request_id):
    describe = {"at": 0, "op": "describe_group", "id": request_id, "group_id": "g"}
    (answer,) = run_trace([header(), describe])
    assert answer["id"] == request_id
    for beyond in (2**63, -(2**63) - 1):
        with pytest.raises(TraceError, match="needs id"):
            load_trace([header(), describe | {"id": beyond}])


def test_a_member_is_named_in_one_way():
    beat = {"at": 9000, "op": "heartbeat", "id": 2, "group_id": "g", "generation_id": 1,
            "member_id": "c-00000001", "member_id_of": 1}  # fmt: skip
    with pytest.raises(TraceError, match="exclude each other"):
        load_trace([header(), join_event(0, 1), beat])
    load_trace([header(), join_event(0, 1), beat | {"member_id": ""}])


def test_bytes_of_a_view_that_was_released_are_refused():
    view = memoryview(b"x")
    view.release()
    coordinator = GroupCoordinator()
    with pytest.raises(ArgumentError, match="cannot be read"):
        join(coordinator, protocols={"range": view})
    assert coordinator.events == []


def test_a_log_is_read_whatever_its_checksums_say(tmp_path):
    path = tmp_path / "it.log"
    data = bytearray(batch(0, [(0, *COMMITTED)]))
    data[17] ^= 1  # of the checksum
    path.write_bytes(data)
    checked = LogReader(bytes(data))
    assert list(checked) == []
    assert [fault.kind for fault in checked.faults] == ["crc"]
    assert [b.records for b in read_log(path)] == [(COMMITTED,)]
    assert fetched(GroupCoordinator(log=read_log(path))) == 5


def test_a_snapshot_says_time_0_and_says_where_there_is_none():
    coordinator = GroupCoordinator({"group.initial.rebalance.delay.ms": 0})
    stable(coordinator)
    assert coordinator.snapshot("g").current_state_timestamp == 0
    loaded = GroupCoordinator(log=[Batch(0, records=(COMMITTED,))])
    assert loaded.snapshot("k").current_state_timestamp == 0


def test_an_index_counts_the_appends_that_are_in_flight_now():
    coordinator = GroupCoordinator(appends="deferred")
    for number in range(9):
        coordinator.offset_commit("g", {("t", number): 5})
    appends = coordinator.appends
    model = [*appends]
    for change in (
        lambda: (appends.popleft(), model.pop(0)),
        lambda: (appends.pop(), model.pop()),
        lambda: (model[2].complete(), model.pop(2)),
        lambda: (coordinator.offset_commit("h", {("t", 0): 5}), model.append(appends[-1])),
        lambda: (appends.rotate(2), model.insert(0, model.pop()), model.insert(0, model.pop())),
        lambda: (appends.remove(model[1]), model.pop(1)),
    ):
        assert [appends[at] for at in range(-len(model), len(model))] == model * 2
        change()
        assert [appends[at] for at in range(-len(model), len(model))] == model * 2
    appends.clear()
    for at in (0, 1, -1):
        with pytest.raises(IndexError):
            appends[at]
    with pytest.raises(IndexError):
        appends.pop()
