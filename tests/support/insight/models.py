"""Models for questions: states computed from Kafka's own decode, in plain Python."""

from __future__ import annotations

from coterie.insight.question_engine import rows_of
from coterie.insight.records.partition_view import read_partitions
from support.golden_data import log, records


def question_rows(folder, question, parameters, **how):
    """The rows of a question for a log."""
    return [
        row
        for view in read_partitions([folder], **how)
        for row in rows_of(view, question, parameters)
    ]


def offsets_at(case, at_ms=None):
    """Key (group, topic, partition) -> the offset's value (Kafka's JSON), as of a time.

    The last value of a key in log order counts. A transaction's value counts at its COMMIT marker
    and replaces only earlier appends (golden/logs/README.md). A record without a time counts.
    """
    shown, pending = {}, {}
    for record in records(case):
        has_time = record["timestamp_type"] != "NoTimestampType"
        if has_time and at_ms is not None and record["timestamp"] > at_ms:
            continue
        batch, place = record["batch"], (record["partition"], record["offset"])
        producer = record["partition"], batch["producer_id"]
        if "control" in record:
            for key, (at, value) in pending.pop(producer, {}).items():
                if record["control"]["type"] == "COMMIT" and shown.get(key, ((), 0))[0] < (at,):
                    shown[key] = ((at,), value)
            continue
        if record["key"]["type"] != "offset_commit":
            continue
        data = record["key"]["data"]
        key = data["group"], data["topic"], data["partition"]
        value = record["value"] and record["value"]["data"]
        if batch["is_transactional"]:
            of_producer = pending.setdefault(producer, {})
            if value is None:
                of_producer.pop(key, None)
            else:
                of_producer[key] = place, value
        elif value is None:
            shown.pop(key, None)
        else:
            shown[key] = ((place,), value)
    return {key: value for key, (_, value) in shown.items()}


def times(case, count):
    """Times of records, spread over a log, and one before and one after all."""
    result = sorted({record["timestamp"] for record in records(case)})
    chosen = result[:: max(len(result) // count, 1)]
    return [result[0] - 1, *chosen, result[-1] + 1]


def trusted_since(case):
    """Partition -> since when it is complete; None: from its start (see ``test_trust``)."""
    return {view.number: view.trusted_from_ms for view in read_partitions([log(case)])}


def commits_by_hand(case):
    """Key -> number of commits outside transactions and in committed ones.

    In a compacted partition, commits count from the time since which it is complete.
    """
    result, pending, since = {}, {}, trusted_since(case)
    for record in records(case):
        if record["timestamp"] < (since[record["partition"]] or -1):
            continue
        producer = record["partition"], record["batch"]["producer_id"]
        if "control" in record:
            for key in pending.pop(producer, ()):
                result[key] = result.get(key, 0) + (record["control"]["type"] == "COMMIT")
        elif record["key"]["type"] == "offset_commit" and record["value"] is not None:
            data = record["key"]["data"]
            key = data["group"], data["topic"], data["partition"]
            if record["batch"]["is_transactional"]:
                pending.setdefault(producer, []).append(key)
            else:
                result[key] = result.get(key, 0) + 1
    return {key: count for key, count in result.items() if count}


EPOCHS = (3, 11, 17)  # key versions of newer groups' epochs


def rebalances_by_hand(case):
    """Group -> the number of its generations and epochs that differ from the one before.

    In a compacted partition, they count from the time since which it is complete. A group that
    changes its protocol keeps its number: one batch has the tombstone and the next record.
    """
    result, last, since, ended = {}, {}, trusted_since(case), {}
    for record in records(case):
        key = record.get("key") or {}
        if key.get("type") == "group_metadata":
            place, name = ("classic", key["data"]["group"]), "generation"
        elif key.get("version") in EPOCHS:
            place, name = ("newer", key["data"]["groupId"]), "epoch"
        else:
            continue
        number = record["value"] and record["value"]["data"][name]
        is_trusted = record["timestamp"] >= (since[record["partition"]] or -1)
        batch = record["partition"], record["batch"]["base_offset"]
        if number is None:
            ended[place[1]] = batch, last.get(place)
        goes_on = ended.get(place[1]) == (batch, number)
        if number and number != last.get(place) and is_trusted and not goes_on:
            result[place[1]] = result.get(place[1], 0) + 1
        last[place] = number
    return result
