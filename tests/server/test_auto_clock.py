"""``clock="auto"``: where the clock jumps by itself, and whom it waits for."""

import pytest

from coterie.errors import CoterieError
from coterie.server import Broker
from coterie.server.api.faults import Watch
from coterie.server.auto_clock import AutoClock
from support.server import asking, sockets
from support.server.asking import answer, ask, heartbeat, joining, member, request
from support.server.playing import Server

SESSION_MS = 30_000  # of asking.joining
NO_DELAY = {"group.initial.rebalance.delay.ms": 0}


class Clocked(Server):
    """A server with an automatic clock, whose wall clock is moved by hand."""

    def __init__(self, config=NO_DELAY, kafka="3.9"):
        super().__init__(config, now_ms=0, kafka=kafka)
        self.cluster.topics.create("t", 2)
        self.watch, self._soon = Watch(self.cluster), []
        self.auto = AutoClock(self.cluster, self.watch.delays, self._soon.append)
        self.dispatcher.observer = self._observe

    def _observe(self, call, handler):
        self.auto.hear(call)
        return self.watch(call, handler)

    def wall(self, ms):
        """Let the wall clock go on; return the time of the server's clock."""
        waits = self.cluster.waits
        end_ms = waits.now_ms + ms
        while True:
            while self._soon:
                self._soon.pop(0)()
            due_ms = waits.next_deadline_ms()
            if due_ms is None or due_ms > end_ms:
                waits.advance(end_ms)
                return self.cluster.now_ms
            waits.advance(due_ms)

    def close(self, peer, *, by_client=True):
        peer.leave()
        self.auto.lost(peer.connection, by_client)

    def ids(self, group="g"):
        return [each.member_id for each in self.cluster.groups.snapshot(group).members]


def join(peer, member_id="", group="g", **fields):
    """Send a JoinGroup whose answer may come later."""
    peer.send(request("JoinGroup", 3, joining(group, member_id, **fields)))


def test_an_empty_group_waits_for_members_and_then_no_time_passes():
    server = Clocked({})
    one, two = server.connect(), server.connect()
    join(one)
    assert server.wall(49) == 0
    join(two)  # within the time in which others may come
    assert server.wall(49) == 0
    assert server.wall(1) == 3000  # one came meanwhile, so it waits for more as long again
    assert server.wall(50) == 6000
    assert {answer(peer, "JoinGroup", 3)["generationId"] for peer in (one, two)} == {1}
    assert server.wall(10_000) == 6000  # two members that heartbeat, or are slow to


def test_a_live_member_that_is_slow_to_join_again_is_waited_for():
    server = Clocked()
    one, two = server.connect(), server.connect()
    name, generation = member(one, "g")
    join(two)
    for _ in range(3):
        assert server.wall(SESSION_MS - 1) == 0
        assert server.auto.holding("g") == [name]
        assert ask(one, "Heartbeat", 3, heartbeat("g", name, generation))["errorCode"] == 27
    join(one, name)
    assert server.wall(100) == 0
    assert [answer(peer, "JoinGroup", 3)["generationId"] for peer in (one, two)] == [2, 2]


def test_a_member_has_its_session_from_the_answer_on_however_long_it_waited():
    server = Clocked()
    one, two = server.connect(), server.connect()
    leader, _ = member(one, "g")
    join(two)
    join(one, leader)
    follower = answer(two, "JoinGroup", 3)["memberId"]
    assert answer(one, "JoinGroup", 3)["generationId"] == 2
    ask(one, "SyncGroup", 2, {**heartbeat("g", leader, 2), "assignments": []})
    join(one, leader)
    for _ in range(3):
        assert server.wall(SESSION_MS - 1) == 0
        assert ask(two, "Heartbeat", 3, heartbeat("g", follower, 2))["errorCode"] == 27
    join(two, follower)
    assert answer(one, "JoinGroup", 3)["generationId"] == 3
    assert answer(two, "JoinGroup", 3)["generationId"] == 3
    two.send(request("SyncGroup", 2, {**heartbeat("g", follower, 3), "assignments": []}))
    assert server.wall(SESSION_MS - 1) == 0  # the leader has not sent the assignments yet


def test_a_late_request_of_an_earlier_member_does_not_end_the_present_one():
    server = Clocked()
    one, two = server.connect(), server.connect()
    name, generation = member(one, "g")
    assert ask(one, "Heartbeat", 3, heartbeat("g", "earlier", generation))["errorCode"] == 25
    join(two)
    assert server.wall(SESSION_MS - 1) == 0
    server.close(one)
    assert server.wall(1050) == SESSION_MS
    assert name not in server.ids()


def rejoin(server, peer):
    join(peer)
    return 50


def leave_silently(server, peer):
    server.close(peer)
    return 1050


def lose(server, peer):
    """The broker closes the connection; the client may be about to connect again."""
    server.close(peer, by_client=False)
    return SESSION_MS + 50


def stop(server, peer):
    return SESSION_MS + 50


@pytest.mark.parametrize("end", [rejoin, leave_silently, lose, stop])
def test_a_member_that_is_gone_ends_by_its_session(end):
    server = Clocked()
    gone, live = server.connect(), server.connect()
    name, _ = member(gone, "g")
    after_ms = end(server, gone)
    join(live)
    assert server.wall(after_ms - 1) == 0
    assert name in server.ids()
    assert server.wall(1) == SESSION_MS
    assert name not in server.ids()
    assert answer(live, "JoinGroup", 3)["generationId"] == 2


def test_the_leaders_assignment_is_waited_for_unless_the_leader_is_gone():
    server = Clocked()
    one, two = server.connect(), server.connect()
    name, _ = member(one, "g")
    join(two)
    join(one, name)
    follower = answer(two, "JoinGroup", 3)["memberId"]
    two.send(request("SyncGroup", 2, {**heartbeat("g", follower, 2), "assignments": []}))
    assert server.wall(SESSION_MS - 1) == 0
    server.close(one)
    assert server.wall(1050) == SESSION_MS
    assert answer(two, "SyncGroup", 2)["errorCode"] == 27


def test_a_delay_is_jumped_over_and_the_sessions_of_others_are_not():
    server = Clocked()
    slow, other = server.connect(), server.connect()
    name, generation = member(other, "h")
    server.watch.fail("ListGroups", delay_ms=70_000)
    slow.send(request("ListGroups", 0, {}))
    times_ms = []
    for _ in range(4):
        times_ms.append(server.wall(50))
        assert ask(other, "Heartbeat", 3, heartbeat("h", name, generation))["errorCode"] == 0
    assert times_ms == [29_999, 59_998, 70_000, 70_000]
    assert answer(slow, "ListGroups", 0)["errorCode"] == 0


def test_a_delayed_client_that_goes_takes_its_wait_along():
    server = Clocked()
    peer = server.connect()
    server.watch.fail("ListGroups", delay_ms=70_000)
    peer.send(request("ListGroups", 0, {}))
    server.close(peer)
    assert server.wall(1000) == 0


def consumer(peer, name, epoch, owned=()):
    """A heartbeat of the consumer protocol."""
    body = {"groupId": "g", "memberId": name, "memberEpoch": epoch, "rebalanceTimeoutMs": 60_000,
            "subscribedTopicNames": ["t"], "topicPartitions": list(owned)}  # fmt: skip
    return ask(peer, "ConsumerGroupHeartbeat", 1, body)


def test_partitions_of_a_consumer_that_is_gone_become_free():
    server = Clocked({"group.consumer.session.timeout.ms": 45_000}, kafka="4.1")
    one, two = server.connect(), server.connect()
    assert consumer(one, "one", 0)["memberEpoch"] == 1
    assert consumer(two, "two", 0)["memberEpoch"] == 2
    assert server.wall(10_000) == 0  # the other has to give a partition up
    server.close(one)
    assert server.wall(1050) == 44_999  # both sessions began at 0
    assert consumer(two, "two", 2)["errorCode"] == 0
    assert server.wall(50) == 45_000
    assert server.ids() == ["two"]
    rows = consumer(two, "two", 2)["assignment"]["topicPartitions"]
    assert [row["partitions"] for row in rows] == [[0, 1]]
    assert server.wall(10_000) == 45_000


def test_a_broker_with_an_automatic_clock_ends_a_join_by_itself():
    with Broker(topics={"t": 2}, clock="auto") as broker:
        connection = sockets.connect(broker)
        assert sockets.ask(connection, "JoinGroup", 3, asking.joining("g"))["generationId"] == 1
        assert broker.now_ms == 3000
        broker.advance(30_000)
        assert broker.now_ms == 33_000
        with pytest.raises(CoterieError, match="a history moves the clock itself: it needs clock="):
            broker._on_stage("create_topic", "u", 1)
