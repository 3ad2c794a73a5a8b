"""Short scenarios of 0.8.2 for tests: their ops, and a function that runs them."""

from coterie.designs import run


def played(*events, brokers=(0, 1), consumer=None, times=None, **config):
    """Run ops, each at its ``at`` or a second after the previous one; return the points."""
    at_ms, timed = 0, []
    for event in events:
        at_ms = event.get("at", at_ms + 1000)
        timed.append({**event, "at": at_ms})
    settings = {"auto.offset.reset": "smallest", "rebalance.backoff.ms": 500, **(consumer or {})}
    scenario = {
        "config": {"brokers": list(brokers), "consumer": settings, **config},
        "events": timed,
    }
    return run(scenario, times=times)


def topic(name, *replicas, **fields):
    return {
        "op": "create_topic",
        "topic": name,
        "replicas": [list(ids) for ids in replicas],
    } | fields


def start(name, at=None, **fields):
    if not fields.keys() & {"whitelist", "blacklist"}:
        fields = {"subscription": {"t": 1}, **fields}
    return {"op": "start", "consumer": name, **fields} | ({} if at is None else {"at": at})


def settle(at, point=1):
    return {"op": "settle", "at": at, "point": point}


def produce(partition, count, **fields):
    return {"op": "produce", "topic": "t", "partition": partition, "count": count, **fields}


def node(path, data="", **fields):
    return {"op": "znode_create", "path": path, "data": data, **fields}


def owned(point):
    return {name: one["owner_nodes"] for name, one in point["consumers"].items()}


def since(point, name):
    """What a consumer did since the point before."""
    return point["consumers"][name]["since_last_point"]
