"""A request that waits may end the wait of another's: each answer goes to the one that asked."""

import pytest

from support.server.asking import answer, ask, joining, member, request
from support.server.playing import Server

CONFIG = {"group.initial.rebalance.delay.ms": 0}
REBALANCE_IN_PROGRESS, FENCED_INSTANCE_ID = 27, 82


@pytest.fixture(params=[False, True], ids=["unwatched", "watched"])
def server(request):
    made = Server(CONFIG)
    if request.param:
        made.cluster.groups.on_event = [].append
    return made


def syncing(member_id, generation):
    return {
        "groupId": "g", "generationId": generation, "memberId": member_id, "assignments": [],
    }  # fmt: skip


def test_a_sync_that_a_newcomer_ends_is_told_so_and_the_newcomer_waits(server):
    leader, follower, newcomer = (server.connect() for _ in range(3))
    leader_id, _ = member(leader, "g")
    follower.send(request("JoinGroup", 3, joining("g")))
    rejoined = ask(leader, "JoinGroup", 3, joining("g", leader_id))
    joined = answer(follower, "JoinGroup", 3)
    assert rejoined["generationId"] == joined["generationId"] == 2
    follower.send(request("SyncGroup", 2, syncing(joined["memberId"], 2)))
    newcomer.send(request("JoinGroup", 3, joining("g")))
    assert answer(follower, "SyncGroup", 2)["errorCode"] == REBALANCE_IN_PROGRESS
    assert newcomer.take() == b""
    follower.send(request("JoinGroup", 3, joining("g", joined["memberId"])))
    assert ask(leader, "JoinGroup", 3, joining("g", leader_id))["generationId"] == 3
    assert answer(newcomer, "JoinGroup", 3)["generationId"] == 3


def test_a_static_member_that_comes_back_is_not_told_that_it_is_fenced(server):
    leader, old, new = (server.connect() for _ in range(3))
    leader_id, _ = member(leader, "g")
    static = joining("g", groupInstanceId="i")
    old.send(request("JoinGroup", 5, static))
    new.send(request("JoinGroup", 5, static))
    assert answer(old, "JoinGroup", 5)["errorCode"] == FENCED_INSTANCE_ID
    assert new.take() == b""
    ask(leader, "JoinGroup", 3, joining("g", leader_id))
    assert answer(new, "JoinGroup", 5)["errorCode"] == 0
