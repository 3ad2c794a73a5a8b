"""Random scenarios over all ops that consumers of 0.8.2 have: no crash, and what always holds.

When all is well again (connections, brokers, sessions) and every topic was touched, who owns what
is what the rule of section 5 says, computed here anew from who runs and what it subscribes to.
"""

import json
import random
import re

import pytest

from coterie.designs import run

TOPICS = ("a", "b", "big.c")
GROUPS = ("group1", "g2")
FILTERS = ("a|b", "a,b", '".*"', "big\\..", "[ab]")
BROKERS = (0, 1, 2)
SOON_MS = 120_000


class Maker:
    """Makes the ops of one scenario; keeps what it needs so that each of them is allowed."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.events, self.at = [], 1000
        self.sizes, self.live, self.away = {}, {}, {}
        self.foreign, self.down, self.started, self.ended = [], set(), 0, {}
        self.storage = self.chance.choice(["zookeeper", "zookeeper", "kafka"])
        self.settings = {
            "auto.offset.reset": self.chance.choice(["smallest", "largest"]),
            "auto.commit.enable": self.chance.choice(["true", "true", "false"]),
            "auto.commit.interval.ms": self.chance.choice([700, 60_000]),
            "rebalance.backoff.ms": self.chance.choice([300, 2000]),
            "rebalance.max.retries": 4,
            "offsets.storage": self.storage,
            "dual.commit.enabled": self.chance.choice(["true", "false"]),
            "zookeeper.session.timeout.ms": self.chance.choice([3000, 6000]),
        }

    def op(self, name, **fields):
        self.events.append({"at": self.at, "op": name, **fields})

    def replicas(self, count):
        return [self.chance.sample(BROKERS, self.chance.randint(1, 3)) for _ in range(count)]

    def start(self):
        self.started += 1
        name, group = f"c{self.started}", self.chance.choice(GROUPS)
        fields, chosen = {"consumer": name, "group": group}, self.chance.random()
        if chosen < 0.6:
            topics = self.chance.sample(TOPICS, self.chance.randint(1, 3))
            fields["subscription"] = {topic: self.chance.randint(1, 3) for topic in topics}
        else:
            kind = "whitelist" if chosen < 0.85 else "blacklist"
            fields |= {kind: self.chance.choice(FILTERS), "streams": self.chance.randint(1, 2)}
        self.live[name] = fields
        self.op("start", **fields, **({"async": True} if self.chance.random() < 0.3 else {}))

    def step(self):
        does = [
            *(self.start, self.start, self.topic, self.grow, self.produce, self.produce),
            *(self.gone, self.gone, self.connection, self.connection, self.broker, self.node),
            *(self.settle, self.point_of_program),
        ]
        self.chance.choice(does)()
        self.at += self.chance.choice([0, 0, 3, 40, 900, 5000, 30_000])

    def topic(self):
        for name in TOPICS:
            if name not in self.sizes:
                self.sizes[name] = self.chance.randint(1, 5)
                self.op("create_topic", topic=name, replicas=self.replicas(self.sizes[name]))
                return

    def grow(self):
        if self.sizes:
            name, more = self.chance.choice(sorted(self.sizes)), self.chance.randint(1, 2)
            self.sizes[name] += more
            self.op("add_partitions", topic=name, replicas=self.replicas(more))

    def produce(self):
        if self.sizes:
            name = self.chance.choice(sorted(self.sizes))
            partition = self.chance.randrange(self.sizes[name])
            self.op("produce", topic=name, partition=partition, count=self.chance.randint(1, 9))

    def gone(self):
        if len(self.live) > 1:
            name = self.chance.choice(sorted(self.live))
            away = self.away.pop(name, None)  # whoever is held would wait for ever to close
            self.op("crash" if away else self.chance.choice(["close", "crash"]), consumer=name)
            del self.live[name]

    def connection(self):
        if not self.live:
            return
        name = self.chance.choice(sorted(self.live))
        if name in self.away:
            self.op(self.away.pop(name), consumer=name)
            return
        # Two sessions that end while it rebalances: the second return finds the id node of the
        # first, its own, and waits for it to go, for ever (createEphemeralPathExpectConflict...).
        soon = self.at - self.ended.get(name, -SOON_MS) < SOON_MS
        what = "zk_hold" if soon else self.chance.choice(["expire", "zk_cut", "zk_hold"])
        if what != "zk_hold":
            self.ended[name] = self.at
        self.op(what, consumer=name)
        if what != "expire":
            self.away[name] = {"zk_cut": "zk_heal", "zk_hold": "zk_release"}[what]

    def broker(self):
        number = self.chance.choice(BROKERS)
        self.op("broker_start" if number in self.down else "broker_stop", broker=number)
        self.down ^= {number}

    def node(self):
        """An id node of somebody else; names are new each time: it is never there already."""
        if self.foreign and self.chance.random() < 0.5:
            self.op("znode_delete", path=self.foreign.pop())
            return
        group = self.chance.choice(GROUPS)
        path = f"/consumers/{group}/ids/{group}_ghost{len(self.events)}"
        data = '{"version":1,"subscription":{"a":1},"pattern":"static","timestamp":"1"}'
        self.op("znode_create", path=path, data=self.chance.choice([data, "poison", ""]))
        self.foreign.append(path)

    def settle(self):
        self.at += 20_000
        self.op("settle", point=len(self.events))

    def point_of_program(self):
        if self.live:
            self.op("commit", consumer=self.chance.choice(sorted(self.live)))

    def all_well(self):
        """End what ails; then touch each topic, twice, so that everybody rebalances."""
        self.at += 1000
        for path in self.foreign:
            self.op("znode_delete", path=path)
        for number in sorted(self.down):
            self.op("broker_start", broker=number)
        for name, back in self.away.items():
            self.op(back, consumer=name)
        self.topic()
        for _ in range(2):
            for name in sorted(self.sizes):
                self.at += 60_000
                self.op("touch_topic", topic=name)
        self.at += 120_000
        self.op("settle", point=1_000_000)

    def made(self):
        for _ in range(45):
            self.step()
        self.all_well()
        config = {"brokers": list(BROKERS), "consumer": self.settings}
        return {"config": config, "events": self.events}


def takes(fields, topics):
    """Topics that a consumer takes and its streams of each: section 5, in the plainest way."""
    if "subscription" in fields:
        return fields["subscription"]
    text = fields.get("whitelist", fields.get("blacklist"))
    wanted = text.replace(",", "|").replace(" ", "").strip("\"'")
    return {
        topic: fields["streams"]
        for topic in topics
        if bool(re.fullmatch(wanted, topic)) == ("whitelist" in fields)
    }


def ruled(live, sizes):
    """Who is to own what, by the rule of range."""
    owned = {name: [] for name in live}
    for group in GROUPS:
        for topic, size in sizes.items():
            threads = sorted(
                (f"{group}_{name}-{number}", name)
                for name, fields in live.items()
                if fields["group"] == group
                for number in range(takes(fields, sizes).get(topic, 0))
            )
            for k, (_, name) in enumerate(threads):
                q, r = divmod(size, len(threads))
                at = q * k + min(k, r)
                owned[name] += [f"{topic}/{n}" for n in range(at, at + q + (k < r))]
    return {name: sorted(places) for name, places in owned.items()}


@pytest.mark.parametrize("seed", range(40))
def test_whatever_happens_the_rule_holds_when_all_is_well_again(seed):
    maker = Maker(seed)
    given = maker.made()
    points = run(given, timeline=False).points
    last = points[-1]
    running = {name: one for name, one in last["consumers"].items() if name in maker.live}
    wanted = ruled(maker.live, maker.sizes)
    assert {name: one["owner_nodes"] for name, one in running.items()} == wanted
    assert {name: sorted(one["next_offsets"]) for name, one in running.items()} == wanted
    assert last["partitions_that_several_believe_theirs"] == {}
    for point in points:
        check(point)


def check(point):
    """What holds at every point, well or not."""
    owners = []
    for name, one in point["consumers"].items():
        since = one["since_last_point"]
        assert min(since["rebalances"], since["failed_rebalances"]) >= 0
        assert all(count > 0 for count in since["watch_events"].values())
        assert one["state"] in ("running", "closed", "crashed", "start_failed")
        assert ("next_offsets" in one) == (one["state"] in ("running", "start_failed"))
        for place, ranges in one["consumed"].items():
            assert all(0 <= first <= end for first, end in ranges), (name, place)
        owners += [(one["state"], place) for place in one["owner_nodes"]]
    assert not [place for state, place in owners if state == "closed"]
    for path, node in point["znodes"].items():
        _, kind, *rest = path.split("/")[2:]
        if kind in ("ids", "owners") and (kind, len(rest)) in (("ids", 1), ("owners", 2)):
            assert "session_of" in node, path
        if kind == "offsets" and len(rest) == 2:
            assert int(node["data"]) >= 0
            assert "session_of" not in node


@pytest.mark.parametrize("seed", [3, 17])
def test_a_random_scenario_gives_the_same_bytes_each_time(seed):
    given = Maker(seed).made()
    first, again = (run(given) for _ in range(2))
    assert json.dumps(first.points) == json.dumps(again.points)
    assert (list(first.timeline), first.costs) == (list(again.timeline), again.costs)
