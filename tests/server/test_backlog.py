"""Large responses that wait: slices have all bytes once and in order, and each byte is counted."""

from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.server.net.backlog import TURN_BYTES, Backlog, Turns
from coterie.server.services.data.records import RecordRange
from coterie.server.services.data.segment import StoredBatch
from coterie.server.unsent import Unsent

COPIED = st.binary(min_size=1, max_size=30)
STORED = st.tuples(
    st.lists(st.binary(min_size=1, max_size=3000), min_size=1, max_size=4), st.integers(0, 50)
)
STEPS = st.lists(
    st.lists(COPIED | STORED, min_size=1, max_size=4)  # a response
    | st.integers(1, 4000)  # a slice of at most so many bytes
    | st.sampled_from(["settle", "clear"]),
    max_size=20,
)


def stored(blobs, left_out):
    """The batches as a range, without some bytes of the last one; and these bytes."""
    batches, position = [], 700
    for number, blob in enumerate(blobs):
        batches.append(StoredBatch(number, number, position, 0, 0, False, blob))
        position += len(blob)
    size = max(position - 700 - left_out, position - 700 - len(blobs[-1]) + 1)
    return RecordRange(batches, size), b"".join(blobs)[:size]


@settings(max_examples=150)
@given(STEPS)
def test_slices_have_each_byte_once_and_bytes_count_until_the_transport_has_sent_them(steps):
    unsent = Unsent()
    backlog = Backlog(unsent)
    waiting = []  # the bytes of each part, and whether they were copied
    taken_copied = 0
    for step in steps:
        if isinstance(step, list):
            parts = []
            for part in step:
                is_copied = isinstance(part, bytes)
                made, data = (part, part) if is_copied else stored(*part)
                parts.append(made)
                waiting += [(data[at : at + 1], is_copied) for at in range(len(data))]
            backlog.add(parts)
        elif isinstance(step, int):
            taken = b"".join(backlog.take(step))
            assert len(taken) <= step
            assert bool(taken) == bool(waiting)
            expected, waiting = waiting[: len(taken)], waiting[len(taken) :]
            assert taken == b"".join(byte for byte, _ in expected)
            # what was encoded for a response goes as a whole part, when its last byte is taken
            taken_copied += sum(is_copied for _, is_copied in expected)
        elif step == "settle":
            backlog.settle()
        else:
            backlog.clear()
            waiting.clear()
            assert (unsent.stored, unsent.copied) == (0, 0)
        assert backlog.size == len(waiting)
        assert unsent.stored == sum(not is_copied for _, is_copied in waiting)
        assert unsent.copied >= sum(is_copied for _, is_copied in waiting)
    while backlog.take(1 << 20):
        pass
    backlog.settle()
    assert (backlog.size, unsent.stored, unsent.copied) == (0, 0, 0)


class Writer:
    """A connection with a number of slices of a size."""

    def __init__(self, name, slices, size, log):
        self.name, self.slices, self.size, self.log = name, slices, size, log

    def write_slice(self):
        if not self.slices:
            return 0
        self.slices -= 1
        self.log.append(self.name)
        return self.size


def test_connections_write_in_turn_and_a_bounded_number_of_bytes_in_an_iteration():
    soon, log = [], []
    turns = Turns(soon.append)
    size = TURN_BYTES // 4
    for name in "abc":
        writer = Writer(name, 3, size, log)
        turns.add(writer)
        turns.add(writer)  # it has one turn all the same
    iterations = []
    while soon:
        (run,) = soon
        soon.clear()
        before = len(log)
        run()
        iterations.append("".join(log[before:]))
    assert "".join(log) == "abc" * 3
    assert all(len(each) * size <= TURN_BYTES for each in iterations)
    assert len(iterations) <= 5
    # a connection that had to wait has turns again
    writer.slices = 1
    turns.add(writer)
    (run,) = soon
    run()
    assert log[-1] == "c"
    assert len(log) == 10
