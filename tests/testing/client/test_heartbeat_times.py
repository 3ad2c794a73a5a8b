"""When heartbeats arrive at the coordinator: as often as agreed, and soon after an error.

Rules: AbstractCoordinator.java and Heartbeat.java; HeartbeatRequestState.java, RequestState.java.
"""

from itertools import pairwise

import pytest

from coterie import Error, GroupCoordinator
from support.consumers import Recorder, Story

CLASSIC, CONSUMER = {"heartbeat.interval.ms": 3000}, {"group.protocol": "consumer"}
PROTOCOLS = pytest.mark.parametrize(
    ("settings", "interval_ms"), [(CLASSIC, 3000), (CONSUMER, 5000)], ids=["classic", "consumer"]
)
SHORT_POLLS_MS, LONG_POLL_MS = 100, 60_000
LATENCY_MS = 1  # a heartbeat is sent when it would arrive


class Beats(GroupCoordinator):
    """Writes down when heartbeats and joins come."""

    def __init__(self, *args, **fields):
        self.beats_ms, self.joins_ms = [], []
        super().__init__(*args, **fields)

    def join_group(self, *args, **fields):
        self.joins_ms.append(self.now_ms)
        return super().join_group(*args, **fields)

    def heartbeat(self, *args, **fields):
        self.beats_ms.append(self.now_ms)
        return super().heartbeat(*args, **fields)

    def consumer_group_heartbeat(self, *args, **fields):
        self.beats_ms.append(self.now_ms)
        return super().consumer_group_heartbeat(*args, **fields)


def joined(settings):
    """A story with a member that owns everything, and the times of the heartbeats to come."""
    story = Story(1, {"coterie.behaviour": "4.1"}, interval_ms=None, make_coordinator=Beats)
    story.start("a", settings)
    story.poll(20_000)
    beats_ms = story.cluster.coordinator.beats_ms
    beats_ms.clear()
    return story, beats_ms


def gaps(beats_ms):
    return [after - before for before, after in pairwise(beats_ms)]


@PROTOCOLS
@pytest.mark.parametrize("poll_ms", [SHORT_POLLS_MS, LONG_POLL_MS])
@pytest.mark.parametrize("slow_ms", [0, 50])
def test_a_member_sends_a_heartbeat_in_each_interval(settings, interval_ms, poll_ms, slow_ms):
    # also if a poll may come less often than a heartbeat, or a poll waits for longer
    story, beats_ms = joined(settings | {"max.poll.interval.ms": interval_ms - 1000})
    if slow_ms:
        story.cluster.network.slow("a", slow_ms)
        story.poll(10_000)
        beats_ms.clear()
    story.poll(LONG_POLL_MS, poll_ms)
    assert set(gaps(beats_ms)) == {interval_ms + LATENCY_MS}


@PROTOCOLS
def test_no_heartbeat_is_sent_while_one_is_under_way(settings, interval_ms):
    # HeartbeatThread.run: hasSentHeartbeat; RequestState.canSendRequest: requestInFlight
    story, beats_ms = joined(settings | {"max.poll.interval.ms": 500})  # a poll is never late
    story.cluster.network.slow("a", 4000)
    story.poll(LONG_POLL_MS, LONG_POLL_MS)
    assert len(beats_ms) > 4
    assert min(gaps(beats_ms)) >= 2 * 4000


def test_a_refused_heartbeat_of_the_consumer_protocol_is_repeated_after_a_growing_backoff():
    begins = []
    for times in range(7):
        story, beats_ms = joined(CONSUMER)
        error = Error.COORDINATOR_LOAD_IN_PROGRESS
        if times:
            story.cluster.network.fail("a", "consumer_group_heartbeat", error, times=times)
        story.poll(20_000, SHORT_POLLS_MS)
        begins.append(beats_ms[0])
        assert set(gaps(beats_ms[1:])) == {5000 + LATENCY_MS}  # after a success all begins anew
    backoffs = gaps(begins)  # and the time to the coordinator and back
    assert [round(ms, -2) for ms in backoffs] == [100, 200, 400, 800, 1000, 1000]


@pytest.mark.parametrize("slow_ms", [0, 1])
@PROTOCOLS
def test_backoffs_of_heartbeats_grow_until_one_succeeds(settings, interval_ms, slow_ms):
    # Heartbeat.failHeartbeat and RequestState: the exponential backoff of KIP-580
    op = "consumer_group_heartbeat" if "group.protocol" in settings else "heartbeat"
    story, beats_ms = joined(settings)
    story.cluster.network.slow("a", slow_ms)
    for times, backoffs_ms in ((3, 100 + 200 + 400), (1, 100), (2, 100 + 200)):
        story.poll(20_000, SHORT_POLLS_MS)
        beats_ms.clear()
        error = Error.COORDINATOR_LOAD_IN_PROGRESS
        story.cluster.network.fail("a", op, error, times=times)
        story.poll(20_000, SHORT_POLLS_MS)
        late_ms = [gap - interval_ms for gap in gaps(beats_ms) if gap > interval_ms + 50]
        assert [round(ms, -2) for ms in late_ms] in ([], [backoffs_ms])
        first_ms = beats_ms[0] - (story.cluster.now_ms - 20_000)
        assert late_ms or backoffs_ms <= first_ms <= interval_ms + backoffs_ms + 50


@PROTOCOLS
def test_the_heartbeat_that_an_old_coordinator_refuses_soon_comes_to_the_new_one(
    settings, interval_ms
):
    due_ms, repeated_ms = [], []
    for times, fails in ((due_ms, False), (repeated_ms, True)):
        story, beats_ms = joined(settings)
        if fails:
            story.cluster.fail_over(0)
        story.poll(interval_ms, SHORT_POLLS_MS)
        times += beats_ms
    assert 0 < repeated_ms[0] - due_ms[0] < 200  # a look-up, and retry.backoff.ms


def test_a_consumer_without_a_listener_takes_and_acknowledges_what_it_is_assigned():
    story = Story(2, {"coterie.behaviour": "4.1"})
    for name in "ab":
        story.start(name, CONSUMER, subscribe=False).subscribe(["orders"])
        story.poll(10_000)
    values = story.poll(20_000)
    assert sorted(map(len, story.owned().values())) == [1, 1]
    assert len(values) >= 38


def test_a_join_that_is_refused_is_repeated_after_a_backoff_in_one_poll():
    story = Story(1, interval_ms=None, make_coordinator=Beats)
    story.start("a", CLASSIC)
    error = Error.COORDINATOR_LOAD_IN_PROGRESS
    story.cluster.network.fail("a", "join_group", error, times=4)
    story.poll(10_000, 10_000)
    first, second = story.cluster.coordinator.joins_ms  # for an id, and with it
    assert 4 * 100 <= first <= 4 * 100 + 20
    assert second - first <= 20
    assert story.of("assigned") == [[("orders", 0)]]


def test_a_join_that_is_fenced_is_repeated_after_a_growing_backoff():
    # as of a member whose old epoch lives until its session ends: its goodbye was lost
    story = Story(1, {"coterie.behaviour": "4.1"}, interval_ms=None)
    error = Error.FENCED_MEMBER_EPOCH
    story.cluster.network.fail("a", "consumer_group_heartbeat", error, times=6)
    story.start("a", CONSUMER)
    story.poll(10_000)
    joins_ms = [at_ms for at_ms, _, kind, _ in story.notes if kind == "join"]
    assert [round(ms, -2) for ms in gaps(joins_ms)] == [100, 200, 400, 800, 1000, 1000]
    assert story.of("assigned") == [[("orders", 0)]]


def test_a_member_that_joins_has_no_generation_yet():
    story = Story(1, interval_ms=None)
    consumer = story.start("a", CLASSIC)
    consumer.poll(100)  # the initial rebalance waits for more members
    assert consumer.group_metadata().generation_id == -1
    story.poll(10_000)
    assert consumer.group_metadata().generation_id == 1


@PROTOCOLS
def test_without_latency_heartbeats_come_exactly_at_the_interval(settings, interval_ms):
    story = Story(1, {"coterie.behaviour": "4.1"}, latency_ms=0, make_coordinator=Beats)
    story.start("a", settings)
    story.poll(20_000)
    assert set(gaps(story.cluster.coordinator.beats_ms[-3:])) == {interval_ms}


@PROTOCOLS
def test_a_member_is_late_max_poll_interval_ms_after_its_last_poll(settings, interval_ms):
    # Heartbeat.pollTimeoutExpired; AbstractHeartbeatRequestManager.pollTimer
    story, _ = joined(settings | {"max.poll.interval.ms": 20_000})
    story.pass_time(1234)
    story.consumers["a"].poll(0)
    polled_ms = story.cluster.now_ms
    story.pass_time(60_000)
    assert [at - polled_ms for at, _, kind, _ in story.notes if kind == "late"] == [20_000]


def test_all_times_of_a_member_begin_anew_with_the_answer_to_its_join():
    # Heartbeat.resetTimeouts, when the heartbeat thread goes on
    story = Story(1, interval_ms=None, make_coordinator=Beats)
    a = story.start("a", CLASSIC | {"max.poll.interval.ms": 5000})
    a.poll(10)
    story.pass_time(4000)
    answered_ms = story.cluster.now_ms  # the answer came before, and is read now
    a.committed([("orders", 0)])
    story.pass_time(60_000)
    assert [at for at, _, kind, _ in story.notes if kind == "late"] == [answered_ms + 5000]
    assert story.cluster.coordinator.beats_ms == [answered_ms + 3000 + LATENCY_MS]


def test_the_session_begins_anew_with_each_generation():
    # else the coordinator would be given up after a rebalance that took longer than the session
    story = Story(2, interval_ms=None, make_coordinator=Recorder)
    settings = CLASSIC | {"session.timeout.ms": 10_000, "max.poll.interval.ms": 20_000}
    for name in "ab":
        story.start(name, settings)
        story.poll(10_000)
    story.consumers.pop("b")  # it polls no more, and the rebalance waits for it
    story.consumers["a"].enforce_rebalance()
    story.poll(30_000)
    recorded = story.cluster.coordinator
    *_, (synced_ms, _, (_, generation, member), _) = (
        one for one in recorded.seen if one[1] == "sync_group"
    )
    beats_ms = [
        at for at, op, args, _ in recorded.seen
        if op == "heartbeat" and args == ("g", generation, member)
    ]  # fmt: skip
    assert generation == 3
    assert beats_ms[0] - synced_ms == 3000


def await_beat(story, beats_ms):
    while not beats_ms:
        story.pass_time(1)


def looks_up(story, ms=50):
    """Whether a client looks for its coordinator within a time."""
    story.cluster.network.fail("a", "find_coordinator", Error.COORDINATOR_NOT_AVAILABLE)
    story.pass_time(ms)
    found = not story.cluster.network.host("a").faults
    story.cluster.network.end_faults("a")
    return found


@pytest.mark.parametrize(("healed_ms", "expected"), [(-10, False), (1, True)])
def test_a_session_without_an_answer_ends_with_a_look_up_of_the_coordinator(healed_ms, expected):
    # Heartbeat.sessionTimeoutExpired: markCoordinatorUnknown; it is checked with each heartbeat
    session_ms = 5 * (3000 + LATENCY_MS)
    story, beats_ms = joined(CLASSIC | {"session.timeout.ms": session_ms})
    await_beat(story, beats_ms)
    story.cluster.network.cut("a")
    story.pass_time(session_ms + healed_ms)
    story.cluster.network.heal("a")
    assert looks_up(story) == expected


@PROTOCOLS
@pytest.mark.parametrize("fault", ["lose_request", "lose_response"])
def test_a_heartbeat_that_is_lost_costs_the_coordinator_and_is_sent_again(
    settings, interval_ms, fault
):
    op = "consumer_group_heartbeat" if "group.protocol" in settings else "heartbeat"
    story, beats_ms = joined(settings)
    getattr(story.cluster.network, fault)("a", op)
    while story.cluster.network.host("a").faults:
        story.pass_time(1)
    assert looks_up(story, 150)
    beats_ms.clear()
    story.pass_time(400)
    assert len(beats_ms) == 1


def test_a_new_generation_begins_with_the_first_backoff():
    story, beats_ms = joined(CLASSIC)
    network, error = story.cluster.network, Error.COORDINATOR_LOAD_IN_PROGRESS
    network.fail("a", "heartbeat", error, times=2)
    while network.host("a").faults:
        story.poll(10, 10)
    story.consumers["a"].enforce_rebalance()
    beats_ms.clear()
    began_ms = story.cluster.now_ms
    network.fail("a", "heartbeat", error)
    story.poll(5000)
    assert len(story.of("assigned")) == 2
    assert round(beats_ms[0] - began_ms - 3000, -2) == 100


def test_a_heartbeat_of_a_former_generation_that_is_refused_changes_nothing():
    # AbstractCoordinator.HeartbeatResponseHandler: generationUnchanged
    story, beats_ms = joined(CLASSIC)
    network = story.cluster.network
    await_beat(story, beats_ms)
    network.slow("a", 1000)
    story.pass_time(3100)  # a heartbeat is under way
    network.slow("a", 0)
    network.fail("a", "heartbeat", Error.UNKNOWN_MEMBER_ID)
    story.consumers["a"].enforce_rebalance()
    story.consumers["a"].poll(100)
    assert story.consumers["a"].group_metadata().generation_id == 2
    story.poll(10_000)
    assert network.host("a").faults == []
    assert [kind for _, _, kind, _ in story.notes if kind in ("lost", "fenced")] == []


@PROTOCOLS
def test_a_late_poll_without_a_coordinator_takes_few_steps(settings, interval_ms):
    # HeartbeatThread.run: the coordinator is looked up first, once in retry.backoff.ms
    story, _ = joined(settings | {"max.poll.interval.ms": 60_000})
    story.cluster.network.cut("a")
    story.pass_time(70_000)
    before = story.cluster.schedule.steps
    story.pass_time(60_000)
    assert story.cluster.schedule.steps - before < 3 * 60_000 / 100
