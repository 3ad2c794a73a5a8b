"""Several threads: what they may share, and that what they may not is refused or stays whole."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import coterie
from coterie import ArgumentError, CoterieError, GroupCoordinator, OffsetMap, TimerWheel, messages
from coterie._core.codec import batch as batch_module
from coterie._core.fold.columns import decode_columns
from coterie._core.fold.fold import offset_columns
from support.log_writer import commit_key, commit_value

THREADS, TIMES = 6, 8
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


@pytest.fixture(autouse=True)
def _switches_often():
    """Let the interpreter go from thread to thread as often as it can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(work, threads=THREADS):
    """Run ``work(number)`` in so many threads that begin as one; what each returned."""
    begin = threading.Barrier(threads)

    def begun(number):
        begin.wait()
        return work(number)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(begun, range(threads)))


def alone(work):
    """Run it in another thread, and wait for it; what it raised."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).exception()


def a_piece(topic, codec=1, first=0, count=300):
    records = [
        (n, n, commit_key(1, b"g", topic, n - first), commit_value(n, -1, b"m" * 20, n))
        for n in range(first, first + count)
    ]
    return messages.encode_batch(records, first, codec=codec)


def state_of(state):
    return state.groups()


@pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)
def test_one_log_is_scanned_by_many_threads(codec):
    data = a_piece(b"t", codec)
    once = state_of(coterie.scan(data, partition=3))
    columns = {name: np.asarray(c).tolist() for name, c in decode_columns(data).items()}
    batches = list(messages.LogReader(data))

    def work(_):
        for _ in range(TIMES):
            assert state_of(coterie.scan(data, partition=3)) == once
            assert {n: np.asarray(c).tolist() for n, c in decode_columns(data).items()} == columns
            assert list(messages.LogReader(data)) == batches
        return True

    assert all(together(work))


def test_columns_are_shared_by_functions_over_them():
    commits = np.arange(100_000)
    names, starts = np.tile([0, 1, 2], 10_000), np.arange(0, 30_001, 3)
    groups = np.arange(0, 10_001, 10)
    gone = coterie.expired(commits, None, 50_000, 10)
    votes = [column.tolist() for column in coterie.select_protocols(names, starts, groups)]

    def work(_):
        for _ in range(TIMES):
            assert (coterie.expired(commits, None, 50_000, 10) == gone).all()
            found = coterie.select_protocols(names, starts, groups)
            assert [column.tolist() for column in found] == votes
        return True

    assert gone.sum() == 49_991
    assert votes == [[0] * 1000, [10] * 1000]
    assert all(together(work))


def test_partial_states_are_merged_by_many_threads():
    parts = [
        coterie.scan(a_piece(t, first=300 * n), partition=0) for n, t in enumerate([b"a", b"b"])
    ]
    once = state_of(coterie.merge(parts))
    found = together(lambda _: [state_of(coterie.merge(parts)) == once for _ in range(TIMES)])
    assert found == [[True] * TIMES] * THREADS


def test_one_trace_is_played_by_many_coordinators():
    lines = ['{"format": "coterie-trace", "version": 1}'] + [
        f'{{"at": {n}, "op": "offset_commit", "id": {n}, "group_id": "g{n % 7}", '
        f'"offsets": [{{"topic": "t", "partition": 0, "offset": {n}}}]}}'
        for n in range(1, 300)
    ]
    trace = coterie.load_trace(lines)
    once = list(coterie.run_trace(lines))
    found = together(lambda _: list(GroupCoordinator().play(trace).lines()))
    assert found == [once] * THREADS


def test_traces_are_loaded_by_many_threads():
    def lines(number):
        return [f'{{"format": "coterie-trace", "version": 1, "name": "{number}"}}'] + [
            f'{{"at": {n}, "op": "join_group", "id": {n}, "group_id": "g{number}", '
            '"member_id": "", "protocol_type": "consumer", "session_timeout_ms": 10000, '
            f'"rebalance_timeout_ms": 10000, "client_id": "c{n}", "client_host": "/h", '
            '"protocols": [{"name": "range", "metadata": ""}]}'
            for n in range(1, 60)
        ]

    once = [list(coterie.run_trace(lines(number))) for number in range(THREADS)]
    assert len({str(lines) for lines in once}) == THREADS

    def work(number):
        for _ in range(TIMES):
            trace = coterie.load_trace(lines(number))
            assert trace.header["name"] == str(number)
            assert list(GroupCoordinator().play(trace).lines()) == once[number]
        return True

    assert all(together(work))


def as_messages(number):
    """Whatever ``messages`` makes of values that are this thread's own, there and back."""
    found = []
    for n in range(20):
        key = {"version": n % 2, "data": {"group": f"g{number}", "topic": "t", "partition": n}}
        group = {"version": 2, "data": {"group": f"g{number}-{n}"}}
        commit = {"version": 3, "data": {"offset": n, "leaderEpoch": number, "metadata": "m" * n,
                                         "commitTimestamp": n}}  # fmt: skip
        keys = [messages.encode_key(one) for one in (key, group)]
        value = messages.encode_value(1, commit)
        assert [messages.decode_key(one)["data"] for one in keys] == [key["data"], group["data"]]
        assert messages.decode_value(1, value)["data"] == commit["data"]
        records = [(n, n, keys[0], value), (n + 1, n, keys[1], None)]
        for codec in CODECS.values():
            batch = messages.encode_batch(records, n, codec=codec)
            (read,) = messages.LogReader(batch)
            assert [(one.key, one.value) for one in read.records] == [row[2:] for row in records]
            found.append(batch)
        found += [messages.encode_message_set(records[:1], magic=1), str(read)]
        found.append(messages.partition_for(f"g{number}", 50))
    return found


def test_messages_are_made_and_read_by_many_threads():
    once = [as_messages(number) for number in range(THREADS)]
    assert together(lambda number: [as_messages(number) for _ in range(3)]) == [
        [expected] * 3 for expected in once
    ]


def a_life(number, steps=30):
    """What happens to a group from its first member to its last, and around it."""
    coordinator = GroupCoordinator(appends="deferred" if number % 2 else "immediate")
    group = f"g{number}"

    def come_back():
        while coordinator.appends:
            coordinator.appends[len(coordinator.appends) // 2].complete()

    joins = [
        coordinator.join_group(group, protocol_type="consumer", protocols={"range": b""},
                               client_id=f"c{n}")
        for n in range(3)
    ]  # fmt: skip
    coordinator.advance(4000 + number)
    ids = [coordinator.run_until(join, limit_ms=20_000).member_id for join in joins]
    for member_id in ids:
        coordinator.sync_group(group, 1, member_id, assignments=dict.fromkeys(ids, b"x"))
    come_back()
    for n in range(steps):
        coordinator.heartbeat(group, 1, ids[n % 3])
        coordinator.offset_commit(group, {("t", n): n}, generation_id=1, member_id=ids[0])
        coordinator.txn_offset_commit(group, {("u", n): n}, producer_id=n, producer_epoch=0)
        come_back()
        coordinator.end_txn(n, committed=True)
    fetched = coordinator.offset_fetch(group)
    coordinator.leave_group(group, ids[1:])
    coordinator.advance_by(1_000_000)
    come_back()
    return fetched, coordinator.take_events(), coordinator.log, coordinator.snapshot(group)


def test_coordinators_of_their_own_do_the_same_in_many_threads():
    once = [a_life(number) for number in range(THREADS)]
    assert [len(fetched.partitions) for fetched, *_ in once] == [60] * THREADS
    assert together(lambda number: [a_life(number) for _ in range(3)]) == [
        [expected] * 3 for expected in once
    ]


def hooked(monkeypatch, meanwhile):
    """Let ``meanwhile`` run where decompression lets other threads in."""
    inflate = batch_module.decompress

    def decompress(*args):
        meanwhile()
        return inflate(*args)

    monkeypatch.setattr(batch_module, "decompress", decompress)


def test_a_partial_state_that_is_being_changed_is_refused_to_others(monkeypatch):
    first, second = a_piece(b"a"), a_piece(b"b", codec=0)
    state, raised = coterie.scan(b"", partition=0), []
    other = coterie.scan(second, partition=0)
    fold = state.partitions[0]

    def meanwhile():
        raised.append(alone(lambda: fold.scan(second)))
        raised.append(alone(lambda: state.absorb(other)))
        raised.append(alone(lambda: other.absorb(state)))
        raised.append(alone(state.groups))
        raised.append(alone(state.to_bytes))

    hooked(monkeypatch, meanwhile)
    fold.scan(first)
    assert [type(error) for error in raised] == [CoterieError] * 5
    assert all("in use" in str(error) for error in raised)
    assert state_of(state) == state_of(coterie.scan(a_piece(b"a", codec=0), partition=0))
    assert state_of(other) == state_of(coterie.scan(second, partition=0))
    fold.scan(second)
    assert len(state_of(state)[0]["offsets"]) == 600


def test_many_threads_at_one_partial_state_leave_it_whole():
    pieces = [a_piece(b"%d" % n) for n in range(THREADS)]
    fold = coterie.scan(b"", partition=0).partitions[0]

    def work(number):
        for _ in range(TIMES * 20):
            try:
                fold.scan(pieces[number])
            except CoterieError:
                continue
            return True
        return False

    scanned = together(work)
    columns = offset_columns(fold)
    assert any(scanned)
    assert fold.key_count == 300 * sum(scanned) == columns["offset"].size
    assert columns["offset"].tolist() == list(range(300)) * sum(scanned)


def test_a_reader_that_is_reading_is_refused_to_others(monkeypatch):
    reader, raised = messages.LogReader(a_piece(b"a") + a_piece(b"b", first=300)), []
    hooked(monkeypatch, lambda: raised.append(alone(lambda: next(reader))))
    assert [len(batch.records) for batch in reader] == [300, 300]
    assert [str(error)[:21] for error in raised] == ["this reader is in use"] * 2


def test_a_coordinator_at_work_is_refused_to_others():
    raised = []

    def member_ids(prefix):
        core = coordinator._core
        raised.append(alone(lambda: core.advance(9000)))
        raised.append(alone(lambda: core.call(3, 7, "g", 1, "m", None, None)))
        return f"{prefix}-1"

    coordinator = GroupCoordinator(member_ids=member_ids)
    coordinator.join_group("g", protocol_type="consumer", protocols={"range": b""}, client_id="c")
    assert [str(error)[:25] for error in raised] == ["the coordinator is in use"] * 2
    assert coordinator.now_ms == 0
    assert [m.member_id for m in coordinator.snapshot("g").members] == ["c-1"]
    coordinator.advance(9000)


def test_many_threads_at_one_wheel_lose_no_timer_and_fire_none_twice():
    wheel, each = TimerWheel(), 2000

    def work(number):
        fired, cancelled = [], []
        for n in range(each):
            key = number * each + n
            handle = wheel.add(key % 97 + n, key)
            if n % 3 == 0 and wheel.cancel(handle):
                cancelled.append(key)
            elif n % 3 == 1:
                wheel.rearm(handle, n + 50)
            elif n % 50 == 2:
                try:
                    fired += wheel.advance(n).tolist()
                except ArgumentError:  # another thread is further
                    continue
        return fired, cancelled

    found = together(work)
    fired = [key for each_fired, _ in found for key in each_fired]
    cancelled = [key for _, each_cancelled in found for key in each_cancelled]
    fired += wheel.advance(10 * each).tolist()
    assert len(wheel) == 0
    assert sorted(fired + cancelled) == list(range(THREADS * each))


def test_many_threads_at_one_map_of_offsets_leave_the_latest_of_each():
    offsets, each = OffsetMap(), 500

    def work(number):
        for n in range(each):
            position = n * THREADS + number
            offsets.commit({("t", n % 5): position, (f"t{number}", 0): n}, position)
            assert offsets.fetch(f"t{number}", 0).offset == n
        return True

    assert all(together(work))
    shown = {key: offset.offset for key, offset in offsets.items()}
    last = each * THREADS - 1
    assert {key: shown.pop(key) for key in [("t", n) for n in range(5)]} == {
        ("t", n): (each - 5 + n) * THREADS + THREADS - 1 for n in range(5)
    }
    assert shown == {(f"t{number}", 0): each - 1 for number in range(THREADS)}
    assert max(offset.position for _, offset in offsets.items()) == last
    assert not offsets.pending


def test_no_module_says_that_it_does_without_the_gil():
    """None of them locks anything: a free-threaded Python must switch its GIL on for them."""
    root = Path(__file__).parents[2]
    assert "freethreading" not in (root / "CMakeLists.txt").read_text(encoding="utf-8")
    for path in (root / "src").rglob("*.p[yx]*"):
        assert "freethreading" not in path.read_text(encoding="utf-8"), path
