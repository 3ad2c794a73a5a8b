"""Waits for a group: it is looked at once as the wait begins and once at each change."""

import asyncio
from dataclasses import replace
from types import SimpleNamespace

import pytest

from coterie.errors import ArgumentError, CoterieError
from coterie.server.group_waits import (
    GroupCondition,
    GroupWaits,
    pending_work,
    state_text,
    timeout_of,
)
from support.server.asking import ask, member
from support.server.playing import Server

STABLE = GroupCondition("g", state="Stable")


def group(state, members=0):
    return SimpleNamespace(state=state, members=[None] * members, timers=())


async def settle():
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_group_is_looked_at_once_at_each_change_and_not_in_between():
    async def run():
        states, looks, counts = ["Empty"], [], []

        def snapshot(group_id):
            looks.append(group_id)
            return group(states[-1])

        waits = GroupWaits(snapshot, str, 0)
        waits.notice()  # of no interest: nothing waits
        wait = asyncio.ensure_future(waits.wait(STABLE, 3600))
        for _ in range(3):
            await settle()
            counts.append(len(looks))
            waits.notice()
            waits.notice()
        await settle()
        states.append("Stable")
        waits.notice()
        await settle()
        assert wait.done()
        waits.notice()
        await settle()
        assert (*counts, len(looks)) == (1, 2, 3, 5)

    asyncio.run(run())


def test_each_wait_ends_with_its_own_condition():
    async def run():
        states = {"g": group("Empty"), "h": group("Empty")}
        waits = GroupWaits(states.get, str, 0)
        conditions = [STABLE, GroupCondition("h", members=2), GroupCondition("x", state="Dead")]
        pending = [asyncio.ensure_future(waits.wait(each, 3600)) for each in conditions]
        await settle()
        assert [each.done() for each in pending] == [False, False, True]
        states["h"] = group("PreparingRebalance", 2)
        waits.notice()
        await settle()
        assert [each.done() for each in pending] == [False, True, True]
        states["g"] = group("Stable", 1)
        waits.notice()
        assert (await pending[0]) is states["g"]

    asyncio.run(run())


def test_a_condition_that_is_met_needs_no_time_and_another_fails_without_any():
    async def run():
        waits = GroupWaits({"g": group("Stable")}.get, lambda group_id: "waits for rain", 0)
        assert (await waits.wait(STABLE, 0)).state == "Stable"
        with pytest.raises(
            CoterieError, match=r"group 'x' is .*, not Stable, after 0 s; it waits for rain"
        ):
            await waits.wait(GroupCondition("x", state="Stable"), 0)

    asyncio.run(run())


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        ({"state": "Stable"}, "Stable"),
        ({"members": 0}, "with 0 members"),
        ({"members": 1}, "with 1 member"),
        ({"state": "Empty", "members": 2}, "Empty with 2 members"),
    ],
)
def test_a_condition_is_told_as_it_is_asked_for(wanted, text):
    assert str(GroupCondition("g", **wanted)) == text


def test_a_condition_is_of_a_state_a_number_of_members_or_both():
    stable, two = {"state": "Stable"}, {"members": 2}
    for wanted, met in ((stable, {1, 2}), (two, {0, 2}), ({**stable, **two}, {2})):
        found = (group("Empty", 2), group("Stable", 1), group("Stable", 2), None)
        condition = GroupCondition("g", **wanted)
        assert {number for number, each in enumerate(found) if condition.is_met(each)} == met
    for wanted in ({"state": "Dead"}, {"members": 0}, {"state": "Dead", "members": 0}):
        assert GroupCondition("g", **wanted).is_met(None)


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        ({}, "state or members is missing"),
        ({"state": "stable"}, "state must be one of PreparingRebalance, .*, not 'stable'"),
        ({"state": 3}, "state must be one of"),
        ({"members": -1}, "members must be"),
        ({"members": 2**31}, "members must be"),
    ],
)
def test_a_condition_that_cannot_be_is_refused(wanted, message):
    with pytest.raises(ArgumentError, match=message):
        GroupCondition("g", **wanted)


@pytest.mark.parametrize("good", [0, 0.0, 0.25, 1, 86_400, 86_400.0])
def test_a_time_out_is_a_number_of_seconds_up_to_a_day(good):
    assert timeout_of(good) == good
    assert type(timeout_of(good)) is float


@pytest.mark.parametrize("wrong", [-1, -0.1, 86_401, 86_400.5, float("nan"), float("inf")])
def test_another_time_out_is_refused_by_its_value(wrong):
    with pytest.raises(ArgumentError, match=f"must be from 0 to 86400, not {wrong!r}"):
        timeout_of(wrong)


def test_what_a_group_waits_for_is_told_with_the_time():
    def timer(kind, deadline_ms):
        return SimpleNamespace(kind=kind, deadline_ms=deadline_ms)

    def waiting(*timers):
        found = group("Stable", 1)
        found.timers = timers
        return pending_work(found, 77)

    heartbeats = [timer("session", 900), timer("session", 500)]
    assert pending_work(None, 77) == "waits for nothing: it does not exist; the clock is at 77"
    assert waiting() == "waits for nothing; the clock is at 77"
    assert waiting(*heartbeats) == "waits for heartbeats until 500; the clock is at 77"
    joins, syncs = timer("join", 600), timer("sync", 700)
    text = "waits for joins until 600; the clock is at 77"
    assert waiting(*heartbeats, joins) == text
    assert waiting(syncs, *heartbeats, joins) == text
    assert waiting(*heartbeats, syncs) == "waits for syncs until 700; the clock is at 77"
    found = group("Stable", 1)
    found.timers = [joins]
    assert pending_work(found, 77, ["m1", "m2"]) == f"{text} and waits for m1, m2"
    assert state_text(None) == "Dead with 0 members"
    assert state_text(group("Stable", 1)) == "Stable with 1 member"
    assert state_text(group("Empty", 0)) == "Empty with 0 members"


def test_what_a_group_of_kafka_4_waits_for_is_told_by_its_members():
    server = Server({}, kafka="4.1")
    server.cluster.topics.create("t", 1)
    peer = server.connect()
    body = {"groupId": "g", "memberEpoch": 0, "rebalanceTimeoutMs": 1000,
            "subscribedTopicNames": ["t"], "topicPartitions": []}  # fmt: skip

    def told():
        return pending_work(server.cluster.groups.snapshot("g"), 5)

    for name in ("one", "two"):
        ask(peer, "ConsumerGroupHeartbeat", 1, {**body, "memberId": name})
    assert told() == "waits for one to reach epoch 2; the clock is at 5"
    target = replace(server.cluster.groups.snapshot("g"), group_epoch=7)  # is not computed yet
    assert pending_work(target, 5) == "waits for one to reach epoch 2; the clock is at 5"
    owned = ask(peer, "ConsumerGroupHeartbeat", 1, {
        "groupId": "g", "memberId": "one", "memberEpoch": 1, "topicPartitions": None})  # fmt: skip
    if owned["memberEpoch"] == 1:  # it has to give its partition up first
        rows = owned["assignment"]["topicPartitions"]
        body = {"groupId": "g", "memberId": "one", "memberEpoch": 1, "topicPartitions": rows}
        ask(peer, "ConsumerGroupHeartbeat", 1, body)
    assert told() == "waits for heartbeats; the clock is at 5"
    for name in ("one", "two"):
        leaving = {"groupId": "g", "memberId": name, "memberEpoch": -1}
        ask(peer, "ConsumerGroupHeartbeat", 1, leaving)
    assert told() == "waits for nothing; the clock is at 5"


def test_a_real_group_waits_for_its_timers():
    server = Server({"group.initial.rebalance.delay.ms": 0})
    member(server.connect(), "g")
    now_ms = server.cluster.now_ms
    text = pending_work(server.cluster.groups.snapshot("g"), now_ms)
    assert text == f"waits for heartbeats until {now_ms + 30_000}; the clock is at {now_ms}"
