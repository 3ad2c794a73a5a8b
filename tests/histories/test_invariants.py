"""The coordinator's invariants are breached by two owners, and not by a group that begins anew."""

import pytest

from coterie import CoterieError
from coterie.histories.invariants import Invariants
from coterie.testing import Cluster, Consumer

PLACE = ("orders", 0)


def test_two_owners_in_a_generation_are_a_bug():
    invariants = Invariants()
    invariants.assigned_by_leader("one", 3, [PLACE])
    invariants.assigned_by_leader("two", 2, [PLACE])  # it has been slow to call its listener
    with pytest.raises(CoterieError, match="in generation 3, orders-0 is assigned to one and to"):
        invariants.assigned_by_leader("two", 3, [PLACE])


def test_each_generation_and_a_group_that_begins_anew_may_have_other_owners():
    invariants = Invariants()
    invariants.assigned_by_leader("one", 1, [PLACE])
    invariants.assigned_by_leader("two", 2, [PLACE])
    invariants.begin_anew()
    invariants.assigned_by_leader("one", 1, [PLACE])


def test_the_epoch_of_a_member_shrinks_in_a_new_group_only():
    invariants = Invariants()
    invariants.assigned_by_broker("one", 5)
    invariants.assigned_by_broker("one", 1)
    invariants.assigned_by_broker("one", 4)
    for less in (3, 2):
        with pytest.raises(CoterieError, match=f"the epoch of one shrinks from 4 to {less}"):
            invariants.assigned_by_broker("one", less)
    invariants.assigned_by_broker("one", 4)


def member(cluster, protocol):
    consumer = Consumer(cluster, {"group.id": "g", "group.protocol": protocol})
    consumer.subscribe(["t"])
    consumer.poll(10_000)
    return consumer


@pytest.mark.parametrize("how", ["deleted", "upgraded"])
def test_a_classic_group_ends_when_it_is_deleted_or_upgraded_but_not_by_a_failover(how):
    cluster, ended = Cluster({"t": 1}, {"coterie.behaviour": "4.1"}), []
    cluster.on_group_end = ended.append
    consumer = member(cluster, "classic")
    cluster.fail_over()
    consumer.commit()
    assert not ended
    if how == "deleted":
        consumer.close()
        cluster.schedule.run_until(cluster.now_ms + 10)  # the request arrives
        cluster.call("delete_groups", ["g"])
    else:
        member(cluster, "consumer")
    assert ended == ["g"]
