"""Threads that send large responses, over real sockets."""

import contextlib
import queue
import socket
import threading

from coterie.server import Broker
from coterie.server.net.sender import SEND_BYTES, Sender, Senders
from support.patience import HANG_S
from support.server.asking import correlation_ids, request
from support.server.writing import batch

MB = 1 << 20
PARTS = [bytes([number]) * 100_003 for number in range(40)]


@contextlib.contextmanager
def connected():
    """A connection as a transport has it: its sockets on both sides, the first one not blocking."""
    near, far = socket.socketpair()
    near.setblocking(False)
    near.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 50_000)
    with near, far:
        yield near, far


def received(far, most=None):
    """All bytes that arrive, in a thread of their own: start, then join it."""
    data = bytearray()

    def read():
        while most is None or len(data) < most:
            if not (more := far.recv(MB)):
                break
            data.extend(more)

    return threading.Thread(target=read), data


def test_a_peer_that_reads_gets_all_bytes_by_one_call():
    with connected() as (near, far):
        sender = Sender(near)
        reader, data = received(far)
        reader.start()
        unsent = sender.send(PARTS)
        near.shutdown(socket.SHUT_WR)
        reader.join()
        assert b"".join([data, *unsent]) == b"".join(PARTS)
        assert not unsent
        assert not near.getblocking()
        sender.close()


def test_what_a_silent_peer_does_not_take_is_returned():
    with connected() as (near, far):
        sender = Sender(near)
        unsent = b"".join(sender.send(PARTS))
        assert unsent
        assert not near.getblocking()
        near.shutdown(socket.SHUT_WR)
        reader, data = received(far)
        reader.start()
        reader.join()
        assert bytes(data) + unsent == b"".join(PARTS)
        sender.close()


def test_nothing_is_sent_to_a_peer_that_is_gone():
    with connected() as (near, far):
        sender = Sender(near)
        far.close()
        assert b"".join(sender.send(PARTS)) == b"".join(PARTS)
        sender.abort()
        sender.close()


def test_an_aborted_sender_returns_at_once_and_the_peer_reads_to_an_end():
    with connected() as (near, far):
        sender = Sender(near)
        sender.abort()
        assert sender.send(PARTS)
        assert far.recv(10) == b""
        sender.close()


def producing(records):
    row = {"name": "t", "partitionData": [{"index": 0, "records": records}]}
    body = {"acks": -1, "timeoutMs": 1000, "topicData": [row]}
    return request("Produce", 7, body)


def fetching(correlation_id):
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": 50 * MB}
    body = {"replicaId": -1, "maxWaitMs": 0, "minBytes": 1, "maxBytes": 50 * MB,
            "topics": [{"topic": "t", "partitions": [partition]}]}  # fmt: skip
    return request("Fetch", 12, body, correlation_id=correlation_id)


VERSIONS = request("ApiVersions", 0, {}, correlation_id=7)


def connection(broker):
    host, _, port = broker.addresses[0].rpartition(":")
    return socket.create_connection((host.strip("[]"), int(port)), timeout=HANG_S)


@contextlib.contextmanager
def filled_broker():
    """A broker with more bytes in a partition than one call sends; and a new connection to it."""
    with Broker(topics={"t": 1}) as broker:
        with connection(broker) as writer:
            for number in range(SEND_BYTES // MB * 2):
                writer.sendall(producing(batch(bytes([number]) * 900_000)))
                frame_from(writer)
        yield broker


def frame_from(peer):
    """The next response, its length in front."""
    head = exactly(peer, 4)
    return head + exactly(peer, int.from_bytes(head, "big"))


def exactly(peer, size):
    data = bytearray(size)
    view = memoryview(data)
    while view:
        count = peer.recv_into(view)
        assert count, "the connection has ended"
        view = view[count:]
    return bytes(data)


def test_a_fast_reader_gets_the_responses_of_its_requests_in_order():
    with filled_broker() as broker, connection(broker) as fast:
        expected = None
        for _ in range(3):
            fast.sendall(fetching(1) + VERSIONS + fetching(2))
            frames = [frame_from(fast) for _ in range(3)]
            assert correlation_ids(b"".join(frames)) == [1, 7, 2]
            assert len(frames[0]) > SEND_BYTES
            assert frames[0][8:] == frames[2][8:] == (expected or frames[0][8:])
            expected = frames[0][8:]


def test_a_reader_that_pauses_gets_the_same_bytes():
    with filled_broker() as broker, connection(broker) as slow:
        with connection(broker) as fast:
            fast.sendall(fetching(1))
            expected = frame_from(fast)
            slow.sendall(fetching(1) + VERSIONS)
            for _ in range(3):  # other requests go on meanwhile
                fast.sendall(fetching(1))
                assert frame_from(fast) == expected
        assert frame_from(slow) == expected
        assert correlation_ids(frame_from(slow)) == [7]


def test_readers_that_leave_within_a_response_disturb_no_other():
    with filled_broker() as broker:
        for take in (0, 100, 5 * MB):
            with connection(broker) as leaving:
                leaving.sendall(fetching(1) + fetching(2))
                exactly(leaving, take)
        with connection(broker) as other:
            other.sendall(fetching(3))
            assert correlation_ids(frame_from(other)) == [3]


def test_a_broker_stops_while_a_response_is_sent():
    with filled_broker() as broker:
        silent = connection(broker)
        silent.sendall(fetching(1) + fetching(2))
        exactly(silent, 10)
    data = bytearray(b"x")
    with contextlib.suppress(ConnectionResetError):
        while data:
            data = silent.recv(MB)
    silent.close()


def test_the_end_of_a_server_waits_for_no_send_under_way():
    calls, unsent = queue.SimpleQueue(), []
    senders = Senders(calls.put)

    class Ending:
        def send(self, buffers):
            try:
                senders.close()
            except RuntimeError as error:  # it would wait for its own thread
                return [repr(error).encode()]
            return buffers

    senders.submit(Ending(), [b"left"], unsent.append)
    calls.get()()
    assert unsent == [[b"left"]]
