"""A trace of many small groups: one to three members join, sync, commit, and leave.

As consumers of a fleet do that is deployed group by group: a group begins each 10 ms, and lives
for 10 s. Every request is answered NONE. Kafka's defaults.
"""

import json

METADATA = "AAEAAAABAAF0/////wAAAAA="  # subscribed to "t"
GAP_MS = 10


def lines(groups):
    """Yield the trace line by line: 4 events a member. The n-th member id ends with n."""
    header = {"format": "coterie-trace", "version": 1, "name": "small-groups", "config": {}}
    yield json.dumps(header)
    first, events = 1, []
    for group in range(groups):
        members = range(first, first + group % 3 + 1)
        first = members.stop
        events += group_events(group, [f"m-{number:08}" for number in members])
    events.sort(key=lambda event: event["at"])  # stable: a group's order stays
    for number, event in enumerate(events, 1):
        yield json.dumps({"id": number} | event)


def group_events(group, members):
    """Yield the requests of one group."""
    joined = {
        "member_id": "", "client_id": "m", "client_host": "/h", "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 60_000, "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": METADATA}],
    }  # fmt: skip
    assignments = [{"member_id": member, "assignment": METADATA} for member in members]
    for step, op in enumerate(["join_group", "sync_group", "offset_commit", "leave_group"]):
        at = group * GAP_MS + (1 if op == "join_group" else 6000 + 1000 * step)
        for place, member in enumerate(members):
            event = {"at": at, "op": op, "group_id": f"group-{group}"}
            if op == "join_group":
                event |= joined
            elif op == "leave_group":
                event["members"] = [{"member_id": member}]
            else:
                event |= {"generation_id": 1, "member_id": member}
            if op == "sync_group" and place == 0:
                event["assignments"] = assignments
            if op == "offset_commit":
                event["offsets"] = [{"topic": "t", "partition": place, "offset": group}]
            yield event
