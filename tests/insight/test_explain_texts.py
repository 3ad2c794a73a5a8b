"""The words of `explain` about a row, and what is known of a member that is gone."""

from types import SimpleNamespace

import pytest

from coterie.insight.groups.departures import Departure
from coterie.insight.groups.epochs import Gone
from coterie.insight.questions.explain_members import (
    departure_of_consumer,
    follow_consumers,
)
from coterie.insight.questions.explain_text import cause_of, length, reconciled, summed, waited

T0 = 1_795_000_000_000


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0.000 s"), (59_999, "59.999 s"), (60_000, "60 s"), (60_999, "60 s"),
     (119_999, "119 s"), (120_000, "2.0 min"), (3_600_000, "60.0 min"), (9_000_000, "2.5 h"),
     (605_399_000, "7.0 d")],
)  # fmt: skip
def test_a_time_has_milliseconds_below_a_minute(ms, text):
    assert length(ms) == text


def row(event, **fields):
    blank = dict.fromkeys(("duration_ms", "duration_source", "until", "reason", "target_at"))
    blank |= dict.fromkeys(("unowned_least_ms", "unowned_most_ms"))
    return blank | {"event": event, "timestamp": T0, "cause": "so it was"} | fields


@pytest.mark.parametrize(
    ("event", "fields", "text"),
    [
        ("empty", {"duration_ms": 1500}, " for 1.500 s"),
        ("empty", {"duration_ms": 0}, " for 0.000 s"),
        ("empty", {}, ""),
        ("generation", {"duration_ms": 1500}, ""),
        ("static_leave", {"until": T0 + 2250}, ", away for 2.250 s"),
        ("static_leave", {}, ""),
        ("generation", {"until": T0 + 2250}, ""),
        ("commits", {"until": T0 + 61_001}, " (until 11:07:41.001Z)"),
        ("commits", {"until": T0}, ""),
        ("generation", {"reason": "removing member c-1 on heartbeat expiration"},
         " [server log: removing member c-1 on heartbeat expiration]"),
        ("generation", {"reason": "c-01234567-89ab-cdef-0123-456789abcdef with group instance id "
                                  "None; client reason: not provided"}, " [server log: c]"),
        ("epoch", {"timestamp": None, "until": T0 + 5}, ""),
        ("empty", {"duration_ms": 7, "reason": "r"}, " for 0.007 s [server log: r]"),
    ],
)  # fmt: skip
def test_a_cause_says_what_the_row_knows(event, fields, text):
    assert cause_of(row(event, **fields)) == f"so it was{text}"


def client(number):
    return {"client_id": f"c{number}"}


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"target_at": T0 + 5}, "; target computed after 0.005 s"),
        ({"target_at": T0}, ""),
        ({"until": T0 + 1}, "; reconciled after 0.001 s"),
        ({"until": T0}, ""),
        ({"until": T0 + 70_000, "member_count": 2, "last_members": [client(1), client(2)]},
         "; reconciled after 70 s, c1 last"),
        ({"until": T0 + 70_000, "member_count": 1, "last_members": [client(1)]},
         "; reconciled after 70 s"),
        ({"target_at": T0 + 5, "until": T0 + 6},
         "; target computed after 0.005 s; reconciled after 0.006 s"),
        ({"unreconciled": 2, "last_members": [client(1), client(2)]}, "; not reconciled: c1, c2"),
        ({"unreconciled": 3, "last_members": [client(n) for n in range(3)]},
         "; not reconciled: c0, c1, c2"),
        ({"unreconciled": 25, "last_members": [client(n) for n in range(20)]},
         "; not reconciled: c0, c1, c2, 22 more"),
        ({"unreconciled": 0}, ""),
        ({"unreconciled": 1, "until": T0, "last_members": [client(1)]}, ""),
    ],
)  # fmt: skip
def test_an_epoch_says_when_its_members_had_their_assignment(fields, text):
    epoch = row("epoch", member_count=1, unreconciled=0, last_members=[]) | fields
    assert reconciled(epoch) == text
    assert cause_of(epoch) == f"so it was{text}"


@pytest.mark.parametrize(
    ("event", "fields", "text"),
    [
        ("generation", {"duration_ms": 1041, "duration_source": "server log"}, "1.041 s"),
        ("generation", {"duration_ms": 1041, "duration_source": "records"}, "< 1.041 s"),
        ("generation", {"duration_ms": 0, "duration_source": "server log"}, "0.000 s"),
        ("generation", {}, None),
        ("empty", {"duration_ms": 1041}, None),
    ],
)
def test_a_wait_is_exact_by_a_server_log_and_else_a_bound(event, fields, text):
    assert waited(row(event, **fields)) == text


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({}, ""),
        ({"duration_ms": 0}, ""),
        ({"duration_ms": 3000, "duration_source": "server log"}, ", rebalancing for 3.000 s"),
        ({"duration_ms": 3000}, ", rebalancing for at least 3.000 s"),
        ({"unowned_least_ms": 0, "unowned_most_ms": 0}, ", no partition without an owner"),
        ({"duration_ms": 3000, "unowned_least_ms": 1000, "unowned_most_ms": 4000},
         ", rebalancing for at least 3.000 s, 1.0 to 4.0 partition-seconds without an owner"),
    ],
)  # fmt: skip
def test_a_summary_adds_what_rebalances_took(fields, text):
    assert summed(row("summary", **fields)) == f"so it was{text}"


NAMES = {"id-1": "t"}
COMMITTED = {("t", 1): T0 + 100, ("t", 2): T0 + 300, ("u", 5): T0 + 900, ("t", 9): T0 + 5000}


@pytest.mark.parametrize(
    ("timeout_ms", "places", "committed_ms"),
    [
        (None, [("id-1", 1)], "not known"),
        (0, [("id-1", 1)], "not known"),
        (1, [("id-1", 1)], T0 + 100),
        (9_001, [("id-1", 1), ("id-1", 2)], T0 + 300),
        (9_001, [("id-1", 2), ("id-1", 3), ("id-1", 1)], T0 + 300),
        (9_001, [("u", 5), ("id-1", 2)], T0 + 900),  # an id without a name is not looked up
        (9_001, [("id-2", 1)], None),
        (9_001, [], None),
    ],
)
def test_a_member_of_a_consumer_group_committed_last_where_it_owned(
    timeout_ms, places, committed_ms
):
    record = SimpleNamespace(timestamp=T0 + 7_000, log_offset=77)
    gone = Gone({"member_id": "m", "rebalance_timeout_ms": timeout_ms}, record, T0 - 5,
                frozenset(places))  # fmt: skip
    expected = Departure("m", T0 + 7_000, T0 - 5, committed_ms, 45_000, timeout_ms, 77)
    known = committed_ms != "not known"
    assert departure_of_consumer(gone, COMMITTED, NAMES) == (expected if known else None)


def test_members_that_a_group_lost_before_it_was_a_consumer_group_are_not_among_those_gone():
    """Its classic records name their own; a static member that had left for now has its reason."""
    last = {("g", 0): {("t", 1): T0 + 100, ("t", 2): T0}, ("g", 2): {("t", 1): T0 + 400}}
    spans = SimpleNamespace(last_before=lambda *place: last.get(place, {}))
    members = [
        Gone({"member_id": name, "rebalance_timeout_ms": 9_001},
             SimpleNamespace(timestamp=T0 + at, log_offset=at, file="f", position=7 * at),
             T0 - 5, frozenset({("id-1", 1), ("id-1", 2)}))
        for name, at in (("s", 5_000), ("m", 7_000))
    ]  # fmt: skip
    events = [
        {"causes": [cause("left_or_evicted", "old") | {"source": "records"}], "cause": "it was so",
         "file": "f", "position": 7 * at}
        for at in (3_000, 5_000, 7_000)
    ]  # fmt: skip
    events[1]["causes"][0] |= {"member_id": "s", "detail": "had left for now"}
    events[2]["causes"][0]["member_id"] = "m"
    found = follow_consumers(members, events, spans, "g", NAMES)
    assert found == [Departure("m", T0 + 7_000, T0 - 5, T0 + 400, 45_000, 9_001, 7_000)]
    assert {event["cause"] for event in events} == {"it was so"}


def members(*names):
    return [
        {"member_id": name, "session_timeout_ms": 7_000 + at, "rebalance_timeout_ms": 9_000 + at}
        for at, name in enumerate(names)
    ]


def cause(what, member_id, detail=None):
    return {"what": what, "member_id": member_id, "detail": detail}
