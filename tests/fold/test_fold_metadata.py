"""The memory that the keys' metadata takes: by what lived at once, however often it changes."""

import random

import pytest

from coterie import PartialState, ScanOptions
from coterie._core.codec.batch import encode_batch
from support.log_writer import batch, commit

KEYS = 40
SIZES = (0, 1, 7, 90, 1000, 4000)
PIECES = 60
PER_PIECE = 50
CODECS = {"plain": None, "gzip": 1}  # what is compressed is copied record by record


def piece_of(chosen, base_offset):
    """Some commits, and what each leaves as its key's metadata; None: it takes the key away."""
    commits, records = [], []
    for at in range(PER_PIECE):
        partition, size = chosen.randrange(KEYS), chosen.choice(SIZES)
        metadata = bytes([97 + chosen.randrange(26)]) * size
        time, key, value = commit(5, base_offset + at, partition=partition, metadata=metadata)
        if chosen.random() < 0.1:
            value = metadata = None
        commits.append((partition, metadata))
        records.append((time, key, value))
    return commits, records


def as_batch(base_offset, records, codec):
    if codec is None:
        return batch(base_offset, records)
    rows = [(base_offset + at, *record) for at, record in enumerate(records)]
    return encode_batch(rows, base_offset, codec=codec)


def metadata_of(state):
    return {
        one["partition"]: one["metadata"].encode()
        for group in state.groups()
        for one in group["offsets"]
    }


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("seed", range(3))
def test_metadata_that_changes_often_takes_a_small_multiple_of_what_lived_at_once(codec, seed):
    chosen = random.Random(seed)
    state, last = PartialState(ScanOptions()), {}
    fold = state.fold(0)
    most = alive = written = 0
    for number in range(PIECES):
        commits, records = piece_of(chosen, number * PER_PIECE)
        fold.scan(as_batch(number * PER_PIECE, records, CODECS[codec]))
        for partition, metadata in commits:
            alive -= len(last.pop(partition, b""))
            if metadata is not None:
                last[partition] = metadata
                alive += len(metadata)
                written += len(metadata)
            most = max(most, alive)
        assert metadata_of(state) == last
        assert fold.metadata_bytes <= 4 * most + 16 * KEYS + 4096
    assert written > 20 * most  # so that much of it died


def test_metadata_of_pieces_that_are_put_together_stays_as_bounded():
    chosen = random.Random(7)
    whole, last = PartialState(ScanOptions()), {}
    for number in range(PIECES):
        commits, records = piece_of(chosen, number * PER_PIECE)
        later = PartialState(ScanOptions())
        later.fold(0).scan(as_batch(number * PER_PIECE, records, None))
        whole.absorb(later)
        for partition, metadata in commits:
            last.pop(partition, None)
            if metadata is not None:
                last[partition] = metadata
        assert metadata_of(whole) == last
        assert whole.fold(0).metadata_bytes <= 4 * KEYS * max(SIZES) + 16 * KEYS + 4096
    assert metadata_of(PartialState.from_bytes(whole.to_bytes())) == last


def test_a_log_without_metadata_takes_no_memory_for_it():
    state = PartialState(ScanOptions())
    state.fold(0).scan(batch(0, [commit(5, partition=n) for n in range(100)]))
    assert state.fold(0).metadata_bytes == 0
