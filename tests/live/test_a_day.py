"""Half a day of a cluster in virtual time: ``coterie watch`` follows its log as it is written."""

import random
from collections import Counter

from coterie import Batch, GroupCoordinator
from coterie.testing import Member
from support.commandline import coterie_ok
from support.consumer_groups.log_of_trace import log_of
from support.coordinator.caller_log import FIELDS
from support.growing_log import GrowingLog
from support.watch.watch_process import watching

BEGIN_MS, HOUR_MS = 1_700_000_000_000, 3_600_000
TOPIC, PARTITIONS, MEMBERS = "orders", 6, 3
GROUPS = tuple(f"app-{number}" for number in range(5))
MINUTE_MS, SECOND_MS = 60_000, 1_000
HEARTBEATS_MS = 30_000  # where nothing happens
REWIND_AT = 0


class Cluster:
    """Groups of consumers that commit, crash, leave and come back; what they do is counted."""

    def __init__(self, home):
        self.log, self.end, self.unwritten = GrowingLog(home), 0, []
        self.random = random.Random(24)
        self.coordinator = GroupCoordinator(now_ms=BEGIN_MS, log_sink=self)
        self.committed, self.rewinds = Counter(), Counter()
        self.departures, self.generations = Counter(), Counter()
        self.members = {group: [self.member(group) for _ in range(MEMBERS)] for group in GROUPS}
        self.offset = 1

    def append(self, batch):
        """Take a batch of the coordinator."""
        placed = Batch(self.end, *(getattr(batch, name) for name in FIELDS))
        self.unwritten.append(log_of([placed], self.coordinator.now_ms))
        self.end += len(batch.records)
        return placed.base_offset

    def read(self):
        return ()

    def write(self, torn=0):
        """Write what the coordinator appended, without so many bytes of the last batch."""
        self.log.append(b"".join(self.unwritten), torn)
        self.unwritten = []

    def member(self, group):
        def on_rebalance(what, partitions):
            latest = max(one.generation_id for one in self.members[group])
            self.generations[group,] = max(latest, self.generations[group,])

        topics = {TOPIC: PARTITIONS}
        return Member(
            self.coordinator, group, client_id="app", topics=topics, on_rebalance=on_rebalance
        )

    def live(self, ms, tick_ms):
        """Let so much time pass; all members poll at each tick."""
        for _ in range(ms // tick_ms):
            for members in self.members.values():
                for one in members:
                    one.poll()
            self.coordinator.advance_by(tick_ms)

    def commit(self, group, offset):
        """Let each member commit an offset for all partitions that it owns; return their number."""
        count = 0
        for one in self.members[group]:
            assert one.stable
            owned = [(TOPIC, number) for number in one.assignment.get(TOPIC, ())]
            if owned:
                answer = one.commit(dict.fromkeys(owned, offset)).response
                assert {part.error for part in answer.partitions} == {0}
                count += len(owned)
        self.committed[group,] += count
        return count

    def commit_all(self):
        self.offset += 1
        for group in GROUPS:
            self.commit(group, self.offset)

    def hour(self, number):
        """An hour: a member crashes, another is restarted, and one group goes back and on."""
        end_ms = BEGIN_MS + (number + 1) * HOUR_MS
        crashes, leaves, goes_back = self.random.sample(GROUPS, 3)
        self.live(MINUTE_MS, SECOND_MS)
        self.commit_all()
        self.members[crashes].pop().crash()
        self.departures[crashes, "eviction"] += 1
        self.live(MINUTE_MS, SECOND_MS)
        self.members[crashes].append(self.member(crashes))
        self.live(MINUTE_MS, SECOND_MS)
        self.commit_all()
        self.members[leaves].pop().leave()
        self.departures[leaves, "clean close"] += 1
        self.live(MINUTE_MS, SECOND_MS)
        self.members[leaves].append(self.member(leaves))
        self.live(MINUTE_MS, SECOND_MS)
        self.rewinds[goes_back, TOPIC] += self.commit(goes_back, REWIND_AT)
        while self.coordinator.now_ms < end_ms:
            self.live(MINUTE_MS, HEARTBEATS_MS)
            self.commit_all()


def samples(text, name, *labels):
    """The samples of a family, summed by labels."""
    counts = Counter()
    for line in text.splitlines():
        if line.startswith(name + "{"):
            fields, _, value = line.removeprefix(name + "{").rpartition("} ")
            known = dict(field.split("=", 1) for field in fields.split(","))
            counts[tuple(known[label].strip('"') for label in labels)] += int(value)
    return counts


def test_each_hour_is_counted_as_it_passed_and_as_the_command_counts_it(tmp_path):
    cluster, own = Cluster(tmp_path / "log"), "coterie_consumergroup_"
    with watching(cluster.log.home) as watch:
        for hour in range(12):
            cluster.hour(hour)
            torn = cluster.random.choice([0, 1, 40])
            cluster.write(torn)
            watch.look_again()
            health = watch.health()
            assert (health["ok"], health["rebuilds"]) == (True, 0)
            assert (health["behind_bytes"] > 0) == (torn > 0)
            command = coterie_ok("metrics", cluster.log.home).stdout
            assert watch.get("/metrics")[1].startswith(command)

            cluster.log.complete()  # the rest of the torn batch
            watch.look_again()
            assert watch.health()["behind_bytes"] == 0
            text = watch.get("/metrics")[1]
            commits = samples(text, "kafka_consumer_group_commits_total", "group")
            assert commits == cluster.committed
            assert samples(text, f"{own}rewinds_total", "consumergroup", "topic") == cluster.rewinds
            departed = samples(text, f"{own}departures_total", "consumergroup", "cause")
            assert departed == cluster.departures
            rebalances = samples(text, "kafka_consumergroup_rebalances_total", "consumergroup")
            assert rebalances == cluster.generations
            assert samples(text, f"{own}rebalances_total", "consumergroup") == rebalances
            if hour % 6 == 5:
                cluster.log.roll(cluster.end)
