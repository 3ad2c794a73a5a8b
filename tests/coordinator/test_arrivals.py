"""The times at which a broker handled the requests of a log, by the rules of a log's times."""

import pytest

from coterie.coordinator.arrivals import in_order
from coterie.coordinator.late_timers import moved, moves
from coterie.coordinator.restarts import Outage, outages, started_times
from coterie.wire.exchanges import Connection, Exchange

DAY_MS = 86_400_000


def connection(number, processor="0", host="c"):
    return Connection(f"{host}-{processor}-{number}", ("broker:9092", processor), number)


def exchange(line, came_ms, sent_ms, of=None, api="HEARTBEAT", local_ms=0.0):
    """A request that waits 1 ms in the queue; its response waits 2 ms before it is sent."""
    return Exchange(
        line, came_ms, came_ms + 1, sent_ms - 2, sent_ms, local_ms, api, 4, "c", "/h", {}, {}, of
    )


def times(exchanges):
    return {e.line: (e.came_ms, e.handled_ms, e.answered_ms, e.sent_ms) for e in exchanges}


def lines(exchanges):
    return [each.line for each in exchanges]


def shifts(sent_ms):
    """By how much all times of the requests of a log with these times move, in its order."""
    log = [exchange(number, at - 7, at) for number, at in enumerate(sent_ms)]
    before, after = times(log), times(in_order(log))
    moved_by = [{b - a for a, b in zip(before[n], after[n], strict=True)} for n in before]
    assert all(len(each) == 1 for each in moved_by)  # the four times of a request move together
    return [each.pop() for each in moved_by]


def test_a_request_of_a_connection_comes_after_the_answer_before():
    own = connection(3)
    log = [exchange(1, DAY_MS, DAY_MS + 50, own), exchange(2, DAY_MS + 45, DAY_MS + 90, own),
           exchange(3, DAY_MS + 94, DAY_MS + 99, own)]  # fmt: skip
    came = {line: each[0] - DAY_MS for line, each in times(in_order(log)).items()}
    assert came == {1: 0, 2: 50, 3: 95}  # the second one ends five later, and so moves the third
    assert times(log)[2] == tuple(DAY_MS + ms for ms in (50, 51, 93, 95))


def test_a_request_that_came_after_the_answer_before_stays_where_it_is():
    own = connection(3)
    log = [exchange(1, DAY_MS, DAY_MS + 50, own), exchange(2, DAY_MS + 50, DAY_MS + 90, own),
           exchange(3, DAY_MS + 300, DAY_MS + 310, own)]  # fmt: skip
    before = times(log)
    assert times(in_order(log)) == before


@pytest.mark.parametrize("of", [None, connection(4)], ids=["unknown", "other"])
def test_requests_of_other_connections_are_sorted_by_their_own_times(of):
    log = [exchange(1, DAY_MS + 40, DAY_MS + 50, of), exchange(2, DAY_MS, DAY_MS + 60)]
    before = times(log)
    ordered = in_order(log)
    assert lines(ordered) == [2, 1]
    assert times(ordered) == before


def test_a_request_that_is_cut_to_end_before_it_was_handled_still_precedes_the_next():
    own = connection(3)
    short, after = exchange(1, DAY_MS, DAY_MS, own), exchange(2, DAY_MS, DAY_MS + 9, own)
    ordered = in_order([short, after])
    assert (ordered[0].line, after.came_ms) == (1, DAY_MS + 1)


@pytest.mark.parametrize(
    ("api", "handled_ms"),
    [("DELETE_TOPICS", 90), ("END_TXN", 90), ("OFFSET_COMMIT", 1), ("HEARTBEAT", 1)],
)
def test_a_deletion_and_the_end_of_a_transaction_take_effect_with_their_answers(api, handled_ms):
    (only,) = in_order([exchange(1, DAY_MS, DAY_MS + 90, connection(3), api)])
    assert only.handled_ms == DAY_MS + handled_ms


@pytest.mark.parametrize(
    ("sent_ms", "expected"),
    [
        ((10_000, 5_000, 5_500), (0, 0, 0)),  # five seconds are what threads explain
        ((10_000, 4_999, 5_500), (0, 5_001, 5_001)),  # one more is a clock that was set back
        ((10_000, 4_000, 9_999), (0, 6_000, 6_000)),  # it goes on a millisecond less than back
        ((10_000, 4_000, 10_000), (0, 6_000, 0)),  # as far ahead: the clock is right again
        ((10_000, 4_000, 10_001, 10_010), (0, 6_000, 0, 0)),
        ((10_000, 4_000, 7_000, 12_999), (0, 6_000, 6_000, 6_000)),  # counts from the line before
        ((10_000, 4_000, 7_000, 13_000), (0, 6_000, 6_000, 0)),
        ((10_000, 4_000, 7_000, 6_000, 12_999), (0, 6_000, 6_000, 6_000, 6_000)),
        ((20_000, 13_000, 5_000, 5_001), (0, 7_000, 15_000, 15_000)),  # twice, by 7 s and 8 s
        ((20_000, 13_000, 5_000, 19_999), (0, 7_000, 15_000, 15_000)),
        ((20_000, 13_000, 5_000, 20_000), (0, 7_000, 15_000, 0)),
        ((20_000, 17_000, 14_999, 14_500), (0, 0, 5_001, 5_001)),  # from the latest, not the last
    ],
)  # fmt: skip
def test_the_times_go_on_when_the_clock_is_set_back(sent_ms, expected):
    assert shifts(DAY_MS + ms for ms in sent_ms) == list(expected)


# Requests from when the timer was due until it fired are moved before it.


def step(line, handled_ms, group="g", local_ms=0.0):
    one = exchange(line, handled_ms - 1, handled_ms + 50, local_ms=local_ms)
    return one, {"op": "heartbeat"} | ({"group_id": group} if group else {}), None


DUE, FIRED = 7_000, 7_400


@pytest.mark.parametrize(
    ("handled_ms", "group", "local_ms", "moves_to"),
    [
        (DUE - 1, "g", 900, None),
        (DUE, "g", 0, "before"),
        (FIRED, "g", 0, "before"),
        (FIRED + 1, "g", 900, None),
        (DUE + 50, "h", 900, None),
        (DUE + 50, None, 900, None),
        (DUE + 50, "g", 350, "before"),  # its wait ends as the timer fires
        (DUE + 50, "g", 351, DUE + 401),
    ],
)
def test_requests_between_a_timers_time_and_its_firing_come_before_it(
    handled_ms, group, local_ms, moves_to
):
    log = [step(1, DUE - 500), step(2, handled_ms, group, local_ms), step(3, DUE + 9_000)]
    for waited in (False, True):
        placed = moved(log, "g", DUE, FIRED, waited=waited)
        at = placed[1][0].handled_ms
        assert [each[0].line for each in placed] == [1, 2, 3]
        assert [placed[0], placed[2]] == [log[0], log[2]]
        if moves_to is None:
            assert placed == log
        elif waited and moves_to != "before":
            assert at == moves_to
        else:  # behind whatever else there is in the millisecond before the timer
            assert DUE - 0.01 < at < DUE


def test_a_request_that_waited_comes_behind_those_that_did_not():
    log = [step(1, DUE + 10, local_ms=500), step(2, DUE + 20), step(3, DUE + 30)]
    placed = moved(log, "g", DUE, FIRED, waited=True)
    assert [each[0].line for each in placed] == [2, 3, 1]


def late_at(steps, at, changed_ms):
    """Return the times to which the last request of ``steps`` may move, in order of the tries."""
    return [round(each[-1][0].handled_ms) for each in moves(steps, at, changed_ms)]


def test_a_timer_is_late_by_a_second_at_most_and_fired_before_the_answer():
    log = [step(1, DUE, local_ms=3_000)]  # answered at DUE + 48
    due = [DUE - 1_001, DUE - 1_000, DUE - 500, DUE, DUE + 48, DUE + 49]
    tries = list(moves(log, 0, due))
    assert len(tries) == 2 * 4  # as the timer comes first, and as the request waited for it
    # the latest timer first; a request before the timer was due stays
    assert late_at(log, 0, due) == [DUE, DUE, DUE, DUE + 3_000, DUE - 500, DUE + 3_000,
                                    DUE - 1_000, DUE + 3_000]  # fmt: skip


def test_eight_timers_may_be_the_late_one_the_latest_first():
    log = [step(1, DUE)]
    due = [DUE - 10 * number for number in range(12)]
    assert late_at(log, 0, reversed(due)) == [ms for ms in due[:8] for _ in range(2)]


# Outages


def seen(*rows):
    """Return an exchange over its own connection for each (came, sent, number, processor)."""
    return [
        exchange(line, DAY_MS + came, DAY_MS + sent, connection(number, processor, f"own{line}"))
        for line, (came, sent, number, processor) in enumerate(rows)
    ]


def down(log, *started_ms):
    found = outages(log, [DAY_MS + ms for ms in started_ms])
    assert all(isinstance(each, Outage) for each in found)
    return [(last - DAY_MS, first - DAY_MS) for last, first in found]


@pytest.mark.parametrize(("pause_ms", "found"), [(999, False), (1_000, True), (1_001, True)])
def test_a_broker_is_down_for_a_second_at_least(pause_ms, found):
    log = seen((0, 10, 5, "0"), (3, 40, 6, "0"), (4, 20, 7, "1"), (40 + pause_ms, 3_000, 5, "0"))
    assert down(log) == ([(40, 40 + pause_ms)] if found else [])


@pytest.mark.parametrize(
    ("known", "number", "processor", "found"),
    [
        ((5, 6), 4, "0", True),  # below all numbers of its processor
        ((5, 8), 7, "0", False),  # of one that was not seen
        ((5, 8), 8, "0", True),
        ((5, 8), 9, "0", False),
        ((5, 8), 6, None, True),  # processors take turns: none is two behind
        ((5, 8), 7, None, False),
        ((5, 8), 8, None, False),
        ((5, 8), 4, None, True),
        ((5, 8), 6, "0", False),
        ((8, 8), 8, None, False),
        ((0, 0), 0, "0", True),
    ],
)
def test_a_number_that_a_processor_cannot_give_shows_a_restart(known, number, processor, found):
    log = seen(*((0, 10, each, processor) for each in known), (5_000, 5_010, number, processor))
    assert down(log) == ([(10, 5_000)] if found else [])


def test_each_restart_is_found_however_many_there_are():
    log = seen((0, 10, 0, "0"), (20, 30, 1, "0"), (5_000, 5_010, 0, "0"), (9_000, 9_100, 1, "0"),
               (20_000, 20_010, 0, "0"))  # fmt: skip
    assert down(log) == [(30, 5_000), (9_100, 20_000)]
    assert down(log[::-1]) == [(30, 5_000), (9_100, 20_000)]


def test_numbers_from_before_a_pause_without_a_restart_still_count():
    log = seen((0, 10, 5, "0"), (1, 20, 7, "0"), (5_000, 5_010, 6, "0"), (9_000, 9_100, 7, "0"))
    assert down(log) == [(5_010, 9_000)]


def test_a_processor_that_was_not_seen_before_says_nothing_of_the_others():
    assert down(seen((0, 10, 5, "0"), (5_000, 5_010, 3, "1"), (5_020, 5_030, 5, "0"))) == [
        (10, 5_000)
    ]


def test_a_server_log_moves_the_end_of_an_outage_to_the_first_start_in_it():
    log = seen((0, 10, 5, "0"), (5_000, 5_010, 3, "0"))
    assert down(log, 4_000, 3_000, 5_000) == [(10, 3_000)]
    assert down(log, 10) == [(10, 5_000)]  # not one with the last answer


def test_a_start_between_requests_is_an_outage_though_no_number_shows_it():
    log = seen((0, 400, 5, "0"), (50, 90, 6, "0"), (5_000, 5_010, 7, "0"), (6_000, 6_001, 8, "0"))
    assert down(log, 4_000) == [(400, 4_000)]
    assert down(log, 5_000) == [(400, 5_000)]  # a request that came as the broker started
    assert down(log, 5_500, 4_000) == [(400, 4_000), (5_010, 5_500)]
    assert down(log[:3], 5_000) == [(400, 5_000)]  # also if none comes later
    assert down(log, 200) == []  # in the midst of a request that was answered later
    assert down(log, 0) == []
    assert down(log, 400) == []  # as the last response was sent
    assert down(log, 6_001) == []


STARTS = [
    ("00:00:01", "[GroupCoordinator id=1] Starting up."),
    ("00:00:02", "[GroupCoordinator 1]: Finished loading offsets and group metadata from "
                 "__consumer_offsets-3 in 5 milliseconds"),
    ("00:00:03", "Finished loading of metadata from __consumer_offsets-4 in 5ms"),
    ("00:00:04", "[KafkaServer id=1] started"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "seconds"),
    [
        ((0, 1, 2, 3), [2]),  # sessions begin with the first load
        ((0, 3), [4]),
        ((3,), [4]),
        ((1, 0, 3), [4]),  # a load of the process before counts for nothing
        ((0, 1, 3, 3), [2, 4]),
        ((0, 1), []),
    ],
)
def test_a_start_is_the_first_load_before_requests_are_accepted(rows, seconds):
    log = [f"[1970-01-02 {STARTS[row][0]},000] INFO {STARTS[row][1]}" for row in rows]
    assert started_times(log) == [DAY_MS + 1000 * s for s in seconds]
