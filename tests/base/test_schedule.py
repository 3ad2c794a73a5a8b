"""A clock with pauses, and tasks with gates and locks, in virtual time."""

import gc
import weakref

import pytest

from coterie.base.schedule import Gate, Lock, PausingClock, Schedule, Task


@pytest.fixture
def schedule():
    return Schedule()


def test_a_pausing_clock_goes_on_by_the_time_outside_its_pauses(schedule):
    clock, times = PausingClock(schedule), []
    for at_ms, act in ((1500, clock.pause), (4000, clock.resume), (4001, clock.resume),
                       (6000, clock.pause), (9500, clock.resume)):  # fmt: skip
        schedule.call_at(at_ms, act)
    for at_ms in (1400, 2600, 4002, 7000, 9600):
        schedule.call_at(at_ms, lambda: times.append(clock.now_ms))
    schedule.run_until(10_000)
    assert times == [1400, 1500, 1502, 3500, 3600]


def test_a_call_is_due_after_its_time_without_pauses_and_in_the_order_of_deadlines(schedule):
    clock, calls = PausingClock(schedule), []

    def note(name):
        return lambda: calls.append((name, schedule.now_ms))

    schedule.call_at(1000, lambda: clock.call_later(2500, note("long")))
    clock.call_later(1200, note("before"))
    clock.call_later(1900, note("within"))
    clock.call_later(1700, note("first within"))
    schedule.call_at(1600, clock.pause)
    schedule.call_at(3000, clock.resume)  # the pause takes 1400 ms
    schedule.run_until(10_000)
    assert calls == [("before", 1200), ("first within", 3100), ("within", 3300), ("long", 4900)]


@pytest.mark.parametrize("at_ms", [500, 1500, 2500, 3500])  # before, in and after a pause, when due
def test_a_call_that_is_cancelled_is_never_made(schedule, at_ms):
    clock, calls = PausingClock(schedule), []
    key = clock.call_later(1100, lambda: calls.append("cancelled"))
    other = clock.call_later(1100, lambda: calls.append("other"))
    schedule.call_at(1000, clock.pause)
    schedule.call_at(2000, clock.resume)
    schedule.call_at(at_ms, lambda: clock.cancel(key))
    schedule.run_until(9999)
    assert calls == (["cancelled", "other"] if at_ms > 2100 else ["other"])
    assert key != other
    clock.cancel(other)  # it was made


def test_a_clock_holds_no_call_that_was_made_or_cancelled(schedule):
    class Function:
        def __call__(self):
            pass

    clock = PausingClock(schedule)
    made, paused, cancelled = Function(), Function(), Function()
    clock.call_later(100, made)
    clock.call_later(1100, paused)
    key = clock.call_later(1200, cancelled)
    schedule.call_at(1000, clock.pause)
    schedule.call_at(1500, lambda: clock.cancel(key))
    schedule.call_at(2000, clock.resume)
    schedule.run_until(9999)
    references = [weakref.ref(function) for function in (made, paused, cancelled)]
    del made, paused, cancelled
    gc.collect()
    assert [reference() for reference in references] == [None] * 3


def task(schedule, name, log, *waits):
    """A task that waits so, and notes when it goes on."""

    def run():
        for wait in waits:
            yield wait
            log.append((name, schedule.now_ms))

    return Task(schedule, run())


def test_a_task_sleeps_and_ends_and_one_that_is_killed_stops_at_its_wait(schedule):
    log = []
    one, two = task(schedule, "one", log, 10, 1500), task(schedule, "two", log, 700, 1, 1)
    schedule.run_until(701)
    assert (one.done, two.done) == (False, False)
    two.kill()
    two.kill()
    two.step()
    schedule.run_until(1509)
    assert not one.done
    schedule.run_until(9999)
    assert (one.done, two.done) == (True, True)
    assert log == [("one", 10), ("two", 700), ("two", 701), ("one", 1510)]
    one.step()  # after its end


def test_an_open_gate_resumes_all_that_wait_in_their_order_once(schedule):
    gate, log = Gate(), []
    for name in "ab":
        task(schedule, name, log, gate, gate)
    gate.open()
    schedule.run_until(5)
    assert log == [("a", 0), ("b", 0)]
    schedule.call_at(7, gate.open)
    schedule.run_until(9)
    assert log[2:] == [("a", 7), ("b", 7)]
    gate.open()
    schedule.run_until(20)
    assert len(log) == 4


def test_a_lock_is_held_by_one_task_at_a_time_in_the_order_of_requests(schedule):
    lock, log = Lock(), []

    def run(name):
        yield from lock.acquire()
        log.append((name, schedule.now_ms))
        yield 100
        lock.release()

    for name in "abc":
        Task(schedule, run(name))
    schedule.call_at(250, lambda: Task(schedule, run("d")))
    schedule.call_at(900, lambda: Task(schedule, run("e")))
    schedule.call_at(950, lambda: Task(schedule, run("f")))
    schedule.run_until(9999)
    assert log == [("a", 0), ("b", 100), ("c", 200), ("d", 300), ("e", 900), ("f", 1000)]
