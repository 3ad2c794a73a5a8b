"""A classic group `g`: a join of a consumer, and a group whose members have all synced."""

RANGE = {"range": b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"}


def join(coordinator, member_id="", client_id="c", **fields):
    fields = {"protocols": RANGE, "session_timeout_ms": 10_000} | fields
    return coordinator.join_group(
        "g", member_id, protocol_type="consumer", client_id=client_id, **fields
    )


def stable(coordinator, *clients, **fields):
    """Members of a group in its first generation, all synced."""
    joins = [join(coordinator, client_id=client, **fields) for client in clients or "a"]
    ids = [coordinator.run_until(p, limit_ms=600_000).member_id for p in joins]
    plan = {member_id: b"plan" for member_id in ids}
    for member_id in ids:
        coordinator.sync_group("g", 1, member_id, assignments=plan)
        while coordinator.appends:
            coordinator.appends[0].complete()
    assert coordinator.describe_group("g").state == "Stable"
    return ids
