"""Requests that no client sends and the wire can carry: Kafka judges them, and so does coterie.

Each expectation was read off Kafka 3.9.1's GroupCoordinator, run on the same events; the docstrings
name the rule of its source.
"""

import pytest

from coterie import GroupCoordinator, OffsetAndMetadata, run_trace
from support.trace_data import header, join

METADATA = "AAAAAAABAAF0/////w=="  # version 0, the topic t
AT_ONCE = {"group_initial_rebalance_delay_ms": 0}


def named(*names):
    return [{"name": name, "metadata": METADATA} for name in names]


def sync(at, request_id, generation, member_id, **fields):
    head = {"at": at, "op": "sync_group", "id": request_id, "group_id": "g"}
    return head | {"generation_id": generation, "member_id": member_id} | fields


def heartbeat(at, request_id, generation, member_id):
    return sync(at, request_id, generation, member_id) | {"op": "heartbeat"}


def leave(at, request_id, *member_ids):
    members = [{"member_id": member_id} for member_id in member_ids]
    return {"at": at, "op": "leave_group", "id": request_id, "group_id": "g", "members": members}


def describe(at, request_id):
    return {"at": at, "op": "describe_group", "id": request_id, "group_id": "g"}


def played(*events, **config):
    """What was done: ``(at, id, error)`` of answers, ``(at, state, generation)`` of transitions."""
    return [
        (line["at"], line["id"], line["error"])
        if line["event"] == "response"
        else (line["at"], line["to"], line["generation_id"])
        for line in run_trace([header(**config), *events])
        if line["event"] != "append"
    ]


def advance(at):
    return {"at": at, "op": "advance"}


# ---- timeouts


@pytest.mark.parametrize("timeout_ms", [0, -1, -5, -(2**31)])
def test_a_rebalance_timeout_of_no_time_ends_the_sync_at_once(timeout_ms):
    """DelayedSync expires in the millisecond of the generation, before any member has synced."""
    assert played(
        join(0, 1, rebalance_timeout_ms=timeout_ms),
        sync(3000, 2, 1, "c-00000001"),
        advance(20_000),
    ) == [
        (0, "PreparingRebalance", 0),
        (3000, "CompletingRebalance", 1),
        (3000, 1, "NONE"),
        (3000, "PreparingRebalance", 1),
        (3000, "Empty", 2),
        (3000, 2, "UNKNOWN_MEMBER_ID"),
    ]


def test_the_largest_rebalance_timeout_counts_and_none_is_below_0():
    """GroupMetadata.rebalanceTimeoutMs folds from 0."""
    done = played(
        join(0, 1, rebalance_timeout_ms=-9),
        join(0, 2, client_id="d", rebalance_timeout_ms=5000),
        advance(20_000),
    )
    # The first member's, of no time, bounds the initial delay; the largest the sync.
    assert done[1:] == [
        (3000, "CompletingRebalance", 1),
        (3000, 1, "NONE"),
        (3000, 2, "NONE"),
        (8000, "PreparingRebalance", 1),
        (8000, "Empty", 2),
    ]


@pytest.mark.parametrize("timeout_ms", [0, -7])
def test_absent_static_members_without_a_timeout_are_awaited_from_one_millisecond_to_the_next(
    timeout_ms,
):
    """Kafka's DelayedJoin arms itself again within the millisecond, for ever (onCompleteJoin)."""
    done = played(
        join(0, 1, client_id="d"),
        join(0, 2, client_id="s", group_instance_id="s", rebalance_timeout_ms=timeout_ms),
        advance(6000),
        sync(6000, 3, 1, "d-00000001"),
        sync(6000, 4, 1, "s-00000002"),
        leave(6000, 5, "d-00000001"),
        join(6009, 6, client_id="d"),
        describe(6010, 7),
        advance(20_000),
    )
    # The first to join is there when the next millisecond's wait ends, and leads.
    assert done[7:] == [
        (6000, "PreparingRebalance", 1),
        (6000, 5, "NONE"),
        (6010, "CompletingRebalance", 2),
        (6010, 6, "NONE"),
        (6010, 7, "NONE"),
        (16_010, "PreparingRebalance", 2),
        (16_010, "Empty", 3),
    ]


@pytest.mark.parametrize("timeout_ms", [0, -3])
def test_a_session_without_time_ends_with_the_request_that_began_it(timeout_ms):
    """A timer that is due already runs at once (SystemTimer.addTimerTaskEntry)."""
    config = AT_ONCE | {"group_min_session_timeout_ms": -10}
    assert played(
        join(0, 1, session_timeout_ms=timeout_ms),
        sync(0, 2, 1, "c-00000001"),
        join(2, 3, session_timeout_ms=timeout_ms, require_known_member_id=True),
        join(3, 4, member_id="c-00000002", session_timeout_ms=6000),
        **config,
    )[1:] == [
        (0, "CompletingRebalance", 1),
        (0, 1, "NONE"),
        (0, "PreparingRebalance", 1),
        (0, "Empty", 2),
        (0, 2, "UNKNOWN_MEMBER_ID"),
        (2, 3, "MEMBER_ID_REQUIRED"),
        (3, 4, "UNKNOWN_MEMBER_ID"),
    ]


def test_timers_that_are_due_at_once_fire_in_the_order_in_which_they_were_armed():
    done = played(
        join(0, 1, client_id="a", session_timeout_ms=-1),
        join(0, 2, client_id="b", session_timeout_ms=-9),
        advance(7000),
        **{"group_min_session_timeout_ms": -10},
    )
    gone = [line for line in done if line[0] == 6000]
    assert gone[1:] == [
        (6000, 1, "NONE"),
        (6000, 2, "NONE"),
        (6000, "PreparingRebalance", 1),
        (6000, "Empty", 2),
    ]
    coordinator = GroupCoordinator({"group.min.session.timeout.ms": -10})
    for client, session_ms in (("a", -1), ("b", -9)):
        coordinator.handle(join(0, 0, client_id=client, session_timeout_ms=session_ms))
    coordinator.advance(6000)
    moved = [e for e in coordinator.events if getattr(e, "to", "") == "PreparingRebalance"]
    assert moved[-1].member_id == "a-00000001"


def test_the_longest_period_of_the_clean_up_never_comes_round():
    config = {"coterie.cleanup": "periodic", "offsets.retention.check.interval.ms": 2**63 - 1}
    coordinator = GroupCoordinator(config, now_ms=2**60 - 1)
    coordinator.advance(2**60)
    assert coordinator.next_deadline_ms() > 2**60


# ---- a protocol named twice: it counts twice (GroupMetadata.add, supportedProtocols)


def test_a_first_member_that_names_its_protocol_twice_leaves_the_group_stuck():
    """MemberMetadata.vote throws in the timer's thread: 2 entries are not those of 1 member."""
    assert played(
        join(0, 1, protocols=named("x", "x")),
        advance(4000),
        describe(4000, 2),
        join(5000, 3, client_id="d", protocols=named("x")),
        join(5000, 4, client_id="e", protocols=named("y")),
        heartbeat(5000, 5, 1, "c-00000001"),
        advance(300_001),
    ) == [
        (0, "PreparingRebalance", 0),
        (4000, 2, "NONE"),
        (5000, 3, "INCONSISTENT_GROUP_PROTOCOL"),
        (5000, 4, "INCONSISTENT_GROUP_PROTOCOL"),
        (5000, 5, "REBALANCE_IN_PROGRESS"),
        (15_000, 1, "UNKNOWN_MEMBER_ID"),  # its session since the heartbeat
    ]


def test_of_a_protocol_named_twice_and_one_named_once_the_common_one_is_selected():
    events = [
        join(0, 1, protocols=named("x", "x", "z")),
        join(0, 2, client_id="d", protocols=named("x", "z")),
        join(1, 3, client_id="e", protocols=named("x")),
        advance(7000),
    ]
    lines = list(run_trace([header(), *events]))
    answers = {line["id"]: line for line in lines if line["event"] == "response"}
    assert answers[3]["error"] == "INCONSISTENT_GROUP_PROTOCOL"
    assert {answers[n]["protocol_name"] for n in (1, 2)} == {"z"}


def test_the_first_of_two_entries_of_a_protocol_has_its_metadata():
    """MemberMetadata.metadata takes the first that it finds."""
    first, second = ({"name": "x", "metadata": data} for data in (METADATA, ""))
    events = [
        join(0, 1, protocols=[first, second, *named("z")]),
        join(0, 2, client_id="d", protocols=named("z")),
        join(0, 3, client_id="e", protocols=named("z")),
        advance(9000),
    ]
    lines = list(run_trace([header(), *events]))
    (answer,) = (line for line in lines if line.get("id") == 1)
    assert (answer["protocol_name"], answer["members"][0]["metadata"]) == ("z", METADATA)


def test_a_lone_member_that_rejoins_so_is_answered_by_the_request_layer_and_stuck():
    """The vote throws, and KafkaApis answers: docs/rules/coordinator.md#request-layer."""
    events = [
        join(0, 1, protocols=named("x")),
        sync(0, 2, 1, "c-00000001"),
        join(1, 3, member_id="c-00000001", protocols=named("x", "x")),
        join(3, 4, member_id="c-00000001", protocols=named("x")),
        heartbeat(4, 5, 2, "c-00000001"),
        heartbeat(4, 6, 1, "c-00000001"),
        advance(400_000),
    ]
    assert played(*events, **AT_ONCE)[5:] == [
        (1, "PreparingRebalance", 1),
        (1, 3, "UNKNOWN_SERVER_ERROR"),
        (3, 4, "INCONSISTENT_GROUP_PROTOCOL"),
        (4, 5, "REBALANCE_IN_PROGRESS"),
        (4, 6, "ILLEGAL_GENERATION"),
    ]
    lines = run_trace([header(**AT_ONCE), *events])
    (answer,) = (line for line in lines if line.get("id") == 3)
    assert (answer["member_id"], answer["generation_id"], answer["members"]) == ("", -1, [])


def two_members(*, at=6000):
    return [
        join(0, 1, protocols=named("x")),
        join(0, 2, client_id="d", protocols=named("x")),
        advance(at),
        sync(at, 3, 1, "c-00000001"),
        sync(at, 4, 1, "d-00000002"),
        join(at + 1, 5, member_id="c-00000001", protocols=named("x", "x")),
    ]


def test_whoever_leaves_a_group_that_then_cannot_go_on_is_answered_by_the_request_layer():
    """removeMemberAndUpdateGroup completes the join, in which the vote throws."""
    assert played(
        *two_members(),
        leave(6002, 6, "d-00000002", "nobody"),
        leave(6005, 7, "c-00000001"),
        describe(6005, 8),
        advance(80_000),
    )[7:] == [
        (6001, "PreparingRebalance", 1),
        (6002, 6, "UNKNOWN_SERVER_ERROR"),
        (6005, 5, "UNKNOWN_MEMBER_ID"),
        (6005, 7, "NONE"),
        (6005, 8, "NONE"),
    ]


def test_what_a_batch_of_leaves_did_before_it_failed_stays_done():
    coordinator = GroupCoordinator()
    for event in two_members()[:6]:
        coordinator.advance(event["at"])
        coordinator.handle(event)
    answer = coordinator.leave_group("g", ["d-00000002", "c-00000001"])
    assert (answer.error.name, answer.members) == ("UNKNOWN_SERVER_ERROR", ())
    view = coordinator.snapshot("g")
    assert [member.member_id for member in view.members] == ["c-00000001"]
    assert (view.state, view.generation_id) == ("PreparingRebalance", 2)
    assert [timer.kind for timer in view.timers] == ["session"]


@pytest.mark.parametrize("protocol_type", ["consumer", "connect"])
def test_a_member_without_the_protocol_that_another_named_twice_stops_the_generation(protocol_type):
    """x counts 2 for 2 members and wins a tie, though d has none: MemberMetadata.metadata throws.

    Of consumers where the topics are read (computeSubscribedTopics), before the transition; of
    others at the leader's answer (currentMemberMetadata), after it.
    """
    consumer = protocol_type == "consumer"
    done = played(
        join(0, 1, protocol_type=protocol_type, protocols=named("x", "x", "y")),
        join(0, 2, client_id="d", protocol_type=protocol_type, protocols=named("y")),
        advance(6000),
        heartbeat(6000, 3, 1, "d-00000002"),
    )
    assert done == [
        (0, "PreparingRebalance", 0),
        *([] if consumer else [(6000, "CompletingRebalance", 1)]),
        (6000, 3, "REBALANCE_IN_PROGRESS" if consumer else "NONE"),
    ]


def test_a_static_member_that_comes_back_without_a_candidate_is_renamed_and_refused():
    """updateStaticMemberAndRebalance: selectProtocol throws in Stable, the id is new by then."""
    events = [
        join(0, 1, protocols=named("x", "y", "y")),
        join(0, 2, client_id="s", group_instance_id="s", protocols=named("x")),
        advance(6000),
        sync(6000, 3, 1, "c-00000001"),
        sync(6000, 4, 1, "s-00000002"),
        join(6001, 5, client_id="s", group_instance_id="s", protocols=named("y")),
        describe(6001, 6),
        heartbeat(6002, 7, 1, "s-00000003"),
        heartbeat(6002, 8, 1, "s-00000002"),
    ]
    assert played(*events)[7:] == [
        (6001, 5, "UNKNOWN_SERVER_ERROR"),
        (6001, 6, "UNKNOWN_SERVER_ERROR"),  # handleDescribeGroup asks it for the metadata of x
        (6002, 7, "NONE"),
        (6002, 8, "UNKNOWN_MEMBER_ID"),
    ]


# ---- transactions without a producer


def txn(producer_id, epoch, **fields):
    entry = {"topic": "t", "partition": 0, "offset": 5} | fields
    head = {"at": 0, "op": "txn_offset_commit", "id": 1, "group_id": "g", "offsets": [entry]}
    return head | {"producer_id": producer_id, "producer_epoch": epoch}


def after(event):
    """The one partition's error, and the offsets that a reader sees then."""
    coordinator = GroupCoordinator()
    (answer,) = coordinator.handle(event).response.partitions
    return answer.error.name, [one.offset for one in coordinator.offset_fetch("g").partitions]


def test_without_a_producer_the_offsets_of_a_transaction_are_plain_ones():
    """GroupMetadataManager.storeOffsets: transactional means producerId != NO_PRODUCER_ID."""
    assert after(txn(-1, 0)) == ("NONE", [5])
    assert after(txn(-1, -1)) == ("NONE", [5])


@pytest.mark.parametrize("producer_id", [-2, 0, 7])
def test_a_producer_without_an_epoch_is_answered_by_the_request_layer(producer_id):
    """MemoryRecordsBuilder.close: "Invalid negative producer epoch", of -1 alone."""
    assert after(txn(producer_id, -1)) == ("UNKNOWN_SERVER_ERROR", [])
    assert after(txn(producer_id, -1, metadata="m" * 4097)) == ("OFFSET_METADATA_TOO_LARGE", [])
    assert after(txn(producer_id, -5)) == ("NONE", [])


@pytest.mark.parametrize("stamp", [None, -1])
def test_a_commit_timestamp_of_minus_one_is_the_time_of_the_commit(stamp):
    """OffsetCommitRequest.DEFAULT_TIMESTAMP."""
    coordinator = GroupCoordinator(now_ms=77)
    coordinator.offset_commit("g", {("t", 0): OffsetAndMetadata(5, commit_timestamp=stamp)})
    assert coordinator.snapshot("g").offsets["t", 0].commit_timestamp == 77


def test_a_commit_timestamp_of_0_is_a_time():
    coordinator = GroupCoordinator(now_ms=77)
    coordinator.offset_commit("g", {("t", 0): OffsetAndMetadata(5, commit_timestamp=0)})
    assert coordinator.snapshot("g").offsets["t", 0].commit_timestamp == 0
