"""``--history``: the columns of commits against one tuple after another, however a log is cut."""

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import log_writer as write
from coterie._core.fold.fold import PartitionFold
from coterie._core.fold.partial import dump, restore
from coterie.errors import CorruptData
from coterie.log.folders import cut_points
from coterie.state import history as module
from coterie.state.history import COMMIT_FIELDS, CommitHistory, commit_rows, commits_table
from coterie.state.partial import PartialState, ScanOptions
from coterie.state.schemas import SCHEMAS
from golden_data import cases, corrupt_cases, segments
from history_model import HistoryModel
from test_fold_properties import LOGS, TIMES, as_bytes, is_late, laid_out, slow

MODES = ("skip", "recover", "load", "stop")


def events_of(log, at_ms):
    """What a log drawn at random says, for the model."""
    for base, producer, content in log:
        if isinstance(content, tuple):
            committed, time = content
            if not is_late(time, at_ms):
                yield "marker", producer, committed == 1
            continue
        for offset, (kind, time, *rest) in enumerate(content, base):
            if kind == "commit" and not is_late(time, at_ms):
                _, (group, topic, partition), value = rest
                names = [text.decode("utf-8", "replace").encode() for text in (group, topic)]
                key = write.commit_key(1, *names, partition)[2:]
                yield "commit", key, offset, time, producer, value and (*value, -1)


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
    decide = CommitHistory(0)
    rows, told = [], []
    for fold in states:
        decided = decide.feed(fold.history)
        rows += commit_rows(decided)
        told += rows_of_table(commits_table(decided))
        fold.history.clear()
    last = decide.finish()
    return [*rows, *commit_rows(last)], [*told, *rows_of_table(commits_table(last))]


def pieces_of(data, draw):
    ends = draw(st.sets(st.sampled_from(cut_points(data, 1)), max_size=6)) if data else set()
    cuts = sorted({0, *ends, len(data)})
    return [data[start:end] for start, end in itertools.pairwise(cuts)]


@given(LOGS, st.none() | TIMES, st.data())
@settings(slow, max_examples=60)
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


@given(LOGS, st.data())
@settings(slow, max_examples=40)
def test_histories_that_follow_one_another_are_the_history_of_all(steps, data):
    whole, options = PartialState(ScanOptions(history=True)), ScanOptions(history=True)
    log = laid_out(steps)
    for piece in pieces_of(as_bytes(log), data.draw):
        state = PartialState(options)
        state.fold(0).scan(piece)
        whole.absorb(state)
    expected = list(events_of(log, None))
    assert list(whole.fold(0).history) == expected
    assert rows_of_table(whole.to_arrow()["commits"]) == rows_of(expected)


@pytest.mark.parametrize("case", [*cases(), *(f"corrupt/{case}" for case in corrupt_cases())])
@pytest.mark.parametrize("on_fault", MODES)
def test_batches_read_as_one_and_record_by_record_give_one_history(case, on_fault):
    """With groups named, no batch takes the short way."""
    paths = segments(case)
    names = {row[0] for path in paths for row in history_rows([path], on_fault, None)}
    for _, theirs in itertools.groupby(paths, lambda path: path.parent):
        files = list(theirs)
        expected = history_rows(files, on_fault, frozenset(names))
        assert history_rows(files, on_fault, None) == expected


def history_rows(paths, on_fault, groups):
    fold = ScanOptions(on_fault=on_fault, groups=groups, history=True).new_fold()
    for path in paths:
        fold.scan(path.read_bytes())
    events = list(fold.history)
    rows, told = drained([fold])
    assert rows == told == rows_of(events)
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
    events = list(fold.history)
    rows, _ = drained([fold])
    assert [row[6] for row in rows] == [0, 2, 1]
    assert rows == rows_of(events)


def test_what_waits_is_let_go_of_as_it_is_decided():
    """Transactions that overlap for ever: rows move together, and stay the model's."""
    fold, decide, model = PartitionFold(history=True), CommitHistory(0), HistoryModel(0)
    for n in range(4000):
        data = write.batch(n, [write.commit(1, n)], producer_id=n, transactional=True)
        if n >= 10:
            data += write.marker(n, n - 10, 1, commit=n % 2)
        fold.scan(data)
        expected = model.feed(fold.history)
        assert list(commit_rows(decide.feed(fold.history))) == expected
        fold.history.clear()
    assert list(commit_rows(decide.finish())) == model.finish()


def test_chunks_of_a_table_have_their_own_metadata(monkeypatch):
    monkeypatch.setattr(module, "ROWS_A_CHUNK", 2)
    told = [b"", b"one", "zwei\xdf".encode(), b"\xff", b"four"]
    fold = PartitionFold(history=True)
    records = [write.commit(5, partition=n, metadata=one) for n, one in enumerate(told)]
    fold.scan(write.batch(0, [*records, (5, records[0][1], None)]))
    expected = rows_of(list(fold.history))
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
    assert [row[0].encode() for row in rows_of(list(fold.history))] == groups


def states_of_a_history():
    fold = PartitionFold(history=True)
    fold.scan(
        write.batch(0, [write.commit(5, metadata=b"told"), (5, write.commit(5)[1], None)])
        + write.batch(2, [write.commit(5)], producer_id=3, transactional=True)
        + write.marker(3, 3, 5, commit=1)
    )
    return dump(fold)


@pytest.mark.parametrize("part", range(6))
def test_a_history_cut_on_its_way_is_refused(part):
    state = states_of_a_history()
    index = next(i for i, one in enumerate(state) if isinstance(one, tuple) and len(one) == 6)
    for size in range(len(state[index][part])):
        history = list(state[index])
        history[part] = history[part][:size]
        changed = (*state[:index], tuple(history), *state[index + 1 :])
        if part == 0 and size % 80 == 0:
            restore(PartitionFold(history=True), changed)
            continue
        with pytest.raises(CorruptData):
            restore(PartitionFold(history=True), changed)


@given(st.data())
@settings(slow, max_examples=60)
def test_a_history_changed_on_its_way_is_refused_or_can_be_read(data):
    state = states_of_a_history()
    index = next(i for i, one in enumerate(state) if isinstance(one, tuple) and len(one) == 6)
    part = data.draw(st.sampled_from(range(6)))
    raw = state[index][part].view("uint8")
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    fold = PartitionFold(history=True)
    try:
        restore(fold, state)
    except CorruptData:
        return
    list(fold.history)
    drained([fold])
