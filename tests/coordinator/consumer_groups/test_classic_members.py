"""Members of the classic protocol in a consumer group: what is refused, and who is removed when.

Rules: docs/rules/consumer-groups.md#classic-members and #conversion; GroupMetadataManager.java
(classicGroupJoinToConsumerGroup, classicGroupSyncToConsumerGroup, maybeUpgradeClassicGroup).
"""

import pytest

from coterie import CoterieError, Error, GroupCoordinator, Transition
from coterie.events import Cause, MemberFenced
from coterie.messages import decode_key
from support.coordinator.classic_group import RANGE, join, stable

REBALANCE_MS, SESSION_MS, RETRY_MS = 7_003, 29_000, 500
REBALANCING = Error.REBALANCE_IN_PROGRESS
UNREADABLE = [("range", b"\0\0\0\0\0\7")]


def beat(coordinator, member_id="first", epoch=0, group_id="g", **fields):
    if epoch == 0:
        fields = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"],
                  "topic_partitions": []} | fields  # fmt: skip
    answer = coordinator.consumer_group_heartbeat(group_id, member_id, epoch, **fields)
    return getattr(answer, "response", answer)


def classic_join(coordinator, member_id="", **fields):
    fields = {"rebalance_timeout_ms": REBALANCE_MS, "session_timeout_ms": SESSION_MS} | fields
    return join(coordinator, member_id, **fields).response


def epochs(coordinator):
    (group,) = coordinator.consumer_group_describe(["g"]).groups
    return {member.member_id: member.member_epoch for member in group.members}


def settle(coordinator, member_id):
    """Let the first member give up what others shall have."""
    for _ in range(3):
        beat(coordinator, "first", epochs(coordinator)["first"], topic_partitions=[])
    return epochs(coordinator)[member_id]


@pytest.fixture
def coordinator():
    """Group `g` with a member of the consumer protocol, of 4 partitions."""
    made = GroupCoordinator(
        {"coterie.behaviour": "4.1", "group.consumer.session.timeout.ms": 600_000,
         "group.consumer.max.session.timeout.ms": 600_000, "group.max.session.timeout.ms": 600_000}
    )  # fmt: skip
    made.set_topics({"t": 4})
    assert beat(made).error is Error.NONE
    return made


def fenced(coordinator):
    return [(e.at, e.member_id, e.cause) for e in coordinator.events if type(e) is MemberFenced]


@pytest.mark.parametrize("how", ["heartbeat", "sync"])
def test_a_member_that_has_to_join_again_is_removed_after_its_rebalance_timeout(coordinator, how):
    member = classic_join(coordinator, session_timeout_ms=600_000)
    generation = settle(coordinator, member.member_id)
    coordinator.sync_group("g", member.generation_id, member.member_id)
    classic_join(coordinator, member.member_id, session_timeout_ms=600_000)
    coordinator.sync_group("g", generation, member.member_id)
    coordinator.advance_by(1_017)
    beat(coordinator, "third")  # a new epoch
    begun_ms = coordinator.now_ms

    def ask():
        if how == "heartbeat":
            return coordinator.heartbeat("g", generation, member.member_id)
        return coordinator.sync_group("g", generation, member.member_id).response

    for after_ms in (0, 3_000, REBALANCE_MS - 1):  # only the first begins the time
        coordinator.advance(begun_ms + after_ms)
        assert ask().error is REBALANCING
    assert fenced(coordinator) == []
    coordinator.advance_by(1)
    assert fenced(coordinator) == [
        (begun_ms + REBALANCE_MS, member.member_id, Cause.REBALANCE_TIMEOUT)
    ]


def test_a_member_that_joins_again_in_time_stays_and_has_to_sync_in_time(coordinator):
    member = classic_join(coordinator)
    coordinator.sync_group("g", member.generation_id, member.member_id)
    beat(coordinator, "third")
    assert coordinator.heartbeat("g", member.generation_id, member.member_id).error is REBALANCING
    coordinator.advance_by(REBALANCE_MS - 1)
    again = classic_join(coordinator, member.member_id)
    coordinator.advance_by(REBALANCE_MS - 1)
    assert fenced(coordinator) == []
    assert coordinator.sync_group("g", again.generation_id, member.member_id).response.error is (
        Error.NONE
    )
    coordinator.advance_by(REBALANCE_MS)
    assert fenced(coordinator) == []
    coordinator.heartbeat("g", again.generation_id, member.member_id)
    synced_no_more = classic_join(coordinator, member.member_id)
    assert synced_no_more.error is Error.NONE
    coordinator.advance_by(REBALANCE_MS)
    assert fenced(coordinator) == [(coordinator.now_ms, member.member_id, Cause.SYNC_TIMEOUT)]


def test_a_member_has_to_join_again_once_the_partitions_that_it_waits_for_are_free(coordinator):
    member = classic_join(coordinator)
    request = ("g", member.generation_id, member.member_id)
    coordinator.sync_group(*request)
    assert coordinator.heartbeat(*request).error is Error.NONE
    beat(coordinator, "first", 1)  # it gets to know that it shall give up two
    assert coordinator.heartbeat(*request).error is Error.NONE
    beat(coordinator, "first", 1, topic_partitions=[])
    assert coordinator.heartbeat(*request).error is REBALANCING


@pytest.mark.parametrize("kind", ["session", "rebalance", "join", "sync"])
@pytest.mark.parametrize(
    ("error", "again"),
    [(Error.NOT_ENOUGH_REPLICAS, True), (Error.NETWORK_EXCEPTION, True),
     (Error.NOT_COORDINATOR, False), (Error.COORDINATOR_LOAD_IN_PROGRESS, False)],
)  # fmt: skip
def test_a_removal_that_could_not_be_written_is_tried_again_half_a_second_later(
    coordinator, kind, error, again
):
    """CoordinatorRuntime's timers: not if the partition is gone, or is to be loaded."""
    timeouts = {"rebalance_timeout_ms": REBALANCE_MS}
    if kind == "rebalance":
        member_id = "first"
        beat(coordinator, "first", 1, **timeouts)
        beat(coordinator, "second")
        beat(coordinator, "first", 1)
    else:
        session_ms = 6_000 if kind == "session" else SESSION_MS
        member = classic_join(coordinator, session_timeout_ms=session_ms)
        member_id = member.member_id
    if kind in ("session", "join"):
        coordinator.sync_group("g", member.generation_id, member_id)
    if kind == "join":
        beat(coordinator, "second")
        coordinator.heartbeat("g", member.generation_id, member_id)
    due_ms = coordinator.now_ms + (6_000 if kind == "session" else REBALANCE_MS)
    coordinator.advance(due_ms - 1)
    coordinator.fail_append(error, 1)
    coordinator.advance(due_ms + RETRY_MS - 1)
    assert member_id in epochs(coordinator)
    assert fenced(coordinator) == []
    coordinator.advance_by(1)
    causes = {"session": Cause.SESSION_TIMEOUT, "sync": Cause.SYNC_TIMEOUT}
    expected = [(due_ms + RETRY_MS, member_id, causes.get(kind, Cause.REBALANCE_TIMEOUT))]
    if again:
        assert fenced(coordinator) == expected
        return
    assert fenced(coordinator) == []
    if kind == "rebalance":  # the next heartbeat begins a session
        again_ms = coordinator.now_ms
        beat(coordinator, "first", 1)
        coordinator.advance_by(600_000)
        assert (again_ms + 600_000, "first", Cause.SESSION_TIMEOUT) in fenced(coordinator)
    elif kind == "session":
        coordinator.heartbeat("g", member.generation_id, member_id)
        coordinator.advance_by(5_999)
        assert fenced(coordinator) == []
        coordinator.advance_by(1)
        assert [row[1] for row in fenced(coordinator)] == [member_id]


def test_each_refusal_of_a_sync_and_of_a_heartbeat_has_its_error(coordinator):
    static = classic_join(coordinator, group_instance_id="i").member_id
    member_id = classic_join(coordinator).member_id
    settle(coordinator, member_id)
    for name in (static, member_id):
        classic_join(coordinator, name, **({"group_instance_id": "i"} if name == static else {}))
    static_epoch, epoch = epochs(coordinator)[static], epochs(coordinator)[member_id]
    none, unknown, illegal = Error.NONE, Error.UNKNOWN_MEMBER_ID, Error.ILLEGAL_GENERATION
    for generation, name, instance, error in [
        (epoch, member_id, None, none),
        (static_epoch, static, "i", none),
        (static_epoch, static, None, none),
        (epoch, "x", None, unknown),
        (1, "first", None, unknown),  # of the other protocol
        (static_epoch, static, "j", unknown),
        (epoch, member_id, "i", Error.FENCED_INSTANCE_ID),
        (epoch + 1, member_id, None, illegal),
        (epoch - 1, member_id, None, illegal),
        (-1, static, "i", illegal),
    ]:
        request = (generation, name, instance)
        beaten = coordinator.heartbeat("g", generation, name, group_instance_id=instance)
        assert (request, getattr(beaten, "response", beaten).error) == (request, error)
        synced = coordinator.sync_group("g", generation, name, group_instance_id=instance)
        assert (request, synced.response.error) == (request, error)
    for kind, name, error in [
        ("consumer", "range", none), ("consumer", None, none), (None, "range", none),
        ("connect", "range", Error.INCONSISTENT_GROUP_PROTOCOL),
        ("consumer", "sticky", Error.INCONSISTENT_GROUP_PROTOCOL),
    ]:  # fmt: skip
        answer = coordinator.sync_group(
            "g", epoch, member_id, protocol_type=kind, protocol_name=name
        ).response
        assert answer.error is error
        if error is none:
            assert (answer.protocol_type, answer.protocol_name) == (kind, name)
            assert answer.assignment.startswith(b"\0\0\0\0\0\1\0\1t")


def test_a_refused_join_has_the_default_of_every_other_field(coordinator):
    """Those of JoinGroupResponse.json."""
    for fields, error, member_id in [
        ({"session_timeout_ms": 5_999}, Error.INVALID_SESSION_TIMEOUT, ""),
        ({"session_timeout_ms": 600_001, "member_id": "x"}, Error.INVALID_SESSION_TIMEOUT, "x"),
        ({"protocols": {}}, Error.INCONSISTENT_GROUP_PROTOCOL, ""),
        ({"protocols": UNREADABLE}, Error.UNKNOWN_SERVER_ERROR, ""),
        ({"group_instance_id": "i", "member_id": "x"}, Error.UNKNOWN_MEMBER_ID, ""),
    ]:
        answer = classic_join(coordinator, **fields)
        assert (answer.error, answer.member_id) == (error, member_id)
        rest = (answer.generation_id, answer.protocol_type, answer.leader, answer.members)
        assert rest == (-1, None, "", ())
        assert answer.protocol_name in (None, "")
    required = classic_join(coordinator, require_known_member_id=True)
    assert (required.error, required.generation_id) == (Error.MEMBER_ID_REQUIRED, -1)
    assert required.member_id
    assert [*epochs(coordinator)] == ["first"]


def test_a_member_joins_if_a_protocol_is_common_to_all_classic_members(coordinator):
    subscription = RANGE["range"]
    two = [("range", subscription), ("sticky", subscription)]
    assert classic_join(coordinator, protocols=two).error is Error.NONE
    for names, fits in [(["cooperative"], False), (["cooperative", "sticky"], True),
                        (["range"], False), (["sticky"], True)]:  # fmt: skip
        answer = classic_join(coordinator, protocols=[(name, subscription) for name in names])
        assert (names, answer.error is Error.NONE) == (names, fits)
    other = coordinator.join_group("g", protocol_type="connect", protocols=two, client_id="c")
    assert other.response.error is Error.INCONSISTENT_GROUP_PROTOCOL


# ---- conversion -----------------------------------------------------------------------------


@pytest.mark.parametrize(("most", "error"), [
    (1, Error.GROUP_ID_NOT_FOUND), (2, Error.GROUP_MAX_SIZE_REACHED), (3, Error.NONE),
])  # fmt: skip
def test_a_classic_group_is_upgraded_if_its_members_fit(most, error):
    coordinator = GroupCoordinator(
        {"coterie.behaviour": "4.1", "group.consumer.max.size": most,
         "group.consumer.migration.policy": "upgrade"}
    )  # fmt: skip
    coordinator.set_topics({"t": 4})
    joins = [join(coordinator, client_id=client) for client in "ab"]
    for each in joins:
        member_id = coordinator.run_until(each, limit_ms=9_000).member_id
        coordinator.sync_group("g", 1, member_id, assignments={})
    assert beat(coordinator).error is error
    assert [row.type for row in coordinator.list_groups().groups] == [
        "consumer" if error is Error.NONE else "classic"
    ]


@pytest.mark.parametrize(("most", "kind"), [(1, "consumer"), (2, "classic"), (3, "classic")])
def test_a_consumer_group_becomes_a_classic_one_if_its_members_fit(most, kind):
    coordinator = GroupCoordinator({"coterie.behaviour": "4.1", "group.max.size": most})
    coordinator.set_topics({"t": 4})
    beat(coordinator)
    for _ in range(2):
        classic_join(coordinator)
    assert beat(coordinator, "first", -1).error is Error.NONE
    assert [row.type for row in coordinator.list_groups().groups] == [kind]


def test_members_of_an_upgraded_group_keep_their_own_sessions():
    coordinator = GroupCoordinator({"coterie.behaviour": "4.1"})
    coordinator.set_topics({"t": 4})
    joins = [join(coordinator, client_id=str(ms), session_timeout_ms=ms) for ms in (6_007, 9_001)]
    short, long = (coordinator.run_until(each, limit_ms=9_000).member_id for each in joins)
    for member_id in (short, long):
        coordinator.sync_group("g", 1, member_id, assignments={})
    coordinator.advance_by(3_000)
    beat(coordinator)
    begun_ms = coordinator.now_ms
    coordinator.advance_by(10_000)
    assert fenced(coordinator) == [
        (begun_ms + 6_007, short, Cause.SESSION_TIMEOUT),
        (begun_ms + 9_001, long, Cause.SESSION_TIMEOUT),
    ]


def test_a_group_that_cannot_be_upgraded_answers_who_waits_and_goes_on():
    coordinator = GroupCoordinator({"coterie.behaviour": "4.1"})
    coordinator.set_topics({"t": 4})
    ids = stable(coordinator, "a", "b")  # with assignments that are none
    changed = {"protocols": {"range": RANGE["range"].replace(b"t", b"u")}}
    waiting = join(coordinator, ids[0], **changed)
    assert not waiting.done
    assert beat(coordinator).error is Error.GROUP_ID_NOT_FOUND
    assert (waiting.response.error, waiting.response.member_id) == (REBALANCING, ids[0])
    first, second = (join(coordinator, member_id, **changed) for member_id in ids)
    assert (first.response.generation_id, second.response.generation_id) == (2, 2)
    parked = coordinator.sync_group("g", 2, ids[1])
    assert beat(coordinator).error is Error.GROUP_ID_NOT_FOUND
    assert parked.response.error is REBALANCING
    coordinator.sync_group("g", 2, ids[0], assignments={ids[1]: b"mine"})
    again = coordinator.sync_group("g", 2, ids[1]).response
    assert (again.error, again.assignment) == (Error.NONE, b"mine")


@pytest.mark.parametrize("count", [2, 3])
def test_each_group_that_was_emptied_begins_with_the_tombstones_of_its_own_past(count):
    coordinator = GroupCoordinator({"coterie.behaviour": "4.1"})
    coordinator.set_topics({"t": 4})
    groups = [f"group-{n}" for n in range(count)]
    for group_id in groups:
        beat(coordinator, group_id=group_id)
        beat(coordinator, "first", -1, group_id=group_id)
    for group_id in [*groups, "new"]:
        coordinator.join_group(group_id, protocol_type="consumer", protocols=RANGE, client_id="c")
        keys = [key for key, _ in coordinator.log[-1].records]
        assert all(group_id.encode() in key for key in keys)
        values = [value for _, value in coordinator.log[-1].records]
        assert [value is None for value in values] == [True] * (len(keys) - 1) + [False]
        assert (len(keys) == 1) == (group_id == "new")


@pytest.mark.parametrize("behaviour", ["2.4", "3.9", "4.1"])
@pytest.mark.parametrize(("most", "rebalances"), [(1, True), (2, False), (3, False)])
def test_members_of_a_loaded_group_have_a_full_session_and_too_many_rebalance(
    behaviour, most, rebalances
):
    first = GroupCoordinator({"coterie.behaviour": behaviour})
    ids = stable(first, "a", "b", session_timeout_ms=8_009, rebalance_timeout_ms=60_000)
    coordinator = GroupCoordinator(
        {"coterie.behaviour": behaviour, "group.max.size": most}, log=first.log, now_ms=50_021
    )
    causes = [e.cause for e in coordinator.events if isinstance(e, Transition)]
    assert (Cause.SIZE in causes) == rebalances
    assert coordinator.snapshot("g").state == ("PreparingRebalance" if rebalances else "Stable")
    coordinator.advance_by(8_008)
    assert {member.member_id for member in coordinator.snapshot("g").members} == {*ids}
    coordinator.advance_by(1)
    assert coordinator.snapshot("g").members == ()


def test_a_join_for_which_no_id_can_be_made_leaves_an_empty_group_as_it_was():
    def member_ids(prefix):
        if prefix == "refused":
            raise RuntimeError(prefix)
        return f"{prefix}-1"

    coordinator = GroupCoordinator({"coterie.behaviour": "4.1"}, member_ids=member_ids)
    coordinator.set_topics({"t": 4})
    beat(coordinator)
    coordinator.offset_commit("g", {("t", 0): 5}, generation_id=1, member_id="first")
    beat(coordinator, epoch=-1)

    def state():
        fetched = coordinator.offset_fetch("g").partitions
        return coordinator.snapshot("g"), fetched, len(coordinator.log)

    before = state()
    with pytest.raises(CoterieError, match="refused"):
        classic_join(coordinator, client_id="refused")
    assert state() == before
    for group_id in ("h", "g"):  # what ends with the group is written with its successor
        coordinator.join_group(group_id, "", session_timeout_ms=SESSION_MS, client_id="c",
                               protocol_type="consumer", protocols=RANGE)  # fmt: skip
        keys = [decode_key(key) for key, _ in coordinator.log[-1].records]
        assert {key["data"].get("groupId", key["data"].get("group")) for key in keys} == {group_id}
        assert len(keys) == (1 if group_id == "h" else 4)
