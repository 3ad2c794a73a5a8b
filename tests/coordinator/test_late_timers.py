"""Request logs of brokers whose timers fire late.

The broker of these logs is slow by as much as a test draws: its timers fire ``late_ms`` after they
are due. Its answers are those of Kafka's rules at these times.
"""

from hypothesis import given
from hypothesis import strategies as st

from coterie import run_trace
from coterie.coordinator.late_timers import moved, moves
from coterie.coordinator.requestlog import import_request_log
from coterie.coordinator.trace_diff import compare_responses
from coterie.wire.exchanges import Exchange
from support.request_lines import member_beats, member_joins, member_syncs


def step(number, handled_ms, group="g", *, answered_ms=None, local_ms=0.0):
    answered_ms = handled_ms if answered_ms is None else answered_ms
    exchange = Exchange(number, handled_ms, handled_ms, answered_ms, answered_ms, local_ms,
                        "HEARTBEAT", 4, "c", "/h", {}, {})  # fmt: skip
    return exchange, {"op": "heartbeat", "group_id": group}, None


def times(steps):
    return {each[0].line: each[0].handled_ms for each in steps}


def test_the_late_timer_was_due_up_to_a_second_before_the_request_and_is_tried_from_the_latest():
    """Each is tried twice: without a wait for a lock, and with one. Eight are tried at most."""
    steps = [step(1, 5000.0, answered_ms=5003.0)]
    for due, tried in [
        ([3999, 4000, 5003, 5004], [5003, 4000]),
        (range(4980, 5000), range(4999, 4991, -1)),
    ]:
        first = [min(times(each).values()) for each in moves([*steps, step(2, 9e9)], 0, due)]
        moved = [5000.0 if ms == 5003 else ms - 0.001 for ms in tried]
        assert first == [ms for ms in moved for _ in range(2)]


def test_requests_of_the_group_from_the_deadline_to_the_firing_move_just_before_it():
    """The timer was due at 100 and fired at 140; what waited until 140 did so for the group."""
    steps = [
        step(1, 99.9), step(2, 100.0), step(3, 120.0, "h"), step(4, 130.0, local_ms=10.0),
        step(5, 135.0, local_ms=5.5), step(6, 140.0), step(7, 140.5, local_ms=9.0),
    ]  # fmt: skip
    before = 100 - 0.001
    stay = {1: 99.9, 3: 120.0, 7: 140.5}
    moved_all = dict.fromkeys((2, 4, 5, 6), before)
    assert times(moved(steps, "g", 100, 140.0, waited=False)) == stay | moved_all
    came = moved(steps, "g", 100, 140.0, waited=True)
    assert times(came) == stay | moved_all | {5: 140.5}
    assert [each[0].line for each in came] == [1, 2, 4, 6, 3, 5, 7]


DELAY = "group.initial.rebalance.delay.ms"
REBALANCING = 27


def different(log, delay_ms):
    made = import_request_log(log, {DELAY: delay_ms})
    return list(compare_responses(made.expected, run_trace(made.trace))), made.trace[0]["config"]


@given(st.integers(1, 900), st.sets(st.integers(1, 899), max_size=5))
def test_a_session_that_ends_late_is_that_of_a_broker_that_is_late(late_ms, beats):
    """``b`` is not heard of after its sync, and ``a`` is told of it once the timer has fired."""
    due = 10_100
    answered_well = [3100, 6100, 9100, *(due + ms for ms in sorted(beats) if ms < late_ms)]
    log = [
        *(member_joins(0, "a", 1, 20), member_joins(0, "b", 1, 20)),
        *(member_syncs(99, "a", 1), member_syncs(100, "b", 1)),
        *(member_beats(ms, "a", 1) for ms in answered_well),
        member_beats(due + late_ms + 500, "a", 1, REBALANCING),
        member_joins(due + late_ms + 510, "a", 2, 0.5, members="a"),
    ]
    assert different(log, 20) == ([], {DELAY: 20})


@given(st.integers(2, 900), st.data())
def test_all_that_join_before_a_late_first_generation_begins_are_in_it(late_ms, data):
    """A broker without an initial delay answers the first join on another thread, too."""
    second = data.draw(st.integers(1, late_ms - 1), "when the second joins")
    third = data.draw(st.integers(late_ms + 1, late_ms + 500), "when the third joins")
    log = [
        *(member_joins(late_ms, "a", 1, late_ms), member_joins(late_ms, "b", 1, late_ms - second)),
        member_joins(late_ms + 610, "a", 2, 10, members="abc"),
        member_joins(late_ms + 610, "b", 2, 10, members="abc"),
        member_joins(late_ms + 610, "c", 2, late_ms + 610 - third, members="abc", new=True),
    ]
    assert different(log, 0) == ([], {DELAY: 1})


@given(st.integers(2, 900), st.data())
def test_a_join_that_waited_for_the_lock_is_in_the_next_generation(late_ms, data):
    """``c`` came before the first generation, but its handler waited until that had begun."""
    second, third = (data.draw(st.integers(1, late_ms - 1)) for _ in "bc")
    end = late_ms + 610
    log = [
        *(member_joins(late_ms, "a", 1, late_ms), member_joins(late_ms, "b", 1, late_ms - second)),
        *(member_joins(end, name, 2, 10, members="abc") for name in "ab"),
        member_joins(end, "c", 2, end - third, members="abc", new=True,
                     localTimeMs=late_ms + 50 - third),
    ]  # fmt: skip
    assert different(log, 0) == ([], {DELAY: 1})


def test_a_delay_of_none_stays_if_the_answers_do_not_show_another():
    log = [member_joins(0, "a", 1, 0.5, members="a"), member_joins(90, "b", 2, 10, new=True),
           member_joins(90, "a", 2, 5)]  # fmt: skip
    assert different(log, 0) == ([], {DELAY: 0})
    wrong, config = different([*log, member_beats(200, "a", 2, 99)], 0)  # as with any delay
    assert (len(wrong), config) == (1, {DELAY: 0})
