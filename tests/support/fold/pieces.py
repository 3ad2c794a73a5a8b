"""Logs in pieces: scanned one after another, or cut anywhere and merged in any association."""

import functools
import random

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from coterie import PartialState, merge, scan
from coterie._core.codec.batch import batch_boundaries
from support.golden_data import segments
from support.history_model import commits_of

MODES = ("skip", "recover", "load", "stop")
slow = settings(deadline=None, suppress_health_check=list(HealthCheck))


def one_scan(pieces, options):
    """``pieces``: (partition, file, bytes) each, in log order within a partition."""
    state = PartialState(options)
    for partition, file, data in pieces:
        state.fold(partition).scan(data, file=file)
    return state


def what_it_says(state):
    """Everything that a reader of a state can see, but for the sizes of the scanned pieces."""
    return {
        "groups": state.groups(),
        "partitions": {
            number: {
                "faults": fold.faults,
                "generations": {group: log.generations() for group, log in fold.groups.items()},
                "newer": fold.newer,
                "unknown": fold.unknown,
                "history": None if fold.history is None else history_of(fold),
                "ends": (fold.failed, fold.cut, fold.stopped),
                "keys": fold.key_count if not (fold.cut or fold.stopped or fold.failed) else None,
            }
            for number, fold in state.partitions.items()
        },
    }


def history_of(fold):
    """What is decided and what is not: (commit, outcome) each."""
    return commits_of(fold.history), commits_of(fold.history.pending())


def subsets(places):
    """Some of the places, seldom all."""
    if not places:
        return st.just(set())
    return st.sets(st.sampled_from(places), max_size=6) | st.just(set(places[:24]))


def cut_and_merged(draw, pieces, options):
    """The same log scanned in pieces, put together two neighbours at a time."""
    parts = []
    for partition, file, data in pieces:
        places = batch_boundaries(data, 1)[1:-1]
        cuts = sorted(draw(subsets(places)))
        for start, end in zip([0, *cuts], [*cuts, len(data)], strict=True):
            where = {"partition": partition, "file": file, "position": start}
            parts.append(scan(data[start:end], options=options, **where))
    # Hundreds of draws would cost more than the merges do.
    chosen = random.Random(draw(st.integers(0, 2**32)))
    while len(parts) > 1:
        at = chosen.randrange(len(parts) - 1)
        both = parts[at : at + 2]
        if chosen.random() < 0.5:
            both = [PartialState.from_bytes(part.to_bytes()) for part in both]
        parts[at : at + 2] = [merge(both)]
    return parts[0]


@functools.cache
def pieces_of(case):
    return [
        (int(path.parent.name.rpartition("-")[2]), path.name, path.read_bytes())
        for path in segments(case)
    ]


@st.composite
def damaged(draw, case):
    """The log of a case with one segment damaged anywhere: a byte, an end, or something put in."""
    pieces = list(pieces_of(case))
    index = draw(st.sampled_from([i for i, piece in enumerate(pieces) if piece[2]]))
    partition, file, data = pieces[index]
    at = draw(st.integers(0, len(data) - 1))
    # Headers are few bytes among many, so half of the damage is put near a batch's beginning.
    starts = batch_boundaries(data, 1)[:-1]
    at = draw(st.just(at) | st.builds(int.__add__, st.sampled_from(starts), st.integers(0, 60)))
    at = min(at, len(data) - 1)
    kind = draw(st.sampled_from(["byte", "end", "put in"]))
    if kind == "byte":
        data = data[:at] + bytes([data[at] ^ draw(st.integers(1, 255))]) + data[at + 1 :]
    elif kind == "end":
        data = data[:at]
    else:
        data = data[:at] + draw(st.sampled_from([bytes(40), b"\xff" * 7, data[:99]])) + data[at:]
    pieces[index] = (partition, file, data)
    return pieces
