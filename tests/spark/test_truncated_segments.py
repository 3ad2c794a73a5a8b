"""Spark's workers, when a mapped segment is truncated while they read it. No session."""

import os
import shutil

import pytest

from coterie.errors import LogError
from coterie.log.folders import find_segments, read_segment
from coterie.state.partial import ScanOptions
from support import golden_data

pytest.importorskip("pyarrow")
scanning = pytest.importorskip("coterie_spark.replay_job.scanning")
from coterie.state.decoded import record_batches  # noqa: E402
from coterie_spark.replay_job import cutting  # noqa: E402
from coterie_spark.replay_job.plan import pieces_of  # noqa: E402

TRUNCATED = "was truncated while it was read"


@pytest.fixture
def segment(tmp_path, monkeypatch):
    monkeypatch.setattr("coterie.log.folders.MAP_FROM_BYTES", 1)
    folder = tmp_path / "__consumer_offsets-5"
    folder.mkdir()
    shutil.copy(golden_data.segments("basic")[0], folder / f"{0:020}.log")
    (segment,) = find_segments([tmp_path]).segments
    return segment


def truncated_bytes(segment):
    data = memoryview(read_segment(segment))
    os.truncate(segment.path, 0)
    return data


def test_a_unit_of_a_replay_is_an_error(segment):
    with pytest.raises(LogError, match=TRUNCATED):
        scanning.scan_unit(pieces_of([segment], {}), ScanOptions(), truncated_bytes)


def test_the_cuts_of_a_segment_are_one_row_with_the_error(segment):
    ((index, *cut, error),) = cutting.cut_rows(3, truncated_bytes, segment, 4096)
    assert (index, cut) == (3, [None, None, None])
    assert TRUNCATED in error


def test_the_rows_of_the_data_source_are_an_error(segment):
    data = truncated_bytes(segment)
    with pytest.raises(LogError, match=TRUNCATED):
        list(record_batches(data, partition=5, segment="s"))
