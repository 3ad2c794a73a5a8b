"""What falls due later in a server: by deadline, then in the order of asking."""

from hypothesis import given
from hypothesis import strategies as st

from coterie.server.clock import Timers

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


def test_many_cancelled_timers_take_no_room():
    timers = Timers()
    for _ in range(10_000):
        timers.call_later(1_000_000, lambda: None).cancel()
    assert len(timers._heap) < 200
