"""Traces of a size: so many groups of so many members join, sync and heartbeat twice.

Kafka's defaults, all members alive: what is counted is how the cost of an event grows with the
members of a group, whose rebalance answers each with all, and with the groups.
"""

import json

METADATA = "AAEAAAABAAF0/////wAAAAA="  # subscribed to "t"
ROUNDS = 2
GAP_MS = 6000


def lines(groups, members):
    """Yield the trace line by line: 4 events a member. The n-th member id ends with n."""
    header = {"format": "coterie-trace", "version": 1, "name": "growth", "config": {}}
    yield json.dumps(header)
    number = 0

    def event(at, op, group, **fields):
        nonlocal number
        number += 1
        return json.dumps({"at": at, "op": op, "id": number, "group_id": f"g{group}", **fields})

    joined = {
        "member_id": "", "client_id": "m", "client_host": "/h", "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 60_000, "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": METADATA}],
    }  # fmt: skip
    everyone = [(group, group * members + m + 1) for group in range(groups) for m in range(members)]
    for group, _ in everyone:
        yield event(1, "join_group", group, **joined)
    for group, member in everyone:
        assignments = {"assignments": []} if member % members == 1 or members == 1 else {}
        yield event(
            7000, "sync_group", group, generation_id=1, member_id=f"m-{member:08}", **assignments
        )
    for beat in range(1, ROUNDS + 1):
        for group, member in everyone:
            at = 7000 + beat * GAP_MS
            yield event(at, "heartbeat", group, generation_id=1, member_id=f"m-{member:08}")
