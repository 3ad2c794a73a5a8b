"""Random scenarios over all ops that consumers of 0.8.2 have: no crash, and what always holds.

When all is well again (connections, brokers, sessions, nodes), every topic was touched, and the
members of each group have changed, the owners are those that the assignment rule gives, computed
anew from who runs and what its id node says.
"""

import json

import pytest

from coterie.designs import Times, run
from support.designs.maker08 import GROUPS, Maker, ruled

RECONNECT_MS = 500


@pytest.mark.parametrize("seed", range(150))
def test_whatever_happens_the_rule_holds_when_all_is_well_again(seed):
    maker = Maker(seed)
    ran = run(maker.made(), times=Times(reconnect_ms=RECONNECT_MS))
    points = ran.points
    for point in points:
        check(point, maker)
    touched, changed = points[-2:]
    members = {name: one for name, one in maker.members().items() if counts(name, maker, changed)}
    wanted = ruled(members, maker.sizes, maker.rule)
    wanted |= {name: [] for name in maker.live.keys() - members.keys()}
    left_over = owned_before_they_forgot(maker, ran.timeline)
    for group in GROUPS:
        names = [name for name, one in maker.live.items() if one["group"] == group]
        if left_over.isdisjoint(names):
            holds(changed, {name: wanted[name] for name in names})
            if group not in maker.deaf and not deaf(touched, members, names):
                holds(touched, {name: wanted[name] for name in names})
    assert changed["partitions_that_several_believe_theirs"] == {}


def holds(point, wanted):
    consumers = point["consumers"]
    assert {name: consumers[name]["owner_nodes"] for name in wanted} == wanted
    assert {name: sorted(consumers[name]["next_offsets"]) for name in wanted} == wanted


def deaf(point, members, names):
    """Whether a filter of the group does not hear of new topics, because its start failed."""
    return any(
        point["consumers"][name]["state"] == "start_failed" and "streams" in members.get(name, {})
        for name in names
    )


def owned_before_they_forgot(maker, timeline):
    """Return who claimed in a new session before handling its event, which forgets all claims.

    It takes a rebalance that lasts on the event thread while the session ends. Nobody releases
    those owner nodes, and they may name a thread that is to own the partition no more.
    """
    back = [one for one in maker.events if one["op"] in ("expire", "zk_heal")]
    moments = [(one["at"] + RECONNECT_MS, 0, one["consumer"], "back") for one in back]
    for one in timeline:
        kind = one.details[0] if one.kind == "event" else one.kind
        moments.append((one.at_ms, 1, one.consumer, kind))
    owning, found = {}, set()
    for _, _, name, kind in sorted(moments, key=lambda moment: moment[:2]):
        if kind in ("back", "new_session"):
            found |= {name} if kind == "new_session" and owning.get(name) else set()
            owning[name] = False
        elif kind == "owns":
            owning[name] = True
    return found


def counts(name, maker, point):
    """Whether a consumer is registered.

    Only a filter that lost its session while it started may be none: it reads the topics before
    it listens to sessions, so that nobody registers it again.
    """
    group = maker.live[name]["group"]
    there = f"/consumers/{group}/ids/{group}_{name}" in point["znodes"]
    assert there or (name in maker.shaken and "streams" in maker.live[name])
    return there


def check(point, maker):
    """What holds at every point, well or not."""
    owners = []
    for name, one in point["consumers"].items():
        since = one["since_last_point"]
        assert min(since["rebalances"], since["failed_rebalances"]) >= 0
        assert all(count > 0 for count in since["watch_events"].values())
        assert one["state"] in ("running", "closed", "crashed", "start_failed")
        assert ("next_offsets" in one) == (one["state"] in ("running", "start_failed"))
        for place, ranges in one["consumed"].items():
            assert all(0 <= first <= end for first, end in ranges), (name, place)
        owners += [(one["state"], place) for place in one["owner_nodes"]]
    assert not [place for state, place in owners if state == "closed"]
    for path, node in point["znodes"].items():
        _, kind, *rest = path.split("/")[2:]
        if kind in ("ids", "owners") and (kind, len(rest)) in (("ids", 1), ("owners", 2)):
            assert "session_of" in node, path
        if kind == "offsets" and len(rest) == 2:
            assert path in maker.stored or int(node["data"]) >= 0
            assert "session_of" not in node


@pytest.mark.parametrize("seed", [3, 17])
def test_a_random_scenario_gives_the_same_bytes_each_time(seed):
    given = Maker(seed).made()
    first, again = (run(given) for _ in range(2))
    assert json.dumps(first.points) == json.dumps(again.points)
    assert (list(first.timeline), first.costs) == (list(again.timeline), again.costs)
