"""Connections on transports without a socket, in a loop that only runs what it is to call."""

from types import SimpleNamespace

from coterie.server.cluster import Listener
from coterie.server.net.listener import ClockDriver, Peer, Peers
from support.server import playing


class Loop:
    """The time of a loop, which a test moves, and the functions that it is to call."""

    def __init__(self, now_s=0.0):
        self.now_s, self.soon, self.beats = now_s, [], []

    def time(self):
        return self.now_s

    def call_soon(self, function):
        self.soon.append(function)

    call_soon_threadsafe = call_soon

    def call_at(self, when, function):
        self.beats.append((when, function))
        return SimpleNamespace(cancel=lambda: self.beats.remove((when, function)))

    def turn(self):
        """One iteration: call what is to be called now."""
        soon, self.soon = self.soon, []
        for function in soon:
            function()

    def run(self):
        """Iterate until there is nothing to call."""
        while self.soon:
            self.turn()


class Transport:
    """The transport of a peer that reads only so many bytes; it takes what exceeds them once."""

    def __init__(self, room=None):
        self.reads, self.written, self.ended = True, [], None
        self.room, self.protocol = room, None
        self.socket, self.waiting_bytes = None, 0

    def get_extra_info(self, name):
        return {"peername": ("127.0.0.1", 1), "socket": self.socket}.get(name)

    def get_write_buffer_size(self):
        return self.waiting_bytes

    def pause_reading(self):
        self.reads = False

    def resume_reading(self):
        self.reads = True

    def write(self, data):
        self.writelines([data])

    def writelines(self, buffers):
        assert self.ended is None
        self.written += buffers
        if self.room is not None and self.room >= 0:
            self.room -= sum(map(len, buffers))
            if self.room < 0:
                self.protocol.pause_writing()

    @property
    def size(self):
        return sum(map(len, self.written))

    def read(self, room):
        """Let the peer read again."""
        self.room = room
        self.protocol.resume_writing()

    def close(self):
        self.ended = "closed"

    def abort(self):
        self.ended = "aborted"


class Peering:
    """A server whose connections have such transports."""

    def __init__(self, config=None):
        self.server = playing.Server(config)
        self.server.cluster.topics.create("t", 1)
        self.loop = Loop()
        self.server.dispatcher.call_soon = self.loop.call_soon
        self.heart = ClockDriver(self.loop, self.server.cluster, virtual=False)
        self.peers = Peers(self.server.dispatcher, self.heart)
        self.listener = Listener()
        self.server.node.addresses[self.listener] = ("127.0.0.1", 1)

    @property
    def unsent(self):
        return self.server.dispatcher.unsent

    def connect(self, room=None):
        """Connect a peer; return it and its transport."""
        peer, transport = Peer(self.peers, self.server.node, self.listener), Transport(room)
        transport.protocol = peer
        peer.connection_made(transport)
        return peer, transport
