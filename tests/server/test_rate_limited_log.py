"""The log lines of connections that are closed or left without a response: text and rate."""

import struct

import pytest

from coterie import wire
from coterie.server.clock import Timers
from coterie.server.net.listener import Peers
from coterie.server.rate_limited_log import EVERY_MS, RateLimitedLog
from support.server.asking import KEY, ask, framed, request
from support.server.playing import Server
from support.server.writing import batch

SILENT = "as by a broker it is never answered"
CLOSED = "closes without an answer"


@pytest.fixture
def server():
    return Server({})


def producing(records, acks=-1, topic="t"):
    parts = [{"index": 0, "records": records}]
    return {"acks": acks, "topicData": [{"name": topic, "partitionData": parts}]}


def damaged(records):
    return records[:-1] + bytes([records[-1] ^ 1])


def only_line(server):
    (line,) = server.log_lines
    return line


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (struct.pack(">i", -1), "a frame of -1 bytes, where 1 to 104857600 are read;"),
        (b"\x16\x03\x01\x02\x00\x01", "(TLS, as it seems, where none is expected)"),
        (b"GET /metrics HTTP/1.1\r\n", "(HTTP, as it seems)"),
        (framed(b"abc"), "too short for a header"),
        (framed(struct.pack(">hhih", 4, 0, 1, -1)), "API 4, which is not served"),
        (framed(struct.pack(">hhih", 12, 9, 1, -1)), "Heartbeat 9, which is served from 0 to 4"),
        (framed(struct.pack(">hhih", 12, 4, 1, -1)), "Heartbeat 4 does not parse"),
        (framed(struct.pack(">hhi", 18, 99, 1)), "ApiVersions 99 does not parse"),
    ],
)
def test_a_frame_that_ends_its_connection_is_told_with_its_cause(server, data, expected):
    peer = server.connect()
    peer.send(data)
    assert peer.connection.closing
    assert not peer.take()
    line = only_line(server)
    assert line.startswith("/127.0.0.1: ")
    assert expected in line
    assert line.endswith(CLOSED)


def test_an_offset_fetch_that_names_no_group_is_told(server):
    peer = server.connect()
    peer.send(request("OffsetFetch", 8, {"groups": []}, client_id="me"))
    assert not peer.take()
    assert not peer.connection.closing
    line = only_line(server)
    assert "OffsetFetch 8 of client 'me' names no group" in line
    assert line.endswith(SILENT)


def test_a_produce_without_records_is_told(server):
    peer = server.connect()
    peer.send(request("Produce", 9, producing(None)))
    assert not peer.take()
    assert not peer.connection.closing
    line = only_line(server)
    assert "Produce 9 of client 'tests' brings null" in line
    assert line.endswith(SILENT)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (producing(batch(b"v"), 0, "none"), "UNKNOWN_TOPIC_OR_PARTITION in partition 0 of 'none'"),
        (producing(damaged(batch(b"v")), 0), "CORRUPT_MESSAGE in partition 0 of 't'"),
        (producing(batch(b"v", producer_id=5, producer_epoch=0, base_sequence=0,
                         transactional=True), 0), "TRANSACTIONAL_ID_AUTHORIZATION_FAILED;"),
    ],
)  # fmt: skip
def test_a_produce_without_acks_that_failed_is_told(server, body, expected):
    server.cluster.topics.create("t", 1)
    peer = server.connect()
    peer.send(request("Produce", 9, body))
    assert peer.connection.closing
    line = only_line(server)
    assert f"wants no acks and failed with {expected}" in line
    assert line.endswith(CLOSED)


def test_a_bare_token_that_is_refused_is_told(server):
    peer = server.connect("sasl")
    ask(peer, "SaslHandshake", 0, {"mechanism": "PLAIN"})
    peer.send(framed(b"\0alice\0not-hers"))
    server.run(100)
    assert peer.connection.closing
    assert "a token of SASL that is refused" in only_line(server)
    assert "(authentication failed for user 'alice' with PLAIN: wrong" in only_line(server)
    assert "not-hers" not in only_line(server)


def test_what_is_answered_is_not_told(server):
    other = server.connect()
    assert ask(other, "Produce", 9, producing(batch(b"v"), 1))["responses"]
    assert not server.log_lines


def test_a_flood_is_told_at_once_and_then_by_its_number(server):
    for _ in range(1000):
        server.connect().send(framed(b"abc"))
    assert len(server.log_lines) == 1
    server.connect().send(framed(b"\0\4\0\0\0\0\0\0\0\0"))  # of another kind
    assert len(server.log_lines) == 2
    server.run(EVERY_MS - 1)
    assert len(server.log_lines) == 2
    server.run(1)
    assert len(server.log_lines) == 3
    assert server.log_lines[2].startswith("999 more like that in 10 s, the last: /127.0.0.1: ")
    server.connect().send(framed(b"abc"))
    server.run(EVERY_MS)
    assert server.log_lines[3].startswith("1 more like that")
    server.run(EVERY_MS)
    assert len(server.cluster.waits) == 0  # a kind is forgotten once it is quiet
    server.connect().send(framed(b"abc"))
    assert server.log_lines[4].startswith("/127.0.0.1: a frame that is too short")


def test_a_peer_chooses_no_kinds(server):
    for key in range(-(2**15), 2**15, 7):
        for listener in ("plain", "sasl"):
            server.connect(listener).send(framed(struct.pack(">hhih", key, -7, 1, -1)))
    assert len(server.log_lines) < 5 * len(KEY)


def test_what_a_peer_sends_is_escaped_and_cut(server):
    server.cluster.topics.create("t", 1)
    name = "x\n2026 root: \x1b[2J\u202e'" + "y" * 200
    frame = wire.encode_request(
        KEY["Produce"], 8, producing(batch(b"v"), 0, name), correlation_id=1, client_id=name
    )
    server.connect().send(framed(frame))
    line = only_line(server)
    assert line.isprintable()
    assert line.isascii()
    assert "y" * 100 not in line
    assert r"'x\n2026 root: \x1b[2J\u202e" not in line  # its own quote is no end of the text
    assert r'"x\n2026 root: \x1b[2J\u202e' in line


def test_a_line_is_one_line_whatever_it_is_made_of():
    lines = []
    RateLimitedLog(lines.append, Timers())("kind", "a\r\nb\u2028c\ud800d" + "e" * 1000)
    assert lines[0].startswith(r"a\r\nb\u2028c\ud800d")
    assert lines[0].isprintable()
    assert len(lines[0]) < 350
    for size in (299, 300, 301):  # the longest that is whole
        lines.clear()
        RateLimitedLog(lines.append, Timers())("kind", "a" * size)
        assert lines == ["a" * size if size <= 300 else "a" * 297 + "..."]


def test_connections_too_many_are_told_as_a_flood_is():
    server = Server({"max.connections": 1})
    peers = Peers(server.dispatcher, heart=None)
    assert peers.accepts(object(), "PLAINTEXT", 1)
    assert not any(peers.accepts(object(), "PLAINTEXT", 1) for _ in range(100))
    assert server.log_lines == ["a connection was closed at once: max.connections is reached"]
