"""Coordinators of Kafka 4.1 whose appends finish later, and requests to them."""

from coterie import Error, GroupCoordinator

# Of two partitions of the offsets topic "g" and "i" are in one, "h" is in the other.
CONFIG = {"coterie.behaviour": "4.1", "offsets.topic.num.partitions": 2}


def made(**options):
    coordinator = GroupCoordinator(CONFIG | options.pop("config", {}), **options)
    coordinator.set_topics({"t": 4, "u": 2})
    return coordinator


def beat(coordinator, group="g", member="a", epoch=0, **fields):
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 20_000, "topic_partitions": [],
                  "subscribed_topic_names": ["t"]} | fields  # fmt: skip
    return coordinator.consumer_group_heartbeat(group, member, epoch, **fields)


def complete_all(coordinator, error=Error.NONE):
    while coordinator.appends:
        coordinator.appends[0].complete(error)


def states(coordinator):
    return {row.group_id: row.state for row in coordinator.list_groups().groups}
