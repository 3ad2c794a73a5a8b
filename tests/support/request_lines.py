"""Lines of a broker's request log, as ``kafka.request.logger`` writes them at DEBUG."""

import json

AT = "10.0.0.1:9092-10.0.0.2"
CONNECTION = f"{AT}:4000-1"


def line(api, version, request, response, ms=0, client="c", connection=CONNECTION, **times):
    """A line as Kafka logs it; the response was sent ``ms`` after the first second.

    ``times``: durations by their names in the log.
    """
    body = {
        "requestHeader": {
            "requestApiKeyName": api, "requestApiVersion": version, "clientId": client,
        },
        "request": request,
        "response": response,
        "connection": connection,
        "totalTimeMs": 0.5,
        "requestQueueTimeMs": 0.1,
        **times,
    }  # fmt: skip
    at = f"2026-01-01 00:00:{ms // 1000:02d},{ms % 1000:03d}"
    return f"[{at}] DEBUG Completed request:{json.dumps(body)} (kafka.request.logger)"


def commit(
    *codes, ms=1, group="g", api="OFFSET_COMMIT", version=8, topic="t", epoch=-1,
    connection=CONNECTION, **fields,
):  # fmt: skip
    partitions = [{"partitionIndex": n, "committedOffset": 10 + n, "committedLeaderEpoch": epoch,
                   "committedMetadata": ""} for n in range(len(codes))]  # fmt: skip
    results = [{"partitionIndex": n, "errorCode": code} for n, code in enumerate(codes)]
    request = {"groupId": group, "topics": [{"name": topic, "partitions": partitions}]} | fields
    answer = {"topics": [{"name": topic, "partitions": results}]}
    return line(api, version, request, answer, ms, connection=connection)


def txn_commit(group, ms, producer=7):
    return commit(0, ms=ms, group=group, api="TXN_OFFSET_COMMIT", version=3, producerId=producer,
                  producerEpoch=0, generationId=-1, memberId="", transactionalId="x")  # fmt: skip


def markers(ms, *entries, topic="__consumer_offsets"):
    """Entries (producer id, committed, error code); the response lists them backwards."""
    topics = [{"name": topic, "partitionIndexes": [3]}]
    request = [{"producerId": p, "producerEpoch": 0, "transactionResult": ok, "coordinatorEpoch": 0,
                "topics": topics} for p, ok, _ in entries]  # fmt: skip
    results = [{"producerId": p, "topics": [{"name": topic, "partitions": [
             {"partitionIndex": 3, "errorCode": code}]}]} for p, _, code in entries]  # fmt: skip
    return line("WRITE_TXN_MARKERS", 1, {"markers": request}, {"markers": results[::-1]}, ms)


def fetch(group, ms, offset):
    fetched = [{"partitionIndex": 0, "committedOffset": offset, "committedLeaderEpoch": -1,
             "metadata": "", "errorCode": 0}]  # fmt: skip
    return line(
        "OFFSET_FETCH", 8,
        {"groups": [{"groupId": group, "topics": [{"name": "t", "partitionIndexes": [0]}]}],
         "requireStable": False},
        {"groups": [{"groupId": group, "topics": [{"name": "t", "partitions": fetched}],
                     "errorCode": 0}]},
        ms,
    )  # fmt: skip


def member_line(name, api, version, request, response, ms, **times):
    """A line of a member of the group ``g``; each has a connection of its own."""
    connection = f"{AT}:{4000 + ord(name)}-{ord(name)}"
    request = {"groupId": "g", "memberId": f"{name}-1"} | request
    return line(api, version, request, response, ms, name, connection, **times)


def member_joins(ms, name, generation, total_ms, metadata="", members="ab", new=None, **times):
    """One of ``members`` joins; the first is the leader, and gives its metadata of that time.

    ``new``: it has no id before; by default in the first generation.
    """
    request = {"sessionTimeoutMs": 10_000, "rebalanceTimeoutMs": 60_000, "protocolType": "consumer",
               "protocols": [{"name": "range", "metadata": metadata}]}  # fmt: skip
    if generation == 1 if new is None else new:
        request["memberId"] = ""
    leader, *others = members
    shown = [{"memberId": f"{leader}-1", "metadata": metadata},
             *({"memberId": f"{other}-1", "metadata": ""} for other in others)]  # fmt: skip
    answer = {"errorCode": 0, "generationId": generation, "protocolName": "range",
              "leader": f"{leader}-1", "memberId": f"{name}-1",
              "members": shown if name == leader else []}  # fmt: skip
    return member_line(name, "JOIN_GROUP", 3, request, answer, ms, totalTimeMs=total_ms, **times)


def member_syncs(ms, name, generation, members="ab"):
    """A member syncs; the first of ``members`` is the leader, who gives each an assignment."""
    assignments = [{"memberId": f"{member}-1", "assignment": "AAEC"} for member in members]
    request = {"generationId": generation, "assignments": assignments[: 9 * (name == members[0])]}
    return member_line(name, "SYNC_GROUP", 3, request, {"errorCode": 0, "assignment": "AAEC"}, ms)


def member_beats(ms, name, generation, code=0):
    request = {"generationId": generation}
    return member_line(name, "HEARTBEAT", 3, request, {"errorCode": code}, ms)


def events(made):
    """Return an imported trace without its header and the advance to the last answer."""
    last = made.trace[-1]
    return made.trace[1:-1] if last.get("op") == "advance" else made.trace[1:]
