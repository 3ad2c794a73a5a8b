"""Waits for a group: it is looked at once as the wait begins and once at each change."""

import asyncio
from types import SimpleNamespace

import pytest

from coterie.errors import CoterieError
from coterie.server.group_waits import GroupCondition, GroupWaits

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

        waits = GroupWaits(snapshot, 0)
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
        waits = GroupWaits(states.get, 0)
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
        waits = GroupWaits({"g": group("Stable")}.get, 7)
        assert (await waits.wait(STABLE, 0)).state == "Stable"
        with pytest.raises(CoterieError, match=r"group 'x' is .*, not Stable, after 0 s; .* at 7"):
            await waits.wait(GroupCondition("x", state="Stable"), 0)

    asyncio.run(run())
