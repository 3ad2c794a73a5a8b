"""The answer that refuses a whole request, for every request that Kafka's own classes wrote."""

import base64
import gzip
import json

import pytest

from coterie import wire
from coterie.server.api.table import SERVED_BY, refusal
from support.golden_data import shared
from support.server.playing import play


def requests(key):
    path = shared("wire") / "frames/frames.jsonl.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            if row["key"] == key and row["direction"] == "request":
                yield row


@pytest.mark.parametrize(
    "row",
    [
        pytest.param(row, id=f"{release}-{row.name}")
        for release, rows in SERVED_BY.items()
        for row in rows.values()
    ],
)
def test_a_refusal_of_a_golden_request_has_its_error_in_each_place(row):
    seen = 0
    found = list(requests(row.key))
    if not found:
        pytest.skip(f"there is no golden frame of {row.name}")
    for golden in found:
        if not row.first <= golden["version"] <= row.last:
            continue
        frame = base64.b64decode(golden["frame"])
        body = wire.decode_request(frame, fill=True).body
        response = refusal(row.key, golden["version"], body, 27)
        if row.name == "Produce" and body["acks"] == 0:
            assert response is None  # no request waits for an answer
            continue
        answer = wire.encode_response(row.key, golden["version"], response)
        body = wire.decode_response(row.key, golden["version"], answer).body
        codes = set(play().codes(body)) | set(partition_codes(body))
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
