"""The positions of a stream: log offsets to bytes and back, in a log that grows and is cleaned."""

import gzip
import json
import os
import shutil
import tempfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie import CoterieError
from coterie._core.codec.batch import LogReader
from coterie.errors import LogError
from coterie.log.copy_state import CopyState, write_copy_state
from coterie.log.folders import Segment
from coterie_spark.source import positions
from coterie_spark.source.positions import LogPositions
from support.growing_log import GrowingLog
from support.stream_logs import advance, log_of_segments, read, some_batch

pytest.importorskip("pyarrow")

TORN = st.integers(1, 30)
STEPS = st.lists(
    st.tuples(st.just("append"), st.integers(1, 3), st.just(0) | TORN)
    | st.tuples(st.just("roll"))
    | st.tuples(st.just("trigger"), st.none() | st.integers(1, 400), st.booleans()),
    max_size=30,
)


@given(STEPS)
def test_pieces_of_any_triggers_join_to_the_whole_batches_of_the_log(steps):
    with tempfile.TemporaryDirectory() as home:
        broker, log = GrowingLog(home), LogPositions([home])
        position, offset, taken = {}, 0, b""
        for kind, *arguments in [*steps, ("trigger", None, False)]:
            if kind == "append":
                broker.append(some_batch(offset, arguments[0]), arguments[1])
                offset += arguments[0]
            elif kind == "roll":
                broker.roll(offset)
            else:
                max_bytes, is_restart = arguments
                log = LogPositions([home]) if is_restart else log
                after = advance(log, position, max_bytes)
                pieces = log.pieces(position, after)
                assert LogPositions([home]).pieces(position, after) == pieces
                assert (after == position) == (not pieces)
                assert all(piece.start < piece.end for piece in pieces)
                taken, position = taken + read([home], pieces), after
                assert broker.whole.startswith(taken)
        assert taken == broker.whole


def test_a_limit_is_shared_and_each_partition_yields_a_batch(tmp_path):
    size = len(some_batch(0))
    for number, count in enumerate([20, 2, 20]):
        broker = GrowingLog(tmp_path, number)
        for offset in range(count):
            broker.append(some_batch(offset))
    log = LogPositions([tmp_path])
    assert advance(log, {}, 12 * size) == {"0": 5, "1": 2, "2": 5}
    assert advance(log, {"0": 5, "1": 2, "2": 5}, 1) == {"0": 6, "1": 2, "2": 6}


@pytest.mark.parametrize("window", [1, positions.LEAST_WINDOW])
def test_headers_are_of_the_batches_within_a_limit_and_tell_whether_that_is_all(
    tmp_path, monkeypatch, window
):
    """A window that ends with the file does not show that there is no more."""
    monkeypatch.setattr(positions, "LEAST_WINDOW", window)
    broker, log = GrowingLog(tmp_path), LogPositions([tmp_path])
    for offset in range(4):
        broker.append(some_batch(offset))
    size = len(some_batch(0))
    ((segment,),) = log.segments().values()
    for start in range(4):
        for limit in range(0, 5 * size, size // 2):
            headers, is_end = positions.headers_from(segment, start * size, limit)
            count = min(max(limit // size, 1), 4 - start)
            assert headers["position"].tolist() == [n * size for n in range(start, start + count)]
            is_all = start + count == 4
            assert is_end == is_all or (is_all and window == 1)


def test_a_batch_larger_than_the_window_is_read_whole(tmp_path, monkeypatch):
    monkeypatch.setattr(positions, "LEAST_WINDOW", 8)
    GrowingLog(tmp_path).append(some_batch(0, 50))
    assert advance(LogPositions([tmp_path]), {}, 1) == {"0": 50}


def test_a_large_range_is_cut_between_batches_and_each_piece_has_its_offsets(tmp_path, monkeypatch):
    monkeypatch.setattr(positions, "SPARK_PIECE_BYTES", 3 * len(some_batch(0)))
    broker = GrowingLog(tmp_path)
    for offset in range(7):
        broker.append(some_batch(offset))
    pieces = LogPositions([tmp_path]).pieces({}, {"0": 7})
    assert [(piece.first, piece.after) for piece in pieces] == [(0, 3), (3, 6), (6, 7)]
    assert read([tmp_path], pieces) == broker.whole


def test_a_piece_that_cleaning_moved_is_found_by_its_offsets(tmp_path):
    """All commits are of one key: only the last one stays."""
    broker = GrowingLog(tmp_path)
    for offset in range(6):
        broker.append(some_batch(offset))
    pieces = LogPositions([tmp_path]).pieces({"0": 2}, {"0": 5})
    broker.roll(6)
    broker.append(some_batch(6))
    broker.clean(0)
    left = [b.last_offset for b in LogReader(read([tmp_path], pieces))]
    assert left == []
    (piece,) = LogPositions([tmp_path]).pieces({"0": 2}, {"0": 6})
    assert [b.last_offset for b in LogReader(read([tmp_path], [piece]))] == [5]


def test_a_moved_piece_is_read_unless_its_segment_is_replaced_once_more(tmp_path, monkeypatch):
    """The cleaner leaves batch 5 of the first segment, at another place."""
    broker = GrowingLog(tmp_path)
    for offset in range(6):
        broker.append(some_batch(offset))
    pieces = LogPositions([tmp_path]).pieces({"0": 2}, {"0": 6})
    broker.roll(6)
    broker.append(some_batch(6))
    broker.clean(0)
    assert read([tmp_path], pieces) == some_batch(5)

    def replaced_then(work, real=positions.settled):
        found = real(work)
        broker.put([(0, some_batch(4)), (6, some_batch(6))])
        return found

    monkeypatch.setattr(positions, "settled", replaced_then)
    with pytest.raises(LogError, match="was replaced while it was read; read it again"):
        read([tmp_path], pieces)


def test_offsets_that_compaction_removed_unread_are_reported(tmp_path, caplog):
    broker = GrowingLog(tmp_path)
    for offset in range(6):
        broker.append(some_batch(offset))
    broker.roll(6)
    broker.append(some_batch(6))
    log = LogPositions([tmp_path])
    log.pieces({"0": 2}, {"0": 7})
    assert not caplog.records
    broker.clean(0)
    log.pieces({"0": 2}, {"0": 7})
    (record,) = caplog.records
    assert "3 of the offsets from 2 to 6 are gone" in record.getMessage()


def test_a_piece_of_a_later_segment_begins_at_the_base_offset_of_that_segment(tmp_path):
    log_of_segments(tmp_path, 2, 3, 1)
    pieces = LogPositions([tmp_path]).pieces({"0": 2}, {"0": 12})
    assert [(piece.first, piece.after) for piece in pieces] == [(2, 4), (4, 10), (10, 12)]


def test_a_place_is_after_the_last_batch_that_ends_before_an_offset(tmp_path):
    log_of_segments(tmp_path, 2, 3)
    size = len(some_batch(0, 2))
    expected = {0: (0, 0), 1: (0, 0), 2: (0, 1), 3: (0, 1), 4: (0, 2)}
    expected |= {6: (1, 1), 7: (1, 1), 8: (1, 2), 9: (1, 2), 10: (1, 3)}
    for is_known in (False, True):
        log = LogPositions([tmp_path])
        if is_known:
            assert log.ends({}) == {"0": 10}  # which marks the last batch of a file
        for offset, (index, batches) in expected.items():
            (segments,) = log.segments().values()
            assert log.locate(segments, offset) == (index, batches * size), offset


def test_a_limit_holds_across_segments(tmp_path):
    log_of_segments(tmp_path, 2, 2)
    size = len(some_batch(0, 2))
    for batches, after in ((1, 2), (2, 4), (3, 6), (4, 8)):
        assert advance(LogPositions([tmp_path]), {}, batches * size) == {"0": after}


def test_a_limit_is_for_partitions_with_new_batches_alone(tmp_path):
    """One has only bytes that are no whole batch yet, another a single new batch."""
    size = len(some_batch(0))
    for number, count in enumerate([4, 1, 1]):
        broker = GrowingLog(tmp_path, number)
        for offset in range(count):
            broker.append(some_batch(offset))
    broker.append(some_batch(1, 50), torn=1)
    log = LogPositions([tmp_path])
    assert advance(log, {"2": 1}, 2 * size) == {"0": 1, "1": 1, "2": 1}
    assert advance(log, {"1": 1, "2": 1}, 4 * size) == {"0": 4, "1": 1, "2": 1}


def test_a_partition_without_a_batch_has_no_end(tmp_path):
    GrowingLog(tmp_path)
    assert LogPositions([tmp_path]).ends({}) == {}


def test_an_empty_file_without_an_offset_in_its_name_does_not_hide_those_before(tmp_path):
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    (folder / "a.log").write_bytes(some_batch(0, 3))
    (folder / "b.log").touch()
    log = LogPositions([tmp_path])
    assert log.ends({"0": 0}) == {"0": 3}
    assert read([tmp_path], log.pieces({}, {"0": 3})) == some_batch(0, 3)


def test_files_without_offsets_in_their_names_are_read_one_after_another(tmp_path):
    folder = tmp_path / "__consumer_offsets-2"
    folder.mkdir()
    batches = [some_batch(offset, 2) for offset in range(0, 10, 2)]
    for name, some in (("a", batches[:2]), ("b", batches[2:]), ("c", [])):
        (folder / f"{name}.log").write_bytes(b"".join(some))
    log = LogPositions([tmp_path])
    assert log.ends({}) == {"2": 10}
    for start, places in ((0, [(0, 4), (4, 10)]), (2, [(2, 4), (4, 10)]), (6, [(6, 10)])):
        pieces = log.pieces({"2": start}, {"2": 10})
        assert [(piece.first, piece.after) for piece in pieces] == places
        assert read([tmp_path], pieces) == b"".join(batches[start // 2 :])
    assert advance(log, {"2": 2}, len(batches[0]) * 2) == {"2": 6}


@pytest.mark.parametrize(
    ("base", "expected"),
    [
        (100, [100, 100, 100, 100 + 2**31 - 1, 100 + 2**31 - 1]),
        (None, [100, 100, 100 + 2**31, 100 + 2**31, 100 + 2**31]),
    ],
)
def test_a_batch_is_at_most_31_bits_behind_the_first_offset_of_its_segment(base, expected):
    """A damaged one repeats the offset before it."""
    last = [100, 99, 100 + 2**31, 100 + 2**31 - 1, 7]
    headers = np.array([(offset,) for offset in last], dtype=[("last_offset", np.int64)])
    segment = Segment("x.log", 0, base, 1, None)
    assert positions.places(headers, segment, 50).tolist() == expected
    assert positions.places(headers[1:2], segment, 50).tolist() == [99 if base is None else 50]


@pytest.mark.parametrize("map_from", [1, 1 << 20])
def test_a_range_of_a_file_has_its_bytes_whether_they_are_mapped_or_read(
    tmp_path, monkeypatch, map_from
):
    monkeypatch.setattr(positions, "MAP_FROM_BYTES", map_from)
    body = bytes(range(200))
    (tmp_path / "x.log").write_bytes(body)
    segment = Segment(str(tmp_path / "x.log"), 0, 0, len(body), None)
    for start, end in ((0, None), (0, 7), (3, 7), (3, None), (190, 250)):
        assert bytes(positions.read_range(segment, start, end)) == body[start:end]


def test_a_log_that_is_renamed_again_and_again_is_given_up_after_some_attempts():
    attempts = []

    def renamed():
        attempts.append(len(attempts))
        raise LogError("x.log: gone") from FileNotFoundError()

    with pytest.raises(LogError, match="gone"):
        positions.settled(renamed)
    assert len(attempts) == positions.ATTEMPTS


def test_a_position_behind_the_end_of_the_log_is_refused(tmp_path):
    GrowingLog(tmp_path).append(some_batch(0))
    with pytest.raises(CoterieError, match="ends at offset 1, but was read up to 5: it was trunc"):
        LogPositions([tmp_path]).ends({"0": 5})


def test_a_partition_that_is_gone_is_refused(tmp_path):
    GrowingLog(tmp_path).append(some_batch(0))
    with pytest.raises(CoterieError, match="partition 3 is gone from"):
        LogPositions([str(tmp_path)]).ends({"3": 5})


def test_an_empty_new_segment_ends_where_its_name_says(tmp_path):
    broker = GrowingLog(tmp_path)
    broker.append(some_batch(0))
    broker.roll(9)
    assert LogPositions([tmp_path]).ends({"0": 9}) == {"0": 9}


def test_a_compressed_segment_has_the_same_positions(tmp_path):
    broker = GrowingLog(tmp_path)
    for offset in range(4):
        broker.append(some_batch(offset))
    broker.roll(4)
    broker.append(some_batch(4))
    first = min(broker.folder.glob("*.log"))
    first.with_name(first.name + ".gz").write_bytes(gzip.compress(first.read_bytes()))
    first.unlink()
    log, position, taken = LogPositions([tmp_path]), {}, b""
    for _ in range(5):
        after = advance(log, position, 1)
        taken, position = taken + read([tmp_path], log.pieces(position, after)), after
    assert (position, taken) == ({"0": 5}, broker.whole)
    (piece,) = log.pieces({"0": 4}, {"0": 5})  # none without bytes, for the compressed one
    assert read([tmp_path], [piece]) == some_batch(4)


def test_an_offset_that_cannot_be_right_moves_no_position(tmp_path):
    broker = GrowingLog(tmp_path)
    broker.append(some_batch(0))
    broker.append(some_batch(1 << 40))
    assert LogPositions([tmp_path]).ends({}) == {"0": 1}
    broker.append(some_batch(2))
    log = LogPositions([tmp_path])
    assert log.ends({}) == {"0": 3}
    assert read([tmp_path], log.pieces({"0": 1}, {"0": 3})) == some_batch(2)


def test_a_log_whose_files_are_renamed_meanwhile_is_listed_again(tmp_path, monkeypatch):
    broker = GrowingLog(tmp_path)
    broker.append(some_batch(0))
    calls = []

    def vanishing(path, *arguments, real=os.access):
        calls.append(path)
        return real(path, *arguments) if len(calls) > 1 else os.stat(f"{path}.gone") and False

    monkeypatch.setattr(os, "access", vanishing)
    assert LogPositions([tmp_path]).ends({}) == {"0": 1}
    assert len(calls) > 1


def test_a_partition_that_goes_between_two_listings_is_named(tmp_path):
    for number in range(2):
        GrowingLog(tmp_path, number).append(some_batch(0))
    log, ends = LogPositions([str(tmp_path)]), {"0": 1, "1": 1}
    assert log.ends({}) == ends
    pieces = log.pieces({}, ends)
    shutil.rmtree(tmp_path / "__consumer_offsets-1")
    for listed_again in (
        lambda: log.ends(ends),
        lambda: log.advance({}, ends, 1 << 20),
        lambda: log.pieces({}, ends),
        lambda: read([str(tmp_path)], pieces),
    ):
        with pytest.raises(CoterieError, match="partition 1 is gone from"):
            listed_again()


def test_a_file_that_the_cleaner_wrote_larger_under_its_name_is_read_from_its_start(tmp_path):
    """Where the last known batch was, the new file has the middle of a batch."""
    broker = GrowingLog(tmp_path)
    broker.append(some_batch(0))
    broker.append(some_batch(1))
    log = LogPositions([tmp_path])
    assert log.ends({}) == {"0": 2}
    broker.active.write_bytes(some_batch(0, 200))
    assert log.ends({}) == {"0": 200}
    (piece,) = log.pieces({"0": 2}, {"0": 200})
    assert (piece.start, piece.end) == (0, len(some_batch(0, 200)))


def test_a_stream_that_is_to_end_reads_only_what_was_there_then(tmp_path):
    """Trigger.AvailableNow: neither newer batches nor partitions that come later."""
    reader = pytest.importorskip("coterie_spark.source.stream_reader", reason="needs pyspark")
    first = GrowingLog(tmp_path, 3)
    first.append(some_batch(0, 2))
    stream = reader.StreamPositions([str(tmp_path)], None, None)
    stream.prepare()
    first.append(some_batch(2, 3))
    GrowingLog(tmp_path, 4).append(some_batch(0, 3))
    assert stream.advance({}, None) == {"3": 2, "4": 0}
    assert stream.latest == {"3": 5, "4": 3}
    assert stream.advance({"3": 5}, None) == {"3": 5, "4": 0}  # a restart was further already
    assert reader.StreamPositions([str(tmp_path)], None, None).advance({}, 1) == {"3": 2, "4": 3}


def by_broker(folder, topic_id):
    (folder / "partition.metadata").write_text(f"version: 0\ntopic_id: {topic_id}")


def by_fetch(folder, topic_id):
    write_copy_state(folder, CopyState("__consumer_offsets", 3, "c", topic_id, 0, 77, 0))


def unknown(folder, topic_id):
    (folder / "partition.metadata").unlink(missing_ok=True)


@pytest.mark.parametrize("name", [by_broker, by_fetch])
@pytest.mark.parametrize("batches", [1, 2, 5])  # shorter than what was read, as long, longer
def test_a_topic_that_was_made_again_is_refused_however_long_its_log_is(tmp_path, name, batches):
    """Its records were read on from the old position, and the first ones left out."""
    reader = pytest.importorskip("coterie_spark.source.stream_reader", reason="needs pyspark")
    ids = ["old-" + "A" * 18, "new-" + "A" * 18]
    broker = GrowingLog(tmp_path, 3)
    broker.append(some_batch(0, 2))
    name(broker.folder, ids[0])
    GrowingLog(tmp_path, 4).append(some_batch(0, 1))  # without an id
    stream = reader.StreamPositions([str(tmp_path)], None, None)
    first = stream.advance({}, None)
    assert first == {"3": 2, "4": 1, "topic_ids": {"3": ids[0]}}
    first = json.loads(json.dumps(first))  # as Spark stores it
    assert json.dumps(stream.advance(first, None)) == json.dumps(first)  # else a batch is due
    broker.append(some_batch(2, 1))
    same = stream.advance(first, None)
    assert [(piece.first, piece.after) for piece in stream.pieces(first, same)] == [(2, 3)]
    assert len(stream.pieces({"3": 2}, same)) == 2  # positions of before had no ids

    shutil.rmtree(broker.folder)
    broker = GrowingLog(tmp_path, 3)
    broker.append(some_batch(0, batches))
    name(broker.folder, ids[1])
    again = reader.StreamPositions([str(tmp_path)], None, None)
    anew = again.advance({}, None)
    says = f"partition 3 in .*again .topic id {ids[0]}, now {ids[1]}.; start with a new checkpoint"
    for work in (
        lambda: again.advance(first, None),
        lambda: again.advance(first, 1),
        lambda: again.pieces(first, same),  # a batch that is repeated
        lambda: again.pieces(first, anew),  # before Spark 4.2 an end does not know the start
    ):
        with pytest.raises(LogError, match=says) as refused:
            work()
        assert "\n" not in str(refused.value)
    unknown(broker.folder, None)
    if name is by_broker and batches > 1:  # without an id nothing is known to be another
        assert again.advance(first, None) == first | {"3": batches}
