"""A what-if of consumer groups: the same without changes, and clients that react with them."""

import json

import pytest

from coterie import CoterieError, Error, GroupCoordinator, load_trace
from coterie.coordinator.recording import Recording
from coterie.coordinator.whatif import Changes, _recorded, _Replay, what_if
from coterie.coordinator.whatif_consumers import ConsumerClient
from coterie.testing import Member, subscription
from support.consumer_groups import golden

SESSION = "group.consumer.session.timeout.ms"


@pytest.mark.parametrize("name", golden.names()[::7])
def test_without_changes_every_client_does_what_the_trace_has(name):
    trace = load_trace(golden.trace(name))
    replay = _Replay(trace, Changes())
    replay.run()
    responses = {e.id: e.response for e in replay.events if type(e).__name__ == "Response"}
    assert responses == _recorded(trace)
    before, after = what_if(trace, Changes())
    assert before == after


class Story:
    """A recorded run of members of the consumer protocol, which poll each second."""

    def __init__(self, **config):
        self.coordinator = GroupCoordinator({"coterie.behaviour": "4.1", **config})
        self.recording = Recording()
        self.coordinator._record_into(self.recording)
        self.coordinator.set_topics({"t": 4})

    def member(self, name, **options):
        return Member(
            self.coordinator, "g", client_id=name, topics=["t"], protocol="consumer", **options
        )

    def run(self, *members, s):
        for _ in range(s):
            for one in members:
                one.poll()
            self.coordinator.advance_by(1000)

    def what_if(self, **changes):
        lines = self.recording.lines("story", self.coordinator.config, self.coordinator.now_ms)
        return what_if(load_trace(map(json.dumps, lines)), Changes(**changes))


def test_a_member_that_a_shorter_session_evicts_joins_again_and_acknowledges():
    story = Story()
    one, two = story.member("a"), story.member("b")
    story.run(one, two, s=30)
    story.run(one, s=25)  # the other one pauses
    story.run(one, two, s=30)
    assert two.commit({("t", 3): 1}).response.partitions[0].error.name == "NONE"
    recorded, changed = story.what_if(config={SESSION: 20_000})
    assert (recorded.session_evictions, recorded.rebalances, recorded.refused_requests) == (0, 2, 0)
    assert changed.session_evictions == 1
    assert changed.rebalances == 4  # it is removed, and it is back
    assert changed.refused_requests == 1  # its heartbeat after the pause; the commit counts
    assert changed.ms_in_state["Stable"] > 0.8 * recorded.ms_in_state["Stable"]


def test_a_member_whose_join_is_not_answered_before_its_session_ends_is_counted():
    story = Story()
    story.coordinator.handle({"op": "hold_commits"})
    story.coordinator.consumer_group_heartbeat(
        "g", "m", 0, subscribed_topic_names=["t"], rebalance_timeout_ms=10_000, topic_partitions=[]
    )
    story.run(s=60)
    story.coordinator.handle({"op": "release_commits"})
    for summary in story.what_if():
        assert (summary.session_evictions, summary.rebalance_evictions) == (1, 0)


JOINING = ("rack", 10_000, ("t",), None, None, {}, "c", "/h", 1)


def joined_and_fenced():
    """The responses to a heartbeat that joins, and to one of a wrong epoch."""
    coordinator = GroupCoordinator({"coterie.behaviour": "4.1"})
    coordinator.set_topics({"t": 2})
    joined = coordinator.consumer_group_heartbeat(
        "g", "m", 0, subscribed_topic_names=["t"], rebalance_timeout_ms=10_000, topic_partitions=[]
    )
    fenced = coordinator.consumer_group_heartbeat("g", "m", 77)
    assert joined.assignment is not None
    assert fenced.error is Error.FENCED_MEMBER_EPOCH
    return joined, fenced


def test_a_client_that_is_fenced_joins_again_each_time_but_not_at_once_after_such_a_join():
    client, (joined, fenced) = ConsumerClient(), joined_and_fenced()
    client.request(0, JOINING)
    client.record(joined)
    client.take(joined, joined)
    for _ in range(2):
        assert client.take(fenced, joined) == (0, JOINING)
        assert client.take(fenced, None) is None
        owned = client.take(joined, None)[1][5]  # it acknowledges at once
        assert list(owned.values()) == [(0, 1)]


def test_a_client_that_is_fenced_at_its_first_request_joins_again():
    client, (joined, fenced) = ConsumerClient(), joined_and_fenced()
    client.request(0, JOINING)
    assert client.take(fenced, joined) == (0, JOINING)


def test_a_client_that_is_fenced_in_both_runs_joins_again_as_the_trace_has_it():
    client, (joined, fenced), details = ConsumerClient(), joined_and_fenced(), JOINING
    assert client.request(0, details) == (0, details)
    for response in (joined, fenced):
        client.record(response)
        assert client.take(response, response) is None
    again = (None, 10_000, ("t", "u"), None, None, {}, "c", "/h", 1)  # without a rack
    assert client.request(0, again) == (0, again)


T = bytes(range(16))
NO_TIMEOUT = (None, -1, None, None, None)


@pytest.mark.parametrize(
    ("epoch", "owned", "sent", "shown"),
    [  # it is at epoch 5 and has partitions 0 and 1; in the trace it is at epoch 3 and has 0
        (5, (0, 1), (3, (2,)), (5, (2,))),  # as wrong as in the trace, with its own epoch
        (5, (0, 1), (2, (2,)), (2, (2,))),  # a wrong epoch stays wrong
        (5, (0, 1), (3, (0,)), (5, (0, 1))),  # what it has it names as it has it
        (5, None, (3, (0,)), (5, None)),  # and that is nothing
        (5, (0, 1), (0, None), (5, (0, 1))),  # a member has no reason to join
        (0, None, (3, (0,)), (0, None)),  # one that is none does
        (5, (0, 1), (-1, (2,)), (-1, (2,))),  # it leaves
    ],
)
def test_a_client_that_is_out_of_step_sends_its_own_epoch_and_partitions(epoch, owned, sent, shown):
    def named(partitions):
        return {} if partitions is None else {T: partitions}

    client = ConsumerClient(epoch=epoch, owned=owned and {T: owned})
    client.recorded_epoch, client.recorded_owned = 3, {T: (0,)}
    came = client.request(sent[0], (*NO_TIMEOUT, named(sent[1]), "c", "/h", 1))
    assert (came[0], came[1][5]) == (shown[0], named(shown[1]))


def test_a_client_that_becomes_static_is_not_missed_while_it_restarts():
    story = Story()
    one, two = story.member("a"), story.member("b")
    story.run(one, two, s=30)
    two.leave()
    story.run(one, s=10)
    story.run(one, story.member("b"), s=30)
    recorded, changed = story.what_if(static=frozenset({"b"}))
    assert recorded.rebalances == 4  # two join, one leaves and comes back
    assert changed.rebalances == 2
    assert changed.refused_requests == 0
    for summary in (recorded, changed):  # who leaves is not evicted
        assert (summary.session_evictions, summary.rebalance_evictions) == (0, 0)


@pytest.mark.parametrize("settings", [[], [{"consumer.session.timeout.ms": 60_000}, {}]])
def test_a_member_that_does_not_revoke_is_an_eviction_by_the_rebalance_timeout(settings):
    """Also of a group whose own settings were taken back: it has the broker's session again."""
    story = Story()
    for config in settings:
        story.coordinator.handle({"op": "group_config", "group_id": "g", "config": config})
    story.run(s=100)
    one, two = story.member("a", rebalance_timeout_ms=20_000), story.member("b")
    story.run(one, two, s=1)
    for _ in range(40):
        if one.heartbeat_due:
            one.receive(one.send())
        story.run(two, s=1)
    recorded, _ = story.what_if()
    assert (recorded.session_evictions, recorded.rebalance_evictions) == (0, 1)


def test_each_eviction_of_a_classic_member_has_its_cause_also_under_its_new_ids():
    """It pauses twice for longer than its session of 8 s, and joins again with another id."""
    story = Story()
    old = Member(story.coordinator, "g", client_id="a", topics=["t"], session_timeout_ms=20_000)
    new = story.member("b")
    story.run(new, s=1)
    for _ in range(2):
        story.run(old, new, s=9)
        story.run(new, s=12)
    recorded, changed = story.what_if(scale_session={"a": 0.4})
    assert (recorded.session_evictions, recorded.rebalance_evictions) == (0, 0)
    assert (changed.session_evictions, changed.rebalance_evictions) == (2, 0)


def test_a_classic_member_that_heartbeats_but_does_not_join_is_late_for_the_rebalance():
    """Its session of 10 s never ends; it hears of the third member, and has 20 s to join."""
    story = Story()
    times = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 20_000}
    old = Member(story.coordinator, "g", client_id="a", topics=["t"], **times)
    new, third = story.member("b"), story.member("c")
    story.run(new, s=1)
    story.run(old, new, s=30)
    for _ in range(40):
        story.coordinator.heartbeat("g", old.generation_id, old.member_id)
        story.run(new, third, s=1)
    for summary in story.what_if():
        assert (summary.session_evictions, summary.rebalance_evictions) == (0, 1)


def test_a_classic_member_that_joins_and_does_not_sync_is_late_for_the_rebalance():
    """It joined at 100 s, and has 20 s to sync; its session of 30 s is longer."""
    story = Story()
    new = story.member("b")
    story.run(new, s=100)
    story.coordinator.join_group(
        "g", protocol_type="consumer", protocols={"range": subscription(["t"])},
        session_timeout_ms=30_000, rebalance_timeout_ms=20_000,
    )  # fmt: skip
    story.run(new, s=40)
    for summary in story.what_if():
        assert (summary.session_evictions, summary.rebalance_evictions) == (0, 1)


def test_a_session_of_the_group_itself_is_the_one_that_counts():
    story = Story()
    config = {"consumer.session.timeout.ms": 60_000}
    story.coordinator.handle({"op": "group_config", "group_id": "g", "config": config})
    one = story.member("a")
    story.run(one, s=10)
    story.coordinator.advance_by(70_000)
    recorded, changed = story.what_if(config={SESSION: 10_000})
    assert recorded == changed
    assert recorded.session_evictions == 1


def test_states_of_consumer_groups_have_rows_of_their_own():
    story = Story()
    one, two = story.member("a"), story.member("b")
    story.run(one, two, s=30)
    recorded, _ = story.what_if()
    rows = recorded.rows()
    assert rows["ms in Reconciling"] == 5_000  # both heartbeat then: one revokes, one is assigned
    assert rows["ms in Stable"] == 30_000 - 5_000


def test_a_session_cannot_be_scaled_by_client():
    story = Story()
    story.run(story.member("a"), s=10)
    with pytest.raises(
        CoterieError, match="the session of 'a' in group 'g' is a setting of the br"
    ):
        story.what_if(scale_session={"a": 0.5})


def test_a_group_is_in_one_state_at_each_time_also_when_its_type_changes():
    """It has a first state when the first member joins, at 0, and converts at 20 s and 60 s."""
    story = Story()
    old = Member(story.coordinator, "g", client_id="a", topics=["t"])
    new = story.member("b")
    story.run(old, s=20)
    story.run(old, new, s=20)
    old.leave()
    story.run(new, s=20)
    new.leave()
    story.run(Member(story.coordinator, "g", client_id="c", topics=["t"]), s=20)
    recorded, changed = story.what_if()
    assert recorded == changed
    assert sum(recorded.ms_in_state.values()) == 80_000
    assert recorded.ms_in_state["PreparingRebalance"] == 2 * 3000  # the initial delay, twice
    assert (recorded.session_evictions, recorded.rebalance_evictions) == (0, 0)
