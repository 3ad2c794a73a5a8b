"""What falls due later in a server: by deadline, then in the order of asking."""

from hypothesis import given
from hypothesis import strategies as st

from coterie.server.clock import Timers
from coterie.server.cluster import Cluster
from coterie.server.context import Context
from coterie.server.net.listener import ClockDriver
from support.server import playing
from support.server.transports import Loop

steps = st.lists(
    st.one_of(
        st.tuples(st.just("arm"), st.integers(0, 50)),
        st.tuples(st.just("cancel"), st.integers(0, 30)),
        st.tuples(st.just("advance"), st.integers(0, 20)),
    ),
    max_size=200,
)


@given(steps)
def test_timers_fire_as_a_sorted_list_of_them_would(steps):
    timers, fired, armed, handles = Timers(), [], [], []
    now_ms, wanted = 0, []
    for step, number in steps:
        if step == "arm":
            order = len(handles)
            handles.append(timers.call_later(number, lambda order=order: fired.append(order)))
            armed.append((now_ms + number, order))
        elif step == "cancel" and handles:
            handles[number % len(handles)].cancel()
            armed = [each for each in armed if each[1] != number % len(handles)]
        elif step == "advance":
            now_ms += number
            wanted += [order for due_ms, order in sorted(armed) if due_ms <= now_ms]
            armed = [each for each in armed if each[0] > now_ms]
            timers.advance(now_ms)
    assert fired == wanted
    assert len(timers) == len(armed)
    assert timers.next_deadline_ms() == min((due_ms for due_ms, _ in armed), default=None)


def test_a_timer_may_arm_and_cancel_others_as_it_fires():
    timers, fired = Timers(), []
    late = timers.call_later(5, lambda: fired.append("late"))

    def first():
        late.cancel()
        timers.call_later(3, lambda: fired.append(timers.now_ms))

    timers.call_later(1, first)
    timers.advance(10)
    assert fired == [4]


@given(st.lists(st.integers(0, 1000), min_size=200, max_size=400), st.randoms())
def test_timers_fire_in_order_although_most_of_them_were_cancelled(delays_ms, random):
    timers, fired = Timers(), []
    handles = [timers.call_later(ms, lambda ms=ms: fired.append(ms)) for ms in delays_ms]
    numbers = list(range(len(handles)))
    random.shuffle(numbers)
    kept, cancelled = numbers[:40], numbers[40:]
    for number in cancelled:
        handles[number].cancel()
    timers.advance(1000)
    assert fired == sorted(delays_ms[number] for number in kept)


def test_many_cancelled_timers_take_no_room():
    timers = Timers()
    timers.call_later(1_000_000, lambda: None)
    for _ in range(10_000):
        timers.call_later(1_000_000, lambda: None).cancel()
    assert len(timers._heap) < 200
    assert len(timers) == 1


def test_only_a_timer_that_becomes_the_earliest_one_is_reported():
    timers, reports = Timers(50), []
    timers.on_armed = lambda: reports.append(timers.next_deadline_ms())
    for length_ms in (30, 40, 30, 20, 25):
        timers.call_later(length_ms, lambda: None)
    assert reports == [80, 70]


def beating(*, virtual):
    """A cluster that a loop drives, whose own clock is far from that of the loop."""
    cluster, loop = playing.Server(None).cluster, Loop(now_s=5000.0)
    cluster.waits = Timers()
    return cluster, loop, ClockDriver(loop, cluster, virtual=virtual)


def test_a_clusters_clock_goes_on_from_its_time_as_the_loops_does():
    cluster, loop, heart = beating(virtual=False)
    start_ms = cluster.now_ms
    assert start_ms != 5_000_000
    for moved_ms in (0, 250, 60_250):
        loop.now_s = 5000 + moved_ms / 1000
        heart.tick()
        assert cluster.now_ms == start_ms + moved_ms
        assert cluster.waits.now_ms == 5_000_000 + moved_ms


def test_a_virtual_clock_stands_while_the_loops_goes_on():
    cluster, loop, heart = beating(virtual=True)
    start_ms = cluster.now_ms
    loop.now_s += 60
    heart.tick()
    assert (cluster.now_ms, cluster.waits.now_ms) == (start_ms, 5_060_000)


def test_a_beat_is_due_with_the_first_deadline_of_either_clock():
    cluster, loop, _ = beating(virtual=False)
    fired = []
    cluster.timers.call_at(cluster.now_ms + 300, lambda: fired.append("cluster"))
    cluster.waits.call_later(200, lambda: fired.append("wait"))
    for due_s, names in ((5000.2, ["wait"]), (5000.3, ["wait", "cluster"])):
        loop.run()
        ((when, beat),) = loop.beats
        assert due_s <= when < due_s + 0.001
        loop.now_s = when
        loop.beats.clear()
        beat()
        assert fired == names


def test_an_earlier_deadline_moves_the_beat_and_a_later_one_does_not():
    cluster, loop, _ = beating(virtual=True)
    for length_ms, due_s in ((900, 5000.9), (200, 5000.2), (500, 5000.2)):
        cluster.waits.call_later(length_ms, lambda: None)
        loop.run()
        ((when, _),) = loop.beats
        assert due_s <= when < due_s + 0.001


def test_what_falls_due_moves_no_time_by_itself():
    """Waits come first; a step of the time within them, as a received message makes it, is none."""
    cluster, loop, heart = beating(virtual=False)
    start_ms, times = cluster.now_ms, []

    def step():
        heart.tick()
        times.append((cluster.waits.now_ms - 5_000_000, cluster.now_ms - start_ms))

    cluster.waits.call_later(200, step)
    cluster.waits.call_later(300, step)
    loop.now_s = 5000.7
    heart.tick()
    assert times == [(200, 0), (300, 0)]
    assert cluster.now_ms == start_ms + 700


def test_a_heart_that_is_stopped_schedules_no_more_beats():
    cluster, loop, heart = beating(virtual=False)
    cluster.waits.call_later(100, lambda: None)
    loop.run()
    assert loop.beats
    heart.stop()
    assert not loop.beats
    cluster.waits.call_later(50, lambda: None)
    cluster.timers.call_at(cluster.now_ms + 50, lambda: None)
    assert not loop.soon


def test_without_a_deadline_there_is_no_beat_and_the_next_deadline_has_one():
    cluster, loop, heart = beating(virtual=True)
    wait = cluster.waits.call_later(100, lambda: None)
    loop.run()
    wait.cancel()
    heart.arm()
    loop.run()
    assert loop.beats == []
    cluster.waits.call_later(300, lambda: None)
    loop.run()
    assert len(loop.beats) == 1


def test_a_clock_that_nobody_set_starts_at_0():
    assert Timers().now_ms == Context().now_ms == Cluster().now_ms == 0
