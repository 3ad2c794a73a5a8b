"""The timing wheel against a dictionary that is sorted at each advance."""

import pickle
import random

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from coterie import TimerWheel
from coterie.errors import ArgumentError
from support.c_memory import left_by
from support.examples import examples

MS = st.one_of(st.integers(0, 70), st.integers(0, 5_000), st.integers(0, 2**41), st.integers(-9, 0))
YEAR_MS = 31_536_000_000


class SortedTimers:
    """TimerWheel's contract in the fewest lines: {handle: (deadline, arming, key)}."""

    def __init__(self, now_ms):
        self.now_ms, self.arming, self.armed = now_ms, 0, {}

    def arm(self, handle, deadline_ms, key):
        self.armed[handle] = (deadline_ms, self.arming, key)
        self.arming += 1

    def advance(self, now_ms):
        due = sorted((t, h) for h, t in self.armed.items() if t[0] <= now_ms)
        self.now_ms = now_ms
        return [self.armed.pop(h)[2] for _, h in due]


class WheelAgainstSortedList(RuleBasedStateMachine):
    @initialize(start_ms=st.integers(-(2**40), 2**40))
    def begin(self, start_ms):
        self.wheel, self.model, self.handles = TimerWheel(start_ms), SortedTimers(start_ms), []

    @rule(after_ms=MS, key=st.integers(-5, 5))
    def add(self, after_ms, key):
        deadline_ms = self.model.now_ms + after_ms
        handle = self.wheel.add(deadline_ms, key)
        assert handle not in self.handles
        self.handles.append(handle)
        self.model.arm(handle, deadline_ms, key)

    @rule(afters_ms=st.lists(MS, max_size=40))
    def add_many(self, afters_ms):
        deadlines_ms = [self.model.now_ms + ms for ms in afters_ms]
        handles = self.wheel.add_many(deadlines_ms, list(range(len(deadlines_ms))))
        for key, (handle, deadline_ms) in enumerate(zip(handles, deadlines_ms, strict=True)):
            assert handle not in self.handles
            self.handles.append(int(handle))
            self.model.arm(int(handle), deadline_ms, key)

    @rule(pick=st.integers(0, 10_000))
    def cancel(self, pick):
        if self.handles:
            handle = self.handles[pick % len(self.handles)]
            assert self.wheel.cancel(handle) == (self.model.armed.pop(handle, None) is not None)

    @rule(pick=st.integers(0, 10_000), after_ms=MS)
    def rearm(self, pick, after_ms):
        if self.handles:
            handle, deadline_ms = (
                self.handles[pick % len(self.handles)],
                self.model.now_ms + after_ms,
            )
            old = self.model.armed.get(handle)
            assert self.wheel.rearm(handle, deadline_ms) == (old is not None)
            if old:
                self.model.arm(handle, deadline_ms, old[2])

    @rule(picks=st.lists(st.tuples(st.integers(0, 10_000), MS), max_size=30))
    def rearm_many(self, picks):
        if self.handles:
            handles = [self.handles[pick % len(self.handles)] for pick, _ in picks]
            deadlines_ms = [self.model.now_ms + ms for _, ms in picks]
            was = [h in self.model.armed for h in handles]
            assert self.wheel.rearm_many(handles, deadlines_ms).tolist() == was
            for handle, deadline_ms in zip(handles, deadlines_ms, strict=True):
                if handle in self.model.armed:
                    self.model.arm(handle, deadline_ms, self.model.armed[handle][2])

    @rule(picks=st.lists(st.integers(0, 10_000), max_size=30))
    def cancel_many(self, picks):
        if self.handles:
            handles = [self.handles[pick % len(self.handles)] for pick in picks]
            was = [self.model.armed.pop(h, None) is not None for h in handles]
            assert self.wheel.cancel_many(handles).tolist() == was

    @rule(step_ms=MS)
    def advance(self, step_ms):
        now_ms = self.model.now_ms + max(step_ms, 0)
        assert self.wheel.advance(now_ms).tolist() == self.model.advance(now_ms)

    @rule()
    def copied(self):
        self.wheel = pickle.loads(pickle.dumps(self.wheel))

    @rule()
    def next_deadline(self):
        earliest = min((t[0] for t in self.model.armed.values()), default=None)
        assert self.wheel.next_deadline_ms() == earliest

    @rule()
    def advance_to_the_next_deadline(self):
        earliest = self.wheel.next_deadline_ms()
        if earliest is not None:
            now_ms = max(earliest, self.model.now_ms)
            fired = self.wheel.advance(now_ms).tolist()
            assert fired
            assert fired == self.model.advance(now_ms)

    @invariant()
    def same_size(self):
        if hasattr(self, "wheel"):
            assert (len(self.wheel), self.wheel.now_ms) == (
                len(self.model.armed),
                self.model.now_ms,
            )


TestWheelAgainstSortedList = WheelAgainstSortedList.TestCase
TestWheelAgainstSortedList.settings = settings(max_examples=examples(30), stateful_step_count=60)


@pytest.mark.parametrize("seed", range(10))
def test_the_wheel_fires_as_a_sorted_list_over_calls_drawn_by_a_seed(seed):
    """Ten times as many calls in the time of the test above, as nothing of them can be shrunk."""
    rng = random.Random(seed)

    def ms():
        return rng.randint(*rng.choice([(0, 70), (0, 5_000), (0, 2**41), (-9, 0)]))

    def pick():
        return rng.randrange(10_000)

    calls = (
        lambda: machine.add(after_ms=ms(), key=rng.randint(-5, 5)),
        lambda: machine.add_many(afters_ms=[ms() for _ in range(rng.randrange(40))]),
        lambda: machine.cancel(pick=pick()),
        lambda: machine.rearm(pick=pick(), after_ms=ms()),
        lambda: machine.rearm_many(picks=[(pick(), ms()) for _ in range(rng.randrange(30))]),
        lambda: machine.cancel_many(picks=[pick() for _ in range(rng.randrange(30))]),
        lambda: machine.advance(step_ms=ms()),
        lambda: machine.next_deadline(),
        lambda: machine.advance_to_the_next_deadline(),
    )
    for _ in range(40):
        machine = WheelAgainstSortedList()
        machine.begin(start_ms=rng.randint(-(2**40), 2**40))
        for _ in range(60):
            rng.choice(calls)()
            machine.same_size()


def test_same_deadline_fires_in_order_of_arming_across_levels():
    wheel = TimerWheel()
    wheel.add(1_049_000, 1)  # two levels up now
    wheel.advance(1_048_999)
    wheel.add(1_049_000, 2)  # at the lowest level at once
    assert wheel.advance(1_049_000).tolist() == [1, 2]


def test_a_handle_never_names_a_later_timer():
    wheel = TimerWheel()
    old = wheel.add(1, 1)
    wheel.advance(1)
    new = wheel.add(5, 2)
    assert not wheel.cancel(old)
    assert not wheel.rearm(old, 3)
    assert wheel.cancel(new)
    assert not any(wheel.cancel(h) for h in (-1, 1 << 40, 0, 7, 1 << 32 | 0xFFFFFFFF))


def test_an_advance_over_years_costs_what_fires():
    wheel = TimerWheel()
    wheel.add_many([n * 100 * YEAR_MS for n in range(1, 200)], range(1, 200))
    assert wheel.advance(30_000 * YEAR_MS).tolist() == list(range(1, 200))
    wheel.add(2**63 - 1, 7)
    assert wheel.advance(2**63 - 1).tolist() == [7]


def test_many_timers_fire_as_a_stable_sort_has_them():
    rng = np.random.default_rng(20260101)
    deadlines_ms = rng.integers(0, 60_000, 100_000)
    wheel = TimerWheel()
    handles = wheel.add_many(rng.integers(0, 90_000, 100_000), np.arange(100_000))
    wheel.rearm_many(handles, deadlines_ms)
    fired = np.concatenate([wheel.advance(ms) for ms in range(0, 61_000, 500)])
    assert np.array_equal(fired, np.argsort(deadlines_ms, kind="stable"))


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("start_ms", [0, -(2**63), 2**63 - 7_000])
def test_full_seconds_of_timers_moved_and_cancelled_fire_as_sorted(seed, start_ms):
    rng = np.random.default_rng(seed)
    wheel, model, armed = TimerWheel(start_ms), SortedTimers(start_ms), 0
    for stride_ms in (1, 700, 1024, 2500, 2774):
        within_ms = min(4_000, 2**63 - 1 - model.now_ms)  # numpy 1 makes floats of a larger bound
        deadlines_ms = model.now_ms + rng.integers(0, 4_000, 2_000).clip(max=within_ms)
        handles = wheel.add_many(deadlines_ms, np.arange(armed, armed + 2_000))
        for key, handle, deadline_ms in zip(
            range(armed, armed + 2_000), handles, deadlines_ms, strict=True
        ):
            model.arm(int(handle), int(deadline_ms), key)
        armed += 2_000
        for handle in rng.choice(sorted(model.armed), 600, replace=False).tolist():
            key, last_ms = model.armed[handle][2], min(model.now_ms + 6_000, 2**63 - 1)
            if seed % 2 and key % 3 == 0:
                assert wheel.cancel(handle)
                del model.armed[handle]
            elif seed > 1:
                deadline_ms = int(rng.integers(model.now_ms, last_ms, endpoint=True))
                assert wheel.rearm(handle, deadline_ms)
                model.arm(handle, deadline_ms, key)
        now_ms = model.now_ms + stride_ms
        assert wheel.advance(now_ms).tolist() == model.advance(now_ms)
        assert len(wheel) == len(model.armed)


def test_memory_stays_bounded_when_timers_are_moved_earlier_again_and_again():
    wheel = TimerWheel()
    handles = wheel.add_many(np.full(1000, 2**40), np.arange(1000))
    deadlines_ms = np.full(1000, 2**40)

    def move():
        deadlines_ms[:] -= 1000
        wheel.rearm_many(handles, deadlines_ms)

    assert left_by(move, 190) < 400  # each move leaves 1000 entries of 8 bytes
    assert wheel.next_deadline_ms() == deadlines_ms[0] < 2**40 - 190_000
    assert wheel.advance(2**40).tolist() == list(range(1000))


@pytest.mark.parametrize("deadline_ms", [2**40, 50])
def test_memory_stays_bounded_when_timers_are_cancelled_again_and_again(deadline_ms):
    """Later ones, which are in a slot, and those that are due at once, in a queue."""
    wheel = TimerWheel(100)
    keys = np.arange(1000)

    def arm_and_cancel():
        wheel.cancel_many(wheel.add_many(np.full(1000, deadline_ms), keys))

    assert left_by(arm_and_cancel, 190) < 400
    assert wheel.advance(2**40).tolist() == []


def test_time_runs_forward_only():
    with pytest.raises(ValueError, match="9 < 10"):
        TimerWheel(10).advance(9)


@pytest.mark.parametrize(
    "columns", [([1, 2], [1]), ([1.5], [1]), ([[1]], [[1]]), [np.ones((1, 1), np.int64)] * 2]
)
def test_columns_that_are_no_integers_or_differ_in_length_are_refused(columns):
    with pytest.raises(ArgumentError, match="deadlines_ms"):
        TimerWheel().add_many(*columns)


@pytest.mark.parametrize("count", [0, 1, 255, 256, 511, 512, 513, 1024, 5000])
@pytest.mark.parametrize("later", [0, 3, 20_000])
def test_as_many_fire_as_are_due_whatever_the_room_for_their_keys(count, later):
    wheel = TimerWheel()
    wheel.add_many(np.full(count + later, 5), np.arange(count + later))
    wheel.add_many(np.full(later, 50), np.arange(later))
    handles = wheel.add_many(np.full(later, 5), np.arange(later))
    wheel.cancel_many(handles)
    assert wheel.advance(5).tolist() == list(range(count + later))
    assert wheel.advance(50).tolist() == list(range(later))


def test_many_timers_of_one_millisecond_fire_whole_time_and_again():
    wheel, keys = TimerWheel(), list(range(300))
    for turn_ms in range(0, 16 * 1024, 2 * 1024):
        assert wheel.advance(turn_ms).size == 0
        wheel.add_many(np.full(300, turn_ms + 5), keys)
        assert wheel.advance(turn_ms + 2_047).tolist() == keys


def test_fired_keys_hold_on_to_at_most_twice_their_memory():
    for fires, later in ((513, 0), (600, 600), (600, 601), (600, 20_000), (5, 20_000)):
        wheel = TimerWheel()
        wheel.add_many(np.full(fires, 1_500), np.arange(fires))
        wheel.add_many(np.full(later, 1_700), np.arange(later))  # at first in the same slot
        fired = wheel.advance(1_500)
        assert fired.tolist() == list(range(fires))
        assert fired.base is None or fired.base.size <= 2 * fires, (fires, later)


@pytest.mark.parametrize("many", [255, 256, 300])
@pytest.mark.parametrize("short_ms", [0, 1, 2, 1023])
def test_an_advance_that_ends_within_a_second_fires_of_it_what_is_due(many, short_ms):
    """From 256 timers on a second that is passed over fires whole; one a little short must not."""
    start_ms, end_ms = 5 * 1024, 6 * 1024 - 1
    wheel = TimerWheel()
    wheel.add_many(np.full(many, end_ms), np.arange(many))
    first = wheel.add(start_ms, -1)
    assert wheel.advance(end_ms - short_ms).tolist() == [-1, *(range(many) if not short_ms else ())]
    assert not wheel.cancel(first)
    assert wheel.advance(end_ms).tolist() == (list(range(many)) if short_ms else [])


def test_the_next_deadline_is_that_of_what_is_left_however_timers_went():
    """One by one, a whole second at once, cancelled or moved to a later time."""
    later_ms = 9_000_000
    for many in (1, 3, 300):
        for how in ("fire", "pass", "cancel", "move"):
            wheel = TimerWheel()
            handles = wheel.add_many(np.full(many, 2_000), np.arange(many))
            last = wheel.add(later_ms, -1)
            assert wheel.next_deadline_ms() == 2_000
            if how == "fire":
                assert len(wheel.advance(2_000)) == many
            elif how == "pass":
                assert len(wheel.advance(7_000)) == many
            elif how == "cancel":
                assert wheel.cancel_many(handles).all()
            else:
                assert wheel.rearm_many(handles, np.full(many, later_ms + 5)).all()
            assert wheel.next_deadline_ms() == later_ms, (many, how)
            assert wheel.cancel(last)
            assert wheel.next_deadline_ms() == (later_ms + 5 if how == "move" else None)


def test_a_wheel_begins_at_0_and_without_timers():
    wheel = TimerWheel()
    assert (wheel.now_ms, len(wheel), wheel.next_deadline_ms()) == (0, 0, None)
    wheel.add(0, 5)
    assert wheel.advance(0).tolist() == [5]


def test_timers_that_are_due_when_they_are_armed_take_no_more_memory_with_time():
    wheel = TimerWheel(100)

    def turn():
        wheel.add(50, 1)
        assert wheel.advance(100).tolist() == [1]

    assert left_by(turn, 1_000) < 5


def test_a_wheel_frees_what_its_slots_held():
    def use():
        wheel = TimerWheel()
        wheel.add_many(np.arange(5_000) * 77, np.arange(5_000))
        wheel.advance(200_000)

    assert left_by(use, 10) < 5_000
