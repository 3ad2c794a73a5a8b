"""A what-if replays the clients of a trace, not its bytes."""

from dataclasses import asdict

import pytest

from coterie import load_trace
from coterie.coordinator.whatif import Changes, Summary, _recorded, _Replay, what_if
from coterie.events import Response
from coterie.values import Error
from support.doc_pages import blocks
from support.trace_data import header, join

SHORT_SESSION = Changes(scale_session={"c": 0.6})  # 6 s instead of 10
SYNC = {
    "at": 1500,
    "op": "sync_group",
    "id": 2,
    "group_id": "g",
    "generation_id": 1,
    "member_id_of": 1,
    "assignments": [{"member_id_of": 1, "assigned": {"t": [0]}}],
}


def heartbeat(at, request_id):
    return {
        **{"at": at, "op": "heartbeat", "id": request_id, "group_id": "g"},
        **{"generation_id": 1, "member_id_of": 1},
    }


def leave(at, request_id, member_of=1):
    members = [{"member_id_of": member_of}]
    return {"at": at, "op": "leave_group", "id": request_id, "group_id": "g", "members": members}


def begun(*events, until):
    """A trace of a member ``c`` that joins at 0 and syncs at 1500, with further events."""
    head = header(group_initial_rebalance_delay_ms=1000)
    return [head, join(0, 1), SYNC, *events, {"at": until, "op": "advance"}]


@pytest.mark.parametrize(
    "trace",
    [
        begun(until=20_000),  # in sync_group, and in its assignments
        begun(heartbeat(3000, 3), until=20_000),
        begun(leave(3000, 3), until=20_000),
        blocks("traces.md", "jsonl")[0].splitlines(),
    ],
    ids=["sync", "heartbeat", "leave", "the page's example"],
)
def test_a_member_that_is_named_by_its_join_does_the_same_without_changes(trace):
    recorded, changed = what_if(load_trace(trace), Changes())
    assert recorded == changed
    assert recorded.generations == 1


def test_a_member_that_a_heartbeat_tells_it_is_unknown_joins_again_and_goes_on_with_its_new_id():
    # Evicted at 7500, it learns so at 9000, joins, and is in a generation again at 10,000.
    trace = begun(heartbeat(9000, 3), heartbeat(10_500, 4), leave(11_000, 5), until=12_000)
    recorded, changed = what_if(load_trace(trace), SHORT_SESSION)
    assert (recorded.session_evictions, recorded.refused_requests) == (0, 0)
    assert asdict(changed) | {"ms_in_state": None} == {
        "rebalances": 4,  # joins, is evicted, joins again, leaves
        "generations": 2,
        "session_evictions": 1,
        "rebalance_evictions": 0,
        "sync_evictions": 0,
        "refused_requests": 1,  # the heartbeat at 9000
        "ms_in_state": None,
    }


def test_a_member_whose_join_is_answered_that_it_is_unknown_joins_again_without_its_id():
    """Source: AbstractCoordinator.JoinGroupResponseHandler, which resets the id and retries."""
    trace = begun(
        join(7000, 3, client_id="other"),
        join(7600, 4, member_id_of=1),  # its heartbeat got REBALANCE_IN_PROGRESS
        until=10_000,
    )
    # Evicted at 7500 of the changed run: the join of 7600 has an id that is unknown by then.
    recorded, changed = what_if(load_trace(trace), SHORT_SESSION)
    assert (recorded.refused_requests, changed.refused_requests) == (0, 1)
    assert recorded.rebalances == 2  # of either member's first join
    assert changed.rebalances == 3  # and its join without an id, which begins another


def test_the_rows_name_the_measures():
    assert Summary(1, 2, 3, 4, 5, 6, {"Empty": 7, "Stable": 8}).rows() == {
        "rebalances": 1,
        "generations": 2,
        "evicted by session timeout": 3,
        "evicted by rebalance timeout": 4,
        "evicted by sync timeout": 5,
        "refused requests": 6,
        "ms in Empty": 7,
        "ms in Stable": 8,
    }


def both(*events, until, **changes):
    return what_if(load_trace([*events, {"at": until, "op": "advance"}]), Changes(**changes))


def test_each_state_of_each_group_lasts_until_the_next_one():
    """Two groups, a second apart: 1 s until the first generation, 0.5 s until the sync."""
    times = {}
    events = [header(group_initial_rebalance_delay_ms=1000)]
    for at, group, number in ((700, "g", 1), (1800, "h", 11)):
        of_group = {"group_id": group, "member_id_of": number}
        events += [
            join(at, number, group),
            SYNC | of_group | {"at": at + 1500, "id": number + 1, "assignments": []},
            leave(at + 2300, number + 2, number) | {"group_id": group},
        ]
    times = {"Empty": (20_000 - 3000) + (20_000 - 4100), "PreparingRebalance": 2 * 1000,
             "CompletingRebalance": 2 * 500, "Stable": 2 * 800}  # fmt: skip
    events = [events[0], *sorted(events[1:], key=lambda event: event["at"])]
    for summary in both(*events, until=20_000):
        assert summary.ms_in_state == times


def test_evictions_are_counted_by_their_cause():
    """Behaviours since 2.8 also evict a member that does not sync within its rebalance timeout."""
    events = [header(group_initial_rebalance_delay_ms=1000)]
    times = {"session_timeout_ms": 60_000, "rebalance_timeout_ms": 5000}
    events += [
        join(0, 1, "one"),  # its session ends after 10 s
        *(join(0, number, "syncs", **times) for number in (2, 3, 4)),  # no one ever does
        *(join(0, number, "joins", **times) for number in (5, 6)),  # the leader again, alone
        *({**SYNC, "at": 2100, "id": 10 + one, "group_id": group, "member_id_of": one,
           "assignments": []} for one, group in ((1, "one"), (5, "joins"), (6, "joins"))),
        join(2200, 20, "joins", **times),
        {**join(2200, 21, "joins", **times), "member_id_of": 5},
    ]  # fmt: skip
    del events[-1]["member_id"]
    for summary in both(*events, until=20_000):
        evictions = summary.session_evictions, summary.rebalance_evictions, summary.sync_evictions
        assert evictions == (1, 1, 3 + 2)  # the two of the last generation do not sync, too


@pytest.mark.parametrize("generation", [-1, 0, 1, 5])
def test_a_request_of_a_client_that_never_joined_stays_as_it_is(generation):
    """A commit without a generation is accepted of an empty group (validateOffsetCommit)."""
    commit = {"at": 5, "op": "offset_commit", "id": 1, "group_id": "g", "member_id": "m",
              "generation_id": generation,
              "offsets": [{"topic": "t", "partition": 0, "offset": 5}]}  # fmt: skip
    trace = load_trace([header(), commit])
    replay = _Replay(trace, Changes())
    replay.run()
    responses = {event.id: event.response for event in replay.events if isinstance(event, Response)}
    assert responses == _recorded(trace)
    accepted = responses[1].partitions[0].error is Error.NONE
    assert accepted == (generation == -1)


def test_a_request_of_a_client_that_joined_before_the_trace_has_its_instance_id():
    """Another member has this id by now: FENCED_INSTANCE_ID, not UNKNOWN_MEMBER_ID."""
    joined = join(0, 1, group_instance_id="i")
    before = {"group_id": "g", "generation_id": 1, "member_id": "old", "group_instance_id": "i"}
    late = [{"at": 2000, "op": op, "id": number} | before | more for number, op, more in (
        (2, "heartbeat", {}), (3, "sync_group", {"assignments": []}),
        (4, "offset_commit", {"offsets": [{"topic": "t", "partition": 0, "offset": 5}]}),
    )]  # fmt: skip
    trace = load_trace([header(group_initial_rebalance_delay_ms=1000), joined, *late])
    replay = _Replay(trace, Changes())
    replay.run()
    responses = [event.response for event in replay.events if isinstance(event, Response)][1:]
    errors = {getattr(one, "error", None) or one.partitions[0].error for one in responses}
    assert errors == {Error.FENCED_INSTANCE_ID}


def test_the_last_join_of_a_trace_is_followed_by_no_request_of_the_replay():
    for summary in both(header(), join(0, 7, require_known_member_id=True), until=20_000):
        assert (summary.rebalances, summary.generations) == (0, 0)
    for summary in both(header(), join(0, 7), until=5000):
        assert summary.ms_in_state["CompletingRebalance"] == 2000


def test_a_client_that_is_evicted_again_joins_again():
    """The second heartbeat of each pair comes before the answer to this join; it makes none."""
    beats = [heartbeat(at, at) for at in (10_000, 10_500, 19_000, 19_600, 28_000, 28_700)]
    recorded, changed = what_if(load_trace(begun(*beats, until=29_000)), SHORT_SESSION)
    assert (recorded.session_evictions, recorded.refused_requests) == (0, 0)
    assert (changed.session_evictions, changed.refused_requests) == (3, 6)
    assert changed.generations == 4
    assert changed.ms_in_state["CompletingRebalance"] == 500  # each but the first syncs at once


def test_a_client_whose_join_is_answered_later_than_recorded_does_not_join_twice_and_syncs():
    """The trace's sync and heartbeat come before the answer of 5000; it syncs at 5000 itself."""
    events = header(group_initial_rebalance_delay_ms=0), join(0, 1), SYNC, heartbeat(2000, 3)
    longer = {"group.initial.rebalance.delay.ms": 5000}
    recorded, changed = both(*events, heartbeat(9000, 4), until=12_000, config=longer)
    assert recorded.ms_in_state["CompletingRebalance"] == 1500
    assert asdict(changed) == {
        "rebalances": 1,
        "generations": 1,
        "session_evictions": 0,
        "rebalance_evictions": 0,
        "sync_evictions": 0,
        "refused_requests": 2,  # what the trace has before the answer
        "ms_in_state": {"Empty": 0, "PreparingRebalance": 5000, "CompletingRebalance": 0,
                        "Stable": 7000},
    }  # fmt: skip


def test_a_client_that_leaves_while_it_joins_does_not_join_again():
    """Its parked join is answered that it is unknown: by its own leaving."""
    session = {"id": 2, "client_id": "leaves"}, {"id": 3, "client_id": "stays"}
    events = [
        header(group_initial_rebalance_delay_ms=1000),
        join(0, 1),
        *(join(0, client["id"], client_id=client["client_id"]) for client in session),
        *(
            {**SYNC, "at": 2500, "id": 10 + one, "member_id_of": one, "assignments": []}
            for one in (1, 2, 3)
        ),
        *(heartbeat(at, at + one) | {"member_id_of": one} for at in (5000, 9000) for one in (2, 3)),
        leave(9200, 20, member_of=2),
    ]
    del events[-2]  # the third member hears of a rebalance later
    events.append(heartbeat(9500, 21) | {"member_id_of": 3})
    recorded, changed = both(*events, until=30_000, scale_session={"c": 0.6})
    assert (recorded.session_evictions, recorded.rebalance_evictions) == (2, 0)
    assert (changed.session_evictions, changed.rebalance_evictions) == (2, 0)


def test_a_client_that_leaves_before_it_has_its_new_id_syncs_no_more():
    """Unknown at 9000, it joins; the answer of 10,000 is that of a client which is gone."""
    trace = begun(heartbeat(9000, 3), leave(9500, 4), until=12_000)
    recorded, changed = what_if(load_trace(trace), SHORT_SESSION)
    assert recorded.ms_in_state["CompletingRebalance"] == 500
    assert changed.ms_in_state["CompletingRebalance"] == 500 + 2000


def test_a_client_whose_leave_was_refused_joins_again():
    """It named an instance that the group does not know; it is a member still."""
    refused = leave(3000, 3)
    refused["members"][0]["group_instance_id"] = "other"
    events = header(group_initial_rebalance_delay_ms=1000), join(0, 1), SYNC, refused
    events = *events, heartbeat(9000, 4), heartbeat(10_500, 5)
    recorded, changed = both(*events, until=12_000, scale_session={"c": 0.6})
    assert (recorded.generations, changed.generations) == (1, 2)


def test_a_leave_that_is_refused_as_a_whole_has_no_answer_of_its_members():
    refused = leave(3000, 3) | {"group_id": ""}
    events = header(group_initial_rebalance_delay_ms=1000), join(0, 1), SYNC, refused
    recorded, changed = both(*events, heartbeat(4000, 4), until=5000)
    assert recorded == changed
    assert (recorded.refused_requests, recorded.generations) == (1, 1)


def test_a_client_that_becomes_static_joins_once_without_the_join_that_makes_an_id():
    first = join(0, 1, require_known_member_id=True)
    second = {key: value for key, value in join(1, 2, member_id_of=1).items() if key != "member_id"}
    trace = header(group_initial_rebalance_delay_ms=1000), first, second, SYNC | {"id": 3}
    for summary in both(*trace, until=5000, static=frozenset({"c"})):
        assert (summary.rebalances, summary.generations, summary.refused_requests) == (1, 1, 0)
        assert summary.ms_in_state["Stable"] == 3500


def test_a_client_that_became_static_and_was_replaced_is_fenced_and_joins_no_more():
    """Source: ClassicGroup.validateMember: FENCED_INSTANCE_ID, which ends a client."""
    other = join(3000, 3, require_known_member_id=True)  # as recorded, it only gets an id
    trace = begun(other, heartbeat(4000, 4), heartbeat(5000, 5), until=6000)
    recorded, changed = what_if(load_trace(trace), Changes(static=frozenset({"c"})))
    assert (recorded.refused_requests, changed.refused_requests) == (0, 2)


def test_a_scaled_session_is_that_of_its_clients_alone():
    events = (
        header(group_initial_rebalance_delay_ms=0),
        join(0, 1, "g"),
        join(0, 2, "h", client_id="d"),
    )
    syncs = [{**SYNC, "at": 1, "id": 2 + one, "group_id": group, "member_id_of": one,
              "assignments": []} for one, group in ((1, "g"), (2, "h"))]  # fmt: skip
    recorded, changed = both(*events, *syncs, until=9000, scale_session={"d": 0.7})
    assert (recorded.session_evictions, changed.session_evictions) == (0, 1)
    assert changed.ms_in_state["Stable"] == 8999 + (7000 + 1 - 1)


def test_a_sync_with_another_protocol_than_that_of_the_group_stays_wrong():
    """Source: GroupMetadataManager.validateSyncGroup: INCONSISTENT_GROUP_PROTOCOL."""
    wrong = SYNC | {"protocol_type": "consumer", "protocol_name": "roundrobin"}
    events = header(group_initial_rebalance_delay_ms=1000), join(0, 1), wrong
    for summary in both(*events, until=5000):
        assert (summary.refused_requests, summary.ms_in_state["Stable"]) == (1, 0)


def test_a_client_that_is_out_of_step_syncs_with_the_protocol_of_the_group_as_it_is():
    """Without d, which is evicted at 8500, the group has the protocol that c names first."""
    protocols = [{"name": name, "topics": ["t"]} for name in ("roundrobin", "range")]
    sync = SYNC | {"protocol_type": "consumer", "protocol_name": "range"}
    sync |= {"at": 2500, "assignments": []}
    events = (
        header(group_initial_rebalance_delay_ms=1000),
        join(0, 1, protocols=protocols),
        join(0, 2, client_id="d"),
        sync | {"id": 3},
        sync | {"id": 4, "member_id_of": 2},
        heartbeat(9000, 5),  # c hears of it, and joins and syncs at once
        sync | {"at": 9500, "id": 6},
    )
    recorded, changed = both(*events, until=10_000, scale_session={"d": 0.6})
    assert (recorded.generations, recorded.refused_requests) == (1, 0)
    assert (changed.generations, changed.refused_requests) == (2, 1)  # the heartbeat
