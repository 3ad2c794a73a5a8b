"""The other end of a real connection: the player's own, and what needs no player."""

import socket

from coterie import wire
from support.patience import HANG_S
from support.server.asking import KEY
from support.server.playing import play


def connect(broker, number=0):
    """Connect to a listener of a broker."""
    host, _, port = broker.addresses[number].rpartition(":")
    return play().Connection((host.strip("[]"), int(port)))


def ask(connection, api, version, body, **how):
    frame = wire.encode_request(KEY[api], version, body, **how)
    connection.send(len(frame).to_bytes(4, "big") + frame)
    return wire.decode_response(KEY[api], version, connection.frame(HANG_S)).body


def free_port():
    """A port without a listener."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]
