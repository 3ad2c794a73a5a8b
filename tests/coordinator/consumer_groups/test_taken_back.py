"""A write that fails leaves a group as if it had never been tried, whatever the group has."""

import pytest

from coterie import Error, GroupCoordinator
from support.coordinator.classic_group import RANGE

CONFIG = {"coterie.behaviour": "4.1", "group.consumer.migration.policy": "upgrade"}
TOPICS = {"t": 6, "u": 3, "v": 2}


def beat(coordinator, member_id, epoch=0, **fields):
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"],
                  "topic_partitions": []} | fields  # fmt: skip
    return coordinator.consumer_group_heartbeat("g", member_id, epoch, **fields)


def complete(coordinator, error=Error.NONE):
    while coordinator.appends:
        coordinator.appends[0].complete(error)


def filled(**options):
    """A group of members that name an assignor, an expression, an instance, another protocol."""
    coordinator = GroupCoordinator(CONFIG, **options)
    coordinator.set_topics(TOPICS)
    steps = [
        lambda: beat(coordinator, "a", server_assignor="range", rack_id="r"),
        lambda: beat(coordinator, "b", server_assignor="range", instance_id="i"),
        lambda: beat(coordinator, "c", server_assignor="uniform", subscribed_topic_regex="u|v"),
        lambda: coordinator.join_group("g", protocol_type="consumer", protocols=RANGE,
                                       client_id="k"),
        lambda: coordinator.offset_commit("g", {("t", 0): 5, ("x", 0): 5}, generation_id=1,
                                          member_id="a"),
        lambda: coordinator.txn_offset_commit("g", {("t", 1): 6}, producer_id=7,
                                              producer_epoch=0),
        lambda: beat(coordinator, "b", -2, instance_id="i"),
    ]  # fmt: skip
    for step in steps:
        step()
        complete(coordinator)
    return coordinator


ATTEMPTS = {
    "a member joins": lambda c: beat(c, "n", server_assignor="uniform"),
    "a member changes": lambda c: beat(
        c, "a", 1, subscribed_topic_names=["u"], server_assignor="uniform", client_host="/other",
        topic_partitions=[],
    ),
    "an expression goes": lambda c: beat(c, "c", -1),
    "a static member comes back": lambda c: beat(c, "b2", instance_id="i"),
    "a member leaves": lambda c: beat(c, "a", -1),
    "a classic member joins": lambda c: c.join_group(
        "g", protocol_type="consumer", protocols=RANGE, client_id="m"
    ),
    "an offset is committed": lambda c: c.offset_commit(
        "g", {("t", 0): 9, ("u", 0): 9}, generation_id=1, member_id="a"
    ),
    "a transaction ends": lambda c: c.end_txn(7, committed=True),
    "an offset is deleted": lambda c: c.offset_delete("g", [("x", 0)]),
}  # fmt: skip


def shown(coordinator):
    fetched = coordinator.offset_fetch("g", require_stable=False)
    return (coordinator.consumer_group_describe(["g"]), coordinator.list_groups(), fetched,
            coordinator._core.open_transactions)  # fmt: skip


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_all_goes_on_as_in_a_group_where_it_was_not_tried(attempt):
    pytest.importorskip("re2")
    tried, untried = filled(appends="deferred"), filled(appends="deferred")
    before = shown(tried)
    assert before == shown(untried)
    ATTEMPTS[attempt](tried)
    assert tried.appends
    complete(tried, Error.NOT_ENOUGH_REPLICAS)
    assert shown(tried) == before
    assert tried.snapshot("g") == untried.snapshot("g")
    for coordinator in (tried, untried):
        for name, step in ATTEMPTS.items():
            if name != "a classic member joins":  # its id is the next one
                step(coordinator)
                complete(coordinator)
    assert shown(tried) == shown(untried)
    assert [batch.records for batch in tried.log] == [batch.records for batch in untried.log]
