"""Signals interrupt long calls between two timers or two requests, without loss of state.

Signals come from a CPU-time timer of the process, or are pending before C code is called.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
from collections import deque
from contextlib import contextmanager
from itertools import chain, repeat

import pytest

from coterie import GroupCoordinator, OffsetAndMetadata, load_trace
from coterie._core.coordinator.offsets import Trace
from coterie.base.operations import NUMBER
from coterie.coordinator.clock import SharedClock
from support.commandline import COTERIE, default_sigint, folder_of
from support.coordinator.classic_group import join, stable
from support.trace_data import header
from support.trace_data import join as join_event

EACH_MS = {"coterie.cleanup": "periodic", "offsets.retention.check.interval.ms": 1}
FAR = 50_000_000  # ms and timers: many seconds of work, where an interruption comes at once
SOON_S = 0.01  # of CPU time


@contextmanager
def interrupted():
    """Interrupt the block with SIGINT, and check that it raises KeyboardInterrupt."""
    before = signal.signal(signal.SIGVTALRM, signal.default_int_handler)
    try:
        signal.setitimer(signal.ITIMER_VIRTUAL, SOON_S)
        yield
    except KeyboardInterrupt:
        pass
    else:
        pytest.fail("it went on to its end")
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def call_with_a_signal_there(function, *args):
    """Call C code while a SIGINT is pending that Python has not handled yet."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    trip = ctypes.pythonapi.PyErr_SetInterruptEx
    try:
        with pytest.raises(KeyboardInterrupt):
            deque(chain(map(trip, [signal.SIGINT]), map(function, *([a] for a in args))), maxlen=0)
    finally:
        signal.signal(signal.SIGINT, before)


def lively(**kwargs):
    """A trace with timers in each millisecond, and an event every half second for over a minute."""
    coordinator = GroupCoordinator(EACH_MS, **kwargs)
    expiring = {
        ("t", n): OffsetAndMetadata(n, expire_timestamp=500 * n + n % 7) for n in range(1, 150)
    }
    coordinator.offset_commit("o", expiring)
    stable(coordinator, "d", group_instance_id=None, session_timeout_ms=40_000)
    join(coordinator, client_id="s", group_instance_id="s", rebalance_timeout_ms=3)
    return coordinator


def state_of(coordinator):
    names = [group.group_id for group in coordinator.list_groups().groups]
    del coordinator.events[-1:]
    return (
        [coordinator.snapshot(name) for name in names],
        coordinator.log,
        coordinator.now_ms,
        coordinator.next_deadline_ms(),
    )


def same_as_in_one_go(coordinator, whole, end_ms):
    coordinator.advance(end_ms)
    whole.advance(end_ms)
    assert [e.as_dict() for e in coordinator.events] == [e.as_dict() for e in whole.events]
    assert state_of(coordinator) == state_of(whole)


def test_an_advance_stops_between_two_timers_and_goes_on_as_if_it_never_had():
    coordinator = lively()
    start_ms = coordinator.now_ms
    with interrupted():
        coordinator.advance(FAR)
    assert start_ms <= coordinator.now_ms < FAR
    assert coordinator.next_deadline_ms() - coordinator.now_ms in (0, 1)
    same_as_in_one_go(coordinator, lively(), coordinator.now_ms + 60_000)


def test_an_advance_with_a_signal_there_stops_at_the_deadline_of_the_first_timer():
    coordinator = GroupCoordinator(EACH_MS, now_ms=70)
    call_with_a_signal_there(coordinator._core.advance, FAR)
    assert (coordinator.now_ms, coordinator.next_deadline_ms()) == (71, 72)


@pytest.mark.parametrize("step", ["advance_by", "run_until"])
def test_other_ways_to_let_time_pass_are_interrupted_too(step):
    coordinator = lively()
    with interrupted():
        if step == "advance_by":
            coordinator.advance_by(FAR)
        else:
            never = coordinator.sync_group("g", 1, "d-00000001")
            coordinator.run_until(never, limit_ms=FAR)
            coordinator.advance(FAR)
    assert coordinator.now_ms < FAR


def test_a_played_trace_is_interrupted_and_what_it_did_by_then_is_told():
    lines = [header(**{k.replace(".", "_"): v for k, v in EACH_MS.items()}), join_event(0, 1)]
    coordinator, whole = GroupCoordinator(), GroupCoordinator()
    with interrupted():
        coordinator.play(load_trace([*lines, {"at": FAR, "op": "advance"}]))
    assert coordinator.now_ms < FAR
    whole.events.extend(whole.play(load_trace(lines)).events())
    same_as_in_one_go(coordinator, whole, coordinator.now_ms + 60_000)


def test_a_trace_of_requests_alone_is_interrupted():
    """The interruption falls within a trace, not only at its start."""
    count = 100_000
    trace = Trace({})
    for _ in range(count):
        trace.add(2, 0, NUMBER["heartbeat"], 1, "g", 1, "m", None, None)
    done = []
    for _ in range(5):
        coordinator = GroupCoordinator()
        with interrupted():  # no bytecode runs between two plays, which would see the signal
            deque(map(coordinator._core.play, repeat(trace, 200)), maxlen=0)
        done.append(len(coordinator._core.outputs) % count)
    assert any(done)


def test_coordinators_that_share_a_clock_are_interrupted_and_go_on_together():
    clock, whole = SharedClock(), SharedClock()
    pairs = [(GroupCoordinator(EACH_MS), GroupCoordinator(EACH_MS)) for _ in range(2)]
    for pair in pairs:
        for made, each in zip(pair, (clock, whole), strict=True):
            made.live_by(each)
            join(made)
    with interrupted():
        clock.advance(FAR)
    assert clock.now_ms < FAR
    end_ms = clock.now_ms + 30_000
    clock.move(end_ms)
    whole.move(end_ms)
    for one, other in pairs:
        assert [e.as_dict() for e in one.events] == [e.as_dict() for e in other.events]
        assert state_of(one) == state_of(other)


def test_a_shared_clock_fires_what_an_interruption_left_due():
    clock = SharedClock()
    coordinator, other = GroupCoordinator(), GroupCoordinator()
    for each in (coordinator, other):
        each.live_by(clock)
    for client in "ab":
        join(coordinator, client_id=client, require_known_member_id=True)
    call_with_a_signal_there(coordinator._core.advance, 10_000)
    assert coordinator.now_ms == 10_000
    assert coordinator.snapshot("g").pending_members == ("b-00000002",)
    clock.move(10_000)
    assert coordinator.snapshot("g").pending_members == ()
    assert other.now_ms == clock.now_ms == 10_000


def test_events_are_taken_all_or_not_at_all():
    coordinator = GroupCoordinator()
    coordinator._core.call(NUMBER["describe_group"], 1, "g", -1, None, None, None)
    events, fresh = [], deque()
    call_with_a_signal_there(coordinator._core.take_events, events, fresh)
    assert (events, list(fresh)) == ([], [])
    coordinator._core.take_events(events, fresh)
    assert len(events) == len(fresh) == 1


def test_events_that_a_listener_did_not_live_to_hear_are_told_next():
    heard = []

    def on_event(event):
        if len(heard) == 1 and "again" not in heard:
            heard.append("again")
            raise KeyboardInterrupt
        heard.append(event)

    coordinator = GroupCoordinator(on_event=on_event)
    pending = join(coordinator)
    with pytest.raises(KeyboardInterrupt):
        coordinator.advance(60_000)
    assert pending.done
    coordinator.advance(60_001)
    heard.remove("again")
    # The event of the interruption was delivered.
    assert heard == [coordinator.events[0], *coordinator.events[2:]]
    assert len(heard) > 3


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_trace_that_runs_on_and_on_ends_with_a_signal_and_leaves_nothing(
    number, status, tmp_path
):
    settings = {name.replace(".", "_"): value for name, value in EACH_MS.items()}
    lines = [header(**settings), {"at": 10**11, "op": "advance"}]
    path = tmp_path / "it.trace.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    out = tmp_path / "new" / "out"
    command = [*COTERIE, "trace", "run", path, "--out", out]
    process = subprocess.Popen(
        command, stderr=subprocess.PIPE, text=True, preexec_fn=default_sigint
    )
    try:
        while process.poll() is None and not any(out.glob(".it.*.partial")):
            os.sched_yield()
        process.send_signal(number)
        _, said = process.communicate()
    finally:
        process.kill()
    assert process.returncode == status, said
    assert len(said.splitlines()) == 1, said
    assert folder_of(tmp_path) == ["it.trace.jsonl"]


HEARD_IN_DEL = """
import os, signal, sys, time
from coterie import cli
class Freed:
    def __del__(self):
        os.kill(os.getpid(), getattr(signal, sys.argv[1]))
        for _ in range(1000): pass
def run():
    try:
        freed = Freed()
        del freed
        while True:
            time.sleep(60)  # until a signal comes
    except BaseException as error:
        return cli.status_of(error)
cli.run = run
cli.main()
"""


@pytest.mark.skipif(os.name != "posix", reason="signals")
@pytest.mark.parametrize(("name", "status"), [("SIGTERM", 143), ("SIGINT", 130)])
def test_a_signal_that_comes_as_an_object_is_freed_is_heard_and_shows_no_traceback(name, status):
    """Python cannot raise there: it would print a traceback and continue."""
    command = [sys.executable, "-c", HEARD_IN_DEL, name]
    done = subprocess.run(command, capture_output=True, text=True, preexec_fn=default_sigint)
    assert done.returncode == status
    (line,) = done.stderr.splitlines()
    assert line.endswith("nothing half-done was left")
