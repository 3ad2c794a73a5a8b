"""The thread of a Broker: it ends with an interrupted start, and is no forked child's."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import CancelledError

import pytest

from coterie.errors import CoterieError
from coterie.server import Broker
from coterie.server.running import Running
from coterie.server.shutdown import end_other_tasks
from support.commandline import default_sigint
from support.patience import HANG_S
from support.server import asking, sockets

INTERRUPTED = """
import os, signal, sys, threading
from coterie.server import Broker
from coterie.server.running import Running

start = Running.start

async def interrupted(self):
    await start(self)
    os.kill(os.getpid(), signal.SIGINT)
    await gate_of_another_loop()

async def gate_of_another_loop():
    import asyncio
    await asyncio.Event().wait()  # a start that takes as long as one likes

Running.start = interrupted
try:
    with Broker():
        sys.exit("it started")
except KeyboardInterrupt:
    pass
for thread in threading.enumerate():
    if thread is not threading.main_thread():
        sys.exit(f"left: {thread.name}")
"""
AT_ANY_MOMENT = """
import sys, threading
from coterie.server import Broker

def is_interrupted(moment):
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        if frame.f_code.co_filename.endswith(("broker.py", "_thread.py")):
            count += event in ("line", "call")
            if count == moment:
                sys.settrace(None)
                raise KeyboardInterrupt
        return trace

    broker = Broker()
    sys.settrace(trace)
    try:
        with broker:
            sys.settrace(None)
            return False
    except KeyboardInterrupt:
        return True

moment = 1
while is_interrupted(moment):
    moment += 1
for thread in threading.enumerate():
    if thread.name == "coterie-broker":
        thread.join()  # one that was not to begin any more ends by itself
print(moment)
"""


def run(code):
    """Run Python code in a process of its own, which gets SIGINT; it must end with status 0."""
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True,
        timeout=HANG_S, preexec_fn=default_sigint,
    )  # fmt: skip
    assert (ended.returncode, ended.stderr) == (0, "")
    return ended.stdout


def test_one_ctrl_c_ends_a_start_that_takes_long_and_its_thread():
    run(INTERRUPTED)


def test_an_interruption_at_any_line_of_the_start_leaves_no_thread():
    assert int(run(AT_ANY_MOMENT)) > 5


@pytest.fixture
def halted(monkeypatch):
    """Starts that do not end: a threading.Event that says that one has begun."""
    begun = threading.Event()

    async def start(self):
        begun.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(Running, "start", start)
    return begun


def broker_threads():
    return [thread for thread in threading.enumerate() if thread.name == "coterie-broker"]


def test_a_task_that_is_cancelled_while_a_broker_starts_leaves_no_thread(halted):
    async def enter():
        async with Broker():
            raise AssertionError("it started")

    async def cancel():
        task = asyncio.create_task(enter())
        await asyncio.to_thread(halted.wait)
        assert broker_threads()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert not broker_threads()


def test_a_task_that_is_cancelled_before_the_start_begins_starts_nothing(halted):
    async def cancel():
        async def enter():
            async with Broker():
                raise AssertionError("it started")

        task = asyncio.create_task(enter())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancel())
    assert not broker_threads()


def test_after_a_start_that_failed_the_same_broker_can_start():
    with Broker() as other:
        broker = Broker(listen=other.bootstrap_servers)
        with pytest.raises(CoterieError, match="cannot be listened on"):
            broker.__enter__()
    with broker:
        assert sockets.ask(sockets.connect(broker), "ListGroups", 0, {})["errorCode"] == 0


def test_a_forked_child_is_refused_and_its_end_touches_nothing():
    with Broker() as broker:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:  # no exception leaves it: it is a copy of this test's process
            try:
                signal.alarm(int(HANG_S))
                broker.requests()
            except CoterieError as error:
                os.write(write, str(error).encode())
                broker.stop()
            finally:
                os._exit(0)
        os.close(write)
        with os.fdopen(read) as pipe:
            message = pipe.read()
        os.waitpid(child, 0)
        assert f"process {os.getpid()}, not in this forked child" in message
        assert sockets.ask(sockets.connect(broker), "ListGroups", 0, {})["errorCode"] == 0


QUICK = {"group.initial.rebalance.delay.ms": 3000}


@pytest.fixture
def broker():
    with Broker(QUICK, topics={"t": 2}, clock="virtual", seed=1) as made:
        yield made


def test_a_wait_ends_when_a_member_joins_and_when_time_makes_the_group_stable(broker):
    connection = sockets.connect(broker)
    connection.send(asking.request("JoinGroup", 3, asking.joining("g")))
    group = broker.wait_for("g", members=1, timeout_s=HANG_S)
    assert (group.state, len(group.members)) == ("PreparingRebalance", 1)
    broker.advance(3000)
    assert broker.wait_for("g", state="CompletingRebalance", members=1, timeout_s=HANG_S)


def test_a_wait_ends_whether_it_begins_before_or_after_what_happens(broker):
    waits = []

    def wait(**condition):
        waits.append(broker.wait_for("g", timeout_s=HANG_S, **condition))

    def waiting(**condition):
        thread = threading.Thread(target=wait, kwargs=condition)
        thread.start()
        return thread

    connection = sockets.connect(broker)
    by_a_request = waiting(members=1)
    connection.send(asking.request("JoinGroup", 3, asking.joining("g")))
    by_a_request.join()
    by_time = waiting(state="CompletingRebalance")
    broker.advance(3000)
    by_time.join()
    by_time = waiting(members=0)
    broker.advance(300_000)
    by_time.join()
    assert [len(group.members) for group in waits] == [1, 1, 0]


def test_a_group_that_does_not_exist_is_dead(broker):
    assert broker.wait_for("none", state="Dead", timeout_s=86_400) is None  # the longest wait


def test_a_wait_that_is_over_says_the_state_and_what_the_group_waits_for(broker):
    connection = sockets.connect(broker)
    connection.send(asking.request("JoinGroup", 3, asking.joining("g")))
    broker.wait_for("g", members=1, timeout_s=HANG_S)
    with pytest.raises(CoterieError) as over:
        broker.wait_for("g", state="Stable", members=2, timeout_s=0)
    assert str(over.value) == (
        "group 'g' is PreparingRebalance with 1 member, not Stable with 2 members, after 0 s; "
        "it waits for joins until 3000; the clock is at 0"
    )


def test_a_wait_says_the_time_of_the_clock_from_its_first_one_on(broker):
    for moved_ms, now_ms in ((2345, 2345), (1_000, 3345)):
        broker.advance(moved_ms)
        with pytest.raises(CoterieError, match=f"the clock is at {now_ms}$"):
            broker.wait_for("g", members=1, timeout_s=0)


def test_a_wait_of_another_thread_ends_with_the_broker(monkeypatch):
    begun, ended = threading.Event(), []
    wait_for = Running.wait_for

    async def begin(self, *args, **how):
        begun.set()
        await wait_for(self, *args, **how)

    monkeypatch.setattr(Running, "wait_for", begin)
    broker = Broker()

    def wait():
        with pytest.raises(CancelledError):
            broker.wait_for("g", members=1, timeout_s=HANG_S)
        ended.append(True)

    with broker:
        waiting = threading.Thread(target=wait)
        waiting.start()
        begun.wait()
    waiting.join()
    assert ended


def test_a_broker_that_has_stopped_takes_no_calls_and_can_start_again():
    broker = Broker(topics=["t"])
    for _ in range(2):
        with broker:
            assert [thread.daemon for thread in broker_threads()] == [True]  # a program can end
            with pytest.raises(CoterieError, match="runs already"):
                broker.__enter__()
            assert broker.requests() == []
        with pytest.raises(CoterieError, match="does not run"):
            broker.requests()
        broker.stop()  # again: nothing happens


def test_after_a_start_in_a_loop_that_failed_the_same_broker_can_start():
    async def enter(broker):
        async with broker:
            return broker.addresses

    with Broker() as other:
        broker = Broker(listen=other.bootstrap_servers)
        with pytest.raises(CoterieError, match="cannot be listened on"):
            asyncio.run(enter(broker))
        address = other.bootstrap_servers
    assert asyncio.run(enter(broker)) == [address]
    assert not broker_threads()


def test_a_broker_that_is_killed_or_started_twice_is_so_once(broker):
    connection = sockets.connect(broker)
    broker.kill()
    broker.kill()
    connection.closed(HANG_S)
    address = broker.bootstrap_servers
    broker.start()
    broker.start()
    assert broker.addresses == [address]
    assert sockets.ask(sockets.connect(broker), "ListGroups", 0, {})["errorCode"] == 0


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ({}, "state or members"),
        ({"state": "stable"}, "state must be one of"),
        ({"members": -1}, "members must be"),
        ({"members": 1, "timeout_s": -1}, "timeout_s must be"),
        ({"members": 1, "timeout_s": "1"}, "timeout_s must be"),
        ({"members": 1, "timeout_s": float("nan")}, "timeout_s must be"),
        ({"colour": 1}, "colour"),
    ],
)
def test_a_wait_for_nothing_that_can_be_is_refused(broker, how, message):
    with pytest.raises(CoterieError, match=message):
        broker.wait_for("g", **how)


def test_an_error_that_is_none_is_no_fault(broker):
    with pytest.raises(CoterieError, match="not NONE"):
        broker.fail("Heartbeat", error="NONE")


def test_a_broker_has_the_id_of_its_settings_and_is_killed_by_it():
    with Broker({"node.id": 7, "log.segment.bytes": 2000}, topics=["t"]) as broker:
        told = sockets.ask(sockets.connect(broker), "Metadata", 9, {"topics": []})
        assert [node["nodeId"] for node in told["brokers"]] == [7]
        with pytest.raises(CoterieError, match=r"one of \[7\], not 1"):
            broker.kill(1)
        broker.kill(7)
        broker.start()
        resources = [
            {"resourceType": 2, "resourceName": "t", "configurationKeys": ["segment.bytes"]},
            {"resourceType": 4, "resourceName": "7", "configurationKeys": ["log.segment.bytes"]},
        ]
        body = {"resources": resources, "includeSynonyms": False}
        told = sockets.ask(sockets.connect(broker), "DescribeConfigs", 1, body)
        assert [row["configs"][0]["value"] for row in told["results"]] == ["2000", "2000"]


def test_a_broker_names_its_settings_without_effect_once(capfd):
    with Broker({"process.roles": "broker", "default.replication.factor": 1}):
        pass
    assert capfd.readouterr().err == (
        "settings that have no effect here: default.replication.factor, process.roles\n"
    )


def test_the_other_tasks_of_a_loop_end_whatever_they_raise():
    async def fail():
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("at its end")

    async def end():
        tasks = [asyncio.ensure_future(fail()), asyncio.ensure_future(asyncio.Event().wait())]
        await asyncio.sleep(0)
        await end_other_tasks()
        return [task.cancelled() or str(task.exception()) for task in tasks]

    assert asyncio.run(end()) == ["at its end", True]
