"""The scripted member of the consumer protocol acts as Kafka's client (KIP-848).

Source: ConsumerMembershipManager, AbstractMembershipManager, ConsumerHeartbeatRequestManager and
their tests.
"""

import random

import pytest

from coterie import ArgumentError, CoterieError, Error, GroupCoordinator
from coterie.testing import ClassicMember, ConsumerMember, Member, MemberState

EVERY = [("t", number) for number in range(4)]


@pytest.fixture
def coordinator():
    made = GroupCoordinator({"coterie.behaviour": "4.1"})
    made.set_topics({"t": 4})
    return made


class Calls(list):
    """The calls of a rebalance listener, with what the member owned and was during each."""

    def __init__(self, does=None):
        super().__init__()
        self.member, self.does = None, does

    def __call__(self, what, partitions):
        self.append((what, partitions))
        if self.does:
            self.does(self.member, what, partitions)


def member(coordinator, client_id="a", *, does=None, **options):
    calls = Calls(does)
    options = {"topics": ["t"], **options}
    made = Member(
        coordinator, "g", client_id=client_id, protocol="consumer", on_rebalance=calls, **options
    )
    calls.member = made
    made.calls = calls
    return made


def drive(coordinator, *members, ms):
    """Let members poll each second, the first time now."""
    for _ in range(0, ms, 1000):
        for one in members:
            one.poll()
        coordinator.advance_by(1000)


def test_an_assignment_is_in_the_order_of_names_whatever_ids_topics_have():
    for names in ("abcdefg", "gfedcba"):
        made = GroupCoordinator({"coterie.behaviour": "4.1"})
        made.set_topics(dict.fromkeys(names, 1))
        one = member(made, topics=list(names))
        drive(made, one, ms=3000)
        assert list(one.assignment) == sorted(names)


def requests(coordinator, monkeypatch):
    """Record the heartbeats from now on: (epoch, fields)."""
    seen = []
    send = coordinator.consumer_group_heartbeat

    def recorded(group_id, member_id, epoch, **fields):
        seen.append((epoch, fields))
        return send(group_id, member_id, epoch, **fields)

    monkeypatch.setattr(coordinator, "consumer_group_heartbeat", recorded)
    return seen


def described(coordinator):
    (group,) = coordinator.consumer_group_describe(["g"]).groups
    return group


def test_the_protocol_chooses_the_class(coordinator):
    made = Member(coordinator, "g", client_id="a", protocol="consumer")
    assert isinstance(made, ConsumerMember)
    assert isinstance(Member(coordinator, "g", client_id="a"), ClassicMember)


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"protocol": "share"}, "protocol must be one of 'classic', 'consumer', not 'share'"),
        ({"protocol": []}, "protocol must be one of"),
        ({"protocol": "consumer", "assignor": "roundrobin"}, "assignor is no option"),
        ({"protocol": "consumer", "session_timeout_ms": 6000}, "session_timeout_ms is no option"),
        ({"protocol": "consumer", "session_timeout_ms": 45e3}, "session_timeout_ms is no option"),
        ({"protocol": "consumer", "heartbeat_interval_ms": 1}, "heartbeat_interval_ms is no opt"),
        ({"protocol": "consumer", "subscribed_topic_regex": ""}, "subscribed_topic_regex must not"),
        ({"protocol": "consumer", "auto_commit_interval_ms": -1}, "auto_commit_interval_ms"),
        ({"server_assignor": "range"}, "server_assignor is no option"),
        ({"subscribed_topic_regex": "t.*"}, "subscribed_topic_regex is no option"),
        ({"rack_id": "r"}, "rack_id is no option"),
    ],
    ids=str,
)
def test_an_option_that_no_consumer_of_the_protocol_has_is_refused(coordinator, wrong, named):
    with pytest.raises(ArgumentError, match=named):
        Member(coordinator, "g", client_id="a", topics=["t"], **wrong)


def test_a_hand_over_revokes_then_acknowledges_before_the_other_is_assigned(coordinator):
    one, two = member(coordinator, "a"), member(coordinator, "b")
    one.poll()
    assert one.calls == [("assigned", EVERY)]
    coordinator.advance_by(1000)
    two.poll()
    assert two.calls == [("assigned", [])]  # even if nothing was added
    assert (one.assignment, two.assignment) == ({"t": [0, 1, 2, 3]}, {})
    coordinator.advance_by(4000)
    one.poll()
    assert one.calls[1:] == [("revoked", EVERY[2:]), ("assigned", [])]
    assert two.assignment == {}  # it learns with its next heartbeat
    coordinator.advance_by(1000)
    two.poll()
    assert two.calls[1:] == [("assigned", EVERY[2:])]
    assert described(coordinator).state == "Stable"
    assert (one.stable, one.generation_id, two.generation_id) == (True, 2, 2)


def test_a_member_heartbeats_at_the_interval_of_the_coordinator(monkeypatch):
    coordinator = GroupCoordinator(
        {"coterie.behaviour": "4.1", "group.consumer.heartbeat.interval.ms": 7000}
    )
    coordinator.set_topics({"t": 1})
    one, seen = member(coordinator), requests(coordinator, monkeypatch)
    times = []
    for _ in range(22):
        before = len(seen)
        one.poll()
        times += [coordinator.now_ms] * (len(seen) - before)
        coordinator.advance_by(1000)
    assert times == [0, 0, 7000, 14_000, 21_000]  # joins, acknowledges, heartbeats


def test_a_heartbeat_has_only_what_changed_and_one_after_an_error_has_all(coordinator, monkeypatch):
    one, seen = member(coordinator, rack_id="r"), requests(coordinator, monkeypatch)
    one.poll()
    coordinator.advance_by(5000)
    one.poll()
    (join, acknowledgement, heartbeat) = seen
    assert join[0] == 0
    assert join[1].keys() >= {"rebalance_timeout_ms", "subscribed_topic_names", "rack_id"}
    assert join[1]["topic_partitions"] == []
    assert acknowledgement[0] == 1
    ((topic,), changed) = acknowledgement[1].pop("topic_partitions"), acknowledgement[1]
    assert topic["partitions"] == (0, 1, 2, 3)
    assert changed == heartbeat[1] == {"instance_id": None, "client_id": "a"}
    coordinator.fail_append("NOT_ENOUGH_REPLICAS")
    coordinator.set_topics({"t": 5})
    coordinator.advance_by(5000)
    one.poll()
    assert one.events[-1] == (10_000, "heartbeat refused", "COORDINATOR_NOT_AVAILABLE")
    coordinator.advance_by(100)  # a consumer's retry.backoff.ms
    one.poll()
    assert seen[4][1].keys() >= {"rebalance_timeout_ms", "subscribed_topic_names", "rack_id"}
    assert one.assignment == {"t": [0, 1, 2, 3, 4]}


def test_positions_are_committed_before_the_revocation_and_only_of_what_is_owned(coordinator):
    def look(one, what, partitions):
        committed = coordinator.offset_fetch("g").partitions
        seen.append((what, {p.partition: p.offset for p in committed}))

    seen = []
    one = member(coordinator, does=look, auto_commit_interval_ms=60_000)
    one.poll()
    one.positions = {("t", 0): 5, ("t", 3): 7}
    two = member(coordinator, "b")
    drive(coordinator, two, one, ms=11_000)
    assert seen == [("assigned", {}), ("revoked", {0: 5, 3: 7}), ("assigned", {0: 5, 3: 7})]
    assert one.positions == {("t", 0): 5}
    assert coordinator.now_ms == 11_000
    drive(coordinator, one, two, ms=60_000)
    one.positions["t", 0] = 6
    drive(coordinator, one, two, ms=60_000)  # by its interval
    assert coordinator.offset_fetch("g")["t", 0].offset == 6


def test_an_application_can_commit_in_its_revocation_callback(coordinator):
    def commit(one, what, partitions):
        if what == "revoked":
            answers.append(one.commit(dict.fromkeys(partitions, 9)).response)

    answers = []
    one, two = member(coordinator, does=commit), member(coordinator, "b")
    drive(coordinator, one, two, ms=11_000)
    assert [p.error for p in answers[0].partitions] == [Error.NONE] * 2
    one.leave()
    assert [p.error for p in answers[1].partitions] == [Error.NONE] * 2


def test_a_fenced_member_loses_its_partitions_and_joins_with_epoch_0_and_its_own_id(
    coordinator, monkeypatch
):
    one = member(coordinator, auto_commit_interval_ms=0)
    one.poll()
    one.positions = {("t", 0): 5}
    own_id = one.member_id
    coordinator.advance_by(45_000)  # its session
    seen = requests(coordinator, monkeypatch)
    one.poll()
    assert one.calls == [("assigned", EVERY), ("lost", EVERY), ("assigned", EVERY)]
    assert [epoch for epoch, _ in seen] == [1, 0, 3]  # two epochs: it was removed, and is back
    assert (one.member_id, one.stable) == (own_id, True)
    assert coordinator.offset_fetch("g").partitions == ()  # what is lost is not committed


def test_a_member_that_never_finishes_revoking_is_removed_by_its_rebalance_timeout(coordinator):
    one, two = member(coordinator, rebalance_timeout_ms=20_000), member(coordinator, "b")
    drive(coordinator, one, two, ms=1000)
    while coordinator.now_ms < 30_000:
        if one.heartbeat_due:
            one.receive(one.send())  # it heartbeats, and reconciles nothing
        two.poll()
        coordinator.advance_by(1000)
    assert two.assignment == {"t": [0, 1, 2, 3]}
    assert one.assignment == {"t": [0, 1, 2, 3]}  # it was removed: both consume
    one.poll()
    assert one.calls[1] == ("lost", EVERY)


def test_a_member_that_does_not_poll_leaves_and_comes_back_with_its_next_poll(coordinator):
    one, two = member(coordinator, rebalance_timeout_ms=10_000), member(coordinator, "b")
    drive(coordinator, one, two, ms=8000)
    assert one.assignment == {"t": [0, 1]}
    while one.state is not MemberState.STALE:
        coordinator.advance_by(1000)
        one.heartbeat()
    assert coordinator.now_ms == 17_000  # the last poll was at 7000
    assert len(described(coordinator).members) == 1
    assert one.calls[-1][0] != "lost"  # callbacks need a poll
    one.poll()
    assert [what for what, _ in one.calls[-2:]] == ["lost", "assigned"]


@pytest.mark.parametrize(("instance", "epoch"), [(None, -1), ("i", -2)])
def test_a_member_leaves_after_its_revocation(coordinator, monkeypatch, instance, epoch):
    one = member(coordinator, group_instance_id=instance)
    one.poll()
    seen = requests(coordinator, monkeypatch)
    response = one.leave()
    assert (response.error, response.member_epoch) == (Error.NONE, epoch)
    assert [sent for sent, _ in seen] == [epoch]
    assert one.calls == [("assigned", EVERY), ("revoked", EVERY)]
    assert [what for _, what, _ in one.events[-2:]] == ["revoked", "leave"]


def test_a_static_member_that_comes_back_in_time_gets_its_partitions_and_nobody_else_moves(
    coordinator,
):
    one, two = member(coordinator, group_instance_id="i"), member(coordinator, "b")
    drive(coordinator, one, two, ms=12_000)
    one.leave()
    back = member(coordinator, "new", group_instance_id="i")
    calls = list(two.calls)
    drive(coordinator, back, two, ms=12_000)
    assert back.assignment == {"t": [0, 1]}
    assert two.calls == calls


def test_an_instance_that_another_has_is_fatal_and_says_so(coordinator):
    first = member(coordinator, group_instance_id="i")
    first.poll()
    second = member(coordinator, "b", group_instance_id="i")
    with pytest.raises(CoterieError, match="heartbeat was refused with UNRELEASED_INSTANCE_ID"):
        second.poll()
    assert second.state is MemberState.FATAL
    count = len(coordinator.events)
    second.poll()
    assert len(coordinator.events) == count  # it sends nothing any more


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"server_assignor": "sticky"}, "UNSUPPORTED_ASSIGNOR"),
        ({"subscribed_topic_regex": "("}, "INVALID_REGULAR_EXPRESSION"),
    ],
)
def test_an_error_that_a_client_does_not_repeat_is_raised_by_poll(coordinator, options, error):
    if "subscribed_topic_regex" in options:
        pytest.importorskip("re2")
    with pytest.raises(CoterieError, match=error):
        member(coordinator, **options).poll()


def test_the_server_assignor_of_the_member_is_used(coordinator):
    one, two = (member(coordinator, name, server_assignor="range") for name in "ba")
    drive(coordinator, one, two, ms=20_000)
    assert described(coordinator).assignor_name == "range"
    assert (two.assignment, one.assignment) == ({"t": [0, 1]}, {"t": [2, 3]})  # by member id


def test_an_unsubscribed_member_stays_out_until_it_subscribes(coordinator):
    one = member(coordinator)
    one.poll()
    one.unsubscribe()
    assert one.calls[1:] == [("revoked", EVERY)]
    drive(coordinator, one, ms=10_000)
    assert described(coordinator).members == ()
    answer = one.commit({("t", 0): 4})  # from outside
    assert answer.response.partitions[0].error is Error.NONE
    one.subscribe(["t"])
    one.poll()
    assert one.assignment == {"t": [0, 1, 2, 3]}


def test_a_new_subscription_goes_with_the_next_heartbeat(coordinator):
    coordinator.set_topics({"u": 1})
    one = member(coordinator)
    one.poll()
    one.subscribe(["t", "u"])
    one.poll()
    assert one.assignment == {"t": [0, 1, 2, 3]}  # not before
    coordinator.advance_by(5000)
    one.poll()
    assert one.assignment == {"t": [0, 1, 2, 3], "u": [0]}
    assert one.calls[1:] == [("assigned", [("u", 0)])]


def test_a_regular_expression_takes_topics_and_an_empty_one_drops_it(coordinator, monkeypatch):
    pytest.importorskip("re2")
    one = member(coordinator, topics=(), subscribed_topic_regex="t.*")
    seen = requests(coordinator, monkeypatch)
    drive(coordinator, one, ms=6000)
    assert one.assignment == {"t": [0, 1, 2, 3]}
    coordinator.set_topics({"t2": 1})
    drive(coordinator, one, ms=30_000)
    assert one.assignment == {"t": [0, 1, 2, 3], "t2": [0]}
    one.subscribe(["t"])
    drive(coordinator, one, ms=6000)
    changed = [f["subscribed_topic_regex"] for _, f in seen if "subscribed_topic_regex" in f]
    assert changed == ["t.*", ""]


def test_a_callback_that_raises_is_called_again_by_the_next_poll(coordinator):
    def fail(one, what, partitions):
        if what == "revoked" and len(one.calls) < 3:
            raise ValueError("the application failed")

    one, two = member(coordinator, does=fail), member(coordinator, "b")
    one.poll()
    two.poll()
    coordinator.advance_by(5000)
    with pytest.raises(ValueError, match="the application failed"):
        one.poll()
    assert one.state is MemberState.RECONCILING
    one.poll()
    assert one.calls[1:] == [("revoked", EVERY[2:])] * 2 + [("assigned", [])]
    assert one.stable


def test_a_member_that_leaves_within_a_callback_is_assigned_nothing(coordinator):
    def leave(one, what, partitions):
        if what == "revoked" and len(partitions) == 2 and one.events[-1][1] != "leave":
            one.on_rebalance = None
            one.unsubscribe()

    one, two = member(coordinator, does=leave), member(coordinator, "b")
    drive(coordinator, one, two, ms=30_000)
    assert (one.assignment, two.assignment) == ({}, {"t": [0, 1, 2, 3]})
    assert one.state is MemberState.UNSUBSCRIBED


def test_a_response_that_is_lost_is_followed_by_a_full_request(coordinator, monkeypatch):
    one, two = member(coordinator), member(coordinator, "b")
    drive(coordinator, one, two, ms=5000)
    seen = requests(coordinator, monkeypatch)
    one.send()  # the coordinator revokes; the answer is lost
    one.receive(None)
    coordinator.advance_by(100)
    one.poll()
    assert seen[1][1].keys() >= {"rebalance_timeout_ms", "topic_partitions"}
    assert one.assignment == {"t": [0, 1]}


def test_after_a_failover_a_member_goes_on_without_a_rebalance(coordinator):
    one, two = member(coordinator), member(coordinator, "b")
    drive(coordinator, one, two, ms=20_000)
    calls = one.calls + two.calls
    coordinator.failover()
    drive(coordinator, one, two, ms=60_000)
    assert one.calls + two.calls == calls
    coordinator.resign()
    drive(coordinator, one, ms=6000)
    assert one.events[-1][1:] == ("heartbeat refused", "NOT_COORDINATOR")
    coordinator.begin_load()
    coordinator.finish_load()
    drive(coordinator, one, two, ms=60_000)
    assert one.calls + two.calls == calls
    assert one.stable


def test_members_of_one_client_id_have_ids_of_their_own_and_the_same_ids_each_time():
    def ids():
        made = GroupCoordinator({"coterie.behaviour": "4.1"})
        return [member(made, name).member_id for name in "aab"]

    assert ids() == ids() == ["a:1", "a:2", "b:1"]


def test_a_crashed_member_sends_nothing_and_the_others_take_over_after_its_session(coordinator):
    one, two = member(coordinator), member(coordinator, "b")
    drive(coordinator, one, two, ms=12_000)
    last_ms = two.next_heartbeat_ms - 5000
    two.crash()
    with pytest.raises(CoterieError, match="has crashed"):
        two.poll()
    while one.assignment != {"t": [0, 1, 2, 3]}:
        one.poll()
        coordinator.advance_by(1000)
    assert last_ms + 45_000 < coordinator.now_ms <= last_ms + 45_000 + 6000


def test_a_sync_is_no_request_of_this_protocol(coordinator):
    with pytest.raises(CoterieError, match="has no SyncGroup"):
        member(coordinator).sync()


def test_a_coordinator_without_consumer_groups_says_which_setting_has_them():
    with pytest.raises(CoterieError, match="consumer groups need coterie"):
        member(GroupCoordinator()).poll()


class Fleet:
    """Members of both protocols, each in a process of its own that may be replaced."""

    def __init__(self, coordinator, seed):
        self.coordinator, self.chance = coordinator, random.Random(seed)
        first = self.chance.choice(["classic", "consumer"])
        self.members = [self.start(name, first) for name in "abc"]
        for _ in range(15):  # until the first generation Kafka cannot convert a classic group
            self.poll()
            coordinator.advance_by(1000)

    def start(self, name, protocol=None):
        protocol = protocol or self.chance.choice(["classic", "consumer"])
        return Member(self.coordinator, "g", client_id=name, topics={"t": 4}, protocol=protocol)

    def step(self, number):
        """Stop a member, which comes back with a protocol drawn anew, or start another one."""
        if self.chance.random() < 0.3:
            self.members.append(self.start(f"n{number}"))
            return
        place = self.chance.randrange(len(self.members))
        leaves = self.chance.random() < 0.7
        (self.members[place].leave if leaves else self.members[place].crash)()
        self.members[place] = self.start(self.members[place].client_id)

    def poll(self):
        self.chance.shuffle(self.members)
        for one in self.members:
            one.poll()

    def owners(self):
        return [(t, n) for one in self.members for t, ns in one.assignment.items() for n in ns]


@pytest.mark.parametrize("seed", range(12))
def test_members_of_both_protocols_never_share_a_partition_and_own_all_in_the_end(
    coordinator, seed
):
    fleet = Fleet(coordinator, seed)
    for number in range(12):
        fleet.step(number)
        for _ in range(fleet.chance.choice([1, 5, 30, 60])):
            fleet.poll()
            assert len(fleet.owners()) == len(set(fleet.owners()))
            coordinator.advance_by(1000)
    for _ in range(120):
        fleet.poll()
        coordinator.advance_by(1000)
    assert sorted(fleet.owners()) == EVERY
    assert all(one.stable for one in fleet.members)
