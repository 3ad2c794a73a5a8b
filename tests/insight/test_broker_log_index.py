"""What the lines of a broker's logs add to the rows of a timeline, at the limits of each rule."""

import pytest

from coterie.base.times import format_time
from coterie.insight.groups.causes import CAUSE
from coterie.insight.questions import explain_text
from coterie.insight.questions.server_log import (
    JOINED,
    REFUSED,
    SEEN,
    BrokerLogIndex,
    read_request_log,
)
from coterie.insight.questions.server_log_lines import REQUESTS, SERVER, BrokerLogLine
from coterie.insight.questions.server_log_phrases import (
    ASSIGNED,
    EVICTED,
    LEFT,
    PREPARING,
    REPLACED,
)
from support.request_lines import line as logged

T0 = 1_795_000_000_123


def line(what, at_ms, source=SERVER, **fields):
    return BrokerLogLine("g", what, T0 + at_ms, source, **fields)


def cause(what, member_id=None, **fields):
    return dict.fromkeys(CAUSE) | {
        "what": what, "member_id": member_id, "source": "records",
    } | fields  # fmt: skip


def row(number, at_ms, *causes, event="generation", **fields):
    timestamp = None if at_ms is None else T0 + at_ms
    return {
        "event": event, "generation": number, "timestamp": timestamp, "causes": list(causes),
    } | fields  # fmt: skip


def annotated(lines, *rows):
    """The last of the rows, with what the lines say."""
    BrokerLogIndex(lines).annotate(list(rows))
    return rows[-1]


def cause_of(one):
    (only,) = one["causes"]
    return only["what"], only["detail"], only["source"]


@pytest.mark.parametrize("turn", [1, -1])
def test_a_rebalance_lasts_from_the_nearest_lines_of_its_generation(turn):
    lines = [
        line(ASSIGNED, -90_000, generation=5),
        line(PREPARING, -95_000, generation=5, detail="of a life before"),
        line(PREPARING, 1_200, generation=5, detail="a member came"),
        line(ASSIGNED, 1_903, generation=5),
        line(PREPARING, 1_990, generation=6, detail="of the next generation"),
        line(ASSIGNED, 95_000, generation=5),
        line(PREPARING, 94_000, generation=5, detail="of a life after"),
    ][::turn]
    found = annotated(lines, row(5, 2_000))
    assert (found["reason"], found["duration_ms"]) == ("a member came", 703)
    assert found["duration_source"] == "server log"


@pytest.mark.parametrize(
    ("event", "has_reason", "has_duration"),
    [("generation", True, True), ("empty", True, False), ("rewritten", True, False),
     ("epoch", False, False)],
)  # fmt: skip
def test_lines_of_generations_are_of_rows_of_generations(event, has_reason, has_duration):
    lines = [line(PREPARING, 1, generation=5, detail="x"), line(ASSIGNED, 2, generation=5)]
    found = annotated(lines, row(5, 2_000, event=event))
    assert (found.get("reason") == "x", "duration_ms" in found) == (has_reason, has_duration)


def test_a_replacement_has_the_nearest_line_of_its_instance_and_former_member():
    lines = [
        line(REPLACED, 0, instance_id="i", member_id="a", detail="early"),
        line(REPLACED, 1_900, instance_id="i", member_id="a", detail="near"),
        line(REPLACED, 2_000, instance_id="i", member_id="b", detail="other member"),
        line(REPLACED, 2_000, instance_id="j", member_id="a", detail="other instance"),
        line(REPLACED, 2_500, instance_id="j", member_id="c", detail="second"),
    ]
    causes = [
        cause("replaced", "a2", detail="a", group_instance_id="i"),
        cause("left_or_evicted", "a", detail="a", group_instance_id="j"),
        cause("replaced", "c2", detail="c", group_instance_id="j"),
    ]
    found = annotated(lines, row(5, 2_000, *causes, event="static_replacement"))
    assert found["reason"] == "near; second"
    found = annotated([], row(5, 2_000, *causes, event="static_replacement"))
    assert found["reason"] is None


@pytest.mark.parametrize(
    ("detail", "expected"),
    [
        ("scaled up", ("joined", "scaled up", "request log")),
        ("not provided", ("joined", None, "records")),
        ("need to re-join with the given member-id: m", ("joined", None, "records")),
        (None, ("joined", None, "records")),
    ],
)
def test_a_join_has_the_reason_of_its_own_member_and_generation(detail, expected):
    lines = [
        line(JOINED, 0, REQUESTS, generation=4, member_id="m", detail="of generation 4"),
        line(JOINED, 1, REQUESTS, generation=5, member_id="x", detail="of x"),
        line(JOINED, 2, REQUESTS, generation=5, member_id="m", detail=detail),
    ]
    assert cause_of(annotated(lines, row(5, 10, cause("joined", "m")))) == expected


def test_a_static_member_is_the_client_that_joined_first_with_its_member_id():
    lines = [
        line(JOINED, 9, REQUESTS, generation=6, member_id="m", client_id="late", client_host="/2"),
        line(JOINED, 2, REQUESTS, generation=5, member_id="m", client_id="true", client_host="/1"),
    ]
    recorded = {"client_id": "old", "client_host": "/0"}
    for what, source in (("replaced", "request log"), ("member_changed", "records")):
        static = cause(what, "m", group_instance_id="i", **recorded)
        (found,) = annotated(lines, row(5, 10, static))["causes"]
        assert (found["client_id"], found["client_host"]) == ("true", "/1")
        assert (found["what"], found["source"]) == (what, source)
    (found,) = annotated(lines, row(5, 10, cause("replaced", "m", **recorded)))["causes"]
    assert (found["client_id"], found["client_host"]) == ("old", "/0")


def test_what_a_broker_log_said_already_stays():
    known = cause("left_or_evicted", "m", source="server log")
    assert annotated([line(LEFT, 0, member_id="m")], row(5, 10, known))["causes"] == [known]


def rejoined(*joins, leader="leader", reason=None):
    """Who is reported to have joined first; a join: time, member."""
    lines = [
        line(JOINED, at_ms, REQUESTS, generation=5, member_id=member, client_id=f"c-{member}",
             client_host=f"/{member}", instance_id=f"i-{member}", detail=f"why {member}")
        for at_ms, member in joins
    ]  # fmt: skip
    if reason is not None:
        lines.append(line(PREPARING, 0, generation=5, detail=reason))
    (found,) = annotated(lines, row(5, 10, cause("rejoined"), leader=leader))["causes"]
    member = found["member_id"]
    assert found == cause(
        "rejoined_first", member, client_id=f"c-{member}", client_host=f"/{member}",
        group_instance_id=f"i-{member}", detail=f"why {member}", source="request log",
    )  # fmt: skip
    return member


def test_of_simultaneous_joins_the_leaders_began_the_rebalance():
    assert rejoined((102, "leader"), (100, "a"), (101, "b")) == "leader"
    assert rejoined((103, "leader"), (100, "a"), (101, "b")) == "a"
    assert rejoined((102, "c"), (101, "b"), (100, "a")) == "a"
    assert rejoined((102, "c"), (101, "b"), (100, "a"), leader=None) == "a"


def test_the_coordinator_says_whose_join_began_the_rebalance():
    joins = (102, "leader"), (100, "m-1"), (200, "m-2")
    assert rejoined(*joins, reason="Updating metadata for member m-2 during Stable") == "m-2"
    assert rejoined(*joins, reason="something else") == "leader"


@pytest.mark.parametrize(
    ("what", "detail", "event", "expected"),
    [
        ("left_or_evicted", None, LEFT, ("left", "closed", "server log")),
        ("left_or_evicted", None, EVICTED, ("evicted", "closed", "server log")),
        ("restarted", "m", LEFT, ("restarted_left", "m", "server log")),
        ("restarted", "m", EVICTED, ("restarted_evicted", "m", "server log")),
    ],
)
def test_a_departure_is_what_the_first_line_of_the_member_says(what, detail, event, expected):
    """The detail of a member that restarted is its former member id."""
    lines = [
        line(LEFT, 7, member_id="m", detail="later"),
        line(event, 5, member_id="m", detail="closed"),
        line(LEFT, 1, member_id="n", detail="another member"),
    ]
    member = "m" if detail is None else "n"
    found = annotated(lines, row(4, 0), row(5, 10, cause(what, member, detail=detail)))
    assert cause_of(found) == expected


@pytest.mark.parametrize(
    ("at_ms", "is_about"), [(999, False), (1_000, True), (2_000, True), (2_001, False)]
)
def test_a_line_of_an_instance_counts_between_the_two_records(at_ms, is_about):
    lines = [line(LEFT, at_ms, instance_id="i", detail="by hand")]
    gone = cause("left_or_evicted", "m", group_instance_id="i")
    found = annotated(lines, row(4, 1_000), row(5, 2_000, gone))
    assert cause_of(found) == (
        ("left", "by hand", "server log") if is_about else ("left_or_evicted", None, "records")
    )
    assert cause_of(annotated(lines, row(4, None), row(5, None, gone)))[0] == "left"
    other = cause("left_or_evicted", "m", group_instance_id="j")
    assert cause_of(annotated(lines, row(4, 0), row(5, 9_000, other)))[0] == "left_or_evicted"


def refusals(rows, *lines):
    return BrokerLogIndex(lines).with_refusals(rows)


def test_refusals_of_one_client_are_one_event_until_ten_minutes_pass_without_one():
    """Whatever else happens to the group meanwhile: its rows do not divide them."""
    times = [1_000, 3_000, 603_000, 1_203_001]
    lines = [line(REFUSED, at, REQUESTS, client_id="c", detail="E") for at in times]
    found = refusals([row(1, 2_000), row(2, 4_000)], *lines)
    shown = [(one["timestamp"] - T0, one["until"] - T0, one["count"]) for one in found
             if one["event"] == "refused"]  # fmt: skip
    assert shown == [(1_000, 603_000, 3), (1_203_001, 1_203_001, 1)]
    assert [one["event"] == "refused" for one in found] == [True, False, False, True]
    assert explain_text.cause_of(found[0] | {"reason": None}) == (
        f"c was refused: E [request log], 3 times (until {format_time(T0 + 603_000)[11:]})"
    )


def test_refused_joins_of_one_client_between_two_rows_share_one():
    rows = [row(1, 1_000), row(2, None), row(3, 900), row(4, 3_000)]

    def refused(at_ms, client="c", detail="E", **fields):
        return line(REFUSED, at_ms, REQUESTS, client_id=client, detail=detail, **fields)

    lines = [
        refused(2_999, member_id="second"),
        refused(1_000, member_id="first", client_host="/h", instance_id="i"),
        refused(999, "early"),
        refused(1_001, member_id="other host"),
        refused(1_002, detail="F"),
        refused(3_000, "late"),
    ]
    found = refusals(rows, *lines)
    shown = [
        one["generation"] if "generation" in one else (
            one["causes"][0]["client_id"], one["timestamp"] - T0, one["until"] - T0, one["count"],
        )
        for one in found
    ]  # fmt: skip
    assert shown == [
        ("early", 999, 999, 1), 1, 2, 3,
        ("c", 1_000, 1_000, 1), ("c", 1_001, 2_999, 2), ("c", 1_002, 1_002, 1), 4,
        ("late", 3_000, 3_000, 1),
    ]  # fmt: skip
    assert found[5]["cause"] == "c was refused: E [request log], 2 times"
    assert found[4] == {
        "event": "refused", "timestamp": T0 + 1_000, "until": T0 + 1_000, "log_offset": None,
        "count": 1, "cause": "c as static i (h) was refused: E [request log]",
        "causes": [cause("refused", "first", client_id="c", client_host="/h",
                         group_instance_id="i", detail="E", source="request log")],
    }  # fmt: skip


def requested(api, version, request, response):
    """What a request log says of one request: what, and the fields of a client and its member."""
    one = logged(api, version, {"groupId": "g"} | request, response, ms=4_000, totalTimeMs=1_500.0,
                 client="cl")  # fmt: skip
    *lines, first, last = read_request_log([one])
    assert first == last == BrokerLogLine("g", SEEN, first.at_ms, REQUESTS)
    assert first.at_ms % 60_000 == 2_500  # when it came
    for line in lines:
        assert (line.group, line.at_ms, line.source) == ("g", first.at_ms, REQUESTS)
        assert (line.client_id, line.client_host) == ("cl", "/10.0.0.2")
    return [
        (line.what, line.generation, line.member_id, line.detail, line.instance_id)
        for line in lines
    ]


def join(request, **response):
    """JoinGroup of version 9: a request and its response."""
    request = {
        "memberId": "m",
        "groupInstanceId": "i",
        "protocolType": "consumer",
        "protocols": [{"name": "range"}, {"name": "sticky"}],
        "reason": "why",
    } | request
    return "JOIN_GROUP", 9, request, {"errorCode": 0, "memberId": "n", "generationId": 7} | response


def beat(epoch, code=0, api="CONSUMER", **fields):
    request = {"memberId": "m", "instanceId": "i", "memberEpoch": epoch} | fields
    return f"{api}_GROUP_HEARTBEAT", 0, request, {"errorCode": code}


@pytest.mark.parametrize(
    ("exchange", "expected"),
    [
        (join({}), [("joined", 7, "n", "why", "i")]),
        (join({"memberId": "", "groupInstanceId": None, "reason": None}),
         [("joined", 7, "n", None, None)]),
        (join({}, errorCode=82), [("refused", None, "m", "FENCED_INSTANCE_ID", "i")]),
        (join({"memberId": "", "groupInstanceId": None}, errorCode=81),
         [("refused", None, None, "GROUP_MAX_SIZE_REACHED", None)]),
        (join({}, errorCode=23),
         [("refused", None, "m",
           "INCONSISTENT_GROUP_PROTOCOL; it offers consumer: range, sticky", "i")]),
        (join({"protocols": []}, errorCode=23),
         [("refused", None, "m", "INCONSISTENT_GROUP_PROTOCOL", "i")]),
        *((join({}, errorCode=code), []) for code in (14, 15, 16, 25, 27, 79)),  # come again
        (("LEAVE_GROUP", 5, {"members": [
            {"memberId": "a", "groupInstanceId": None, "reason": "bye"},
            {"memberId": "", "groupInstanceId": "i", "reason": None},
         ]}, {"errorCode": 0, "members": []}),
         [("left", None, "a", "bye", None), ("left", None, None, None, "i")]),
        (("LEAVE_GROUP", 1, {"memberId": "a"}, {"errorCode": 0}),
         [("left", None, "a", None, None)]),
        (("LEAVE_GROUP", 1, {"memberId": "a"}, {"errorCode": 25}), []),
        *((beat(-1, api=api), [("left", None, "m", None, None)]) for api in
          ("CONSUMER", "SHARE", "STREAMS")),
        (beat(-1, 25), []),
        (beat(-2), []),  # a static member that comes back
        (beat(0), []),
        (beat(1, 110), []),
        (beat(0, 111), [("refused", None, "m", "UNRELEASED_INSTANCE_ID", "i")]),
        (beat(0, 111, instanceId=None, memberId=""),
         [("refused", None, None, "UNRELEASED_INSTANCE_ID", None)]),
        (("JOIN_GROUP", 9, join({})[2], {}), []),  # the broker closed the connection
    ],
)  # fmt: skip
def test_a_request_tells_who_joined_left_or_was_refused_with_all_fields(exchange, expected):
    assert requested(*exchange) == expected
