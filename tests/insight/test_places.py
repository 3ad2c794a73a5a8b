"""Each finding and each event names a record, and by file and position the batch that has it."""

from pathlib import Path

import pytest

from coterie._core.codec.batch import LogReader
from coterie.insight.offsets.divergence import Live
from coterie.insight.questions import audit, explain
from coterie.insight.records import log_reader
from coterie.insight.records.partition_view import PartitionView
from coterie.log.folders import find_segments
from support.insight.lives import commit, life, member
from support.log_writer import batch, commit_key, commit_value

S = 1_795_000_000_000
OPEN = {"producer_id": 5, "transactional": True}
LIVE = Live({"g": {"group_id": "g", "offsets": [{"topic": "t", "partition": 0, "offset": 9}]}})
PARAMETERS = audit.Parameters(no_progress=3, metadata_bytes=4, stall_ms=48, open_ms=1, live=LIVE)
BATCHES = 3  # of a segment


def large(number, size):
    key, at_ms = commit_key(1, b"g", b"t", 2), S - 70 + number
    return at_ms, key, commit_value(number, -1, b"m" * size, at_ms)


def appends():
    """What is appended, as (name of the first record, records, header)."""
    yield "life of g", [life(S - 90, 1, member("a", held={"t": [0]}), group=b"g")], {}
    yield "before the rewind", commit(S - 80, {7: 1, 0: 9})[::-1], {}
    yield "the rewind", commit(S - 79, {0: 5, 7: 2}), {}
    for at in range(4):
        yield f"run {at}", commit(S - 78 + at, {8: at, 1: 7})[::-1], {}
    for at, size in enumerate((6, 8, 5)):
        yield f"metadata {at}", [large(at, size)], {}
    yield "before the removal", commit(S - 60, {3: 100}), {}
    yield "the removal", commit(S - 59, {3: None}), {}
    yield "the resumption", commit(S - 58, {3: 150}), {}
    yield "life of h", [life(S - 50, 1, member("b"), group=b"h")], {}
    yield "before the reset", commit(S - 49, {0: 10}, b"h"), {}
    yield "h is empty", [life(S - 48, 2, group=b"h")], {}
    yield "the reset", commit(S - 47, {0: 60}, b"h"), {}
    yield "a gap", [life(S - 46, 5, member("c"), group=b"h")], {}
    yield "opened", commit(S - 45, {1: 3}, b"h"), OPEN
    yield "opened again", commit(S - 44, {1: 4}, b"h"), OPEN
    yield "life of k", [life(S - 10, 1, member("d", held={"t": [4, 5]}), group=b"k")], {}
    for n in range(11):
        yield f"both {n}", commit(S + n, {4: n, 5: n}, b"k"), {}
    for n in range(1, 13):
        yield f"one {n}", commit(S + 10 + 5 * n, {5: 10 + n}, b"k"), {}
    for n in range(13):
        yield f"other {n}", commit(S + 70 + 5 * n, {4: 11 + n}, b"k"), {}


@pytest.fixture
def segments(tmp_path):
    place = tmp_path / "__consumer_offsets-0"
    place.mkdir()
    offset, every = 0, list(appends())
    for at in range(0, len(every), BATCHES):
        base, data = offset, b""
        for _, records, header in every[at : at + BATCHES]:
            data += batch(offset, records, **header)
            offset += len(records)
        (place / f"{base:020}.log").write_bytes(data)
    return find_segments([place]).segments


def offsets():
    """The offset of each first record, by name."""
    found, offset = {}, 0
    for name, records, _ in appends():
        found[name] = offset
        offset += len(records)
    return found


@pytest.fixture(params=["at once", "batch by batch"])
def rows_of(request, segments, monkeypatch):
    """Ask a question of the log, which is read in one of these ways."""
    if request.param == "batch by batch":
        monkeypatch.setattr(log_reader, "READ_PIECE_BYTES", 1)

    def ask(question, parameters):
        return list(question.rows(PartitionView(0, segments), parameters))

    return ask


def check_places(rows, segments):
    places = {
        record.offset: (segment.name, one.position)
        for segment in segments
        for one in LogReader(Path(segment.path).read_bytes())
        for record in one.records
    }
    for row in rows:
        assert (row["file"], row["position"]) == places[row["log_offset"]], row


def test_a_finding_names_the_record_that_shows_it_and_the_one_before(rows_of, segments):
    rows = rows_of(audit, PARAMETERS)
    check_places(rows, segments)
    names = {offset: name for name, offset in offsets().items()}
    found = {
        (row["kind"], row["group_id"], row["partition"]): (
            names.get(row["previous_log_offset"]), names.get(row["log_offset"]),
        )
        for row in rows
    }  # fmt: skip
    expected = {
        ("rewind", "g", 0): ("before the rewind", "the rewind"),
        ("no_progress", "g", 1): ("run 0", "run 3"),
        ("large_metadata", "g", 2): ("metadata 0", "metadata 1"),
        ("skip", "g", 3): ("before the removal", "the resumption"),
        ("skip", "h", 0): ("before the reset", "the reset"),
        ("generation_gap", "h", None): ("h is empty", "a gap"),
        ("open_transaction", "h", 1): (None, "opened"),
        ("stall", "k", 4): ("both 10", "other 0"),
        ("stall", "k", 5): ("one 12", "one 12"),
        ("divergence", "h", None): (None, "opened again"),
        ("divergence", "k", None): (None, "other 12"),
    }
    assert {key: found.get(key) for key in expected} == expected


def test_an_event_names_the_first_record_that_shows_it(rows_of, segments):
    rows = rows_of(explain, explain.Parameters())
    rows = [row for row in rows if row["event"] not in explain.SUMMARIES]
    check_places(rows, segments)
    names = {offset: name for name, offset in offsets().items()}
    found = {(row["event"], row["group_id"], names.get(row["log_offset"])) for row in rows}
    assert found >= {
        ("generation", "g", "life of g"),
        ("rewind", "g", "the rewind"),
        ("offsets_removed", "g", "the removal"),
        ("empty", "h", "h is empty"),
        ("reset", "h", "the reset"),
        ("commits", "h", "before the reset"),
        ("commits", "k", "both 0"),
    }
