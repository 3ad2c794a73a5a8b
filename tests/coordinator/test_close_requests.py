"""Which requests of a log may have come in the other order, and which order answers show."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie.coordinator import answered_order
from coterie.coordinator.answered_order import in_answered_order, run_of
from coterie.coordinator.close_requests import ATTEMPTS, close_pairs, swapped, swaps
from coterie.wire.exchanges import Connection, Exchange
from support.trace_data import header, join


def step(number, handled_ms, group, connection):
    exchange = Exchange(
        number, handled_ms - 0.1, handled_ms, handled_ms + 0.2, handled_ms + 0.4, 0.0, "HEARTBEAT",
        4, "c", "/h", {}, {}, Connection(f"c-{connection}", ("l", "0"), connection),
    )  # fmt: skip
    return exchange, {"op": "heartbeat"} | ({"group_id": group} if group else {}), None


@st.composite
def logs(draw):
    at = draw(st.lists(st.integers(0, 40), min_size=1, max_size=30).map(sorted))
    rows = [(ms / 4, draw(st.sampled_from(["g", "g", "h", None])), draw(st.integers(0, 3)))
            for ms in at]  # fmt: skip
    return [step(number, *row) for number, row in enumerate(rows)]


def concerns(one, group):
    return one[1].get("group_id") in (group, None)


def connections(steps):
    return {step[0].connection for step in steps}


@given(logs(), st.data())
def test_pairs_are_neighbours_of_the_group_within_a_millisecond_the_nearest_first(steps, data):
    at = data.draw(st.integers(0, len(steps) - 1))
    group = steps[at][1].get("group_id")
    until_ms = steps[at][0].sent_ms + 1  # a log's times are cut to milliseconds
    model = [
        (one, other)
        for one, other in combinations(range(len(steps)), 2)
        if concerns(steps[one], group) and concerns(steps[other], group)
        and not any(concerns(each, group) for each in steps[one + 1 : other])
        and steps[other][0].handled_ms - steps[one][0].handled_ms < 1
        and steps[other][0].handled_ms <= until_ms
        # one connection has one request at a time, so its requests keep their order
        and connections(steps[one : one + 1]).isdisjoint(connections(steps[one + 1 : other + 1]))
    ]  # fmt: skip
    found = list(close_pairs(steps, at))
    distance = [min(abs(one - at), abs(other - at)) for one, other in found]
    assert set(found) <= set(model)
    assert len(found) == len(set(found)) == min(len(model), ATTEMPTS)
    assert distance == sorted(distance)
    left_out = [min(abs(one - at), abs(other - at)) for one, other in set(model) - set(found)]
    assert max(distance, default=0) <= min(left_out, default=len(steps))
    assert list(swaps(steps, at)) == [swapped(steps, *pair) for pair in found]


def test_a_request_moves_behind_the_other_one_and_to_its_time():
    steps = [step(number, number / 4, "g", number) for number in range(5)]
    lines = [each[0].line for each in swapped(steps, 1, 3)]
    times = [each[0].handled_ms for each in swapped(steps, 1, 3)]
    assert (lines, times) == ([0, 2, 3, 1, 4], [0, 0.5, 0.75, 0.75, 1.0])


def test_a_wrong_answer_costs_eight_attempts_however_many_requests_are_close():
    steps = [step(number, number / 100, "g", number) for number in range(40)]
    pairs = list(close_pairs(steps, 20))
    assert len(pairs) == 8
    assert sorted(pairs) == [(one, one + 1) for one in range(16, 24)]


def test_the_distance_of_a_pair_is_that_of_its_nearer_request():
    own = (1, 3, 5, 6, 20)
    steps = [
        step(number, number / 100, "g" if number in own else "h", number) for number in range(25)
    ]
    assert list(close_pairs(steps, 5))[2:] == [(6, 20), (1, 3)]


def test_a_request_may_come_a_millisecond_after_the_answer_for_times_are_cut():
    steps = [step(0, 0, "g", 0), step(1, 1.5, "g", 1), step(2, 2.0, "g", 2), step(3, 2.25, "g", 3)]
    steps[0][0].sent_ms = 1.0
    assert list(close_pairs(steps, 0)) == [(1, 2)]


def beats(count):
    """Return heartbeats of an unknown member, each a line of a trace of its own time."""
    return [
        {"at": number, "op": "heartbeat", "id": number, "group_id": "g", "generation_id": 1,
         "member_id": "m"} for number in range(1, count + 1)
    ]  # fmt: skip


def answer(number, error, at=0):
    return {"at": at, "event": "response", "id": number, "op": "heartbeat", "error": error}


@pytest.fixture
def without_end(monkeypatch):
    """Three close steps that no order answers as the broker did, and how to run them."""
    monkeypatch.setattr(answered_order, "EVENTS_MAX", 99)
    runs = []

    def lines_of(steps):
        runs.append([each[0].line for each in steps])
        return [header(), *beats(3)], [answer(number, "NONE") for number in (1, 2, 3)]

    return [step(number, number / 4, "g", number) for number in range(3)], lines_of, runs


def test_steps_stay_in_order_if_no_other_order_has_fewer_wrong_answers(without_end):
    steps, lines_of, runs = without_end
    assert in_answered_order(steps, lines_of, 0) == (steps, 3)
    assert runs[0] == [0, 1, 2]
    assert sorted(map(tuple, runs[1:])) == [(0, 2, 1), (1, 0, 2)]


def test_a_group_whose_answer_no_order_explains_leaves_the_others_to_be_ordered():
    """In ``h`` the first join takes the first id; the answers show that ``b`` was first."""
    rows = [(1, "g", "a"), (2, "g", "a"), (3, "h", "a"), (4, "h", "b")]
    steps = []
    for number, group, client in rows:
        exchange, _, _ = step(number, number / 4, group, number)
        steps.append((exchange, {"group_id": group, "client": client}, None))

    def lines_of(steps):
        trace, expected = [header()], []
        for number, (_, event, _) in enumerate(steps, 1):
            group, client = event["group_id"], event["client"]
            if group == "g":
                trace.append(beats(1)[0] | {"at": 0, "id": number})
                expected.append(answer(number, "NONE"))  # as no broker answers
            else:
                trace.append(join(0, number, group, client_id=client, require_known_member_id=True))
                named = f"{client}-0000000{'ba'.index(client) + 1}"
                expected.append(answer(number, "MEMBER_ID_REQUIRED") | {
                    "op": "join_group", "generation_id": -1, "protocol_type": None,
                    "protocol_name": None, "leader": "", "member_id": named,
                    "skip_assignment": False, "members": [],
                })  # fmt: skip
        return trace, expected

    ordered, wrong = in_answered_order(steps, lines_of, 0)
    assert ([each[0].line for each in ordered], wrong) == ([1, 2, 4, 3], 2)


@pytest.mark.parametrize(
    ("most", "runs", "wrong"),
    [(2, 0, None), (3, 1, 3), (5, 1, 3), (6, 2, 3), (8, 2, 3), (9, 3, 3), (99, 3, 3)],
)
def test_attempts_play_a_number_of_events_at_most(without_end, monkeypatch, most, runs, wrong):
    steps, lines_of, tries = without_end
    monkeypatch.setattr(answered_order, "EVENTS_MAX", most)
    assert in_answered_order(steps, lines_of, 0) == (steps, wrong)
    assert len(tries) == runs


def test_an_order_that_cannot_be_run_is_none(without_end):
    steps, _, _ = without_end

    def lines_of(steps):
        first = steps[0][0].line == steps[1][0].line - 1 == 0
        return ([header(), *beats(3)] if first else []), [answer(1, "NONE")]

    assert run_of([], []) is None
    assert in_answered_order(steps, lines_of, 0) == (steps, 3)
    assert in_answered_order(steps, lambda _: ([], []), 0) == (steps, None)


@pytest.mark.parametrize(
    ("expected", "wrong"),
    [
        ([answer(2, "NONE", 5), answer(1, "NONE", 9)], [0, 1]),  # of the later request first
        ([answer(2, "UNKNOWN_MEMBER_ID"), answer(1, "NONE")], [0]),
        ([answer(1, "UNKNOWN_MEMBER_ID")], [1]),
        ([answer(number, "UNKNOWN_MEMBER_ID") for number in (3, 2, 1)], [2]),
    ],
)
def test_the_wrong_answers_are_in_the_order_of_the_requests(expected, wrong):
    assert run_of([header(), *beats(2)], expected).wrong == wrong


def test_what_an_old_response_cannot_show_is_no_wrong_answer():
    """OffsetFetch has leader epochs since version 5."""
    row = {"topic": "t", "partition": 0, "offset": 10, "metadata": ""}
    commit = {"at": 1, "op": "offset_commit", "id": 1, "group_id": "g",
              "offsets": [row | {"leader_epoch": 7}]}  # fmt: skip
    fetch = {"at": 2, "op": "offset_fetch", "id": 2, "group_id": "g"}
    done = {"topic": "t", "partition": 0, "error": "NONE"}
    broker = [
        answer(1, "NONE") | {"op": "offset_commit", "partitions": [done]},
        answer(2, "NONE") | {"op": "offset_fetch", "partitions": [row | {"error": "NONE"}]},
    ]
    assert run_of([header(), commit, fetch], broker).wrong == []
    broker[1]["partitions"] = [row | {"error": "NONE", "leader_epoch": 6}]
    assert run_of([header(), commit, fetch], broker).wrong == [1]


def test_a_run_shows_when_each_group_changes_its_state():
    trace = [header(group_initial_rebalance_delay_ms=1000), join(70, 1), join(500, 2, "h"),
             {"at": 1499, "op": "advance"}]  # fmt: skip
    assert run_of(trace, []).changed_at == {"g": {70, 1070}, "h": {500}}
