"""The scenarios of real clients (tests/clients), played with Consumer: the same facts."""

from coterie import OffsetAndMetadata
from support.clients.scenarios import SCENARIOS
from support.consumers import SETTINGS, Story

OF_CLIENTS = {"group.initial.rebalance.delay.ms": 0}  # as the server of the scenarios
RANGE = {"partition.assignment.strategy": "range"}


def story(name):
    return Story(SCENARIOS[name].partitions, OF_CLIENTS)


def sizes(played):
    return {"sizes": sorted(map(len, played.owned().values()))}


def state(played):
    return played.cluster.coordinator.snapshot(SETTINGS["group.id"]).state


def close_all(played):
    for consumer in played.consumers.values():
        consumer.close()
    played.pass_time(10)


def test_join():
    played = story("join")
    played.start("a", RANGE)
    played.poll()
    assert [{"assigned": played.owned()["a"]}] == SCENARIOS["join"].facts
    close_all(played)
    assert state(played) == SCENARIOS["join"].state


def test_rebalance():
    played = story("rebalance")
    facts = []
    for name in "abc":
        played.start(name, RANGE)
        played.poll()
        facts.append(sizes(played))
    played.consumers.pop("a").close()
    played.poll()
    facts.append(sizes(played))
    assert facts == SCENARIOS["rebalance"].facts
    close_all(played)
    assert state(played) == SCENARIOS["rebalance"].state


def test_cooperative():
    played = story("cooperative")
    facts = []
    for name in "ab":
        played.start(name, {"partition.assignment.strategy": "cooperative-sticky"})
        played.poll()
        facts.append(sizes(played))
    gone = [numbers for name, what, numbers in played.calls if (name, what) == ("a", "revoked")]
    facts.append({"revoked": sum(map(len, gone))})
    assert facts == SCENARIOS["cooperative"].facts
    close_all(played)
    assert state(played) == SCENARIOS["cooperative"].state


def test_static():
    played = story("static")
    played.start("one", RANGE | {"group.instance.id": "one"})
    played.poll()
    played.start("two", RANGE | {"group.instance.id": "two"})
    played.poll()
    facts = [played.owned()]
    played.kill("two")
    played.start("two", RANGE | {"group.instance.id": "two"})
    played.poll()
    facts.append(played.owned())
    assert facts == SCENARIOS["static"].facts
    close_all(played)
    group = played.cluster.coordinator.snapshot(SETTINGS["group.id"])
    assert (group.generation_id, group.state) == (
        SCENARIOS["static"].generation,
        SCENARIOS["static"].state,
    )


def test_commit():
    played = story("commit")
    one = played.start("one", subscribe=False)
    one.assign([("orders", number) for number in range(3)])
    one.commit({("orders", 0): OffsetAndMetadata(5, metadata="five"), ("orders", 1): 7})
    other = played.start("other", subscribe=False)
    found = other.committed([("orders", number) for number in range(3)])
    committed = {str(number): at and [at.offset, at.metadata] for (_, number), at in found.items()}
    assert [{"committed": committed}] == SCENARIOS["commit"].facts
