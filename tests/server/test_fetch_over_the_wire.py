"""Fetch: when it is answered, how much it returns, and the responses of a session."""

import gc
import weakref

import pytest

from coterie._core.codec.batch import encode_batch
from coterie.messages import LogReader
from support.server.asking import answer, ask, request
from support.server.playing import Server
from support.server.writing import batch, of_producer, offsets

SIZE = len(batch(b"v"))


@pytest.fixture
def server():
    made = Server({})
    made.cluster.topics.create("t", 3)
    return made


def log(server, number=0):
    return server.cluster.topics.partition("t", number)


def asking(*parts, **fields):
    """A Fetch of the topic t: (partition, offset) or (partition, offset, most bytes)."""
    partitions = [
        {"partition": part[0], "fetchOffset": part[1], "currentLeaderEpoch": -1,
         "partitionMaxBytes": part[2] if len(part) > 2 else 1 << 20}
        for part in parts
    ]  # fmt: skip
    topics = [{"topic": "t", "partitions": partitions}] if partitions else []
    return {"maxWaitMs": 500, "minBytes": 1, "maxBytes": 1 << 20, "topics": topics, **fields}


def partitions(body):
    """Partition -> (error, offsets of the records, high watermark)."""
    return {
        each["partitionIndex"]: (each["errorCode"], offsets(each["records"]), each["highWatermark"])
        for topic in body["responses"]
        for each in topic["partitions"]
    }


def test_a_fetch_of_nothing_waits_its_time_and_not_a_moment_less(server):
    peer = server.connect()
    peer.send(request("Fetch", 11, asking((0, 0))))
    server.run(499)
    assert not peer.take()
    server.run(1)
    assert partitions(answer(peer, "Fetch", 11)) == {0: (0, [], 0)}


def test_a_fetch_waits_for_as_many_bytes_as_it_wants(server):
    peer = server.connect()
    peer.send(request("Fetch", 11, asking((0, 0), (1, 0), minBytes=3 * SIZE)))
    log(server, 0).produce(batch(b"v"))
    log(server, 1).produce(batch(b"v"))
    assert not peer.take()
    log(server, 0).produce(batch(b"v"))
    assert partitions(answer(peer, "Fetch", 11)) == {0: (0, [0, 1], 2), 1: (0, [0], 1)}
    assert not log(server, 0).waiters
    assert len(server.cluster.waits) == 0


def test_a_fetch_waits_for_bytes_from_its_offset_on(server):
    for _ in range(3):
        log(server).produce(batch(b"v"))
    peer = server.connect()
    peer.send(request("Fetch", 11, asking((0, 3), minBytes=2 * SIZE)))
    log(server).produce(batch(b"v"))
    assert not peer.take()
    log(server).produce(batch(b"v"))
    assert partitions(answer(peer, "Fetch", 11)) == {0: (0, [3, 4], 5)}


def test_a_fetch_is_answered_at_once_if_there_are_just_as_many_bytes_as_it_wants(server):
    peer = server.connect()
    for number in range(2):
        log(server, number).produce(batch(b"v"))
    peer.send(request("Fetch", 11, asking((0, 0), (1, 0), minBytes=2 * SIZE)))
    assert peer.whole()


def test_a_fetch_waits_if_a_partition_may_not_give_as_many_bytes_as_it_wants(server):
    """What a partition has beyond its limit does not count. Source: DelayedFetch.tryComplete."""
    peer = server.connect()
    for _ in range(3):
        log(server, 0).produce(batch(b"v"))
    peer.send(request("Fetch", 11, asking((0, 0, SIZE), minBytes=2 * SIZE)))
    log(server, 0).produce(batch(b"v"))
    server.run(499)
    assert not peer.take()
    server.run(1)
    assert partitions(answer(peer, "Fetch", 11)) == {0: (0, [0], 4)}


def test_a_fetch_that_cannot_be_answered_does_not_wait(server):
    peer = server.connect()
    assert partitions(ask(peer, "Fetch", 11, asking((0, 5)))) == {0: (1, [], -1)}
    assert partitions(ask(peer, "Fetch", 11, asking((9, 0)))) == {9: (3, [], -1)}
    assert partitions(ask(peer, "Fetch", 11, asking((0, 0), maxWaitMs=0))) == {0: (0, [], 0)}


def test_a_topic_that_is_deleted_ends_a_waiting_fetch(server):
    peer = server.connect()
    peer.send(request("Fetch", 11, asking((0, 0))))
    server.cluster.topics.delete("t")
    assert partitions(answer(peer, "Fetch", 11)) == {0: (3, [], -1)}


def test_what_a_peer_sends_behind_a_fetch_may_write_to_its_partition(server):
    """The fetch has ended by then: it is answered once."""
    peer = server.connect()
    data = [{"name": "t", "partitionData": [{"index": 0, "records": batch(b"v")}]}]
    producing = {"acks": -1, "timeoutMs": 1000, "topicData": data}
    peer.send(request("Fetch", 11, asking((0, 0))) + request("Produce", 9, producing))
    log(server).produce(batch(b"v"))
    assert partitions(answer(peer, "Fetch", 11)) == {0: (0, [0], 1)}
    (topic,) = answer(peer, "Produce", 9)["responses"]
    assert [row["baseOffset"] for row in topic["partitionResponses"]] == [1]
    assert not peer.connection.closing


def test_what_is_over_the_limit_of_all_is_left_for_later_but_the_first_batch_comes_whole(server):
    for number in range(3):
        for _ in range(2):
            log(server, number).produce(batch(b"v"))
    peer = server.connect()
    body = ask(peer, "Fetch", 11, asking((0, 0), (1, 0), (2, 0), maxBytes=3 * SIZE))
    assert partitions(body) == {0: (0, [0, 1], 2), 1: (0, [0], 2), 2: (0, [], 2)}
    body = ask(peer, "Fetch", 11, asking((0, 0, 1), (1, 0, 1)))
    assert partitions(body) == {0: (0, [0], 2), 1: (0, [], 2)}
    body = ask(peer, "Fetch", 2, asking((0, 0, SIZE - 1)))
    assert partitions(body) == {0: (0, [], 2)}  # of old a batch could be too large to be read


def test_a_fetch_of_committed_records_ends_before_an_open_transaction_and_names_the_aborted(server):
    peer, part = server.connect(), log(server)
    part.produce(of_producer(0, producer_id=5, transactional=True))
    part.append_marker(5, 0, 0, False, 1000)
    part.produce(batch(b"v"))
    part.produce(of_producer(0, producer_id=6, transactional=True))
    body = ask(peer, "Fetch", 11, asking((0, 0), isolationLevel=1))
    (found,) = body["responses"][0]["partitions"]
    assert offsets(found["records"]) == [0, 1, 2]
    assert (found["lastStableOffset"], found["highWatermark"]) == (3, 4)
    assert found["abortedTransactions"] == [{"producerId": 5, "firstOffset": 0}]
    peer.send(request("Fetch", 11, asking((0, 3), isolationLevel=1)))
    server.run(100)
    assert not peer.take()
    part.append_marker(6, 0, 0, True, 1000)
    (found,) = answer(peer, "Fetch", 11)["responses"][0]["partitions"]
    assert (offsets(found["records"]), found["abortedTransactions"]) == ([3, 4], [])


def test_a_session_is_told_only_of_partitions_with_something_new(server):
    peer = server.connect()
    body = ask(peer, "Fetch", 11, asking((0, 0), (1, 0), maxWaitMs=0, sessionEpoch=0))
    session = body["sessionId"]
    assert partitions(body) == {0: (0, [], 0), 1: (0, [], 0)}
    log(server, 1).produce(batch(b"v"))
    at = {"sessionId": session, "maxWaitMs": 0}
    assert partitions(ask(peer, "Fetch", 11, asking(sessionEpoch=1, **at))) == {1: (0, [0], 1)}
    assert partitions(ask(peer, "Fetch", 11, asking((1, 1), sessionEpoch=2, **at))) == {}
    log(server, 0).produce(batch(b"v"))
    forgotten = [{"topic": "t", "partitions": [1]}]
    body = asking((0, 1), (2, 0), sessionEpoch=3, forgottenTopicsData=forgotten, **at)
    assert partitions(ask(peer, "Fetch", 11, body)) == {0: (0, [], 1), 2: (0, [], 0)}
    log(server, 1).produce(batch(b"v"))
    assert partitions(ask(peer, "Fetch", 11, asking(sessionEpoch=4, **at))) == {}
    server.cluster.topics.delete("t")
    body = partitions(ask(peer, "Fetch", 11, asking(sessionEpoch=5, **at)))
    assert body == {0: (3, [], -1), 2: (3, [], -1)}


@pytest.mark.parametrize("happens", ["written", "deleted"])
def test_a_session_that_waits_hears_at_once_what_comes_to_a_partition_that_was_quiet(
    server, happens
):
    peer = server.connect()
    session = ask(peer, "Fetch", 11, asking((0, 0), (1, 0), maxWaitMs=0, sessionEpoch=0))
    again = {"sessionId": session["sessionId"]}
    assert partitions(ask(peer, "Fetch", 11, asking(sessionEpoch=1, maxWaitMs=0, **again))) == {}
    peer.send(request("Fetch", 11, asking(sessionEpoch=2, **again)))
    assert not peer.take()
    if happens == "written":
        log(server, 1).produce(batch(b"v"))
        assert partitions(answer(peer, "Fetch", 11)) == {1: (0, [0], 1)}
    else:
        server.cluster.topics.delete("t")
        assert partitions(answer(peer, "Fetch", 11))[0] == (3, [], -1)


def test_a_session_is_answered_about_changed_fields_of_a_partition_without_news(server):
    log(server).produce(batch(b"v"))
    log(server).leader_epochs.append((2, 1))
    peer = server.connect()
    session = ask(peer, "Fetch", 12, asking((0, 1), maxWaitMs=0, sessionEpoch=0))["sessionId"]
    diverging = {"epoch": 0, "endOffset": 1}
    cases = [
        ({}, []), ({"currentLeaderEpoch": 1}, [(74, None)]), ({"currentLeaderEpoch": 2}, []),
        ({"currentLeaderEpoch": 3}, [(75, None)]), ({"lastFetchedEpoch": 1}, [(0, diverging)]),
        ({"lastFetchedEpoch": 2}, []), ({"partitionMaxBytes": -1}, [(-1, None)]),
        ({"partitionMaxBytes": 0}, []),
    ]  # fmt: skip
    for turn, (fields, expected) in enumerate(cases):
        asking_again = asking((0, 1), maxWaitMs=0, sessionEpoch=2 * turn + 1, sessionId=session)
        asking_again["topics"][0]["partitions"][0].update(fields)
        rows = ask(peer, "Fetch", 12, asking_again)["responses"]
        found = [(p["errorCode"], p.get("divergingEpoch")) for r in rows for p in r["partitions"]]
        assert found == expected, fields
        good = asking((0, 1), maxWaitMs=0, sessionEpoch=2 * turn + 2, sessionId=session)
        ask(peer, "Fetch", 12, good)


def test_a_session_that_waits_hears_at_once_of_the_end_of_its_only_partition(server):
    peer = server.connect()
    body = ask(peer, "Fetch", 11, asking((2, 0), maxWaitMs=0, sessionEpoch=0))
    at = {"sessionId": body["sessionId"]}
    ask(peer, "Fetch", 11, asking(sessionEpoch=1, maxWaitMs=0, **at))
    peer.send(request("Fetch", 11, asking(sessionEpoch=2, **at)))
    server.cluster.topics.delete("t")
    assert partitions(answer(peer, "Fetch", 11)) == {2: (3, [], -1)}


def by_id(topic_id, *parts, **fields):
    """A Fetch of version 13 or later."""
    body = asking(*parts, **fields)
    for topic in body["topics"]:
        topic["topicId"] = topic_id
    return body


@pytest.mark.parametrize("named_again", [False, True])
def test_a_session_by_ids_never_reads_another_topic_of_the_same_name(server, named_again):
    topics, peer = server.cluster.topics, server.connect()
    first = topics.get("t").topic_id
    body = ask(peer, "Fetch", 17, by_id(first, (0, 0), maxWaitMs=0, sessionEpoch=0))
    at = {"sessionId": body["sessionId"]}
    parts = [(0, 0)] * named_again

    def go_on(epoch):
        return partitions(ask(peer, "Fetch", 17, by_id(first, *parts, sessionEpoch=epoch, **at)))

    topics.delete("t")
    assert go_on(1) == {0: (3, [], -1)}
    topics.create("t", 3)
    log(server).produce(batch(b"v"))
    assert go_on(2) == {0: (103, [], -1)}  # INCONSISTENT_TOPIC_ID, and at once
    log(server).produce(batch(b"v"))
    assert go_on(3) == {0: (103, [], -1)}
    topics.delete("t")
    assert go_on(4) == {0: (3, [], -1)}


def test_an_id_that_a_session_never_knew_stays_unknown_when_its_topic_is_made_again(server):
    topics, peer = server.cluster.topics, server.connect()
    first = topics.get("t").topic_id
    topics.delete("t")
    body = ask(peer, "Fetch", 17, by_id(first, (0, 0), maxWaitMs=0, sessionEpoch=0))
    assert partitions(body) == {0: (100, [], -1)}
    topics.create("t", 3)
    again = by_id(first, sessionEpoch=1, sessionId=body["sessionId"], maxWaitMs=0)
    assert partitions(ask(peer, "Fetch", 17, again)) == {0: (100, [], -1)}


def test_a_session_by_ids_hears_of_an_empty_topic_made_again(server):
    topics, peer = server.cluster.topics, server.connect()
    first = topics.get("t").topic_id
    whole = by_id(first, (0, 0), maxWaitMs=0, sessionEpoch=0)
    session = ask(peer, "Fetch", 17, whole)["sessionId"]
    topics.delete("t")
    topics.create("t", 3)
    again = by_id(first, sessionEpoch=1, sessionId=session, maxWaitMs=0)
    assert partitions(ask(peer, "Fetch", 17, again)) == {0: (103, [], -1)}


def test_a_full_house_has_no_room_for_a_session_until_one_is_not_used_for_two_minutes(server):
    peer = server.connect()
    whole = asking((0, 0), maxWaitMs=0, sessionEpoch=0)
    sessions = {ask(peer, "Fetch", 11, whole)["sessionId"] for _ in range(1000)}
    assert len(sessions - {0}) == 1000
    assert ask(peer, "Fetch", 11, whole)["sessionId"] == 0
    server.run(120_001)
    assert ask(peer, "Fetch", 11, whole)["sessionId"] != 0


@pytest.mark.parametrize("version", [0, 2, 3])
@pytest.mark.parametrize("codec", [0, 1, 2, 3])
def test_old_versions_are_given_old_messages(server, version, codec):
    records = [(n, 700 + n, b"k%d" % n, b"v%d" % n) for n in range(3)]
    log(server).produce(encode_batch(records, codec=codec))
    body = ask(server.connect(), "Fetch", version, asking((0, 1)))
    (found,) = body["responses"][0]["partitions"]
    read = [(each.magic, r) for each in LogReader(found["records"]) for r in each.records]
    first = 0 if codec else 1  # compressed messages come as a whole
    assert [(magic, r.offset, r.key, r.value) for magic, r in read] == [
        (0 if version < 2 else 1, n, b"k%d" % n, b"v%d" % n) for n in range(first, 3)
    ]
    assert [r.timestamp for _, r in read] == [
        -1 if version < 2 else 700 + n for n in range(first, 3)
    ]


def test_zstd_cannot_be_given_to_old_versions(server):
    log(server).produce(batch(b"v", codec=4))
    assert partitions(ask(server.connect(), "Fetch", 3, asking((0, 0)))) == {0: (76, [], -1)}


def test_a_follower_of_a_longer_log_is_told_where_they_part(server):
    log(server).produce(batch(b"a", b"b"))
    log(server).leader_epochs.append((2, 1))
    body = asking((0, 2))
    body["topics"][0]["partitions"][0]["lastFetchedEpoch"] = 0
    (found,) = ask(server.connect(), "Fetch", 12, body)["responses"][0]["partitions"]
    assert found["divergingEpoch"] == {"epoch": 0, "endOffset": 1}
    assert found["records"] == b""


def part_of(body):
    (found,) = body["responses"][0]["partitions"]
    return found


def test_an_empty_partition_has_the_end_of_its_first_epoch_at_0(server):
    body = asking((0, 0), maxWaitMs=0)
    body["topics"][0]["partitions"][0]["lastFetchedEpoch"] = 0
    found = part_of(ask(server.connect(), "Fetch", 12, body))
    assert (found["errorCode"], found.get("divergingEpoch")) == (0, None)


def test_a_partition_is_told_with_all_its_fields(server):
    part = log(server, 1)
    part.append_records([(1, b"k", b"v")] * 3)
    part.delete_below(2)
    part.produce(of_producer(0, producer_id=5, transactional=True))
    found = part_of(ask(server.connect(), "Fetch", 12, asking((1, 2))))
    assert {key: value for key, value in found.items() if key != "records"} == {
        "partitionIndex": 1, "errorCode": 0, "highWatermark": 4, "lastStableOffset": 3,
        "logStartOffset": 2, "abortedTransactions": None, "preferredReadReplica": -1,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"currentLeaderEpoch": 2}, 0),
        ({"currentLeaderEpoch": 1}, 74),
        ({"currentLeaderEpoch": 3}, 75),
        ({"fetchOffset": -1}, 1),
        ({"fetchOffset": 1}, 0),
        ({"fetchOffset": 2}, 0),
        ({"fetchOffset": 3}, 1),
        ({"fetchOffset": 0}, 1),
        ({"partitionMaxBytes": -1}, -1),
        ({"partitionMaxBytes": 0}, 0),
        ({"lastFetchedEpoch": 2}, 0),
        ({"lastFetchedEpoch": 3}, 1),
    ],
)
def test_a_partition_that_cannot_be_read_ends_the_wait(server, fields, error):
    part = log(server)
    part.append_records([(1, b"k", b"v")] * 2)
    part.delete_below(1)
    part.leader_epochs.append((2, 2))
    body = asking((0, 2))
    body["topics"][0]["partitions"][0].update(fields)
    peer = server.connect()
    peer.send(request("Fetch", 12, body))
    waits = error == 0 and fields.get("fetchOffset") != 1
    assert peer.whole() is not waits
    server.run(500)
    found = part_of(answer(peer, "Fetch", 12))
    assert found["errorCode"] == error
    if error:
        ends = (found["highWatermark"], found["lastStableOffset"], found["logStartOffset"])
        assert ends == (-1, -1, -1)


def test_a_session_goes_on_with_the_partitions_that_were_added_and_not_forgotten(server):
    for number in range(3):
        log(server, number).produce(batch(b"v"))
    peer = server.connect()

    def go_on(epoch, *parts, forgotten=(), session=0):
        rows = [{"topic": "t", "partitions": list(forgotten)}] if forgotten else []
        body = asking(*parts, sessionEpoch=epoch, sessionId=session, maxWaitMs=0,
                      forgottenTopicsData=rows)  # fmt: skip
        told = ask(peer, "Fetch", 11, body)
        return told["errorCode"], told["sessionId"], partitions(told)

    error, session, told = go_on(0, (0, 0), (1, 0))
    assert (error, set(told)) == (0, {0, 1})
    assert session
    found = go_on(1, (2, 0), forgotten=[0], session=session)
    assert found == (0, session, {1: (0, [0], 1), 2: (0, [0], 1)})
    for epoch in (1, 3):
        assert go_on(epoch, session=session) == (71, 0, {})
    assert go_on(2, (1, 1), (2, 1), session=session) == (0, session, {})
    assert go_on(3, forgotten=[1, 2], session=session) == (0, 0, {})
    assert go_on(4, session=session) == (70, 0, {})  # it is gone with its last partition


def test_a_partition_with_records_goes_behind_the_others_of_its_session(server):
    peer = server.connect()
    whole = asking((0, 0), (1, 0), (2, 0), sessionEpoch=0, maxWaitMs=0)
    session = ask(peer, "Fetch", 11, whole)["sessionId"]
    for number in (0, 1, 2):
        log(server, number).produce(batch(b"v"))
    orders = []
    for epoch in (1, 2):
        body = asking(sessionEpoch=epoch, sessionId=session, maxBytes=1)
        told = ask(peer, "Fetch", 11, body)
        orders.append([
            (each["partitionIndex"], bool(each["records"]))
            for each in told["responses"][0]["partitions"]
        ])  # fmt: skip
    assert orders == [[(0, True), (1, False), (2, False)], [(1, True)]]


def test_a_session_hears_of_an_error_again_and_of_its_end_at_once(server):
    peer = server.connect()
    whole = asking((0, 5), sessionEpoch=0, maxWaitMs=0)
    session = ask(peer, "Fetch", 11, whole)["sessionId"]

    def go_on(epoch):
        body = asking(sessionEpoch=epoch, sessionId=session)
        return partitions(ask(peer, "Fetch", 11, body))

    assert go_on(1) == {0: (1, [], -1)}
    assert go_on(2) == {0: (1, [], -1)}
    log(server).append_records([(1, b"k", b"v")] * 6)
    assert go_on(3) == {0: (0, [0, 1, 2, 3, 4, 5], 6)}


def test_the_end_of_a_session_ends_it(server):
    peer = server.connect()
    session = ask(peer, "Fetch", 11, asking((0, 0), sessionEpoch=0, maxWaitMs=0))["sessionId"]
    last = asking((0, 0), sessionEpoch=-1, sessionId=session, maxWaitMs=0)
    assert ask(peer, "Fetch", 11, last)["sessionId"] == 0
    again = asking(sessionEpoch=1, sessionId=session)
    assert ask(peer, "Fetch", 11, again)["errorCode"] == 70


def test_a_session_is_of_names_or_of_ids(server):
    peer = server.connect()
    session = ask(peer, "Fetch", 11, asking((0, 0), sessionEpoch=0, maxWaitMs=0))["sessionId"]
    other = {**asking(sessionEpoch=1, sessionId=session), "topics": []}
    assert ask(peer, "Fetch", 17, other)["errorCode"] == 106


def fetched_after_a_write(server, peer):
    log(server).produce(batch(b"v"))
    assert partitions(answer(peer, "Fetch", 11)) == {0: (0, [0], 1), 1: (0, [], 0)}


def fetched_after_its_time(server, peer):
    server.run(500)
    assert partitions(answer(peer, "Fetch", 11)) == {0: (0, [], 0), 1: (0, [], 0)}


def lost(server, peer):
    peer.leave()


@pytest.mark.parametrize("end", [fetched_after_a_write, fetched_after_its_time, lost])
def test_a_fetch_that_has_ended_waits_nowhere_and_is_freed_at_once(server, end):
    peer = server.connect()
    peer.send(request("Fetch", 11, asking((0, 0), (1, 0))))
    (fetch,) = map(weakref.ref, log(server, 0).waiters)
    assert [*map(weakref.ref, log(server, 1).waiters)] == [fetch]
    gc.disable()
    try:
        end(server, peer)
        assert fetch() is None
    finally:
        gc.enable()
    assert not log(server, 0).waiters
    assert not log(server, 1).waiters
    assert server.cluster.waits.next_deadline_ms() is None
