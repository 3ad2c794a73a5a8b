"""``--history``: the columns of commits against one tuple after another, however a log is cut."""

import itertools
import pickle
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie._core.fold.fold import PartitionFold, dump, restore
from coterie.errors import ArgumentError, CorruptData
from coterie.log.folders import cut_points
from coterie.state import history as module
from coterie.state.history import COMMIT_FIELDS, commit_rows, commits_table
from coterie.state.partial import PartialState, ScanOptions
from coterie.state.schemas import SCHEMAS
from support import log_writer as write
from support.examples import examples
from support.fold.load_model import events_of
from support.fold.made_logs import (
    IN_ANY_VERSION,
    LOGS,
    METADATA,
    TIMES,
    as_bytes,
    laid_out,
    logs_over,
)
from support.fold.pieces import cut_and_merged, history_of, slow
from support.golden_data import cases, corrupt_cases, segments
from support.history_model import HistoryModel, commits_of, events_by_batch

MODES = ("skip", "recover", "load", "stop")
WITH_IDS = LOGS | logs_over(5, 2, 3, METADATA, IN_ANY_VERSION)


def rows_of(events, number=0):
    model = HistoryModel(number)
    return [*model.feed(events), *model.finish()]


def rows_of_table(table):
    """Times as epoch ms, in the order of ``COMMIT_FIELDS``."""
    pa = pytest.importorskip("pyarrow")
    table = table.cast(SCHEMAS["commits"]())
    columns = [
        table[name].cast(pa.int64()) if pa.types.is_timestamp(table[name].type) else table[name]
        for name in COMMIT_FIELDS
    ]
    return list(zip(*(column.to_pylist() for column in columns), strict=True))


def drained(states):
    """The rows, and those of the tables, of pieces that follow one another."""
    rows, from_table, fold = [], [], PartitionFold(history=True)
    for fold in states:
        rows += commit_rows(0, fold.history)
        from_table += rows_of_table(commits_table(0, fold.history))
        fold.history.clear()
    last = fold.history.pending()
    return [*rows, *commit_rows(0, last)], [*from_table, *rows_of_table(commits_table(0, last))]


def pieces_of(data, draw):
    ends = draw(st.sets(st.sampled_from(cut_points(data, 1)), max_size=6)) if data else set()
    cuts = sorted({0, *ends, len(data)})
    return [data[start:end] for start, end in itertools.pairwise(cuts)]


@given(WITH_IDS, st.none() | TIMES, st.data())
@settings(slow, max_examples=examples(60))
def test_the_rows_are_the_models_in_its_order_however_the_log_is_cut(steps, at_ms, data):
    log = laid_out(steps)
    options = ScanOptions(history=True, at_ms=at_ms)
    expected = rows_of(events_of(log, at_ms))

    def in_one_fold():
        fold = options.new_fold()
        for piece in pieces_of(as_bytes(log), data.draw):
            fold.scan(piece)
            yield fold

    def merged():
        whole = PartialState(options)
        for piece in pieces_of(as_bytes(log), data.draw):
            state = PartialState(options)
            state.fold(0).scan(piece)
            whole.absorb(PartialState.from_bytes(state.to_bytes()))
            yield whole.fold(0)

    assert drained(in_one_fold()) == (expected, expected)
    assert drained(merged()) == (expected, expected)


@given(WITH_IDS, st.data())
@settings(slow, max_examples=examples(40))
def test_histories_that_follow_one_another_are_the_history_of_all(steps, data):
    whole, options = PartialState(ScanOptions(history=True)), ScanOptions(history=True)
    log = laid_out(steps)
    for piece in pieces_of(as_bytes(log), data.draw):
        state = PartialState(options)
        state.fold(0).scan(piece)
        whole.absorb(state)
    expected = list(events_of(log, None))
    model = HistoryModel(0)
    assert history_of(whole.fold(0)) == (model.feed_events(expected), model.left())
    assert rows_of_table(whole.to_arrow()["commits"]) == rows_of(expected)


@given(WITH_IDS, st.none() | TIMES, st.data())
@settings(slow, max_examples=examples(200))
def test_the_commits_are_the_models_in_its_order_in_any_association(steps, at_ms, data):
    log, model = laid_out(steps), HistoryModel(0)
    merged = cut_and_merged(
        data.draw, [(0, "f", as_bytes(log))], ScanOptions(history=True, at_ms=at_ms)
    )
    expected = model.feed_events(events_of(log, at_ms)), model.left()
    assert history_of(merged.fold(0)) == expected


@given(WITH_IDS, st.randoms(use_true_random=False), st.data())
@settings(slow, max_examples=examples(200))
def test_rows_cleared_between_merges_are_those_of_the_whole_and_the_others_keep_their_order(
    steps, chosen, data
):
    log = laid_out(steps)
    pieces = pieces_of(as_bytes(log), data.draw)
    parts = [PartialState(ScanOptions(history=True)) for _ in pieces or [b""]]
    for part, piece in zip(parts, pieces, strict=False):
        part.fold(0).scan(piece)
    cleared = []
    while len(parts) > 1:
        at = chosen.randrange(len(parts) - 1)
        parts[at].absorb(parts.pop(at + 1))
        if chosen.random() < 0.5:
            history = chosen.choice(parts).fold(0).history
            cleared += commits_of(history)
            history.clear()
    decided, pending = history_of(parts[0].fold(0))
    model = HistoryModel(0)
    expected = model.feed_events(events_of(log, None))
    assert Counter(cleared + decided) == Counter(expected)
    assert pending == model.left()
    rest = iter(expected)
    assert all(one in rest for one in decided)


@pytest.mark.parametrize(
    ("case", "on_fault"),
    [
        *((case, "skip") for case in cases()),  # without a fault, modes do the same
        *(
            pytest.param(case, mode, marks=pytest.mark.slow)
            for case, mode in itertools.product(cases(), MODES)
            if mode != "skip"
        ),
        *itertools.product((f"corrupt/{case}" for case in corrupt_cases()), MODES),
    ],
)
def test_batches_read_as_one_and_record_by_record_give_one_history(case, on_fault):
    """With groups named, no batch takes the short way."""
    for _, theirs in itertools.groupby(segments(case), lambda path: path.parent):
        files = list(theirs)
        rows = history_rows(files, on_fault, None)
        assert history_rows(files, on_fault, frozenset(row[0] for row in rows)) == rows


def history_rows(paths, on_fault, groups):
    options = ScanOptions(on_fault=on_fault, groups=groups, history=True)
    fold, pieces = options.new_fold(), [path.read_bytes() for path in paths]
    for piece in pieces:
        fold.scan(piece)
    rows, from_table = drained([fold])
    assert rows == from_table == rows_of(events_by_batch(pieces, options))
    return rows


def test_commits_of_one_place_stand_by_when_their_producer_was_first_seen():
    """Damage may give two commits one log offset: what is pending then stands as it came."""
    opened = [(5, 9), (5, 4), (5, 9)]
    log = b"".join(
        write.batch(at, [write.commit(1, n)], producer_id=producer, transactional=True)
        for n, (at, producer) in enumerate(opened)
    )
    fold = PartitionFold(history=True)
    fold.scan(log)
    rows, _ = drained([fold])
    assert [row[6] for row in rows] == [0, 2, 1]
    assert rows == rows_of(events_by_batch([log], ScanOptions(history=True)))


def test_commits_of_one_place_stand_by_when_their_open_transactions_began():
    """Not by when the producer was first seen: 9 was seen first, and began anew behind 4."""
    log = write.marker(0, 9, 5, commit=True)
    for producer in (4, 9):
        log += write.batch(5, [write.commit(1, producer)], producer_id=producer, transactional=True)
    fold = PartitionFold(history=True)
    fold.scan(log)
    rows, _ = drained([fold])
    assert [row[6] for row in rows] == [4, 9]
    assert rows == rows_of(events_by_batch([log], ScanOptions(history=True)))


def test_a_transaction_without_a_producer_id_is_one_and_its_marker_decides_it():
    log = write.batch(0, [write.commit(1, 5)], transactional=True)
    log += write.batch(1, [write.commit(1, 6)])
    log += write.marker(2, -1, 1, commit=False)
    log += write.batch(3, [write.commit(1, 7)], transactional=True)
    fold = PartitionFold(history=True)
    fold.scan(log)
    rows, from_table = drained([fold])
    found = [(row[6], *row[12:14]) for row in rows]
    assert found == [(6, None, "committed"), (5, -1, "aborted"), (7, -1, "pending")]
    assert rows == from_table == rows_of(events_by_batch([log], ScanOptions(history=True)))


def test_pending_commits_are_gone_as_they_are_decided():
    """Transactions that overlap for ever."""
    fold, model, options = PartitionFold(history=True), HistoryModel(0), ScanOptions(history=True)
    for n in range(2000):
        data = write.batch(n, [write.commit(1, n)], producer_id=n, transactional=True)
        if n >= 10:
            data += write.marker(n, n - 10, 1, commit=n % 2)
        fold.scan(data)
        expected = model.feed(events_by_batch([data], options))
        assert list(commit_rows(0, fold.history)) == expected
        fold.history.clear()
        assert len(fold.history.pending()) == min(n + 1, 10)
    assert list(commit_rows(0, fold.history.pending())) == model.finish()


def test_what_is_pending_can_be_asked_for_again():
    fold = PartitionFold(history=True)
    fold.scan(write.batch(0, [write.commit(1)], producer_id=3, transactional=True))
    assert commits_of(fold.history.pending()) == commits_of(fold.history.pending()) != []
    fold.scan(write.marker(1, 3, 1, commit=True))
    assert [outcome for _, outcome in commits_of(fold.history)] == ["committed"]
    assert len(fold.history.pending()) == 0


def test_chunks_of_a_table_have_their_own_metadata(monkeypatch):
    monkeypatch.setattr(module, "ROWS_PER_CHUNK", 2)
    metadata = [b"", b"one", "zwei\xdf".encode(), b"\xff", b"four"]
    fold = PartitionFold(history=True)
    records = [write.commit(5, partition=n, metadata=one) for n, one in enumerate(metadata)]
    fold.scan(write.batch(0, [*records, (5, records[0][1], None)]))
    expected = rows_of(event for event, _ in commits_of(fold.history))
    assert [row[8] for row in expected] == ["", "one", "zwei\xdf", "\ufffd", "four", None]
    assert drained([fold]) == (expected, expected)


def test_names_are_read_anew_where_other_bytes_lie_where_a_piece_lay():
    """A reader may fill one buffer again and again, with keys that end alike."""
    fold = PartitionFold(history=True)
    groups = [b"first-of-groups", b"other-of-groups", b"third-of-groups"]
    pieces = [write.batch(n, [write.commit(n, group=name)]) for n, name in enumerate(groups)]
    buffer = bytearray(pieces[0])
    for piece in pieces:
        buffer[:] = piece
        fold.scan(buffer)
    assert [row[0].encode() for row in commit_rows(0, fold.history)] == groups


def state_of_a_history():
    """What `dump` gives, as a list, and the history's place in it; 7 of its parts are arrays."""
    fold = PartitionFold(history=True)
    with_id = (5, write.commit(5)[1], write.commit_value(5, 0, b"meta", 5, b"i" * 16))
    fold.scan(
        write.batch(0, [with_id, (5, write.commit(5)[1], None)])
        + write.batch(2, [write.commit(5)], producer_id=3, transactional=True)
        + write.marker(3, 3, 5, commit=1)
        + write.batch(4, [write.commit(5, metadata=b"m")], producer_id=4, transactional=True)
    )
    state = list(dump(fold))
    (index,) = (i for i, one in enumerate(state) if isinstance(one, tuple) and len(one) == 9)
    return state, index


@pytest.mark.parametrize("part", range(7))
def test_a_history_cut_on_its_way_is_refused(part):
    state, index = state_of_a_history()
    whole = state[index]
    for size in range(len(whole[part])):
        state[index] = (*whole[:part], whole[part][:size], *whole[part + 1 :])
        if part == 0 and size == 160:  # before the row that the marker decided
            restore(PartitionFold(history=True), tuple(state))
            continue
        with pytest.raises(CorruptData):
            restore(PartitionFold(history=True), tuple(state))


@given(st.data())
@settings(slow, max_examples=examples(60))
def test_a_history_changed_on_its_way_is_refused_or_can_be_read(data):
    state, index = state_of_a_history()
    part = data.draw(st.sampled_from(range(7)))
    raw = state[index][part].view("uint8")
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    read_or_refused(state)


@pytest.mark.parametrize(
    ("at", "number"),  # int32s of a row: its group, its topic, the number of a topic id, from 1 on
    [*itertools.product([60, 64], [-1, 1, 2**31 - 1]), (76, -1), (76, 2), (76, 2**31 - 1)],
)
def test_a_row_that_names_no_group_or_no_topic_is_refused(at, number):
    state, index = state_of_a_history()
    state[index][0].view(np.uint8)[at : at + 4].view(np.int32)[0] = number
    with pytest.raises(CorruptData, match="row 0 of a history's 3 names what is not there"):
        restore(PartitionFold(history=True), tuple(state))


def read_or_refused(state):
    fold = PartitionFold(history=True)
    try:
        restore(fold, tuple(state))
    except CorruptData:
        return
    history_of(fold)
    drained([fold])


@given(st.data())
@settings(slow, max_examples=examples(100))
def test_a_pending_commit_changed_on_its_way_is_refused_or_can_be_read(data):
    state, index = state_of_a_history()
    *raw, pending, cleared = state[index]
    (row,) = pending[4]
    changed = bytearray(row)
    changed[data.draw(st.integers(0, len(row) - 1))] ^= data.draw(st.integers(1, 255))
    state[index] = (*raw, {4: (bytes(changed),)}, cleared)
    read_or_refused(state)


def test_a_pending_commit_cut_on_its_way_is_refused():
    state, index = state_of_a_history()
    *raw, pending, cleared = state[index]
    (row,) = pending[4]
    others = [{4: (row[:size],)} for size in range(len(row))] + [{4: (row + b"\0",)}]
    others += [{4: [row]}, {4: (bytearray(row),)}, {4: (None,)}, {2**63: (row,)}, {"4": (row,)}]
    for other in others:
        state[index] = (*raw, other, cleared)
        with pytest.raises(CorruptData):
            restore(PartitionFold(history=True), tuple(state))


@pytest.mark.parametrize("cleared", [-1, 2**62 + 1, 2**200])
def test_a_history_of_which_less_than_nothing_was_cleared_is_refused(cleared):
    state, index = state_of_a_history()
    state[index] = (*state[index][:-1], cleared)
    with pytest.raises(CorruptData):
        restore(PartitionFold(history=True), tuple(state))


@pytest.mark.parametrize("row", [-1, 4, 2**62, 2**200])
def test_a_first_marker_that_stands_in_no_row_is_refused(row):
    state, _ = state_of_a_history()
    (index,) = (i for i, one in enumerate(state) if isinstance(one, dict) and 3 in one)
    first_seq, committed, _, *rest = state[index][3]
    for first_row in (0, 3):
        state[index][3] = (first_seq, committed, first_row, *rest)
        restore(PartitionFold(history=True), tuple(state))
    state[index][3] = (first_seq, committed, row, *rest)
    with pytest.raises(CorruptData):
        restore(PartitionFold(history=True), tuple(state))


def test_a_marker_that_somebody_moved_is_refused_by_a_merge():
    whole, later = PartialState(ScanOptions(history=True)), PartialState(ScanOptions(history=True))
    later.fold(0).scan(write.marker(3, 3, 5, commit=1))
    for row in (-1, 1, 2**62):
        later.fold(0).producers[3].first_row = row
        with pytest.raises(ArgumentError):
            whole.absorb(later)


@pytest.mark.parametrize(("part", "size"), [(2, 0xFFFF), (4, 0xFFFF), (2, 0x10000), (4, 0x10000)])
def test_a_name_on_its_way_has_as_many_bytes_as_a_key_can_count(part, size):
    state, index = state_of_a_history()
    names, bounds = np.full(size, ord("a"), np.uint8), np.array([0, size])
    state[index] = (*state[index][:part], names, bounds, *state[index][part + 2 :])
    fold = PartitionFold(history=True)
    if size > 0xFFFF:
        with pytest.raises(CorruptData, match="name 0 of a history"):
            restore(fold, tuple(state))
        return
    restore(fold, tuple(state))
    columns = {2: 0, 4: 4}  # of a row: its group, its topic
    assert {row[columns[part]] for row in commit_rows(0, fold.history)} == {"a" * size}


def test_a_history_that_was_cleared_numbers_the_names_of_what_follows_anew():
    fold = PartitionFold(history=True)
    for at, names in enumerate([["a", "b"], ["b", "a"], ["c", "b"]]):
        records = [
            write.commit(5, group=name.encode(), topic=f"of {name}".encode()) for name in names
        ]
        fold.scan(write.batch(2 * at, records))
        rows = [(row[0], row[4]) for row in commit_rows(0, fold.history)]
        assert rows == [(name, f"of {name}") for name in names]
        fold.history.clear()
        assert list(commit_rows(0, fold.history)) == []


def test_the_greatest_numbers_of_a_history_travel():
    state, index = state_of_a_history()
    *raw, pending, _ = state[index]
    (row,) = pending[4]
    for cleared in (0, 2**62):
        for producer in (-(2**63), -1, 0, 2**63 - 1):
            state[index] = (*raw, {producer: (row,)}, cleared)
            fold = PartitionFold(history=True)
            restore(fold, tuple(state))
            again = dump(fold)[index]
            assert (list(again[-2]), again[-1]) == ([producer], cleared)
    for producer in (-(2**63) - 1, 2**63, True, None):
        state[index] = (*raw, {producer: (row,)}, 0)
        with pytest.raises(CorruptData):
            restore(PartitionFold(history=True), tuple(state))


def test_rows_are_those_from_a_start_to_an_end_and_all_by_default():
    fold = PartitionFold(history=True)
    sizes = (3, 0, 5)
    fold.scan(write.batch(0, [write.commit(5, n, metadata=b"m" * n) for n in sizes]))
    for start, end in ((0, 3), (1, 3), (0, 1), (1, 2), (3, 3), (0, 0)):
        columns = fold.history.columns(start, end)
        assert columns["offset"].tolist() == list(sizes[start:end])
        assert np.diff(columns["metadata_bounds"]).tolist() == list(sizes[start:end])
        assert columns["metadata"].tobytes() == b"m" * sum(sizes[start:end])
    assert fold.history.columns()["offset"].tolist() == list(sizes)
    assert fold.history.columns(2)["offset"].tolist() == [5]
    for wrong in ((-1, 3), (0, 4), (2, 1)):
        with pytest.raises(ArgumentError):
            fold.history.columns(*wrong)


def test_a_row_has_nothing_of_the_row_that_was_in_its_place():
    """Memory of rows that were cleared is used again."""
    fold = PartitionFold(history=True)
    fold.scan(
        write.batch(0, [write.commit(5, 3, metadata=b"m")], producer_id=9, transactional=True)
        + write.marker(1, 9, 6, commit=False)
    )
    before = fold.history.columns()
    assert (before["transactional"].tolist(), before["producer_id"].tolist()) == ([1], [9])
    fold.history.clear()
    fold.scan(write.batch(2, [(7, write.commit(5)[1], None)]))
    after = fold.history.columns()
    expected = {"kind": 1, "transactional": 0, "outcome": 0, "producer_id": -1, "offset": -1,
                "leader_epoch": -1, "commit_timestamp": -1, "expire_timestamp": -1,
                "log_offset": 2, "timestamp": 7}  # fmt: skip
    assert {name: after[name].tolist() for name in expected} == {
        name: [value] for name, value in expected.items()
    }
    assert (after["metadata"].tobytes(), after["metadata_bounds"].tolist()) == (b"", [0, 0])


def test_a_dump_has_nothing_of_the_memory_that_was_read():
    """Commits of an open transaction are stored as bytes, without addresses and leftovers."""
    records = [write.commit(5, metadata=b"m"), (6, write.commit(5, partition=1)[1], None)]
    data = write.batch(0, records, producer_id=9, transactional=True)
    data += write.batch(2, [write.commit(9, partition=2), write.commit(9, partition=3)])
    copies = [bytearray(data) for _ in range(3)]  # each somewhere else
    dumps = []
    for copy in copies:
        fold = PartitionFold(history=True, tracking=(None, 5, None))  # of few keys
        fold.scan(copy)
        used = [b"\xff" * size for size in range(512)]  # and freed
        del used
        dumps.append(pickle.dumps(dump(fold)))
    assert dumps[0] == dumps[1] == dumps[2]
