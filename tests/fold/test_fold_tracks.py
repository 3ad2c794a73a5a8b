"""What a fold tracks of keys is what a walk over the log says, wherever the log is cut."""

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie import CoterieError, PartialState, ScanOptions, merge, scan
from coterie._core.fold import fold as dump
from coterie._core.fold import fold as partial
from coterie._core.fold.fold import PartitionFold, absorb
from coterie.errors import ArgumentError, CorruptData
from coterie.state.partial import Tracking
from support.examples import examples
from support.log_writer import batch, commit, commit_key, group_key, group_value, marker

BEGIN_MS = 1_000
PLAIN = -1
TRACK = ("count", "last_log_offset", "commit_timestamp")

STEPS = st.lists(
    st.tuples(
        st.sampled_from(["commit", "commit", "gone", "end"]),
        st.sampled_from([PLAIN, 7, 8]),  # the producer; of an end, PLAIN is 8
        st.integers(0, 1),  # the partition; of an end: whether it commits
        st.integers(0, 9),  # the offset
        st.sampled_from([-1, 0, 5, 10, 20]),  # the time, after BEGIN_MS; -1: none
    ),
    max_size=30,
)
TIMES = st.sampled_from([None, BEGIN_MS, BEGIN_MS + 5, BEGIN_MS + 10])


def time_of(step):
    return -1 if step[4] < 0 else BEGIN_MS + step[4]


def batch_of(at, step):
    what, producer, part, offset, _ = step
    ms = time_of(step)
    if what == "end":
        return marker(at, 8 if producer == PLAIN else producer, ms, commit=part)
    made = (ms, commit_key(1, b"group-g", b"t", part), None)
    if what == "commit":
        made = commit(ms, offset, group=b"group-g", partition=part, committed=at)
    return batch(at, [made], producer_id=producer, transactional=producer != PLAIN)


def walked(steps, since_ms, until_ms):
    """Partition -> its track: slow and obvious."""
    decided = {}  # step -> whether it counts
    waiting = {}
    for at, (what, producer, part, *_) in enumerate(steps):
        if what == "end":
            for one in waiting.pop(8 if producer == PLAIN else producer, ()):
                decided[one] = part == 1
        elif producer == PLAIN:
            decided[at] = True
        else:
            waiting.setdefault(producer, []).append(at)
    rows = {}
    for at, step in enumerate(steps):
        early = until_ms is None or time_of(step) <= until_ms
        if decided.get(at) and early:
            rows.setdefault(step[2], []).append(at)
    return {part: track_of(steps, theirs, since_ms) for part, theirs in rows.items()}


def track_of(steps, rows, since_ms):
    commits = [at for at in rows if steps[at][0] != "gone"]
    times = [time_of(steps[at]) for at in commits]
    return {
        "count": sum(since_ms is None or ms == -1 or ms >= since_ms for ms in times),
        "last_log_offset": rows[-1],
        "commit_timestamp": commits[-1] if commits else None,
    }


def tracked(state):
    fold = state.fold(0)
    found = {}
    for place, row in enumerate(partial.tracks(fold)):
        if not row["last"]:
            continue
        track = {name: int(row[name]) for name in TRACK}
        if not row["commit"]:
            track["commit_timestamp"] = None
        found[partial.keys(fold)[place][2]] = track
    return found


@settings(max_examples=examples(400))
@given(STEPS, TIMES, TIMES, st.sets(st.integers(1, 29)), st.booleans())
def test_tracks_are_those_of_a_walk_wherever_the_log_is_cut(steps, since, until, cuts, travels):
    options = ScanOptions(tracking=Tracking(since, until))
    batches = [batch_of(at, step) for at, step in enumerate(steps)]
    bounds = [0, *sorted(cut for cut in cuts if cut < len(batches)), len(batches)]
    pieces = [
        scan(b"".join(batches[a:b]), partition=0, options=options) for a, b in pairwise(bounds)
    ]
    if travels:
        pieces = [PartialState.from_bytes(piece.to_bytes()) for piece in pieces]
    assert tracked(merge(pieces)) == walked(steps, since, until)


@given(STEPS)
def test_tracking_changes_nothing_else(steps):
    data = b"".join(batch_of(at, step) for at, step in enumerate(steps))
    plain = scan(data, partition=0)
    assert scan(data, partition=0, options=ScanOptions(tracking=Tracking())).groups() == (
        plain.groups()
    )


@given(STEPS, st.booleans())
def test_of_some_groups_the_tracks_are_those_that_all_have(steps, wanted):
    data = b"".join(batch_of(at, step) for at, step in enumerate(steps))
    options = ScanOptions(tracking=Tracking(), groups={"group-g" if wanted else "group-h"})
    expected = walked(steps, None, None) if wanted else {}
    assert tracked(scan(data, partition=0, options=options)) == expected


def test_records_of_groups_that_are_no_commits_are_kept_whole():
    newer = b"\0\3" + group_key(b"new")[2:]
    records = [
        (5, group_key(b"old"), group_value(1, [b"m"])),
        (6, newer, b"no value at all"),
        (7, group_key(b"old"), None),
    ]
    fold = PartitionFold(tracking=(None, None, None))
    fold.scan(batch(10, records), file="f", position=3)
    assert fold.group_records == [
        (b"old", 10, 5, 2, group_key(b"old"), group_value(1, [b"m"]), "f", 3),
        (b"new", 11, 6, 3, newer, b"no value at all", "f", 3),
        (b"old", 12, 7, 2, group_key(b"old"), None, "f", 3),
    ]
    alone = PartitionFold(tracking=(None, None, None), only=["new"])
    alone.scan(batch(10, records))
    assert [record[0] for record in alone.group_records] == [b"new"]


def test_keys_have_their_names_as_java_reads_them_in_order_of_first_sight():
    places = [(b"g\xff", "é".encode(), 3), (b"", b"t", -1), (b"g\xff", b"t", 0)]
    fold = PartitionFold()
    fold.scan(batch(0, [commit(5, group=g, topic=t, partition=p) for g, t, p in places * 2]))
    named = [("g\ufffd", "é", 3), ("", "t", -1), ("g\ufffd", "t", 0)]
    assert partial.keys(fold) == [key for key, _ in partial.offset_entries(fold)] == named


def test_a_fold_that_tracks_nothing_says_so():
    with pytest.raises(CoterieError, match="tracks no keys"):
        partial.tracks(PartitionFold())


@pytest.mark.parametrize("tracking", [(None, None), 5, Tracking(since_ms="now"), Tracking(2**63)])
def test_what_is_no_tracking_is_refused(tracking):
    with pytest.raises(ArgumentError):
        ScanOptions(tracking=tracking)


def dumped():
    state = scan(batch(0, [commit(5)]), partition=0, options=ScanOptions(tracking=Tracking()))
    return list(dump.dump(state.fold(0)))


@pytest.mark.parametrize(
    "change",
    [
        lambda ordinal, packed: (ordinal, packed[:-1]),
        lambda ordinal, packed: (ordinal, packed + packed),
        lambda ordinal, packed: (-1, packed),
        lambda ordinal, packed: (2**63 - 1, packed),
    ],
)
def test_tracks_that_do_not_fit_the_keys_are_refused(change):
    state = dumped()
    ordinal, packed, records = state[1]
    state[1] = (*change(ordinal, packed), records)
    with pytest.raises(CorruptData):
        dump.restore(PartitionFold(tracking=(None, None, None)), tuple(state))


def test_tracks_where_none_are_wanted_and_none_where_some_are_are_refused():
    with pytest.raises(CorruptData):
        dump.restore(PartitionFold(), tuple(dumped()))
    plain = dump.dump(scan(batch(0, [commit(5)]), partition=0).fold(0))
    with pytest.raises(CorruptData):
        dump.restore(PartitionFold(tracking=(None, None, None)), plain)


def test_what_a_transaction_says_of_a_key_is_checked_where_it_is_used():
    open_ = batch(0, [commit(5)], producer_id=7, transactional=True)
    fold = PartitionFold(tracking=(None, None, None))
    fold.scan(open_)
    fold.producers[7].tracked = {0: b"short"}
    with pytest.raises(CorruptData):
        fold.scan(marker(1, 7, 6, commit=True))


def test_the_greatest_number_of_records_travels():
    state = dumped()
    _, packed, records = state[1]
    for ordinal in (0, 1 << 62):
        state[1] = (ordinal, packed, records)
        fold = PartitionFold(tracking=(None, None, None))
        dump.restore(fold, tuple(state))
        assert dump.dump(fold)[1][0] == ordinal
    state[1] = ((1 << 62) + 1, packed, records)
    with pytest.raises(CorruptData):
        dump.restore(PartitionFold(tracking=(None, None, None)), tuple(state))


def test_a_fold_with_tracks_and_one_without_merge_what_both_have():
    for options in ((None, (None, None, None)), ((None, None, None), None)):
        folds = [PartitionFold(tracking=tracking) for tracking in options]
        for at, fold in enumerate(folds):
            group = BEGIN_MS, group_key(b"g"), group_value(at, [b"m"])
            rows = [commit(BEGIN_MS, at, partition=at), commit(BEGIN_MS, 8, partition=5), group]
            fold.scan(batch(10 * at, rows))
        absorb(*folds)
        committed = {key[2]: value.offset for key, value in partial.offset_entries(folds[0])}
        assert committed == {0: 0, 5: 8, 1: 1}
        if options[0] is not None:
            assert partial.tracks(folds[0])["count"].tolist() == [1, 1, 0]
