"""Generate odd but valid scenarios: extreme times, settings, numbers, herds and failures."""

import random

BROKERS = [0, 1, 2]
FAR_MS = (10, 1_000, 60_000, 3_600_000, 86_400_000, 10**11, 2**53)
TINY = (1, 2, 3, 10)
INTERVALS = {
    "zookeeper.session.timeout.ms": (*TINY, 6_000, 2**31 - 1),
    "zookeeper.sync.time.ms": (*TINY, 2_000, 2**31 - 1),
    "rebalance.backoff.ms": (0, *TINY, 2_000, 2**31 - 1),
    "rebalance.max.retries": (0, 1, 4, 2**31 - 1),
    "auto.commit.interval.ms": (*TINY, 60_000, 2**31 - 1),
    "offsets.channel.backoff.ms": (*TINY, 1_000),
    "refresh.leader.backoff.ms": (*TINY, 200),
    "partition.assignment.strategy": ("range", "roundrobin", "neither"),
    "offsets.storage": ("zookeeper", "kafka"),
    "assignment": ("", "ceiling"),
}
JUNK = ("", "junk", '{"pattern":"static","subscription":{"t":2147483647}}')


def odd_scenario(seed):
    """Return the scenario of a seed.

    Rules: every op is valid by its fields; times are the gaps of ``FAR_MS``; most consumers stay.
    """
    chance = random.Random(seed)
    config = {name: chance.choice(values) for name, values in INTERVALS.items()}
    config = {name: value for name, value in config.items() if chance.random() < 0.4}
    partitions = chance.choice((1, 3, 40, 250))
    consumers = chance.choice((1, 3, 10, 40))
    far = chance.choice(FAR_MS)
    replicas = [[chance.choice(BROKERS)] for _ in range(partitions)]
    events = [{"op": "create_topic", "topic": "t", "replicas": replicas}]
    events += [
        {"op": "start", "consumer": f"c{n}", "subscription": {"t": chance.choice((1, 2, 100))}}
        for n in range(consumers)
    ]
    events += [_more(chance, consumers) for _ in range(chance.choice((0, 3, 20)))]
    at, last = 0, len(events) - 1
    for index, event in enumerate(events):
        event["at"] = at
        gap = chance.choice((0, 0, 1, 700, 30_000))
        at = min(2**53, at + (far if index == last else gap))
    events.append({"op": "settle", "point": 1, "at": at})
    return {
        "config": {
            "brokers": BROKERS,
            "brokers_up": chance.random() < 0.9,
            "broker": {"delete.topic.enable": "true"},
            "consumer": config,
            "zookeeper.tick.ms": chance.choice((1, 500, 10**9)),
        },
        "events": events,
    }


def _more(chance, consumers):
    consumer = f"c{chance.randrange(consumers)}"
    return chance.choice(
        [
            *({"op": op, "consumer": consumer} for op in ("zk_cut", "zk_hold", "expire")),
            *({"op": op, "consumer": consumer} for op in ("zk_heal", "zk_release", "commit")),
            {"op": "produce", "topic": "t", "partition": 0, "count": chance.choice((1, 2**53))},
            {"op": "broker_stop", "broker": chance.choice(BROKERS)},
            {"op": "broker_start", "broker": chance.choice(BROKERS)},
            {"op": "coordinator_stop", "group": "group1"},
            {"op": "touch_topic", "topic": "t"},
            {"op": "add_partitions", "topic": "t", "replicas": [[0], [1]]},
            {
                "op": "znode_create",
                "path": f"/consumers/group1/ids/x{chance.randrange(10**9)}",
                "data": chance.choice(JUNK),
            },
        ]
    )
