"""The model of the cleaner against logs that a real broker has compacted."""

import gzip
import struct

import pytest

from coterie._core.codec.batch import LogReader, encode_batch, encode_marker
from support import golden_data
from support.cleaner import clean

INCIDENTS = ("compaction", "compaction-transactions")
PLACES = [(name, partition) for name in INCIDENTS for partition in range(4)]


def segments_of(folder, partition):
    """(base offset, bytes) of each segment, the compressed ones too."""
    segments = []
    for path in sorted((folder / f"__consumer_offsets-{partition}").glob("*.log*")):
        data = path.read_bytes()
        data = gzip.decompress(data) if path.suffix == ".gz" else data
        segments.append((int(path.name.partition(".")[0]), data))
    return segments


def until(segments, time_ms):
    """The parts of the segments that were written up to a time."""
    for base, data in segments:
        ends = [b.position + b.size for b in LogReader(data) if b.max_timestamp <= time_ms]
        if ends or base == 0:
            yield base, data[: max(ends, default=0)]


def cleaned_as_recorded(whole, truth, partition):
    """Clean a whole log at the times and up to the offsets that the broker logged."""
    log, end, settings = whole, 0, truth["settings"]
    for cleaning in truth["cleanings"]:
        if cleaning["partition"] != partition:
            continue
        then = [segment for segment in log if segment[0] < end]
        then += until([s for s in whole if s[0] >= end], cleaning["at_ms"])
        assert cleaning["from"] == end
        then, end = clean(
            then,
            end,
            now_ms=cleaning["at_ms"],
            delete_retention_ms=int(settings["log.cleaner.delete.retention.ms"]),
            segment_bytes=int(settings["offsets.topic.segment.bytes"]),
        )
        assert cleaning["to"] == end
        log = [s for s in then if s[0] < end] + [s for s in whole if s[0] >= end]
    return log


def batches_of(data):
    """Each batch without its place, sum and horizon; and its horizon."""
    for batch in LogReader(data):
        yield batch._replace(position=0, crc=0, base_timestamp=0, delete_horizon=None)


def horizons_of(data):
    return [batch.delete_horizon for batch in LogReader(data)]


@pytest.mark.parametrize(("name", "partition"), PLACES)
def test_it_leaves_what_the_broker_left_batch_by_batch(name, partition):
    folder, truth = golden_data.incident(name), golden_data.truth(name)
    expected = segments_of(folder / "compacted", partition)
    found = cleaned_as_recorded(segments_of(folder / "whole", partition), truth, partition)
    assert [base for base, _ in found] == [base for base, _ in expected]
    for (_, ours), (_, kafkas) in zip(found, expected, strict=True):
        assert list(batches_of(ours)) == list(batches_of(kafkas))
        for one, other in zip(horizons_of(ours), horizons_of(kafkas), strict=True):
            # The line in the broker's log is written a little after it has looked at the clock.
            assert one is other is None or abs(one - other) <= 100


def test_a_batch_is_rewritten_as_kafkas_own_classes_write_it():
    """Rules: docs/rules/log-format.md#compaction."""
    producer = {"producer_id": 77, "producer_epoch": 4}
    first = [(10, 1000, b"a", b"1"), (11, 1001, b"b", None), (12, 1002, b"c", b"3")]
    cleaned = [
        encode_batch(first, 10, **producer, base_sequence=0, transactional=True),
        encode_marker(True, 77, 4, timestamp_ms=1002, base_offset=13),
        encode_batch([(14, 1003, b"a", b"1"), (15, 1003, b"c", b"1")], 14),
    ]
    active = encode_batch([(16, 1004, b"d", b"1")], 16)
    log = [(10, b"".join(cleaned)), (16, active)]
    found, end = clean(log, now_ms=50_000, delete_retention_ms=1000)
    assert end == 16
    assert found[1] == (16, active)
    batch = next(LogReader(found[0][1]))
    data = found[0][1][: batch.size]
    header = struct.unpack(">hiqqqhii", data[21:61])
    assert header == (0x50, 2, 0xC738, 1001, 77, 4, 0, 1)
    assert data[61:].hex() == "12009d8d060202620100"
