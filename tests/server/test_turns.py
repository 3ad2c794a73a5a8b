"""Connections with large responses write their slices in turn."""

from coterie.server.net.backlog import TURN_BYTES, Turns


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
