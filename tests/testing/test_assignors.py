"""The assignors against Kafka's own, on the recorded chains of rebalances."""

import gzip
import json
from dataclasses import replace

import pytest

from coterie.errors import CoterieError
from coterie.log.consumer_protocol import read_subscription, subscription
from coterie.testing.assignors import ASSIGNORS
from support.golden_data import GOLDEN

FILE = GOLDEN / "assignors" / "chains.jsonl.gz"
CHAINS = [json.loads(line) for line in gzip.decompress(FILE.read_bytes()).splitlines()]


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
                )
            ),
            group_instance_id=member.get("instance"),
        )
        for name, member in members.items()
    }


def in_order(assigned):
    """The topics of each member with their order."""
    return {member: list(topics.items()) for member, topics in assigned.items()}


@pytest.mark.parametrize("name", ASSIGNORS)
def test_assignors_assign_as_kafkas_do(name):
    steps = 0
    for chain in CHAINS:
        if chain["assignor"] != name:
            continue
        leader = ASSIGNORS[name]()
        for step in chain["steps"]:
            members = subscriptions(step["members"])
            if "error" in step:
                with pytest.raises(CoterieError):
                    leader.assign(members, step["topics"])
                break
            assigned = leader.assign(members, step["topics"])
            assert in_order(assigned) == in_order(step["assigned"])
            steps += 1
    assert steps > 300


@pytest.mark.parametrize("name", ASSIGNORS)
def test_user_data_are_those_of_kafkas_assignors(name):
    for chain in CHAINS:
        if chain["assignor"] == name:
            for step in chain["steps"]:
                for member, data in step.get("user_data", {}).items():
                    assignor = ASSIGNORS[name]()
                    assignor.on_assignment(step["assigned"][member], step["generation"])
                    given = assignor.subscription_user_data()
                    assert (None if given is None else given.hex()) == data
