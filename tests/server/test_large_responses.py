"""Large responses: no copies of stored batches, bounded slices, limits while peers do not read."""

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie import wire
from coterie.server.api.fetch_frame import fetch_frame
from coterie.server.net.backlog import SLICE_BUFFERS, SLICE_BYTES, TURN_BYTES, Backlog
from coterie.server.net.listener import Peer
from coterie.server.output_budget import Unsent
from coterie.server.services.adjacent_batches import RecordRange
from coterie.server.services.fetch_sessions import PartitionRow
from coterie.server.services.segment import StoredBatch
from support.examples import examples
from support.server.asking import ask, correlation_ids, frames_of, heartbeat, request
from support.server.transports import Peering, Transport
from support.server.writing import batch

FETCH, MB = 1, 1 << 20
NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"
VERSIONS = request("ApiVersions", 0, {}, correlation_id=7)


def fetching(max_bytes=50 * MB, *, correlation_id=1):
    partition = {"partition": 0, "fetchOffset": 0, "partitionMaxBytes": max_bytes}
    body = {"replicaId": -1, "maxWaitMs": 0, "minBytes": 1, "maxBytes": max_bytes,
            "topics": [{"topic": "t", "partitions": [partition]}]}  # fmt: skip
    return request("Fetch", 12, body, correlation_id=correlation_id)


def fill(server, count, size):
    """Write batches into the partition; return them as they are stored."""
    log = server.cluster.topics.get("t").partitions[0]
    for _ in range(count):
        log.produce(batch(b"v" * size))
    return [stored.data for segment in log._segments for stored in segment.batches]


def stored_range(sizes, cut):
    """A range of batches of such sizes, the last one cut by so many bytes."""
    batches, position = [], 0
    for number, size in enumerate(sizes):
        data = bytes([number % 256]) * size
        batches.append(StoredBatch(number, number, position, 0, 0, False, data))
        position += size
    return RecordRange(batches, position - min(cut, sizes[-1] - 1))


RANGES = st.builds(stored_range, st.lists(st.integers(1, 300), min_size=1, max_size=20),
                   st.integers(0, 300))  # fmt: skip
RECORDS = st.one_of(RANGES, st.binary(max_size=20))
ABORTED = st.one_of(st.none(), st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9))))


def row(number, records, aborted):
    return PartitionRow(number, 0, 9, 8, 1, None, None, None, aborted, -1, records)


ROWS = st.lists(st.builds(row, st.integers(0, 99), RECORDS, ABORTED), max_size=150)
ERRORS = st.just(PartitionRow(5, 74, -1, -1, -1, (3, 4), None, None, None, -1, b""))


@pytest.mark.parametrize("version", range(wire.APIS[FETCH].last_version + 1))
@settings(max_examples=examples(20))
@given(topics=st.lists(st.builds(lambda rows, error: [*rows, error], ROWS, ERRORS), max_size=3))
def test_the_parts_of_a_fetch_are_the_bytes_of_the_codec(version, topics):
    def body(plain):
        return (3, 0, 77, [
            ("name", NO_ID, [r._replace(records=plain(r.records)) for r in rows])
            for rows in topics
        ], None)  # fmt: skip

    parts = fetch_frame(version, body(lambda records: records), 5)
    expected = wire.encode_response(FETCH, version, body(bytes), correlation_id=5)
    assert b"".join(map(bytes, parts)) == expected


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=60), data=st.data())
def test_a_read_gives_the_whole_batches_and_the_beginning_of_the_last(sizes, data):
    server = Peering().server
    stored = [b for size in sizes for b in fill(server, 1, 100 * size)[-1:]]
    log = server.cluster.topics.get("t").partitions[0]
    offset = data.draw(st.integers(0, len(stored) - 1))
    end = data.draw(st.integers(offset + 1, len(stored)))
    limit = data.draw(st.integers(1, 200_000))
    fetched = log.read(offset, limit, end, whole_first=True)
    available = b"".join(stored[offset:end])
    assert bytes(fetched.records) == available[: max(limit, len(stored[offset]))]
    assert log.readable(offset, end) == len(available)


@given(
    sizes=st.lists(st.one_of(st.integers(1, 9), st.integers(1000, 9000)), min_size=1, max_size=40),
    most_bytes=st.integers(1, 20_000), most=st.integers(1, 20), data=st.data(),
)  # fmt: skip
def test_the_buffers_of_a_range_are_its_bytes_from_any_place_on(sizes, most_bytes, most, data):
    records = stored_range(sizes, data.draw(st.integers(0, 10_000)))
    start = data.draw(st.integers(0, len(records) - 1))
    buffers = records.buffers(start, most_bytes, most)
    taken = b"".join(buffers)
    assert taken
    assert bytes(records)[start : start + most_bytes].startswith(taken)
    assert len(buffers) <= most
    if len(buffers) < most:
        assert len(taken) == min(most_bytes, len(records) - start)


@pytest.mark.parametrize(("size", "most_buffers"), [(200, 1), (1500, 40)])
def test_small_batches_are_joined_and_large_ones_are_not(size, most_buffers):
    records = stored_range([size] * 40, 0)
    assert len(records.buffers(0, 1 << 20, 1024)) == most_buffers


@given(st.lists(st.one_of(RANGES, st.binary(min_size=1, max_size=2 * SLICE_BYTES)), max_size=5))
def test_slices_are_the_parts_in_order_and_bounded(parts):
    unsent = Unsent()
    backlog, taken = Backlog(unsent), b""
    backlog.add(parts)
    assert backlog.size == unsent.stored + unsent.copied == sum(map(len, parts))
    while backlog.size:
        buffers = backlog.take(SLICE_BYTES)
        assert len(buffers) <= SLICE_BUFFERS
        assert 0 < sum(map(len, buffers)) <= SLICE_BYTES
        taken += b"".join(buffers)
    backlog.settle()
    assert taken == b"".join(map(bytes, parts))
    assert (unsent.stored, unsent.copied) == (0, 0)


@given(st.lists(RECORDS.filter(len), max_size=5), st.integers(0, 4))
def test_a_lost_connection_leaves_nothing_counted(parts, taken):
    unsent = Unsent()
    backlog = Backlog(unsent)
    backlog.add(parts)
    for _ in range(taken):
        backlog.take(SLICE_BYTES)
        if taken % 2:
            backlog.settle()
    backlog.clear()
    assert (unsent.stored, unsent.copied, backlog.size) == (0, 0, 0)
    assert not backlog.take(SLICE_BYTES)


def test_a_fetch_hands_the_stored_batches_themselves_to_the_transport():
    peering = Peering()
    stored = fill(peering.server, 40, 20_000)
    peer, transport = peering.connect()
    peer.data_received(fetching())
    peering.loop.run()
    own = {id(data) for data in stored}
    sent = [buffer for buffer in transport.written if id(buffer) in own]
    views = [buffer for buffer in transport.written if isinstance(buffer, memoryview)]
    assert {id(view.obj) for view in views} <= own
    copied = transport.size - sum(map(len, sent)) - sum(map(len, views))
    assert copied < 200  # the response without its records
    assert transport.size > sum(map(len, stored))


def test_a_fetch_that_nobody_reads_takes_no_memory_of_its_size():
    peering = Peering()
    fill(peering.server, 60, 900_000)
    peers = [peering.connect(room=0) for _ in range(20)]
    tracemalloc.start()
    for peer, _ in peers:
        peer.data_received(fetching())
    peering.loop.run()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peering.unsent.stored > 20 * 49 * MB
    assert most < MB


def test_a_peer_that_never_reads_gets_one_slice_and_no_second_response():
    peering = Peering()
    fill(peering.server, 40, 20_000)
    peer, transport = peering.connect(room=100)
    peer.data_received(fetching(correlation_id=1) + fetching(correlation_id=2))
    peering.loop.run()
    assert transport.size <= SLICE_BYTES
    (size, stored, copied) = (transport.size, peering.unsent.stored, peering.unsent.copied)
    assert copied < 200
    assert size + stored <= 41 * 20_200  # one response, not two
    peer.connection_lost(None)
    assert (peering.unsent.stored, peering.unsent.copied) == (0, 0)


@settings(max_examples=examples(20))
@given(rooms=st.lists(st.integers(1, 400_000), max_size=20))
def test_how_fast_a_peer_reads_changes_no_byte(rooms):
    def sent(rooms):
        peering = Peering()
        fill(peering.server, 30, 20_000)
        peer, transport = peering.connect(room=rooms.pop(0) if rooms else None)
        peer.data_received(fetching(correlation_id=1) + VERSIONS)
        peer.data_received(fetching(90_000, correlation_id=2) + VERSIONS)
        peering.loop.run()
        while transport.room is not None:
            if transport.room < 0:
                transport.read(rooms.pop(0) if rooms else None)
            else:
                transport.room = None
            peering.loop.run()
        return b"".join(transport.written)

    data = sent([])
    assert correlation_ids(data) == [1, 7, 2, 7]
    assert sent([*rooms]) == data


def test_readers_write_in_turn_and_one_iteration_writes_a_bounded_number_of_bytes():
    peering = Peering()
    fill(peering.server, 60, 100_000)
    transports = [peering.connect()[1] for _ in range(8)]
    for transport in transports:
        transport.protocol.data_received(fetching())
    before = 0
    while peering.loop.soon:
        peering.loop.turn()
        sizes = [transport.size for transport in transports]
        assert sum(sizes) - before <= TURN_BYTES + SLICE_BYTES
        assert before or sum(sizes) >= TURN_BYTES
        assert max(sizes) - min(sizes) <= 2 * SLICE_BYTES
        before = sum(sizes)
    assert min(sizes) > 60 * 100_000


def test_another_client_is_answered_while_a_response_is_written():
    peering = Peering()
    fill(peering.server, 60, 100_000)
    reader, other = peering.connect()[0], peering.connect()
    reader.data_received(fetching())
    peering.loop.turn()
    assert peering.unsent.stored > MB
    other[0].data_received(VERSIONS)
    assert correlation_ids(b"".join(other[1].written)) == [7]


def test_a_connection_that_ends_sends_what_is_decided_first():
    peering = Peering()
    fill(peering.server, 40, 20_000)
    peer, transport = peering.connect()
    peer.data_received(fetching())
    peer.finish()
    assert transport.ended is None
    peering.loop.run()
    assert transport.ended == "closed"
    (frame,) = frames_of(b"".join(transport.written))
    assert len(frame) > 40 * 20_000


def test_an_idle_peer_that_does_not_read_is_closed_at_once():
    peering = Peering({"connections.max.idle.ms": 1000})
    fill(peering.server, 40, 20_000)
    _, silent = peering.connect(room=0)
    silent.protocol.data_received(fetching())
    _, idle = peering.connect()
    peering.loop.run()
    peering.server.cluster.waits.advance(2000)
    assert (silent.ended, idle.ended) == ("aborted", "closed")


def test_a_peer_is_read_again_after_its_response_however_much_it_has_sent_meanwhile():
    peering = Peering()
    fill(peering.server, 40, 20_000)
    peer, transport = peering.connect(room=0)
    peer.data_received(fetching(correlation_id=1))
    peer.data_received(VERSIONS * 20_000)
    peering.loop.run()
    assert not transport.reads
    transport.read(None)
    peering.loop.run()
    assert transport.reads
    assert len(frames_of(b"".join(transport.written))) == 20_001


def waits_for_data(peering):
    _, transport = peering.connect()
    partition = {"partition": 0, "fetchOffset": 40, "partitionMaxBytes": MB}
    body = {"replicaId": -1, "maxWaitMs": 700, "minBytes": 1, "maxBytes": MB,
            "topics": [{"topic": "t", "partitions": [partition]}]}  # fmt: skip
    transport.protocol.data_received(request("Fetch", 12, body))
    return transport, peering.heart.tick  # the response is due at 700


def receives_a_large_response(peering):
    _, transport = peering.connect()
    transport.protocol.data_received(fetching())
    assert not transport.written
    return transport, peering.loop.turn


def reads_again(peering):
    _, transport = peering.connect(room=0)
    transport.protocol.data_received(fetching())
    peering.loop.run()
    assert transport.protocol._transport_is_full
    return transport, lambda: transport.read(None)


def sends_a_byte(peering):
    _, transport = peering.connect()
    return transport, lambda: transport.protocol.data_received(b"\0")


@pytest.mark.parametrize(
    "begin", [waits_for_data, receives_a_large_response, reads_again, sends_a_byte]
)
def test_a_connection_is_idle_from_its_last_bytes_in_either_direction_on(begin):
    peering = Peering({"connections.max.idle.ms": 1000})
    fill(peering.server, 40, 20_000)
    waits = peering.server.cluster.waits
    transport, act = begin(peering)
    peering.loop.now_s = 0.7
    act()
    waits.advance(1699)
    assert transport.ended is None
    assert transport.written or begin is sends_a_byte
    waits.advance(1700)
    assert transport.ended is not None


def test_a_connection_is_idle_from_its_start_on():
    """A handshake of TLS takes time between the peer and its connection."""
    peering = Peering({"connections.max.idle.ms": 1000})
    peer, transport = Peer(peering.peers, peering.server.node, peering.listener), Transport()
    peering.loop.now_s = 0.7
    peer.connection_made(transport)
    peering.server.cluster.waits.advance(1699)
    assert transport.ended is None
    peering.server.cluster.waits.advance(1700)
    assert transport.ended == "closed"


def with_topics(count, most_copied):
    """A server with so many topics, and a limit of unread encoded bytes."""
    peering = Peering({"group.initial.rebalance.delay.ms": 0})
    for number in range(count):
        peering.server.cluster.topics.create(f"topic-{number:0100}", 1)
    peering.unsent.most_copied = most_copied
    return peering


METADATA = request("Metadata", 9, {"topics": None}, correlation_id=1)


def test_encoded_responses_that_nobody_reads_stay_below_the_limit_of_all():
    peering = with_topics(1000, 300_000)
    transports = [peering.connect(room=0)[1] for _ in range(30)]
    for transport in transports:
        transport.protocol.data_received(METADATA)
        peering.loop.run()
    size = max(transport.size for transport in transports)
    assert peering.unsent.copied < 300_000 + size
    assert sum(transport.size > 0 for transport in transports) < 30


@pytest.mark.parametrize("how", ["read", "lost"])
def test_requests_that_wait_for_room_go_on_in_their_order(how):
    peering = with_topics(1000, 1)
    peering.unsent.most_copied = 1
    _, silent = peering.connect(room=0)
    silent.protocol.data_received(METADATA * 5)
    peering.unsent.add(0, 1)
    waiting = [peering.connect()[1] for _ in range(3)]
    for transport in waiting:
        transport.protocol.data_received(METADATA + VERSIONS)
        peering.loop.run()
    assert not any(transport.written for transport in waiting)
    other = peering.server.connect()
    assert ask(other, "Heartbeat", 0, heartbeat("g", "nobody", 1))["errorCode"] == 25
    peering.unsent.subtract(0, 1)
    if how == "read":
        silent.read(None)
    else:
        silent.protocol.connection_lost(None)
    peering.loop.run()
    assert [correlation_ids(b"".join(t.written))[1] for t in waiting] == [7, 7, 7]


def test_a_lost_connection_waits_for_no_room():
    peering = with_topics(10, 1)
    peering.unsent.add(0, 1)
    peer, transport = peering.connect()
    peer.data_received(METADATA)
    peer.connection_lost(None)
    peering.unsent.subtract(0, 1)
    peering.loop.run()
    assert not transport.written


def test_a_long_response_is_not_begun_while_too_many_bytes_are_unread():
    peering = with_topics(1000, 1)
    peer, transport = peering.connect()
    peer.data_received(METADATA)
    peering.unsent.add(0, 1)
    peering.loop.run()
    assert not transport.written
    peering.unsent.subtract(0, 1)
    peering.loop.run()
    assert correlation_ids(b"".join(transport.written)) == [1]


def test_a_long_response_that_has_begun_is_finished_whatever_is_unread():
    peering = with_topics(3000, 1)
    peer, transport = peering.connect()
    peer.data_received(METADATA)
    peering.loop.turn()
    peering.loop.turn()
    peering.unsent.add(0, 1)
    assert not transport.written  # it has more slices to make
    peering.loop.run()
    assert correlation_ids(b"".join(transport.written)) == [1]


def test_what_waits_for_room_is_called_in_order_once_there_is_some_and_it_is_not_withdrawn():
    unsent, called = Unsent(most_copied=10), []

    def first():
        called.append(1)
        unsent.add(0, 3)  # its response
        unsent.subtract(0, 0)

    second, third = (lambda: called.append(2)), (lambda: called.append(3))
    unsent.add(100, 10)
    assert unsent.is_full
    for go_on in (first, second, third, third):
        unsent.wait(go_on)
    unsent.subtract(50, 0)
    assert not called
    unsent.forget(second)
    unsent.subtract(0, 1)
    assert (called, unsent.copied, unsent.stored) == ([1], 12, 50)
    unsent.subtract(50, 2)
    assert called == [1]  # at the limit there is none
    unsent.subtract(0, 1)
    assert called == [1, 3]
    assert not unsent.is_full
    unsent.wake()
    assert called == [1, 3]
