"""The assignors against Kafka's own, on the recorded chains of rebalances."""

import gzip
import json
from dataclasses import replace

import pytest

from coterie.base.consumer_protocol import read_subscription, subscription
from coterie.errors import CoterieError
from coterie.testing.assignors import ASSIGNORS
from support.golden_data import GOLDEN

FOLDER = GOLDEN / "assignors"
CHAINS = {
    kind: [
        json.loads(line)
        for line in gzip.decompress((FOLDER / f"{kind}.jsonl.gz").read_bytes()).splitlines()
    ]
    for kind in ("chains", "racks")
}


def subscriptions(members):
    """The subscriptions of a step, through the bytes that a version has."""
    return {
        name: replace(
            read_subscription(
                subscription(
                    member["topics"],
                    member["version"],
                    user_data=bytes.fromhex(member["user_data"]) if "user_data" in member else None,
                    owned=member.get("owned"),
                    generation_id=member.get("generation", -1),
                    rack_id=member.get("rack"),
                )
            ),
            group_instance_id=member.get("instance"),
        )
        for name, member in members.items()
    }


def in_order(assigned):
    """The topics of each member with their order."""
    return {member: list(topics.items()) for member, topics in assigned.items()}


def racks(step):
    """The racks of the replicas of a step."""
    known = step.get("racks", {})
    return {topic: tuple(map(frozenset, known[topic])) for topic in known}


@pytest.mark.parametrize("kind", CHAINS)
@pytest.mark.parametrize("name", ASSIGNORS)
def test_assignors_assign_as_kafkas_do(name, kind):
    steps = 0
    for chain in CHAINS[kind]:
        if chain["assignor"] != name:
            continue
        leader = ASSIGNORS[name]()
        for step in chain["steps"]:
            members = subscriptions(step["members"])
            if "error" in step:
                with pytest.raises(CoterieError):
                    leader.assign(members, step["topics"], racks(step))
                break
            assigned = leader.assign(members, step["topics"], racks(step))
            assert in_order(assigned) == in_order(step["assigned"])
            steps += 1
    assert steps > {"chains": 300, "racks": 100}[kind]


@pytest.mark.parametrize("name", ASSIGNORS)
def test_user_data_are_those_of_kafkas_assignors(name):
    for chain in CHAINS["chains"]:
        if chain["assignor"] == name:
            for step in chain["steps"]:
                for member, data in step.get("user_data", {}).items():
                    assignor = ASSIGNORS[name]()
                    assignor.on_assignment(step["assigned"][member], step["generation"])
                    given = assignor.subscription_user_data()
                    assert (None if given is None else given.hex()) == data
