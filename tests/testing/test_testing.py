"""The scripted member, the protocol's bytes, the pytest plugin, asyncio."""

import asyncio
import json
import subprocess
import sys
import textwrap
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie import (
    ArgumentError,
    CorruptData,
    Error,
    GroupCoordinator,
    NotAnswered,
    aio,
    messages,
    run_trace,
    testing,
)
from coterie.testing import (
    Member,
    assignment,
    read_assignment,
    read_subscription,
    subscription,
)
from support.examples import examples
from support.log_writer import batch, commit

TOPICS = st.dictionaries(st.text(max_size=5), st.lists(st.integers(0, 9)), max_size=3)


def drive(coordinator, *members, ms, step_ms=1000):
    """Let members poll while time passes."""
    end_ms = coordinator.now_ms + ms
    while True:
        for member in members:
            if not member.crashed:
                member.poll()
        if coordinator.now_ms >= end_ms:
            return
        coordinator.advance(min(coordinator.now_ms + step_ms, end_ms))


def test_two_members_share_a_topic_and_one_takes_it_all_when_the_other_dies():
    coordinator = GroupCoordinator()
    calls = []
    one = Member(coordinator, "g", client_id="a", topics={"t": 4}, session_timeout_ms=10_000)
    one.on_rebalance = lambda what, partitions: calls.append((what, partitions))
    two = Member(coordinator, "g", client_id="b", topics={"t": 4}, session_timeout_ms=10_000)
    drive(coordinator, one, two, ms=10_000)
    assert one.stable
    assert two.stable
    assert (one.assignment, two.assignment) == ({"t": [0, 1]}, {"t": [2, 3]})
    two.crash()
    drive(coordinator, one, ms=20_000)
    assert one.assignment == {"t": [0, 1, 2, 3]}
    assert calls == [
        ("assigned", [("t", 0), ("t", 1)]),
        ("revoked", [("t", 0), ("t", 1)]),
        ("assigned", [("t", 0), ("t", 1), ("t", 2), ("t", 3)]),
    ]


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"session_timeout_ms": -1}, "session_timeout_ms must be from 1"),
        ({"session_timeout_ms": 0}, "session_timeout_ms must be from 1"),
        ({"session_timeout_ms": 2**31}, "session_timeout_ms must be from 1"),
        ({"rebalance_timeout_ms": -1}, "rebalance_timeout_ms must be from 1"),
        ({"heartbeat_interval_ms": 0}, "heartbeat_interval_ms must be from 1"),
        ({"heartbeat_interval_ms": 45_000}, "must be below session_timeout_ms 45000"),
        ({"group_instance_id": ""}, "group_instance_id must not be empty"),
    ],
    ids=str,
)
def test_a_member_refuses_settings_that_no_consumer_has(wrong, named):
    with pytest.raises(ArgumentError, match=named):
        Member(GroupCoordinator(), "g", client_id="c", topics=["t"], **wrong)


def test_a_static_member_that_comes_back_in_time_causes_no_rebalance():
    coordinator = GroupCoordinator()
    make = lambda name: Member(coordinator, "g", client_id=name, topics={"t": 2},  # noqa: E731
                               group_instance_id=name)  # fmt: skip
    one, two = make("a"), make("b")
    drive(coordinator, one, two, ms=10_000)
    generation = one.generation_id
    two.crash()
    back = make("b")
    drive(coordinator, one, back, ms=10_000)
    assert back.assignment == {"t": [1]}
    assert one.generation_id == back.generation_id == generation


def test_a_member_that_leaves_gives_its_partitions_up_at_once():
    coordinator = GroupCoordinator()
    one = Member(coordinator, "g", client_id="a", topics={"t": 3, "u": 1}, assignor="roundrobin")
    two = Member(coordinator, "g", client_id="b", topics={"t": 3, "u": 1}, assignor="roundrobin")
    drive(coordinator, one, two, ms=10_000)
    assert (one.assignment, two.assignment) == ({"t": [0, 2]}, {"t": [1], "u": [0]})
    two.leave()
    drive(coordinator, one, ms=10_000)
    assert one.assignment == {"t": [0, 1, 2], "u": [0]}
    assert one.commit({("t", 0): 7}).response.partitions[0].error is Error.NONE
    assert [what for _, what, _ in one.events][:3] == ["join", "sync", "assigned"]


def test_a_member_that_leaves_while_it_joins_joins_anew_with_the_next_poll():
    coordinator = GroupCoordinator()
    one = Member(coordinator, "g", client_id="a", topics={"t": 1})
    one.poll()  # its JoinGroup waits for the initial rebalance delay
    one.leave()
    drive(coordinator, one, ms=10_000)
    assert one.stable
    assert one.assignment == {"t": [0]}


def test_a_member_commits_its_positions_before_it_gives_partitions_up_and_when_due():
    """Source: ConsumerCoordinator.onJoinPrepare, onLeavePrepare: commit, callback, then leave."""
    coordinator = GroupCoordinator()
    seen = []
    one = Member(coordinator, "g", client_id="a", topics={"t": 2}, auto_commit_interval_ms=20_000)
    one.on_rebalance = lambda what, partitions: seen.append(
        (what, [p.offset for p in coordinator.offset_fetch("g").partitions])
    )
    drive(coordinator, one, ms=5000)
    one.positions = {("t", 0): 1, ("t", 1): 2, ("u", 0): 3}
    drive(coordinator, one, ms=20_000)
    assert [p.offset for p in coordinator.offset_fetch("g").partitions] == [1, 2]
    drive(coordinator, one, ms=60_000)
    commits_ms = [at_ms for at_ms, what, _ in one.events if what == "commit"]
    assert [after - before for before, after in pairwise(commits_ms)] == [20_000] * 3
    one.positions["t", 0] = 8
    one.leave()
    assert seen == [("assigned", []), ("revoked", [8, 2])]
    assert [what for _, what, _ in one.events[-3:]] == ["commit", "revoked", "leave"]
    assert one.positions == {}


def test_a_member_that_loses_its_session_joins_anew():
    coordinator = GroupCoordinator()
    one = Member(coordinator, "g", client_id="a", topics=["t"], session_timeout_ms=10_000)
    drive(coordinator, one, ms=5_000)
    coordinator.advance_by(30_000)  # a pause longer than its session
    drive(coordinator, one, ms=5_000)
    assert one.stable
    assert ("heartbeat refused", "UNKNOWN_MEMBER_ID") in [e[1:] for e in one.events]
    assert ("lost", [("t", 0)]) in [e[1:] for e in one.events]


@given(st.lists(st.text(max_size=5)), st.integers(0, 3), st.one_of(st.none(), st.binary()), TOPICS)
@settings(max_examples=examples(100))
def test_a_subscription_reads_back(topics, version, user_data, owned):
    data = subscription(topics, version, user_data=user_data, owned=owned, generation_id=5,
                        rack_id="r")  # fmt: skip
    read = read_subscription(data)
    assert (read.version, read.topics, read.user_data) == (
        version,
        tuple(sorted(topics, key=lambda name: name.encode("utf-16-be"))),  # Java's order
        user_data,
    )
    assert read.owned == ({t: sorted(p) for t, p in owned.items()} if version else {})
    assert (read.generation_id, read.rack_id) == (5 if version > 1 else -1,
                                                  "r" if version > 2 else None)  # fmt: skip


@given(TOPICS, st.integers(0, 3))
def test_an_assignment_reads_back_and_every_cut_is_refused(partitions, version):
    data = assignment(partitions, version)
    assert read_assignment(data) == partitions
    for cut in range(1, len(data) - 4):
        with pytest.raises(CorruptData):
            read_assignment(data[:cut])
    assert read_assignment(b"") == {}


def test_subscriptions_and_assignments_have_one_public_home():
    assert {"subscription", "assignment"} < set(testing.__all__)
    assert not [name for name in messages.__all__ if name.endswith(("subscription", "assignment"))]


def test_the_documented_bytes_are_written():
    data = bytes.fromhex("0003 00000002 0001 61 0001 62 ffffffff 00000001 0001 61 00000001"
                         "00000001 00000005 0002 7231")  # fmt: skip
    assert subscription(["b", "a"], 3, owned={"a": [1]}, generation_id=5, rack_id="r1") == data


def test_an_asynchronous_test_waits_while_a_task_drives_the_clock():
    async def main():
        coordinator = GroupCoordinator()
        pending = coordinator.join_group(
            "g", protocol_type="consumer", protocols={"range": b""}, client_id="c"
        )
        driver = asyncio.create_task(aio.drive(coordinator, until_ms=10_000))
        answer = await aio.wait(pending)
        lost = coordinator.sync_group("g", 1, "absent")
        assert (await aio.wait(lost)).error is Error.UNKNOWN_MEMBER_ID
        await driver
        return answer, coordinator.now_ms

    answer, now_ms = asyncio.run(main())
    assert (answer.error, now_ms) == (Error.NONE, 10_000)


def test_other_tasks_have_a_turn_at_each_deadline_on_the_way():
    async def main():
        coordinator, seen = GroupCoordinator(), []
        coordinator.join_group("g", protocol_type="consumer", protocols={"range": b""})
        driver = asyncio.create_task(aio.drive(coordinator, until_ms=4000))
        while not driver.done():
            seen.append(coordinator.now_ms)
            await asyncio.sleep(0)
        return seen, coordinator.now_ms

    seen, now_ms = asyncio.run(main())
    assert (sorted(set(seen)), now_ms) == ([0, 3000], 4000)


def test_driving_to_a_time_that_has_passed_changes_nothing():
    coordinator = GroupCoordinator(now_ms=50)
    asyncio.run(aio.drive(coordinator, until_ms=10))
    assert coordinator.now_ms == 50


def test_waiting_for_what_is_dropped_says_so():
    coordinator = GroupCoordinator()
    joins = [coordinator.join_group("g", protocol_type="consumer", protocols={"range": b""},
                                    client_id=c) for c in "ab"]  # fmt: skip
    coordinator.advance(6000)
    follower = joins[1].response.member_id
    waits = coordinator.sync_group("g", 1, follower)
    coordinator.leave_group("g", [follower])
    with pytest.raises(NotAnswered, match="dropped"):
        asyncio.run(aio.wait(waits))


PLUGIN_TESTS = """
import pytest

@pytest.mark.coordinator(config={"group.initial.rebalance.delay.ms": 0})
def test_marked(coordinator):
    answer = coordinator.join_group("g", protocol_type="consumer", protocols={"range": b"x"},
                                    client_id="c")
    coordinator.offset_commit("g", {("t", 0): 5})
    assert coordinator.config["group.initial.rebalance.delay.ms"] == 0
    assert answer.done

def test_fails(coordinator, coordinator_factory):
    coordinator.offset_commit("g", {("t", 0): 5})
    coordinator_factory().offset_commit("second", {("t", 0): 5})
    assert False

def test_of_its_own(coordinator_factory):
    heard = []
    made = coordinator_factory(on_event=heard.append, member_ids=lambda prefix: f"{prefix}/1")
    join = made.join_group("g", protocol_type="consumer", protocols={"range": b"x"}, client_id="c")
    made.advance(4000)
    made.leave_group("g", [join.response.member_id])
    assert join.response.member_id == "c/1"
    assert heard == made.events != []
    late = coordinator_factory(log="held.log")
    assert late.now_ms == 4000
    assert late.offset_fetch("h").partitions[0].offset == 7

def test_one_clock(coordinator_factory):
    one, two = coordinator_factory(), coordinator_factory(appends="deferred")
    coordinator_factory.clock.advance(500)
    assert (one.now_ms, two.now_ms) == (500, 500)
    one.advance_by(10)
    assert (two.now_ms, coordinator_factory.clock.now_ms) == (510, 510)
    with pytest.raises(ValueError, match="shared clock, 510, not 3"):
        coordinator_factory(now_ms=3)

def test_a_load_that_takes_time(coordinator):
    coordinator.resign()
    coordinator.advance_by(10)
    coordinator.begin_load()
    coordinator.finish_load()
"""


@pytest.fixture(scope="module")
def plugged(tmp_path_factory):
    """A run of pytest with the plugin: its output, and the traces that it wrote."""
    folder = tmp_path_factory.mktemp("plugged")
    (folder / "test_it.py").write_text(textwrap.dedent(PLUGIN_TESTS))
    (folder / "held.log").write_bytes(batch(0, [commit(0, group=b"h")]))
    told = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--strict-markers",
         "--coterie-trace=traces"],
        cwd=folder, capture_output=True, text=True,
    )  # fmt: skip
    return told.stdout, {p.name: p for p in (folder / "traces").iterdir()}


def test_the_plugin_gives_coordinators_as_marked(plugged):
    assert "1 failed, 4 passed" in plugged[0]


def test_a_failing_test_shows_its_timeline(plugged):
    assert "coordinator timeline" in plugged[0]
    first, second = plugged[0].split("coordinator timeline 2")
    assert "\ngroup g\n  0:00.000  written: offset of t-0, " in first
    assert "\ngroup second\n  0:00.000  written: offset of t-0, " in second


def test_each_test_becomes_a_trace_that_runs(plugged):
    traces = plugged[1]
    assert sorted(traces) == [
        "test_it.test_a_load_that_takes_time.trace.jsonl",
        "test_it.test_fails-2.trace.jsonl",
        "test_it.test_fails.trace.jsonl",
        "test_it.test_marked.trace.jsonl",
        "test_it.test_of_its_own-2.trace.jsonl",
        "test_it.test_of_its_own.trace.jsonl",
        "test_it.test_one_clock-2.trace.jsonl",
        "test_it.test_one_clock.trace.jsonl",
    ]
    lines = traces["test_it.test_marked.trace.jsonl"].read_text().splitlines()
    header = json.loads(lines[0])
    assert header["config"] == {"group.initial.rebalance.delay.ms": 0}
    assert [x["error"] for x in run_trace(lines) if x["event"] == "response"] == ["NONE", "NONE"]
    lines = traces["test_it.test_of_its_own.trace.jsonl"].read_text().splitlines()
    left = list(run_trace(lines))[-1]
    assert [(m["member_id"], m["error"]) for m in left["members"]] == [("c-00000001", "NONE")]


def test_a_load_that_takes_time_is_told_in_its_trace(plugged):
    lines = plugged[1]["test_it.test_a_load_that_takes_time.trace.jsonl"].read_text().splitlines()
    assert "from 0 to 10 ms the coordinator had resigned" in json.loads(lines[0])["doc"]
    assert [json.loads(line)["op"] for line in lines[1:]] == ["failover", "advance", "failover"]
