"""The columns of a partition against Kafka's own decode, and against the table ``commits``."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie._core.codec.batch import LogReader
from coterie._core.fold.history import OUTCOMES
from coterie._core.fold.record_scan import RecordScan
from coterie.insight.records import log_reader as module
from coterie.insight.records.partition_view import read_partitions
from coterie.log.folders import find_segments, read_segment
from coterie.state.history import COMMIT_FIELDS
from coterie.state.partial import ScanOptions
from support.golden_data import cases, corrupt_cases, log, records, wide
from support.history_model import HistoryModel, events_by_batch
from support.insight.record_columns import read_records
from support.log_writer import batch, commit_key, commit_value, group_key, group_value, marker

ALL = [*cases(), *(f"corrupt/{case}" for case in corrupt_cases())]


NOT_READ = ("leader_epoch", "metadata", "expire_timestamp", "topic_id")


def log_of(case):
    return find_segments([log(case)]).partitions()


def rows_of(commits, number):
    """The rows of the table ``commits`` without ``NOT_READ``, in log order."""
    for row in range(len(commits)):
        gone = bool(commits.tombstone[row])
        timestamp, producer_id = int(commits.timestamp[row]), int(commits.producer_id[row])
        yield (
            commits.groups[commits.group[row]],
            number,
            int(commits.log_offset[row]),
            None if timestamp == -1 else timestamp,
            commits.topics[commits.topic[row]],
            int(commits.partition[row]),
            None if gone else int(commits.offset[row]),
            None if gone else int(commits.commit_timestamp[row]),
            gone,
            None if producer_id == -1 else producer_id,
            OUTCOMES[commits.outcome[row]],
        )


def history(segments, number, **options):
    """The rows of ``replay --history`` for one partition, in log order."""
    pieces = map(read_segment, segments)
    events = list(events_by_batch(pieces, ScanOptions(history=True, **options)))
    decide = HistoryModel(number)
    # Offsets may go back in a log, so the order of the events is the order of the log.
    place = {id(event): index for index, event in enumerate(events)}
    decided = decide.decided(events)
    decided.sort(key=lambda one: place[id(one[0])])
    rows = [dict(zip(COMMIT_FIELDS, decide.row(*one), strict=True)) for one in decided]
    return [tuple(value for name, value in row.items() if name not in NOT_READ) for row in rows]


@pytest.mark.parametrize("case", ALL)
def test_commits_are_those_of_the_history(case):
    for number, segments in log_of(case).items():
        commits = read_records(segments).only_commits()
        assert list(rows_of(commits, number)) == history(segments, number)
    assert len(COMMIT_FIELDS) == 15


@pytest.mark.parametrize("case", ["transactions", "compacted", "old-formats"])
def test_commits_as_of_a_time_are_those_of_the_history_as_of_it(case):
    times = sorted({record["timestamp"] for record in records(case)})
    for at_ms in times[:: max(len(times) // 12, 1)]:
        for number, segments in log_of(case).items():
            commits = read_records(segments, at_ms=at_ms).only_commits()
            assert list(rows_of(commits, number)) == history(segments, number, at_ms=at_ms)


@pytest.mark.parametrize("case", ["transactions", "basic"])
def test_commits_of_some_groups_are_theirs_of_all(case):
    for number, segments in log_of(case).items():
        everything = list(rows_of(read_records(segments).only_commits(), number))
        for group in {row[0] for row in everything}:
            some = read_records(segments, groups={group})
            assert set(some.groups[name] for name in some.group) == {group}
            expected = [row for row in everything if row[0] == group]
            assert list(rows_of(some.only_commits(), number)) == expected


def outcomes_by_hand(case):
    """(partition, offset) -> outcome, from Kafka's own decode alone."""
    result, pending = {}, {}
    for record in records(case):
        place = record["partition"], record["offset"]
        open_of = (record["partition"], record["batch"]["producer_id"])
        if "control" in record:
            outcome = {"COMMIT": "committed", "ABORT": "aborted"}[record["control"]["type"]]
            result |= dict.fromkeys(pending.pop(open_of, ()), outcome)
        elif record["key"]["type"] == "offset_commit":
            plain = not record["batch"]["is_transactional"]
            result[place] = "committed" if plain else "pending"
            if not plain:
                pending.setdefault(open_of, []).append(place)
    return result


@pytest.mark.parametrize("case", ["transactions", "compacted", "kip848", "default50"])
def test_outcomes_are_those_that_kafkas_decode_tells(case):
    expected = outcomes_by_hand(case)
    actual = {}
    for number, segments in log_of(case).items():
        commits = read_records(segments).only_commits()
        places = [(number, offset) for offset in commits.log_offset.tolist()]
        outcomes = [OUTCOMES[number] for number in commits.outcome]
        actual |= dict(zip(places, outcomes, strict=True))
    assert actual == expected
    if case == "transactions":
        assert set(actual.values()) == set(OUTCOMES)


@pytest.mark.parametrize("case", ["basic", "compression-zstd", "compacted", "old-formats"])
def test_each_row_names_the_batch_and_the_bytes_of_its_record(case):
    for segments in log_of(case).values():
        commits = read_records(segments)
        expected = []
        for segment in segments:
            for read_batch in LogReader(Path(segment.path).read_bytes()):
                for record in read_batch.records:
                    sizes = [-1 if b is None else len(b) for b in (record.key, record.value)]
                    place = (segment.name, read_batch.position, read_batch.records[0].offset)
                    expected.append((record.offset, *place, *sizes))
        names = [commits.files[number] for number in commits.file]
        firsts = commits.first_offset.tolist()
        sizes = commits.key_size.tolist(), commits.value_size.tolist()
        offsets, positions = commits.log_offset.tolist(), commits.position.tolist()
        actual = zip(offsets, names, positions, firsts, *sizes, strict=True)
        assert list(actual) == expected


@pytest.mark.parametrize("size", [1, 700, 5000])
@pytest.mark.parametrize("case", ["transactions", "basic"])
def test_where_a_segment_is_cut_changes_nothing(case, size, monkeypatch):
    whole = {number: read_records(segments) for number, segments in log_of(case).items()}
    monkeypatch.setattr(module, "READ_PIECE_BYTES", size)
    for number, segments in log_of(case).items():
        pieces = read_records(segments)
        assert list(rows_of(pieces.only_commits(), number)) == list(
            rows_of(whole[number].only_commits(), number)
        )
        assert (pieces.position == whole[number].position).all()


def test_a_marker_of_one_producer_decides_nothing_of_another(tmp_path):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    key, value = commit_key(1, b"g", b"t", 0), commit_value(7, -1, b"m", 5)
    first, second = ({"producer_id": number, "transactional": True} for number in (4, 9))
    parts = [
        batch(0, [(5, key, value)], **first),
        batch(1, [(5, key, value)], **second),
        marker(2, 9, 6, commit=True),
        batch(3, [(7, key, value)], **second),
        marker(4, 2, 8, commit=True),
        marker(5, 9, 8, commit=False),
        batch(6, [(9, key, None)]),
    ]
    (folder / f"{0:020}.log").write_bytes(b"".join(parts))
    (segments,) = find_segments([tmp_path]).partitions().values()
    commits = read_records(segments).only_commits()
    outcomes = [OUTCOMES[number] for number in commits.outcome]
    assert outcomes == ["pending", "committed", "aborted", "committed"]
    assert commits.tombstone.tolist() == [False, False, False, True]


@pytest.mark.slow
def test_the_log_of_a_million_records_is_read_as_it_is():
    rows = 0
    for view in read_partitions([wide()]):
        last = -1
        for piece in view.pieces():
            rows += len(piece)
            assert np.all(np.diff(piece.log_offset, prepend=last) > 0)
            last = piece.log_offset[-1]
    assert rows == 1_182_263  # golden/logs/README.md


REQUESTS = st.lists(  # batches of (group, topic, partition, whether it is a commit, a fault)
    st.tuples(
        st.lists(
            st.tuples(
                st.sampled_from([b"g", b"h", b"\xc3\xbc"]),
                st.sampled_from([b"t", b"u"]),
                st.integers(0, 3),
                st.sampled_from(["commit", "commit", "tombstone", "fault", "group", "left over"]),
                st.integers(0, 60),
            ),
            min_size=1,
            max_size=5,
        ),
        st.sampled_from([{}, {}, {}, {"producer_id": 4, "transactional": True}]),
    ),
    max_size=8,
)


def record_of(group, topic, partition, kind, time):
    key = commit_key(1, group, topic, partition)
    value = commit_value(7, -1, b"m" * partition, time)
    return {
        "commit": (time, key, value),
        "tombstone": (time, key, None),
        "fault": (time, key, b"\x00"),
        "group": (time, group_key(group), group_value(1, [b"m"])),
        "left over": (time, key + b"\x00", value),
    }[kind]


@given(REQUESTS, st.sampled_from([None, 30]), st.sampled_from(["g", "ü"]))
def test_a_scan_of_one_group_tells_of_its_records_and_of_all_batches_as_one_of_all_groups(
    requests, at_ms, group
):
    data, offset = b"", 0
    for rows, how in requests:
        data += batch(offset, [record_of(*row) for row in rows], **how)
        offset += len(rows)
    whole, some = RecordScan(at_ms=at_ms), RecordScan(at_ms=at_ms, groups=[group])
    (all_rows, _), (rows, _) = whole.scan(data), some.scan(data)
    theirs = np.array([name >= 0 and whole.groups[name] == group for name in all_rows["group"]])
    own = ("log_offset", "timestamp", "number", "offset", "disk_bytes", "outcome", "previous")
    for name in own:
        assert rows[name].tolist() == all_rows[name][theirs.astype(bool)].tolist(), name
    for name in set(rows["batches"].dtype.names) - {"first_row"}:
        assert rows["batches"][name].tolist() == all_rows["batches"][name].tolist(), name
    shared = np.zeros(len(all_rows["batches"]), np.int64)
    np.add.at(shared, all_rows["batch"], all_rows["disk_bytes"])
    counted = all_rows["batches"]["records"] > 0
    assert shared[counted].tolist() == all_rows["batches"]["size"][counted].tolist()
