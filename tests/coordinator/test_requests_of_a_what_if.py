"""The requests that the clients of a what-if send: whose, when, and with which fields."""

from typing import NamedTuple

import pytest

from coterie import load_trace
from coterie.base.operations import NUMBER
from coterie.coordinator.whatif import Changes, _Replay, _was_accepted, what_if
from coterie.values import Error, OffsetCommitResponse, PartitionError
from support.trace_data import header, join

NAMES = {number: op for op, number in NUMBER.items()}
MADE = "AAAAAAAAQACAAAAAAAAAAQ"  # the first id that a consumer group makes


class Sent(NamedTuple):
    at: int
    op: str
    generation: int
    member: str
    instance: str | None
    details: tuple


def sent(*events, config=None, behaviour="3.9", version=1, **changes):
    """Return what the clients send, with an initial delay of 1 s and a session of 10 s."""
    settings = {"group_initial_rebalance_delay_ms": 1000, "coterie_behaviour": behaviour}
    head = header(**settings) | {"version": version}
    replay = _Replay(load_trace([head, *events]), Changes(config=config or {}, **changes))
    requests = []
    ask = replay.ask

    def noted(op, request_id, group_id, *fields):
        requests.append(Sent(replay.core.now_ms, NAMES[op], *fields))
        ask(op, request_id, group_id, *fields)

    replay.ask = noted
    replay.run()
    return requests


def of(requests, *ops):
    return [(one.at, one.op) for one in requests if one.op in ops]


def of_member(at, op, number, member_of=1, generation=1, **fields):
    """A request of the member that joined with this request."""
    head = {"at": at, "op": op, "id": number, "group_id": "g", "generation_id": generation}
    return head | {"member_id_of": member_of} | fields


def sync(at, number, member_of=1, plans=(1,), **fields):
    """The leader's gives each member of ``plans`` the three bytes 0, 1 and 2."""
    rows = [{"member_id_of": member, "assignment": "AAEC"} for member in plans]
    return of_member(at, "sync_group", number, member_of, assignments=rows, **fields)


def beat(at, number, member_of=1, **fields):
    return of_member(at, "heartbeat", number, member_of, **fields)


def commit(at, number, member_of=1, **fields):
    offsets = [{"topic": "t", "partition": 0, "offset": 5}]
    return of_member(at, "offset_commit", number, member_of, offsets=offsets, **fields)


def rejoin(at, number, member_of=1, **fields):
    """A join of a member that has an id."""
    head = join(at, number, **fields)
    return {key: value for key, value in head.items() if key != "member_id"} | {
        "member_id_of": member_of
    }


@pytest.mark.parametrize(
    ("own", "static", "instance"),
    [(None, (), None), (None, "c", "c"), ("i", (), "i"), ("i", "c", "i"), (None, "d", None)],
)
def test_a_client_that_becomes_static_names_its_client_id_unless_it_has_an_instance_id(
    own, static, instance
):
    its = {"group_instance_id": own} if own else {}
    leave = {"at": 5000, "op": "leave_group", "id": 9, "group_id": "g",
             "members": [{"member_id_of": 1} | its]}  # fmt: skip
    requests = sent(
        join(0, 1, **its),
        sync(1500, 2, **its),
        beat(3000, 3, **its),
        commit(4000, 4, **its),
        leave,
        static=frozenset(static),
    )
    assert [(one.op, one.instance) for one in requests[:-1]] == [
        (op, instance) for op in ("join_group", "sync_group", "heartbeat", "offset_commit")
    ]
    member = f"{instance or 'c'}-00000001"
    assert requests[-1].details == ((member, own),)


@pytest.mark.parametrize(("own", "static", "instance"), [(None, "c", "c"), ("i", "c", "i")])
def test_a_client_of_a_consumer_group_becomes_static_alike(own, static, instance):
    """Its epoch as it leaves is -2 then; one that was static has its own."""
    fields = {"op": "consumer_group_heartbeat", "group_id": "g", "member_id": "m",
              "client_id": "c", "instance_id": own}  # fmt: skip
    joining = {"subscribed_topic_names": ["t"], "rebalance_timeout_ms": 9, "topic_partitions": []}
    requests = sent(
        {"at": 0, "id": 1, "member_epoch": 0} | fields | joining,
        {"at": 9, "id": 2, "member_epoch": 1} | fields,
        {"at": 10, "op": "offset_commit", "id": 3, "group_id": "g", "generation_id": 1,
         "member_id": "m", "offsets": []},
        {"at": 11, "id": 4, "member_epoch": -1} | fields,
        behaviour="4.1", version=2, static=frozenset(static),
    )  # fmt: skip
    assert [one.instance for one in requests] == [instance] * 4
    assert requests[-1].generation == (-1 if own else -2)


def test_a_client_that_became_static_sends_each_join_but_the_one_that_brought_the_id_back():
    known = {"require_known_member_id": True}
    trace = join(0, 1, **known), rejoin(1, 2, **known), sync(1500, 3), rejoin(5000, 4, **known)
    requests = sent(*trace, static=frozenset("c"))
    assert of(requests, "join_group") == [(0, "join_group"), (5000, "join_group")]


SHORT = {"scale_session": {"c": 0.6}}  # 6 s: a heartbeat at 9000 comes after an eviction


def test_a_request_has_the_generation_of_its_client_unless_it_was_wrong_in_the_trace():
    """Evicted at 7500, its client is in generation 3 from 10,000 on: the group was Empty in 2."""
    trace = [
        join(0, 1), sync(1500, 2), beat(9000, 3),
        beat(10_500, 4),
        beat(10_600, 5, generation=7),  # refused
        commit(10_650, 6, generation=7),
        rejoin(10_700, 7, session_timeout_ms=1),  # refused, which changes no generation
        join(10_750, 8, client_id="d"),
        beat(10_800, 9),  # its answer is that a rebalance is under way
        commit(10_850, 10),
    ]  # fmt: skip
    requests = [one for one in sent(*trace, **SHORT) if one.at > 10_000]
    assert [(one.at, one.generation) for one in requests if one.op != "join_group"] == [
        (10_500, 3), (10_600, 7), (10_650, 7), (10_800, 3), (10_850, 3),
    ]  # fmt: skip


def test_a_client_that_joined_by_itself_syncs_as_the_trace_has_it_after_a_join_of_the_trace():
    """The assignments are those of the trace, for the ids of the changed run."""
    trace = join(0, 1), sync(1500, 2), beat(9000, 3), rejoin(15_000, 4, reason="x")
    requests = sent(*trace, sync(17_000, 5), beat(18_000, 6), scale_session={"c": 0.6})
    assert of(requests, "join_group", "sync_group") == [
        (0, "join_group"), (1500, "sync_group"),
        (9000, "join_group"), (10_000, "sync_group"),
        (15_000, "join_group"), (17_000, "sync_group"),
    ]  # fmt: skip
    plans = [one.details[2] for one in requests if one.op == "sync_group"]
    first, again = "c-00000001", "c-00000002"
    assert plans == [{first: b"\0\1\2"}, {again: b""}, {again: b"\0\1\2"}]


def test_a_leader_that_syncs_by_itself_gives_each_member_what_it_had():
    """It hears at 9000 that ``d`` is gone, and joins and syncs at once; a group ``h`` is alike."""
    other = [
        join(0, 11, "h", client_id="x"),
        sync(2600, 12, 11, plans=(11,)) | {"group_id": "h"},
    ]
    trace = [
        join(0, 1), join(0, 2, client_id="d"), *other[:1],
        sync(2500, 3, plans=(1, 2)), sync(2500, 4, 2, plans=()), *other[1:], beat(9000, 5),
    ]  # fmt: skip
    requests = sent(*trace, scale_session={"d": 0.6})
    assert of(requests, "join_group")[3:] == [(9000, "join_group")]
    assert requests[-1].details == (None, None, {"c-00000001": b"\0\1\2"})


def test_a_client_whose_sync_says_that_it_is_unknown_joins_and_syncs_at_once():
    """Its session counts from the answer to its join, at 1000."""
    requests = sent(join(0, 1), sync(7500, 2), beat(9000, 3), **SHORT)
    assert of(requests, "join_group", "sync_group") == [
        (0, "join_group"), (7500, "sync_group"), (7500, "join_group"), (8500, "sync_group"),
    ]  # fmt: skip


def test_a_client_whose_own_sync_meets_a_rebalance_joins_again():
    """``c`` is evicted; ``d`` hears of it and syncs, waits for the leader ``e``, and that leaves.

    The leader is the first that joined.
    """
    leave = {"at": 9100, "op": "leave_group", "id": 30, "group_id": "g",
             "members": [{"member_id_of": 3}]}  # fmt: skip
    trace = [
        *(join(0, number, client_id=name) for number, name in ((3, "e"), (2, "d"), (1, "c"))),
        *(sync(2500, 10 + number, number, plans=()) for number in (3, 2, 1)),
        *(beat(5000, 20 + number, number) for number in (3, 2)),
        beat(8700, 25, 2),
        rejoin(9000, 26, 3, client_id="e"),
        leave,
        {"at": 9200, "op": "advance"},
    ]
    requests = [one for one in sent(*trace, **SHORT) if one.at > 8600]
    own = [(one.at, one.op) for one in requests if (one.member or "").startswith("d-")]
    assert own == [
        (8700, "heartbeat"), (8700, "join_group"), (9000, "sync_group"),
        (9100, "join_group"), (9100, "sync_group"),
    ]  # fmt: skip


def test_a_member_that_a_consumer_group_gave_its_id_has_its_epoch_of_the_changed_run():
    """``a`` is evicted at 10 s, and is back at 20 s, so the epoch of ``b`` is 4 and not 2."""
    beat = {"op": "consumer_group_heartbeat", "group_id": "g"}
    new = {"member_epoch": 0, "subscribed_topic_names": ["t"], "rebalance_timeout_ms": 9000,
           "topic_partitions": []}  # fmt: skip
    trace = [
        {"at": 0, "id": 1, "member_id": "a"} | beat | new,
        {"at": 20_000, "id": 2, "member_id": "a", "member_epoch": 1} | beat,
        {"at": 21_000, "id": 3, "member_id": "", "version": 0} | beat | new,
        {"at": 22_000, "id": 4, "member_id": MADE, "member_epoch": 2} | beat,
    ]
    settings = {"group.consumer.session.timeout.ms": 10_000}
    requests = sent(*trace, behaviour="4.1", version=2, config=settings)
    assert (requests[-1].member, requests[-1].generation) == (MADE, 4)


@pytest.mark.parametrize(
    ("error", "accepted"),
    [("NONE", True), ("OFFSET_METADATA_TOO_LARGE", True), ("ILLEGAL_GENERATION", False),
     ("STALE_MEMBER_EPOCH", False), ("UNKNOWN_MEMBER_ID", False), ("GROUP_ID_NOT_FOUND", False)],
)  # fmt: skip
def test_a_commit_was_that_of_a_member_unless_it_was_refused_for_who_sent_it(error, accepted):
    rows = tuple(PartitionError("t", n, Error[name]) for n, name in enumerate(("NONE", error)))
    assert _was_accepted(OffsetCommitResponse(Error.NONE, rows)) is accepted


def test_what_is_due_as_the_last_request_comes_happens():
    """A timer without a delay fires after the event that armed it."""
    trace = load_trace([header(group_initial_rebalance_delay_ms=0), join(5, 1)])
    recorded, changed = what_if(trace, Changes())
    assert recorded == changed
    assert changed.generations == 1
