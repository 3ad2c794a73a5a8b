"""The schedule makes calls by time, then in the order of scheduling, as a sorted list would."""

import gc
import weakref
from bisect import insort
from functools import reduce

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie._core.structures.schedule import (
    LAST_CALLS,
    MOST_CALLS,
    Future,
    Schedule,
    TooManySteps,
    Waiter,
)
from support.examples import examples

MS = st.integers(0, 6)
# What a call does in its turn: it schedules others, or cancels one of those scheduled.
DOES = st.lists(
    st.one_of(
        st.tuples(st.just("later"), MS),
        st.tuples(st.just("at"), MS),
        st.tuples(st.just("soon"), st.just(0)),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
    ),
    max_size=4,
)


class Model:
    """A sorted list of what is due."""

    def __init__(self):
        self.now_ms, self.numbers, self.due, self.soon = 0, 0, [], []

    def call_soon(self, function, *args):
        self.soon.append((function, args))

    def call_at(self, at_ms, function, *args):
        self.numbers += 1
        entry = [at_ms, self.numbers, function, args]
        insort(self.due, entry, key=lambda one: one[:2])
        return entry

    def call_later(self, ms, function, *args):
        return self.call_at(self.now_ms + ms, function, *args)

    def cancel(self, entry):
        entry[2] = None

    def run_until(self, limit_ms):
        self.run_soon()
        while live := [e for e in self.due if e[2] is not None and e[0] <= limit_ms]:
            together = [e for e in live if e[0] == live[0][0]]
            self.due = [e for e in self.due if not any(e is one for one in together)]
            self.now_ms = max(self.now_ms, together[0][0])
            for entry in together:
                if entry[2] is not None:
                    entry[2](*entry[3])
                    self.run_soon()
        self.now_ms = max(self.now_ms, limit_ms)

    def run_soon(self):
        while self.soon:
            function, args = self.soon.pop(0)
            function(*args)

    @property
    def next_ms(self):
        if self.soon:
            return self.now_ms
        return min((e[0] for e in self.due if e[2] is not None), default=None)


def course(schedule, cancel, scripts, limits):
    """What happens if the n-th call does what the n-th script says."""
    scheduled, happened, left = [], [], list(scripts)

    def call(name):
        happened.append((schedule.now_ms, name))
        act()

    def act():
        for what, number in left.pop(0) if left else ():
            name = len(scheduled) + len(happened)
            if what == "later":
                scheduled.append(schedule.call_later(number, call, name))
            elif what == "at":
                scheduled.append(schedule.call_at(number, call, name))
            elif what == "soon":
                schedule.call_soon(call, name)
            elif number < len(scheduled):
                cancel(scheduled[number])

    for limit_ms in limits:
        act()
        happened.append(("next", schedule.next_ms))
        schedule.run_until(limit_ms)
        happened.append(("now", schedule.now_ms))
    return happened


@settings(max_examples=examples(300))
@given(st.lists(DOES, max_size=40), st.lists(st.integers(0, 20), min_size=1, max_size=6))
def test_calls_are_made_by_time_then_in_the_order_of_scheduling(scripts, limits):
    model = Model()
    expected = course(model, model.cancel, scripts, sorted(limits))
    assert course(Schedule(), lambda call: call.cancel(), scripts, sorted(limits)) == expected


def test_a_step_makes_the_calls_of_one_time():
    schedule, made = Schedule(), []
    for at_ms in (3, 2, 3):
        schedule.call_at(at_ms, made.append, at_ms)
    assert schedule.step(1) is False
    assert (schedule.now_ms, made) == (1, [])
    assert schedule.step() is True
    assert (schedule.now_ms, made) == (2, [2])
    assert schedule.step(100) is True
    assert (schedule.now_ms, made) == (3, [2, 3, 3])
    assert schedule.step() is False
    assert schedule.now_ms == 3


def test_a_time_beyond_all_times_is_the_last_one():
    schedule, made = Schedule(), []
    schedule.call_at(1, schedule.call_later, 2**63 - 1, made.append, 1)
    schedule.run_until(2**62)
    assert (made, schedule.next_ms) == ([], 2**63 - 1)


def test_time_goes_neither_back_nor_beyond_the_last_one():
    last_ms = 2**63 - 1
    schedule, made = Schedule(), []
    schedule.run_until(20)
    for limit_ms in (5, 19, 20):
        assert schedule.step(limit_ms) is False
        assert schedule.now_ms == 20
    schedule.call_later(-3, made.append, schedule)
    assert schedule.step(20) is True
    assert (schedule.now_ms, len(made)) == (20, 1)
    for now_ms, ms in [(20, 2**63), (20, 10**30), (last_ms - 5, 4), (last_ms - 5, 5),
                       (last_ms - 5, 6), (last_ms - 5, 900), (last_ms, 0)]:  # fmt: skip
        schedule.run_until(now_ms)
        call = schedule.call_later(ms, made.append, None)
        assert schedule.next_ms == min(now_ms + ms, last_ms), (now_ms, ms)
        call.cancel()


@pytest.mark.parametrize("items", [0, 15, 16, 100])
def test_work_is_counted_by_steps_up_to_the_limit(items):
    schedule = Schedule(10)
    schedule.spend(items)
    assert schedule.steps == 1 + items // 16
    for _ in range(9 - schedule.steps):
        schedule.call_later(1, int)
    if schedule.steps < 10:
        schedule.call_soon(int)
    with pytest.raises(TooManySteps, match="10 steps"):
        schedule.call_later(1, int)


def test_calls_of_a_paused_process_come_in_order_when_it_resumes_and_of_a_dead_one_never():
    schedule, made = Schedule(), []
    one, two = Waiter(schedule, "one"), Waiter(schedule, "two")
    for waiter in (one, two):
        for ms in (5, 3, 4, 9):
            waiter.call_later(ms, made.append, (waiter.name, ms))
    cancelled = one.call_later(3, made.append, "cancelled")
    one.pause()
    schedule.run_until(4)
    cancelled.cancel()
    two.kill()
    schedule.run_until(6)
    assert made == [("two", 3), ("two", 4)]
    one.resume()
    assert made[2:] == [("one", 3), ("one", 4), ("one", 5)]
    schedule.run_until(10)
    assert made[5:] == [("one", 9)]


def test_a_wait_ends_with_its_result_or_at_its_timeout():
    schedule = Schedule()
    waiter, future = Waiter(schedule, "one"), Future()
    schedule.call_later(7, future.set, "came")
    assert waiter.wait(future, 5) is False
    assert schedule.now_ms == 5
    assert waiter.wait(future, 5) is True
    assert (schedule.now_ms, future.value) == (7, "came")
    future.set("again")
    assert future.value == "came"
    waiter.sleep(3)
    assert schedule.now_ms == 10


def running(schedule, body):
    """A waiter with a program, which begins when the clock runs."""
    greenlet = pytest.importorskip("greenlet")
    waiter = Waiter(schedule, "one")
    waiter._hub = greenlet.getcurrent()
    waiter._program = greenlet.greenlet(lambda: body(waiter))
    schedule.call_soon(waiter._program.switch)
    return waiter


def test_a_wait_of_a_program_is_ended_once_by_what_comes_first():
    schedule, seen = Schedule(), []
    early, late, together = Future(), Future(), Future()
    schedule.call_at(2_500, early.set)
    schedule.call_at(15_000, late.set)
    schedule.call_at(22_500, together.set)

    def body(waiter):
        for future, timeout_ms in ((early, 4_000), (early, 1), (late, 9_000), (together, 11_000)):
            seen.append((waiter.wait(future, timeout_ms), waiter.now_ms))
        waiter.sleep(5_000)  # no timeout or result of a wait before ends it
        seen.append(waiter.now_ms)
        waiter.sleep(0)
        seen.append(waiter.now_ms)

    running(schedule, body)
    schedule.run_until(60_000)
    assert seen == [(True, 2_500), (True, 2_500), (False, 11_500), (True, 22_500), 27_500, 27_500]


def test_a_result_that_comes_after_its_timeout_ends_no_later_wait():
    schedule, seen = Schedule(), []
    future, never = Future(), Future()
    schedule.call_at(3_500, future.set)

    def body(waiter):
        for each, timeout_ms in ((future, 3_000), (never, 2_000), (never, None)):
            seen.append((waiter.wait(each, timeout_ms), waiter.now_ms))

    waiter = running(schedule, body)
    schedule.run_until(60_000)
    assert seen == [(False, 3_000), (False, 5_000)]
    assert waiter.alive  # it waits without an end


class Watched(Waiter):
    """A waiter that keeps what it is asked to look at."""

    def _look_at_call(self, calls):
        self.looked_at = [*getattr(self, "looked_at", ()), calls]


def test_only_the_last_calls_of_a_time_and_those_of_the_dead_are_looked_at():
    schedule = Schedule()
    waiter = Watched(schedule, "one")
    for _ in range(2):
        for _ in range(MOST_CALLS - LAST_CALLS):
            waiter.check_alive()
        assert not hasattr(waiter, "looked_at")
        schedule.run_until(schedule.now_ms + 1)  # the count begins anew
    for _ in range(MOST_CALLS - LAST_CALLS + 2):
        waiter.check_alive()
    first = MOST_CALLS - LAST_CALLS + 1
    assert waiter.looked_at == [first, first + 1]
    schedule.run_until(schedule.now_ms + 1)
    waiter.kill()
    waiter.check_alive()
    assert waiter.looked_at[2:] == [1]


def test_what_is_scheduled_forms_no_cycle_that_stays():
    class World:
        pass

    world, schedule = World(), Schedule()
    world.waiter = Waiter(schedule, "one")
    world.waiter.call_later(5, print, world, schedule)
    schedule.call_soon(print, world, schedule)
    gone = weakref.ref(world)
    del world, schedule
    gc.collect()
    assert gone() is None


def test_a_call_may_cancel_itself_while_it_is_made():
    schedule = Schedule()
    seen = []

    def note(_, value):  # functools.reduce keeps its arguments while it calls it
        calls[0].cancel()
        gc.collect()
        seen.append(value)

    calls = [schedule.call_later(1, reduce, lambda *args: note(*args), [1, 2, 3])]
    schedule.step()
    assert seen == [2, 3]


def test_nothing_of_a_wait_that_has_ended_is_due_any_more():
    """Neither its timeout, nor its end by a result that comes after that."""
    schedule, late = Schedule(), Future()
    early = Future()

    def body(waiter):
        waiter.wait(early, 50_000)
        waiter.wait(late, 1_500)

    schedule.call_at(2_500, early.set)
    running(schedule, body)
    schedule.run_until(2_500)
    assert schedule.next_ms == 4_000
    schedule.run_until(4_000)
    assert schedule.next_ms is None
    late.set()
    assert schedule.next_ms is None


def test_a_dead_process_holds_nothing_that_was_due():
    class World:
        def call(self):
            """Stands for a call that was due while the process stood still."""

    world, schedule = World(), Schedule()
    waiter = Waiter(schedule, "one")
    waiter.call_later(3, world.call)
    waiter.pause()
    schedule.run_until(5)
    waiter.kill()
    gone = weakref.ref(world)
    del world
    assert gone() is None


def test_a_dead_process_does_nothing_when_it_resumes():
    schedule, made = Schedule(), []
    waiter = Waiter(schedule, "one")
    waiter.call_later(3, made.append, 3)
    waiter.pause()
    schedule.run_until(5)
    waiter.kill()
    waiter.resume()
    schedule.run_until(9)
    assert made == []


def test_a_result_at_the_time_of_its_timeout_ends_no_later_wait():
    schedule, future, seen = Schedule(), Future(), []
    schedule.call_at(10, future.set)

    def body(waiter):
        seen.append((waiter.wait(future, 10), schedule.now_ms))
        seen.append((waiter.wait(Future(), 5), schedule.now_ms))

    running(schedule, body)
    schedule.run_until(20)
    assert seen == [(True, 10), (False, 15)]
