"""Failed TLS handshakes are one line in the log; TLS to a plain listener: test_rate_limited_log."""

import asyncio
import socket
import ssl
from contextlib import suppress
from functools import partial

import pytest
import trustme

from coterie.server.api.call import Dispatcher
from coterie.server.cluster import Cluster, Listener, Node
from coterie.server.net.accepting import Acceptor
from coterie.server.net.listener import ClockDriver, Peer, Peers
from coterie.server.net.tls import server_context
from coterie.server.options import Place
from support.server.asking import request

VERSIONS = request("ApiVersions", 3, {})


def uvloops():
    return pytest.importorskip("uvloop").new_event_loop()


@pytest.fixture(params=[asyncio.new_event_loop, uvloops], ids=["asyncio", "uvloop"])
def loop(request):
    made = request.param()
    yield made
    made.close()


@pytest.fixture(scope="module")
def authority():
    return trustme.CA()


@pytest.fixture
def files(authority, tmp_path):
    certificate = authority.issue_cert("localhost")
    paths = [tmp_path / name for name in ("cert", "key", "ca")]
    certificate.cert_chain_pems[0].write_to_path(paths[0])
    certificate.private_key_pem.write_to_path(paths[1])
    authority.cert_pem.write_to_path(paths[2])
    return paths


def log_after(loop, context, talk):
    """The log of a TLS listener once a client has talked to it and was let go."""

    async def play():
        log = []
        cluster = Cluster({}, log=log.append)
        listener = Listener("ssl")
        node = cluster.nodes[1] = Node(1, {listener: ("127.0.0.1", 0)})
        peers = Peers(Dispatcher(cluster), ClockDriver(loop, cluster, virtual=True))
        acceptor = Acceptor(partial(Peer, peers, node, listener), context)
        await acceptor.listen(Place("SSL", "127.0.0.1", 0))
        try:
            await talk(acceptor.port)
            while acceptor._greeting:
                await asyncio.sleep(0)
        finally:
            acceptor.close()
            peers.heart.stop()
        return log

    return loop.run_until_complete(play())


async def send_plain(data, port):
    """Send bytes without TLS and read until the server closes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    while await reader.read(1000):
        pass
    writer.close()


@pytest.mark.parametrize("data", [VERSIONS, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"])
def test_plain_text_on_a_tls_listener_is_one_line(loop, files, data):
    log = log_after(loop, server_context(*files[:2]), partial(send_plain, data))
    assert log == [
        "/127.0.0.1: the client spoke plain text to a TLS listener; the connection closes"
    ]


def test_a_client_without_a_certificate_is_one_line_with_its_cause(loop, files, authority):
    client = ssl.create_default_context()
    authority.configure_trust(client)

    def talk(port):
        # Under TLS 1.3 the client's side ends first; the refusal comes in the place of data.
        raw = socket.create_connection(("127.0.0.1", port))
        with suppress(OSError), client.wrap_socket(raw, server_hostname="localhost") as shaken:
            shaken.recv(1)

    async def shake(port):
        await asyncio.to_thread(talk, port)

    assert log_after(loop, server_context(*files), shake) == [
        "/127.0.0.1: the TLS handshake failed: peer did not return a certificate; "
        "the connection closes"
    ]


def test_a_peer_that_connects_and_leaves_is_not_logged(loop, files):
    async def leave(port):
        socket.create_connection(("127.0.0.1", port)).close()
        await asyncio.sleep(0)

    assert log_after(loop, server_context(*files[:2]), leave) == []
