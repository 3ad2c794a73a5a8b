"""Folding a log on several threads gives the same result as scanning its segments in order."""

import functools
import gc
import itertools
import signal
import tempfile
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie import PartialState, ScanOptions
from coterie._core.codec.batch import batch_boundaries
from coterie._core.fold.fold import key_at
from coterie.errors import FaultFound, LogError
from coterie.log.folders import Listing, Segment, find_segments
from coterie.log.trust import trusted_from
from coterie.state import parallel_scan
from coterie.state.document import partition_rows
from coterie.state.local_replay import replay
from coterie.state.parallel_scan import fold_log, threads_for
from coterie.state.replay_engine import ReplayRequest, Silent
from support import golden_data
from support.examples import examples
from support.fold.made_logs import LOGS, as_bytes, laid_out
from support.fold.pieces import MODES, damaged, slow, what_it_says
from support.log_writer import batch, commit

THREADS = (1, 2, 3, 4)
CASES = [*golden_data.cases(), *(f"corrupt/{case}" for case in golden_data.corrupt_cases())]


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch):
    """Lower the sizes, so that small logs are cut into many pieces."""
    monkeypatch.setattr(parallel_scan, "SCAN_PIECE_BYTES", 700)
    monkeypatch.setattr(parallel_scan, "CUT_BYTES", 1)
    monkeypatch.setattr(parallel_scan, "CUT_OFF_BYTES_MIN", 350)


def said(state):
    """Return all contents of a state, with its keys and groups in order."""
    folds = {number: state.partitions[number] for number in state.numbers()}
    ended = {n for n, fold in folds.items() if fold.failed or fold.cut or fold.stopped}
    keys = {n: [key_at(f, i) for i in range(f.key_count)] for n, f in folds.items()}
    orders = [(n, keys[n], list(f.groups)) for n, f in folds.items() if n not in ended]
    return what_it_says(state), orders, list(partition_rows(state))


@functools.cache
def one_scan(listing, options):
    state = PartialState(options)
    for segment in listing.segments:
        fold = state.fold(segment.partition)
        fold.scan(Path(segment.path).read_bytes(), file=segment.name)
    return said(state)


def folded(listing, options, threads, unit_bytes=2000):
    state = PartialState(options)
    with closing(fold_log(state, listing, threads, unit_bytes)) as steps:
        done = sum(step.size for step in steps)
    assert done == listing.size  # what the progress tells
    return state


def check(listing, options):
    for threads in THREADS:
        assert said(folded(listing, options, threads)) == one_scan(listing, options)


@pytest.mark.parametrize("on_fault", MODES)
@pytest.mark.parametrize("case", CASES)
def test_any_number_of_threads_says_what_one_scan_says(case, on_fault):
    check(find_segments([golden_data.log(case)]), ScanOptions(on_fault=on_fault))


@pytest.mark.parametrize("options", [{"history": True}, {"groups": frozenset({"grp-mix-range"})}])
def test_so_it_is_with_history_and_for_some_groups(options):
    check(find_segments([golden_data.log("basic")]), ScanOptions(**options))


def in_files(home, pieces):
    for partition, name, data in pieces:
        folder = Path(home) / f"__consumer_offsets-{partition}"
        folder.mkdir(exist_ok=True)
        (folder / name).write_bytes(data)
    return find_segments([home])


@pytest.mark.parametrize("case", ["compacted", "transactions", "old-formats"])
@given(st.data())
@settings(slow, max_examples=examples(15))
def test_any_number_of_threads_says_the_same_of_a_log_damaged_anywhere(case, data):
    options = ScanOptions(on_fault=data.draw(st.sampled_from(MODES)))
    with tempfile.TemporaryDirectory() as home:
        check(in_files(home, data.draw(damaged(case))), options)


@given(LOGS, st.integers(1, 4), st.sampled_from(MODES), st.integers(1, 900))
@settings(slow, max_examples=examples(60))
def test_any_number_of_threads_says_the_same_of_a_log_that_no_broker_wrote(
    steps, segments, on_fault, unit_bytes
):
    data = as_bytes(laid_out(steps))
    cuts = batch_boundaries(data, len(data) // segments + 1)
    pieces = [(0, f"{start:020d}.log", data[start:end]) for start, end in itertools.pairwise(cuts)]
    options = ScanOptions(on_fault=on_fault)
    with tempfile.TemporaryDirectory() as home:
        listing = in_files(home, pieces or [(0, f"{0:020d}.log", b"")])
        for threads in THREADS:
            state = folded(listing, options, threads, unit_bytes)
            assert said(state) == one_scan(listing, options)


def unreadable(folder):
    """The listing of a log whose last partition was removed after the listing."""
    listing = find_segments([folder])
    (gone, *_) = (s for s in reversed(listing.segments) if s.size)
    Path(gone.path).unlink()
    return listing


@pytest.mark.parametrize("threads", THREADS)
def test_a_segment_that_cannot_be_read_is_named(threads, tmp_path):
    listing = unreadable(copied("basic", tmp_path))
    with pytest.raises(LogError, match="cannot be read"):
        folded(listing, ScanOptions(), threads)


@pytest.mark.parametrize("threads", THREADS)
def test_the_first_fault_stops_before_what_cannot_be_read(threads, tmp_path, monkeypatch):
    folder = copied("basic", tmp_path)
    first = next(s for s in find_segments([folder]).segments if s.size)
    data = bytearray(Path(first.path).read_bytes())
    data[30] ^= 1
    Path(first.path).write_bytes(data)
    monkeypatch.setattr("coterie.state.local_replay.threads_for", lambda *_: threads)
    (tmp_path / "out").mkdir()
    request = ReplayRequest(
        unreadable(folder), tmp_path / "out", "json", ScanOptions(on_fault="stop")
    )
    with pytest.raises(FaultFound, match="checksum"):
        replay(request, Silent())


@pytest.mark.parametrize("threads", THREADS)
def test_what_lies_behind_the_end_of_a_partition_need_not_be_readable(threads, tmp_path):
    pieces = [(0, f"{0:020d}.log", b"\xff" * 20), (0, f"{1:020d}.log", bytes(2000))]
    in_files(tmp_path, pieces)
    state = folded(unreadable(tmp_path), ScanOptions(on_fault="recover"), threads, 100)
    assert [fault.file for fault in state.partitions[0].faults] == [
        str(tmp_path / "__consumer_offsets-0" / f"{0:020d}.log")
    ]


def copied(case, home):
    for path in golden_data.segments(case):
        in_files(home, [(path.parent.name.rpartition("-")[2], path.name, path.read_bytes())])
    return home


def test_no_more_is_scanned_ahead_than_the_window(monkeypatch):
    begun = []
    scan_unit = parallel_scan.scan_unit

    def counted(unit, *rest):
        begun.append(unit)
        return scan_unit(unit, *rest)

    monkeypatch.setattr(parallel_scan, "scan_unit", counted)
    state = PartialState()
    listing = find_segments([golden_data.log("basic")])
    steps = fold_log(state, listing, 2, 2000)
    next(steps)
    steps.close()
    assert len(begun) <= 2 * parallel_scan.AHEAD_PER_THREAD
    assert len(begun) < len(list(parallel_scan.units_of(listing.segments, 2000)))


@pytest.mark.parametrize(
    ("sizes", "unit_bytes", "expected"),
    [
        ([100] * 10, 250, [300, 200, 300, 200]),
        ([100] * 10, 400, [500, 500]),
        ([100, 100, 60], 250, [260]),
        ([100, 100, 60], 130, [100, 160]),
        ([10, 300, 10, 10], 100, [10, 300, 20]),
        ([100, 100, 0, 0], 100, [100, 100]),
        ([0], 100, [0]),
    ],
)
def test_a_partition_is_cut_evenly(sizes, unit_bytes, expected):
    segments = [Segment(f"{n}.log", 7, n, size, None) for n, size in enumerate(sizes)]
    units = list(parallel_scan.units_of(segments, unit_bytes))
    assert [part.segment for unit in units for part in unit] == segments
    assert [sum(part.size for part in unit) for unit in units] == expected


@pytest.mark.parametrize(
    ("partitions", "sizes", "threads", "expected"),
    [
        ([7], [1 << 30], 2, [1 << 29] * 2),  # a unit a thread
        ([7] * 30, [1 << 27] * 30, 2, [15 << 26] * 4),  # or two, where one would be too large
        ([7], [20 << 20], 8, [20 << 20]),  # none that is too small for what it costs
        ([1, 2, 3, 4], [1 << 30] * 4, 2, [1 << 30] * 4),
        ([1, 2], [3 << 30, 1 << 27], 2, [3 << 28] * 4 + [1 << 27]),
    ],
)
def test_units_keep_all_threads_at_work(partitions, sizes, threads, expected, monkeypatch):
    monkeypatch.undo()  # as large as they are
    segments = [
        Segment(f"{n}.log", partition, n, size, None)
        for n, (partition, size) in enumerate(zip(partitions, sizes, strict=True))
    ]
    units = parallel_scan.units_of(segments, parallel_scan.unit_size(segments, threads))
    assert [sum(part.size for part in unit) for unit in units] == expected


def test_what_follows_a_piece_without_a_batch_is_no_gap_inside_its_segment(tmp_path):
    batches = [batch(at, [commit(at)]) for at in range(20)]
    flipped = [bytes([*data[:40], data[40] ^ 1, *data[41:]]) for data in batches[:6]]
    listing = in_files(tmp_path, [(0, f"{0:020d}.log", b"".join(flipped + batches[6:]))])
    since = {
        trusted_from(folded(listing, ScanOptions(), threads, 100).partitions[0].segments)
        for threads in THREADS
    }
    assert since == {6}


def test_a_segment_is_cut_where_a_unit_ends_inside_of_it():
    log = find_segments([golden_data.log("compacted")])
    segments = max(log.partitions().values(), key=len)
    units = list(parallel_scan.units_of(segments, 40_000))
    share = sum(segment.size for segment in segments) / len(units)
    assert max(abs(sum(part.size for part in unit) - share) for unit in units) < 1000
    by_segment = itertools.groupby((p for unit in units for p in unit), lambda part: part.segment)
    sizes = [(segment, sum(part.size for part in parts)) for segment, parts in by_segment]
    assert sizes == [(segment, segment.size) for segment in segments]


def test_an_interruption_is_heard_while_units_are_scanned(monkeypatch):
    main = threading.main_thread().ident
    before = set(threading.enumerate())
    sent = threading.Lock()

    def endless(unit, options, going):
        if sent.acquire(blocking=False):
            signal.pthread_kill(main, signal.SIGINT)
        while going:
            pass
        return options.new_fold()

    monkeypatch.setattr(parallel_scan, "scan_unit", endless)
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            folded(find_segments([golden_data.log("basic")]), ScanOptions(), 3)
    finally:
        signal.signal(signal.SIGINT, handler)
    for thread in set(threading.enumerate()) - before:
        thread.join()  # else the suite hangs


def test_a_log_is_folded_on_one_thread_where_more_bring_nothing(monkeypatch):
    monkeypatch.setattr(parallel_scan, "cores", lambda: 8)
    small = find_segments([golden_data.log("basic")])
    monkeypatch.setattr(parallel_scan, "UNIT_BYTES_MIN", small.size // 2)
    assert threads_for(small, ScanOptions()) == 8
    assert threads_for(small, ScanOptions(history=True)) == 1
    monkeypatch.setattr(parallel_scan, "UNIT_BYTES_MIN", small.size)
    assert threads_for(small, ScanOptions()) == 1


def one_segment(size):
    return Segment("0.log", 7, 0, size, None)


def test_a_log_has_several_threads_from_the_size_of_two_units_on(monkeypatch):
    monkeypatch.setattr(parallel_scan, "cores", lambda: 8)
    least = 2 * parallel_scan.UNIT_BYTES_MIN
    threads = {
        size: threads_for(Listing((one_segment(size),), ()), ScanOptions())
        for size in (least - 1, least)
    }
    assert threads == {least - 1: 1, least: 8}


@pytest.mark.parametrize(("place", "cuts"), [(349, [0]), (350, [350]), (650, [650]), (651, [1000])])
def test_less_than_the_least_size_is_cut_off_neither_before_nor_behind(place, cuts):
    assert parallel_scan.cuts_of(one_segment(1000), place, 1000) == cuts


def test_the_cuts_of_a_segment_rise():
    share = 123_457
    cuts = parallel_scan.cuts_of(one_segment(20 * share), share, share)
    assert cuts == [*range(share, 20 * share, share), 20 * share]


@pytest.mark.parametrize(
    ("collects", "new", "frozen", "steps"),
    [
        (True, 100_000, 0, ["freeze", "unfreeze"]), (True, 99_999, 0, []), (True, 100_000, 1, []),
        (False, 100_000, 0, []),
    ],
)  # fmt: skip
def test_the_collector_works_after_a_fold_as_before(monkeypatch, collects, new, frozen, steps):
    """Many objects of a fold become old; those that somebody has frozen stay so."""
    made = []
    monkeypatch.setattr(gc, "get_count", lambda: (new, 0, 0))
    monkeypatch.setattr(gc, "get_freeze_count", lambda: frozen)
    monkeypatch.setattr(gc, "freeze", lambda: made.append("freeze"))
    monkeypatch.setattr(gc, "unfreeze", lambda: made.append("unfreeze"))
    try:
        if not collects:
            gc.disable()
        with parallel_scan.resting_collector():
            assert not gc.isenabled()
        assert (gc.isenabled(), made) == (collects, steps)
    finally:
        gc.enable()


def test_units_that_wait_are_not_scanned_once_the_fold_is_closed(monkeypatch):
    listing = find_segments([golden_data.log("basic")])
    first = next(parallel_scan.units_of(listing.segments, 2000))
    begun, flags, last = [], [], threading.Event()

    def waiting(unit, options, going):
        begun.append(unit)
        flags.append(going)
        if unit[0][:3] != first[0][:3]:  # all but the one that is taken wait for the end
            last.wait()
        return options.new_fold()

    class Pool(ThreadPoolExecutor):
        def shutdown(self, **options):
            super().shutdown(wait=False, **options)
            last.set()
            super().shutdown()

    monkeypatch.setattr(parallel_scan, "scan_unit", waiting)
    monkeypatch.setattr("concurrent.futures.ThreadPoolExecutor", Pool)
    steps = fold_log(PartialState(), listing, 2, 2000)
    next(steps)
    steps.close()
    assert len(begun) <= 3  # the one that was taken, and one on each thread
    assert not any(flags)  # those on a thread end after the next piece


def test_a_unit_of_a_fold_that_was_closed_ends_after_the_next_piece(monkeypatch):
    monkeypatch.setattr(parallel_scan, "SCAN_PIECE_BYTES", 1)
    listing = find_segments([golden_data.log("compression-zstd")])
    unit = next(parallel_scan.units_of(listing.segments, 1 << 30))
    ended, whole = (parallel_scan.scan_unit(unit, ScanOptions(), going) for going in ([], [True]))
    (piece,) = ended.segments
    assert (piece.batches, piece.position) == (1, 0)
    assert sum(one.batches for one in whole.segments) > 1


@pytest.mark.parametrize(("counted", "cores"), [(None, 1), (1, 1), (6, 6)])
def test_where_the_system_does_not_say_how_many_processors_there_are_it_is_one(
    monkeypatch, counted, cores
):
    monkeypatch.delattr("os.sched_getaffinity", raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: counted)
    assert parallel_scan.cores() == cores
