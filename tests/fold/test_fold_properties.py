"""Merging partial states of any cut equals one scan; and one scan equals the shortest model.

The cuts fall on any batch, the pieces are merged in any association, and some travel as bytes.
"""

import functools
import itertools
import random
from collections import defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coterie import PartialState, ScanOptions, merge, scan
from coterie._core.codec.reader import batch_boundaries
from support import log_writer as write
from support.golden_data import cases, corrupt_cases, segments
from support.history_model import HistoryModel, commits_of

MODES = ("skip", "recover", "load", "stop")
COMMIT, ABORT = True, False
slow = settings(deadline=None, suppress_health_check=list(HealthCheck))


def one_scan(pieces, options):
    """``pieces``: (partition, file, bytes) each, in log order within a partition."""
    state = PartialState(options)
    for partition, file, data in pieces:
        state.fold(partition).scan(data, file=file)
    return state


def what_it_says(state):
    """Everything that a reader of a state can see, but for the sizes of the scanned pieces."""
    return {
        "groups": state.groups(),
        "partitions": {
            number: {
                "faults": fold.faults,
                "generations": {group: log.generations() for group, log in fold.groups.items()},
                "newer": fold.newer,
                "unknown": fold.unknown,
                "history": None if fold.history is None else history_of(fold),
                "ends": (fold.failed, fold.cut, fold.stopped),
                "keys": fold.key_count if not (fold.cut or fold.stopped or fold.failed) else None,
            }
            for number, fold in state.partitions.items()
        },
    }


def history_of(fold):
    """What is decided and what is not: (commit, outcome) each."""
    return commits_of(fold.history), commits_of(fold.history.pending())


def subsets(places):
    """Some of the places, seldom all."""
    if not places:
        return st.just(set())
    return st.sets(st.sampled_from(places), max_size=6) | st.just(set(places[:24]))


def cut_and_merged(draw, pieces, options):
    """The same log scanned in pieces, put together two neighbours at a time."""
    parts = []
    for partition, file, data in pieces:
        places = batch_boundaries(data, 1)[1:-1]
        cuts = sorted(draw(subsets(places)))
        for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            where = {"partition": partition, "file": file, "position": start}
            parts.append(scan(data[start:end], options=options, **where))
    # Hundreds of draws would cost more than the merges do.
    chosen = random.Random(draw(st.integers(0, 2**32)))
    while len(parts) > 1:
        at = chosen.randrange(len(parts) - 1)
        both = parts[at : at + 2]
        if chosen.random() < 0.5:
            both = [PartialState.from_bytes(part.to_bytes()) for part in both]
        parts[at : at + 2] = [merge(both)]
    return parts[0]


# ---- golden logs --------------------------------------------------------------------------------


@functools.cache
def pieces_of(case):
    return [
        (int(path.parent.name.rpartition("-")[2]), path.name, path.read_bytes())
        for path in segments(case)
    ]


@functools.cache
def times_of(case):
    """A few times at which the log can be looked at, and none."""
    state = one_scan(pieces_of(case), ScanOptions(history=True))
    commits = [
        one for fold in state.partitions.values() for each in history_of(fold) for one in each
    ]
    times = sorted({event[3] for event, _ in commits})
    return [None, *times[:: max(1, len(times) // 4)]]


@functools.cache
def one_scan_of(case, options):
    return what_it_says(one_scan(pieces_of(case), options))


def check_case(case, data):
    options = ScanOptions(
        on_fault=data.draw(st.sampled_from(MODES)),
        at_ms=data.draw(st.sampled_from(times_of(case))),
        history=data.draw(st.booleans()),
    )
    merged = cut_and_merged(data.draw, pieces_of(case), options)
    assert what_it_says(merged) == one_scan_of(case, options)


@pytest.mark.parametrize("case", cases())
@given(st.data())
@settings(slow, max_examples=12)
def test_any_cut_of_a_golden_log_merges_to_one_scan(case, data):
    check_case(case, data)


@pytest.mark.parametrize("case", corrupt_cases())
@given(st.data())
@settings(slow, max_examples=12)
def test_any_cut_of_a_corrupt_log_merges_to_one_scan(case, data):
    check_case(f"corrupt/{case}", data)


@st.composite
def damaged(draw, case):
    """The log of a case with one segment damaged anywhere: a byte, an end, or something put in."""
    pieces = list(pieces_of(case))
    index = draw(st.sampled_from([i for i, piece in enumerate(pieces) if piece[2]]))
    partition, file, data = pieces[index]
    at = draw(st.integers(0, len(data) - 1))
    # Headers are few bytes among many, so half of the damage is put near a batch's beginning.
    starts = batch_boundaries(data, 1)[:-1]
    at = draw(st.just(at) | st.builds(int.__add__, st.sampled_from(starts), st.integers(0, 60)))
    at = min(at, len(data) - 1)
    kind = draw(st.sampled_from(["byte", "end", "put in"]))
    if kind == "byte":
        data = data[:at] + bytes([data[at] ^ draw(st.integers(1, 255))]) + data[at + 1 :]
    elif kind == "end":
        data = data[:at]
    else:
        data = data[:at] + draw(st.sampled_from([bytes(40), b"\xff" * 7, data[:99]])) + data[at:]
    pieces[index] = (partition, file, data)
    return pieces


@pytest.mark.parametrize("case", ["compacted", "transactions", "old-formats"])
@given(st.data())
@settings(slow, max_examples=30)
def test_any_cut_of_a_log_damaged_anywhere_merges_to_one_scan(case, data):
    pieces = data.draw(damaged(case))
    options = ScanOptions(on_fault=data.draw(st.sampled_from(MODES)))
    merged = cut_and_merged(data.draw, pieces, options)
    assert what_it_says(merged) == what_it_says(one_scan(pieces, options))


# ---- logs that no broker wrote, against a model -------------------------------------------------

GROUPS = [b"g", b"h", "é".encode(), b"\xff", b"\xfe"]  # the last two read as one name in Java
TIMES = st.integers(-4, 9)  # -1: none
VALUES = st.tuples(st.integers(0, 99), st.integers(-1, 2), st.sampled_from([b"", b"m"]), TIMES)
METADATA = st.tuples(
    st.just("group"),
    TIMES,
    st.sampled_from(GROUPS),
    st.none() | st.tuples(st.integers(0, 9), st.lists(st.sampled_from([b"a", b"b"]), unique=True)),
)
# Offsets go on, stand still, or go back: a compacted or repaired log may do all three.
STEPS = st.sampled_from([1, 1, 1, 0, -2, 5])


def logs_over(groups, partitions, producers, other_records):
    """Logs of commits to so many places, by hand and by so many transactional producers."""
    places = st.tuples(
        st.sampled_from(GROUPS[:groups]), st.just(b"t"), st.integers(0, partitions - 1)
    )
    commits = st.tuples(
        st.just("commit"), TIMES, st.integers(0, 1), places, st.none() | VALUES | VALUES
    )
    producer = st.integers(1, producers)
    batches = st.one_of(
        st.tuples(st.none(), st.lists(commits | other_records, min_size=1, max_size=3)),
        st.tuples(producer, st.lists(commits, min_size=1, max_size=3)),
        st.tuples(producer, st.tuples(st.sampled_from([COMMIT, COMMIT, ABORT]), TIMES)),
    )
    return st.lists(st.tuples(STEPS, batches), max_size=24)


# Few places and producers, so that they meet in each other's way; and many, of every kind.
LOGS = (
    logs_over(1, 1, 1, st.nothing()) | logs_over(1, 2, 2, METADATA) | logs_over(5, 2, 3, METADATA)
)


def laid_out(steps):
    """Put base offsets on the batches: (base offset, producer id or None, content)."""
    offset, log = 10, []
    for step, (producer, content) in steps:
        offset = max(0, offset + step)
        log.append((offset, producer, content))
        offset += len(content) - 1 if isinstance(content, list) else 0
    return log


def as_bytes(log):
    out = b""
    for offset, producer, content in log:
        if isinstance(content, tuple):
            committed, time = content
            out += write.marker(offset, producer, time, commit=committed)
            continue
        records = []
        for kind, time, *rest in content:
            if kind == "commit":
                version, place, value = rest
                raw = None if value is None else write.commit_value(*value)
                records.append((time, write.commit_key(version, *place), raw))
            else:
                group, value = rest
                raw = None if value is None else write.group_value(*value)
                records.append((time, write.group_key(group), raw))
        txn = {} if producer is None else {"producer_id": producer, "transactional": True}
        out += write.batch(offset, records, **txn)
    return out


def name(raw):
    return raw.decode("utf-8", "replace")


def is_late(time, at_ms):
    """Whether a record is left out as of a time; one without a time never is."""
    return at_ms is not None and time > at_ms and time != -1


def events_of(log, at_ms):
    """The commits and markers of a log, for the model of its history."""
    for base, producer, content in log:
        if isinstance(content, tuple):
            committed, time = content
            if not is_late(time, at_ms):
                yield "marker", producer, committed
            continue
        for offset, (kind, time, *rest) in enumerate(content, base):
            if kind == "commit" and not is_late(time, at_ms):
                _, (group, topic, partition), value = rest
                names = [name(raw).encode() for raw in (group, topic)]
                key = write.commit_key(1, *names, partition)[2:]
                yield "commit", key, offset, time, producer, value and (*value, -1)


def model(log, at_ms):
    """GroupMetadataManager.doLoadGroupsAndOffsets, as short as it can be said."""
    offsets, pending, metadata = {}, defaultdict(dict), {}
    for base, producer, content in log:
        if isinstance(content, tuple):
            committed, time = content
            if is_late(time, at_ms):
                continue
            for place, value in pending.pop(producer, {}).items():
                if committed and (place not in offsets or offsets[place][0] < value[0]):
                    offsets[place] = value
            continue
        for kind, time, *rest in content:
            if is_late(time, at_ms):
                continue
            if kind == "group":
                metadata[name(rest[0])] = rest[1]
                continue
            _, (group, topic, partition), value = rest
            place = name(group), name(topic), partition
            into = offsets if producer is None else pending[producer]
            into.pop(place, None)
            if value is not None:
                into[place] = (base, *value)
    return offsets, pending, {group: value for group, value in metadata.items() if value}


def in_words(log, at_ms):
    """The model's answer as {group: (generation, members, offsets, pending)}."""
    offsets, pending, metadata = model(log, at_ms)
    found = defaultdict(lambda: [0, [], {}, {}])
    for group, (generation, members) in metadata.items():
        found[group][:2] = generation, sorted(map(name, members))
    for (group, topic, partition), value in offsets.items():
        found[group][2][topic, partition] = value
    for producer, places in pending.items():
        for (group, topic, partition), value in places.items():
            found[group][3].setdefault(producer, {})[topic, partition] = value
    return dict(found)


def offsets_of(rows):
    return {
        (row["topic"], row["partition"]): (
            row["appended_batch_offset"],
            row["offset"],
            row["leader_epoch"],
            row["metadata"].encode(),
            row["commit_timestamp"],
        )
        for row in rows
    }


def state_in_words(state):
    return {
        row["group_id"]: [
            row["generation"],
            [member["member_id"] for member in row["members"]],
            offsets_of(row["offsets"]),
            {
                entry["producer_id"]: offsets_of(entry["offsets"])
                for entry in row["pending_transactional_offsets"]
            },
        ]
        for row in state.groups()
    }


@given(LOGS, st.none() | TIMES)
@settings(slow, max_examples=100)  # the next test scans three times as many in one go, too
def test_one_scan_is_what_the_model_says(steps, at_ms):
    log = laid_out(steps)
    state = one_scan([(0, "f", as_bytes(log))], ScanOptions(at_ms=at_ms))
    assert state.partitions[0].faults == []
    assert state_in_words(state) == in_words(log, at_ms)


@given(LOGS, st.none() | TIMES, st.booleans(), st.data())
@settings(slow, max_examples=300)
def test_any_cut_in_any_association_is_what_the_model_says(steps, at_ms, history, data):
    log = laid_out(steps)
    pieces = [(0, "f", as_bytes(log))]
    options = ScanOptions(at_ms=at_ms, history=history)
    merged = cut_and_merged(data.draw, pieces, options)
    assert state_in_words(merged) == in_words(log, at_ms)
    assert merged.partitions[0].faults == []
    assert what_it_says(merged) == what_it_says(one_scan(pieces, options))


def commit_of(offset):
    return [("commit", 0, 1, (b"g", b"t", 0), (offset, -1, b"", 0))]


TANGLES = {  # rare in logs drawn at random: a list of (base offset, producer, content) each
    "of two commits at one position the one decided first stays": [
        (10, 1, commit_of(1)),
        (10, 2, commit_of(2)),
        (11, 1, (COMMIT, 0)),
        (12, 2, (COMMIT, 0)),
    ],
    "a tombstone after the marker stays": [
        (10, 1, commit_of(1)),
        (11, 1, (COMMIT, 0)),
        (12, None, [("commit", 0, 1, (b"g", b"t", 0), None)]),
    ],
    "a commit over an earlier one of the same transaction is the one that counts": [
        (10, 1, commit_of(1)),
        (11, 1, commit_of(2)),
        (12, 2, commit_of(3)),
        (13, 1, (COMMIT, 0)),
        (14, 2, (ABORT, 0)),
    ],
    "a transactional tombstone takes back what an earlier piece left open": [
        (10, None, commit_of(1)),
        (11, 1, commit_of(2)),
        (12, 1, [("commit", 0, 1, (b"g", b"t", 0), None)]),
        (13, 1, (COMMIT, 0)),
    ],
    "a plain commit at a later position wins over a transaction decided after it": [
        (10, 1, commit_of(1)),
        (11, None, commit_of(2)),
        (12, 1, (COMMIT, 0)),
    ],
    "transactions end in the order of their markers, not in that in which they began": [
        (10, 1, commit_of(1)),
        (11, 2, commit_of(2)),
        (12, 1, commit_of(3)),
        (13, 2, commit_of(4)),
        (14, 2, (COMMIT, 0)),
        (15, None, commit_of(5)),
        (16, 1, (ABORT, 0)),
    ],
}


@pytest.mark.parametrize("claim", TANGLES)
def test_every_cut_of_a_tangle_is_what_the_model_says(claim):
    data = as_bytes(TANGLES[claim])
    places = batch_boundaries(data, 1)
    options = ScanOptions(history=True)
    parts = [scan(data[a:b], partition=0, options=options) for a, b in itertools.pairwise(places)]
    commits = HistoryModel(0)
    history = commits.feed_events(events_of(TANGLES[claim], None)), commits.left()
    for cuts in itertools.product([False, True], repeat=len(parts) - 1):
        for from_the_right in (False, True):
            states = [parts[0]]
            for part, apart in zip(parts[1:], cuts, strict=True):
                states = [*states, part] if apart else [*states[:-1], merge([states[-1], part])]
            while len(states) > 1:
                at = len(states) - 2 if from_the_right else 0
                states[at : at + 2] = [merge(states[at : at + 2])]
            assert state_in_words(states[0]) == in_words(TANGLES[claim], None)
            assert history_of(states[0].fold(0)) == history


@given(LOGS, st.sets(st.sampled_from(GROUPS)))
@settings(slow, max_examples=100)
def test_a_scan_of_some_groups_is_the_whole_scan_without_the_others(steps, wanted):
    log = laid_out(steps)
    names = frozenset(map(name, wanted))
    some = one_scan([(0, "f", as_bytes(log))], ScanOptions(groups=names))
    whole = in_words(log, None)
    assert state_in_words(some) == {group: whole[group] for group in whole if group in names}


@given(LOGS, st.sets(st.sampled_from(["g", "h", "\ufffd", "not there"])))
@settings(slow, max_examples=50)
def test_groups_without_the_offsets_of_others_are_the_same_groups(steps, wanted):
    state = one_scan([(0, "f", as_bytes(laid_out(steps)))], ScanOptions())
    assert state.groups(offsets_of=wanted) == [
        {**row, "offsets": row["offsets"] if row["group_id"] in wanted else []}
        for row in state.groups()
    ]
