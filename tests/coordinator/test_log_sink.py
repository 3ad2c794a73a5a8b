"""A log that the caller keeps: the coordinator hands batches out, and holds none."""

import gc
import resource
import sys
from pathlib import Path

import pytest

from coterie import (
    Append,
    ArgumentError,
    Batch,
    CoterieError,
    Error,
    GroupCoordinator,
    Response,
    load_trace,
)
from support.coordinator.caller_log import FIELDS, Log
from support.coordinator.classic_group import stable
from support.trace_data import TRACES, header, names, scenario


def content(batches):
    return [tuple(getattr(batch, name) for name in FIELDS) for batch in batches]


def commit(coordinator, offset, group_id="g"):
    return coordinator.offset_commit(group_id, {("t", 0): offset})


def error_of(pending):
    return pending.response.partitions[0].error


def offsets(coordinator):
    return [event.base_offset for event in coordinator.events if isinstance(event, Append)]


def shown(coordinator, group_id="g"):
    return coordinator.offset_fetch(group_id, {"t": [0]})["t", 0].offset


def test_each_scenario_is_answered_as_with_a_log_in_memory_and_leaves_the_same_batches():
    for name in names(TRACES / "scenarios"):
        lines, _ = scenario(name)
        log = Log()
        ours, theirs = GroupCoordinator(log_sink=log), GroupCoordinator()
        came, wanted = ours.play(load_trace(lines)), theirs.play(load_trace(lines))
        assert list(came.lines()) == list(wanted.lines()), name
        assert content(log.batches) == content(theirs.log), name
        assert ours.log == tuple(log.batches), name


def test_an_offset_of_a_log_is_from_0_to_where_a_log_may_end():
    for answer, fits in [(0, True), (1, True), (2**62, True), (2**62 + 1, False), (-1, False)]:
        log = Log()
        log.answers = [answer]
        coordinator = GroupCoordinator(log_sink=log)
        if fits:
            commit(coordinator, 5)
            assert offsets(coordinator) == [answer]
        else:
            with pytest.raises(CoterieError, match=f"not {answer}"):
                commit(coordinator, 5)


def test_offsets_of_a_commit_and_its_events_are_those_of_the_log():
    log = Log()
    coordinator = GroupCoordinator(log_sink=log)
    commit(coordinator, 5), commit(coordinator, 6)
    assert [event.base_offset for event in coordinator.events if hasattr(event, "key")] == [
        100,
        101,
    ]
    assert (shown(coordinator), len(coordinator.appends)) == (6, 0)


def test_an_append_without_an_offset_comes_back_later():
    log = Log(later=True)
    coordinator = GroupCoordinator(log_sink=log)
    pending = commit(coordinator, 5)
    (append,) = coordinator.appends
    assert not pending.done
    assert shown(coordinator) == -1
    with pytest.raises(ArgumentError, match="base_offset: give the offset"):
        append.complete()
    append.complete(base_offset=7)
    assert (error_of(pending), shown(coordinator)) == (Error.NONE, 5)
    assert offsets(coordinator) == [7]
    with pytest.raises(CoterieError, match="already"):
        append.complete(base_offset=7)
    assert len(log.batches) == 1


def test_of_commits_that_come_back_in_another_order_the_later_in_the_log_is_seen():
    coordinator = GroupCoordinator(log_sink=Log(later=True))
    commit(coordinator, 1), commit(coordinator, 2)
    first, second = coordinator.appends
    second.complete(base_offset=10)
    first.complete(base_offset=9)
    assert shown(coordinator) == 2


def test_a_commit_written_at_once_comes_in_place_of_one_that_is_still_under_way():
    log = Log()
    coordinator = GroupCoordinator(log_sink=log)
    log.answers = [None]
    late = commit(coordinator, 5)
    assert commit(coordinator, 6).done
    assert shown(coordinator) == 6
    coordinator.appends[0].complete(base_offset=200)
    assert error_of(late) == Error.NONE
    assert shown(coordinator) == 6
    log.answers = [None, OSError("full")]
    late = commit(coordinator, 7)
    with pytest.raises(CoterieError, match="full"):
        commit(coordinator, 8)
    coordinator.appends[0].complete(base_offset=300)
    assert late.done
    assert shown(coordinator) == 6


def test_an_append_that_comes_back_with_an_error_leaves_nothing():
    coordinator = GroupCoordinator(log_sink=Log(later=True))
    pending = commit(coordinator, 5)
    coordinator.appends[0].complete(Error.NOT_ENOUGH_REPLICAS)
    assert error_of(pending) is Error.COORDINATOR_NOT_AVAILABLE
    assert (shown(coordinator), len(coordinator.appends)) == (-1, 0)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (OSError("no space"), "no space"),
        (1.5, "not 1.5"),
        (-1, "not -1"),
        (True, "not True"),
        (2**70, "not 1180591620717411303424"),
    ],
)
def test_what_a_log_raises_or_cannot_mean_fails_the_append_and_is_told(answer, says):
    log = Log()
    told = []
    coordinator = GroupCoordinator(log_sink=log, on_event=told.append)
    log.answers = [answer]
    with pytest.raises(CoterieError, match=says):
        commit(coordinator, 5)
    # As Kafka answers a KAFKA_STORAGE_ERROR.
    assert [event.response.partitions[0].error for event in told] == [Error.NOT_COORDINATOR]
    assert (shown(coordinator), log.batches) == (-1, [])
    assert error_of(commit(coordinator, 6)) is Error.NONE
    assert shown(coordinator) == 6


def test_a_rebalance_whose_append_fails_goes_on_and_the_failure_is_told_once():
    log = Log()
    coordinator = GroupCoordinator(log_sink=log)
    log.answers = [OSError("gone")]
    with pytest.raises(CoterieError, match="gone"):
        stable(coordinator)
    assert coordinator.snapshot("g").state == "PreparingRebalance"
    coordinator.advance_by(1)


def test_a_marker_goes_to_the_log_and_needs_no_offset():
    log = Log(later=True)
    coordinator = GroupCoordinator(log_sink=log)
    pending = coordinator.txn_offset_commit("g", {("t", 0): 5}, producer_id=3, producer_epoch=0)
    coordinator.appends[0].complete(base_offset=0)
    coordinator.end_txn(3, committed=True)
    assert (error_of(pending), shown(coordinator)) == (Error.NONE, 5)
    assert [(batch.control, batch.producer_id) for batch in log.batches] == [(False, 3), (True, 3)]


@pytest.mark.parametrize("behaviour", ["2.4", "3.9", "4.1"])
def test_a_batch_has_the_producer_of_its_transaction_or_none(behaviour):
    log = Log()
    coordinator = GroupCoordinator({"coterie.behaviour": behaviour}, log_sink=log)
    coordinator.offset_commit("g", {("t", 0): 5})
    coordinator.txn_offset_commit("g", {("t", 0): 5}, producer_id=3, producer_epoch=2)
    coordinator.end_txn(3, committed=True)
    rows = [(batch.producer_id, batch.producer_epoch, batch.transactional, batch.control)
            for batch in log.batches]  # fmt: skip
    assert rows == [(-1, -1, False, False), (3, 2, True, False), (3, 0, True, True)]


def test_groups_hear_of_no_marker_that_was_not_written():
    log = Log()
    coordinator = GroupCoordinator(log_sink=log)
    coordinator.txn_offset_commit("g", {("t", 0): 5}, producer_id=3, producer_epoch=0)
    log.answers = [OSError("no space")]
    with pytest.raises(CoterieError, match="no space"):
        coordinator.end_txn(3, committed=True)
    assert shown(coordinator) == -1
    coordinator.end_txn(3, committed=True)
    assert shown(coordinator) == 5
    coordinator.failover()
    assert shown(coordinator) == 5


def test_an_interruption_within_the_log_is_raised_as_one_and_leaves_no_half_of_a_commit():
    log = Log()
    told = []
    coordinator = GroupCoordinator(log_sink=log, on_event=told.append)
    log.answers = [KeyboardInterrupt()]
    with pytest.raises(KeyboardInterrupt):
        commit(coordinator, 5)
    assert [event.response.partitions[0].error for event in told] == [Error.NOT_COORDINATOR]
    stable_answer = coordinator.offset_fetch("g", {"t": [0]}, require_stable=True)
    assert stable_answer["t", 0].error is Error.NONE


def test_what_a_log_raises_while_a_trace_is_played_is_told_by_that_call():
    log = Log()
    coordinator = GroupCoordinator(log_sink=log)
    event = {"at": 0, "op": "offset_commit", "id": 1, "group_id": "g",
             "offsets": [{"topic": "t", "partition": 0, "offset": 5}]}  # fmt: skip
    log.answers = [OSError("no space")]
    with pytest.raises(CoterieError, match="no space"):
        coordinator.play(load_trace([header(), event]))
    (answered,) = coordinator.take_events()
    assert answered.response.partitions[0].error is Error.NOT_COORDINATOR
    assert coordinator.list_groups().error is Error.NONE


@pytest.mark.parametrize(
    ("failures", "raised", "says"),
    [
        ([OSError("first"), OSError("second")], CoterieError, "first"),
        ([OSError("first"), KeyboardInterrupt("second")], KeyboardInterrupt, "second"),
        ([KeyboardInterrupt("first"), OSError("second")], KeyboardInterrupt, "first"),
    ],
)
def test_of_several_failures_of_a_log_an_interruption_is_raised_or_else_the_first(
    failures, raised, says
):
    log = Log()
    coordinator = GroupCoordinator(log_sink=log)
    log.answers = list(failures)
    commits = [
        {"at": 0, "op": "offset_commit", "id": n, "group_id": "g",
         "offsets": [{"topic": "t", "partition": 0, "offset": n}]}
        for n in (1, 2)
    ]  # fmt: skip
    with pytest.raises(raised, match=says):
        coordinator.play(load_trace([header(), *commits]))
    assert len(coordinator.take_events()) == 2
    coordinator.advance_by(1)  # it is raised once
    assert error_of(commit(coordinator, 3)) is Error.NONE


def test_appends_of_a_trace_that_come_back_later_are_there_after_it():
    coordinator = GroupCoordinator(log_sink=Log(later=True))
    event = {"at": 0, "op": "offset_commit", "id": 1, "group_id": "g",
             "offsets": [{"topic": "t", "partition": 0, "offset": 5}]}  # fmt: skip
    assert list(coordinator.play(load_trace([header(), event])).lines()) == []
    coordinator.appends[0].complete(base_offset=3)
    assert shown(coordinator) == 5


def test_a_log_must_not_call_back():
    class Calling(Log):
        def append(self, batch):
            self.coordinator.heartbeat("g", 1, "m")

        def read(self):
            if hasattr(self, "coordinator"):
                self.coordinator.heartbeat("g", 1, "m")
            return ()

    log = Calling()
    log.coordinator = coordinator = GroupCoordinator(log_sink=log)
    with pytest.raises(CoterieError, match="must not call back"):
        commit(coordinator, 5)
    with pytest.raises(CoterieError, match="must not call back"):
        coordinator.failover()
    assert [event.op for event in coordinator.events if isinstance(event, Response)] == [
        "offset_commit"
    ]


def test_a_trace_with_settings_of_its_own_reads_the_log_with_them():
    log = Log()
    log.batches = [Batch(0, records=((b"\0\2\0\1g", b"\0\x09"),))]
    coordinator = GroupCoordinator(log_sink=log)
    assert coordinator.load_error is not None
    coordinator.play(load_trace([header(group_max_size=5), {"at": 1, "op": "advance"}]))
    assert coordinator.config["group.max.size"] == 5
    assert coordinator.load_error is not None


@pytest.mark.parametrize("behaviour", ["3.9", "4.1"])
def test_a_log_is_read_once_for_each_load(behaviour):
    reads = []

    class Counting(Log):
        def read(self):
            reads.append(self)
            return ()

    coordinator = GroupCoordinator({"coterie.behaviour": behaviour}, log_sink=Counting())
    assert len(reads) == 1
    coordinator.failover()
    assert len(reads) == 2


def test_what_the_log_has_is_loaded_at_the_start_and_after_an_election():
    log = Log()
    first = GroupCoordinator(log_sink=log)
    commit(first, 5), commit(first, 6, "h")
    second = GroupCoordinator(log_sink=log)
    assert (shown(second), shown(second, "h")) == (5, 6)
    del log.batches[0]
    second.failover()
    assert (shown(second), shown(second, "h")) == (-1, 6)


def test_a_log_that_cannot_be_read_leaves_the_partition_loading(monkeypatch):
    log = Log()
    coordinator = GroupCoordinator(log_sink=log)
    commit(coordinator, 5)
    coordinator.resign(), coordinator.begin_load()
    with monkeypatch.context() as patched:
        patched.setattr(log, "read", lambda: iter(lambda: 1 // 0, None))
        with pytest.raises(CoterieError, match=r"log_sink.read\(\) raised ZeroDivisionError"):
            coordinator.finish_load()
    assert coordinator.describe_group("g").error is Error.COORDINATOR_LOAD_IN_PROGRESS
    coordinator.finish_load()
    assert shown(coordinator) == 5


@pytest.mark.parametrize(
    ("read", "told"),
    [
        (5, r"log_sink.read\(\) must be an iterable of coterie.Batch, not 5"),
        ("text", r"log_sink.read\(\) must be an iterable of coterie.Batch, not 'text'"),
        ([Batch(0), 5], r"log_sink.read\(\) must hold coterie.Batch objects, not 5"),
    ],
)
def test_what_read_must_return_is_said(read, told):
    log = Log()
    log.read = lambda: read
    with pytest.raises(ArgumentError, match=told):
        GroupCoordinator(log_sink=log)


@pytest.mark.parametrize("kind", [list, tuple, iter])
def test_read_may_return_any_iterable(kind):
    log = Log()
    commit(GroupCoordinator(log_sink=log), 5)
    log.read = lambda: kind(log.batches)
    assert shown(GroupCoordinator(log_sink=log)) == 5


def test_what_is_no_log_is_refused():
    with pytest.raises(ArgumentError, match=r"log_sink\.append must be callable"):
        GroupCoordinator(log_sink=object())
    for given in ({"log": [Batch(0)]}, {"appends": "deferred"}):
        with pytest.raises(ArgumentError, match="log_sink is yours"):
            GroupCoordinator(log_sink=Log(), **given)


class Nowhere:
    """Keeps nothing but where its end is."""

    end = 0

    def append(self, batch):
        self.end += len(batch.records)
        return self.end - len(batch.records)

    def read(self):
        return ()


def resident_bytes():
    """What the process has in memory, C arrays, too; 0 where the system does not tell."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return 0
    return int(statm.read_text().split()[1]) * resource.getpagesize()


def test_a_million_commits_leave_nothing_in_memory():
    commits = [
        {
            "at": 0, "op": "offset_commit", "id": n + 1, "group_id": f"g{n % 7}",
            "offsets": [{"topic": "t", "partition": p, "offset": n} for p in range(100)],
        }
        for n in range(100)
    ]  # fmt: skip
    trace = load_trace([header(), *commits])
    sink = Nowhere()
    coordinator = GroupCoordinator(log_sink=sink)

    def held_after(rounds):
        for _ in range(rounds):
            coordinator.play(trace)
        gc.collect()
        return sys.getallocatedblocks(), resident_bytes()

    blocks, resident = held_after(2)
    blocks_then, resident_then = held_after(98)
    assert blocks_then - blocks < 1000
    assert resident_then - resident < 4_000_000  # 4 bytes a commit, of C arrays, would be as much
    assert sink.end == 1_000_000
