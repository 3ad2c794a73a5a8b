"""What scripted members ask of their coordinator: each field of each request, and when.

A classic member acts as ConsumerCoordinator, a consumer member as ConsumerHeartbeatRequestManager.
"""

from dataclasses import replace

import pytest

from coterie import ArgumentError, CoterieError, Error, Response
from coterie.testing import Member, read_assignment, read_subscription
from support.consumers import Recorder

INT32 = 2**31 - 1


@pytest.fixture
def recorded():
    made = Recorder({"coterie.behaviour": "4.1"})
    made.set_topics({"t": 2, "u": 1})
    return made


def poll(member, *, until_ms, step_ms=100):
    coordinator = member.coordinator
    while True:
        member.poll()
        if coordinator.now_ms >= until_ms:
            return
        coordinator.advance_by(step_ms)


def test_a_classic_member_joins_with_a_consumers_defaults(recorded):
    one = Member(recorded, "g", client_id="a", topics={"t": 2})
    poll(one, until_ms=3000)
    (first, _), (second, fields) = recorded.of("join_group")
    assert (first, second) == (("g", ""), ("g", one.member_id))  # it gets an id before it joins
    protocols = fields.pop("protocols")
    assert fields == {
        "protocol_type": "consumer",
        "session_timeout_ms": 45_000,
        "rebalance_timeout_ms": 300_000,
        "group_instance_id": None,
        "client_id": "a",
        "require_known_member_id": True,
        "supports_skipping_assignment": True,
    }
    assert {name: read_subscription(data).topics for name, data in protocols.items()} == {
        "range": ("t",)
    }
    ((args, fields),) = recorded.of("sync_group")
    plans = fields.pop("assignments")
    assert args == ("g", 1, one.member_id)
    assert fields == {
        "group_instance_id": None, "protocol_type": "consumer", "protocol_name": "range",
    }  # fmt: skip
    assert {m: read_assignment(data) for m, data in plans.items()} == {one.member_id: {"t": [0, 1]}}


def test_a_classic_member_joins_with_the_options_that_it_has(recorded):
    one = Member(recorded, "g", client_id="a", topics=["t", "u"], assignor=["sticky", "roundrobin"],
                 group_instance_id="i", session_timeout_ms=7000, rebalance_timeout_ms=11_000,
                 heartbeat_interval_ms=2000)  # fmt: skip
    poll(one, until_ms=3000)
    ((args, fields),) = recorded.of("join_group")
    assert args == ("g", "")  # a static member needs no id before
    assert list(fields["protocols"]) == ["sticky", "roundrobin"]
    chosen = {name: fields[name] for name in fields.keys() - {"protocols"}}
    assert chosen == {
        "protocol_type": "consumer",
        "session_timeout_ms": 7000,
        "rebalance_timeout_ms": 11_000,
        "group_instance_id": "i",
        "client_id": "a",
        "require_known_member_id": True,
        "supports_skipping_assignment": True,
    }
    assert one.assignment == {"t": [0], "u": [0]}  # a topic in a plain list has one partition
    assert recorded.of("sync_group")[0][1]["protocol_name"] == "sticky"
    one.commit({("t", 0): 5})
    assert recorded.of("offset_commit") == [(("g", {("t", 0): 5}), {
        "generation_id": 1, "member_id": one.member_id, "group_instance_id": "i",
    })]  # fmt: skip
    poll(one, until_ms=9500)
    assert recorded.times("heartbeat") == [5000, 7000, 9000]
    assert recorded.of("heartbeat")[0] == (("g", 1, one.member_id), {"group_instance_id": "i"})
    member_id = one.member_id
    one.leave()
    assert recorded.of("leave_group") == [(("g", [(member_id, "i")]), {})]


def test_a_classic_member_heartbeats_three_seconds_after_its_sync_and_after_each_heartbeat(
    recorded,
):
    one = Member(recorded, "g", client_id="a", topics=["t"])
    poll(one, until_ms=12_000)
    assert recorded.times("heartbeat") == [6000, 9000, 12_000]


def test_a_static_leader_that_comes_back_assigns_nothing(recorded):
    # KIP-814: it skips the assignment, and the others keep theirs
    options = {"client_id": "a", "topics": {"t": 2}, "group_instance_id": "i"}
    one = Member(recorded, "g", **options)
    poll(one, until_ms=4000)
    one.crash()
    back = Member(recorded, "g", **options)
    poll(back, until_ms=5000)
    answers = [
        e.response for e in recorded.events if isinstance(e, Response) and e.op == "join_group"
    ]
    assert [answer.skip_assignment for answer in answers] == [False, True]
    assert [bool(fields["assignments"]) for _, fields in recorded.of("sync_group")] == [True, False]
    assert back.assignment == {"t": [0, 1]}


def test_a_leader_gives_a_topic_that_it_does_not_know_one_partition(recorded):
    one = Member(recorded, "g", client_id="a", topics={"t": 2})
    two = Member(recorded, "g", client_id="b", topics={"u": 7})
    while recorded.now_ms < 10_000:
        one.poll()
        two.poll()
        recorded.advance_by(500)
    assert (one.assignment, two.assignment) == ({"t": [0, 1]}, {"u": [0]})


def test_a_consumer_member_says_all_at_first_and_then_what_changed(recorded):
    one = Member(recorded, "g", client_id="a", topics=["u", "t"], protocol="consumer",
                 group_instance_id="i", rebalance_timeout_ms=11_000, server_assignor="range",
                 rack_id="r")  # fmt: skip
    poll(one, until_ms=5000)
    joined, acknowledged, later = recorded.of("consumer_group_heartbeat")
    who = {"instance_id": "i", "client_id": "a"}
    assert joined == (("g", "a:1", 0), who | {
        "rebalance_timeout_ms": 11_000, "subscribed_topic_names": ["t", "u"],
        "server_assignor": "range", "rack_id": "r", "topic_partitions": [],
    })  # fmt: skip
    owned = acknowledged[1].pop("topic_partitions")
    assert sorted(topic["partitions"] for topic in owned) == [(0,), (0, 1)]
    assert acknowledged == later == (("g", "a:1", 1), who)
    assert recorded.times("consumer_group_heartbeat") == [0, 0, 5000]
    one.commit({("t", 0): 5})
    assert recorded.of("offset_commit") == [(("g", {("t", 0): 5}), {
        "generation_id": 1, "member_id": "a:1", "group_instance_id": "i",
    })]  # fmt: skip


@pytest.mark.parametrize(
    ("error", "again_ms"),
    [("UNKNOWN_MEMBER_ID", 0), ("FENCED_MEMBER_EPOCH", 0), ("NOT_COORDINATOR", 100),
     ("COORDINATOR_NOT_AVAILABLE", 100), ("COORDINATOR_LOAD_IN_PROGRESS", 100)],
)  # fmt: skip
def test_a_consumer_member_comes_again_at_once_or_after_the_backoff(recorded, error, again_ms):
    # retry.backoff.ms; a fenced one joins at once
    one = Member(recorded, "g", client_id="a", topics=["t"], protocol="consumer")
    poll(one, until_ms=5000)
    response = one.send()
    one.receive(replace(response, error=Error[error]))
    assert one.events[-1] == (5000, "heartbeat refused", error)
    assert one.next_heartbeat_ms == 5000 + again_ms
    count = len(recorded.seen)
    if again_ms:
        recorded.advance_by(again_ms - 1)
        one.poll()
        assert len(recorded.seen) == count
        recorded.advance_by(1)
    one.poll()
    args, fields = recorded.of("consumer_group_heartbeat")[-1 if again_ms else -2]
    assert args == ("g", "a:1", 1 if again_ms else 0)
    assert fields["subscribed_topic_names"] == ["t"]


def test_a_broken_connection_is_tried_again_after_the_backoff(recorded):
    one = Member(recorded, "g", client_id="a", topics=["t"], protocol="consumer")
    poll(one, until_ms=5000)
    one.send()
    one.receive(None)
    assert one.next_heartbeat_ms == 5100
    with pytest.raises(ArgumentError, match="response must be that to a heartbeat"):
        one.receive("response")


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_positions_are_committed_at_each_interval_from_the_start(protocol):
    start_ms = 70_500
    recorded = Recorder({"coterie.behaviour": "4.1"}, start_ms)
    recorded.set_topics({"t": 2})
    one = Member(recorded, "g", client_id="a", topics=["t"], protocol=protocol,
                 auto_commit_interval_ms=4000)  # fmt: skip
    poll(one, until_ms=start_ms + 3500)
    one.positions[("t", 0)] = 5
    poll(one, until_ms=start_ms + 13_000)
    assert recorded.times("offset_commit") == [start_ms + ms for ms in (4000, 8000, 12_000)]
    assert recorded.of("offset_commit")[0][0] == ("g", {("t", 0): 5})


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [("session_timeout_ms", 3001, INT32), ("rebalance_timeout_ms", 1, INT32),
     ("heartbeat_interval_ms", 1, 44_999), ("auto_commit_interval_ms", 0, INT32)],
)  # fmt: skip
def test_times_of_a_member_have_a_consumers_bounds(recorded, name, least, most):
    for value in (least, most):
        made = Member(recorded, "g", client_id="a", topics=["t"], **{name: value})
        assert getattr(made, name) == value
    for value in (least - 1, most + 1, "5", 1.5):
        with pytest.raises(ArgumentError, match=name):
            Member(recorded, "g", client_id="a", topics=["t"], **{name: value})


@pytest.mark.parametrize(("count", "taken"), [(-1, False), (0, True), (10**6, True),
                                              (10**6 + 1, False), (1.5, False)])  # fmt: skip
def test_a_topic_has_up_to_a_million_partitions(recorded, count, taken):
    if taken:
        assert Member(recorded, "g", client_id="a", topics={"t": count}).partitions == {"t": count}
    else:
        with pytest.raises(ArgumentError):
            Member(recorded, "g", client_id="a", topics={"t": count})


@pytest.mark.parametrize(
    ("options", "named"),
    [({"assignor": "fair"}, "assignor 'fair' is not known: range, roundrobin, sticky"),
     ({"assignor": "cooperative-sticky"}, "is not known"), ({"assignor": [5]}, "assignor 5"),
     ({"on_rebalance": 5}, "on_rebalance"), ({"topics": {5: 1}}, "a topic"),
     ({"client_id": 5}, "client_id"), ({"group_instance_id": 5}, "group_instance_id")],
)  # fmt: skip
def test_other_options_are_refused_by_their_names(recorded, options, named):
    with pytest.raises(ArgumentError, match=named):
        Member(recorded, "g", **{"client_id": "a"} | options)


def test_a_sync_needs_the_answer_to_a_join(recorded):
    one = Member(recorded, "g", client_id="a", topics=["t"])
    with pytest.raises(CoterieError, match="has no answer to its join"):
        one.sync()
    one.join()
    with pytest.raises(CoterieError, match="has no answer to its join"):
        one.sync()
    recorded.advance_by(3000)
    one.poll()
    assert one.stable
    assert one.sync_answer().error is Error.NONE
    with pytest.raises(CoterieError, match="has no answer to its join"):
        one.sync()


@pytest.mark.parametrize(
    ("error", "calls", "keeps_id", "stays"),
    [("UNKNOWN_MEMBER_ID", ["lost", "assigned"], False, True),
     ("ILLEGAL_GENERATION", ["lost", "assigned"], True, True),
     ("REBALANCE_IN_PROGRESS", ["revoked", "assigned"], True, True),
     ("FENCED_INSTANCE_ID", ["lost"], True, False)],
)  # fmt: skip
def test_an_error_of_a_heartbeat_costs_a_classic_member_what_it_costs_a_consumer(
    recorded, monkeypatch, error, calls, keeps_id, stays
):
    one = Member(recorded, "g", client_id="a", topics={"t": 2})
    poll(one, until_ms=5900)
    member_id, count = one.member_id, len(one.events)
    assert one.generation_id == 1
    answer = recorded.heartbeat("g", 1, member_id)
    with monkeypatch.context() as patched:
        refusal = replace(answer, error=Error[error])
        patched.setattr(recorded, "heartbeat", lambda *args, **fields: refusal)
        recorded.advance_by(100)
        one.poll()
    assert one.events[count][1:] == ("heartbeat refused", error)
    if error == "UNKNOWN_MEMBER_ID":  # its join waits for the former member's session
        assert one.generation_id == -1
    joins = [args[1] for args, _ in recorded.of("join_group")[2:]]
    if stays:
        assert joins[0] == (member_id if keeps_id else "")
        poll(one, until_ms=recorded.now_ms + 60_000)
    seen = [what for _, what, _ in one.events[count:]]
    assert [what for what in seen if what in ("lost", "revoked", "assigned")] == calls
    assert one.crashed != stays
