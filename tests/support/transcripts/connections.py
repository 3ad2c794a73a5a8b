"""Transcripts of a server on the level of Kafka's protocol, without sockets and without a clock.

``server KEY=VALUE...`` begins with broker settings, ``topic NAME PARTITIONS`` makes a topic,
``connect NAME`` opens a connection. ``send NAME API VERSION``, with the body in JSON below it,
sends a request; ``advance MS`` lets time pass. The output has a line for each answer that comes:
the connection, the API, its version, the body. Bytes are texts there, each byte a character.
"""

import json

from coterie import wire
from support.server import asking
from support.server.playing import Server

BYTES = {"metadata", "assignment"}


class Connections:
    """A server, and connections by their names."""

    def __init__(self, _folder):
        self.server, self.peers, self.sent = None, {}, {}

    def run(self, words, body):
        """Return a line for each answer that a command leads to."""
        command, *rest = words
        getattr(self, f"_{command}")(*rest, **({"body": body} if command == "send" else {}))
        return list(self.answers())

    def _server(self, *settings):
        pairs = (word.split("=", 1) for word in settings)
        self.server = Server({key: json.loads(value) for key, value in pairs}, now_ms=0)

    def _topic(self, name, partitions):
        self.server.cluster.topics.create(name, int(partitions))

    def _connect(self, name):
        self.peers[name], self.sent[name] = self.server.connect(), []

    def _advance(self, ms):
        self.server.run(int(ms))

    def _send(self, name, api, version, *, body):
        fields = as_bytes(json.loads("".join(body) or "{}"))
        self.sent[name].append((api, int(version)))
        self.peers[name].send(asking.request(api, int(version), fields, client_id=name))

    def answers(self):
        for name, peer in self.peers.items():
            while peer.whole():
                api, version = self.sent[name].pop(0)
                response = wire.decode_response(asking.KEY[api], version, peer.frame(0)).body
                yield f"{self.server.cluster.now_ms} {name} {api} {version}: {as_text(response)}"
            if peer.connection.closing:
                yield f"{self.server.cluster.now_ms} {name}: closed"


def as_bytes(value):
    match value:
        case dict():
            return {
                name: v.encode("latin-1") if name in BYTES else as_bytes(v)
                for name, v in value.items()
            }
        case list():
            return [as_bytes(each) for each in value]
        case _:
            return value


def as_text(body):
    return json.dumps(body, default=lambda raw: bytes(raw).decode("latin-1"))
