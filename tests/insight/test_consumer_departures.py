"""How members of a consumer group left, as the times suggest, and who owned what then.

Kafka's rules and clients make the logs: the coordinator of the core, and scripted members, each of
which leaves in a known way.
"""

import json

import pytest

from coterie import GroupCoordinator
from coterie.insight.groups import departures
from coterie.live.watcher import Watcher
from coterie.log.folders import find_segments
from coterie.testing import Member
from support.commandline import coterie, coterie_ok
from support.log_writer import batch
from support.watch.watched import watched_totals

START_MS = 1_795_000_000_000
SECONDS = 1_000


class Group:
    """Members that poll each second, and commit each two seconds; each reads ten records more."""

    def __init__(self, count, poll_interval_ms=300_000):
        self.coordinator = GroupCoordinator({"coterie.behaviour": "4.1"}, now_ms=START_MS)
        self.coordinator.set_topics({"orders": 6})
        self.members = [
            Member(self.coordinator, "g", client_id=f"c{number}", topics=["orders"],
                   protocol="consumer", auto_commit_interval_ms=2_000,
                   rebalance_timeout_ms=poll_interval_ms)
            for number in range(count)
        ]  # fmt: skip
        self.read = {}
        self.records = []
        self.taken = 0

    def run(self, seconds, *, polling=None, beating=(), stuck=()):
        for _ in range(seconds):
            for member in self.members if polling is None else polling:
                for topic, numbers in member.assignment.items():
                    for number in numbers:
                        read = 0 if {member, (topic, number)} & {*stuck} else 10
                        self.read[topic, number] = self.read.get((topic, number), 0) + read
                        member.positions[topic, number] = self.read[topic, number]
                member.poll()
            for member in beating:
                member.heartbeat()
            self.coordinator.advance_by(SECONDS)
            self._take()

    def _take(self):
        new = list(self.coordinator.log)[self.taken :]
        self.taken += len(new)
        self.records += [
            [(self.coordinator.now_ms - SECONDS, key, value) for key, value in one.records]
            for one in new
        ]

    def written(self, folder):
        place = folder / "__consumer_offsets-0"
        place.mkdir()
        offset, data = 0, b""
        for records in self.records:
            data += batch(offset, records)
            offset += len(records)
        (place / f"{0:020}.log").write_bytes(data)
        return folder


def close(group, member):
    member.leave()
    group.run(20, polling=group.members[1:])


def kill(group, member):
    member.crash()
    group.run(80, polling=group.members[1:])


def stop_polling(group, member):
    group.run(60, polling=group.members[1:], beating=[member])


@pytest.mark.parametrize(
    ("leave", "way"),
    [
        (close, departures.CLEAN_CLOSE),
        (kill, departures.EVICTION),
        (stop_polling, departures.POLL_TIMEOUT),
    ],
)
def test_how_a_member_of_a_consumer_group_left_is_suggested_by_its_last_commit(
    leave, way, tmp_path
):
    group = Group(3, poll_interval_ms=20_000 if leave is stop_polling else 300_000)
    group.run(30)
    leave(group, group.members[0])
    ran = coterie_ok("explain", group.written(tmp_path), "--group", "g", "--format", "json")
    rows = json.loads(ran.stdout)
    (cause,) = [
        cause
        for row in rows
        if row["event"] == "epoch"
        for cause in row["causes"]
        if cause["what"] == "left_or_evicted"
    ]
    assert cause["client_id"] == "c0"
    assert departures.named(way, 1) in cause["detail"]
    (summary,) = [row for row in rows if row["event"] == "departures"]
    assert summary["cause"].startswith(f"1 of 1 departure suggests {departures.named(way, 1)}")
    watcher = Watcher(lambda: find_segments([tmp_path]), None, print)
    watcher.step()
    assert watched_totals(watcher)["departures"] == {("g", way): 1}


def test_a_finding_names_the_member_of_a_consumer_group_that_owned_the_partitions(tmp_path):
    group = Group(3)
    group.run(30)
    stuck = group.members[1]
    owned = {(topic, number) for topic in stuck.assignment for number in stuck.assignment[topic]}
    group.run(30, stuck=[stuck])
    stuck.leave()
    group.run(30, polling=[group.members[0], group.members[2]])
    ran = coterie("audit", group.written(tmp_path), "--only", "no_progress", "--format", "json")
    (row,) = json.loads(ran.stdout)
    assert {(place["topic"], place["partition"]) for place in row["partitions"]} == owned
    assert row["members"] == [stuck.member_id]
    assert row["detail"].endswith("; owned by c1 (127.0.0.1)")


def test_a_stall_names_every_member_of_a_consumer_group_that_owned_the_partition(tmp_path):
    group = Group(3)
    group.run(60)
    first, others = group.members[0], group.members[1:]
    place = "orders", first.assignment["orders"][0]
    group.run(100, stuck=[place])
    first.crash()
    group.run(150, polling=others, stuck=[place])
    (second,) = [one for one in others if place[1] in one.assignment["orders"]]
    for one in others:
        one.leave()
        group.run(1, polling=())
    ran = coterie("audit", group.written(tmp_path), "--only", "stall", "--format", "json")
    (row,) = json.loads(ran.stdout)
    assert [client["client_id"] for client in row["clients"]] == [first.client_id, second.client_id]
