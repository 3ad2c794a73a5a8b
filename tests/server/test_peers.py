"""A connection and its transport: when it reads and writes, what threads send, how it ends."""

import os
import socket

import pytest

from coterie.server.net.backlog import SLICE_BUFFERS, SLICE_BYTES, Backlog
from coterie.server.net.sender import SEND_BYTES
from coterie.server.output_budget import Unsent
from coterie.server.rate_limited_log import EVERY_MS
from support.server.asking import correlation_ids, joining, request
from support.server.transports import Peering
from support.server.writing import batch

MB = 1 << 20
MUCH, AT_ONCE, LARGE = 1 << 18, 1 << 16, 1 << 14
VERSIONS = request("ApiVersions", 0, {}, correlation_id=7)


def fetching(offset, *, wait_ms=0, correlation_id=1):
    partition = {"partition": 0, "fetchOffset": offset, "partitionMaxBytes": 50 * MB}
    body = {"replicaId": -1, "maxWaitMs": wait_ms, "minBytes": 1, "maxBytes": 50 * MB,
            "topics": [{"topic": "t", "partitions": [partition]}]}  # fmt: skip
    return request("Fetch", 12, body, correlation_id=correlation_id)


def append(peering, count=1, size=10):
    log = peering.server.cluster.topics.get("t").partitions[0]
    for _ in range(count):
        log.produce(batch(b"v" * size))


def answers(transport):
    return correlation_ids(b"".join(transport.written))


def padded(size):
    """A request of so many bytes."""
    name = "c" * (size - len(request("ApiVersions", 0, {}, client_id="")))
    return request("ApiVersions", 0, {}, correlation_id=7, client_id=name)


def test_reading_pauses_above_256_kib_behind_a_request_until_that_is_answered():
    peering = Peering()
    peer, transport = peering.connect()
    for number in range(2):  # each time, not the first time only
        peer.data_received(fetching(number, wait_ms=9999))
        peer.data_received(padded(MUCH // 8) * 8)
        assert transport.reads
        peer.data_received(VERSIONS[:1])
        assert not transport.reads
        append(peering)
        peering.loop.run()
        assert transport.reads
        peer.data_received(VERSIONS[1:])
        assert answers(transport) == [1, *[7] * 9] * (number + 1)


def test_a_peer_that_reads_again_is_not_read_while_another_request_waits():
    peering = Peering()
    append(peering, 40, 20_000)
    peer, transport = peering.connect(room=0)
    peer.data_received(fetching(0) + fetching(40, wait_ms=9999) + padded(MUCH // 8) * 9)
    peering.loop.run()
    assert not transport.reads
    transport.read(None)
    peering.loop.run()
    assert answers(transport) == [1]
    assert not transport.reads
    append(peering)
    peering.loop.run()
    assert transport.reads
    assert answers(transport) == [1, 1, *[7] * 9]


def test_a_request_is_seen_with_what_is_behind_it():
    peering = Peering()
    peer, _ = peering.connect()
    behind = []
    peering.server.dispatcher.observer = lambda call, handler: (
        behind.append(call.connection.unread_bytes) or True
    )
    peer.data_received(VERSIONS * 3)
    assert behind == [2 * len(VERSIONS), len(VERSIONS), 0]
    peer.data_received(fetching(0, wait_ms=9999) + VERSIONS)
    assert peer.connection.unread_bytes == len(VERSIONS)
    peer.finish()
    assert peer.connection.unread_bytes == 0


@pytest.mark.parametrize(("size", "turns"), [(AT_ONCE, 0), (AT_ONCE + 1, 1)])
def test_a_response_of_64_kib_is_written_at_once_and_a_longer_one_in_its_turn(size, turns):
    peering = Peering()
    peer, transport = peering.connect()
    peer.connection.send(bytes(size - 4))
    for _ in range(turns):
        assert not transport.size
        peering.loop.turn()
    assert transport.size == size


def test_a_response_above_16_kib_pauses_a_connection_until_it_is_written():
    peering = Peering()
    for size, is_large in ((LARGE, False), (LARGE + 1, True)):
        peer, _ = peering.connect()
        peer.connection.on_output = None
        peer.connection.send(bytes(size))
        assert peer.connection.has_large_output is is_large


def test_a_slice_has_at_most_1024_buffers():
    backlog = Backlog(Unsent())
    peering = Peering()
    append(peering, 60, 1500)  # so long that they are not joined
    log = peering.server.cluster.topics.get("t").partitions[0]
    records = log.read(0, 50 * MB, 60, whole_first=True).records
    backlog.add([b"p"] * 1000 + [records] + [b"q"] * (SLICE_BUFFERS + 1))
    assert len(backlog.take(SLICE_BYTES)) == 1024
    assert len(backlog.take(SLICE_BYTES)) == 1024
    assert len(backlog.take(SLICE_BYTES)) == 1000 + 60 + 1025 - 2048


def paused(peering):
    """A peer that has not read a short response."""
    peer, transport = peering.connect(room=0)
    peer.data_received(VERSIONS)
    return peer, transport


def between_turns(peering):
    """A peer with a long response that waits for its turn."""
    append(peering, 40, 20_000)
    peer, transport = peering.connect()
    peer.data_received(fetching(0))
    return peer, transport


@pytest.mark.parametrize(
    ("begin", "ended"),
    [(paused, "aborted"), (between_turns, "aborted"), (Peering.connect, "closed")],
)
def test_a_connection_is_aborted_only_if_something_is_unsent(begin, ended):
    peer, transport = begin(Peering())
    peer.drop()
    assert transport.ended == ended


def test_an_idle_peer_that_has_just_read_everything_is_closed_in_order():
    peering = Peering({"connections.max.idle.ms": 1000})
    _, transport = paused(peering)
    peering.loop.now_s = 1.5
    transport.read(None)
    assert transport.ended == "closed"


def test_a_transport_that_has_ended_is_not_used_any_more():
    peering = Peering()
    peer, transport = peering.connect()
    peer.data_received(fetching(0, wait_ms=500))
    peer.connection_lost(None)
    peering.loop.now_s = 0.6
    peering.heart.tick()
    peering.loop.run()
    assert (transport.written, transport.ended) == ([], None)
    assert not peering.peers.all


@pytest.mark.parametrize(("idle_ms", "check_ms"), [(600_000, 60_000), (1009, 100), (5, 1), (0, 1)])
def test_idle_connections_are_looked_for_ten_times_within_their_time(idle_ms, check_ms):
    peering = Peering({"connections.max.idle.ms": idle_ms})
    waits = peering.server.cluster.waits
    assert waits.next_deadline_ms() == check_ms
    _, transport = peering.connect()
    waits.advance(idle_ms - 1)
    assert transport.ended is None
    waits.advance(idle_ms + check_ms)
    assert transport.ended == "closed"


def test_without_a_limit_no_connection_is_idle():
    """Kafka's Selector has no IdleExpiryManager below 0."""
    assert Peering({"connections.max.idle.ms": -1}).server.cluster.waits.next_deadline_ms() is None


def test_a_received_message_schedules_what_is_due_after_it():
    peering = Peering({"connections.max.idle.ms": -1, "group.initial.rebalance.delay.ms": 2500})
    peer, transport = peering.connect()
    peering.loop.run()
    peering.loop.beats.clear()
    peering.loop.now_s = 4.0
    peer.data_received(request("JoinGroup", 3, joining("g")))
    peering.loop.run()
    (when, beat), *_ = peering.loop.beats
    assert 6.5 <= when < 6.501
    assert not transport.written
    peering.loop.now_s = when
    beat()
    assert answers(transport) == [1]


def test_a_failed_handshake_is_logged_at_its_own_time():
    peering = Peering()
    lines = peering.server.log_lines
    peer, error = peering.connect()[0], ConnectionResetError()
    for now_ms, logged in ((0, 1), (EVERY_MS - 1, 1), (EVERY_MS, 2), (2 * EVERY_MS, 3)):
        peering.loop.now_s = now_ms / 1000
        peer.handshake_failed(("10.0.0.9", 5), error)
        assert len(lines) == logged
    assert lines[0].startswith("/10.0.0.9: ")


class Threads:
    """The sends that were handed to threads; each ends when a test says so."""

    def __init__(self, peering):
        self.sends = []
        peering.peers.senders.submit = lambda *send: self.sends.append(send)

    def end(self, unread=0):
        """End the send under way; so many of its bytes were not taken."""
        ((_, buffers, done),) = self.sends
        self.sends.clear()
        data = b"".join(buffers)
        done([data[len(data) - unread :]] if unread else [])
        return data

    @property
    def sender(self):
        ((sender, _, _),) = self.sends
        return sender


@pytest.fixture
def sending():
    """A peer on a real socket that is to get 3 MB, and the threads that send them."""
    peering = Peering({"connections.max.idle.ms": 1000})
    append(peering, 3, 1_040_000)
    near, far = socket.socketpair()
    with near, far:
        peer, transport = peering.connect()
        transport.socket = near
        threads = Threads(peering)
        yield peering, peer, transport, threads
        while threads.sends:
            threads.end()
            peering.loop.run()
        peer.connection_lost(None)


def test_threads_send_one_slice_and_then_more_while_the_transport_does_not_read(sending):
    peering, peer, transport, threads = sending
    peer.data_received(fetching(0) + fetching(0) + VERSIONS)
    data, senders = [], []
    for number in range(3):  # two of the first response; the second one is sent as a whole
        peering.loop.run()
        senders.append(threads.sender)
        own, its = (
            os.fstat(each.fileno()).st_ino for each in (threads.sender._socket, transport.socket)
        )
        assert own == its
        assert not transport.reads
        data.append(threads.end())
        assert (len(data[-1]) == SLICE_BYTES) == (number == 0)
        assert len(data[-1]) < SEND_BYTES
    peering.loop.run()
    assert senders[0] is senders[1] is not senders[2]
    assert transport.reads
    assert correlation_ids(b"".join([*data, *transport.written])) == [1, 1, 7]
    assert answers(transport) == [7]  # the transport has written this one alone


def test_a_peer_that_pauses_gets_the_rest_by_its_transport_and_the_next_response_by_threads(
    sending,
):
    peering, peer, transport, threads = sending
    peer.data_received(fetching(0) + fetching(0))
    peering.loop.run()
    sender = threads.sender
    sent = threads.end(unread=1000)[:-1000]
    peering.loop.run()
    assert sender._socket.fileno() == -1  # closed
    assert correlation_ids(sent + b"".join(transport.written)) == [1]
    assert threads.sender is not sender
    assert len(threads.end()) == SLICE_BYTES
    peering.loop.run()


def test_a_connection_ends_only_after_the_send_of_a_thread(sending):
    peering, peer, transport, threads = sending
    peer.data_received(fetching(0))
    peering.loop.run()
    threads.end()
    peering.loop.run()
    assert threads.sends
    peer.finish()
    peering.loop.run()
    assert transport.ended is None
    threads.end()
    assert transport.ended == "closed"


def test_a_connection_that_ends_within_a_response_has_all_of_it_sent(sending):
    peering, peer, transport, threads = sending
    peer.data_received(fetching(0))
    peering.loop.run()
    peer.finish()
    data = threads.end()
    peering.loop.run()
    assert transport.ended is None
    data += threads.end()
    peering.loop.run()
    assert transport.ended == "closed"
    assert correlation_ids(data + b"".join(transport.written)) == [1]


def test_the_end_of_a_threads_send_counts_as_activity(sending):
    peering, peer, transport, threads = sending
    peer.data_received(fetching(0))
    peering.loop.run()
    peering.loop.now_s = 0.7
    threads.end()
    peering.server.cluster.waits.advance(1699)
    assert transport.ended is None
    peering.server.cluster.waits.advance(1700)
    assert transport.ended == "aborted"


def test_a_lost_connection_ends_the_send_of_its_thread(sending):
    peering, peer, _, threads = sending
    peer.data_received(fetching(0))
    peering.loop.run()
    sender = threads.sender
    peer.connection_lost(None)
    assert (peering.unsent.stored, peering.unsent.copied) == (0, 0)
    assert sender._socket.fileno() != -1  # a thread has it still
    assert sender.send([b"x"]) == [b"x"]  # and gets to its end at once
    threads.end()
    assert sender._socket.fileno() == -1


def test_no_thread_sends_while_the_transport_has_bytes_to_write(sending):
    peering, peer, transport, threads = sending
    transport.waiting_bytes = 1
    peer.data_received(fetching(0))
    peering.loop.run()
    assert not threads.sends
    assert answers(transport) == [1]


@pytest.mark.parametrize(("size", "by_thread"), [(SLICE_BYTES, False), (SLICE_BYTES + 1, True)])
def test_a_response_of_one_slice_needs_no_thread(sending, size, by_thread):
    peering, peer, transport, threads = sending
    peer.connection.send(bytes(size - 4))
    peering.loop.run()
    assert bool(threads.sends) is by_thread
    assert transport.size == (0 if by_thread else size)
