"""Makes random scenarios of 0.8.2 over all its ops, and says by the rules who owns what in the end.

Every op is one that ZooKeeper allows: where that depends on what nodes are there, the scenario so
far is run to see them. What is expected comes from the ops alone, in the plainest way.
"""

import json
import random
import re

from coterie.designs import run

TOPICS = ("a", "b", "big.c")
GROUPS = ("group1", "g2")
FILTERS = ("a|b", "a,b", '".*"', "big\\..", "[ab]", " b , a ")
BROKERS = (0, 1, 2)
SOON_MS = 120_000
NO_TOPIC = (
    "",
    "junk",
    '{"version":1}',
    '{"version":1,"partitions":[0]}',
    '{"partitions":{"x":[]}}',
)
STORED = ("0", "3", "99", "-2", "x", "")  # offsets that somebody else writes
PATTERNS = {"subscription": "static", "whitelist": "white_list", "blacklist": "black_list"}


class Maker:
    """Makes the ops of one scenario; keeps what it needs so that each of them is allowed."""

    def __init__(self, seed):
        self.chance = random.Random(seed)
        self.events, self.at = [], 1000
        self.sizes, self.live, self.away, self.began = {}, {}, {}, {}
        self.foreign, self.down, self.started, self.ended = [], set(), 0, {}
        self.rewritten = {}  # consumers whose id nodes somebody has written: what they say now
        self.lost = set()  # consumers whose id nodes somebody has deleted
        self.shaken = set()  # who may have lost its first session before it heard of sessions
        self.deaf = set()  # groups in which some consumer misses a change of its topics
        self.junk = set()  # topics whose nodes name no partitions
        self.stored = [
            f"/consumers/{group}/offsets/{topic}/{number}"
            for group in GROUPS
            for topic in TOPICS
            for number in range(self.chance.choice([0, 0, 2]))
        ]
        self.rule = self.chance.choice(["range", "range", "ceiling", "roundrobin", "roundrobin"])
        self.alike = {group: self.subscription() for group in GROUPS}  # round robin asks for it
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
            "partition.assignment.strategy": "range" if self.rule == "ceiling" else self.rule,
            **({"assignment": "ceiling"} if self.rule == "ceiling" else {}),
        }

    def scenario(self, *more):
        config = {
            "brokers": list(BROKERS),
            "consumer": self.settings,
            "broker": {"delete.topic.enable": "true"},
        }
        return {"config": config, "events": [*self.events, *more]}

    def op(self, name, **fields):
        self.events.append({"at": self.at, "op": name, **fields})

    def nodes(self):
        """Return the nodes of the groups that are there now: a moment after the op before."""
        before = self.events[-1]["at"] if self.events else 0
        self.at = max(self.at, before + 1)
        passes = {"at": before, "op": "wait", "ms": self.at - before}
        point = {"at": self.at, "op": "settle", "point": 0}
        return run(self.scenario(passes, point), timeline=False).points[-1]["znodes"]

    def replicas(self, count):
        return [self.chance.sample(BROKERS, self.chance.randint(1, 3)) for _ in range(count)]

    def subscription(self):
        chosen = self.chance.random()
        if chosen < 0.6:
            topics = self.chance.sample(TOPICS, self.chance.randint(1, 3))
            return {"subscription": {topic: self.chance.randint(1, 3) for topic in topics}}
        kind = "whitelist" if chosen < 0.85 else "blacklist"
        return {kind: self.chance.choice(FILTERS), "streams": self.chance.randint(1, 2)}

    def start(self):
        self.started += 1
        name, group = f"c{self.started}", self.chance.choice(GROUPS)
        alike = self.rule == "roundrobin" and self.chance.random() < 0.8
        fields = {"consumer": name, "group": group}
        fields |= self.alike[group] if alike else self.subscription()
        self.live[name], self.began[name] = fields, self.at
        self.op("start", **fields, **({"async": True} if self.chance.random() < 0.3 else {}))

    def step(self):
        does = [
            *(self.start, self.start, self.topic, self.grow, self.produce, self.produce),
            *(self.gone, self.gone, self.connection, self.connection, self.broker, self.ghost),
            *(self.settle, self.point_of_program, self.delete, self.topic_node),
            *(self.owner_node, self.id_node, self.offset_node),
        ]
        self.chance.choice(does)()
        self.at += self.chance.choice([0, 0, 3, 40, 900, 5000, 30_000])

    def topic(self):
        for name in TOPICS:
            if name not in self.sizes:
                self.sizes[name] = self.chance.randint(1, 5)
                self.op("create_topic", topic=name, replicas=self.replicas(self.sizes[name]))
                return

    def grow(self, name=None):
        if self.sizes:
            name, more = name or self.chance.choice(sorted(self.sizes)), self.chance.randint(1, 2)
            self.sizes[name] += more
            self.junk.discard(name)
            self.op("add_partitions", topic=name, replicas=self.replicas(more))

    def delete(self):
        """Delete a topic: only while all brokers live, so that it goes at once."""
        if self.sizes and not self.down and self.chance.random() < 0.5:
            name = self.chance.choice(sorted(self.sizes))
            del self.sizes[name]
            self.junk.discard(name)
            self.deaf.update(GROUPS)  # who names it keeps what it owned until it hears of more
            self.op("delete_topic", topic=name)

    def produce(self):
        if self.sizes:
            name = self.chance.choice(sorted(self.sizes))
            partition = self.chance.randrange(self.sizes[name])
            self.op("produce", topic=name, partition=partition, count=self.chance.randint(1, 9))

    def gone(self):
        if len(self.live) > 1:
            name = self.chance.choice(sorted(self.live))
            away = self.away.pop(name, None)  # a held consumer would wait for ever to close
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
        what = "zk_hold" if self.ended_soon(name) else self.chance.choice(self.ways(name))
        if what != "zk_hold":
            self.ended[name] = self.at
            if self.at - self.began[name] < 1000 or self.down or self.storage == "kafka":
                self.shaken.add(name)
        self.op(what, consumer=name)
        if what == "expire":
            self.registers_again(name)
        else:
            self.away[name] = {"zk_cut": "zk_heal", "zk_hold": "zk_release"}[what]

    def ways(self, name):
        """What may happen to a connection: a cut only where its id node, if new, is as before."""
        knows = name not in self.rewritten and name not in self.lost
        return ["expire", "zk_hold", *(["zk_cut"] if knows else [])]

    def ended_soon(self, name):
        return self.at - self.ended.get(name, -SOON_MS) < SOON_MS

    def registers_again(self, name):
        self.rewritten.pop(name, None)
        self.lost.discard(name)

    def broker(self):
        number = self.chance.choice(BROKERS)
        self.op("broker_start" if number in self.down else "broker_stop", broker=number)
        self.down ^= {number}

    def ghost(self):
        """An id node of somebody else; names are new each time: it is never there already."""
        chosen = self.chance.random()
        data = '{"version":1,"subscription":{"a":1},"pattern":"static","timestamp":"1"}'
        data = self.chance.choice([data, "poison", ""])
        if self.foreign and chosen < 0.4:
            self.op("znode_delete", path=self.foreign.pop())
        elif self.foreign and chosen < 0.6:
            self.op("znode_set", path=self.chance.choice(self.foreign), data=data)
        else:
            group = self.chance.choice(GROUPS)
            path = f"/consumers/{group}/ids/{group}_ghost{len(self.events)}"
            self.op("znode_create", path=path, data=data)
            self.foreign.append(path)

    def topic_node(self):
        """Somebody writes a topic's node, so that it names no partitions."""
        if self.sizes and self.chance.random() < 0.5:
            name = self.chance.choice(sorted(self.sizes))
            self.junk.add(name)
            data = self.chance.choice(NO_TOPIC)
            self.op("znode_set", path=f"/brokers/topics/{name}", data=data)

    def owner_node(self):
        """Somebody creates, writes or deletes a partition's owner node."""
        if not self.sizes:
            return
        group, topic = self.chance.choice(GROUPS), self.chance.choice(sorted(self.sizes))
        path = f"/consumers/{group}/owners/{topic}/{self.chance.randrange(self.sizes[topic] + 1)}"
        threads = [f"{one['group']}_{name}-0" for name, one in sorted(self.live.items())]
        data = self.chance.choice(["somebody", *threads])
        if path not in self.nodes():
            self.op("znode_create", path=path, data=data)
        elif self.chance.random() < 0.5:
            self.op("znode_set", path=path, data=data)
        else:
            self.op("znode_delete", path=path)

    def id_node(self):
        """Somebody writes or deletes a consumer's id node: it is what counts, not its memory."""
        if not self.live:
            return
        name = self.chance.choice(sorted(self.live))
        fields = self.live[name]
        path = f"/consumers/{fields['group']}/ids/{fields['group']}_{name}"
        if name in self.away or self.ended_soon(name) or path not in self.nodes():
            return  # a cut may end its session, a return may write the node again
        self.deaf.add(fields["group"])
        if self.chance.random() < 0.3:
            self.lost.add(name)
            self.rewritten.pop(name, None)
            self.op("znode_delete", path=path)
        elif self.chance.random() < 0.3:
            self.rewritten[name] = None
            self.op("znode_set", path=path, data="poison")
        else:
            self.rewrite(name, path)

    def rewrite(self, name, path):
        self.rewritten[name] = self.subscription()
        self.op("znode_set", path=path, data=registration(self.rewritten[name]))

    def offset_node(self):
        """Somebody writes a stored offset; those nodes are there from the beginning."""
        if self.stored:
            path, data = self.chance.choice(self.stored), self.chance.choice(STORED)
            self.op("znode_set", path=path, data=data)

    def settle(self):
        self.at += 20_000
        self.op("settle", point=len(self.events))

    def point_of_program(self):
        if self.live:
            self.op("commit", consumer=self.chance.choice(sorted(self.live)))

    def all_well(self):
        """End what ails; touch each topic, twice; then let each group's ids change, twice."""
        self.at += 1000 + SOON_MS * bool(self.lost)
        nodes = self.nodes()
        for path, node in nodes.items():
            if "/owners/" in path and node.get("session_of") == "other":
                self.op("znode_delete", path=path)
        for path in self.foreign:
            self.op("znode_delete", path=path)
        for path in self.stored:
            self.op("znode_set", path=path, data="0")
        for name in [name for name, says in self.rewritten.items() if not says]:
            path = f"/consumers/{self.live.get(name, {}).get('group')}/ids"
            if (path := f"{path}/{path.split('/')[2]}_{name}") in nodes:
                self.rewrite(name, path)
        for number in sorted(self.down):
            self.op("broker_start", broker=number)
        for name, back in self.away.items():
            self.op(back, consumer=name)
        for name in sorted(self.lost & self.live.keys()):
            self.op("expire", consumer=name)
            self.registers_again(name)
        for name in sorted(self.junk):
            self.grow(name)
        self.topic()
        for _ in range(2):
            for name in sorted(self.sizes):
                self.at += 60_000
                self.op("touch_topic", topic=name)
        self.at += 120_000
        self.op("settle", point=1_000_000)
        for group in GROUPS:
            path = f"/consumers/{group}/ids/{group}_last"
            self.op("znode_create", path=path)
            self.at += 60_000
            self.op("znode_delete", path=path)
        self.at += 120_000
        self.op("settle", point=1_000_001)

    def made(self):
        for path in self.stored:
            self.op("znode_create", path=path, data="0", ephemeral=False)
        for _ in range(45):
            self.step()
        self.all_well()
        return self.scenario()

    def members(self):
        """Return who is registered in the end, and as what."""
        return {
            name: {"group": fields["group"], **self.rewritten.get(name, fields)}
            for name, fields in self.live.items()
        }


def registration(fields):
    """Return the text of an id node that says this."""
    kind = next(kind for kind in PATTERNS if kind in fields)
    streams = fields[kind] if kind == "subscription" else {fields[kind]: fields["streams"]}
    says = {"version": 1, "subscription": streams, "pattern": PATTERNS[kind], "timestamp": "1"}
    return json.dumps(says)


def takes(fields, topics):
    """Topics that a consumer takes and its streams of each, in the plainest way."""
    if "subscription" in fields:
        return fields["subscription"]
    text = fields.get("whitelist", fields.get("blacklist"))
    pattern = text.strip().replace(",", "|").replace(" ", "").strip("\"'")
    return {
        topic: fields["streams"]
        for topic in topics
        if bool(re.fullmatch(pattern, topic)) == ("whitelist" in fields)
    }


def ruled(members, sizes, rule):
    """Who is to own what, by a rule of assignment."""
    owned = {name: [] for name in members}
    for group in GROUPS:
        threads = {}  # by topic
        for name, fields in members.items():
            for topic, streams in takes(fields, sizes).items() if fields["group"] == group else ():
                threads.setdefault(topic, []).extend(
                    (f"{group}_{name}-{number}", name) for number in range(streams)
                )
        threads = {topic: sorted(one) for topic, one in threads.items()}
        deal = dealt if rule == "roundrobin" else cut
        for topic, number, name in deal(threads, sizes, rule):
            owned[name].append(f"{topic}/{number}")
    return {name: sorted(places) for name, places in owned.items()}


def cut(threads, sizes, rule):
    """Cut each topic's partitions into runs: range, and the document's ceiling rule."""
    for topic, one in threads.items():
        size = sizes.get(topic, 0)
        q, r = divmod(size, len(one))
        for k, (_, name) in enumerate(one):
            if rule == "ceiling":
                first, end = k * (q + bool(r)), (k + 1) * (q + bool(r))
            else:
                first, end = q * k + min(k, r), q * (k + 1) + min(k + 1, r)
            yield from ((topic, number, name) for number in range(first, min(end, size)))


def dealt(threads, sizes, rule):
    """Deal all partitions in the order of their hashes; none if topics have different threads."""
    if len({tuple(one) for one in threads.values()}) == 1:
        (one, *_) = threads.values()
        places = [(topic, number) for topic in threads for number in range(sizes.get(topic, 0))]
        places.sort(key=lambda place: hashed("[{},{}]".format(*place)))
        for i, (topic, number) in enumerate(places):
            yield topic, number, one[i % len(one)][1]


def hashed(text):
    """Return Java's hash of a text in ASCII."""
    value = sum(ord(unit) * 31**i for i, unit in enumerate(reversed(text))) % 2**32
    return value - 2**32 * (value >= 2**31)
