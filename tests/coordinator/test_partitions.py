"""A coordinator of some partitions of the offsets topic: each is lost and loaded by itself."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie import ArgumentError, Batch, CoterieError, Error, GroupCoordinator
from coterie.messages import partition_for

COUNT = 4
CONFIG = {"offsets.topic.num.partitions": COUNT}
GROUPS = [f"group-{n}" for n in range(12)]
ALL = {partition_for(group_id, COUNT) for group_id in GROUPS}


def join(coordinator, group_id):
    return coordinator.join_group(
        group_id, protocol_type="consumer", protocols={"range": b""}, client_id="c"
    )


def filled():
    """Offsets of each group, and a member in each."""
    coordinator = GroupCoordinator(CONFIG)
    for n, group_id in enumerate(GROUPS):
        coordinator.offset_commit(group_id, {("t", 0): n})
    joins = {group_id: join(coordinator, group_id) for group_id in GROUPS}
    coordinator.advance_by(3000)
    for group_id, pending in joins.items():
        member_id = pending.response.member_id
        coordinator.sync_group(group_id, 1, member_id, assignments={member_id: b"plan"})
    coordinator.take_events()
    return coordinator


def state_of(coordinator):
    return {group_id: coordinator.snapshot(group_id) for group_id in GROUPS}


def error_of(coordinator, group_id):
    return coordinator.describe_group(group_id).error


def of(partitions):
    return {group_id for group_id in GROUPS if partition_for(group_id, COUNT) in partitions}


def test_the_groups_lie_in_every_partition():
    assert set(range(COUNT)) == ALL


@pytest.mark.parametrize("partition", range(COUNT))
def test_a_partition_goes_and_comes_back_and_no_other_notices(partition):
    coordinator = filled()
    before = state_of(coordinator)
    theirs = of({partition})
    coordinator.resign(partition)
    assert {event.group_id for event in coordinator.take_events() if hasattr(event, "to")} == theirs
    for group_id in GROUPS:
        wanted = Error.NOT_COORDINATOR if group_id in theirs else Error.NONE
        assert error_of(coordinator, group_id) is wanted
    assert {group.group_id for group in coordinator.list_groups().groups} == {*GROUPS} - theirs
    assert coordinator.list_groups().error is Error.NONE
    coordinator.begin_load(partition)
    for group_id in GROUPS:
        wanted = Error.COORDINATOR_LOAD_IN_PROGRESS if group_id in theirs else Error.NONE
        assert error_of(coordinator, group_id) is wanted
    assert coordinator.list_groups().error is Error.COORDINATOR_LOAD_IN_PROGRESS
    coordinator.finish_load(partition)
    reloaded = filled()
    reloaded.failover()
    loaded = state_of(reloaded)
    assert state_of(coordinator) == {
        group_id: loaded[group_id] if group_id in theirs else before[group_id]
        for group_id in GROUPS
    }
    assert coordinator.list_groups().error is Error.NONE


@given(st.permutations(range(COUNT)))
def test_one_partition_after_the_other_is_all_at_once(order):
    one_by_one, at_once = filled(), filled()
    for partition in order:
        one_by_one.resign(partition)
        one_by_one.begin_load(partition)
        one_by_one.finish_load(partition)
    at_once.failover()
    assert state_of(one_by_one) == state_of(at_once)
    assert one_by_one.log == at_once.log


def test_who_waits_in_another_partition_goes_on_waiting():
    coordinator = GroupCoordinator(CONFIG | {"group.initial.rebalance.delay.ms": 3000})
    waiting = {group_id: join(coordinator, group_id) for group_id in GROUPS}
    (lost,) = {partition_for(GROUPS[0], COUNT)}
    coordinator.resign(lost)
    for group_id, pending in waiting.items():
        assert pending.done == (group_id in of({lost}))
    assert waiting[GROUPS[0]].response.error is Error.NOT_COORDINATOR
    coordinator.advance_by(3000)
    assert all(pending.done for pending in waiting.values())


def test_an_undecided_transaction_of_another_partition_stays():
    coordinator = GroupCoordinator(CONFIG)
    for n, group_id in enumerate(GROUPS):
        coordinator.txn_offset_commit(group_id, {("t", 0): n}, producer_id=9, producer_epoch=0)
    partition = partition_for(GROUPS[0], COUNT)
    coordinator.resign(partition)
    coordinator.begin_load(partition)
    coordinator.finish_load(partition)
    coordinator.end_txn(9, committed=True)
    found = [coordinator.offset_fetch(group_id)["t", 0].offset for group_id in GROUPS]
    assert found == list(range(len(GROUPS)))


def test_a_bad_record_empties_its_own_partition_alone():
    whole = filled().log
    partition = partition_for(GROUPS[0], COUNT)
    bad = next(batch for batch in whole if GROUPS[0].encode() in batch.records[0][0])
    log = [
        Batch(batch.base_offset, records=((batch.records[0][0], b"\0\x09"),))
        if batch is bad
        else batch
        for batch in whole
    ]
    coordinator = GroupCoordinator(CONFIG, log=log)
    assert coordinator.load_error is not None
    assert coordinator.list_groups().groups == ()  # all partitions are loaded as one log
    for number in range(COUNT):
        coordinator.resign(number)
        coordinator.begin_load(number)
        coordinator.finish_load(number)
        assert (coordinator.load_error is not None) == (number == partition)
    assert {group.group_id for group in coordinator.list_groups().groups} == {*GROUPS} - of(
        {partition}
    )


def test_a_key_of_a_negative_length_names_no_group_and_stops_each_partition_that_meets_it():
    key = b"\0\x02" + (-0x8000).to_bytes(2, "big", signed=True) + b"g" * 0x8000
    coordinator = GroupCoordinator(CONFIG, log=[Batch(0, records=((key, b"\0\x03"),))])
    for number in range(COUNT):
        coordinator.resign(number)
        coordinator.begin_load(number)
        coordinator.finish_load(number)
        assert coordinator.load_error is not None


def test_of_a_batch_with_records_of_several_groups_each_partition_takes_its_own():
    records = tuple(
        next(batch for batch in filled().log if group_id.encode() in batch.records[0][0]).records[0]
        for group_id in GROUPS
    )
    coordinator = GroupCoordinator(CONFIG, log=[Batch(0, records=records)])
    waiting = {group_id: join(coordinator, group_id) for group_id in GROUPS}
    for lost in range(COUNT):
        coordinator.resign(lost)
        coordinator.begin_load(lost)
        theirs = of({lost})
        before = {name: coordinator.snapshot(name) for name in {*GROUPS} - theirs}
        coordinator.finish_load(lost)
        assert {name: coordinator.snapshot(name) for name in before} == before
        for group_id in theirs:
            assert waiting[group_id].response.error is Error.NOT_COORDINATOR
            assert coordinator.offset_fetch(group_id)["t", 0].offset == GROUPS.index(group_id)


@pytest.mark.parametrize("behaviour", ["3.9", "4.1"])
@pytest.mark.parametrize("loading", range(COUNT))
def test_only_a_partition_that_is_loading_can_finish_its_load(loading, behaviour):
    coordinator = GroupCoordinator(CONFIG | {"coterie.behaviour": behaviour})
    coordinator.resign(loading)
    coordinator.begin_load(loading)
    for other in set(range(COUNT)) - {loading}:
        with pytest.raises(CoterieError, match="no load is under way"):
            coordinator.finish_load(other)
    assert coordinator.list_groups().error is Error.COORDINATOR_LOAD_IN_PROGRESS
    coordinator.finish_load(loading)
    assert coordinator.list_groups().error is Error.NONE


def test_a_topic_of_any_number_of_partitions_takes_no_memory_for_them():
    coordinator = GroupCoordinator({"offsets.topic.num.partitions": 2**31 - 1})
    coordinator.offset_commit("g", {("t", 0): 5})
    coordinator.failover()
    coordinator.resign()
    assert error_of(coordinator, "g") is Error.NOT_COORDINATOR
    coordinator.begin_load()
    coordinator.finish_load()
    assert coordinator.offset_fetch("g")["t", 0].offset == 5


def test_a_load_of_all_takes_those_that_are_loading():
    coordinator = filled()
    coordinator.resign()
    coordinator.begin_load(1)
    coordinator.begin_load(2)
    coordinator.finish_load()
    for group_id in GROUPS:
        wanted = Error.NONE if group_id in of({1, 2}) else Error.NOT_COORDINATOR
        assert error_of(coordinator, group_id) is wanted
    assert [coordinator._core.availability_of(n) for n in range(COUNT)] == [
        "resigned", "owned", "owned", "resigned",
    ]  # fmt: skip
    coordinator.begin_load()
    assert [coordinator._core.availability_of(n) for n in range(COUNT)] == [
        "loading", "owned", "owned", "loading",
    ]  # fmt: skip
    coordinator.finish_load(3)
    coordinator.finish_load()
    assert {error_of(coordinator, group_id) for group_id in GROUPS} == {Error.NONE}


def test_a_transaction_of_a_group_that_is_gone_is_forgotten_with_the_partition():
    coordinator = GroupCoordinator(CONFIG)
    coordinator.txn_offset_commit("g", {("t", 0): 1}, producer_id=9, producer_epoch=0)
    coordinator.delete_groups(["g"])
    coordinator.resign(partition_for("g", COUNT))
    assert coordinator._core.open_transactions == {}


def test_no_load_is_finished_that_was_not_begun():
    coordinator = filled()
    coordinator.resign(1)
    for partition in (None, 0, 1):
        with pytest.raises(CoterieError, match="no load is under way"):
            coordinator.finish_load(partition)
    coordinator.begin_load()
    coordinator.finish_load()
    assert {error_of(coordinator, group_id) for group_id in GROUPS} == {Error.NONE}


@pytest.mark.parametrize("partition", [-1, COUNT, 2**31, 1.0, "1", True])
def test_what_is_no_partition_is_refused(partition):
    coordinator = filled()
    for call in (coordinator.resign, coordinator.begin_load, coordinator.finish_load):
        with pytest.raises(ArgumentError, match="partition must be"):
            call(partition)
    assert {error_of(coordinator, group_id) for group_id in GROUPS} == {Error.NONE}


def test_nothing_is_loading_once_each_partition_was_loaded_by_itself():
    coordinator = GroupCoordinator(CONFIG)
    coordinator.resign()
    coordinator.begin_load()
    for partition in range(COUNT):
        assert coordinator.list_groups().error == Error.COORDINATOR_LOAD_IN_PROGRESS
        coordinator.finish_load(partition)
    assert coordinator.list_groups().error == Error.NONE
    with pytest.raises(CoterieError, match="no load is under way"):
        coordinator.finish_load()


@pytest.mark.parametrize("behaviour", ["3.9", "4.1"])
@pytest.mark.parametrize("partition", range(COUNT))
def test_a_load_of_one_partition_loads_no_group_of_another_that_is_loading(partition, behaviour):
    coordinator = GroupCoordinator(CONFIG | {"coterie.behaviour": behaviour})
    for n, group_id in enumerate(GROUPS):
        coordinator.offset_commit(group_id, {("t", 0): n})
    coordinator.resign()
    coordinator.begin_load()
    coordinator.finish_load(partition)
    offsets = {group_id: coordinator._core.offsets_of(group_id) for group_id in GROUPS}
    assert {group_id for group_id, known in offsets.items() if known} == of({partition})
    assert {error_of(coordinator, group_id) for group_id in of({partition})} == {Error.NONE}


@pytest.mark.parametrize("behaviour", ["3.9", "4.1"])
def test_a_load_of_all_loads_the_groups_of_each_partition_that_is_loading(behaviour):
    coordinator = GroupCoordinator(CONFIG | {"coterie.behaviour": behaviour})
    for n, group_id in enumerate(GROUPS):
        coordinator.offset_commit(group_id, {("t", 0): n})
    coordinator.resign()
    coordinator.begin_load(1)
    coordinator.begin_load(2)
    coordinator.finish_load()
    for n, group_id in enumerate(GROUPS):
        if group_id in of({1, 2}):
            assert coordinator.offset_fetch(group_id)["t", 0].offset == n
        else:
            assert not coordinator._core.offsets_of(group_id)


@pytest.mark.parametrize("behaviour", ["3.9", "4.1"])
@pytest.mark.parametrize("kind", ["offset", "group"])
def test_a_bad_record_fails_the_load_of_no_other_partition_that_is_loading(behaviour, kind):
    config = CONFIG | {"coterie.behaviour": behaviour}
    coordinator = GroupCoordinator(config)
    for group_id in GROUPS:
        coordinator.offset_commit(group_id, {("t", 0): 5})
    key = coordinator.log[0].records[0][0]
    if kind == "group":  # a key that ends with the name
        key = b"\0\2" + len(GROUPS[0]).to_bytes(2, "big") + GROUPS[0].encode()
    log = [Batch(0, records=((key, b"\0\x09"),)), *coordinator.log[1:]]
    coordinator = GroupCoordinator(config, log=log)
    coordinator.resign()
    coordinator.begin_load()
    for number in range(COUNT):
        coordinator.finish_load(number)
        assert (coordinator.load_error is not None) == (number == partition_for(GROUPS[0], COUNT))


@pytest.mark.parametrize("lost", [0, 1])
def test_consumer_groups_of_another_partition_keep_timers_resolutions_and_writes(lost):
    pytest.importorskip("re2")
    coordinator = GroupCoordinator(
        {"coterie.behaviour": "4.1", "offsets.topic.num.partitions": 2, "coterie.tasks": "manual"},
        appends="deferred",
    )
    names = dict(sorted((partition_for(name, 2), name) for name in GROUPS))
    coordinator.set_topics({f"t{n}": 2 for n in names})
    pending = {}
    for number, group_id in names.items():
        coordinator.consumer_group_heartbeat(
            group_id, "m", 0, rebalance_timeout_ms=60_000, topic_partitions=[],
            subscribed_topic_names=[], subscribed_topic_regex=f"t{number}",
        )  # fmt: skip
        coordinator.appends[-1].complete()
        pending[number] = coordinator.offset_commit(f"{group_id}", {("x", 0): 1},
                                                    generation_id=1, member_id="m")  # fmt: skip
    first, second = coordinator.appends
    coordinator.resign(lost)
    assert pending[lost].response.partitions[0].error is Error.NOT_COORDINATOR
    assert not pending[1 - lost].done
    for append in (first, second):
        append.complete(Error.NOT_ENOUGH_REPLICAS)  # of the lost one only the log would know
    assert pending[1 - lost].response.partitions[0].error is Error.COORDINATOR_NOT_AVAILABLE
    coordinator.handle({"op": "run_tasks"})
    resolved = {append.group_id for append in coordinator.appends}
    assert resolved == {names[1 - lost]}
    coordinator.appends[0].complete()
    coordinator.set_topics({f"t{n}": 3 for n in names})  # of no group any more: no reader
    assert coordinator.snapshot(names[lost]) is None
    coordinator.advance_by(45_000)
    (expiry,) = coordinator.appends
    assert expiry.group_id == names[1 - lost]


@pytest.mark.parametrize("behaviour", ["3.9", "4.1"])
def test_a_topic_of_one_partition_is_lost_and_loaded_as_any_other(behaviour):
    coordinator = GroupCoordinator(
        {"offsets.topic.num.partitions": 1, "coterie.behaviour": behaviour}
    )
    coordinator.offset_commit("g", {("t", 0): 5})
    for partition in (0, None):
        coordinator.resign(partition)
        assert error_of(coordinator, "g") is Error.NOT_COORDINATOR
        coordinator.begin_load(partition)
        assert coordinator.list_groups().error is Error.COORDINATOR_LOAD_IN_PROGRESS
        coordinator.finish_load(partition)
        assert coordinator.offset_fetch("g")["t", 0].offset == 5


@pytest.mark.parametrize("behaviour", ["3.9", "4.1"])
@pytest.mark.parametrize("size", [-1, 2, 0x7FFF])
def test_a_key_that_is_shorter_than_its_name_stops_each_partition_that_meets_it(size, behaviour):
    key = b"\0\x02" + size.to_bytes(2, "big", signed=True) + b"g"
    coordinator = GroupCoordinator(
        CONFIG | {"coterie.behaviour": behaviour}, log=[Batch(0, records=((key, b"\0\x03"),))]
    )
    for number in range(COUNT):
        coordinator.resign(number)
        coordinator.begin_load(number)
        coordinator.finish_load(number)
        assert coordinator.load_error is not None
