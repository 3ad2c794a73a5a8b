"""Which offsets of consumer groups expire, against Kafka's clean-ups in golden traces."""

import base64
import json

import pytest

from coterie.insight.questions import expire
from coterie.insight.records.partition_view import read_partitions
from support.consumer_groups import golden
from support.insight.lives import written
from support.insight.trace_causes import key_of

OFFSET = 1
UNLIKE = ("txn_offset_commit", "append_raw", "hold_commits")  # what Kafka wrote is not all
REMOVES = ("delete_groups", "offset_delete")


def cleanups(name):
    """Yield (time, records before, offsets removed) of each clean-up that a trace asks for."""
    _, *trace = map(json.loads, golden.trace(name))
    lines = list(map(json.loads, golden.expected(name)))
    places = {line["id"]: place for place, line in enumerate(lines) if "id" in line}
    if any(line["op"] in UNLIKE for line in trace):
        return
    for number, line in enumerate(trace):
        later = [one for one in trace[number + 1 :] if one.get("id") in places]
        if line["op"] != "cleanup" or not later or later[0]["op"] in REMOVES:
            continue
        begin = max(places.get(one.get("id"), -1) for one in [{}, *trace[:number]])
        own = [one for one in lines[begin : places[later[0]["id"]]] if one["at"] == line["at"]]
        before = [one for one in lines if one["at"] < line["at"]] + [
            one for one in lines[: begin + 1] if one["at"] == line["at"]
        ]
        yield line["at"], appended(before), removed(appended(own))


def appended(lines):
    return [line for line in lines if line["event"] == "append"]


def removed(lines):
    keys = [key_of(line) for line in lines if line.get("value") is None]
    return {(key["group"], key["topic"], key["partition"]) for version, key in keys
            if version == OFFSET}  # fmt: skip


def record_of(line):
    value = line.get("value")
    key = base64.b64decode(line["key"])
    return line["at"], key, None if value is None else base64.b64decode(value)


CASES = [
    pytest.param(name, *case, id=f"{name}-{number}")
    for name in golden.names()
    for number, case in enumerate(cleanups(name))
    if case[1]
]


@pytest.mark.parametrize(("name", "at_ms", "before", "gone"), CASES)
def test_what_expires_is_what_kafka_removes(tmp_path, name, at_ms, before, gone):
    config = json.loads(golden.trace(name)[0]).get("config", {})
    retention_ms = int(config.get("offsets.retention.minutes", 10_080)) * 60_000
    (view,) = read_partitions([written(tmp_path, *map(record_of, before))])
    rows = expire.rows(view, expire.Parameters(now_ms=at_ms, retention_ms=retention_ms))
    expired = {(row["group_id"], row["topic"], row["partition"]) for row in rows
               if row["status"] == expire.EXPIRED and row["topic"] is not None}  # fmt: skip
    assert expired == gone


def test_some_clean_ups_remove_offsets():
    assert sum(bool(case.values[3]) for case in CASES) >= 2
