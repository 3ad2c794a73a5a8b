"""A what-if replays the clients of a trace, not its bytes."""

from dataclasses import asdict

import pytest

from coterie import load_trace
from coterie.traces.whatif import Changes, what_if
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
