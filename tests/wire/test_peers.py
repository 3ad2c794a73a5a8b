"""Frames of random values, by kio and kafka-python: every version that they have.

What they cannot hold is left out of the values: unknown tags, and for kio error codes that it
does not know and times beyond its own. Their decoders run in a process of their own.
"""

import pickle
import random
import subprocess
import sys
from pathlib import Path

import pytest

from coterie import wire
from support.golden_data import SHARED
from support.wire import peer_codecs
from support.wire.frames import messages, model, play, random_body

CHILD = Path(peer_codecs.__file__)
KNOWN_ERRORS = [0, 3, 15, 25, 27, 82, -1]
ROUNDS = 3
# kafka-python has no classes for these, and reads ApiVersions' answers in its own way: in version
# 0 where they do not fit another.
NOT_IN_KAFKA_PYTHON = {68, 69, 76, 77}
NO_UUID = "A" * 22
HEADER = {"correlationId": 1, "clientId": None}


def tame(rng, body):
    """Values that all can hold, in place."""
    body.pop("$tags", None)
    for name, value in body.items():
        if isinstance(value, dict):
            tame(rng, value)
        elif isinstance(value, list):
            for inner in value:
                if isinstance(inner, dict):
                    tame(rng, inner)
        elif type(value) is int and "rrorCode" in name:
            body[name] = rng.choice(KNOWN_ERRORS)
        elif type(value) is int and ("ime" in name or name.endswith("Ms")):
            body[name] = rng.randint(0, (1 << 31) - 1)


def shape(fields, version):
    within = play().within
    return [
        (field.name, None if field.sub is None else shape(field.sub, version))
        for field in fields
        if within(field.versions, version)
    ]


def cases(peer):
    rng = random.Random(peer)
    for release, api, key, version, direction, fields in messages():
        flexible = model(release).header_version(api, version, "request") == 2
        for _ in range(ROUNDS):
            body = random_body(rng, fields, version, flexible)
            tame(rng, body)
            header = {**HEADER, "requestApiKey": key, "requestApiVersion": version}
            frame = model(release).encode(api, version, direction, header, body)
            size = 10 + flexible
            if direction == "response":
                size = 4 + (flexible and api != "ApiVersions")
            yield (peer, key, version, direction, shape(fields, version), frame[size:]), frame


def answers(peer):
    pytest.importorskip({"kafka-python": "kafka"}.get(peer, peer))
    if not (SHARED / "golden/wire/schemas.json").exists():
        pytest.skip("golden/wire is not beside this checkout")
    asked = list(cases(peer))
    data = pickle.dumps([case for case, _ in asked])
    done = subprocess.run([sys.executable, CHILD], input=data, capture_output=True, check=True)
    return [(case, frame, told) for (case, frame), told in
            zip(asked, pickle.loads(done.stdout), strict=True)]  # fmt: skip


def ours(key, version, direction, frame):
    if direction == "request":
        return wire.decode_request(frame, fill=True).body
    return wire.decode_response(key, version, frame, fill=True).body


def only(body, fields, theirs):
    """Our body with the fields that they have; kafka-python has None for a tag that is absent."""
    if fields is None:
        return theirs if theirs is None and body == NO_UUID else body
    if body is None or theirs is None:
        return theirs
    if isinstance(body, list):
        return [only(b, fields, t) for b, t in zip(body, theirs, strict=True)]
    return {name: only(body[name], below, theirs[name]) for name, below in fields if name in theirs}


def test_kio_reads_and_writes_alike():
    compared = 0
    for (_, key, version, direction, fields, data), frame, told in answers("kio"):
        if isinstance(told, str):
            assert told.startswith("UnknownEntity"), told
            continue
        body, written = told
        assert written == data
        assert only(ours(key, version, direction, frame), fields, body) == body
        compared += 1
    assert compared > 1000


def test_kafka_python_reads_and_writes_alike():
    compared = 0
    for (_, key, version, direction, fields, data), frame, told in answers("kafka-python"):
        if key in NOT_IN_KAFKA_PYTHON or (key == 18 and direction == "response"):
            continue
        assert not isinstance(told, str), (key, version, direction, told)
        body, written = told
        assert written == data
        assert only(ours(key, version, direction, frame), fields, body) == body
        compared += 1
    assert compared > 1000
