"""Ranges of a log's batches: the bytes of each slice, and which of them are the stored ones."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.server.services.adjacent_batches import RecordRange, records_of
from coterie.server.services.segment import StoredBatch
from support.examples import examples

LARGE = st.integers(2_000, 5_000)  # bytes of a batch that is referenced


def stored(sizes, position=700):
    batches = []
    for number, size in enumerate(sizes):
        data = bytes([number + 1]) * size
        batches.append(StoredBatch(number, number, position, 0, 0, False, data))
        position += size
    return batches


@given(st.lists(LARGE, min_size=1, max_size=6), st.data())
@settings(max_examples=examples(100))
def test_slices_are_the_bytes_in_order_and_whole_batches_are_the_stored_ones(sizes, data):
    batches = stored(sizes)
    size = data.draw(st.integers(sum(sizes[:-1]) + 1, sum(sizes)))
    whole = b"".join(batch.data for batch in batches)[:size]
    found = RecordRange(batches, size)
    assert (len(found), bytes(found), b"".join(found)) == (size, whole, whole)
    start = 0
    while start < size:
        most_bytes = data.draw(st.integers(1, 12_000))
        most = data.draw(st.integers(1, 4))
        buffers = found.buffers(start, most_bytes, most)
        sent = b"".join(buffers)
        assert len(buffers) <= most
        assert 0 < len(sent) <= most_bytes
        assert sent == whole[start : start + len(sent)]
        if len(buffers) < most:
            assert len(sent) == min(most_bytes, size - start)
        kept = {id(batch.data) for batch in batches}
        for buffer in buffers:
            if any(buffer == batch.data for batch in batches):
                assert id(buffer) in kept
        start += len(sent)


def test_small_batches_are_joined():
    batches = stored([100] * 50)
    found = RecordRange(batches, 4_950)
    assert found.buffers(0, 1_000_000, 1) == [bytes(found)]
    assert found.buffers(120, 1_000, 1) == [bytes(found)[120:1_120]]


@pytest.mark.parametrize(("size", "is_copied"), [(1 << 14, True), ((1 << 14) + 1, False)])
def test_few_bytes_are_copied_and_many_are_referenced(size, is_copied):
    batches = stored([20_000])
    found = records_of(batches, size)
    assert isinstance(found, bytes) == is_copied
    assert bytes(found) == batches[0].data[:size]
