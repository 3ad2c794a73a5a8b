"""The answer that refuses a whole request, for every request that Kafka's own classes wrote."""

import base64
import gzip
import json

import pytest
from playing import play

from coterie import wire
from coterie.server.apis import SERVED
from coterie.server.refusals import refusal
from golden_data import shared


def requests(key):
    path = shared("wire") / "frames/frames.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if row["key"] == key and row["direction"] == "request":
                yield row


GOLDEN = [row for row in SERVED.values() if row.name != "AlterConfigs"]  # no golden frame of it


@pytest.mark.parametrize("row", GOLDEN, ids=lambda row: row.name)
def test_a_refusal_of_a_golden_request_has_its_error_in_each_place(row):
    seen = 0
    for golden in requests(row.key):
        if not row.first <= golden["version"] <= row.last:
            continue
        frame = base64.b64decode(golden["frame"])
        body = wire.decode_request(frame, fill=True).body
        told = refusal(row.key, golden["version"], body, 27)
        answer = wire.encode_response(row.key, golden["version"], told)
        found = wire.decode_response(row.key, golden["version"], answer).body
        codes = set(play().codes(found)) | set(partition_codes(found))
        assert codes <= {27}
        seen += bool(codes)
    assert seen


def partition_codes(found):
    """The errors of AddPartitionsToTxn, which have a name of their own."""
    if isinstance(found, dict):
        for name, value in found.items():
            if name == "partitionErrorCode":
                yield value
            else:
                yield from partition_codes(value)
    elif isinstance(found, list):
        for value in found:
            yield from partition_codes(value)
