"""What a failed append is answered as, for every error of Kafka's and every kind of append.

Rules: docs/rules/coordinator.md#failed-appends. Source: GroupMetadataManager.storeGroup,
maybeConvertOffsetCommitError.
"""

import pytest

from coterie import CoterieError, Error, GroupCoordinator
from support.coordinator.caller_log import Log
from support.coordinator.classic_group import join, stable

BOTH = {
    Error.UNKNOWN_TOPIC_OR_PARTITION: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_ENOUGH_REPLICAS: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_ENOUGH_REPLICAS_AFTER_APPEND: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_LEADER_OR_FOLLOWER: Error.NOT_COORDINATOR,
    Error.KAFKA_STORAGE_ERROR: Error.NOT_COORDINATOR,
}
GROUP = BOTH | {
    Error.REQUEST_TIMED_OUT: Error.REBALANCE_IN_PROGRESS,
    Error.MESSAGE_TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
    Error.RECORD_LIST_TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
    Error.INVALID_FETCH_SIZE: Error.UNKNOWN_SERVER_ERROR,
}
COMMIT = BOTH | {
    Error.MESSAGE_TOO_LARGE: Error.INVALID_COMMIT_OFFSET_SIZE,
    Error.RECORD_LIST_TOO_LARGE: Error.INVALID_COMMIT_OFFSET_SIZE,
    Error.INVALID_FETCH_SIZE: Error.INVALID_COMMIT_OFFSET_SIZE,
    Error.NETWORK_EXCEPTION: Error.COORDINATOR_LOAD_IN_PROGRESS,
}
FAILURES = [error for error in Error if error is not Error.NONE]


def assignment(coordinator, fail):
    joined = join(coordinator)
    coordinator.advance(3000)
    fail()
    return coordinator.sync_group("g", 1, joined.response.member_id)


def static_return(coordinator, fail):
    stable(coordinator, group_instance_id="i")
    fail()
    return join(coordinator, group_instance_id="i")


def offset_commit(coordinator, fail):
    fail()
    return coordinator.offset_commit("g", {("t", 0): 1})


def txn_offset_commit(coordinator, fail):
    fail()
    return coordinator.txn_offset_commit("g", {("t", 0): 1}, producer_id=1, producer_epoch=0)


REQUESTS = [(assignment, GROUP), (static_return, GROUP), (offset_commit, COMMIT),
            (txn_offset_commit, COMMIT)]  # fmt: skip


def error_of(response):
    return response.partitions[0].error if hasattr(response, "partitions") else response.error


def reported(ask, error, appends, behaviour="3.9"):
    """The error of a request whose last append fails, within its call or later."""
    coordinator = GroupCoordinator({"coterie.behaviour": behaviour}, appends=appends)
    if appends == "immediate":
        return error_of(ask(coordinator, lambda: coordinator.fail_append(error)).response)
    pending = ask(coordinator, lambda: None)
    *earlier, append = coordinator.appends
    assert behaviour == "4.1" or not earlier
    for each in earlier:
        each.complete()
    assert append.kind == ask.__name__
    append.complete(error)
    return error_of(pending.response)


@pytest.mark.parametrize(("ask", "table"), REQUESTS, ids=lambda one: getattr(one, "__name__", ""))
@pytest.mark.parametrize("appends", ["immediate", "deferred"])
def test_a_failed_append_is_answered_by_the_table_of_its_kind(ask, table, appends):
    answers = {error: reported(ask, error, appends) for error in FAILURES}
    assert answers == {error: table.get(error, error) for error in FAILURES}


# Of 4.1.1: GroupMetadataManager.appendGroupMetadataErrorToResponseError, and
# CoordinatorOperationExceptionHelper.
KAFKA_4 = {
    Error.UNKNOWN_TOPIC_OR_PARTITION: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_ENOUGH_REPLICAS: Error.COORDINATOR_NOT_AVAILABLE,
    Error.REQUEST_TIMED_OUT: Error.COORDINATOR_NOT_AVAILABLE,
    Error.NOT_LEADER_OR_FOLLOWER: Error.NOT_COORDINATOR,
    Error.KAFKA_STORAGE_ERROR: Error.NOT_COORDINATOR,
    Error.MESSAGE_TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
    Error.RECORD_LIST_TOO_LARGE: Error.UNKNOWN_SERVER_ERROR,
    Error.INVALID_FETCH_SIZE: Error.UNKNOWN_SERVER_ERROR,
}


@pytest.mark.parametrize("ask", [ask for ask, _ in REQUESTS], ids=lambda one: one.__name__)
@pytest.mark.parametrize("appends", ["immediate", "deferred"])
def test_since_kafka_4_there_is_one_table(ask, appends):
    table = dict(KAFKA_4)
    if ask in (offset_commit, txn_offset_commit):
        table[Error.NETWORK_EXCEPTION] = Error.COORDINATOR_LOAD_IN_PROGRESS
    answers = {error: reported(ask, error, appends, "4.1") for error in FAILURES}
    assert answers == {error: table.get(error, error) for error in FAILURES}


def test_a_failed_append_of_an_empty_generation_or_of_tombstones_is_not_reported():
    for error in FAILURES:
        coordinator = GroupCoordinator()
        (member,) = stable(coordinator)
        before = len(coordinator.log)
        coordinator.fail_append(error, 2)
        assert coordinator.leave_group("g", [member]).members[0].error is Error.NONE, error
        assert coordinator.describe_group("g").state == "Empty", error
        assert coordinator.delete_groups(["g"]).groups[0].error is Error.NONE, error
        assert coordinator.snapshot("g") is None, error
        assert len(coordinator.log) == before, error
        coordinator.failover()
        assert coordinator.describe_group("g").state == "Stable", error  # as the log still has it


@pytest.mark.parametrize("failures", [1, 3])
def test_a_member_whose_removal_cannot_be_written_is_removed_half_a_second_later(failures):
    """Source: ``CoordinatorRuntime.EventBasedCoordinatorTimer``: it schedules the write again."""
    log = Log()
    coordinator = GroupCoordinator({"coterie.behaviour": "4.1"}, log_sink=log)
    coordinator.consumer_group_heartbeat(
        "g", "m", 0, subscribed_topic_names=["t"], rebalance_timeout_ms=60_000, topic_partitions=[]
    )
    log.answers = [OSError("full")] * failures
    for wait_ms in [45_000, *[500] * (failures - 1)]:  # the session's timeout
        with pytest.raises(CoterieError, match="full"):
            coordinator.advance_by(wait_ms)
    members = coordinator.consumer_group_describe(["g"]).groups[0].members
    assert [member.member_id for member in members] == ["m"]
    coordinator.advance_by(499)
    assert coordinator.consumer_group_describe(["g"]).groups[0].members
    coordinator.advance_by(1)
    assert not coordinator.consumer_group_describe(["g"]).groups[0].members


@pytest.mark.parametrize("behaviour", ["3.9", "4.1"])
@pytest.mark.parametrize("count", [0, 1, 3])
def test_as_many_appends_fail_within_the_call_as_are_to_fail(behaviour, count):
    coordinator = GroupCoordinator({"coterie.behaviour": behaviour})
    coordinator.fail_append(Error.NOT_LEADER_OR_FOLLOWER, count)
    errors = [coordinator.offset_commit("g", {("t", 0): number}).response.partitions[0].error
              for number in range(6)]  # fmt: skip
    assert errors == [Error.NOT_COORDINATOR] * count + [Error.NONE] * (6 - count)
    assert coordinator.offset_fetch("g")["t", 0].offset == 5
    assert len(coordinator.log) == 6 - count


def consumers():
    """A consumer group `g` of a member `a` that reads topic `t`, and a group `h` of offsets."""
    config = {"coterie.behaviour": "4.1", "offsets.retention.minutes": 1}
    coordinator = GroupCoordinator(config)
    coordinator.set_topics({"t": 1})
    coordinator.consumer_group_heartbeat(
        "g", "a", 0, rebalance_timeout_ms=60_000, subscribed_topic_names=["t"], topic_partitions=[]
    )
    for group_id in "gh":
        coordinator.txn_offset_commit(
            group_id, {("t", 0): 5, ("u", 0): 6}, producer_id=1, producer_epoch=0
        )
    coordinator.end_txn(1, committed=True)
    return coordinator


def there(coordinator):
    groups = {row.group_id: row.state for row in coordinator.list_groups().groups}
    # Until the next commit Kafka names what is taken back twice.
    return groups, [set(coordinator.offset_fetch(group_id).partitions) for group_id in "gh"]


def test_what_could_not_be_deleted_is_still_there_since_kafka_4():
    """CoordinatorRuntime takes a failed write back; each group of it gets the error."""
    coordinator = consumers()
    before = there(coordinator)
    ways = {
        "groups": lambda: coordinator.delete_groups(["h", "g", "x", "h"]),
        "offsets": lambda: coordinator.offset_delete("g", [("u", 0), ("t", 0)]),
        "members": lambda: coordinator.leave_group("g", ["a", "x"]),
        "partitions": lambda: coordinator.delete_partitions([("u", 0)]),
        "expired": lambda: (coordinator.advance(60_000), coordinator.cleanup()),
    }
    for name, way in ways.items():
        if name == "expired":  # the member goes on, so that only time counts
            coordinator.advance(40_000)
            coordinator.consumer_group_heartbeat("g", "a", 1)
        coordinator.fail_append(Error.NOT_ENOUGH_REPLICAS, 1)
        answer = way()
        assert there(coordinator) == before, name
        if name == "groups":
            assert [(row.group_id, row.error) for row in answer.groups] == [
                (group_id, Error.COORDINATOR_NOT_AVAILABLE) for group_id in ("h", "g", "x")
            ]
        elif name in ("offsets", "members"):
            assert answer.error is Error.COORDINATOR_NOT_AVAILABLE
            assert getattr(answer, "partitions", getattr(answer, "members", ())) == ()
    coordinator.cleanup()
    groups, (of_g, of_h) = there(coordinator)
    assert (groups, [row.topic for row in of_g], of_h) == ({"g": "Stable"}, ["t"], set())
