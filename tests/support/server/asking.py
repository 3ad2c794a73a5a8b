"""Requests over a connection without a socket, and a group's usual way, for tests of the server."""

import struct

from coterie import wire
from coterie.server.api.table import SERVED_BY
from support.server.playing import play

KEY = {row.name: row.key for rows in SERVED_BY.values() for row in rows.values()}
SUBSCRIBED = b"\0\0\0\0\0\1\0\1t\xff\xff\xff\xff"  # version 0, to the topic t


def framed(frame):
    return struct.pack(">i", len(frame)) + frame


def request(api, version, body, *, correlation_id=1, client_id="tests"):
    """A request's bytes, its length in front."""
    frame = wire.encode_request(
        KEY[api], version, body, correlation_id=correlation_id, client_id=client_id
    )
    return framed(frame)


def ask(peer, api, version, body, **how):
    """Send a request and return the body of the answer."""
    peer.send(request(api, version, body, **how))
    return answer(peer, api, version)


def answer(peer, api, version):
    """The next answer, which has to be this API's."""
    return wire.decode_response(KEY[api], version, peer.frame(0)).body


def joining(group, member_id="", **fields):
    return {
        "groupId": group,
        "sessionTimeoutMs": 30000,
        "rebalanceTimeoutMs": 30000,
        "memberId": member_id,
        "protocolType": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIBED}],
        **fields,
    }


def member(peer, group):
    """Join alone and sync: the member's id and its generation."""
    joined = ask(peer, "JoinGroup", 3, joining(group))
    assert joined["errorCode"] == 0
    member_id, generation = joined["memberId"], joined["generationId"]
    assignments = [{"memberId": member_id, "assignment": b"mine"}]
    synced = ask(
        peer, "SyncGroup", 2,
        {"groupId": group, "generationId": generation, "memberId": member_id,
         "assignments": assignments},
    )  # fmt: skip
    assert synced["assignment"] == b"mine"
    return member_id, generation


def heartbeat(group, member_id, generation):
    return {"groupId": group, "generationId": generation, "memberId": member_id}


def commit(group, topic, offsets, member_id="", generation=-1):
    """An OffsetCommit of these offsets, by partition."""
    partitions = [
        {"partitionIndex": number, "committedOffset": offset} for number, offset in offsets.items()
    ]
    return {
        "groupId": group,
        "generationIdOrMemberEpoch": generation,
        "memberId": member_id,
        "topics": [{"name": topic, "partitions": partitions}],
    }


def authenticate(server, peer, token):
    """Send a token of SASL; the answer, which a refusal delays."""
    peer.send(request("SaslAuthenticate", 2, {"authBytes": token}))
    server.run(100)
    return answer(peer, "SaslAuthenticate", 2)


def scram(server, user, password):
    """Log in by SCRAM-SHA-256 over a new connection; the error code of the last answer."""
    peer = server.connect("sasl")
    ask(peer, "SaslHandshake", 1, {"mechanism": "SCRAM-SHA-256"})
    bare = f"n={user},r=abc"
    first = authenticate(server, peer, f"n,,{bare}".encode())
    if first["errorCode"]:
        return first["errorCode"]
    final, _ = play().scram("SCRAM-SHA-256", password, bare, first["authBytes"].decode())
    return authenticate(server, peer, final.encode())["errorCode"]


def frames_of(data):
    """The frames of a connection's bytes, without their lengths."""
    found = []
    while data:
        end = 4 + int.from_bytes(data[:4], "big")
        found.append(data[4:end])
        data = data[end:]
    return found


def correlation_ids(data):
    return [int.from_bytes(frame[:4], "big") for frame in frames_of(data)]
