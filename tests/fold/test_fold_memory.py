"""The C memory of folds, columns and scans: freed with them, never read before it is written."""

import os
import subprocess
import sys
from pathlib import Path

from coterie._core.codec.batch import encode_batch
from coterie._core.fold.columns import decode_columns
from coterie._core.fold.fold import PartitionFold, absorb, dump, restore
from coterie._core.fold.record_scan import RecordScan
from support.c_memory import left_by
from support.fold.readings import digest, made
from support.log_writer import batch, commit, marker

SMALL = made(8)
TRACKED = {"history": True, "survey": True, "tracking": (None, None, None)}


def folded(**options):
    fold = PartitionFold(**options)
    fold.scan(SMALL)
    return fold


def restored():
    fold = PartitionFold(history=True)
    restore(fold, dump(folded(history=True)))


def merged():
    fold = folded(**TRACKED)
    absorb(fold, folded(**TRACKED))


def test_what_was_allocated_is_freed():
    uses = {
        "an empty fold": lambda: PartitionFold(**TRACKED),
        "a fold": folded,
        "a fold of some groups": lambda: folded(only=["group-1"], **TRACKED),
        "a cleared history": lambda: folded(history=True).history.clear(),
        "a restored fold": restored,
        "a merged fold": merged,
        "columns": lambda: decode_columns(SMALL, raw=True),
        "an empty scan": RecordScan,
        "a scan of a group": lambda: RecordScan(groups=["group-1"]).scan(SMALL),
    }
    for name, use in uses.items():
        assert left_by(use) < 500, name


def test_nothing_is_read_from_memory_that_was_not_written():
    """In the other process the C library fills each block that it gives with another byte."""
    environment = {**os.environ, "MALLOC_PERTURB_": "165", "PYTHONHASHSEED": "0"}
    folders = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, folders))
    program = "from support.fold.readings import digest; print(digest())"
    run = subprocess.run(
        [sys.executable, "-c", program],
        env=environment, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert run.stdout.split() == digest().split()


def test_a_fold_of_many_pieces_takes_no_more_memory_for_metadata_that_comes_again():
    fold = PartitionFold()
    piece = batch(0, [commit(5, metadata=b"the same")])
    assert left_by(lambda: fold.scan(piece), 1500) < 60  # of its list of pieces
    assert fold.metadata_bytes == 4096


def test_what_a_piece_lent_was_copied_before_its_bytes_change():
    """A reader may fill one buffer again and again."""
    fold, buffer = PartitionFold(history=True), bytearray()
    for number in range(6):
        metadata = b"%d" % number * 40
        records = [commit(5, number, partition=n, metadata=metadata) for n in range(number, 7)]
        codec = number % 2  # of a batch that is compressed, each record is copied
        rows = [(number + n, *record) for n, record in enumerate(records)]
        buffer[:] = encode_batch(rows, number, codec=codec)
        fold.scan(buffer)
        buffer[:] = b"\xff" * len(buffer)
    columns, *_ = dump(fold)
    expected = [b"%d" % min(n, 5) * 40 for n in range(7)]
    assert columns["metadata"].tobytes() == b"".join(expected)


def test_states_of_one_log_have_the_same_bytes_wherever_the_log_lay():
    data = batch(0, [commit(5, metadata=b"m"), (6, commit(5)[1], None)], producer_id=4,
                 transactional=True)  # fmt: skip
    data += batch(2, [(7, commit(5, partition=1)[1], None)]) + marker(3, 4, 8, commit=True)
    data += batch(4, [commit(9, metadata=b"m")], producer_id=4, transactional=True)
    states = []
    for _ in range(2):
        fold = PartitionFold(**TRACKED)
        fold.scan(bytes(bytearray(data)))
        columns, _tracks, producers, *_others, history, _, _, _, _, _ = dump(fold)
        arrays = [part.tobytes() if hasattr(part, "tobytes") else part for part in history]
        states.append((producers, arrays, {k: v.tobytes() for k, v in columns.items()}))
    assert states[0] == states[1]
