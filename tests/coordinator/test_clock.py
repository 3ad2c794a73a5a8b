"""Several coordinators on one clock: to advance one is to advance all, and in which order."""

import pytest

from coterie import ArgumentError, CoterieError, GroupCoordinator, load_trace
from coterie._core.coordinator.coordinator import Coordinator
from coterie.coordinator.clock import SharedClock, run_until
from coterie.coordinator.config import coordinator_config
from support.trace_data import header, join


@pytest.fixture
def make():
    clock = SharedClock()

    def made(**kwargs):
        kwargs.setdefault("now_ms", clock.now_ms)
        coordinator = GroupCoordinator(**kwargs)
        coordinator.live_by(clock)
        return coordinator

    made.clock = clock
    return made


def joining(coordinator):
    return coordinator.join_group(
        "g", protocol_type="consumer", protocols={"range": b""}, client_id="c"
    )


def delay(ms):
    return {"group.initial.rebalance.delay.ms": ms}


def test_advancing_one_coordinator_moves_all(make):
    one, two = make(config=delay(2000)), make(config=delay(1000))
    answers = [joining(one), joining(two)]
    one.advance(500)
    assert (one.now_ms, two.now_ms, make.clock.now_ms) == (500, 500, 500)
    two.advance_by(1500)
    assert [(p.done, p.answered_at) for p in answers] == [(True, 2000), (True, 1000)]
    assert one.now_ms == two.now_ms == make.clock.now_ms == 2000
    make.clock.advance(10)
    assert (one.now_ms, two.now_ms) == (2010, 2010)


def test_running_until_an_answer_moves_all(make):
    one, two = make(config=delay(2000)), make(config=delay(3000))
    mine, theirs = joining(one), joining(two)
    two.run_until(theirs, limit_ms=5000)
    assert (mine.answered_at, one.now_ms, two.now_ms) == (2000, 3000, 3000)


def test_timers_of_all_fire_by_deadline_then_by_who_was_made_first(make):
    fired = []
    for name, ms in (("a", 2000), ("b", 1000), ("c", 2000), ("d", 1000)):
        tell = lambda event, name=name: fired.append((event.at, name))  # noqa: E731
        joining(make(config=delay(ms), on_event=tell))
    make.clock.advance(5000)
    assert list(dict.fromkeys(pair for pair in fired if pair[0])) == [
        (1000, "b"),
        (1000, "d"),
        (2000, "a"),
        (2000, "c"),
    ]


def test_one_coordinator_may_ask_another_while_time_passes(make):
    seen = []

    def tell(_):
        seen.append(two.describe_group("g").state)
        with pytest.raises(CoterieError, match="on_event must not"):
            two.advance_by(1)

    one, two = make(config=delay(1000), on_event=tell), make()
    joining(one)
    make.clock.advance(1000)
    assert set(seen) == {"Dead"}
    assert two.now_ms == 1000


def test_playing_a_trace_moves_all(make):
    one, two = make(), make(config=delay(1000))
    pending = joining(two)
    one.play(load_trace([header(), join(0, 1), {"at": 2500, "op": "advance"}]))
    assert (one.now_ms, two.now_ms, pending.answered_at) == (2500, 2500, 1000)


def test_a_later_coordinator_has_the_time_of_the_clock(make):
    first = make(now_ms=5000)
    assert (first.now_ms, make.clock.now_ms) == (5000, 5000)
    with pytest.raises(ArgumentError, match="now_ms must be that of the shared clock, 5000, not 7"):
        make(now_ms=7)
    assert make().now_ms == 5000
    make.clock.advance(1)
    assert make(now_ms=5001).now_ms == 5001


def test_a_coordinator_of_another_time_keeps_its_own(make):
    make(now_ms=5000)
    other = GroupCoordinator(now_ms=7)
    with pytest.raises(ArgumentError, match="5000, not 7"):
        other.live_by(make.clock)
    other.advance(9)
    assert (other.now_ms, make.clock.now_ms) == (9, 5000)


def test_to_advance_to_the_present_time_changes_nothing():
    coordinator = GroupCoordinator(now_ms=5000)
    coordinator.advance(5000)
    coordinator.advance_by(0)
    assert coordinator.now_ms == 5000
    with pytest.raises(ArgumentError, match="4999 < 5000"):
        coordinator.advance(4999)


@pytest.mark.parametrize("ms", [-1, 1.5, "1"])
def test_the_clock_refuses_what_is_no_way_forward(make, ms):
    coordinator = make()
    with pytest.raises(ArgumentError, match="ms must"):
        make.clock.advance(ms)
    assert coordinator.now_ms == 0


def test_a_core_begins_at_time_0_and_writes_at_once_unless_told_otherwise():
    core = Coordinator(coordinator_config(None))
    assert (core.now_ms, core.deferred, core.unsettled) == (0, False, False)
    core = Coordinator(coordinator_config(None), 7, deferred=True)
    assert (core.now_ms, core.deferred) == (7, True)


class Timers:
    """An object on virtual time with deadlines; it writes down when it is moved, and to where."""

    def __init__(self, *deadlines_ms, now_ms=0, name="", moves=None):
        self.now_ms, self.name = now_ms, name
        self.deadlines_ms = sorted(deadlines_ms)
        self.moves = [] if moves is None else moves

    def next_deadline_ms(self):
        return self.deadlines_ms[0] if self.deadlines_ms else None

    def advance(self, now_ms):
        assert now_ms >= self.now_ms
        self.now_ms = now_ms
        self.deadlines_ms = [ms for ms in self.deadlines_ms if ms > now_ms]
        self.moves.append((self.name, now_ms) if self.name else now_ms)


@pytest.mark.parametrize(
    ("limit_ms", "moves"),
    [(19, [10, 19]), (20, [10, 20]), (21, [10, 20]), (5, [5]), (10, [10, 10]), (0, [0])],
)
def test_running_until_something_is_done_goes_from_deadline_to_deadline(limit_ms, moves):
    timers = Timers(10, 20, 30)
    run_until(timers, lambda: timers.now_ms >= 20, limit_ms)
    assert timers.moves == moves


def test_running_until_a_time_that_has_passed_stays_at_the_present():
    for deadlines_ms in ((), (60,), (40,)):  # none, a later one, and one that is overdue
        timers = Timers(*deadlines_ms, now_ms=50)
        run_until(timers, lambda: False, 45)
        assert set(timers.moves) == {50}
    timers = Timers(60, now_ms=50)
    run_until(timers, lambda: True, 100)
    assert timers.moves == []


def test_a_shared_clock_moves_all_whose_time_is_behind_or_whose_deadline_is_due():
    clock, moves = SharedClock(), []
    one, two = Timers(10, 15, name="one", moves=moves), Timers(15, name="two", moves=moves)
    for each in (one, two):
        clock.add(each)
    clock.move(12)
    assert moves == [("one", 10), ("two", 10), ("one", 12), ("two", 12)]
    moves.clear()
    clock.advance(3)
    assert moves == [("one", 15), ("two", 15)]
    moves.clear()
    one.deadlines_ms, two.deadlines_ms = [14], [20]  # an interruption has left the first one
    clock.move(15)
    assert (moves, clock.now_ms) == ([("one", 15)], 15)
    two.deadlines_ms = [15]
    clock.move(15)  # the present time is enough
    assert moves == [("one", 15), ("two", 15)]
    one.now_ms = 20  # it has gone ahead
    moves.clear()
    clock.move(16)
    assert (moves, clock.now_ms) == ([("two", 16)], 16)


def test_a_shared_clock_checks_all_before_it_moves_and_reports_to_all_after_it_even_if_one_fails():
    clock, calls = SharedClock(), []

    def fails(now_ms):
        raise OSError(f"at {now_ms}")

    for name, advance in (("a", None), ("b", fails)):
        clock.add(
            Timers(name=name, moves=calls),
            advance=advance,
            check=lambda name=name: calls.append(f"check {name}"),
            moved=lambda name=name: calls.append(f"moved {name}"),
        )
    for _ in range(2):  # it can be moved again
        calls.clear()
        with pytest.raises(OSError, match="at"):
            clock.advance(5)
        assert [call for call in calls if isinstance(call, str)] == [
            "check a", "check b", "moved a", "moved b",
        ]  # fmt: skip
    clock.add(Timers(now_ms=clock.now_ms), check=lambda: fails("check"))
    calls.clear()
    with pytest.raises(OSError, match="at check"):
        clock.advance(5)
    assert calls == ["check a", "check b"]
