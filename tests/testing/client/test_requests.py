"""What a consumer asks of its coordinator: each field of each request, and when.

Source: ConsumerCoordinator, AbstractCoordinator, ConsumerHeartbeatRequestManager and
CommitRequestManager; ExponentialBackoff (KIP-580), here without its random part.
"""

from itertools import pairwise

import pytest

from coterie import Error, OffsetAndMetadata
from coterie.base.consumer_protocol import read_assignment, read_subscription
from coterie.testing import KafkaTimeoutError
from support.consumers import Recorder, Story

FIRST, SECOND = ("orders", 0), ("orders", 1)
COMMON = {"group.instance.id": "i", "client.rack": "r", "max.poll.interval.ms": 64_000}
CLASSIC = COMMON | {"session.timeout.ms": 21_000, "heartbeat.interval.ms": 7000}
CONSUMER = COMMON | {"group.protocol": "consumer", "group.remote.assignor": "range"}
DYNAMIC = {"group.instance.id": None}
BACKOFFS_MS = [100, 200, 400, 800, 1000, 1000]


def recorded(settings, partitions=2, **cluster):
    """A story with one member, and its coordinator."""
    story = Story(partitions, {"coterie.behaviour": "4.1"}, make_coordinator=Recorder, **cluster)
    story.start("a", settings)
    story.poll()
    return story, story.cluster.coordinator


def test_a_join_and_a_sync_of_the_classic_protocol_have_all_that_the_settings_say():
    _, coordinator = recorded(CLASSIC)
    ((args, fields),) = coordinator.of("join_group")
    protocols = fields.pop("protocols")
    assert args == ("g", "")
    assert fields == {
        "protocol_type": "consumer",
        "session_timeout_ms": 21_000,
        "rebalance_timeout_ms": 64_000,
        "group_instance_id": "i",
        "client_id": "a",
        "require_known_member_id": True,
        "supports_skipping_assignment": True,
    }
    assert list(protocols) == ["range", "cooperative-sticky"]
    for data in protocols.values():
        read = read_subscription(data)
        assert (read.topics, read.owned, read.generation_id, read.rack_id) == (
            ("orders",), {}, -1, "r",
        )  # fmt: skip
    (((group, generation, member), fields),) = coordinator.of("sync_group")
    plans = fields.pop("assignments")
    assert (group, generation) == ("g", 1)
    assert fields == {
        "group_instance_id": "i", "protocol_type": "consumer", "protocol_name": "range",
    }  # fmt: skip
    assert {one: read_assignment(data) for one, data in plans.items()} == {
        member: {"orders": [0, 1]}
    }


def test_a_member_that_joins_again_says_what_it_owns_and_from_which_generation():
    story, coordinator = recorded({"partition.assignment.strategy": "cooperative-sticky"})
    story.consumers["a"].enforce_rebalance()
    story.poll()
    joins = coordinator.of("join_group")
    ids = [args for args, _ in joins]
    member = ids[1][1]
    assert ids == [("g", ""), ("g", member), ("g", member)]  # first it needs an id
    read = [read_subscription(fields["protocols"]["cooperative-sticky"]) for _, fields in joins]
    assert [(one.owned, one.generation_id, one.rack_id) for one in read] == [
        *[({}, -1, None)] * 2, ({"orders": [0, 1]}, 1, None),
    ]  # fmt: skip


def test_a_sticky_member_joins_again_with_the_assignment_of_its_last_generation():
    # StickyAssignor.onAssignment: topics with their partitions, and the generation
    story, coordinator = recorded({"partition.assignment.strategy": "sticky"})
    story.consumers["a"].enforce_rebalance()
    story.poll()
    user_data = [
        read_subscription(fields["protocols"]["sticky"]).user_data
        for _, fields in coordinator.of("join_group")
    ]
    owned = "00000001 0006 6f7264657273 00000002 00000000 00000001 00000001"
    assert user_data == [None, None, bytes.fromhex(owned)]


@pytest.mark.parametrize("settings", [CLASSIC, CONSUMER], ids=["classic", "consumer"])
def test_a_consumer_that_has_not_joined_yet_has_no_generation_and_no_id(settings):
    # ConsumerGroupMetadata(groupId): JoinGroupRequest.UNKNOWN_GENERATION_ID, UNKNOWN_MEMBER_ID
    story = Story(2, {"coterie.behaviour": "4.1"})
    consumer = story.start("a", settings)
    assert consumer.group_metadata() == ("g", -1, "", "i")


@pytest.mark.parametrize("settings", [CLASSIC, CLASSIC | DYNAMIC], ids=["static", "dynamic"])
def test_heartbeats_commits_and_the_end_name_the_member(settings):
    story, coordinator = recorded(settings | {"enable.auto.commit": True})
    story.poll(1000)
    consumer, instance = story.consumers.pop("a"), settings["group.instance.id"]
    (((_, generation, member), _),) = coordinator.of("sync_group")
    assert coordinator.of("heartbeat")[0] == (
        ("g", generation, member), {"group_instance_id": instance}
    )  # fmt: skip
    offsets = {FIRST: OffsetAndMetadata(3, 2, "three"), SECOND: 7}
    consumer.commit(offsets)
    args, fields = coordinator.of("offset_commit")[-1]
    assert args == ("g", {FIRST: offsets[FIRST], SECOND: OffsetAndMetadata(7)})
    who = {"generation_id": generation, "member_id": member, "group_instance_id": instance}
    assert fields == who
    positions = {tp: consumer.position(tp) for tp in (FIRST, SECOND)}
    consumer.close()
    story.pass_time(10)
    (group, sent), fields = coordinator.of("offset_commit")[-1]
    assert (group, {tp: at.offset for tp, at in sent.items()}) == ("g", positions)
    assert fields == who
    left = [] if instance else [(("g",), {"members": [(member, None)]})]
    assert coordinator.of("leave_group") == left


def test_committed_offsets_are_fetched_as_stable_ones_by_topic():
    story, coordinator = recorded(CLASSIC)
    assert coordinator.of("offset_fetch")[0] == (
        ("g",), {"topics": {"orders": [0, 1]}, "require_stable": True}
    )  # fmt: skip
    story.consumers["a"].committed([SECOND])
    assert coordinator.of("offset_fetch")[-1][1]["topics"] == {"orders": [1]}


@pytest.mark.parametrize(("instance", "left"), [("i", -2), (None, -1)])
def test_heartbeats_of_the_consumer_protocol_say_all_at_first_and_then_what_changed(instance, left):
    story, coordinator = recorded(CONSUMER | {"group.instance.id": instance})
    joined, acknowledged, *later = coordinator.of("consumer_group_heartbeat")
    who = {"instance_id": instance, "client_id": "a"}
    assert joined == (("g", "a:1", 0), who | {
        "rebalance_timeout_ms": 64_000,
        "subscribed_topic_names": ["orders"],
        "server_assignor": "range",
        "rack_id": "r",
        "topic_partitions": [],
    })  # fmt: skip
    args, fields = acknowledged
    (owned,) = fields.pop("topic_partitions")
    assert (args, owned["partitions"], fields) == (("g", "a:1", 1), (0, 1), who)
    assert later == [(("g", "a:1", 1), who)]  # after 5 s
    assert coordinator.of("offset_fetch") == [(("g",), {
        "topics": {"orders": [0, 1]}, "require_stable": True,
        "member_id": "a:1", "member_epoch": 1,
    })]  # fmt: skip
    consumer = story.consumers.pop("a")
    consumer.commit({SECOND: 7})
    assert coordinator.of("offset_commit") == [(("g", {SECOND: OffsetAndMetadata(7)}), {
        "generation_id": 1, "member_id": "a:1", "group_instance_id": instance,
    })]  # fmt: skip
    assert consumer.group_metadata() == ("g", 1, "a:1", instance)
    consumer.close()
    assert coordinator.of("consumer_group_heartbeat")[-1] == (("g", "a:1", left), who)


@pytest.mark.parametrize("error", [Error.COORDINATOR_LOAD_IN_PROGRESS, Error.REQUEST_TIMED_OUT])
def test_a_commit_that_is_refused_is_repeated_after_a_growing_backoff(error):
    story, _ = recorded(CLASSIC)
    story.cluster.network.fail("a", "offset_commit", error, times=6)
    story.notes.clear()
    story.consumers["a"].commit({FIRST: 1})
    times = [at for at, _, kind, _ in story.notes if kind == "commit"]
    gaps = [after - before for before, after in pairwise(times)]
    # besides, the way to the coordinator and back, and, if it is lost, that of the look-up
    assert [round(ms, -2) for ms in gaps] == BACKOFFS_MS


def test_a_coordinator_that_is_not_found_is_looked_up_after_a_growing_backoff():
    for times in range(1, 7):
        story = Story(1, interval_ms=None)
        consumer = story.start("a", subscribe=False)
        error = Error.COORDINATOR_NOT_AVAILABLE
        story.cluster.network.fail("a", "find_coordinator", error, times=times)
        consumer.commit({FIRST: 1})
        assert story.cluster.now_ms == 2 * times + sum(BACKOFFS_MS[:times]) + 2 + 2


@pytest.mark.parametrize("timeout_ms", [0, 2500, None])
def test_calls_end_with_their_timeout_when_there_is_no_coordinator(timeout_ms):
    story = Story(1, interval_ms=None)
    consumer = story.start("a", subscribe=False)
    story.cluster.network.cut("a")
    for call in (lambda: consumer.commit({FIRST: 1}, timeout_ms),
                 lambda: consumer.committed([FIRST], timeout_ms)):  # fmt: skip
        begin = story.cluster.now_ms
        with pytest.raises(KafkaTimeoutError):
            call()
        waited_ms = 60_000 if timeout_ms is None else timeout_ms  # default.api.timeout.ms
        assert story.cluster.now_ms - begin == waited_ms
    assert consumer.committed([]) == {}


@pytest.mark.parametrize(
    ("timeout_ms", "waited_ms"), [(5000, 5000), (29_999, 29_999), (60_000, 30_000), (None, 30_000)]
)
@pytest.mark.parametrize("settings", [CLASSIC | DYNAMIC, CONSUMER], ids=["classic", "consumer"])
def test_close_waits_no_longer_than_a_request_may_take(settings, timeout_ms, waited_ms):
    # ClassicKafkaConsumer.close: min(timeout, request.timeout.ms)
    story, _ = recorded(settings | {"enable.auto.commit": True})
    consumer = story.consumers.pop("a")
    story.cluster.network.cut("a")
    begin = story.cluster.now_ms
    consumer.close(*([] if timeout_ms is None else [timeout_ms]))
    assert story.cluster.now_ms - begin == waited_ms
    consumer.close(7)  # nothing more
    assert story.cluster.now_ms - begin == waited_ms


@pytest.mark.parametrize(("request_ms", "longest_ms"), [(3000, 25_000), (28_000, 28_000)])
def test_a_join_may_take_the_rebalance_timeout_and_five_seconds(request_ms, longest_ms):
    # AbstractCoordinator.sendJoinGroupRequest: JOIN_GROUP_TIMEOUT_LAPSE; else request.timeout.ms
    settings = {"max.poll.interval.ms": 20_000, "request.timeout.ms": request_ms}
    for waited_ms, over in ((longest_ms - 50, False), (longest_ms, True)):
        story = Story(1, {"group.initial.rebalance.delay.ms": 10_000}, interval_ms=None)
        story.start("a", settings).poll(10)
        assert len(story.of("join")) == 2  # for an id, and with it
        story.cluster.network.cut("a")
        story.pass_time(waited_ms)
        story.cluster.network.heal("a")
        story.consumers["a"].poll(500)
        assert (len(story.of("join")) > 2) == over


# What a member forgets, and what it keeps


def test_the_answer_to_a_join_is_read_by_the_next_call_only():
    # in PREPARING_REBALANCE the heartbeat thread is disabled, and nothing reads
    story, coordinator = recorded(CLASSIC | DYNAMIC)
    story.consumers["a"].enforce_rebalance()
    story.consumers["a"].poll(0)
    story.pass_time(2000)
    assert len(coordinator.of("join_group")) == 3  # for an id, with it, and again
    assert len(coordinator.of("sync_group")) == 1
    story.consumers["a"].poll(10)
    assert len(coordinator.of("sync_group")) == 2


def test_the_answer_to_a_commit_is_read_at_once_by_members_only():
    # HeartbeatThread.run: it is disabled, and reads nothing, once the state is UNJOINED
    story, _ = recorded(CLASSIC | DYNAMIC)
    consumer = story.consumers["a"]
    for outcomes in ([None], []):
        story.notes.clear()
        consumer.commit_async({FIRST: 4})
        story.pass_time(4000)
        assert [outcome for _, outcome in story.of("committed")] == outcomes
        consumer.unsubscribe()


def test_a_member_that_is_fenced_before_it_takes_its_assignment_joins_anew():
    # AbstractCoordinator.joinGroupIfNeeded: the heartbeat thread has changed the generation
    story = Story(2, interval_ms=None, make_coordinator=Recorder)
    consumer = story.start("a", CLASSIC | DYNAMIC | {"heartbeat.interval.ms": 1000})
    consumer.poll(10)
    story.pass_time(4000)
    consumer.committed([FIRST])  # reads the answer to JoinGroup, and SyncGroup is sent
    story.cluster.network.fail("a", "heartbeat", Error.ILLEGAL_GENERATION)
    story.pass_time(1500)
    assert story.of("assigned") == []
    story.poll(60_000)
    assert [len(partitions) for partitions in story.of("assigned")] == [2]
    (_, first), (_, second), (_, third), *_ = (
        args for args, _ in story.cluster.coordinator.of("join_group")
    )
    assert (first, third) == ("", "") != second  # it has given up its id


@pytest.mark.parametrize(
    ("op", "error", "keeps_id"),
    [("join_group", "UNKNOWN_MEMBER_ID", False), ("sync_group", "UNKNOWN_MEMBER_ID", False),
     ("sync_group", "ILLEGAL_GENERATION", True), ("sync_group", "REBALANCE_IN_PROGRESS", True),
     ("join_group", "COORDINATOR_LOAD_IN_PROGRESS", True),
     ("sync_group", "NOT_COORDINATOR", True), ("join_group", "NOT_COORDINATOR", True),
     ("sync_group", "COORDINATOR_NOT_AVAILABLE", True),
     ("join_group", "COORDINATOR_NOT_AVAILABLE", True)],
)  # fmt: skip
def test_a_join_that_is_refused_is_repeated_with_the_same_id_if_it_may_be_known(
    op, error, keeps_id
):
    # JoinGroupResponseHandler, SyncGroupResponseHandler
    story, coordinator = recorded(CLASSIC | DYNAMIC)
    member = story.consumers["a"].group_metadata().member_id
    story.cluster.network.fail("a", op, Error[error])
    if error in ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"):  # it is looked up again
        story.cluster.network.fail("a", "find_coordinator", Error.COORDINATOR_NOT_AVAILABLE)
    story.consumers["a"].enforce_rebalance()
    joins = len(coordinator.of("join_group")) + (op == "sync_group")
    story.poll(60_000)
    assert story.cluster.network.host("a").faults == []
    assert coordinator.of("join_group")[joins][0] == ("g", member if keeps_id else "")
    assert story.owned() == {"a": [0, 1]}


@pytest.mark.parametrize("settings", [CLASSIC | DYNAMIC, CONSUMER | DYNAMIC],
                         ids=["classic", "consumer"])  # fmt: skip
def test_after_unsubscribing_it_commits_from_outside_and_joins_as_a_new_member(settings):
    story, coordinator = recorded(settings)
    consumer = story.consumers["a"]
    consumer.unsubscribe()
    consumer.commit({FIRST: 4})
    assert coordinator.of("offset_commit")[-1] == (
        ("g", {FIRST: OffsetAndMetadata(4)}),
        {"generation_id": -1, "member_id": "", "group_instance_id": None},
    )
    consumer.subscribe(["orders"])
    story.poll(60_000)
    assert story.owned() == {"a": [0, 1]}
    if "group.protocol" not in settings:
        ids = [member for (_, member), _ in coordinator.of("join_group")]
        assert ids[0] == ids[2] == "" != ids[1] != ids[3]


def test_who_has_no_member_id_yet_does_not_leave():
    # AbstractCoordinator.maybeLeaveGroup: generation.hasMemberId
    story = Story(1, interval_ms=None, make_coordinator=Recorder)
    consumer = story.start("a", CLASSIC | DYNAMIC)
    story.cluster.network.slow("a", 200)
    consumer.poll(700)  # the coordinator is found, and JoinGroup is under way
    assert story.of("join")
    consumer.unsubscribe()
    story.pass_time(1000)
    assert story.cluster.coordinator.of("leave_group") == []


def test_the_answer_to_a_heartbeat_from_before_it_left_gives_a_member_no_epoch():
    # AbstractMembershipManager.onHeartbeatSuccess: ignored while it is leaving, and outside
    story, coordinator = recorded(CONSUMER | DYNAMIC)
    consumer, count = story.consumers["a"], len(coordinator.of("consumer_group_heartbeat"))
    story.cluster.network.slow("a", 300)
    while len(coordinator.of("consumer_group_heartbeat")) == count:
        story.pass_time(50)
    consumer.unsubscribe()
    consumer.commit({FIRST: 4})
    assert coordinator.of("offset_commit")[-1][1]["generation_id"] == -1


def test_committed_offsets_are_fetched_anew_by_each_call():
    story, coordinator = recorded(CLASSIC)
    consumer, count = story.consumers["a"], len(coordinator.of("offset_fetch"))
    for offset in (5, 7):
        consumer.commit({SECOND: offset})
        assert consumer.committed([SECOND, FIRST]) == {SECOND: OffsetAndMetadata(offset),
                                                       FIRST: None}  # fmt: skip
    assert len(coordinator.of("offset_fetch")) == count + 2


def test_positions_are_committed_before_each_rebalance():
    story, coordinator = recorded(
        CLASSIC | {"enable.auto.commit": True, "auto.commit.interval.ms": 10**6}
    )
    for count in (1, 2, 3):
        story.consumers["a"].enforce_rebalance()
        story.poll(5000)
        assert len(coordinator.of("offset_commit")) == count


def test_a_member_that_leads_no_more_leaves_changed_topics_to_the_leader():
    # ConsumerCoordinator.onJoinComplete: only the leader watches the metadata
    story = Story(2, make_coordinator=Recorder)
    for name, age_ms in (("a", 20_000), ("b", 10**6)):
        story.start(name, {"metadata.max.age.ms": age_ms, "session.timeout.ms": 6000})
        story.poll()
    story.cluster.network.fail("a", "heartbeat", Error.UNKNOWN_MEMBER_ID)
    story.poll(60_000)  # its former member is removed, and b leads
    joins = len(story.cluster.coordinator.of("join_group"))
    story.cluster.add_partitions("orders", 3)
    story.poll(60_000)
    assert len(story.cluster.coordinator.of("join_group")) == joins
